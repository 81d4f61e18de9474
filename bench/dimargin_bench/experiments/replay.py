"""Fits on more cores than there are: tasks are measured on one core, and replayed on others by list scheduling."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from dimargin.shards.shards import Done, Join, Shards, Split, Sums, Task
from dimargin.solvers import PrimalSolution
from dimargin.strategies import DiODM, LinearDSVRG, LinearTraining, Training
from dimargin.strategies.strategy import Outcome

Value = TypeVar("Value")
REPLAYED = (1, 2, 4, 8, 16, 32)
"""Numbers of cores on which fits are replayed: those of the paper's axes."""


def makespan(seconds: Iterable[float], cores: int) -> float:
    """Return when the last of some tasks ends: each goes, in their order, to the core that is free first.

    Examples
    --------
    >>> makespan([3.0, 3.0, 2.0, 4.0], cores=2)
    7.0
    """
    free = [0.0] * cores
    for own in seconds:
        heapq.heapreplace(free, free[0] + own)
    return max(free)


@dataclass(frozen=True)
class TaskTimes:
    """Seconds of a fit on one core, and of its tasks: those of a stage do not wait for each other, stages do.

    What no task took, such as the inner loop of a distributed gradient method, stays as it is on
    any number of cores. Nothing is sent: on a cluster that takes time, too.
    """

    seconds: float
    stages: Sequence[Sequence[float]]

    @property
    def between(self) -> float:
        """Seconds that no task took."""
        return max(0.0, self.seconds - sum(map(sum, self.stages)))

    def on(self, cores: int) -> float:
        """Return the seconds of the same fit on so many cores, each with a task at a time."""
        return self.between + sum(makespan(stage, cores) for stage in self.stages)


def error_band(replayed: float, cores: int, error: float) -> tuple[float, float]:
    """Return the lowest and the highest speed-up on some cores, if every doubling may be as wrong as the first.

    Parameters
    ----------
    replayed : float
        Speed-up on so many cores, replayed.
    cores : int
    error : float
        Speed-up on two cores, measured, over the replayed one.

    Examples
    --------
    >>> error_band(3.0, cores=4, error=0.5)
    (0.75, 4.0)
    """
    factor = max(error, 1 / error) ** math.log2(cores)
    return replayed / factor, max(replayed, min(replayed * factor, float(cores)))


@dataclass(frozen=True)
class TimedShards:
    """Shards of one thread whose tasks are timed, a list of seconds for every operation; see `Shards`.

    A value that is carried from shard to shard by `fold` keeps one core busy at a time, so that its
    tasks do not count.
    """

    shards: Shards[Any]
    stages: list[list[float]]

    @property
    def n_shards(self) -> int:
        """See `Shards`."""
        return self.shards.n_shards

    @property
    def n_threads(self) -> int:
        """See `Shards`."""
        return self.shards.n_threads

    @property
    def n_together(self) -> int:
        """See `Shards`."""
        return self.shards.n_together

    @property
    def are_remote(self) -> bool:
        """See `Shards`."""
        return self.shards.are_remote

    def map(self, task: Task, value: Any = None, done: Done = None, cheap: bool = False) -> TimedShards:
        """See `Shards`."""
        return replace(self, shards=self.shards.map(self._timed(task), value, done, cheap))

    def zip(self, others: Shards[Any], task: Task, value: Any = None) -> TimedShards:
        """See `Shards`."""
        return replace(self, shards=self.shards.zip(cast(TimedShards, others).shards, self._timed(task), value))

    def merge(self, join: Join, size: int, value: Any = None) -> TimedShards:
        """See `Shards`."""
        return replace(self, shards=self.shards.merge(self._timed(join), size, value))

    def shuffle(self, split: Split, join: Join, n_shards: int, value: Any = None) -> TimedShards:
        """See `Shards`."""
        return replace(self, shards=self.shards.shuffle(self._timed(split), self._timed(join), n_shards, value))

    def aggregate(self, task: Task, value: Any = None, wide: bool = False) -> Sums:
        """See `Shards`."""
        return self.shards.aggregate(self._timed(task), value, wide)

    def fold(self, task: Callable[[Any, Value], Value], value: Value) -> Value:
        """See `Shards`."""
        return self.shards.fold(task, value)

    def collect(self, task: Task | None = None, value: Any = None, n_shards: int | None = None) -> list[Any]:
        """See `Shards`."""
        return self.shards.collect(None if task is None else self._timed(task), value, n_shards)

    def release(self) -> None:
        """See `Shards`."""
        self.shards.release()

    def _timed(self, task: Task) -> Task:
        stage = list[float]()
        self.stages.append(stage)

        def run(shard: Any, value: Any) -> Any:
            began = time.perf_counter()
            found = task(shard, value)
            stage.append(time.perf_counter() - began)
            return found

        return run


class TimedDiODM(DiODM):
    """DiODM that notes the seconds of its tasks in ``stages_``, a list for each operation."""

    def train(self, training: Training) -> Outcome:
        """Train on rows whose tasks are timed."""
        self.stages_: list[list[float]] = []
        return super().train(replace(training, rows=TimedShards(training.rows, self.stages_)))


class TimedDSVRG(LinearDSVRG):
    """Distributed SVRG that notes the seconds of its tasks in ``stages_``, a list for each operation."""

    def train(self, training: LinearTraining) -> PrimalSolution:
        """Train on rows whose tasks are timed."""
        self.stages_: list[list[float]] = []
        return super().train(replace(training, rows=TimedShards(training.rows, self.stages_)))
