"""Descriptors that are left for a process's own files when connections take all others, in processes of their own."""

import subprocess
import sys

PRELUDE = """
import errno, os, resource, socket, sys
from dimargin.system.descriptors import MAX_DESCRIPTORS, is_descriptor_free, open_reserved, reserve_descriptors
from dimargin.system.descriptors import share_hung_up
LIMIT = resource.RLIMIT_NOFILE

def take_all():
    taken = []
    while True:
        try:
            taken.append(os.dup(0))
        except OSError as error:
            assert error.errno == errno.EMFILE
            return taken
"""


def run(script, soft, hard):
    limits = f"resource.setrlimit(LIMIT, ({soft}, {hard}))\n"
    found = subprocess.run([sys.executable, "-c", PRELUDE + limits + script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


def test_files_can_be_opened_when_all_other_descriptors_are_taken(tmp_path):
    script = f"""
reserve_descriptors()
print(*resource.getrlimit(LIMIT))
assert is_descriptor_free()
taken = take_all()
print(len(taken) > 200, is_descriptor_free())
for k in range(100):  # each is closed again
    with open({str(tmp_path / "file")!r}, "ab", opener=open_reserved) as file:
        file.write(b"x")
    assert resource.getrlimit(LIMIT)[0] == 224
kept = []
try:
    while True:
        kept.append(open({str(tmp_path / "file")!r}, "rb", opener=open_reserved))
except OSError as error:
    print(len(kept), error.errno == errno.EMFILE, *resource.getrlimit(LIMIT))
os.close(taken.pop())
with open({str(tmp_path / "file")!r}, "rb", opener=open_reserved) as file:
    print(file.fileno() < 224)
"""
    assert run(script, 64, 256) == ["224", "256", "True", "False", "32", "True", "224", "256", "True"]
    assert (tmp_path / "file").read_bytes() == b"x" * 100


def test_what_others_take_of_the_reserve_is_little(tmp_path):
    """A connection that comes in the moment of opening gets one descriptor, and not all."""
    script = f"""
reserve_descriptors()
taken = take_all()
before, late = os.open, 3

def open_late(*arguments):  # three times connections come first, which take as many as they can
    global late
    if resource.getrlimit(LIMIT)[0] > 224 and late:
        late -= 1
        taken.extend(take_all())
    return before(*arguments)

os.open = open_late
with open({str(tmp_path / "file")!r}, "wb", opener=open_reserved) as file:
    print(late, file.fileno() - 224)
"""
    assert run(script, 256, 256) == ["0", "3"]


def test_a_reserved_descriptor_that_is_in_use_for_a_moment_is_not_free(tmp_path):
    script = f"""
import threading
reserve_descriptors()
taken, found = take_all(), []
before = os.open

def slow_open(*arguments):
    if resource.getrlimit(LIMIT)[0] > 224 and not looking.is_alive():
        looking.start()
        looking.join(0.1)
    return before(*arguments)

looking = threading.Thread(target=lambda: found.append((is_descriptor_free(), share_hung_up())))
os.open = slow_open
open({str(tmp_path / "file")!r}, "wb", opener=open_reserved).close()
looking.join()
print(*found[0])
"""
    assert run(script, 256, 256) == ["False", "0.0"]


def test_nothing_is_reserved_unless_asked_for(tmp_path):
    script = f"""
taken = take_all()
try:
    open({str(tmp_path / "file")!r}, "wb", opener=open_reserved)
except OSError as error:
    print(error.errno == errno.EMFILE, *resource.getrlimit(LIMIT))
"""
    assert run(script, 64, 256) == ["True", "64", "256"]


def test_a_missing_file_is_an_error_as_ever(tmp_path):
    script = f"""
reserve_descriptors()
try:
    open({str(tmp_path / "none" / "file")!r}, "wb", opener=open_reserved)
except FileNotFoundError:
    print(*resource.getrlimit(LIMIT))
"""
    assert run(script, 64, 256) == ["224", "256"]


def test_connections_that_the_other_side_has_ended_are_counted():
    script = """
pairs = [socket.socketpair() for _ in range(40)]
print(share_hung_up())
for one, _ in pairs[:32]:
    one.close()
print(share_hung_up())
"""
    assert run(script, 128, 128) == ["0.0", "0.25"]
