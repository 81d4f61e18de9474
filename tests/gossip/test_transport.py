"""The contract that every transport of site programs keeps, and the real one's file, bandwidth and queue."""

import contextlib
import errno
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from contract_transport import WORLDS, Counting, Number, Site
from waiting import wait_for

from dimargin.gossip import state_file
from dimargin.gossip.links import Failed, Link, LinkError, Neighbours, Received, Trouble
from dimargin.gossip.live import LiveSite
from dimargin.gossip.messages import MessageError, encode
from dimargin.gossip.program import Send, Wake
from dimargin.gossip.state_file import SavedState, StateError, read_state, write_state

needs_zenoh = pytest.mark.skipif(importlib.util.find_spec("zenoh") is None, reason="eclipse-zenoh is not installed")


@pytest.fixture(params=[pytest.param(name, marks=[needs_zenoh] if name != "simulator" else []) for name in WORLDS])
def world(request, tmp_path):
    made = WORLDS[request.param](tmp_path)
    yield made
    made.close()


# ---- the contract ----------------------------------------------------------------------------------------------------


@pytest.mark.slow_after(1)
def test_messages_arrive_whole(world):
    world.start("a", "Echo")
    world.start("b", "Echo")
    world.wait(lambda: world.facts("a", "returned") and world.facts("b", "returned"))
    for name, other in ("ab", "ba"):
        for facts in world.facts(name, "returned"):
            assert facts == {"sender": other, "arrays": [True] * 6, "others": True}


@pytest.mark.slow
def test_every_message_has_its_senders_name_and_none_comes_from_oneself(world):
    for name in "abc":
        world.start(name, "Counting")
    world.wait(lambda: all(len({f["sender"] for f in world.facts(name, "heard")}) == 2 for name in "abc"))
    for name in "abc":
        heard = [(facts["sender"], facts["origin"]) for facts in world.facts(name, "heard")]
        assert all(sender == origin != name for sender, origin in heard)


@pytest.mark.slow_after(1)
def test_messages_of_one_neighbour_arrive_once_each_and_in_order(world):
    world.start("a", "Counting")
    world.start("b", "Counting")
    world.wait(lambda: len(world.facts("b", "heard")) >= 20)
    values = [facts["value"] for facts in world.facts("b", "heard")]
    assert values == list(range(values[0], values[0] + len(values)))


def test_timers_end_in_order_and_a_replaced_one_once(world):
    world.start("a", "Timers")
    world.wait(lambda: any(facts["name"] == "end" for facts in world.facts("a", "woke")))
    woke = world.facts("a", "woke")
    assert [facts["name"] for facts in woke] == ["first", "second", "third", "put off", "brought forward", "end"]
    due = [0.01, 0.02, 0.03, 0.04, 0.05, 0.2]
    assert all(facts["now"] >= end for facts, end in zip(woke, due, strict=True))


@pytest.mark.slow_after(1)
def test_neighbours_appear_and_disappear(world):
    def seen(name):
        return world.facts(name, "neighbours")[-1]["names"]

    world.start("a", "Site")
    world.start("b", "Site")
    world.wait(lambda: seen("a") == ["b"] and seen("b") == ["a"])
    world.start("c", "Site")
    world.wait(lambda: seen("a") == ["b", "c"] and seen("b") == ["a", "c"] and seen("c") == ["a", "b"])
    world.kill("b")
    world.wait(lambda: seen("a") == ["c"] and seen("c") == ["a"])
    world.start("b", "Site")
    world.wait(lambda: seen("a") == ["b", "c"] and seen("b") == ["a", "c"])


def test_a_site_that_has_finished_goes_on_answering(world):
    world.start("a", "Counting", last=3)
    world.start("b", "Echo")
    world.wait(lambda: len(world.facts("a", "counted")) >= 6)
    assert world.stop("a") == "counted to 3"


@pytest.mark.slow_after(1)
def test_a_message_of_five_megabytes_arrives(world):
    world.start("a", "Large", size=5_000_000)
    world.start("b", "Large")
    world.wait(lambda: world.facts("b", "large"))
    assert world.facts("b", "large")[0] == {"size": 5_000_000, "whole": True}


def test_a_message_that_is_too_large_is_refused_at_its_sender(world):
    world.start("a", "Site", largest=100_000)
    world.start("b", "Large", largest=100_000, size=200_000)
    world.wait(lambda: world.facts("b", "failed") or world.facts("b", "withheld"))
    failed, withheld = world.facts("b", "failed"), world.facts("b", "withheld")
    assert len(failed) + bool(withheld) == 1  # a simulation ends, and a real site goes on
    reason = failed[0]["error"] if failed else withheld[0]["reason"]
    assert not failed or "b sends" in reason
    assert "a message of 200" in reason and "expected at most 100000" in reason
    assert not world.facts("a", "failed") and not world.facts("a", "heard")


@pytest.mark.slow_after(1)
def test_a_killed_site_goes_on_from_what_it_has_told(world):
    world.start("a", "Site")
    world.start("b", "Counting")
    world.start("c", "Counting")
    world.wait(lambda: len([f for f in world.facts("c", "heard") if f["sender"] == "b"]) >= 5)
    world.kill("b")
    told = max(facts["value"] for facts in world.facts("c", "heard") if facts["sender"] == "b")
    before = len(world.facts("c", "heard"))
    world.start("b", "Counting")
    world.wait(lambda: len(world.facts("b", "began")) == 2)
    assert world.facts("b", "began")[-1]["count"] >= told
    world.wait(lambda: any(facts["sender"] == "b" for facts in world.facts("c", "heard")[before:]))
    values = [facts["value"] for facts in world.facts("c", "heard") if facts["sender"] == "b"]
    assert values == sorted(set(values))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("data", [b"dm\x01\x81\xa4kind\xa6number", b"GET / HTTP/1.1\r\n", b""])
def test_bytes_that_are_no_message_are_counted_and_their_sender_named(world, data):
    world.start("a", "Counting")
    world.inject("c", "a", data)
    world.wait(lambda: world.facts("a", "undecodable"))
    assert world.facts("a", "undecodable")[0]["sender"] == "c"
    counted = len(world.facts("a", "counted"))
    world.wait(lambda: len(world.facts("a", "counted")) > counted)
    assert not world.facts("a", "failed") and not world.facts("a", "heard")


# ---- the real one: a link that is none, so that nothing depends on time ---------------------------------------------


class Wire(Link):
    """A link into the test's hands."""

    def __init__(self, name="a", largest=1_000_000, on_send=lambda to, data: None):
        self.name, self.largest, self.on_send = name, largest, on_send
        self.sent, self.closed = [], False

    def open(self, deliver):
        self.deliver = deliver

    def send(self, to, data):
        self.on_send(to, data)
        self.sent.append((to, data))

    def neighbours(self):
        return ("b",)

    def close(self):
        self.closed = True


class Running:
    """A site in a thread of its own, which ends with the test."""

    def __init__(self, program, wire=None, **options):
        self.program, self.wire, self.said, self.stop = program, wire or Wire(), [], threading.Event()
        self.site = LiveSite(program, self.wire, log=lambda what, facts: self.said.append((what, facts)), **options)
        self.result = None
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            self.result = self.site.run(self.stop, 60.0)
        except Exception as error:
            self.result = error

    def __enter__(self):
        self.thread.start()
        wait_for(lambda: self.result is not None or any(what == "started" for what, _ in self.said))
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def facts(self, what):
        return [facts for said, facts in self.said if said == what]


def test_what_is_told_is_in_the_file_before_it_leaves(tmp_path):
    path, seen = tmp_path / "a.state", []

    def look(to, data):
        seen.append((read_state(path)["program"]["count"], data))

    with Running(Counting("a", period=0.0), Wire(on_send=look), state=path):
        wait_for(lambda: len(seen) >= 20)
    for count, data in seen:
        assert data == encode(Number("a", count))


def test_a_state_that_is_as_it_was_is_not_written_again(tmp_path, monkeypatch):
    """But to be sure that it is there, and lasts: every five seconds, here every fiftieth of one."""

    class Talking(Site):
        def start(self, now, neighbours):
            return self.wake(now, "")

        def wake(self, now, name):
            return [Send("b", Number("a", self.count)), Wake(0.001)]

    monkeypatch.setattr(SavedState, "sync_every", 0.02)
    path = tmp_path / "a.state"
    with Running(Talking("a"), state=path) as running:
        wait_for(lambda: len(running.wire.sent) >= 10)
        before, sent = os.stat(path), len(running.wire.sent)
        wait_for(lambda: len(running.wire.sent) >= sent + 100)
        after = os.stat(path)
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
        running.program.count += 1
        wait_for(lambda: read_state(path)["program"]["count"] == 1)
        path.unlink()
        wait_for(path.exists)


class Disk:
    """A disk on which states can be written, unless it has an error."""

    def __init__(self, monkeypatch):
        self.error, self._write = None, state_file.write_state
        monkeypatch.setattr(state_file, "write_state", self.write)
        monkeypatch.setattr(SavedState, "retry_after", 0.02)

    def write(self, path, body, sync):
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error), str(path))
        self._write(path, body, sync)


@pytest.mark.parametrize("code", ["EMFILE", "ENFILE", "ENOSPC", "EDQUOT", "EIO", "EROFS", "ENOENT"])
def test_a_state_that_cannot_be_written_ends_nothing_and_nothing_is_told_of_it(tmp_path, monkeypatch, code):
    disk, path, seen = Disk(monkeypatch), tmp_path / "a.state", []

    def look(to, data):
        seen.append((read_state(path)["program"]["count"], data))

    with Running(Counting("a", period=0.0), Wire(on_send=look), state=path) as running:
        wait_for(lambda: len(seen) >= 5)
        disk.error = getattr(errno, code)
        wait_for(lambda: running.facts("trouble"))
        before, count = len(seen), running.program.count
        wait_for(lambda: running.program.count >= count + 50)
        assert len(seen) <= before + 1  # one may have been on its way
        assert running.facts("trouble") == [{"with": "state", "reason": running.site.status()["trouble"]}]
        assert (
            str(path) in running.site.status()["trouble"]
            and os.strerror(disk.error) in running.site.status()["trouble"]
        )
        assert running.site.status()["traffic"]["b"]["dropped"] >= 49
        disk.error = None
        wait_for(lambda: len(seen) >= before + 5)
        assert running.facts("trouble over") == [{"with": "state"}] and not running.site.status()["trouble"]
    assert all(data == encode(Number("a", count)) for count, data in seen)
    assert running.result == "told to stop" and read_state(path)["program"]["count"] == running.program.count


def test_a_place_where_no_state_can_be_is_refused_at_the_start_and_a_full_disk_is_not(tmp_path, monkeypatch):
    disk, path = Disk(monkeypatch), tmp_path / "a.state"
    disk.error = errno.EACCES
    with Running(Counting("a"), state=path) as running:
        wait_for(lambda: running.result is not None, seconds=20.0)
    assert isinstance(running.result, PermissionError) and running.wire.closed
    disk.error = errno.ENOSPC
    with Running(Counting("a"), state=path) as running:
        wait_for(lambda: running.program.count > 3)
        disk.error = None
        wait_for(path.exists)
    assert running.result == "told to stop"


def test_a_state_that_could_not_be_written_is_tried_again_though_nothing_is_to_be_sent(tmp_path, monkeypatch):
    disk, path = Disk(monkeypatch), tmp_path / "a.state"
    disk.error = errno.ENOSPC
    with Running(Site("a"), state=path) as running:
        wait_for(lambda: running.facts("trouble"))
        disk.error = None
        wait_for(lambda: running.facts("trouble over"), seconds=20.0)
        assert path.exists() and not running.wire.sent


def test_the_end_tells_of_a_state_that_could_not_be_written(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)
    with Running(Counting("a"), state=tmp_path / "a.state") as running:
        disk.error = errno.ENOSPC
        wait_for(lambda: running.facts("trouble"))
    assert isinstance(running.result, OSError) and running.result.errno == errno.ENOSPC and running.wire.closed


def test_what_could_not_be_written_whole_takes_no_room(tmp_path, monkeypatch):
    path = tmp_path / "a.state"
    write_state(path, b"before", sync=True)
    before = path.read_bytes()

    def fail(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"Input/output error: .*a\.state'"):
        write_state(path, b"after", sync=True)
    assert os.listdir(tmp_path) == ["a.state"] and path.read_bytes() == before


def test_trouble_of_the_link_is_told_as_long_as_it_lasts():
    with Running(Counting("a")) as running:
        for _ in range(2):
            running.wire.deliver(Trouble("no descriptor is free"))
            wait_for(lambda: running.site.status()["trouble"] == "no descriptor is free")
        running.wire.deliver(Trouble(""))
        wait_for(lambda: not running.site.status()["trouble"])
    assert running.facts("trouble") == [{"with": "link", "reason": "no descriptor is free"}]
    assert running.facts("trouble over") == [{"with": "link"}]


def test_every_start_is_an_incarnation_and_the_end_is_remembered(tmp_path):
    path = tmp_path / "a.state"
    for incarnation in range(3):
        with Running(Site("a"), state=path) as running:
            running.program.count += 1
        assert read_state(path) == {"site": "a", "incarnation": incarnation, "program": {"count": incarnation + 1}}
        assert os.stat(path).st_mode & 0o777 == (0o640 if incarnation else 0o600)
        os.chmod(path, 0o640)
    assert os.listdir(tmp_path) == ["a.state"] and running.wire.closed


def test_a_damaged_state_is_refused_with_the_name_of_its_file(tmp_path):
    path = tmp_path / "a.state"
    with Running(Site("a"), state=path):
        pass
    whole = path.read_bytes()
    for data, reason in (
        (whole[:-1], "damaged"),
        (b"", "not the state file of a site"),
        (b"\x7fELF" + whole, "not the state file of a site"),
        (whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:], "damaged"),
        (whole[:13] + b"\x63" + whole[14:], "version 99"),
    ):
        path.write_bytes(data)
        wire = Wire()
        with pytest.raises(StateError, match=rf"a\.state.*{reason}"):
            LiveSite(Site("a"), wire, state=path).run(max_time=0)
        assert not hasattr(wire, "deliver") and path.read_bytes() == data
    path.write_bytes(whole)
    with pytest.raises(StateError, match=r"a\.state is the state of site 'a', expected 'z'"):
        LiveSite(Site("z"), Wire("z"), state=path).run(max_time=0)
    with pytest.raises(StateError, match=r"folder .* is missing"):
        LiveSite(Site("a"), Wire(), state=tmp_path / "none" / "a.state")


def test_a_state_without_an_end_or_too_deep_is_refused(tmp_path):
    path, endless = tmp_path / "a.state", tmp_path / "endless"
    with Running(Site("a"), state=path):
        pass

    class Deep(Site):
        def restore(self, state):
            json.loads("[" * 10**5)

    with pytest.raises(StateError, match=r"a\.state is not a state from which Deep can resume: RecursionError"):
        LiveSite(Deep("a"), Wire(), state=path).run(max_time=0)
    endless.symlink_to("/dev/zero")
    with pytest.raises(StateError, match="endless is not the state file of a site"):
        read_state(endless)
    os.truncate(path, 2**40)
    with pytest.raises(StateError, match=r"a\.state: the state needs more memory than there is"):
        read_state(path)


def test_what_a_kill_has_left_half_written_is_no_harm(tmp_path):
    path, part = tmp_path / "a.state", tmp_path / ".a.state.0badcafe.part"
    with Running(Site("a"), state=path) as running:
        running.program.count = 7
    part.write_bytes(path.read_bytes()[:20])
    with Running(Site("a"), state=path) as running:
        pass
    assert running.facts("began")[0]["count"] == 7
    assert not part.exists()


KILLED = """
import contract_transport, sys, threading
from test_transport import Wire
from dimargin.gossip.live import LiveSite
import numpy as np
class Heavy(contract_transport.Counting):
    def checkpoint(self):
        return {"count": self.count, "ballast": np.full(100_000, float(self.count))}
wire = Wire(on_send=lambda to, data: print(program.count, flush=True))
program = Heavy("a", period=0.0)
LiveSite(program, wire, state=sys.argv[1]).run()
"""


def test_a_state_survives_a_kill_at_any_moment(tmp_path):
    path, last = tmp_path / "a.state", 0
    for lines in (1, 7, 20):
        command = [sys.executable, "-c", KILLED, str(path)]
        folders = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # of this module, and what it imports
        process = subprocess.Popen(command, env=folders, stdout=subprocess.PIPE, text=True)
        told = [int(process.stdout.readline()) for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout if line.endswith("\n")]
        process.wait()
        process.stdout.close()
        assert told[0] > last
        program = read_state(path)["program"]
        assert program["count"] >= told[-1] and np.all(program["ballast"] == program["count"])
        last = program["count"]


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
