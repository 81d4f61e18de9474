"""Displays of training in a terminal, which also handle Ctrl-C."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from dimargin.estimators.fit_progress import GapWay, Monitor
from dimargin.system.printing import printable
from dimargin.system.progress_lines import LOGGER


class PlainConsole(Console):
    """Console without markup that escapes control characters in text from files."""

    def __init__(self, **options: Any) -> None:
        super().__init__(soft_wrap=True, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string, or a cell of a table, as it is printed."""
        return super().render_str(printable(text, keep="\n\t"), **options)


class FitDisplay(Monitor):
    """Progress bar of a fit: level, partitions done or gap reached, and the time left.

    The bar is hidden if `console` is not a terminal; `tol` is the relative gap at which the fit
    ends. The first Ctrl-C ends the fit with the best model so far, the second is a
    KeyboardInterrupt.
    """

    stopping = "Stopping with the best model so far"

    def __init__(self, console: Console, tol: float, quiet: bool) -> None:
        super().__init__()
        self._console, self._tol, self._quiet = console, tol, quiet
        self._progress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(), console=console, transient=True,
            disable=quiet or not console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("preparing", total=None, state="")
        self._way = GapWay(tol)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show progress and what a verbose machine logs, and handle Ctrl-C meanwhile."""
        before = signal.signal(signal.SIGINT, self._interrupt)
        handler = _DisplayHandler(self)
        LOGGER.addHandler(handler)
        try:
            with self._progress:
                yield
        finally:
            LOGGER.removeHandler(handler)
            # After a first Ctrl-C the handler stays, since a second one may stop the saving of the
            # model; after a second one Ctrl-C stays ignored.
            if not self.interrupted.is_set():
                signal.signal(signal.SIGINT, before)

    def _interrupt(self, number: int, frame: Any) -> None:
        self.interrupted.set()
        signal.signal(signal.SIGINT, self._leave)
        if not self._quiet:
            self._console.print(f"{self.stopping}. Press Ctrl-C again to quit without it.")

    def _leave(self, number: int, frame: Any) -> None:
        self.interrupted.set()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # A third Ctrl-C would interrupt the cleanup.
        raise KeyboardInterrupt

    def level_begin(self, level: int, n_tasks: int | None) -> None:
        """Start a new bar, which counts partitions if there are several, and else shows the gap."""
        self._way = GapWay(self._tol)
        what = "whole problem" if n_tasks is None else f"{n_tasks} partitions"
        self._progress.reset(
            self._task, total=n_tasks or 1.0, description=f"level {level}, {what}", state="" if n_tasks else "gap 1"
        )

    def task_end(self, index: int) -> None:
        """Advance the bar by a partition."""
        self._progress.advance(self._task)
        done = self._progress.tasks[0]
        self._progress.update(self._task, state=f"{done.completed:.0f} done")

    def check(self, entry: dict[str, Any]) -> bool:
        """Move the bar to where the gap is between the first one and the tolerance, on a logarithmic scale."""
        done, gap = self._way.update(entry["relative_gap"]), entry["relative_gap"]
        self._progress.update(self._task, completed=done, state=f"gap {gap:.1e}")
        return False

    def level_end(self, entry: dict[str, Any], found: Callable[[], Any]) -> bool:
        """Fill the bar, and print a line about the level."""
        self._progress.update(self._task, completed=self._progress.tasks[0].total)
        parts = entry["partitions"]
        scope = f"worst of {parts} partitions" if parts > 1 else entry["scope"]
        self.say(f"level {entry['level']}: relative gap {entry['relative_gap']:.1e} ({scope})")
        return False

    def describe(self, text: str) -> None:
        """Set the description of the bar."""
        self._progress.update(self._task, description=printable(text))

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self._progress.disable:
            self.log(text)

    def log(self, text: str) -> None:
        """Print a line above the bar, or in the log if there is no terminal."""
        if not self._quiet:
            self._console.print(text, highlight=False)


class _DisplayHandler(logging.Handler):
    """Handler that prints what a verbose machine logs by the display of its fit."""

    def __init__(self, display: FitDisplay) -> None:
        super().__init__()
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        self._display.log(self.format(record))


class JobDisplay(FitDisplay):
    """Display of a fit on a cluster: one line per level, and in a terminal also the current level.

    Ctrl-C is a KeyboardInterrupt, which cancels the job. This handler replaces Spark's, which would
    cancel jobs from within whatever code Ctrl-C interrupts.
    """

    def __init__(self, console: Console, tol: float, quiet: bool) -> None:
        super().__init__(console, tol, quiet)
        self._before = time.perf_counter()

    def _interrupt(self, number: int, frame: Any) -> None:
        self._leave(number, frame)

    def fit_begin(self) -> None:
        """Start to count the seconds of the first level, once the rows are known."""
        self._before = time.perf_counter()
        self.describe("before the first level")

    def level_begin(self, level: int, n_tasks: int | None) -> None:
        """Show the current level without progress, because tasks on executors do not report any."""
        if n_tasks is None:
            super().level_begin(level, None)
        else:
            self._progress.reset(self._task, total=None, description=f"level {level}, {n_tasks} partitions", state="")

    def level_end(self, entry: dict[str, Any], found: Callable[[], Any]) -> bool:
        """Print a line about the level, with the sum of the objectives of several classes."""
        now, several = time.perf_counter(), entry["partitions"] > 1
        self.say(
            f"level {entry['level']}: {entry['partitions']} partition{'s' if several else ''}, "
            f"objective {np.sum(entry['objective']):.6g}, "
            f"relative gap {entry['relative_gap']:.1e} ({'worst partition' if several else entry['scope']}), "
            f"{now - self._before:.1f} s"
        )
        self._before = now
        return False

    def say(self, text: str) -> None:
        """Print a line above the bar, or in the log if there is no terminal."""
        self.log(text)
