"""A live site keeps to its bandwidth, hears all neighbours in a flood, logs trouble, and ends."""

import contextlib
import json
import threading

import pytest
from contract_transport import Counting, Number, Site
from waiting import wait_for
from wired_sites import Running, Wire

from dimargin.gossip.links import Failed, LinkError, Neighbours, Received, Refused, Trouble
from dimargin.gossip.live import LiveSite
from dimargin.gossip.messages import MessageError, encode
from dimargin.gossip.program import Send, Wake
from dimargin.gossip.state_file import read_state


class Burst(Site):
    """Sends ten messages at once."""

    def start(self, now, neighbours):
        return [Send("b", Number("a", value)) for value in range(10)] + [Send("c", Number("a", 0))]


def test_beyond_the_bandwidth_only_the_newest_message_to_each_neighbour_waits():
    size, now = len(encode(Number("a", 0))), [0.0]
    with Running(Burst("a"), clock=lambda: now[0], bandwidth=2.0 * size) as running:
        sent = running.wire.sent
        wait_for(lambda: len(sent) == 2 and running.site.status()["waiting"] == 2)
        traffic = running.site.status()["traffic"]
        assert traffic["b"]["dropped"] == 7 and traffic["c"]["dropped"] == 0
        now[0] = 10.0
        wait_for(lambda: len(sent) == 4)
        assert [data for to, data in sent if to == "b"] == [encode(Number("a", value)) for value in (0, 1, 9)]
        assert running.site.status()["traffic"]["b"]["messages_out"] == 3
    assert running.facts("held back") == [{"to": "b", "dropped": 1}]


class Gated(Site):
    """Waits in every call until its gate opens, and counts what it had heard at every wake."""

    def __init__(self, name):
        super().__init__(name)
        self.gate, self.heard, self.heard_before_wake = threading.Event(), [], []

    def wake(self, now, name):
        self.gate.wait()
        self.heard_before_wake.append(len(self.heard))
        return [Wake(0.0)]

    def receive(self, now, sender, message):
        self.gate.wait()
        self.heard.append(message.value)
        return []


class Busy(Gated):
    """Has a timer that is late."""

    def start(self, now, neighbours):
        return [Wake(0.0)]


@contextlib.contextmanager
def held_up(program, wire=None):
    with Running(program, wire) as running, contextlib.ExitStack() as stack:
        stack.callback(program.gate.set)
        yield running


def test_a_flood_costs_the_oldest_messages_and_is_told():
    program = Gated("a")
    with held_up(program) as running:
        running.wire.deliver(Received("b", encode(Number("b", -1))))  # holds it up until the gate opens
        wait_for(lambda: running.site.status()["traffic"])
        running.wire.deliver(Neighbours(("b", "c")))
        running.wire.deliver(Received("c", encode(Number("c", -2))))  # whom the flood of b does not push out
        for value in range(6000):
            running.wire.deliver(Received("b", encode(Number("b", value))))
        program.gate.set()
        wait_for(lambda: program.heard and program.heard[-1] == 5999)
        wait_for(lambda: running.facts("neighbours")[-1]["names"] == ["b", "c"])
        status, heard = running.site.status(), program.heard
    assert heard[:2] == [-1, -2] and heard[2:] == list(range(6000 - len(heard) + 2, 6000))
    assert status["flooded"] == 6002 - len(heard) > 1000
    assert running.facts("flooded")


def test_a_site_whose_timers_are_late_hears_all_neighbours_between_two_of_them():
    """One message between two rounds is not enough: those of several neighbours would wait longer and longer."""
    program = Busy("a")
    with held_up(program) as running:
        for value in range(40):
            running.wire.deliver(Received("bcde"[value % 4], encode(Number("bcde"[value % 4], value))))
        program.gate.set()
        wait_for(lambda: len(program.heard_before_wake) > 3)
    assert program.heard_before_wake[1] == 40


def test_the_largest_messages_in_a_flood_take_no_more_than_twice_their_size():
    with held_up(Busy("a"), Wire(largest=1000)) as running:
        for _ in range(10):
            running.wire.deliver(Received("b", bytes(900)))
        assert running.site.status()["flooded"] >= 7


def test_undecodable_messages_are_told_now_and_then_and_all_counted():
    class Strict(Site):
        def receive(self, now, sender, message):
            raise MessageError("a number that makes no sense here")

    with Running(Strict("a")) as running:
        for come in range(150):
            running.wire.deliver(Received("eve", b"nonsense", lost=2))
            wait_for(lambda come=come: running.site.status()["traffic"].get("eve", {}).get("messages_in", 0) > come)
        running.wire.deliver(Received("b", encode(Number("b", 1))))
        wait_for(lambda: "b" in running.site.status()["traffic"] and len(running.facts("undecodable")) == 3)
        status = running.site.status()
    told = [(facts["sender"], facts["count"]) for facts in running.facts("undecodable")]
    assert told == [("eve", 1), ("eve", 100), ("b", 1)]
    assert "makes no sense" in running.facts("undecodable")[-1]["reason"]
    eve = status["traffic"]["eve"]
    assert (eve["messages_in"], eve["bytes_in"], eve["undecodable"], eve["lost"]) == (150, 150 * 8, 150, 300)
    assert eve["heard"] >= 0 and json.loads(json.dumps(status)) == status


def test_trouble_of_the_link_is_told_as_long_as_it_lasts():
    with Running(Counting("a")) as running:
        for _ in range(2):
            running.wire.deliver(Trouble("no descriptor is free"))
            wait_for(lambda: running.site.status()["trouble"] == "no descriptor is free")
        running.wire.deliver(Trouble(""))
        wait_for(lambda: not running.site.status()["trouble"])
    assert running.facts("trouble") == [{"with": "link", "reason": "no descriptor is free"}]
    assert running.facts("trouble over") == [{"with": "link"}]


def test_sites_that_the_link_refuses_are_logged_once_and_shown_while_they_are_there():
    with Running(Counting("a")) as running:
        for reasons in ({"b": "why"}, {"b": "why", "c": "why not"}, {"c": "why not"}):
            running.wire.deliver(Refused(reasons))
            wait_for(lambda reasons=reasons: running.site.status()["refused"] == reasons)
    assert running.facts("refused") == [{"site": "b", "reason": "why"}, {"site": "c", "reason": "why not"}]


def test_a_link_that_has_failed_ends_the_run_and_what_was_learnt_is_kept(tmp_path):
    path = tmp_path / "a.state"
    with Running(Site("a"), state=path) as running:
        running.program.count = 5
        running.wire.deliver(Failed(LinkError("the name is taken")))
        wait_for(lambda: running.result is not None)
    assert isinstance(running.result, LinkError) and running.wire.closed
    assert read_state(path)["program"] == {"count": 5}


def test_the_clock_ends_a_run():
    site = LiveSite(Site("a"), Wire())
    assert site.run(max_time=0.01) == "out of time"


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_timer_needs_a_time(seconds):
    class Wrong(Site):
        def start(self, now, neighbours):
            return [Wake(seconds)]

    with pytest.raises(ValueError, match=r"site a sets the timer 'round' to .*expected 0 or more"):
        LiveSite(Wrong("a"), Wire()).run(max_time=1)


@pytest.mark.parametrize("bandwidth", [0, float("nan")])
def test_a_bandwidth_that_makes_no_sense_is_refused(bandwidth):
    with pytest.raises(ValueError, match="bandwidth"):
        LiveSite(Site("a"), Wire(), bandwidth=bandwidth)
