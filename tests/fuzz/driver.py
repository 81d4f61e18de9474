"""Runs targets: one process each, which may be killed by an input; the parent then keeps it and starts another.

A target is a module ``fuzz_<name>.py`` with two functions:
``generate(rng: random.Random) -> bytes`` makes an input, and ``check(data: bytes)`` returns when
the reader has loaded it or has refused it in the documented way, and raises otherwise. Input k of a
seed is always the same, however many were made before it.
"""

import faulthandler
import hashlib
import importlib
import mmap
import os
import random
import resource
import signal
import struct
import sys
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(__file__).parent
CORPUS = FOLDER / "corpus"
NAMES = sorted(path.stem.removeprefix("fuzz_") for path in FOLDER.glob("fuzz_*.py"))
SECONDS = 5.0  # that an input may take
MEMORY = 2**30  # bytes of addresses that a target may take beside those that it has after its first inputs
GROWTH = 2**28  # bytes by which an input may raise the peak of resident memory, if ten times its size are fewer
_LARGEST = 2**22  # bytes of an input
_HEAD = struct.Struct("qqq")  # number of the input, how many failed, length
_KEPT = 5  # inputs of one kind of failure that are kept


def target(name):
    """The module."""
    return importlib.import_module(f"{__package__}.fuzz_{name}")


@contextmanager
def limited():
    """Raise TimeoutError in what takes too long, and MemoryError for an input that takes too much."""

    def late(number, frame):
        raise TimeoutError(f"more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def peak():
    """Bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def keep(name, data):
    """Write an input into the corpus and say where."""
    path = CORPUS / name / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def run(name, seed, seconds, inputs, first):
    """Feed a target until its time is over; the number of failures."""
    began, shared = time.monotonic(), mmap.mmap(-1, _HEAD.size + _LARGEST)
    last = sys.maxsize if inputs is None else first + inputs
    following, failures = first, 0
    while following < last and time.monotonic() - began < seconds:
        shared[: _HEAD.size] = _HEAD.pack(following, 0, 0)
        child = os.fork()
        if not child:
            _work(name, seed, following, last, began + seconds, shared)
        status, number = _waited(child, shared)
        number, failed, length = _HEAD.unpack(shared[: _HEAD.size])
        failures += failed
        following = number
        if status:  # it was killed by this input, which is not counted yet
            failures += 1
            following += 1
            index = keep(name, shared[_HEAD.size : _HEAD.size + length])
            print(f"{name}: input {number} ended the process with status {status}; it is in {index}", flush=True)
    took = time.monotonic() - began
    print(f"{name}: {following - first} inputs of seed {seed} in {took:.1f} s, {failures} failures", flush=True)
    return failures


def _waited(child, shared):
    """The status of a child, which is killed if it hangs where no signal of its own can interrupt it."""
    before, since = None, time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        number = _HEAD.unpack(shared[: _HEAD.size])[0]
        if done:
            return status, number
        if number != before:
            before, since = number, time.monotonic()
        elif time.monotonic() - since > 60 + 3 * SECONDS:  # a minute: imports, and what a target makes once
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def _work(name, seed, first, last, until, shared):
    """The child: never returns."""
    status = 1
    try:
        faulthandler.enable()
        module, number, failed, seen = target(name), first, 0, {}
        for warm in range(3):  # what is loaded at first use does not count
            module.check(module.generate(random.Random(warm)))
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
        if pages:
            most = pages * resource.getpagesize() + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        while number < last and time.monotonic() < until:
            data = module.generate(random.Random(f"{seed}/{name}/{number}"))[:_LARGEST]
            shared[: _HEAD.size + len(data)] = _HEAD.pack(number, failed, len(data)) + data
            error = failure(module, data)
            if error is not None:
                failed += 1
                kind = (type(error).__name__, *map(str, traceback.extract_tb(error.__traceback__)[-1:]))
                seen[kind] = seen.get(kind, 0) + 1
                if seen[kind] <= _KEPT:
                    traceback.print_exception(error)
                    print(f"{name}: input {number} failed; it is in {keep(name, data)}", flush=True)
            number += 1
            shared[: _HEAD.size] = _HEAD.pack(number, failed, 0)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def failure(module, data):
    """What is wrong with how a target took an input, or None."""
    before = peak()
    try:
        with limited():
            module.check(data)
        grown = peak() - before
        if grown > max(GROWTH, 10 * len(data)):
            raise MemoryError(f"{grown} bytes for an input of {len(data)}")
    except BaseException as error:
        return error
    return None
