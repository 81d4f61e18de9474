"""Engine that runs tasks on threads of this process; the compiled core releases the GIL."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from threading import Event
from typing import Any, ClassVar, Generic, TypeVar

from dimargin.shards.shards import Done, Join, Node, Shards, Split, Sums, Task, check_as_many, tree_sum

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")


@dataclass(frozen=True)
class LocalEngine:
    """Engine that runs independent tasks in parallel on threads.

    Parameters
    ----------
    n_threads : int
        Total number of threads.
    cancelled : threading.Event
        Set when the caller is interrupted, so that running tasks end at their next step.
    """

    n_threads: int
    cancelled: Event

    def map(
        self,
        task: Callable[[Item, int], Result],
        items: Sequence[Item],
        done: Callable[[int, Result], None] = lambda index, result: None,
    ) -> list[Result]:
        """Run a task on every item, and return the results in the order of `items`.

        Parameters
        ----------
        task : callable
            Called with an item and the number of threads that it may use.
        items : sequence
        done : callable
            Called in the caller's thread with index and result of each item whose task has ended.
        """
        workers = min(self.n_threads, len(items))
        if workers <= 1:
            results = []
            for index, item in enumerate(items):
                results.append(task(item, self.n_threads))
                done(index, results[-1])
            return results
        with self._pool(workers) as pool:
            futures = {pool.submit(task, item, self.n_threads // workers): i for i, item in enumerate(items)}
            for future in as_completed(futures):
                done(futures[future], future.result())
            return [future.result() for future in futures]

    def each(self, task: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the results of a task in the order of `items`, few tasks ahead of the caller."""
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
        """Provide threads whose tasks are cancelled if the caller fails or is interrupted."""
        with ThreadPoolExecutor(workers) as pool:
            try:
                yield pool
            except BaseException:
                self.cancelled.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def scatter(self, items: Sequence[Item]) -> LocalShards[Item]:
        """Return a handle on items as shards, without copying them."""
        return LocalShards(self, tuple(items))


@dataclass(frozen=True)
class LocalShards(Generic[Item]):
    """Shards in the memory of this process; see `dimargin.shards.shards.Shards`.

    Examples
    --------
    >>> import numpy as np
    >>> shards = LocalEngine(2, Event()).scatter([np.array([1.0, 2.0]), np.array([3.0])])
    >>> shards.map(lambda shard, factor: factor * shard, 10.0).aggregate(lambda shard, _: (shard.sum(),))
    (np.float64(60.0),)
    >>> shards.fold(lambda shard, carried: carried + [len(shard)], [])
    [2, 1]
    >>> shards.merge(lambda some, _: np.concatenate(some), 2).collect()
    [array([1., 2., 3.])]
    """

    engine: LocalEngine
    items: tuple[Item, ...]
    are_remote: ClassVar[bool] = False

    @property
    def n_shards(self) -> int:
        """See `Shards`."""
        return len(self.items)

    @property
    def n_threads(self) -> int:
        """See `Shards`."""
        return self.engine.n_threads // max(1, self.n_together)

    @property
    def n_together(self) -> int:
        """See `Shards`."""
        return min(self.engine.n_threads, len(self.items))

    def map(self, task: Task, value: Any = None, done: Done = None, cheap: bool = False) -> LocalShards[Any]:
        """See `Shards`; all results are kept."""
        if len(self.items) == 1 and done is None:
            return LocalShards(self.engine, (task(self.items[0], value),))
        ended = (lambda index, result: None) if done is None else (lambda index, result: done(index))
        return LocalShards(self.engine, tuple(self.engine.map(lambda item, _: task(item, value), self.items, ended)))

    def zip(self, others: Shards[Any], task: Task, value: Any = None) -> LocalShards[Any]:
        """See `Shards`."""
        check_as_many(self, others)
        return LocalShards(self.engine, tuple(zip(self.items, others.collect(), strict=True))).map(task, value)

    def merge(self, join: Join, size: int, value: Any = None) -> LocalShards[Any]:
        """See `Shards`."""
        groups = [self.items[first : first + size] for first in range(0, len(self.items), size)]
        return LocalShards(self.engine, tuple(groups)).map(join, value)

    def shuffle(self, split: Split, join: Join, n_shards: int, value: Any = None) -> LocalShards[Any]:
        """See `Shards`."""
        sent: list[list[Any]] = [[] for _ in range(n_shards)]
        for pieces in self.collect(split, value):
            for index, piece in pieces:
                sent[index].append(piece)
        if [] in sent:
            raise ValueError(f"shard {sent.index([])} was sent nothing")
        return LocalShards(self.engine, tuple(sent)).map(join, value)

    def aggregate(self, task: Task, value: Any = None, wide: bool = False) -> Sums:
        """See `Shards`; only the arrays of a few shards are in memory at a time."""
        if not self.items:
            raise ValueError("aggregate needs at least one shard")
        parts = enumerate(self.engine.each(lambda item: task(item, value), self.items))
        sums: Sums = tree_sum((Node(0, index, part) for index, part in parts), len(self.items)).sums
        return sums

    def fold(self, task: Callable[[Item, Value], Value], value: Value) -> Value:
        """See `Shards`."""
        for item in self.items:
            value = task(item, value)
        return value

    def collect(self, task: Task | None = None, value: Any = None, n_shards: int | None = None) -> list[Any]:
        """See `Shards`."""
        items = self.items[:n_shards]
        return list(items if task is None else self.engine.each(lambda item: task(item, value), items))

    def release(self) -> None:
        """See `Shards`; Python frees the memory itself."""
