"""Tasks on the threads of this process; the compiled core releases the interpreter lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import Event
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")
Sums = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True)
class LocalEngine:
    """Runs independent tasks side by side.

    Parameters
    ----------
    n_threads : int
        Threads in all.
    cancelled : threading.Event
        Set when the caller is interrupted, so that tasks under way end at their next step.
    """

    n_threads: int
    cancelled: Event

    def map(
        self,
        task: Callable[[Item, int], Result],
        items: Sequence[Item],
        done: Callable[[int, Result], None] = lambda place, result: None,
    ) -> list[Result]:
        """Results in the order of `items`.

        Parameters
        ----------
        task : callable
            Called with an item and the number of threads that it may use.
        items : sequence
        done : callable
            Called in the caller's thread with the place and the result of every item that has ended.
        """
        workers = min(self.n_threads, len(items))
        if workers <= 1:
            results = []
            for place, item in enumerate(items):
                results.append(task(item, self.n_threads))
                done(place, results[-1])
            return results
        with self._pool(workers) as pool:
            futures = {pool.submit(task, item, self.n_threads // workers): i for i, item in enumerate(items)}
            for future in as_completed(futures):
                done(futures[future], future.result())
            return [future.result() for future in futures]

    def each(self, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Results in the order of `items`, each as soon as those before are there; few are ahead of the caller."""
        workers = min(self.n_threads, len(items))
        if workers <= 1:
            yield from map(task, items)
            return
        with self._pool(workers) as pool:
            waiting = iter(items)
            ahead = deque(pool.submit(task, item) for item in islice(waiting, 2 * workers))
            while ahead:
                result = ahead.popleft().result()
                ahead.extend(pool.submit(task, item) for item in islice(waiting, 1))
                yield result

    @contextmanager
    def _pool(self, workers: int) -> Iterator[ThreadPoolExecutor]:
        """Threads, whose tasks are cancelled where the caller fails or is interrupted."""
        with ThreadPoolExecutor(workers) as pool:
            try:
                yield pool
            except BaseException:
                self.cancelled.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def scatter(self, items: Sequence[Item]) -> LocalShards[Item]:
        """A handle on shards, which stay where they are."""
        return LocalShards(self, tuple(items))


@dataclass(frozen=True)
class LocalShards(Generic[Item]):
    """Shards in the memory of this process; see `dimargin.shards.Shards`.

    Examples
    --------
    >>> import numpy as np
    >>> shards = LocalEngine(2, Event()).scatter([np.array([1.0, 2.0]), np.array([3.0])])
    >>> shards.map(lambda shard, factor: factor * shard, 10.0).aggregate(lambda shard, _: (shard.sum(),))
    (np.float64(60.0),)
    >>> shards.fold(lambda shard, carried: carried + [len(shard)], [])
    [2, 1]
    """

    engine: LocalEngine
    items: tuple[Item, ...]

    def map(self, task: Callable[[Item, Any], Result], value: Any = None) -> LocalShards[Result]:
        """New shards: ``task(shard, value)`` of every one."""
        return LocalShards(self.engine, tuple(self.engine.each(lambda item: task(item, value), self.items)))

    def aggregate(self, task: Callable[[Item, Any], Sums], value: Any = None) -> Sums:
        """Sums over the shards, in their order, of the arrays ``task(shard, value)``; few are held at a time."""
        sums: Sums | None = None
        for part in self.engine.each(lambda item: task(item, value), self.items):
            sums = part if sums is None else tuple(a + b for a, b in zip(sums, part, strict=True))
        if sums is None:
            raise ValueError("there are no shards to sum over")
        return sums

    def fold(self, task: Callable[[Item, Value], Value], value: Value) -> Value:
        """Carry a value through the shards, in their order: ``value = task(shard, value)``."""
        for item in self.items:
            value = task(item, value)
        return value

    def collect(self) -> list[Item]:
        """The shards themselves, in their order."""
        return list(self.items)
