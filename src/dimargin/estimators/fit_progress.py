"""Progress reports of a strategy to scikit-learn's callbacks and by logging.

The task tree of a fit is ``fit`` / ``level l`` / one task for each partition. A level with more
than a thousand partitions, such as all pairs of fifty classes, has a thousand tasks ``partitions``
instead. If the level is a single problem, the number of checks of the gap is unknown; its tasks are
thousandths of the decrease of the gap to the tolerance, on a logarithmic scale, so that a progress
bar follows the gap. A check ends as many tasks as the gap has progressed, at least one: the last is
named ``check``, the others ``progress``. If checks without progress use up the thousand tasks,
further checks are children of a task ``further checks``. A callback whose ``on_fit_task_end``
returns True at a level or check stops the fit.
"""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from threading import Event, current_thread, main_thread
from typing import Any

from dimargin.strategies import Progress
from dimargin.system.arrays import Floats
from dimargin.system.progress_lines import log_progress

_MAX_LEVEL_TASKS = 1000


class GapWay:
    """Logarithmic progress of a gap to its tolerance, from 0 at the first finite gap to 1.

    The progress never decreases.

    Parameters
    ----------
    tol : float
        Positive tolerance.
    """

    def __init__(self, tol: float) -> None:
        self._tol, self._first, self.share = tol, math.nan, 0.0

    def update(self, gap: float) -> float:
        """Record a gap, and return the progress."""
        if math.isfinite(gap):
            gap = max(gap, self._tol)
            self._first = gap if math.isnan(self._first) else self._first
            whole = math.log(self._first / self._tol)
            self.share = max(self.share, math.log(self._first / gap) / whole if whole > 0 else 1.0)
        return self.share


class Monitor(Progress):
    """Listener of a front end, which can end the fit with the best model so far.

    Attributes
    ----------
    interrupted : threading.Event
        Set it to end the fit.
    """

    def __init__(self) -> None:
        self.interrupted = Event()

    def refit_begin(self) -> None:
        """Receive the event that a search is over and its best candidate is trained next."""


@contextmanager
def observed(
    estimator: Any, monitor: Monitor | None = None, evaluate_sites: Callable[..., Floats] | None = None
) -> Iterator[None]:
    """Let a front end follow the fits of an estimator within the block.

    Parameters
    ----------
    estimator : classifier or search
    monitor : Monitor or None
        Listener of the progress.
    evaluate_sites : callable or None
        Function from `dimargin.display.site_accuracies`, whose values a simulated network records.
    """
    given = {"_monitor": monitor, "_evaluate_sites": evaluate_sites}
    given = {name: listener for name, listener in given.items() if listener is not None}
    vars(estimator).update(given)
    try:
        yield
    finally:
        for name in given:
            vars(estimator).pop(name)


@contextmanager
def interruptible(estimator: Any, interrupted: Event) -> Iterator[Event]:
    """Let the first Ctrl-C end the fit in the block; the second one raises KeyboardInterrupt.

    Nothing changes where a front end follows the fit, where the program has a handler of its own,
    and in other threads and processes than the main ones.

    Parameters
    ----------
    estimator : estimator being fitted
    interrupted : threading.Event
        Set to end the fit with the best model so far.

    Yields
    ------
    threading.Event
        Set if Ctrl-C was pressed in the block.
    """
    pressed, before = Event(), signal.getsignal(signal.SIGINT)
    is_main = current_thread() is main_thread() and parent_process() is None
    if not is_main or before is not signal.default_int_handler or "_monitor" in vars(estimator):
        yield pressed
        return

    def end(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        pressed.set()
        interrupted.set()
        with suppress(RuntimeError, OSError, ValueError):  # The interrupted code may be printing itself.
            print("Stopping with the best model so far. Interrupt again to stop without it.", file=sys.stderr)

    signal.signal(signal.SIGINT, end)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def interruption(estimator: Any) -> KeyboardInterrupt:
    """Return the error that ends an interrupted fit, after it has set ``status_`` and all other attributes."""
    return KeyboardInterrupt(
        f"{type(estimator).__name__} keeps the best model so far, with a relative duality gap of "
        f"{estimator.duality_gap_:.2e} ({estimator.certificate_})"
    )


def monitor_of(estimator: Any) -> Monitor:
    """Return the monitor of the front end, or one without a listener."""
    monitor: Monitor | None = vars(estimator).get("_monitor")
    return monitor or Monitor()


class CallbackProgress(Progress):
    """Progress listener that reports to callbacks and to a front end.

    Parameters
    ----------
    estimator : estimator being fitted
    context : sklearn.callback.CallbackContext
        Context of the fit with subtasks that are not sequential; their ids are the levels.
    data : dict
        ``X``, ``y`` and ``metadata`` for the hooks.
    reconstruct : callable
        Function that returns the fitted attributes for a model of the strategy.
    monitor : Monitor
        Listener of the front end.
    """

    def __init__(
        self,
        estimator: Any,
        context: Any,
        data: dict[str, Any],
        reconstruct: Callable[[Any], dict[str, Any]],
        monitor: Monitor,
    ) -> None:
        self._estimator = estimator
        self._context = context
        self._data = {"estimator": estimator, **data}
        self._reconstruct = reconstruct
        self._monitor = monitor
        self._level: Any = None
        self._further: Any = None
        self._single = False

    def level_begin(self, level: int, n_tasks: int | None) -> None:
        """Open the level's task."""
        self._monitor.level_begin(level, n_tasks)
        self._single = n_tasks is None
        self._way, self._steps, self._further = GapWay(self._estimator.tol), 0, None
        self._n_tasks, self._ended = _MAX_LEVEL_TASKS if n_tasks is None else n_tasks, 0
        subtasks = {"max_subtasks": min(self._n_tasks, _MAX_LEVEL_TASKS), "sequential_subtasks": self._single}
        self._level = self._context.subcontext(task_name=f"level {level}", task_id=level, **subtasks)
        self._level.call_on_fit_task_begin(**self._data)

    def _subtask(self, name: str, index: int | None = None) -> bool:
        self._steps += 1
        task = (self._further or self._level).subcontext(task_name=name, task_id=index)
        task.call_on_fit_task_begin(**self._data)
        return bool(task.call_on_fit_task_end(**self._data))

    def task_end(self, index: int) -> None:
        """Report that a partition is solved; a single problem reports checks instead."""
        self._monitor.task_end(index)
        self._ended += 1
        if not self._single and self._n_tasks <= _MAX_LEVEL_TASKS:
            self._subtask("partition", index)
        elif not self._single:
            while self._steps < self._ended * _MAX_LEVEL_TASKS // self._n_tasks:
                self._subtask("partitions", self._steps)

    def check(self, entry: dict[str, Any]) -> bool:
        """Report a check of the gap."""
        if self._estimator.verbose > 1:
            log_progress(f"  {entry['seconds']:8.2f} s  relative gap {entry['relative_gap']:.2e}")
        done = min(int(self._way.update(entry["relative_gap"]) * _MAX_LEVEL_TASKS), _MAX_LEVEL_TASKS - 1)
        stop = False
        # Without listeners, a fit of milliseconds would spend most of them on a thousand tasks.
        while self._steps + 1 < done and getattr(self._estimator, "_skl_callbacks", None):
            stop |= self._subtask("progress")
        if self._steps == _MAX_LEVEL_TASKS - 1 and self._further is None:
            self._further = self._level.subcontext(task_name="further checks", max_subtasks=None)
            self._further.call_on_fit_task_begin(**self._data)
        return stop | self._subtask("check") | self._monitor.check(entry)

    def level_end(self, entry: dict[str, Any], found: Callable[[], Any]) -> bool:
        """Report the outcome of the level, and close its task."""
        if self._estimator.verbose:
            parts = entry["partitions"]
            part = "pair" if "pairs" in entry else "partition"
            what = f"{entry['rows']} rows" if "rows" in entry else f"{parts} {part}{'s' if parts > 1 else ''}"
            scope = f"worst {part}" if parts > 1 else entry["scope"]
            log_progress(
                f"level {entry['level']}: {what}, {entry['seconds']:.2f} s, "
                f"relative gap {entry['relative_gap']:.2e} ({scope})"
            )
        if self._further is not None:
            self._further.call_on_fit_task_end(**self._data)
        stop = self._level.call_on_fit_task_end(
            **self._data, reconstruction_attributes=lambda: self._reconstruct(found())
        )
        return bool(stop) | self._monitor.level_end(entry, found)
