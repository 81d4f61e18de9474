"""Machines trained on executors beside threads: time, jobs, bytes, memory of the driver, and more executors, simulated.

Usage: bench_spark.py [time] [memory] [equal] [--executors N ...] [--repeats R] [--machines NAME ...] [--data NAME ...]

time: executors of one core each, processes of a local cluster, beside the local engine with two
threads, in turns in one process. Sessions are started, a machine is trained on 64 rows of a Parquet
file so that all is imported, and every machine once, in which Java compiles what it runs, before
the clock runs; that first fit is told apart. Reading the source, Parquet files, and dealing its
rows is part of the time. Bytes that pass through shuffles, jobs and the peak memory of the driver's
two processes come with it. Then the same tasks, with the times that they took in 64 partitions, are
replayed for up to 64 executors, a simulation that says what it assumes; after --executors without
numbers, that alone. Machines of all rows and of a million are trained once, where --machines names
them. memory: a driver with 1 GiB of heap trains on ten times the rows. equal: cod-rna and phishing
in full, tol=1e-6, every strategy and both losses, beside the same fit here.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from common import describe, heading, load, resident, scaled, table
from sklearn.base import clone

import dimargin as dm

COVTYPE = "covtype.libsvm.binary"
EXACT = dm.SVMClassifier(strategy="exact", C=32.0, gamma=32.0, fit_intercept=False, tol=1e-2, random_state=0)
ACROSS = dm.ODMClassifier(strategy=dm.Exact(across_shards=True), gamma=2.0, random_state=0)  # rows would be joined else
PROBLEMS = {  # data, its rows (None: all), machine
    "landmark": (COVTYPE, 400_000, dm.ODMClassifier(
        strategy="landmark", n_landmarks=500, gamma=32.0, lam=1e6, random_state=0)),
    "landmark, 1000": (COVTYPE, 400_000, dm.ODMClassifier(  # as many as there are where none are asked for
        strategy="landmark", gamma=32.0, lam=1e6, random_state=0)),
    "stop_level=1": (COVTYPE, 400_000, dm.ODMClassifier(
        strategy="diodm", stop_level=1, gamma=32.0, lam=1e4, random_state=0)),
    "level 0": ("cod-rna", None, dm.ODMClassifier(strategy="diodm", gamma=2.0, lam=1e5, random_state=0)),
    "exact, 1e-2": (COVTYPE, 100_000, EXACT),
    "exact, 1e-3": (COVTYPE, 100_000, clone(EXACT).set_params(tol=1e-3)),
    "exact, lam=1e3": ("cod-rna", None, clone(ACROSS).set_params(lam=1e3)),
    "exact, lam=1e5": ("cod-rna", None, clone(ACROSS).set_params(lam=1e5)),
}  # fmt: skip
ALL_ROWS = {  # which take long, and are done once, where they are asked for
    "exact, all rows": (COVTYPE, 464_810, EXACT),
    "exact, a million rows": (COVTYPE, 1_000_000, EXACT),
}
ROW_GROUP = 16_384  # rows, so that as many tasks as there are partitions can share a file
REPLAYED = (1, 2, 4, 8, 16, 32, 64)
BANDWIDTH, LATENCY = 1.25e8, 1e-3  # bytes a second of every executor's link (1 Gbit), and seconds


# ---- a run: one number of executors, in a process of its own ---------------------------------------------------------


def session(executors, folder, partitions=4, memory="4g", driver="1g", connect=False):
    """A cluster of executors with one core each, on this machine, or as many threads of a server of Spark Connect."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.memory": driver,
        "spark.executor.memory": memory, "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": folder, "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": folder, "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": tempfile.gettempdir(),
        "spark.sql.shuffle.partitions": str(partitions), "spark.sql.files.minPartitionNum": str(partitions),
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }  # fmt: skip
    megabytes = int(memory[:-1]) * 1024
    if connect:
        os.environ["SPARK_TESTING"] = "1"  # a free port, which the session finds
        builder = SparkSession.builder.remote(f"local[{executors}]")
    else:
        builder = SparkSession.builder.master(f"local-cluster[{executors},1,{megabytes}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    _, spark = timed(builder.getOrCreate)
    if not connect:
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def memory_of_driver():
    """Most memory of this process and of its JVM so far, in MB."""
    jvm = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (folder / "status").read_text(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"PPid:\t{os.getpid()}\n" in status and b"java" in command:
            jvm = resident(folder.name, peak=True) / 1e3
    return resident(peak=True) / 1e3, jvm  # getrusage would begin with the peak of who started this process


def timed(work, *arguments):
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = work(*arguments)
    return time.perf_counter() - began, found


def run(executors, partitions, repeats, names, folder):
    """Times of some machines on executors and here, one line of JSON each."""
    from dimargin.spark.columns import Columns
    from dimargin.spark.training import train

    columns = Columns("features", "label")
    spark = session(executors, folder, partitions)
    small = spark.createDataFrame([([float(k), k % 3.0], float(k % 2)) for k in range(64)], ["features", "label"])
    small.write.parquet(f"{folder}/small")
    small = spark.read.parquet(f"{folder}/small")
    train(dm.ODMClassifier(strategy="diodm", n_levels=1, random_state=0), small, columns)
    for name in names:
        data, rows, machine = (PROBLEMS | ALL_ROWS)[name]
        file = f"{Path(folder).parent}/{data}-{rows}"
        local = clone(machine)
        if isinstance(local.strategy, dm.Exact):
            local.set_params(strategy="exact")
        X, y = (np.load(f"{file}.{part}.npy") for part in ("X", "y")) if executors == 2 else (None, None)
        frame = spark.read.parquet(file)
        for repeat in range(1) if name in ALL_ROWS else ("first", *range(repeats)):
            spark.sparkContext.setJobGroup(f"{name} {repeat}", name)
            there, found = timed(train, machine, frame, columns)
            spark.sparkContext.setJobGroup("none", "none")
            here = None
            if X is not None:
                here, expected = timed(local.set_params(n_jobs=2).fit, X, y)
                difference = abs(found.objective_ / expected.objective_ - 1)
                print(f"{name}: objectives differ by {difference:.1e}", file=sys.stderr, flush=True)
            print(json.dumps([name, there, here, memory_of_driver()]), flush=True)
    spark.stop()


# ---- what Spark's event log says -------------------------------------------------------------------------------------


def jobs_of(log):
    """Jobs of every group: seconds, bytes through shuffles, and for every stage the seconds of its tasks."""
    groups, jobs, stages = {}, {}, {}
    for line in log.read_text().splitlines():
        event = json.loads(line)
        kind = event["Event"]
        if kind == "SparkListenerJobStart":
            group = event["Properties"].get("spark.jobGroup.id", "")
            jobs[event["Job ID"]] = {"began": event["Submission Time"], "stages": event["Stage IDs"], "tasks": {}}
            groups.setdefault(group, []).append(event["Job ID"])
            stages.update(dict.fromkeys(event["Stage IDs"], event["Job ID"]))
        elif kind == "SparkListenerJobEnd":
            jobs[event["Job ID"]]["ended"] = event["Completion Time"]
        elif kind == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            metrics, job = event["Task Metrics"], jobs[stages[event["Stage ID"]]]
            written = metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
            seconds = (event["Task Info"]["Finish Time"] - event["Task Info"]["Launch Time"]) / 1e3
            job["tasks"].setdefault(event["Stage ID"], []).append((seconds, written, metrics["Result Size"]))
    return {group: [jobs[number] for number in numbers] for group, numbers in groups.items()}


def replayed(jobs, seconds, executors):
    """Seconds of the same jobs with so many executors of one core.

    Tasks take what they took on one executor, and go to whoever is free first, in their order;
    stages of a job follow one another. Between them every executor sends what its tasks have
    written, and receives as much, over its own link; results come to the driver over one. What is
    no task's is the driver's, and stays.
    """
    from dimargin_bench.experiments.replay import makespan  # bench_versions.py runs versions without it

    total = busy = 0.0
    for job in jobs:
        for stage in sorted(job["tasks"]):
            tasks = job["tasks"][stage]
            moved = sum(written for _, written, _ in tasks) * (executors - 1) / executors**2
            total += makespan([took for took, _, _ in tasks], executors)
            total += moved / BANDWIDTH + sum(size for *_, size in tasks) / BANDWIDTH + 2 * LATENCY
            busy += sum(took for took, _, _ in tasks)
    return total + max(0.0, seconds - busy)


# ---- the parts -------------------------------------------------------------------------------------------------------


def prepared(names, folder):
    """Rows as arrays and as Parquet files, of several row groups."""
    for data, n_rows in {(PROBLEMS | ALL_ROWS)[name][:2] for name in names}:
        file, (X, y) = f"{folder}/{data}-{n_rows}", load(data)
        X, order = repeated(scaled(X), np.random.default_rng(0), n_rows)
        y = np.where(y[order] == y.max(), 1.0, 0.0)
        np.save(f"{file}.X.npy", X)
        np.save(f"{file}.y.npy", y)
        os.mkdir(file)
        for k, rows in enumerate(np.array_split(np.arange(len(y)), 8)):
            pd.DataFrame({"features": list(X[rows]), "label": y[rows]}).to_parquet(
                f"{file}/{k}.parquet", row_group_size=ROW_GROUP
            )


def repeated(X, rng, n_rows):
    """So many rows of X and their numbers; where X has too few, all of them and then rows again with noise of 1%."""
    order = rng.permutation(len(X))[:n_rows]
    more = rng.choice(len(X), max(0, (n_rows or 0) - len(X)), replace=False)
    noisy = X[more]
    is_real = np.array([len(np.unique(column[:10_000])) > 2 for column in X.T])
    noisy[:, is_real] += 0.01 * rng.normal(size=(len(more), int(is_real.sum())))
    return np.concatenate([X[order], noisy]), np.concatenate([order, more])


def times(executors, repeats, names):
    with tempfile.TemporaryDirectory() as folder:
        prepared(names, folder)
        lines, replays = [], []
        for number, partitions in [*((number, 4) for number in executors), (1, 64)]:
            own = f"{folder}/{number} {partitions}"
            os.mkdir(own)
            command = [sys.executable, __file__, "--run", str(number), str(partitions), str(repeats), own, *names]
            found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
            groups = jobs_of(next(Path(own).glob("app-*")))
            results = [json.loads(line) for line in found]
            for name in names:
                first, *mine = [result for result in results if result[0] == name]
                mine = mine or [first]
                there, here = [result[1] for result in mine], [result[2] for result in mine if result[2]]
                jobs = [groups[f"{name} {repeat}"] for repeat in range(len(mine))]
                moved = sum(written for job in jobs[0] for tasks in job["tasks"].values() for _, written, _ in tasks)
                ratio = describe([a / b for a, b in zip(there, here, strict=True)]) if here else ""
                python, jvm = mine[-1][3]
                lines.append([name, f"{number}, {partitions}", describe(there), f"{first[1]:.3g}",
                              describe(here) if here else "", ratio, str(len(jobs[0])), f"{moved / 1e6:.3g}",
                              f"{python:.0f} + {jvm:.0f}"])  # fmt: skip
                if partitions == 64:
                    middle = sorted(range(len(mine)), key=there.__getitem__)[len(mine) // 2]
                    seconds = [replayed(jobs[middle], there[middle], count) for count in REPLAYED]
                    replays.append([name, *(f"{s:.3g} ({seconds[0] / s:.2g})" for s in seconds)])
        print(table(["machine", "executors, partitions", "seconds", "the first", "here, two threads", "ratio", "jobs",
                     "MB shuffled", "driver's MB, Python + JVM"], lines), flush=True)  # fmt: skip
    if replays:
        print(
            "\nSIMULATED: seconds (times faster than one executor) of the tasks measured on one executor; links of "
            f"{BANDWIDTH / 1.25e8:.0f} Gbit/s and {1e3 * LATENCY:.0f} ms. The paper reports 9 times at 32 cores.\n"
        )
        print(table(["machine", *map(str, REPLAYED)], replays), flush=True)


def synthetic(spark, rows, folder, apart=0.0):
    """Rows of 18 numbers, in files; classes may be so far apart."""
    from pyspark.sql import functions as F

    features = F.array(*[F.rand(seed) for seed in range(18)])
    frame = spark.range(0, rows, 1, 16).select(features.alias("features"))
    label = (F.sin(6 * F.col("features")[0]) + F.col("features")[1] > 0.4).cast("double").alias("label")
    if apart:
        there = F.when(label == 1, apart).otherwise(0.0)
        moved = F.transform("features", lambda x, k: x + F.when(k == 1, there).otherwise(0.0)).alias("features")
        frame = frame.select(label, moved)
        label = F.col("label")
    frame.select("features", label).write.parquet(f"{folder}/rows")
    return spark.read.parquet(f"{folder}/rows")


def grown(rows, folder):
    """A driver of little memory, many rows."""
    from dimargin.spark.columns import Columns
    from dimargin.spark.training import train

    spark = session(2, folder, 16, "5g")
    frame = synthetic(spark, rows, folder)
    for name, machine in (
        ("linear", dm.LinearODMClassifier(random_state=0)),
        ("landmark", dm.ODMClassifier(strategy="landmark", n_landmarks=100, gamma=1.0, random_state=0)),
    ):
        seconds, found = timed(train, machine, frame, Columns("features", "label"))
        python, jvm = memory_of_driver()
        print(json.dumps([name, rows, seconds, found.duality_gap_, python, jvm]), flush=True)
    spark.stop()


def memory():
    lines = []
    for rows in (1_000_000, 10_000_000):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--grown", str(rows), folder]
            for line in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
                name, rows, seconds, gap, python, jvm = json.loads(line)
                lines.append([name, f"{rows:,}", f"{rows * 18 * 8 / 1e6:.0f}", f"{seconds:.3g}", f"{gap:.1e}",
                              f"{python:.0f}", f"{jvm:.0f}"])  # fmt: skip
    print(
        table(["machine", "rows", "MB of rows", "seconds", "gap", "driver's MB, Python", "JVM (heap of 1 GiB)"], lines)
    )


def machines():
    """Every strategy and both losses."""
    for strategy in ("exact", "diodm", "dc", "cascade", "dip", "landmark"):
        landmarks = {"n_landmarks": 500} if strategy == "landmark" else {}
        yield f"{strategy}, ODM", dm.ODMClassifier(strategy=strategy, lam=1e4, random_state=0, **landmarks)
        loss = "squared_hinge" if strategy == "landmark" else "hinge"
        yield (
            f"{strategy}, {loss}",
            dm.SVMClassifier(fit_intercept=False, strategy=strategy, C=1.0, loss=loss, random_state=0, **landmarks),
        )
    for solver in ("newton", "svrg", "dsvrg"):
        yield f"linear {solver}, ODM", dm.LinearODMClassifier(solver=solver, lam=1.0, random_state=0)


def equal(only, names):
    """Objectives and predictions beside those here."""
    from dimargin.spark.columns import Columns
    from dimargin.spark.training import train

    lines = []
    with tempfile.TemporaryDirectory() as folder:
        spark = session(2, folder)
        for data in names:
            X, y = load(data)
            X = scaled(np.asarray(X, dtype=float))
            y = np.where(y == y.max(), 1.0, 0.0)
            pd.DataFrame({"features": list(X), "label": y}).to_parquet(f"{folder}/{data}.parquet")
            frame = spark.read.parquet(f"{folder}/{data}.parquet")
            for name, machine in machines():
                if only and name.split(",")[0] not in only:
                    continue
                machine.set_params(tol=1e-6)
                here, expected = timed(machine.fit, X, y)
                there, found = timed(train, machine, frame, Columns("features", "label"))
                differ = int((found.predict(X) != expected.predict(X)).sum())
                difference = abs(found.objective_ / expected.objective_ - 1)
                lines.append([data, name, f"{difference:.1e}", str(differ), f"{found.duality_gap_:.1e}",
                              found.status_, f"{here:.3g}", f"{there:.3g}"])  # fmt: skip
                print("| " + " | ".join(lines[-1]) + " |", file=sys.stderr, flush=True)
        spark.stop()
    print(table(["data", "machine", "objective, relative difference", "rows predicted otherwise", "gap", "status",
                 "seconds here", "on two executors"], lines), flush=True)  # fmt: skip


def main():
    if sys.argv[1:2] == ["--run"]:
        return run(*map(int, sys.argv[2:5]), sys.argv[6:], sys.argv[5])
    if sys.argv[1:2] == ["--grown"]:
        return grown(int(sys.argv[2]), sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["time", "memory", "equal"])
    parser.add_argument("--executors", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--machines", nargs="+", default=None)
    parser.add_argument("--data", nargs="+", default=["phishing", "cod-rna"])
    options = parser.parse_args()
    heading(__doc__)
    if "time" in options.parts:
        times(options.executors, options.repeats, options.machines or list(PROBLEMS))
    if "memory" in options.parts:
        memory()
    if "equal" in options.parts:
        equal(options.machines, options.data)


if __name__ == "__main__":
    main()
