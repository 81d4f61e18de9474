"""Work of the Spark engine on the executors, where tasks run on items that come and go as frames.

A frame is a row of the columns index, sender, chunk and data: at most 128 KiB of a pickled item. Rows and Arrow batches
stay small with it, however large an item is. Only frames that this module has written, in a job, are ever unpickled;
those in files hold packed items (`dimargin.spark.engine.packing`).

An exception of a task takes the place of its result, as a `Failure`, and goes through all that follows up to the
driver, which raises it: a task that fails would fail again if Spark ran it again, as it does where a worker is lost.
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
Item = tuple[int, int, Any]  # with its index and sender
Record = tuple[int, int, bytes]  # the same, pickled
Calls = Sequence[bytes]  # pickled tasks, each with its value, of which each is run on the result of the one before

_BYTES_OF_CHUNK, _CHUNKS_OF_BATCH = 1 << 17, 64
_CODEC, _COMPRESSED = pa.Codec("lz4_raw"), b"lz4 "  # no pickle begins so
COLUMNS = pa.schema([("index", pa.int64()), ("sender", pa.int64()), ("chunk", pa.int32()), ("data", pa.binary())])


@dataclass(frozen=True)
class Failure:
    """Exception of a task, in place of its result."""

    error: Exception

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Wrap an exception, or its text if it cannot be pickled, with a note that says where it was raised."""
        note = "On the executor:\n" + "".join(traceback.format_exception(error)).rstrip()
        try:
            error = cloudpickle.loads(cloudpickle.dumps(error))
        except Exception:  # whatever a class of exceptions does when it is pickled
            error = RuntimeError(f"{type(error).__name__}: {error}")
        error.add_note(note)
        return cls(error)


@dataclass(frozen=True)
class Layout:
    """Assignment of shards to partitions; those that follow one another are together, so that they can be summed."""

    n_shards: int
    n_partitions: int

    def indices(self, partition: int) -> range:
        """Return the shards of a partition, of the indices with ``index * n_partitions // n_shards == partition``."""
        return range(*(-(-p * self.n_shards // self.n_partitions) for p in (partition, partition + 1)))


# ---- items and frames ----------------------------------------------------------------------------------------------


def pickled(item: Any) -> bytes:
    """Return an item as bytes; classes and functions that only the driver knows are pickled by value.

    Large ones are compressed where that saves a fourth of the bytes. The time of a pass over cached rows, beside its
    arithmetic, is that of copying them from Spark to Python.
    """
    data: bytes = cloudpickle.dumps(item, protocol=5)
    if len(data) <= _BYTES_OF_CHUNK:
        return data
    small = _CODEC.compress(data, asbytes=True)
    return _COMPRESSED + len(data).to_bytes(8, "big") + small if len(small) < 0.75 * len(data) else data


def call_of(task: Callable[..., Any], value: Any) -> bytes:
    """Pickle a task and the value that was broadcast, once, however often the plan is sent."""
    return pickled((task, value))


def frames(records: Iterable[Record]) -> Batches:
    """Yield batches of frames of pickled items, of which none is held longer than needed."""
    small: list[Record] = []
    for index, sender, data in records:
        large = len(data) > _BYTES_OF_CHUNK
        if small and (large or len(small) == _CHUNKS_OF_BATCH):
            yield _together(small)
            small = []
        if large:
            yield from _chunks(index, sender, memoryview(data))
        else:
            small.append((index, sender, data))
        del data
    if small:
        yield _together(small)


def _together(records: list[Record]) -> pa.RecordBatch:
    """Return a batch of small items."""
    indices, senders, data = zip(*records, strict=True)
    return _batch(indices, senders, [0] * len(data), [len(item) for item in data], b"".join(data))


def _chunks(index: int, sender: int, data: memoryview) -> Batches:
    """Yield batches of a large item, which is not copied."""
    n_chunks = -(-len(data) // _BYTES_OF_CHUNK)
    for k in range(0, n_chunks, _CHUNKS_OF_BATCH):
        some = data[k * _BYTES_OF_CHUNK :][: _CHUNKS_OF_BATCH * _BYTES_OF_CHUNK]
        lengths = [min(_BYTES_OF_CHUNK, len(some) - first) for first in range(0, len(some), _BYTES_OF_CHUNK)]
        yield _batch([index] * len(lengths), [sender] * len(lengths), range(k, k + len(lengths)), lengths, some)


def _batch(
    indices: Sequence[int], senders: Sequence[int], chunks: Sequence[int], lengths: Sequence[int], data: Any
) -> pa.RecordBatch:
    """Return frames of so many bytes each, which follow one another in `data`."""
    numbers = [pa.array(some, field.type) for some, field in zip((indices, senders, chunks), COLUMNS, strict=False)]
    offsets = pa.py_buffer(np.cumsum([0, *lengths], dtype=np.int32))
    pieces = pa.Array.from_buffers(pa.binary(), len(lengths), [None, offsets, pa.py_buffer(data)])
    return pa.RecordBatch.from_arrays([*numbers, pieces], schema=COLUMNS)


def items(batches: Iterable[pa.RecordBatch]) -> Iterator[Item]:
    """Return an iterator over the items of frames that follow one another."""
    return ((index, sender, _unpickled(data)) for index, sender, data in _came(batches))


def _came(batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
    """Return an iterator over the bytes of items of frames that follow one another."""
    return _records(chain.from_iterable(map(_rows, batches)))


def received(table: pa.Table) -> list[tuple[int, Any]]:
    """Return the indices and items of frames, in the order of the indices; the first failure is raised."""
    found = list(received_or_failed(table))
    failure = _failure(item for _, item in found)
    if failure is not None:
        try:
            raise failure.error
        finally:
            del failure, found  # or the exception would hold itself, and the shards of its callers
    return found


def received_or_failed(table: pa.Table) -> Iterator[tuple[int, Any]]:
    """Return an iterator over the indices and items of frames, in the order of the indices, failures among them."""
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
    except Exception as error:  # a module that is not there, for one
        return Failure.of(error)


def _failure(parts: Iterable[Any]) -> Failure | None:
    return next((part for part in parts if isinstance(part, Failure)), None)


# ---- sums ----------------------------------------------------------------------------------------------------------


def total(items: Iterable[tuple[int, Any]], n_shards: int) -> Any:
    """Return the sums over all shards, from indices and sums or nodes, in their order."""
    return tree_sum(starmap(_node, items), n_shards, _plus).sums


def _node(index: int, item: Any) -> Node:
    return item if isinstance(item, Node) else Node(0, index, item)


def _plus(sums: Any, others: Any) -> Any:
    return _failure([sums, others]) or added(sums, others)


# ---- tasks: functions of the batches of a partition ----------------------------------------------------------------

_n_frozen = 0  # modules whose objects the garbage collector leaves alone
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1  # of malloc.h


@contextmanager
def _at_work() -> Iterator[None]:
    """Context of tasks, in which BLAS has one thread, and garbage collector and malloc take little time.

    Spark's worker runs the collector after every task, over all that was ever imported, which may take longer than the
    task. The memory of a shard is freed before the next one comes. The C library of Linux would return these pages and
    ask for new ones. A worker keeps 256 MiB of them at most.
    """
    global _n_frozen
    if not _n_frozen and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 25)  # the most it takes
        libc.mallopt(_M_TRIM_THRESHOLD, 1 << 28)
    if len(sys.modules) != _n_frozen:
        gc.collect()
        gc.freeze()
        _n_frozen = len(sys.modules)
    with single_threaded_blas():
        yield


def mapped(calls: Calls, batches: Batches) -> Batches:
    """Return frames of the results of the tasks on every item."""
    return _answered(_made(calls, batches))


def _made(calls: Calls, batches: Batches) -> Iterator[tuple[int, Any]]:
    """Return an iterator over the indices of the items and the results of the tasks."""
    steps = [_unpickled(call) for call in calls]
    return map(lambda row: (row[0], reduce(_next, steps, row[2])), items(batches))


def _next(item: Any, step: Any) -> Any:
    return _result(step, item, [item])


def zipped(call: bytes, shards: pa.Table, others: pa.Table) -> pa.Table:
    """Return frames of ``task((shard, other), value)`` for the shards and others of a partition."""
    work = _unpickled(call)
    beside = dict(received_or_failed(others))

    def made(index: int, shard: Any) -> tuple[int, Any]:
        other = beside.pop(index) if index in beside else Failure.of(ValueError(f"shard {index} has no other"))
        return index, _result(work, (shard, other), [shard, other])

    results = starmap(made, received_or_failed(shards))
    return pa.Table.from_batches(_answered(results), COLUMNS)


def merged(call: bytes, size: int, batches: Batches) -> Batches:
    """Return frames of ``join(items, value)`` for every `size` items that follow one another."""
    work = _unpickled(call)
    return _answered(map(lambda group: (group[0], _result(work, group[1], group[1])), _groups(batches, size)))


def summed(n_shards: int, calls: Calls, batches: Batches) -> Batches:
    """Yield frames of the sums of the tasks' results, in as few nodes as possible."""
    with _at_work():
        for node in in_tree(starmap(_node, _made(calls, batches)), n_shards, _plus):
            yield from frames([(node.first, 0, pickled(node.sums if isinstance(node.sums, Failure) else node))])


def dealt(call: bytes, n_shards: int, calls: Calls, batches: Batches) -> Batches:
    """Return frames of what ``split(item, value)`` sends, with the index that it goes to and its sender."""
    return _dealt(call, n_shards, _made(calls, batches))


def gathered(call: bytes, n_shards: int, always: bytes | None, batches: Batches) -> Batches:
    """Yield frames of what ``split(batch, value)`` sends for the batches of a source.

    Before them comes what is always sent, with a sender of its own.
    """
    sender, first = TaskContext.get().partitionId() << 32, next(batches, None)
    if first is None:
        return
    if always is not None:
        yield from frames((index, sender, always) for index in range(n_shards))
    yield from _dealt(call, n_shards, enumerate(chain([first], batches), sender + 1))


def _dealt(call: bytes, n_shards: int, senders: Iterable[tuple[int, Any]]) -> Batches:
    work = _unpickled(call)
    with _at_work():
        sent = map(lambda one: (one[0], _pieces(work, one[1], n_shards)), senders)
        yield from frames((index, sender, data) for sender, pieces in sent for index, data in pieces.items())


def _pieces(call: Any, item: Any, n_shards: int) -> dict[int, bytes]:
    """Return pickled lists of what is sent, by destination; a failure goes to all destinations."""
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
    """Yield frames of ``join(pieces, value)`` for every shard of this partition; each must have been sent something."""
    work = _unpickled(call)
    waiting = set(layout.indices(TaskContext.get().partitionId()))

    def made(group: tuple[int, list[Any]]) -> tuple[int, Any]:
        index, came = group
        waiting.discard(index)
        pieces = [piece for some in came for piece in ([some] if isinstance(some, Failure) else some)]
        return index, _result(work, pieces, pieces)

    yield from _answered(map(made, _groups(batches, 1)))
    for index in sorted(waiting):
        yield from _answered([(index, Failure.of(ValueError(f"shard {index} was sent nothing")))])


def summarised(call: bytes, batches: Batches) -> Batches:
    """Yield the frames of ``task(batches, value)``."""
    work = _unpickled(call)
    with _at_work():
        yield from frames([(TaskContext.get().partitionId(), 0, _pickled_result(_result(work, batches, ())))])


def _groups(batches: Batches, size: int) -> Iterator[tuple[int, list[Any]]]:
    """Yield the items of every `size` indices that follow one another, after the number of the group."""
    for group, rows in groupby(items(batches), lambda row: row[0] // size):
        yield group, [item for *_, item in rows]


def _result(call: Any, argument: Any, parts: Sequence[Any]) -> Any:
    """Return ``task(argument, value)`` for a call ``(task, value)``, or the first failure of the call or the parts."""
    failure = _failure([call, *parts])
    if failure is not None:
        return failure
    task, value = call
    try:
        return task(argument, value)
    except Exception as error:
        return Failure.of(error)


def _answered(results: Iterable[tuple[int, Any]]) -> Batches:
    """Yield frames of results, which come with their indices; none is held while the next one is made."""
    with _at_work():
        yield from frames(map(lambda answer: (answer[0], 0, _pickled_result(answer[1])), results))


def _pickled_result(result: Any) -> bytes:
    try:
        return pickled(result)
    except Exception as error:
        return pickled(Failure.of(error))


# ---- frames in files, which are packed and not pickled -------------------------------------------------------------


def packed(packing: Packing, batches: Batches) -> Batches:
    """Yield frames of the same items as bytes of a packing."""
    yield from frames((index, sender, packing.pack(item)) for index, sender, item in items(batches))


def unpacked(packing: Packing, batches: Batches) -> Batches:
    """Yield frames of the items that were packed."""
    yield from frames((index, sender, pickled(packing.unpack(data))) for index, sender, data in _came(batches))


def digested(batches: Batches) -> Batches:
    """Yield frames of the SHA-256 of every item's bytes."""
    yield from frames((index, sender, pickled(sha256(data).hexdigest())) for index, sender, data in _came(batches))
