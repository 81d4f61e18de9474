"""Engine that runs tasks on a Spark cluster, using only data frames, so that it works over Connect."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Generic, TypeVar, cast
from weakref import ref

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from dimargin.shards.shards import Done, Join, Shards, Split, Sums, Task, check_as_many
from dimargin.spark.engine import frames
from dimargin.spark.engine.jobs import Jobs
from dimargin.spark.engine.packing import Packing
from dimargin.spark.engine.record import Record, Saved
from dimargin.spark.engine.spark_folder import Folder
from dimargin.spark.engine.stored import SCHEMA, Store, Stored, dealt, joined

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")


class SparkEngine:
    """Engine that runs independent tasks on the executors of a Spark session, with ``spark.task.cpus`` cores each.

    Shards are stored as frames (`dimargin.spark.engine.frames`) in data frames that Spark caches,
    in memory or on disk, from the first job over them until they are garbage-collected or released,
    by `SparkShards.release` or `close`. Tasks and broadcast values are sent in the plan of their
    job.

    Results depend neither on the number of executors nor on that of partitions, which is the number
    of shards but at most ``spark.sql.shuffle.partitions``. An exception of a task is raised on the
    driver, with the executor's traceback in a note; a task whose executor or worker is lost runs
    again. Use the engine as a context manager.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Classic or Connect, of Spark 4.1 or newer. Two of its settings,
        ``spark.sql.adaptive.enabled`` and
        ``spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch``, are off while jobs
        over shards run.

    Raises
    ------
    RuntimeError
        If Spark is too old, or if the executors have another version of dimargin or Python. They
        are checked during the first job, or before it if it runs tasks.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._jobs = Jobs(spark)
        self._store = Store(self._jobs)

    @property
    def memory_of_worker(self) -> int:
        """Smallest number of bytes that a worker may use."""
        return self._jobs.check()

    @property
    def jobs(self) -> int:
        """Number of jobs run so far."""
        return self._jobs.count

    @property
    def received_bytes(self) -> int:
        """Number of bytes that the driver received from jobs."""
        return self._jobs.received_bytes

    def describe(self, text: str) -> AbstractContextManager[None]:
        """Describe the jobs inside this context in Spark's user interface, by their description or tag (Connect)."""
        return self._jobs.describe(text)

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *trace: object) -> None:
        if isinstance(error, Exception) and self._jobs.is_stopped:  # Every call raises some error after a stop.
            raise RuntimeError("the Spark session was stopped before the work was done") from None
        self.close()

    def close(self) -> None:
        """Release all shards."""
        self._store.close()

    # ---- resuming the work of another driver -----------------------------------------------------------------------

    def folder(self, path: str) -> Folder:
        """Return a folder that the session can read and write."""
        return Folder(self._jobs, path)

    def record(self, packing: Packing, past: Iterable[tuple[str, bytes]] = (), saved: Saved | None = None) -> None:
        """Start recording the packed results of all jobs; see `dimargin.spark.engine.record`.

        Jobs of the `past`, which `news` returned to an earlier driver since the same moment, are
        not run again, and the `saved` shards of that driver are not recomputed.
        """
        self._store.record = Record(packing, deque(past), saved)

    @property
    def is_replaying(self) -> bool:
        """Return whether the next job is a past one."""
        return self._store.record is not None and bool(self._store.record.past)

    def news(self) -> list[tuple[str, bytes]]:
        """Return the names and packed results of the jobs since the last call or `record`."""
        return self._store.record.take() if self._store.record is not None else []

    def save(self, shards: SparkShards[Any], folder: str) -> Saved | None:
        """Write shards into a folder, in two jobs.

        Return None, without writing, for shards created before `record`, which would be recomputed.
        """
        return self._store.save(shards._made, folder)

    def digests(self, saved: Saved) -> list[str]:
        """Return the SHA-256 of every shard in a folder, in their order, in one job."""
        return self._store.digests(saved.folder, len(saved.digests))

    # ---- shards --------------------------------------------------------------------------------------------------

    def scatter(self, items: Sequence[Item]) -> SparkShards[Item]:
        """Return shards of the driver's items, which must be small, because Spark's driver keeps a copy."""
        if not items:
            raise ValueError("there are no items to scatter")
        records = ((index, 0, frames.pickled(item)) for index, item in enumerate(items))
        source = self._jobs.spark.createDataFrame(pa.Table.from_batches(frames.frames(records)))
        layout = self._store.layout(len(items))
        return SparkShards(Stored(self._store, None, lambda: dealt(layout, source), layout))

    def gather(
        self, source: DataFrame, split: Split, join: Join, n_shards: int, value: Any = None, nothing: Any = None
    ) -> SparkShards[Any]:
        """Return shards of the rows of a data frame, in one shuffle.

        ``split(batch, value)`` returns pairs of a shard and the piece to send there, for a
        `pyarrow.RecordBatch` of rows, and ``join(pieces, value)`` makes a shard of the pieces
        received, in no particular order. Every shard must receive a piece: `nothing`, if given, is
        sent to all shards by every partition with rows.
        """
        always = None if nothing is None else frames.pickled([nothing])
        send = partial(frames.gathered, frames.call_of(split, value), n_shards, always)
        layout, together = self._store.layout(n_shards), frames.call_of(join, value)
        return SparkShards(
            Stored(self._store, None, lambda: joined(layout, source.mapInArrow(send, SCHEMA), together), layout)
        )

    def query(self, *questions: tuple[DataFrame, str]) -> list[list[Row]]:
        """Return the rows of small data frames, given with the names of their jobs, which run concurrently.

        These jobs run no task, so they do not wait for the check of the executors.
        """
        return self._jobs.query(questions)

    def summarise(
        self, source: DataFrame, task: Callable[[Iterator[pa.RecordBatch], Any], Result], value: Any = None
    ) -> list[Result]:
        """Return ``task(batches, value)`` of every partition of a data frame, in no particular order."""
        summaries = source.mapInArrow(partial(frames.summarised, frames.call_of(task, value)), SCHEMA)
        return [item for _, item in frames.received(self._jobs.run(summaries, "summarise"))]


class SparkShards(Generic[Item]):
    """Shards on the executors; see `dimargin.shards.shards.Shards`.

    Operations are lazy. When results are requested, all shards they depend on that still have a
    handle are computed once and cached. Shards without a handle, and cheap ones, are computed
    without caching, and cached shards without a handle are released.

    Examples
    --------
    With a session::

        with SparkEngine(spark) as engine:
            shards = engine.scatter([np.array([1.0, 2.0]), np.array([3.0])])
            (total,) = shards.map(scaled, 10.0).aggregate(sums)
    """

    n_together = 1
    are_remote = True

    def __init__(self, made: Stored, kept: SparkShards[Any] | None = None) -> None:
        self._stored: Stored | None = made
        self._kept = kept  # Cheap shards are not cached, and keep a handle on the shards they are computed from.
        if kept is None:
            handle = ref(self)
            made.held = lambda: handle() is not None

    @property
    def _made(self) -> Stored:
        if self._stored is None:
            raise RuntimeError("these shards were released")
        return self._stored

    @property
    def n_shards(self) -> int:
        """See `Shards`."""
        return len(self._made.indices)

    @property
    def n_threads(self) -> int:
        """See `Shards`; this is ``spark.task.cpus``, the number of cores that Spark reserves for a task."""
        return self._made.store.jobs.threads_of_a_task

    def map(self, task: Task, value: Any = None, done: Done = None, cheap: bool = False) -> SparkShards[Any]:
        """See `Shards`; `done` is not called."""
        return SparkShards(self._made.mapped(task, value), self if cheap else None)

    def zip(self, others: Shards[Any], task: Task, value: Any = None) -> SparkShards[Any]:
        """See `Shards`; the others are sent to the partitions of these."""
        check_as_many(self, others)
        return SparkShards(self._made.zipped(cast(SparkShards[Any], others)._made, frames.call_of(task, value)))

    def merge(self, join: Join, size: int, value: Any = None) -> SparkShards[Any]:
        """See `Shards`."""
        return SparkShards(self._made.merged(partial(frames.merged, frames.call_of(join, value), size), size))

    def shuffle(self, split: Split, join: Join, n_shards: int, value: Any = None) -> SparkShards[Any]:
        """See `Shards`."""
        send = partial(frames.dealt, frames.call_of(split, value), n_shards)
        return SparkShards(self._made.shuffled(send, frames.call_of(join, value), n_shards))

    def aggregate(self, task: Task, value: Any = None, wide: bool = False) -> Sums:
        """See `Shards`; wide arrays are summed on the executors first."""
        made = self._made.mapped(task, value)
        name = getattr(task, "func", task).__qualname__  # The task may be a functools.partial.
        sums: Sums = made.store.sums(made, f"aggregate {self.n_shards} shards", wide, name)
        return sums

    def fold(self, task: Callable[[Item, Value], Value], value: Value) -> Value:
        """See `Shards`; this takes one job per shard."""
        n_shards = self.n_shards
        for index in range(n_shards):
            step = self._made.of_indices(range(index, index + 1)).mapped(task, value)
            (value,) = step.store.results(step, f"fold, shard {index} of {n_shards}")
        return value

    def collect(self, task: Task | None = None, value: Any = None, n_shards: int | None = None) -> list[Any]:
        """See `Shards`."""
        made = self._made
        if n_shards is not None and n_shards < self.n_shards:
            made = made.of_indices(range(n_shards))
        if task is not None:
            made = made.mapped(task, value)
        return made.store.results(made, f"collect {len(made.indices)} shards")

    def release(self) -> None:
        """See `Shards`; further operations on these shards raise an error; shards made from them stay valid."""
        made, self._stored, self._kept = self._made, None, None
        store, made.held = made.store, lambda: False
        del made
        store.sweep()
