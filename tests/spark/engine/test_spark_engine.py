"""What the Spark engine does beyond the contract, in a local session; in others by tests/spark/test_sessions.py."""

import gc
import os
import re
import signal
import sys
import time
from threading import Barrier, Lock, Thread

import numpy as np
import pytest
import spark_sessions
from numpy.testing import assert_array_equal
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from dimargin.spark.engine.jobs import Jobs, plain_plans
from dimargin.spark.engine.spark import SparkEngine
from dimargin.system.memory import memory_of_process

MODE = os.environ.get("DIMARGIN_SPARK", "local")
pytestmark = pytest.mark.slow
spark_sessions.travels(sys.modules[__name__])


def scaled(numbers, factor):
    return factor * numbers


def sums(numbers, value):
    return numbers.copy(), np.array([len(numbers)])


def together(parts, value):
    return np.concatenate(parts)


def ranges(engine, n_shards=5):
    return engine.scatter([np.arange(first, first + 5) for first in range(n_shards)])


def test_tasks_use_the_cores_that_spark_sets_aside_for_them(spark, monkeypatch):
    with SparkEngine(spark) as engine:
        assert ranges(engine).n_threads == 1
    monkeypatch.setattr(type(spark.conf), "get", lambda self, name, *default: "3" if "task.cpus" in name else "false")
    assert Jobs(spark).threads_of_a_task == 3


def test_workers_tell_how_much_memory_they_may_use(spark):
    with SparkEngine(spark) as engine:
        assert engine.memory_of_worker == memory_of_process()  # they are processes of this computer
        assert engine.jobs == 1


def test_queries_run_side_by_side_and_the_check_beside_the_first_of_them(spark):
    with SparkEngine(spark) as engine:
        found = engine.query((spark.range(3), "three"), (spark.range(2), "two"))
        assert [[row[0] for row in rows] for rows in found] == [[0, 1, 2], [0, 1]]
        assert engine.jobs == 3
        assert engine.query((spark.range(1), "one")) == [[(0,)]]
        assert engine.memory_of_worker == memory_of_process()
        assert engine.jobs == 4


def test_actions_together_wait_for_none_of_them(spark):
    jobs, barrier = Jobs(spark), Barrier(3, timeout=60)  # which breaks where they run one after the other
    assert sorted(jobs.act_together([(barrier.wait, str(k)) for k in range(3)])) == [0, 1, 2]

    def failing():
        barrier.wait()
        raise ZeroDivisionError("the first that fails")

    def failing_too():
        barrier.wait()
        raise KeyError("the second")

    with pytest.raises(ZeroDivisionError):
        jobs.act_together([(barrier.wait, "none"), (failing, "first"), (failing_too, "second")])
    assert jobs.count == 6


# ---- sources -------------------------------------------------------------------------------------------------------


def by_key(batch, n_shards):
    """Rows of a batch by the remainder of their key."""
    keys, x = batch.column("key").to_numpy(), batch.column("x").to_numpy()
    return [(index, (keys[keys % n_shards == index], x[keys % n_shards == index])) for index in set(keys % n_shards)]


def in_order_of_keys(pieces, value):
    keys, x = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    return np.column_stack([keys, x])[np.argsort(keys)]


def n_rows(batches, value):
    return value + sum(batch.num_rows for batch in batches)


def rows(spark, n=2000):
    return spark.range(0, n, 1, 1).select(F.col("id").alias("key"), (F.col("id") * 0.5).alias("x"))


def skewed(frame):
    """Nine tenths of the rows in one of eight partitions, some of the others empty."""
    return frame.repartitionById(8, F.expr("cast(if(key % 10 > 0, 5, key % 3) as int)"))


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("arrange", [lambda frame: frame, skewed, lambda frame: frame.repartition(3)])
def test_shards_hold_the_rows_of_a_data_frame_however_it_is_partitioned(request, spark, engine, arrange, ansi):
    request.addfinalizer(lambda: spark.conf.set("spark.sql.ansi.enabled", "true"))
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    shards = engine.gather(arrange(rows(spark)), by_key, in_order_of_keys, 6, 6)
    assert shards.n_shards == 6
    for index, found in enumerate(shards.collect()):
        keys = np.arange(index, 2000, 6)
        assert_array_equal(found, np.column_stack([keys, 0.5 * keys]))


def test_every_partition_of_a_data_frame_is_summarised(spark, engine):
    counts = engine.summarise(skewed(rows(spark)), n_rows, 1000)
    assert sorted(counts) == [1000, 1000, 1000, 1000, 1066, 1067, 1067, 2800]


@pytest.mark.parametrize("empty", [lambda frame: frame.limit(0), lambda frame: frame.where("key < 0")])
def test_a_data_frame_without_rows_leaves_shards_without_anything(spark, engine, empty):
    with pytest.raises(ValueError, match="shard 0 was sent nothing"):
        engine.gather(empty(rows(spark)), by_key, in_order_of_keys, 6, 6).collect()


def test_a_piece_for_a_shard_that_is_not_there_is_refused(spark, engine):
    with pytest.raises(ValueError, match="a piece was sent to shard 6, but there are 6"):
        engine.gather(rows(spark), by_key, in_order_of_keys, 6, 7).collect()


def test_a_failing_split_or_summary_is_raised_as_it_is(spark, engine):
    with pytest.raises(KeyError, match="no such column"):
        engine.gather(rows(spark), no_such_column, in_order_of_keys, 3).collect()
    with pytest.raises(KeyError, match="no such column"):
        engine.summarise(rows(spark), no_such_column)


def no_such_column(batches, value):
    raise KeyError("no such column")


# ---- results -------------------------------------------------------------------------------------------------------


@pytest.fixture
def partitions(spark):
    """Says how many partitions jobs have, until the test ends."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    yield lambda number: spark.conf.set(name, number)
    spark.conf.set(name, before)


def test_results_do_not_depend_on_the_number_of_partitions(spark, partitions):
    numbers = np.random.default_rng(0).normal(size=(11, 5)) * 10.0 ** np.arange(11)[:, None]
    results = []
    for n_partitions in ("1", "3", "16"):
        partitions(n_partitions)
        with SparkEngine(spark) as engine:
            shards = engine.scatter(list(numbers))
            results.append(shards.aggregate(sums)[0])
            results.append(shards.aggregate(sums, wide=True)[0])
            results.append(shards.merge(together, 4).collect()[2])
    for found, expected in zip(results[3:], 2 * results[:3], strict=True):
        assert_array_equal(found, expected)


@pytest.mark.parametrize(("n_partitions", "n_arrays"), [("2", 2), ("3", 7), ("8", 8), ("16", 4)])
def test_wide_sums_come_to_the_driver_as_few_arrays(spark, partitions, n_partitions, n_arrays):
    partitions(n_partitions)
    with SparkEngine(spark) as engine:
        shards, before = engine.scatter(list(np.random.default_rng(0).random((16, 20_000)))), engine.received_bytes
        shards.aggregate(sums, wide=True)
        assert 160_000 * (n_arrays - 1) < engine.received_bytes - before < 160_000 * (n_arrays + 1)


def test_the_traceback_of_the_executor_is_noted(engine):
    with pytest.raises(ZeroDivisionError) as caught:
        ranges(engine).map(dividing).map(scaled, 2).collect()
    (note,) = caught.value.__notes__
    assert note.startswith("On the executor:") and "in dividing" in note


def dividing(numbers, value):
    return 1 // 0


class UnreadableError(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def test_an_exception_that_cannot_travel_is_told_by_its_text(engine):
    with pytest.raises(RuntimeError, match="UnreadableError: one and two"):
        ranges(engine).collect(unreadable)
    with pytest.raises(TypeError, match="cannot pickle"):
        ranges(engine).map(unpicklable).collect()


def unreadable(numbers, value):
    raise UnreadableError("one", "two")


def unpicklable(numbers, value):
    return Lock()


def test_the_core_and_blas_have_one_thread(engine):
    shards = ranges(engine)
    assert (shards.n_threads, shards.n_together) == (1, 1)
    assert shards.collect(blas_threads) == [{1}] * 5


def blas_threads(numbers, value):
    from threadpoolctl import threadpool_info

    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


# ---- what is run, and what is kept ---------------------------------------------------------------------------------


def noted(numbers, folder):
    """Leave a file for every time that this runs."""
    (folder / f"{numbers[0]}-{time.time_ns()}").touch()
    return numbers


def n_noted(folder):
    return len(list(folder.iterdir()))


def test_shards_that_are_held_are_made_once(engine, tmp_path):
    shards = ranges(engine).map(noted, tmp_path)
    before = engine.jobs
    for _ in range(3):
        shards.aggregate(sums)
    shards.map(scaled, 2).merge(together, 2).collect()
    assert engine.jobs - before == 4
    assert n_noted(tmp_path) == 5


def test_shards_that_are_zipped_first_stay_where_they_are(spark, engine, tmp_path, capsys):
    shards = ranges(engine).map(noted, tmp_path)
    others = shards.map(scaled, 2)
    for factor in (1, 2, 3):
        others = shards.zip(others, lambda pair, factor: pair[1] + factor * pair[0], factor)
        assert_array_equal(others.collect()[1], (2 + factor * (factor + 1) // 2) * np.arange(1, 6))
    assert n_noted(tmp_path) == 5
    pairs = shards.zip(others, lambda pair, value: pair[0])
    with plain_plans(spark):
        pairs._made.frame().explain()
    lines = capsys.readouterr().out.partition("FlatMapCoGroups")[2].splitlines()[1:]
    n_here = sum(line.startswith(":") for line in lines)  # the first child of the two
    here, there = ("\n".join(some).partition("InMemoryRelation")[0] for some in (lines[:n_here], lines[n_here:]))
    assert "InMemoryTableScan" in here and "InMemoryTableScan" in there and "Exchange" in there
    assert "Exchange" not in here and "Sort" not in here


def test_cheap_shards_are_made_each_time_of_those_that_are_kept(spark, tmp_path):
    folders = [tmp_path / name for name in ("kept", "cheap")]
    for folder in folders:
        folder.mkdir()
    n_before = spark_sessions.n_cached()
    with SparkEngine(spark) as engine:
        shards = ranges(engine).map(noted, folders[0]).map(noted, folders[1], cheap=True)
        for k in (1, 2):
            shards.aggregate(sums, wide=True)
            shards.fold(lambda numbers, value: value, 0)
            assert n_noted(folders[1]) == 10 * k  # every shard once for either operation
        shards.collect(n_shards=2)
        assert list(map(n_noted, folders)) == [5, 22]
        assert spark_sessions.n_cached() == n_before + 1
        shards.release()
        assert spark_sessions.n_cached() == n_before


def test_a_shuffle_and_what_follows_run_in_the_job_that_asks_and_only_once(spark, engine, tmp_path):
    before = engine.jobs
    shards = engine.gather(rows(spark), by_key, in_order_of_keys, 5, 5)
    other = shards.map(noted, tmp_path).merge(together, 2)
    last = other.map(noted, tmp_path).map(scaled, 2)
    assert engine.jobs == before
    last.collect()
    assert engine.jobs == before + 1
    other.aggregate(lambda parts, value: (parts.sum(axis=0),))
    assert n_noted(tmp_path) == 5 + 3


def test_what_nobody_holds_is_released_and_what_is_held_is_not(spark, tmp_path):
    with SparkEngine(spark) as engine:
        n_before = spark_sessions.n_cached()
        shards = ranges(engine)
        step = shards.map(noted, tmp_path)
        for _ in range(3):
            step = step.map(scaled, 2)
            step.aggregate(sums)
        shards.collect()
        assert spark_sessions.n_cached() == n_before + 2
        shards.release()
        assert spark_sessions.n_cached() == n_before + 1
        assert_array_equal(step.collect()[1], 8 * np.arange(1, 6))
        assert n_noted(tmp_path) == 5
        with pytest.raises(RuntimeError, match="were released"):
            shards.collect()
    assert spark_sessions.n_cached() == n_before
    with pytest.raises(RuntimeError, match="engine is closed"):
        step.collect()


def test_a_caught_exception_holds_no_shards(spark):
    gc.collect()
    gc.disable()  # which would find them, some time later
    n_before = spark_sessions.n_cached()
    with SparkEngine(spark) as engine:
        with pytest.raises(ZeroDivisionError):
            ranges(engine).map(dividing).collect()
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
            wrong = rows(spark).select("key", F.expr("double(key div 0)").alias("x"))
            engine.gather(wrong, by_key, in_order_of_keys, 3, 3).collect()
        shards = ranges(engine)
        shards.collect()
        assert spark_sessions.n_cached() == n_before + 1
    gc.enable()


def test_an_error_leaves_nothing_behind(spark):
    n_before = spark_sessions.n_cached()
    with pytest.raises(ZeroDivisionError), SparkEngine(spark) as engine:
        shards = ranges(engine)
        shards.collect()
        shards.map(dividing).aggregate(sums)
    assert spark_sessions.n_cached() == n_before
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"


def test_an_interrupt_cancels_the_job_and_releases_everything(spark, tmp_path):
    n_before = spark_sessions.n_cached()
    tracker = spark_sessions.context().statusTracker()

    def interrupt():
        while not n_noted(tmp_path):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    of_pyspark = signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a notebook
    with pytest.raises(KeyboardInterrupt), SparkEngine(spark) as engine:
        shards = ranges(engine)
        shards.collect()
        Thread(target=interrupt, daemon=True).start()
        shards.map(asleep, tmp_path).collect()
    signal.signal(signal.SIGINT, of_pyspark)
    while tracker.getActiveJobsIds():  # or the tasks would sleep on, and this test with them
        time.sleep(0.05)
    assert n_noted(tmp_path) <= 2
    assert spark_sessions.n_cached() == n_before
    with SparkEngine(spark) as engine:
        assert len(ranges(engine).collect()) == 5


def asleep(numbers, folder):
    noted(numbers, folder)
    time.sleep(600)


def test_many_steps_do_not_make_plans_that_outgrow_the_driver(engine):
    shards = ranges(engine)
    for _ in range(25):
        shards = shards.map(scaled, -1)
        total, _ = shards.aggregate(sums)
    assert_array_equal(total, -np.arange(10, 35, 5))


def test_jobs_are_named(spark, engine):
    with engine.describe("level 2, 16 partitions"):
        ranges(engine).collect()
    last = spark_sessions.job_names()[0]
    assert re.search("dimargin: level 2[,;] 16 partitions: collect 5 shards", last)
    ranges(engine).fold(lambda numbers, value: value, 0)
    assert "dimargin: fold; shard 4 of 5" in spark_sessions.job_names()[0].replace(",", ";")
    if MODE != "connect":
        assert spark.sparkContext.getLocalProperty("spark.job.description") is None
