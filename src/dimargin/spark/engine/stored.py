"""Data frames of frames that Spark computes once, and caches while shards refer to them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast
from uuid import uuid4
from weakref import finalize

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dimargin.spark.engine import frames
from dimargin.spark.engine.frames import Batches, Calls, Layout
from dimargin.spark.engine.jobs import Jobs, other_bytes_again, plain_plans
from dimargin.spark.engine.record import Record, Saved

SCHEMA = StructType().add("index", "long").add("sender", "long").add("chunk", "integer").add("data", "binary")
PRIVATE = {"fs.permissions.umask-mode": "077", "fs.file.impl.disable.cache": "true"}
"""Options with which only the owner can read what Spark writes to a local or mounted file system.

Hadoop's object of that file system keeps the umask with which it was created, so a new one is needed."""

Make = Callable[[], DataFrame]
Result = TypeVar("Result")


class Store:
    """Cached frames of an engine, and the jobs that compute results from them."""

    def __init__(self, jobs: Jobs) -> None:
        self.spark, self.jobs = jobs.spark, jobs
        self._max_partitions = int(self.spark.conf.get("spark.sql.shuffle.partitions"))
        self._closed = False
        self.record: Record | None = None
        self._views: set[str] = set()
        self._stale: deque[str] = deque()  # Views of garbage-collected frames.

    def layout(self, n_shards: int) -> Layout:
        """Return the layout of `n_shards` shards."""
        return Layout(n_shards, min(n_shards, self._max_partitions))

    def results(self, made: Stored, operation: str) -> list[Any]:
        """Return the items of frames in the order of their indices, in one job.

        Frames that these depend on are cached if shards refer to them.
        """
        return self._run(made, operation, lambda found: [item for _, item in found])

    def sums(self, made: Stored, operation: str, wide: bool, task: str) -> Any:
        """Return the sums of frames, in one job; wide ones are summed on the executors, see `Stored.summed`.

        The name of the task tells the results of different sums apart if a time limit has led to
        another path.
        """
        n_shards = made.layout.n_shards
        return self._run(made.summed() if wide else made, operation, lambda found: frames.total(found, n_shards), task)

    def _run(
        self, made: Stored, operation: str, of: Callable[[list[tuple[int, Any]]], Result], task: str = ""
    ) -> Result:
        if self._closed:
            raise RuntimeError("the engine is closed, and its shards were released")
        name = f"{self.jobs.named(operation)} {task}".strip()
        known = None if self.record is None else self.record.known(name)
        if known is not None:
            return cast(Result, known)
        with self._caching(made):
            found = frames.received(self.jobs.run(made.frame(), operation))
        there = {index for index, _ in found}
        for index in made.indices:
            if index not in there:  # Spark runs no task on partitions that it knows to be empty.
                raise ValueError(f"shard {index} was sent nothing")
        made.settle()
        result = of(found)
        if self.record is not None:
            self.record.add(name, result)
        return result

    def save(self, made: Stored, folder: str) -> Saved | None:
        """Write packed frames into a new folder; return None for frames created before the record began.

        This takes two jobs, because the written files are read again.
        """
        if self.record is None or made.number is None:
            return None
        with self._caching(made):
            packed = made.frame().mapInArrow(partial(frames.packed, self.record.packing), SCHEMA)
            writer = packed.write.options(**PRIVATE).mode("overwrite")
            self.jobs.act(lambda: writer.parquet(folder), f"save {len(made.indices)} shards")
        made.settle()
        return Saved(made.number, folder, self.digests(folder, made.layout.n_shards))

    def digests(self, folder: str, n_shards: int) -> list[str]:
        """Return the SHA-256 of every saved shard, in one job."""
        read = self.read(folder, n_shards, frames.digested)
        return [digest for _, digest in frames.received(self.jobs.run(read, "look at what was saved"))]

    def read(self, folder: str, n_shards: int, function: Callable[[Batches], Batches]) -> DataFrame:
        """Return the result of a function on the packed frames of saved shards."""
        packed = self.spark.read.schema(SCHEMA).parquet(folder)
        return dealt(self.layout(n_shards), packed).mapInArrow(function, SCHEMA)

    @contextmanager
    def _caching(self, made: Stored) -> Iterator[None]:
        """Context of a job, which caches the frames that `made` depends on if shards refer to them."""
        self.sweep()
        waiting = made.to_keep()
        with other_bytes_again(self.spark):  # A cached frame keeps the settings with which it was planned.
            if waiting and waiting[0].parent is None:  # The caller's query may use adaptive execution.
                waiting.pop(0).keep()
            with plain_plans(self.spark):
                for step in waiting:
                    step.keep()
                yield

    def keep(self, made: Stored, frame: DataFrame) -> DataFrame:
        """Have Spark cache a frame when it is computed, until `made` is garbage-collected.

        It is cached as a view, which keeps the plans sent by a Connect session short.
        """
        view = f"dimargin_{uuid4().hex}"
        self._views.add(view)
        finalize(made, self._stale.append, view).atexit = False
        # Spark would share one cache between equal plans and release it for all; the view's name
        # makes plans differ.
        frame.where(F.lit(view).isNotNull()).createOrReplaceTempView(view)
        return self.spark.table(view).persist()

    def sweep(self) -> None:
        """Release the frames that were garbage-collected.

        The collector may run inside a call to Spark, so it cannot release them itself.
        """
        while self._stale:
            view = self._stale.popleft()
            if view in self._views:
                self._views.remove(view)
                self.spark.catalog.dropTempView(view)  # This also releases its cache.

    def close(self) -> None:
        """Release all frames."""
        self._closed = True
        self._stale.extend(self._views)
        self.sweep()


class Stored:
    """Frames of shards, which are cached, or computed from those of their parent.

    `make` is a function that returns the data frame, or a pickled task on every item of the parent,
    or a range of indices of the parent's items. `indices` are those of the shards present, by
    default all, and `chain` is the number of steps since the last shuffle.
    """

    def __init__(
        self,
        store: Store,
        parent: Stored | None,
        make: Make | bytes | range,
        layout: Layout,
        indices: Sequence[int] | None = None,
        chain: int = 1,
        zipped_with: Stored | None = None,
    ) -> None:
        self.store, self.parent, self.zipped_with, self.layout = store, parent, zipped_with, layout
        self.indices = range(layout.n_shards) if indices is None else indices
        self.held: Callable[[], bool] = lambda: False  # Whether shards refer to these frames, which are then cached.
        record = store.record
        self.number = None if record is None else record.next_number()  # None if created before the record began.
        if record is not None and record.saved is not None and record.saved.number == self.number:
            unpacked = partial(frames.unpacked, record.packing)
            self.parent = self.zipped_with = None
            make, chain = partial(store.read, record.saved.folder, layout.n_shards, unpacked), 1
        self._chain = chain
        self._make: Make | bytes | range | None = make
        self._kept: DataFrame | None = None
        self._is_zipped = False  # Zipped frames are cached with their partitions, to which the others are moved.

    def frame(self) -> DataFrame:
        """Return the cached frame, or a frame that computes it."""
        if self._kept is not None:
            return self._kept
        return self.through(frames.mapped) if isinstance(self._make, (bytes, range)) else cast(Make, self._make)()

    def through(self, function: Callable[[Calls, Batches], Batches]) -> DataFrame:
        """Return the frame of a function of the uncached tasks and the batches before them, in one process."""
        calls: list[bytes] = []
        made, indices = self, None
        while made._kept is None and isinstance(made._make, (bytes, range)):
            if isinstance(made._make, bytes):
                calls.insert(0, made._make)
            else:
                indices = F.col("index").between(made._make[0], made._make[-1])
            made = cast(Stored, made.parent)
        frame = made.frame() if indices is None else made.frame().where(indices)
        return frame.mapInArrow(partial(function, calls), SCHEMA)

    def to_keep(self) -> list[Stored]:
        """Return the frames up to this one that shards refer to and that are not cached yet, in their order."""
        if self._kept is not None:
            return []
        before = [step for made in self._made_of() for step in made.to_keep()]
        return list(dict.fromkeys([*before, self] if self.held() else before))

    def keep(self) -> None:
        """Have Spark cache these frames."""
        frame = self.frame()
        self._kept = self.store.keep(self, dealt(self.layout, frame) if self._is_zipped else frame)

    def settle(self) -> None:
        """Drop the references to the parents of cached frames, once these have been computed."""
        for made in self._made_of():
            made.settle()
        if self._kept is not None:
            self.parent = self.zipped_with = self._make = None

    def _made_of(self) -> list[Stored]:
        return [made for made in (self.parent, self.zipped_with) if made is not None]

    def mapped(self, task: Callable[..., Any], value: Any) -> Stored:
        """Return frames of ``task(item, value)``."""
        call = frames.call_of(task, value)
        # Spark serialises steps without a shuffle nested, so their number is limited by an
        # executor's stack.
        if self._chain < 8:
            return Stored(self.store, self, call, self.layout, self.indices, self._chain + 1)
        again = Stored(self.store, self, lambda: dealt(self.layout, self.frame()), self.layout, self.indices)
        return Stored(self.store, again, call, self.layout, self.indices, 2)

    def of_indices(self, indices: range) -> Stored:
        """Return frames of consecutive shards."""
        return Stored(self.store, self, indices, self.layout, indices, self._chain)

    def zipped(self, others: Stored, call: bytes) -> Stored:
        """Return frames of a pickled task on pairs of these and others, which move to the partitions of these."""
        self._is_zipped = self._is_zipped or self._kept is None
        layout = self.layout

        def make() -> DataFrame:
            here = self.frame() if self._is_zipped and self._kept is not None else dealt(layout, self.frame())
            there = dealt(layout, others.frame())
            pairs = here.groupBy("part").cogroup(there.groupBy("part"))
            return pairs.applyInArrow(partial(frames.zipped, call), SCHEMA)

        return Stored(self.store, self, make, layout, self.indices, zipped_with=others)

    def merged(self, function: Callable[[Batches], Batches], size: int) -> Stored:
        """Return the result of a function of frames on every `size` shards, which move to a common partition."""
        layout = self.store.layout(-(-self.layout.n_shards // size))
        return Stored(self.store, self, lambda: dealt(layout, self.frame(), size).mapInArrow(function, SCHEMA), layout)

    def shuffled(self, send: Callable[[Calls, Batches], Batches], join: bytes, n_shards: int) -> Stored:
        """Return `n_shards` new shards, which a pickled join makes from the pieces that `send` returns."""
        layout = self.store.layout(n_shards)
        return Stored(self.store, self, lambda: joined(layout, self.through(send), join), layout)

    def summed(self) -> Stored:
        """Return nodes of the sums of all shards (`frames.in_tree`), few enough for the driver.

        Every partition is summed first. If that leaves many nodes, groups of partitions are moved
        together and summed, with about as many groups as shards in each.
        """
        n_shards = self.layout.n_shards
        size = 1 << (math.isqrt(n_shards - 1).bit_length())
        groups = self.store.layout(-(-n_shards // size))

        def make() -> DataFrame:
            nodes = self.through(partial(frames.summed, n_shards))
            if self.layout.n_partitions <= max(groups.n_shards, 8):  # The driver adds up to eight sums itself.
                return nodes
            return dealt(groups, nodes, size).mapInArrow(partial(frames.summed, n_shards, []), SCHEMA)

        return Stored(self.store, self, make, self.layout, [0])


def joined(layout: Layout, sent: DataFrame, join: bytes) -> DataFrame:
    """Return the shards that a pickled join makes from the pieces they received."""
    return dealt(layout, sent).mapInArrow(partial(frames.joined, join, layout), SCHEMA)


def dealt(layout: Layout, frame: DataFrame, size: int = 1) -> DataFrame:
    """Move frames to their partitions, with groups of `size` indices together, and sort them.

    Partitions are a column, so that Spark knows the partitions of cached frames when they are
    zipped.
    """
    part = F.expr(f"cast((index div {size}) * {layout.n_partitions} div {layout.n_shards} as int)")
    moved = frame.withColumn("part", part).repartitionById(layout.n_partitions, F.col("part"))
    return moved.sortWithinPartitions("part", "index", "sender", "chunk")
