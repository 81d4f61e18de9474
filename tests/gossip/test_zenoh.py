"""What Zenoh really does between sites on one machine: who gets in, who can speak as whom, who is missed and when."""

import contextlib
import json
import signal
import socket
import sys
import threading
import time
import types

import pytest
from waiting import free_port, wait_for

zenoh = pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed")

from authority import Authority  # noqa: E402
from contract_transport import LEASE, PATIENCE, Processes  # noqa: E402
from line import Line  # noqa: E402

from dimargin.gossip import zenoh_link  # noqa: E402
from dimargin.gossip.links import Failed, LinkError, Neighbours, Received, Trouble  # noqa: E402
from dimargin.gossip.tls_certificates import Tls  # noqa: E402
from dimargin.gossip.zenoh_link import ZenohLink  # noqa: E402
from dimargin.gossip.zenoh_settings import SessionSettings  # noqa: E402

SWARM = "w"
MARK = f"{1:020d}-{1:x}"


def opened(settings):
    """A raw session, which keeps to no rules."""
    config = zenoh.Config()
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("transport/shared_memory/enabled", "false")
    return zenoh.open(config)


class Swarm:
    """Links of this process, what they have delivered, and raw sessions that keep to no rules."""

    def __init__(self):
        self.links, self.heard, self._open = {}, {}, contextlib.ExitStack()

    def join(self, name, as_key=None, **options):
        link = ZenohLink(name, SWARM, **{"lease": LEASE, **options})
        self.links[as_key or name], self.heard[as_key or name] = link, []
        link.open(self.heard[as_key or name].append)
        self._open.callback(link.close)
        return link

    def received(self, name):
        return [(event.sender, event.data) for event in self.heard[name] if isinstance(event, Received)]

    def failures(self, name):
        return [event.error for event in self.heard[name] if isinstance(event, Failed)]

    def neighbours(self, name):
        return self.links[name].neighbours()

    def met(self, *names):
        wait_for(lambda: all(set(names) - {name} <= set(self.neighbours(name)) for name in names))

    def letter(self, sender, to, data):
        """Send until it has come: a control that the way is open."""
        self.links[sender].send(to, data)
        wait_for(lambda: (sender, data) in self.received(to))

    def intruder(self, connect, listen="tls/127.0.0.1:0", **tls):
        session = opened({
            "connect/endpoints": list(connect),
            "listen/endpoints": [listen],
            "transport/unicast/accept_timeout": 500,
            "transport/link/tls": {"enable_mtls": True, "verify_name_on_connect": False, **tls},
        })  # fmt: skip
        self._open.callback(session.close)
        return session

    def close(self):
        self._open.close()


@pytest.fixture
def swarm():
    made = Swarm()
    yield made
    made.close()


def publish(session, key, data):
    session.put(key, data, attachment=(1).to_bytes(8, "little"), congestion_control=zenoh.CongestionControl.BLOCK)


def spy(session):
    """Listens to everything, of others only."""
    heard = []
    remote = zenoh.Locality.REMOTE
    session.declare_subscriber(f"{SWARM}/**", lambda sample: heard.append(str(sample.key_expr)), allowed_origin=remote)
    session.declare_subscriber(
        f"{SWARM}/inbox/alice/*", lambda sample: heard.append(str(sample.key_expr)), allowed_origin=remote
    )
    return heard


def router(port, tls=None):
    """A session in a router's place."""
    settings = {
        "mode": "router",
        "listen/endpoints": [f"{'tls' if tls else 'tcp'}/127.0.0.1:{port}"],
        "transport/link/tx/lease": round(LEASE * 1000),
    }
    return opened(settings | ({"transport/link/tls": tls} if tls else {}))


def living(session):
    return {str(reply.ok.key_expr).split("/")[2] for reply in session.liveliness().get(f"{SWARM}/alive/*/*", timeout=1)}


# ---- certificates ----------------------------------------------------------------------------------------------------


ALLOWED = ("alice", "bob", "carol")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "other")


def tls_of(authority, name, allowed=ALLOWED, root=None, **options):
    return Tls(*authority.member(name, **options), (root or authority).path, allowed)


def raw(tls):
    certificate, key = str(tls.certificate), str(tls.key)
    return {
        "root_ca_certificate": str(tls.authority),
        "listen_certificate": certificate,
        "listen_private_key": key,
        "connect_certificate": certificate,
        "connect_private_key": key,
    }


@pytest.fixture
def members(swarm, authority):
    """Alice and Bob, who hear each other; Carol is allowed too."""
    alice = swarm.join("alice", tls=tls_of(authority, "alice"))
    swarm.join("bob", tls=tls_of(authority, "bob"), connect=alice.listening)
    swarm.met("alice", "bob")
    swarm.letter("bob", "alice", b"first")
    return swarm


def test_members_hear_each_other(members, authority):
    carol = members.join("carol", tls=tls_of(authority, "carol"), connect=members.links["bob"].listening)
    members.met(*ALLOWED)
    for sender in ALLOWED:
        for to in set(ALLOWED) - {sender}:
            members.letter(sender, to, f"{sender} to {to}".encode())
    carol.close()
    wait_for(lambda: members.neighbours("alice") == ("bob",))


def test_a_member_cannot_speak_or_listen_as_another(members, authority):
    session = members.intruder(members.links["alice"].listening, **raw(tls_of(authority, "carol")))
    heard = spy(session)
    tokens = [session.liveliness().declare_token(f"{SWARM}/alive/{name}/{MARK}") for name in ("zoe", "alice", "carol")]
    members.met("alice", "bob")
    wait_for(lambda: members.neighbours("alice") == ("bob", "carol"))
    for key in ("inbox/alice/bob", "inbox/alice/alice", "inbox/alice/*", "inbox/*/bob", "inbox/**", "**"):
        publish(session, f"{SWARM}/{key}", b"forged")
    publish(session, f"{SWARM}/inbox/alice/carol", b"genuine")
    wait_for(lambda: ("carol", b"genuine") in members.received("alice"))
    members.letter("bob", "alice", b"secret")
    members.letter("alice", "bob", b"secret")
    assert not heard and members.received("alice") == [
        ("bob", b"first"),
        ("carol", b"genuine"),
        ("bob", b"secret"),
    ]
    assert members.neighbours("alice") == ("bob", "carol") and members.neighbours("bob") == ("alice", "carol")
    assert not members.failures("alice")
    del tokens


def test_who_has_a_certificate_but_is_not_listed_gets_nothing(members, authority):
    credentials = raw(tls_of(authority, "mallory"))
    session = members.intruder(members.links["alice"].listening, "tcp/127.0.0.1:0", **credentials)
    heard = spy(session)
    token = session.liveliness().declare_token(f"{SWARM}/alive/mallory/{MARK}")
    wait_for(lambda: session.info.transports())
    for key in ("inbox/alice/mallory", "inbox/alice/bob", "inbox/bob/*"):
        publish(session, f"{SWARM}/{key}", b"forged")
    assert living(session) == {"mallory"}
    # who joins is told mallory's address, at which it could do without a certificate
    members.join("carol", tls=tls_of(authority, "carol"), connect=members.links["alice"].listening)
    members.met(*ALLOWED)
    members.letter("carol", "alice", b"secret")
    members.letter("bob", "alice", b"secret")
    assert not heard and all(data != b"forged" for name in ALLOWED for _, data in members.received(name))
    assert all("mallory" not in members.neighbours(name) for name in ALLOWED)
    assert all(link.src.startswith("tls/") for link in session.info.links())
    del token


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("who", ["stranger", "expired", "without certificate", "plain"])
def test_others_get_no_connection_in_either_direction(members, authority, other_authority, who):
    protocol, credentials = "tls", {}
    if who == "stranger":  # believes the members, who do not believe it
        credentials = raw(tls_of(other_authority, "carol", root=authority))
    elif who == "expired":
        credentials = raw(tls_of(authority, "carol", days=-1))
    elif who == "without certificate":
        credentials = {"root_ca_certificate": str(authority.path), "enable_mtls": False}
    else:
        protocol = "tcp"
    port = free_port()
    listen = f"tcp/127.0.0.1:{port}" if not credentials or "listen_certificate" not in credentials else None
    alice = members.links["alice"].listening[0].replace("tls/", f"{protocol}/")
    session = members.intruder([alice], listen or f"tls/127.0.0.1:{port}", **credentials)
    heard = spy(session)
    token = session.liveliness().declare_token(f"{SWARM}/alive/carol/{MARK}")
    # carol's own link goes to the intruder's address as well as to bob's
    carol = members.join(
        "carol",
        tls=tls_of(authority, "carol"),
        connect=[f"tls/127.0.0.1:{port}", *members.links["bob"].listening],
    )
    members.met(*ALLOWED)
    publish(session, f"{SWARM}/inbox/alice/carol", b"forged")
    publish(session, f"{SWARM}/inbox/carol/bob", b"forged")
    members.letter("carol", "alice", b"secret")
    members.letter("bob", "carol", b"secret")
    assert not session.info.transports() and not heard
    assert all(data != b"forged" for name in ALLOWED for _, data in members.received(name))
    carol.close()
    wait_for(lambda: members.neighbours("alice") == ("bob",))
    del token


def test_strangers_who_say_nothing_are_dropped_in_the_end(members, authority, monkeypatch):
    """After an hour, here after a third of a second: sooner they would keep members out."""
    monkeypatch.setattr(SessionSettings, "handshake_seconds", 0.3)
    carol = members.join("carol", tls=tls_of(authority, "carol"))
    host, _, port = carol.listening[0].partition("/")[2].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5.0) as stranger:
        assert stranger.recv(1) == b""


def test_without_descriptors_a_link_is_opened_again_once_strangers_have_hung_up(members, monkeypatch):
    bob, told, hung_up = members.links["bob"], members.heard["bob"], [0.2]
    monkeypatch.setattr(zenoh_link, "share_hung_up", lambda: hung_up[0])
    monkeypatch.setattr(zenoh_link, "is_descriptor_free", lambda: bob._life > 1)
    wait_for(lambda: any(isinstance(event, Trouble) for event in told))
    assert "no descriptor is free" in bob._trouble
    time.sleep(1.5 * LEASE)
    assert bob._life == 1 and bob.neighbours() == ("alice",)
    hung_up[0] = 0.3
    wait_for(lambda: bob._life == 2)
    members.met("alice", "bob")
    wait_for(lambda: [event.reason for event in told if isinstance(event, Trouble)][-1] == "")


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


def test_a_router_is_believed_if_it_is_named(swarm, authority):
    named = Tls(*authority.member("router"), authority.path, ALLOWED)
    port = free_port()
    with router(port, {"enable_mtls": True, "verify_name_on_connect": False, **raw(named)}):
        for name in ("alice", "bob"):
            tls = Tls(*authority.member(name), authority.path, ALLOWED, router="router")
            swarm.join(name, tls=tls, connect=[f"tls/127.0.0.1:{port}"], router=True)
        swarm.met("alice", "bob")
        swarm.letter("alice", "bob", b"round the corner")
        assert swarm.links["alice"].listening == ()
        swarm.close()


def test_a_certificate_that_others_would_refuse_is_refused_at_once(authority, other_authority, tmp_path):
    good = tls_of(authority, "alice")
    for tls, reason in (
        (tls_of(authority, "bob"), r"bob2\.pem is for 'bob', not for 'alice'"),
        (tls_of(authority, "alice", days=-1), r"alice-1\.pem cannot be used: certificate has expired"),
        (tls_of(other_authority, "alice", root=authority), r"cannot be used: "),
        (Tls(good.certificate, tls_of(authority, "bob").key, good.authority, ALLOWED), r"cannot be used: "),
        (Tls(good.certificate, tmp_path / "none", good.authority, ALLOWED), r"file .*none is missing"),
    ):
        link = ZenohLink("alice", SWARM, tls=tls)
        with pytest.raises(LinkError, match=rf"site alice: .*{reason}"):
            link.open(lambda event: None)


# ---- neighbours ------------------------------------------------------------------------------------------------------


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


# ---- refusals --------------------------------------------------------------------------------------------------------


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
        ({"listen": ["tls/127.0.0.1:0"]}, "expected an address such as tcp/192.0.2.1:7447, got 'tls/127.0.0.1:0'"),
        ({"connect": ["127.0.0.1:7447"]}, "expected an address"),
        ({"tls": Tls("c", "k", "a", ["b"]), "connect": ["tcp/127.0.0.1:1"]}, "an address such as tls/"),
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
