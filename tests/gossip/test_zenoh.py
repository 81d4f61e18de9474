"""Sites on Zenoh, on one machine: who is a neighbour, who is missed and when, which messages are lost or dropped."""

import contextlib
import signal
import sys
import threading
import time
import types

import pytest
from contract_transport import LEASE, PATIENCE, Processes
from line import Line
from waiting import free_port, wait_for
from zenoh_swarm import MARK, SWARM, publish, router, zenoh

from dimargin.gossip.links import LinkError, Neighbours, Received, Trouble
from dimargin.gossip.tls_certificates import Tls
from dimargin.gossip.zenoh_link import ZenohLink


def test_only_the_neighbours_that_are_wanted_count(swarm):
    a = swarm.join("a", neighbours=("b",))
    swarm.join("b", connect=a.listening)
    swarm.join("c", connect=a.listening)
    swarm.met("b", "c")
    swarm.met("a", "b")
    swarm.links["c"].send("a", b"unwanted")
    wait_for(lambda: a.status()["refused"] == 1)
    swarm.letter("b", "a", b"wanted")
    a.send("c", b"unwanted")
    assert swarm.neighbours("a") == ("b",) and swarm.received("a") == [("b", b"wanted")]
    assert a.status()["dropped"] == {"c": 1}


def test_swarms_that_are_connected_do_not_hear_each_other(swarm):
    a = swarm.join("a")
    other = ZenohLink("b", "other", connect=a.listening, lease=LEASE)
    with contextlib.closing(other):
        other.open(lambda event: None)
        swarm.join("c", connect=other.listening)
        swarm.met("a", "c")
        assert other.neighbours() == () and swarm.neighbours("a") == ("c",)


def test_the_second_site_of_a_name_is_refused(swarm):
    a = swarm.join("a", lease=0.3)
    swarm.join("b", lease=0.3, connect=a.listening)
    # at once if the two are connected by then, which takes longer under load
    with pytest.raises(LinkError, match="swarm w already has a live site named b: names must differ"):
        swarm.join("b", "second", lease=0.3, connect=a.listening)
        wait_for(lambda: swarm.failures("second"))
        raise swarm.failures("second")[0]
    assert not swarm.failures("b")
    swarm.links["second"].close()
    assert swarm.neighbours("a") == ("b",)
    swarm.links["b"].close()
    swarm.join("b", "second", lease=0.3, connect=a.listening)


def test_a_site_whose_name_is_taken_never_shows_a_sign_of_life(swarm, monkeypatch):
    a = swarm.join("a")
    monkeypatch.setattr(ZenohLink, "_is_taken", lambda self: True)
    with pytest.raises(LinkError, match="swarm w already has a live site named b"):
        swarm.join("b", lease=0.1, connect=a.listening)
    assert not any(isinstance(event, Neighbours) for event in swarm.heard["a"])


def test_of_two_sites_of_a_name_whose_networks_meet_the_later_fails(swarm):
    port = free_port()
    first = swarm.join("a", "first", lease=0.3)
    swarm.join("a", "later", lease=0.3, connect=[f"tcp/127.0.0.1:{port}"])
    swarm.join("b", lease=0.3, listen=[f"tcp/127.0.0.1:{port}"], connect=first.listening)
    wait_for(lambda: swarm.failures("later"))
    assert not swarm.failures("first")


def test_a_site_whose_sign_of_life_got_lost_is_met_again(swarm):
    a = swarm.join("a", lease=0.3)
    swarm.join("b", lease=0.3, connect=a.listening)
    swarm.join("c", lease=0.3, connect=a.listening)
    swarm.met("a", "b", "c")
    (mark,) = a._sites.alive["b"]
    lost = types.SimpleNamespace(key_expr=f"{SWARM}/alive/b/{mark}", kind=zenoh.SampleKind.DELETE)
    a._receive_sign_of_life(a._life, lost)
    assert swarm.neighbours("a") == ("c",)
    address = a.listening
    swarm.met("a", "b", "c")
    for sender, to in ("ab", "ba", "ac", "ca"):
        swarm.letter(sender, to, f"after all to {to}".encode())
    assert a.listening == address and not any(swarm.failures(name) for name in "abc")


def test_messages_to_who_is_not_there_are_dropped_and_counted(swarm):
    a = swarm.join("a", lease=0.2)
    a.send("nobody", b"1")
    a.send("nobody", b"2")
    a.send("a", b"to itself")
    wait_for(lambda: a.status()["dropped"] == {"nobody": 2, "a": 1})
    with pytest.raises(ValueError, match="a sends b 65 bytes, expected at most 64"):
        ZenohLink("a", SWARM, largest=64).send("b", bytes(65))


def test_thousands_of_names_fill_no_table(swarm):
    alice = swarm.join("alice")
    session = swarm.intruder(alice.listening, "tcp/127.0.0.1:0")
    tokens = [session.liveliness().declare_token(f"{SWARM}/alive/eve{k}/{MARK}") for k in range(1500)]
    wait_for(lambda: len(swarm.neighbours("alice")) == 1023)  # and herself
    names = [f"{SWARM}/inbox/alice/ghost{k}" for k in range(1500)]
    for name in names:
        publish(session, name, b"boo")
    wait_for(lambda: alice.status()["refused"] >= 1500)
    assert not swarm.received("alice") and alice._sites.count == 1024
    for token in tokens:
        token.undeclare()
    wait_for(lambda: not swarm.neighbours("alice"))
    swarm.join("bob", connect=alice.listening)
    swarm.met("alice", "bob")  # there is room again
    swarm.letter("bob", "alice", b"hello")
    marks = [session.liveliness().declare_token(f"{SWARM}/alive/eve/{k:020d}-1") for k in range(100)]
    wait_for(lambda: "eve" in swarm.neighbours("alice"))
    wait_for(lambda: len(marks) == 100 and len(alice._sites.alive["eve"]) == 16)


def test_lost_messages_are_noticed(swarm):
    a = swarm.join("a")
    swarm.join("b", connect=a.listening)
    swarm.met("a", "b")
    swarm.letter("b", "a", b"1")
    swarm.links["b"]._next_number("a")
    swarm.links["b"]._next_number("a")
    swarm.letter("b", "a", b"2")
    assert [event.lost for event in swarm.heard["a"] if isinstance(event, Received)] == [0, 2]


def test_what_was_sent_last_arrives_before_the_link_closes(swarm):
    a = swarm.join("a")
    for size in (10, 3_000_000):
        b = swarm.join("b", connect=a.listening)
        swarm.met("a", "b")
        for _ in range(20):
            b.send("a", bytes(size))
        b.close()
        wait_for(lambda size=size: swarm.received("a").count(("b", bytes(size))) == 20)


def test_a_receiver_that_is_slow_for_a_while_loses_nothing(swarm):
    gate, heard = threading.Event(), []

    def slow(event):
        gate.wait(PATIENCE)
        if isinstance(event, Received):
            heard.append(int.from_bytes(event.data[:4], "little"))

    a = ZenohLink("a", SWARM, lease=5.0)
    with contextlib.closing(a), contextlib.ExitStack() as stack:
        stack.callback(gate.set)
        a.open(slow)
        b = swarm.join("b", lease=5.0, connect=a.listening)
        waiting, last = 0, time.monotonic()
        for number in range(1000):
            b.send("a", number.to_bytes(4, "little") + bytes(50_000))
            # no more than a few may wait here; once they are stuck the receiver may go on
            while not gate.is_set() and (left := len(b._senders["a"]._pending)) > 20:
                if left != waiting:
                    waiting, last = left, time.monotonic()
                if time.monotonic() > last + 0.2:
                    gate.set()
                time.sleep(0.001)
            wait_for(lambda: len(b._senders["a"]._pending) < 50)
        assert gate.is_set()
        wait_for(lambda: heard[-1] == 999)
        assert heard == list(range(1000)) and not b.status()["dropped"]


@pytest.mark.slow
def test_a_frozen_neighbour_blocks_nobody_is_missed_and_returns(tmp_path):
    world = Processes(tmp_path)

    def seen(name):
        return world.facts(name, "neighbours")[-1]["names"]

    try:
        for name in "abc":
            # more in a lease than the buffers on the way to a frozen site hold
            world.start(name, "Counting", period=0.005, ballast=20_000)
        wait_for(lambda: all(len(seen(name)) == 2 for name in "abc"))
        world.signal("b", signal.SIGSTOP)
        index = len(world.reports("a"))
        wait_for(lambda: seen("a") == ["c"] and seen("c") == ["a"])
        meanwhile = [what for what, _ in world.reports("a")[index:]]
        assert meanwhile[: meanwhile.index("neighbours")].count("counted") >= 10
        world.signal("b", signal.SIGCONT)
        wait_for(lambda: seen("a") == ["b", "c"] and seen("c") == ["a", "b"])
        heard = len(world.reports("a"))
        wait_for(
            lambda: {facts["sender"] for what, facts in world.reports("a")[heard:] if what == "heard"} == {"b", "c"}
        )
        world.signal("b", signal.SIGSTOP)
        assert world.stop("c") == "told to stop"
    finally:
        world.close()


def test_a_link_that_cannot_be_opened_again_is_tried_until_it_can(swarm, monkeypatch):
    for name in "ab":
        swarm.join(name, connect=swarm.links["a"].listening if name == "b" else ())
    swarm.met("a", "b")
    link, open_session, failed = swarm.links["b"], swarm.links["b"]._open_session, []

    def fail():
        if len(failed) < 3:
            failed.append(True)
            raise LinkError("no way")
        return open_session()

    monkeypatch.setattr(link, "_open_session", fail)
    with link._changing:
        link._reopen()
    assert link.neighbours() == () and Trouble("no way") in swarm.heard["b"]
    swarm.met("a", "b")
    wait_for(lambda: swarm.heard["b"][-1] == Trouble("") or Trouble("") in swarm.heard["b"])
    assert len(failed) == 3 and not swarm.failures("b")


@pytest.mark.slow
def test_a_line_that_was_cut_is_opened_again(swarm):
    port = free_port()
    with router(port), contextlib.closing(Line(to=port)) as line:
        for name, way in (("a", port), ("b", line.port)):  # by way of a router, or they would find another one
            swarm.join(name, connect=[f"tcp/127.0.0.1:{way}"], router=True)
        swarm.met("a", "b")
        swarm.letter("a", "b", b"before")
        line.cut()
        wait_for(lambda: not swarm.neighbours("a") and not swarm.neighbours("b"))
        line.mend()
        swarm.met("a", "b")
        swarm.letter("a", "b", b"after")
        swarm.letter("b", "a", b"after")
        swarm.close()


@pytest.mark.slow
def test_many_sites_find_one_another_from_one_address(swarm):
    names = [f"site{number}" for number in range(24)]
    seed = swarm.join(names[0])
    threads = [
        threading.Thread(target=swarm.join, args=(name,), kwargs={"connect": seed.listening}) for name in names[1:]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    swarm.met(*names)
    for number, name in enumerate(names):
        swarm.letter(name, names[number - 1], b"hello")
    last = swarm.links[names[-1]]
    last.close()
    wait_for(lambda: all(names[-1] not in swarm.neighbours(name) for name in names[:-1]))
    assert any(isinstance(event, Neighbours) for event in swarm.heard[names[0]])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name": "a/b"}, "name must begin with a letter or digit .*'a/b'"),
        ({"name": ""}, "name must begin"),
        ({"swarm": "*"}, "swarm must begin"),
        ({"neighbours": ["b", "$c"]}, "neighbours must begin"),
        ({"neighbours": "bc"}, "neighbours must be several names, got the single text 'bc'"),
        ({"lease": 0}, "lease must be more than 0"),
        ({"largest": 0}, "largest must be between"),
        ({"listen": ["tls/127.0.0.1:0"]}, "listen: 'tls/127.0.0.1:0' needs --certificate, --key, --authority and"),
        ({"connect": ["127.0.0.1:7447"]}, "connect: expected an address such as tcp/192.0.2.1:7447, got '127.0"),
        ({"listen": ["tcp/127.0.0.1:77470"]}, "listen: expected an address such as tcp/192.0.2.1:7447, got 'tcp"),
        ({"tls": Tls("c", "k", "a", ["b"]), "connect": ["tcp/127.0.0.1:1"]}, "connect: 'tcp/.*1' is not encrypted"),
        ({"tls": Tls("c", "k", "a", ["b"]), "connect": ["127.0.0.1:1"]}, "connect: expected an address such as tls/"),
        ({"tls": Tls("c", "k", "a", ["a"])}, "allowed must name another site than a"),
        ({"tls": Tls("c", "k", "a", ["b c"])}, "allowed must begin"),
        ({"tls": Tls("c", "k", "a", ["b"]), "router": True, "connect": ["tls/127.0.0.1:1"]}, "tls.router must be"),
        ({"router": True}, "connect must name its address"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        ZenohLink(**{"name": "a", "swarm": SWARM, **options})


def test_an_address_that_is_taken_is_named(swarm):
    a = swarm.join("a")
    with pytest.raises(LinkError, match=rf"site b cannot open its link \({a.listening[0]}\): .*in use"):
        swarm.join("b", listen=a.listening)
    with pytest.raises(LinkError, match="site c cannot open its link"):
        swarm.join("c", router=True, connect=[f"tcp/127.0.0.1:{free_port()}"])


def test_without_zenoh_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "zenoh", None)
    with pytest.raises(ImportError, match=r"pip install 'dimargin\[peers\]'"):
        ZenohLink("a", SWARM)
