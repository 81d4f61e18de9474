"""Data frames of frames that the Spark engine has Spark make once, and cache while somebody holds them."""

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
"""Options by which what Spark writes to a local or mounted file system can be read by its owner only.

Hadoop's object of that file system keeps the umask with which it was made, so that a new one is needed."""
_FEW_PARTITIONS = 8  # whose sums the driver takes
_LONGEST_CHAIN = 8  # steps without a shuffle: Spark serialises them nested, and the stack of an executor is finite

Make = Callable[[], DataFrame]
Result = TypeVar("Result")


class Store:
    """Cached frames of an engine, and the jobs that get results from them."""

    def __init__(self, jobs: Jobs) -> None:
        self.spark, self.jobs = jobs.spark, jobs
        self._max_partitions = int(self.spark.conf.get("spark.sql.shuffle.partitions"))
        self._closed = False
        self.record: Record | None = None
        self._views: set[str] = set()
        self._stale: deque[str] = deque()  # views of frames that nobody holds any more

    def layout(self, n_shards: int) -> Layout:
        """Return the layout of so many shards."""
        return Layout(n_shards, min(n_shards, self._max_partitions))

    def results(self, made: Stored, operation: str) -> list[Any]:
        """Return the items of frames in the order of their indices, in one job.

        Frames on the way there that somebody holds are cached.
        """
        return self._got(made, operation, lambda found: [item for _, item in found])

    def sums(self, made: Stored, operation: str, wide: bool, task: str) -> Any:
        """Return the sums of frames, in one job; wide ones are summed on the executors, see `Stored.summed`.

        The name of the task distinguishes the results of other sums, where a time limit has led to another course.
        """
        n_shards = made.layout.n_shards
        return self._got(made.summed() if wide else made, operation, lambda found: frames.total(found, n_shards), task)

    def _got(
        self, made: Stored, operation: str, of: Callable[[list[tuple[int, Any]]], Result], task: str = ""
    ) -> Result:
        if self._closed:
            raise RuntimeError("the engine is closed, and its shards were released")
        name = f"{self.jobs.named(operation)} {task}".strip()
        known = None if self.record is None else self.record.known(name)
        if known is not None:
            return cast(Result, known)
        with self._kept(made):
            found = frames.received(self.jobs.run(made.frame(), operation))
        there = {index for index, _ in found}
        for index in made.indices:
            if index not in there:  # Spark runs no task where it knows that there are no rows
                raise ValueError(f"shard {index} was sent nothing")
        made.settle()
        result = of(found)
        if self.record is not None:
            self.record.add(name, result)
        return result

    def save(self, made: Stored, folder: str) -> Saved | None:
        """Write frames into a new folder, packed; return None for those made before the record began.

        This takes two jobs, since what was written is read again.
        """
        if self.record is None or made.number is None:
            return None
        with self._kept(made):
            packed = made.frame().mapInArrow(partial(frames.packed, self.record.packing), SCHEMA)
            writer = packed.write.options(**PRIVATE).mode("overwrite")
            self.jobs.act(lambda: writer.parquet(folder), f"save {len(made.indices)} shards")
        made.settle()
        return Saved(made.number, folder, self.digests(folder, made.layout.n_shards))

    def digests(self, folder: str, n_shards: int) -> list[str]:
        """Return the SHA-256 of every shard that was saved, in one job."""
        read = self.read(folder, n_shards, frames.digested)
        return [digest for _, digest in frames.received(self.jobs.run(read, "look at what was saved"))]

    def read(self, folder: str, n_shards: int, function: Callable[[Batches], Batches]) -> DataFrame:
        """Return what a function makes of the packed frames of shards that were saved."""
        packed = self.spark.read.schema(SCHEMA).parquet(folder)
        return dealt(self.layout(n_shards), packed).mapInArrow(function, SCHEMA)

    @contextmanager
    def _kept(self, made: Stored) -> Iterator[None]:
        """Context of a job, which caches the frames that somebody holds on the way to these."""
        self.sweep()
        waiting = made.to_keep()
        with other_bytes_again(self.spark):  # a cached frame keeps the settings with which it was planned
            if waiting and waiting[0].parent is None:  # the caller's query, which may be adapted
                waiting.pop(0).keep()
            with plain_plans(self.spark):
                for step in waiting:
                    step.keep()
                yield

    def keep(self, made: Stored, frame: DataFrame) -> DataFrame:
        """Have Spark cache a frame when it makes it, until `made` is garbage-collected.

        It is cached as a view, so that the plans stay short that a Connect session sends.
        """
        view = f"dimargin_{uuid4().hex}"
        self._views.add(view)
        finalize(made, self._stale.append, view).atexit = False
        # Spark would cache equal plans once, and release them for all: the name makes this one different
        frame.where(F.lit(view).isNotNull()).createOrReplaceTempView(view)
        return self.spark.table(view).persist()

    def sweep(self) -> None:
        """Release the frames that nobody holds any more.

        Python finds them when it may be inside a call to Spark, so that they cannot be released at once.
        """
        while self._stale:
            view = self._stale.popleft()
            if view in self._views:
                self._views.remove(view)
                self.spark.catalog.dropTempView(view)  # and what is cached of it

    def close(self) -> None:
        """Release all frames."""
        self._closed = True
        self._stale.extend(self._views)
        self.sweep()


class Stored:
    """Frames of shards, which are cached, or made from those of their parent.

    `make` is a function that returns the data frame, or a pickled task on every item of the parent, or a range of the
    indices of some of these items. `indices` are those of the shards that are there, by default of all, and `chain`
    counts the steps since the last shuffle.
    """

    def __init__(
        self,
        store: Store,
        parent: Stored | None,
        make: Make | bytes | range,
        layout: Layout,
        indices: Sequence[int] | None = None,
        chain: int = 1,
        beside: Stored | None = None,
    ) -> None:
        self.store, self.parent, self.beside, self.layout = store, parent, beside, layout
        self.indices = range(layout.n_shards) if indices is None else indices
        self.held: Callable[[], bool] = lambda: False  # whether somebody has a handle on these: they are cached then
        record = store.record
        self.number = None if record is None else record.next_number()  # None for those made before the record began
        if record is not None and record.saved is not None and record.saved.number == self.number:
            unpacked = partial(frames.unpacked, record.packing)
            self.parent = self.beside = None
            make, chain = partial(store.read, record.saved.folder, layout.n_shards, unpacked), 1
        self._chain = chain
        self._make: Make | bytes | range | None = make
        self._kept: DataFrame | None = None
        self._is_zipped = False  # whether others will come to these, which are cached with their partitions then

    def frame(self) -> DataFrame:
        """Return the cached frame, or one that would make it."""
        if self._kept is not None:
            return self._kept
        return self.through(frames.mapped) if isinstance(self._make, (bytes, range)) else cast(Make, self._make)()

    def through(self, function: Callable[[Calls, Batches], Batches]) -> DataFrame:
        """Return the frame that a function makes of the last tasks and the batches before them, in one process."""
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
        """Return the frames that somebody holds and that are not cached yet, from the first to this one."""
        if self._kept is not None:
            return []
        before = [step for made in self._made_of() for step in made.to_keep()]
        return list(dict.fromkeys([*before, self] if self.held() else before))

    def keep(self) -> None:
        """Have Spark cache these frames."""
        frame = self.frame()
        self._kept = self.store.keep(self, dealt(self.layout, frame) if self._is_zipped else frame)

    def settle(self) -> None:
        """Forget what cached frames were made of, once they have been made."""
        for made in self._made_of():
            made.settle()
        if self._kept is not None:
            self.parent = self.beside = self._make = None

    def _made_of(self) -> list[Stored]:
        return [made for made in (self.parent, self.beside) if made is not None]

    def mapped(self, task: Callable[..., Any], value: Any) -> Stored:
        """Return frames of ``task(item, value)``."""
        call = frames.call_of(task, value)
        if self._chain < _LONGEST_CHAIN:
            return Stored(self.store, self, call, self.layout, self.indices, self._chain + 1)
        again = Stored(self.store, self, lambda: dealt(self.layout, self.frame()), self.layout, self.indices)
        return Stored(self.store, again, call, self.layout, self.indices, 2)

    def of_indices(self, indices: range) -> Stored:
        """Return frames of some shards that follow one another."""
        return Stored(self.store, self, indices, self.layout, indices, self._chain)

    def zipped(self, others: Stored, call: bytes) -> Stored:
        """Return frames of a pickled task on pairs of these and others, which come to where these are."""
        self._is_zipped = self._is_zipped or self._kept is None
        layout = self.layout

        def make() -> DataFrame:
            here = self.frame() if self._is_zipped and self._kept is not None else dealt(layout, self.frame())
            there = dealt(layout, others.frame())
            pairs = here.groupBy("part").cogroup(there.groupBy("part"))
            return pairs.applyInArrow(partial(frames.zipped, call), SCHEMA)

        return Stored(self.store, self, make, layout, self.indices, beside=others)

    def merged(self, function: Callable[[Batches], Batches], size: int) -> Stored:
        """Return what a function of frames makes of every `size` shards, which move to where they meet."""
        layout = self.store.layout(-(-self.layout.n_shards // size))
        return Stored(self.store, self, lambda: dealt(layout, self.frame(), size).mapInArrow(function, SCHEMA), layout)

    def shuffled(self, send: Callable[[Calls, Batches], Batches], join: bytes, n_shards: int) -> Stored:
        """Return what a pickled join makes of what a function of the shards sends to so many new ones."""
        layout = self.store.layout(n_shards)
        return Stored(self.store, self, lambda: joined(layout, self.through(send), join), layout)

    def summed(self) -> Stored:
        """Return nodes of the sums of all shards (`frames.in_tree`), few enough for the driver.

        What is in a partition is summed there. Where that leaves many nodes, groups of partitions meet and are summed
        before they go on, about as many groups as shards in each.
        """
        n_shards = self.layout.n_shards
        size = 1 << (math.isqrt(n_shards - 1).bit_length())
        groups = self.store.layout(-(-n_shards // size))

        def make() -> DataFrame:
            nodes = self.through(partial(frames.summed, n_shards))
            if self.layout.n_partitions <= max(groups.n_shards, _FEW_PARTITIONS):
                return nodes
            return dealt(groups, nodes, size).mapInArrow(partial(frames.summed, n_shards, []), SCHEMA)

        return Stored(self.store, self, make, self.layout, [0])


def joined(layout: Layout, sent: DataFrame, join: bytes) -> DataFrame:
    """Return what a pickled join makes of what was sent to shards."""
    return dealt(layout, sent).mapInArrow(partial(frames.joined, join, layout), SCHEMA)


def dealt(layout: Layout, frame: DataFrame, size: int = 1) -> DataFrame:
    """Move frames to their partitions, groups of `size` indices as one, and sort them.

    Partitions are a column, by which Spark knows where cached frames are that are zipped.
    """
    part = F.expr(f"cast((index div {size}) * {layout.n_partitions} div {layout.n_shards} as int)")
    moved = frame.withColumn("part", part).repartitionById(layout.n_partitions, F.col("part"))
    return moved.sortWithinPartitions("part", "index", "sender", "chunk")
