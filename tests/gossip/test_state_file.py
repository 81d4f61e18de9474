"""The state file of a live site has all that was sent, survives kills, and is tried again after errors of a disk."""

import errno
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from contract_transport import Counting, Number, Site
from waiting import wait_for
from wired_sites import Running, Wire

from dimargin.gossip import state_file
from dimargin.gossip.live import LiveSite
from dimargin.gossip.messages import encode
from dimargin.gossip.program import Send, Wake
from dimargin.gossip.state_file import SavedState, StateError, read_state, write_state


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


@pytest.mark.parametrize("durable", [False, True])
def test_a_program_can_have_every_state_synced_before_it_sends(tmp_path, monkeypatch, durable):
    """A site that counts what it has spent of a budget needs this: a loss of power must not lose the count."""
    synced, write = [], write_state
    monkeypatch.setattr(
        state_file, "write_state", lambda path, body, sync: synced.append(sync) or write(path, body, sync)
    )

    class Counting(Site):
        needs_durable_state = durable

        def start(self, now, neighbours):
            return self.wake(now, "")

        def wake(self, now, name):
            self.count += 1
            return [Send("b", Number("a", self.count)), Wake(0.001)]

    with Running(Counting("a"), state=tmp_path / "a.state") as running:
        wait_for(lambda: len(running.wire.sent) >= 10)
        assert all(synced[:10]) == durable


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
    # The state behind every message was in the file before the message left.
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
from wired_sites import Wire
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
