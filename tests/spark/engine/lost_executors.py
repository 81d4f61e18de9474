"""Jobs of the engine that lose a worker or an executor. test_sessions.py runs this with executors of their own."""

import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal


def scaled(numbers, factor):
    return factor * numbers


def sums(numbers, value):
    return numbers.copy(), np.array([len(numbers)])


@pytest.mark.parametrize("victim", ["worker", "executor"])
def test_a_map_survives_the_loss_of_a(engine, tmp_path, victim):
    """The first task to start is killed, or its executor is, with the cached shards that it holds."""
    shards = engine.scatter([np.arange(first, first + 200_000) for first in range(5)])
    made = shards.map(scaled, 3)
    made.collect()
    result = made.map(killed_once, (tmp_path, victim)).aggregate(sums)
    assert (tmp_path / "killed").exists()
    assert_array_equal(result[0], 3 * sum(np.arange(first, first + 200_000) for first in range(5)))
    assert result[1] == 5 * 200_000


@pytest.mark.parametrize("source", ["shards", "frame"])
def test_a_job_goes_on_though_tasks_that_run_again_send_other_bytes(spark, engine, tmp_path, source):
    """Rows come in another order and batches, and solves take other times: Spark 4.2 and later gave the job up."""
    numbers = [10, 20, 30, 40]
    if source == "shards":
        shards = engine.scatter(numbers).shuffle(to_all, senders, 4)
    else:
        frame = spark.createDataFrame([(number,) for number in numbers], "number long").repartition(2)
        shards = engine.gather(frame, batch_to_all, senders, 4)
    assert shards.collect(killed_at_the_last, tmp_path) == [(index, numbers) for index in range(4)]
    assert (tmp_path / "killed").exists()


def to_all(number, _):
    return [(index, (index, number, os.urandom(8))) for index in range(4)]


def batch_to_all(batch, _):
    return [sent for number in batch.column("number").to_pylist() for sent in to_all(number, None)]


def senders(pieces, _):
    return pieces[0][0], sorted(number for _, number, _ in pieces)


def killed_at_the_last(shard, folder):
    if shard[0] == 3:
        time.sleep(3)  # until other tasks of the job have ended
        killed_once(None, (folder, "executor"))
    return shard


def killed_once(numbers, value):
    folder, victim = value
    try:
        (folder / "killed").touch(exist_ok=False)
    except FileExistsError:
        return numbers
    os.kill(os.getpid() if victim == "worker" else executor_of(os.getpid()), signal.SIGKILL)
    time.sleep(600)  # until Spark notices


def executor_of(process):
    """The process of the executor that a worker belongs to."""
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{process}/cmdline").read_bytes():
        process = int(re.search(r"^PPid:\s+(\d+)", Path(f"/proc/{process}/status").read_text(), re.M)[1])
    return process
