"""Items cut into frames, and put together again; no session is needed."""

import platform
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")

from dimargin.spark.engine import frames  # noqa: E402

CHUNK = 1 << 17


@pytest.mark.parametrize("chunks", [1, 2, 64, 65])
def test_items_of_any_length_come_back(chunks):
    noise = np.random.default_rng(0).bytes((chunks + 1) * CHUNK)
    overhead = len(frames.pickled(noise[: chunks * CHUNK])) - chunks * CHUNK
    made = [noise[: chunks * CHUNK - overhead + length] for length in range(-3, 4)]
    assert {len(frames.pickled(item)) % CHUNK for item in made} >= {CHUNK - 1, 0, 1}
    batches = list(frames.frames((index, 7, frames.pickled(item)) for index, item in enumerate(made)))
    assert list(frames.items(batches)) == [(index, 7, item) for index, item in enumerate(made)]


def test_rows_and_batches_stay_small():
    made = [np.random.default_rng(0).random(3_000_000), "small", *range(200)]
    batches = list(frames.frames((index, 0, frames.pickled(item)) for index, item in enumerate(made)))
    assert max(batch.num_rows for batch in batches) == 64
    assert max(len(data) for batch in batches for data in batch.column("data").to_pylist()) == CHUNK
    assert len(batches) < 10
    found = [item for *_, item in frames.items(batches)]
    assert_array_equal(found[0], made[0])
    assert found[1:] == made[1:]


def test_large_items_are_compressed_where_that_saves_much():
    zeros, noise = np.zeros(100_000), np.random.default_rng(0).random(100_000)
    assert len(frames.pickled(zeros)) < 0.1 * zeros.nbytes
    assert len(frames.pickled(noise)) > noise.nbytes
    assert len(frames.pickled(zeros[:10])) > 80  # not worth it
    batches = list(frames.frames((index, 0, frames.pickled(item)) for index, item in enumerate((zeros, noise))))
    for (*_, found), expected in zip(frames.items(batches), (zeros, noise), strict=True):
        assert_array_equal(found, expected)


@given(n_shards=st.integers(1, 40), n_partitions=st.integers(1, 50))
def test_every_shard_is_in_one_partition_and_they_are_as_even_as_can_be(n_shards, n_partitions):
    n_partitions = min(n_partitions, n_shards)
    indices = [frames.Layout(n_shards, n_partitions).indices(partition) for partition in range(n_partitions)]
    assert [index for some in indices for index in some] == list(range(n_shards))
    assert {len(some) for some in indices} <= {n_shards // n_partitions, -(-n_shards // n_partitions)}
    assert all(index * n_partitions // n_shards == k for k, some in enumerate(indices) for index in some)


def test_what_is_received_is_in_the_order_of_indices_however_it_came():
    made = list(np.random.default_rng(0).random((3, 64 * CHUNK // 8 + 100_000)))
    batches = list(frames.frames((index, 0, frames.pickled(item)) for index, item in enumerate(made)))
    table = pa.Table.from_batches(batches)
    mixed = table.take(np.random.default_rng(0).permutation(len(table)))
    found = frames.received(mixed)
    assert [index for index, _ in found] == list(range(3))
    assert_array_equal([item for _, item in found], made)


def test_the_first_failure_is_raised():
    failures = [frames.Failure.of(ValueError(f"number {index}")) for index in range(3)]
    batches = frames.frames((index, 0, frames.pickled(failures[index])) for index in (2, 1))
    with pytest.raises(ValueError, match="number 1"):
        frames.received(pa.Table.from_batches(batches))


AT_WORK = """
import resource
import numpy as np
from dimargin.spark.engine import frames

def page_faults(task, n):
    calls, made = [frames.call_of(task, None)], frames.frames((place, 0, frames.pickled(place)) for place in range(n))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    list(frames.mapped(calls, made))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def large(place, _):
    some = [np.ones(500_000) for _ in range(20)]
    return sum(map(len, some))

page_faults(large, 2)
print(page_faults(large, 50))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps what is freed in its own way")
def test_a_worker_keeps_the_memory_that_one_task_frees_for_the_next():
    done = subprocess.run([sys.executable, "-c", AT_WORK], capture_output=True, text=True, timeout=100, check=True)
    assert int(done.stdout) < 5000  # 977 pages an array, of a thousand arrays
