"""Tasks of the Spark engine on the executors, whose items are sent and received as frames.

A frame is a row of the columns index, sender, chunk and data, with at most 128 KiB of a pickled
item, so that rows and Arrow batches stay small for items of any size. Only frames that this module
has written, in a job, are unpickled; those in files hold packed items
(`dimargin.spark.engine.packing`).

An exception of a task replaces its result, as a `Failure`, and is passed through all later steps up
to the driver, which raises it. Otherwise Spark would run the failing task again, as it does for a
lost worker.
"""

from __future__ import annotations

import ctypes
import gc
import platform
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from itertools import chain, groupby, starmap
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext, cloudpickle

from dimargin.shards.shards import Node, added, in_tree, tree_sum
from dimargin.spark.engine.packing import Packing
from dimargin.system.threads import single_threaded_blas

Batches = Iterator[pa.RecordBatch]
Item = tuple[int, int, Any]  # An index, a sender and an item.
Record = tuple[int, int, bytes]  # An index, a sender and a pickled item.
Calls = Sequence[bytes]  # Pickled tasks with their values; each runs on the result of the one before.

_BYTES_OF_CHUNK, _CHUNKS_OF_BATCH = 1 << 17, 64
_CODEC, _COMPRESSED = pa.Codec("lz4_raw"), b"lz4 "  # Compressed items begin with this mark; no pickle does.
COLUMNS = pa.schema([("index", pa.int64()), ("sender", pa.int64()), ("chunk", pa.int32()), ("data", pa.binary())])


@dataclass(frozen=True)
class Failure:
    """Exception of a task, which replaces its result."""

    error: Exception

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Wrap an exception, or its text if it cannot be pickled, with the executor's traceback as a note."""
        note = "On the executor:\n" + "".join(traceback.format_exception(error)).rstrip()
        try:
            error = cloudpickle.loads(cloudpickle.dumps(error))
        except Exception:  # Pickling an exception may raise anything.
            error = RuntimeError(f"{type(error).__name__}: {error}")
        error.add_note(note)
        return cls(error)


@dataclass(frozen=True)
class Layout:
    """Assignment of shards to partitions; consecutive shards share a partition, where they can be summed."""

    n_shards: int
    n_partitions: int

    def indices(self, partition: int) -> range:
        """Return the shards of a partition, of the indices with ``index * n_partitions // n_shards == partition``."""
        return range(*(-(-p * self.n_shards // self.n_partitions) for p in (partition, partition + 1)))


# ---- items and frames ----------------------------------------------------------------------------------------------


def pickled(item: Any) -> bytes:
    """Return an item as bytes; classes and functions that only the driver knows are pickled by value.

    Large items are compressed if that saves a quarter of the bytes, because a pass over cached rows
    spends its time, apart from arithmetic, on copying them from Spark to Python.
    """
    data: bytes = cloudpickle.dumps(item, protocol=5)
    if len(data) <= _BYTES_OF_CHUNK:
        return data
    small = _CODEC.compress(data, asbytes=True)
    return _COMPRESSED + len(data).to_bytes(8, "big") + small if len(small) < 0.75 * len(data) else data


def call_of(task: Callable[..., Any], value: Any) -> bytes:
    """Pickle a task and its broadcast value once, because a plan may be sent several times."""
    return pickled((task, value))


def frames(records: Iterable[Record]) -> Batches:
    """Yield batches of frames of pickled items, without keeping items longer than needed."""
    small: list[Record] = []
    for index, sender, data in records:
        large = len(data) > _BYTES_OF_CHUNK
        if small and (large or len(small) == _CHUNKS_OF_BATCH):
            yield _batch_of_small(small)
            small = []
        if large:
            yield from _chunks(index, sender, memoryview(data))
        else:
            small.append((index, sender, data))
        del data
    if small:
        yield _batch_of_small(small)


def _batch_of_small(records: list[Record]) -> pa.RecordBatch:
    """Return a batch of small items."""
    indices, senders, data = zip(*records, strict=True)
    return _batch(indices, senders, [0] * len(data), [len(item) for item in data], b"".join(data))


def _chunks(index: int, sender: int, data: memoryview) -> Batches:
    """Yield batches of a large item without copying it."""
    n_chunks = -(-len(data) // _BYTES_OF_CHUNK)
    for k in range(0, n_chunks, _CHUNKS_OF_BATCH):
        some = data[k * _BYTES_OF_CHUNK :][: _CHUNKS_OF_BATCH * _BYTES_OF_CHUNK]
        lengths = [min(_BYTES_OF_CHUNK, len(some) - first) for first in range(0, len(some), _BYTES_OF_CHUNK)]
        yield _batch([index] * len(lengths), [sender] * len(lengths), range(k, k + len(lengths)), lengths, some)


def _batch(
    indices: Sequence[int], senders: Sequence[int], chunks: Sequence[int], lengths: Sequence[int], data: Any
) -> pa.RecordBatch:
    """Return frames of the given lengths, which are consecutive in `data`."""
    numbers = [pa.array(some, field.type) for some, field in zip((indices, senders, chunks), COLUMNS, strict=False)]
    offsets = pa.py_buffer(np.cumsum([0, *lengths], dtype=np.int32))
    pieces = pa.Array.from_buffers(pa.binary(), len(lengths), [None, offsets, pa.py_buffer(data)])
    return pa.RecordBatch.from_arrays([*numbers, pieces], schema=COLUMNS)


def items(batches: Iterable[pa.RecordBatch]) -> Iterator[Item]:
    """Return an iterator over the items of frames whose chunks are consecutive."""
    return ((index, sender, _unpickled(data)) for index, sender, data in _item_bytes(batches))


def _item_bytes(batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
    """Return an iterator over the bytes of items of frames whose chunks are consecutive."""
    return _records(chain.from_iterable(map(_rows, batches)))


def received(table: pa.Table) -> list[tuple[int, Any]]:
    """Return the indices and items of frames, in the order of the indices, or raise the first failure."""
    found = list(received_or_failed(table))
    failure = _failure(item for _, item in found)
    if failure is not None:
        try:
            raise failure.error
        finally:
            del failure, found  # Otherwise the exception would keep itself and its callers' shards alive.
    return found


def received_or_failed(table: pa.Table) -> Iterator[tuple[int, Any]]:
    """Return an iterator over the indices and items or failures of frames, in the order of the indices."""
    return ((index, _unpickled(data)) for index, data in records_of(table))


def records_of(table: pa.Table) -> Iterator[tuple[int, bytes]]:
    """Return an iterator over the indices and bytes of frames, in the order of the indices."""
    rows = sorted(chain.from_iterable(map(_rows, table.to_batches())), key=itemgetter(0, 1, 2))
    return ((index, data) for index, _, data in _records(rows))


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, int, int, Any]]:
    numbers = [batch.column(name).to_pylist() for name in ("index", "sender", "chunk")]
    return zip(*numbers, (value.as_buffer() for value in batch.column("data")), strict=True)


def _records(rows: Iterable[tuple[int, int, int, Any]]) -> Iterator[Record]:
    for (index, sender), some in groupby(rows, itemgetter(0, 1)):
        yield index, sender, b"".join([row[3] for row in some])


def _unpickled(data: bytes) -> Any:
    try:
        if data.startswith(_COMPRESSED):
            size = int.from_bytes(data[len(_COMPRESSED) :][:8], "big")
            data = _CODEC.decompress(memoryview(data)[len(_COMPRESSED) + 8 :], size)
        return cloudpickle.loads(data)
    except Exception as error:  # A module may be missing here, for example.
        return Failure.of(error)


def _failure(parts: Iterable[Any]) -> Failure | None:
    return next((part for part in parts if isinstance(part, Failure)), None)


# ---- sums ----------------------------------------------------------------------------------------------------------


def total(items: Iterable[tuple[int, Any]], n_shards: int) -> Any:
    """Return the sums over all shards, from sums or nodes and their indices, in ascending order."""
    return tree_sum(starmap(_node, items), n_shards, _sum_or_failure).sums


def _node(index: int, item: Any) -> Node:
    return item if isinstance(item, Node) else Node(0, index, item)


def _sum_or_failure(sums: Any, others: Any) -> Any:
    return _failure([sums, others]) or added(sums, others)


# ---- tasks: functions of the batches of a partition ----------------------------------------------------------------

_n_frozen = 0  # Number of modules whose objects the garbage collector skips.


@contextmanager
def _task_context() -> Iterator[None]:
    """Context of tasks, in which BLAS has one thread, and garbage collector and malloc take little time.

    Spark's worker runs the collector after every task, over all imported modules, which may take
    longer than the task. The memory of a shard is freed before the next one is received, and glibc
    would return its pages and request new ones. A worker keeps at most 256 MiB of them.
    """
    global _n_frozen
    if not _n_frozen and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD gets its largest value.
        libc.mallopt(-1, 1 << 28)  # M_TRIM_THRESHOLD is the memory that a worker keeps.
    if len(sys.modules) != _n_frozen:
        gc.collect()
        gc.freeze()
        _n_frozen = len(sys.modules)
    with single_threaded_blas():
        yield


def mapped(calls: Calls, batches: Batches) -> Batches:
    """Return frames of the results of the tasks on every item."""
    return _result_frames(_results(calls, batches))


def _results(calls: Calls, batches: Batches) -> Iterator[tuple[int, Any]]:
    """Return an iterator over the indices of the items and the results of the tasks."""
    steps = [_unpickled(call) for call in calls]
    return map(lambda row: (row[0], reduce(_apply_step, steps, row[2])), items(batches))


def _apply_step(item: Any, step: Any) -> Any:
    return _result(step, item, [item])


def zipped(call: bytes, shards: pa.Table, others: pa.Table) -> pa.Table:
    """Return frames of ``task((shard, other), value)`` for the pairs of a partition."""
    work = _unpickled(call)
    found = dict(received_or_failed(others))

    def made(index: int, shard: Any) -> tuple[int, Any]:
        other = found.pop(index) if index in found else Failure.of(ValueError(f"shard {index} has no counterpart"))
        return index, _result(work, (shard, other), [shard, other])

    results = starmap(made, received_or_failed(shards))
    return pa.Table.from_batches(_result_frames(results), COLUMNS)


def merged(call: bytes, size: int, batches: Batches) -> Batches:
    """Return frames of ``join(items, value)`` for every `size` consecutive items."""
    work = _unpickled(call)
    return _result_frames(map(lambda group: (group[0], _result(work, group[1], group[1])), _groups(batches, size)))


def summed(n_shards: int, calls: Calls, batches: Batches) -> Batches:
    """Yield frames of the sums of the tasks' results, in as few nodes as possible."""
    with _task_context():
        for node in in_tree(starmap(_node, _results(calls, batches)), n_shards, _sum_or_failure):
            yield from frames([(node.first, 0, pickled(node.sums if isinstance(node.sums, Failure) else node))])


def dealt(call: bytes, n_shards: int, calls: Calls, batches: Batches) -> Batches:
    """Return frames of the pieces of ``split(item, value)``, with their destinations and senders."""
    return _dealt(call, n_shards, _results(calls, batches))


def gathered(call: bytes, n_shards: int, always: bytes | None, batches: Batches) -> Batches:
    """Yield frames of the pieces of ``split(batch, value)`` for the batches of a source.

    Before them, `always` is sent to every shard, with a sender of its own.
    """
    sender, first = TaskContext.get().partitionId() << 32, next(batches, None)
    if first is None:
        return
    if always is not None:
        yield from frames((index, sender, always) for index in range(n_shards))
    yield from _dealt(call, n_shards, enumerate(chain([first], batches), sender + 1))


def _dealt(call: bytes, n_shards: int, senders: Iterable[tuple[int, Any]]) -> Batches:
    work = _unpickled(call)
    with _task_context():
        sent = map(lambda one: (one[0], _pieces(work, one[1], n_shards)), senders)
        yield from frames((index, sender, data) for sender, pieces in sent for index, data in pieces.items())


def _pieces(call: Any, item: Any, n_shards: int) -> dict[int, bytes]:
    """Return pickled lists of pieces by destination; a failure is sent to all destinations."""
    failure = _failure([call, item])
    if failure is None:
        split, value = call
        pieces: dict[int, list[Any]] = {}
        try:
            for index, piece in split(item, value):
                if not 0 <= index < n_shards:
                    raise ValueError(f"a piece was sent to shard {index}, but there are {n_shards}")
                pieces.setdefault(int(index), []).append(piece)
            return {index: pickled(some) for index, some in pieces.items()}
        except Exception as error:
            failure = Failure.of(error)
    return dict.fromkeys(range(n_shards), pickled(failure))


def joined(call: bytes, layout: Layout, batches: Batches) -> Batches:
    """Yield frames of ``join(pieces, value)`` for every shard of this partition; each must have received a piece."""
    work = _unpickled(call)
    waiting = set(layout.indices(TaskContext.get().partitionId()))

    def made(group: tuple[int, list[Any]]) -> tuple[int, Any]:
        index, received_lists = group
        waiting.discard(index)
        pieces = [piece for some in received_lists for piece in ([some] if isinstance(some, Failure) else some)]
        return index, _result(work, pieces, pieces)

    yield from _result_frames(map(made, _groups(batches, 1)))
    for index in sorted(waiting):
        yield from _result_frames([(index, Failure.of(ValueError(f"shard {index} was sent nothing")))])


def summarised(call: bytes, batches: Batches) -> Batches:
    """Yield the frames of ``task(batches, value)``."""
    work = _unpickled(call)
    with _task_context():
        yield from frames([(TaskContext.get().partitionId(), 0, _pickled_result(_result(work, batches, ())))])


def _groups(batches: Batches, size: int) -> Iterator[tuple[int, list[Any]]]:
    """Yield the number of every group of `size` consecutive indices, and its items."""
    for group, rows in groupby(items(batches), lambda row: row[0] // size):
        yield group, [item for *_, item in rows]


def _result(call: Any, argument: Any, parts: Sequence[Any]) -> Any:
    """Return ``task(argument, value)`` for a call ``(task, value)``, or the first failure in the call or the parts."""
    failure = _failure([call, *parts])
    if failure is not None:
        return failure
    task, value = call
    try:
        return task(argument, value)
    except Exception as error:
        return Failure.of(error)


def _result_frames(results: Iterable[tuple[int, Any]]) -> Batches:
    """Yield frames of results and their indices; a result is freed before the next one is computed."""
    with _task_context():
        yield from frames(map(lambda answer: (answer[0], 0, _pickled_result(answer[1])), results))


def _pickled_result(result: Any) -> bytes:
    try:
        return pickled(result)
    except Exception as error:
        return pickled(Failure.of(error))


# ---- frames in files, which are packed instead of pickled ----------------------------------------------------------


def packed(packing: Packing, batches: Batches) -> Batches:
    """Yield frames of the items, packed."""
    yield from frames((index, sender, packing.pack(item)) for index, sender, item in items(batches))


def unpacked(packing: Packing, batches: Batches) -> Batches:
    """Yield frames of packed items, unpacked."""
    yield from frames((index, sender, pickled(packing.unpack(data))) for index, sender, data in _item_bytes(batches))


def digested(batches: Batches) -> Batches:
    """Yield frames of the SHA-256 of every item's bytes."""
    digests = ((index, sender, sha256(data).hexdigest()) for index, sender, data in _item_bytes(batches))
    yield from frames((index, sender, pickled(digest)) for index, sender, digest in digests)
