"""Cells in processes of their own, each with a time limit: a failure of one does not end the others."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from dimargin_bench.experiments.declarations import Cell
from dimargin_bench.experiments.outcome import KILLED, TIME_LIMIT, Outcome
from dimargin_bench.experiments.worker import STARTED, work

_PRELOADED = ["dimargin_bench.experiments.worker"]
_GLANCE = 0.2  # seconds between looks at whether Ctrl-C was pressed


@dataclass
class _Running:
    place: int  # of its cell
    process: Any
    results: Connection
    deadline: float = float("inf")  # set when the data have been read


def run_cells(cells: Sequence[Cell], data: str, limit: float, jobs: int = 1) -> Generator[tuple[int, Outcome]]:
    """Run cells on the split that joblib stored in the file `data`; yields outcomes with the places of their cells.

    Processes are forked from a server that has imported this package but computed nothing, so that
    they start within milliseconds, have no threads that a fork would break, and their peak memory
    is their own.

    Parameters
    ----------
    cells : sequence of Cell
    data : str
    limit : float
        Seconds of a cell, from when its data have been read.
    jobs : int, default=1
        Cells at a time.

    Raises
    ------
    KeyboardInterrupt
        For Ctrl-C, when all processes have been ended.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    waiting, running = list(reversed(range(len(cells)))), list[_Running]()
    with _ctrl_c_noted() as pressed:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    place = waiting.pop()
                    running.append(_start(context, place, cells[place], data))
                left = min(one.deadline for one in running) - time.monotonic()
                ready = wait([one.results for one in running], min(max(left, 0.0), _GLANCE))
                if pressed:
                    raise KeyboardInterrupt
                for one in list(running):
                    outcome = _outcome(one, limit) if one.results in ready else _overdue(one, limit)
                    if outcome is not None:
                        running.remove(one)
                        _end(one)
                        yield one.place, outcome
        finally:
            for one in running:
                _end(one)


@contextmanager
def _ctrl_c_noted() -> Iterator[list[int]]:
    """Put Ctrl-C into a list, where it would have raised KeyboardInterrupt wherever it happened to arrive.

    That would be lost in a destructor, and leave a process behind that was just being started.
    """
    pressed: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # no other may set handlers
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield pressed
        return
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _start(context: Any, place: int, cell: Cell, data: str) -> _Running:
    results, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(cell, data, sender), daemon=False)
    process.start()
    sender.close()  # so that the end of the process is the end of what can be received
    return _Running(place, process, results)


def _outcome(one: _Running, limit: float) -> Outcome | None:
    """Return what a process sent, or how it ended without; None if it has only started."""
    try:
        received = one.results.recv()
    except EOFError:
        one.process.join()
        return Outcome(KILLED, reason=_ending(one.process.exitcode))
    if received == STARTED:
        one.deadline = time.monotonic() + limit
        return None
    assert isinstance(received, Outcome)
    return received


def _ending(status: int) -> str:
    if status >= 0:
        return f"the process ended with exit status {status} and no result"
    name = signal.Signals(-status).name
    memory = ", as the system does where memory runs out" if -status == signal.SIGKILL else ""
    return f"the process was killed by {name}{memory}"


def _overdue(one: _Running, limit: float) -> Outcome | None:
    if time.monotonic() < one.deadline:
        return None
    return Outcome(TIME_LIMIT, reason=f"no result within {limit:g} s")


def _end(one: _Running) -> None:
    """End a process, with those that it started."""
    with suppress(ProcessLookupError):  # it has ended, or does not lead a group yet
        os.killpg(one.process.pid, signal.SIGKILL)
    one.process.kill()
    one.process.join()
    one.process.close()
    one.results.close()
