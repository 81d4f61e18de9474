"""What the Spark engine has Spark hold: data frames of frames, made once, cached while somebody holds them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast
from uuid import uuid4
from weakref import finalize

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dimargin.engines import frames
from dimargin.engines.jobs import Jobs, plain_plans
from dimargin.engines.packing import Packing
from dimargin.engines.record import Reader, Record, Saved

SCHEMA = StructType().add("place", "long").add("sender", "long").add("chunk", "integer").add("data", "binary")
_LONGEST_CHAIN = 8  # steps without a shuffle: Spark serialises them nested, and the stack of an executor is finite

Make = Callable[[Any], DataFrame]


class Store:
    """The cached frames of an engine, and how results are got.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    jobs : Jobs
    """

    def __init__(self, spark: SparkSession, jobs: Jobs) -> None:
        self.spark, self.jobs = spark, jobs
        self._most_partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
        self._closed = False
        self.record: Record | None = None
        self._views: set[str] = set()
        self._stale: deque[str] = deque()  # views of frames that nobody holds any more

    def n_partitions(self, n_shards: int) -> int:
        """Partitions that so many shards are in."""
        return min(n_shards, self._most_partitions)

    def results(self, made: Stored, verb: str) -> list[Any]:
        """Items of frames in the order of their places, in one job; what somebody holds on the way there is cached."""
        if self._closed:
            raise RuntimeError("the engine is closed, and its shards were released")
        name = self.jobs.named(verb)
        known = None if self.record is None else self.record.known(name)
        if known is not None:
            return cast(list[Any], known)
        with self._kept(made):
            found = dict(frames.received(self.jobs.run(made.frame(), verb)))
        for place in made.places:
            if place not in found:  # Spark runs no task where it knows that there are no rows
                raise ValueError(f"shard {place} was sent nothing")
        made.settle()
        results = list(found.values())
        if self.record is not None:
            self.record.add(name, results)
        return results

    def save(self, made: Stored, folder: str) -> Saved | None:
        """Write frames into a new folder, packed; None for those made before the record began.

        Two jobs: what was written is read again.
        """
        if self.record is None or made.number is None:
            return None
        with self._kept(made):
            packed = made.frame().mapInArrow(partial(frames.packed, self.record.packing), SCHEMA)
            self.jobs.act(lambda: packed.write.mode("overwrite").parquet(folder), f"save {len(made.places)} shards")
        made.settle()
        return Saved(made.number, folder, self.digests(folder, made.n_partitions))

    def digests(self, folder: str, n_partitions: int) -> list[str]:
        """SHA-256 of every shard that was saved, in one job."""
        read = dealt(n_partitions, self.spark.read.schema(SCHEMA).parquet(folder)).mapInArrow(frames.digested, SCHEMA)
        return [digest for _, digest in frames.received(self.jobs.run(read, "look at what was saved"))]

    def reader(self, folder: str, packing: Packing) -> Reader:
        """What makes frames of those that were saved."""

        def read(n_partitions: int) -> DataFrame:
            packed = dealt(n_partitions, self.spark.read.schema(SCHEMA).parquet(folder))
            return packed.mapInArrow(partial(frames.unpacked, packing), SCHEMA)

        return read

    @contextmanager
    def _kept(self, made: Stored) -> Iterator[None]:
        """For a job: what somebody holds on the way to these frames is cached by it."""
        self.sweep()
        waiting = made.to_keep()
        if waiting and waiting[0].parent is None:  # the caller's query, which may be adapted
            waiting.pop(0).keep()
        with plain_plans(self.spark):
            for step in waiting:
                step.keep()
            yield

    def keep(self, made: Stored, frame: DataFrame) -> DataFrame:
        """Have Spark cache a frame when it makes it, until `made` is forgotten.

        It is cached as a view, so that the plans stay short that a Connect session sends.
        """
        view = f"dimargin_{uuid4().hex}"
        self._views.add(view)
        finalize(made, self._stale.append, view).atexit = False
        # Spark would cache equal plans once, and release them for all: the name makes this one different
        frame.where(F.lit(view).isNotNull()).createOrReplaceTempView(view)
        return self.spark.table(view).persist()

    def sweep(self) -> None:
        """Release what nobody holds; not when Python finds that out, which may be inside a call to Spark."""
        while self._stale:
            view = self._stale.popleft()
            if view in self._views:
                self._views.remove(view)
                self.spark.catalog.dropTempView(view)  # and what is cached of it

    def close(self) -> None:
        """Release everything."""
        self._closed = True
        self._stale.extend(self._views)
        self.sweep()


class Stored:
    """Frames of shards: cached, or how they are made of their parent.

    Parameters
    ----------
    store : Store
    parent : Stored or None
    make : callable or bytes
        Makes the data frame of the parent's; bytes are a pickled task on every item.
    places : sequence of int
        Of the shards.
    n_partitions : int
    chain : int
        Steps since the last shuffle.

    Attributes
    ----------
    held : callable
        Whether somebody holds a handle on these shards.
    number : int or None
        Among all that the store's record counts; None for those made before it began.
    """

    def __init__(
        self,
        store: Store,
        parent: Stored | None,
        make: Make | bytes,
        places: Sequence[int],
        n_partitions: int,
        chain: int = 1,
    ) -> None:
        self.store, self.parent, self.places, self.n_partitions = store, parent, places, n_partitions
        self.held: Callable[[], bool] = lambda: False
        self.number = None if store.record is None else store.record.next_number()
        saved = None if store.record is None else store.record.saved.pop(self.number or 0, None)
        if saved is not None:
            self.parent, make, chain = None, lambda _: saved(n_partitions), 1
        self._chain = chain
        self._make: Make | bytes | None = make
        self._kept: DataFrame | None = None

    def frame(self) -> DataFrame:
        """The cached frame, or what would make it; tasks that follow one another run in one process."""
        if self._kept is not None:
            return self._kept
        calls: list[bytes] = []
        made = self
        while made._kept is None and isinstance(made._make, bytes):
            calls.insert(0, made._make)
            made = cast(Stored, made.parent)
        if calls:
            return made.frame().mapInArrow(partial(frames.mapped, calls), SCHEMA)
        return cast(Make, self._make)(self.parent and self.parent.frame())

    def to_keep(self) -> list[Stored]:
        """Those that somebody holds and that are not cached yet, from the first to this one."""
        if self._kept is not None:
            return []
        before = [] if self.parent is None else self.parent.to_keep()
        return [*before, self] if self.held() else before

    def keep(self) -> None:
        """Have Spark cache these frames."""
        self._kept = self.store.keep(self, self.frame())

    def settle(self) -> None:
        """Forget what cached frames were made of, once they have been made."""
        if self.parent is not None:
            self.parent.settle()
        if self._kept is not None:
            self.parent = self._make = None

    def mapped(self, task: Callable[..., Any], value: Any) -> Stored:
        """Frames of ``task(item, value)``."""
        call = frames.call_of(task, value)
        if self._chain < _LONGEST_CHAIN:
            return Stored(self.store, self, call, self.places, self.n_partitions, self._chain + 1)
        again = Stored(self.store, self, partial(dealt, self.n_partitions), self.places, self.n_partitions)
        return Stored(self.store, again, call, self.places, self.n_partitions, 2)

    def of_place(self, place: int) -> Stored:
        """Frames of one shard."""

        def make(frame: DataFrame) -> DataFrame:
            return frame.where(F.col("place") == place)

        return Stored(self.store, self, make, [place], self.n_partitions, self._chain)

    def merged(self, function: Callable[..., Any], size: int) -> Stored:
        """What a function of frames makes of every `size` shards, which move to where they meet."""
        n_shards = -(-len(self.places) // size)
        n_partitions = self.store.n_partitions(n_shards)

        def make(frame: DataFrame) -> DataFrame:
            return dealt(n_partitions, frame, size).mapInArrow(function, SCHEMA)

        return Stored(self.store, self, make, range(n_shards), n_partitions)


def joined(store: Store, sender: Stored | DataFrame, send: Callable[..., Any], join: bytes, n_shards: int) -> Stored:
    """What a pickled join makes of the pieces that a function of the sender's batches sends to so many shards."""
    n_partitions = store.n_partitions(n_shards)
    together = partial(frames.joined, join, n_shards, n_partitions)

    def make(frame: DataFrame) -> DataFrame:
        return dealt(n_partitions, frame.mapInArrow(send, SCHEMA)).mapInArrow(together, SCHEMA)

    places = range(n_shards)
    if isinstance(sender, Stored):
        return Stored(store, sender, make, places, n_partitions)
    return Stored(store, None, lambda _: make(sender), places, n_partitions)


def dealt(n_partitions: int, frame: DataFrame, size: int = 1) -> DataFrame:
    """Frames where they belong: groups of `size` places go to partitions round-robin, in their order."""
    partition = F.expr(f"cast((place div {size}) % {n_partitions} as int)")
    return frame.repartitionById(n_partitions, partition).sortWithinPartitions("place", "sender", "chunk")
