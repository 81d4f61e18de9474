"""Files are written whole, keep what their owner set, and leave nothing behind."""

import fcntl
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dimargin.system import writing
from dimargin.system.writing import write_file


@pytest.fixture
def umask():
    """A umask that lets others read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def abandoned(path, token="0badcafe", content=b"half"):
    """What a killed process leaves."""
    part = path.with_name(f".{path.name}.{token}.part")
    part.write_bytes(content)
    return part


# ---- permissions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("private", "expected"), [(True, 0o600), (False, 0o644)])
def test_the_mode_of_a_new_file(private, expected, tmp_path, umask):
    write_file(tmp_path / "f", b"1", private=private)
    assert mode(tmp_path / "f") == expected


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("kept", [0o600, 0o640, 0o644, 0o666, 0o400, 0o700])
def test_a_file_that_exists_keeps_its_mode(private, kept, tmp_path, umask):
    path = tmp_path / "f"
    path.write_bytes(b"1")
    path.chmod(kept)
    write_file(path, b"2", private=private)
    assert (mode(path), path.read_bytes()) == (kept, b"2")


def test_a_part_file_is_never_wider_than_the_file(tmp_path, umask, monkeypatch):
    path = tmp_path / "f"
    path.write_bytes(b"1")
    path.chmod(0o600)
    seen = []

    def replace(part, target):
        seen.append(mode(part))
        os.rename(part, target)

    monkeypatch.setattr(writing.os, "replace", replace)
    write_file(path, b"2")
    write_file(tmp_path / "g", b"2", private=True)
    assert seen == [0o600, 0o600]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_that_exists_keeps_its_owner(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"1")
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    write_file(path, b"2")
    about = path.stat()
    assert (about.st_uid, about.st_gid, mode(path)) == (12345, 23456, 0o640)


def test_a_group_that_cannot_be_kept_gets_what_everybody_has(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_bytes(b"1")
    path.chmod(0o664)
    about = path.stat()
    other = os.stat_result([*about[:5], about.st_gid + 1, *about[6:10]])

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(writing.os, "fchown", refuse)
    monkeypatch.setattr(Path, "stat", lambda self, **_: other)
    descriptor = os.open(tmp_path / "new", os.O_RDWR | os.O_CREAT, 0o600)
    writing._keep_permissions(path, descriptor)
    assert stat.S_IMODE(os.fstat(descriptor).st_mode) == 0o644
    os.close(descriptor)


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes")
def test_a_file_that_exists_keeps_its_attributes(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"1")
    try:
        os.setxattr(path, "user.origin", b"north")
    except OSError as error:
        pytest.skip(f"extended attributes cannot be set here: {error}")
    write_file(path, b"2")
    assert os.getxattr(path, "user.origin") == b"north"


def test_a_link_keeps_pointing_to_its_file(tmp_path, umask):
    target, link, dangling = tmp_path / "folder" / "f", tmp_path / "link", tmp_path / "dangling"
    target.parent.mkdir()
    target.write_bytes(b"1")
    target.chmod(0o600)
    link.symlink_to("folder/f")
    dangling.symlink_to("folder/g")
    write_file(link, b"2")
    write_file(dangling, b"3")
    assert link.is_symlink() and dangling.is_symlink()
    assert (target.read_bytes(), mode(target)) == (b"2", 0o600)
    assert (target.parent / "g").read_bytes() == b"3"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["dangling", "f", "folder", "g", "link"]


def test_what_is_no_regular_file_is_written_to_directly(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, b"through")
    reader.join(timeout=60)
    assert read == [b"through"] and pipe.is_fifo()
    write_file(os.devnull, b"away")


# ---- what is left behind ---------------------------------------------------------------------------------------------


def test_the_next_write_removes_what_killed_ones_left(tmp_path):
    path = tmp_path / "a [1].model"
    for token in ("00000000", "0badcafe", "ffffffff"):
        abandoned(path, token)
    others = [tmp_path / name for name in (".b.0badcafe.part", ".a [1].model.part", ".a [1].model.0badcafe.partly")]
    for other in others:
        other.write_bytes(b"not ours")
    write_file(path, b"1")
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_a_part_file_that_is_being_written_stays(tmp_path):
    path = tmp_path / "f"
    part = abandoned(path)
    with open(part, "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_file(path, b"1")
        assert part.read_bytes() == b"half"
    write_file(path, b"2")
    assert list(tmp_path.iterdir()) == [path]


def test_a_part_file_of_a_name_only_is_no_harm(tmp_path):
    path, precious = tmp_path / "f", tmp_path / "precious"
    precious.write_bytes(b"1")
    link = tmp_path / ".f.0badcafe.part"
    link.symlink_to(precious)
    (tmp_path / ".f.0badcaff.part").mkdir()
    write_file(path, b"2")
    assert precious.read_bytes() == b"1" and link.is_symlink()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("durable", "expected"), [(True, ["file", "rename", "folder"]), (False, ["rename"])])
def test_the_folder_is_synchronised_after_the_rename(durable, expected, tmp_path, monkeypatch):
    happened, fsync, replace = [], os.fsync, os.replace

    def synchronise(descriptor):
        happened.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def rename(part, target):
        happened.append("rename")
        replace(part, target)

    monkeypatch.setattr(writing.os, "fsync", synchronise)
    monkeypatch.setattr(writing.os, "replace", rename)
    write_file(tmp_path / "f", b"1", durable)
    assert happened == expected


@pytest.mark.parametrize("lacking", ["locks", "folders that can be read", "synchronised folders"])
def test_file_systems_that_can_do_less(lacking, tmp_path, monkeypatch):
    path = tmp_path / "f"
    part = abandoned(path)
    if lacking == "locks":

        def refuse(*_):
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(writing.fcntl, "flock", refuse)
    elif lacking == "synchronised folders":
        fsync = os.fsync

        def partly(descriptor):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(22, "Invalid argument")
            fsync(descriptor)

        monkeypatch.setattr(writing.os, "fsync", partly)
    else:
        opened = os.open

        def closed(name, flags, *mode):
            if flags & os.O_DIRECTORY:
                raise PermissionError
            return opened(name, flags, *mode)

        monkeypatch.setattr(writing.os, "open", closed)
    write_file(path, b"1")
    assert path.read_bytes() == b"1" and part.exists() == (lacking != "synchronised folders")


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from dimargin.system.writing import write_file

folder, n_kills, n_writers = Path(sys.argv[1]), int(sys.argv[2]), 2
rng, seen = random.Random(0), 0
for kill in range(n_kills):
    children = []
    for writer in range(n_writers):
        child = os.fork()
        if not child:
            content = bytes([48 + writer]) * 2**18
            try:
                while True:
                    write_file(folder / "model", content, durable=kill % 2 == 0)
            except BaseException as error:
                print("a write failed:", repr(error), flush=True)
                os._exit(1)
        children.append(child)
    time.sleep(rng.uniform(0.0, 0.02))
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    seen += len(list(folder.glob(".*")))
    whole = (folder / "model").read_bytes() if (folder / "model").exists() else b""
    assert len(set(whole)) <= 1 and len(whole) in (0, 2**18), "half a file"
write_file(folder / "model", b"last")
print("part files seen:", seen, "left:", sorted(path.name for path in folder.iterdir()))
"""


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_of_two_writers_leave_no_file_behind(kills, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path, str(kills)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and "failed" not in done.stdout, done.stdout + done.stderr
    assert done.stdout.endswith("left: ['model']\n"), done.stdout
    assert not done.stdout.startswith("part files seen: 0 "), "no kill came at the right moment"
