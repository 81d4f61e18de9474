"""Machines trained on executors beside threads: time, jobs, bytes, memory of the driver, and more executors, simulated.

Usage: bench_spark.py [time] [memory] [executors] [whole] [equal] [partitions] [predict] [--executors N ...]
       [--repeats R] [--machines NAME ...] [--data NAME ...] [--rows N]

time: executors of one core each, processes of a local cluster, beside the local engine with two threads, in turns in
one process. Sessions are started, a machine is trained on 64 rows of a Parquet file so that all is imported, and every
machine once, in which Java compiles what it runs, before the clock runs; that first fit is told apart. Reading the
source, Parquet files, and dealing its rows is part of the time. Bytes that pass through shuffles, jobs and the peak
memory of the driver's two processes come with it. Then the same tasks, with the times that they took in 64 partitions,
are replayed for up to 64 executors, a simulation that says what it assumes. memory: a driver with 1 GiB of heap
trains on ten times the rows. executors, only where it is asked for since it takes long: "exact" on two million
rows, whose level 0 was refused on executors of this size, 1 GiB of heap, when it was one task, with the most memory
of each process of an executor. whole, likewise: "exact" on 464,810 rows of covtype, on executors and here, each in a
process of its own. equal: cod-rna and phishing in full, tol=1e-6, every strategy and both losses, beside the same fit
here. partitions, only where it is asked for: "exact" across shards of phishing, tol=1e-6, in 1 to 8 partitions, on
executors and over Spark Connect, beside the exact machine here. predict, only where it is asked for: `transform` of
ten million rows in Parquet files on two executors beside the local predictor with two threads, whose rows are in
memory already.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pandas as pd
from common import describe, heading, load, scaled, table
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
ALL_ROWS = {"exact, all rows": (COVTYPE, 464_810, EXACT)}  # which takes minutes
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
        "spark.sql.shuffle.partitions": str(partitions),
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
            jvm = int(status.split("VmHWM:")[1].split()[0]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, jvm


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
        for repeat in ("first", *range(repeats)):
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

    Tasks take what they took on one executor, and go to whoever is free first, in their order; stages of a job follow
    one another. Between them every executor sends what its tasks have written, and receives as much, over its own link;
    results come to the driver over one. What is no task's is the driver's, and stays.
    """
    from dimargin.experiments.replay import makespan  # bench_versions.py runs versions without it

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
        order = np.random.default_rng(0).permutation(len(y))[:n_rows]
        X, y = scaled(X)[order], np.where(y[order] == y.max(), 1.0, 0.0)
        np.save(f"{file}.X.npy", X)
        np.save(f"{file}.y.npy", y)
        os.mkdir(file)
        for k, rows in enumerate(np.array_split(np.arange(len(y)), 8)):
            pd.DataFrame({"features": list(X[rows]), "label": y[rows]}).to_parquet(f"{file}/{k}.parquet")


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
                there, here = [result[1] for result in mine], [result[2] for result in mine if result[2]]
                jobs = [groups[f"{name} {repeat}"] for repeat in range(repeats)]
                moved = sum(written for job in jobs[0] for tasks in job["tasks"].values() for _, written, _ in tasks)
                ratio = describe([a / b for a, b in zip(there, here, strict=True)]) if here else ""
                python, jvm = mine[-1][3]
                lines.append([name, f"{number}, {partitions}", describe(there), f"{first[1]:.3g}",
                              describe(here) if here else "", ratio, str(len(jobs[0])), f"{moved / 1e6:.3g}",
                              f"{python:.0f} + {jvm:.0f}"])  # fmt: skip
                if partitions == 64:
                    middle = sorted(range(repeats), key=there.__getitem__)[repeats // 2]
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


class Watch(Thread):
    """Watches how much memory the processes of executors, JVMs and Python workers, have at most, in MB."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.ended = {}, Event()

    def run(self):
        while not self.ended.wait(0.2):
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    command, status = (folder / "cmdline").read_bytes(), (folder / "status").read_text()
                except OSError:  # it has ended
                    continue
                kind = next((kind for kind, word in KINDS.items() if word in command), None)
                if kind and "VmHWM:" in status:
                    key = kind, int(folder.name)
                    self.most[key] = max(self.most.get(key, 0), int(status.split("VmHWM:")[1].split()[0]) / 1e3)

    def peaks(self, kind):
        return " and ".join(f"{most:.0f}" for most in sorted((m for (k, _), m in self.most.items() if k == kind))[-2:])


KINDS = {"JVM": b"CoarseGrainedExecutorBackend", "Python": b"pyspark.daemon"}


def spread(where, folder):
    """An exact machine on executors that have no room for all rows, on those of the usual size, or here."""
    from dimargin.spark.columns import Columns
    from dimargin.spark.training import train

    data, rows, machine = ALL_ROWS["exact, all rows"]
    watch = Watch()
    if where == "here":
        X, y = (np.load(f"{folder}/{data}-{rows}.{part}.npy") for part in ("X", "y"))
        seconds, found = timed(clone(machine).set_params(n_jobs=2).fit, X, y)
    else:
        os.mkdir(f"{folder}/spark")
        spark = session(2, f"{folder}/spark", 16, "1g" if where == "narrow" else "4g")
        if where == "narrow":
            frame = synthetic(spark, 2_000_000, folder, 0.5)  # so that some percent of the rows are support vectors
            machine = clone(machine).set_params(C=1.0, gamma=0.5)
        else:
            frame = spark.read.parquet(f"{folder}/{data}-{rows}")
        watch.start()
        seconds, found = timed(train, machine, frame, Columns("features", "label"))
        watch.ended.set()
        spark.stop()
    gaps = [entry["relative_gap"] for entry in found.history_]
    print(json.dumps([seconds, found.duality_gap_, len(gaps), len(found.support_), watch.peaks("JVM"),
                      watch.peaks("Python"), *memory_of_driver()]), flush=True)  # fmt: skip


def executors(places, names=()):
    with tempfile.TemporaryDirectory() as folder:
        prepared(names, folder)
        for where, what in places.items():
            command = [sys.executable, __file__, "--spread", where, folder]
            line = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            seconds, gap, checks, vectors, jvm, python, *driver = json.loads(line)
            there = f"executors' JVMs {jvm} MB, Python workers {python} MB, " if jvm else ""
            print(
                f"exact, hinge, {what}: {seconds:.3g} s to a gap of {gap:.1e}, {checks} checks, {vectors:,} support "
                f"vectors; {there}the caller's Python and JVM {driver[0]:.0f} and {driver[1]:.0f} MB at their peak",
                flush=True,
            )


NARROW = {"narrow": "2,000,000 rows of 18 numbers, two executors with a heap of 1 GiB"}
WHOLE = {"wide": "464,810 rows of covtype, two executors with a heap of 4 GiB", "here": "the same here, two threads"}


def predictors():
    """Models of different numbers of support vectors, and how often they are timed at most.

    With a C as small as this every row is a support vector. An early model of "dc" looks at those of one cluster.
    """
    for n_vectors, repeats in ((1000, 3), (20_000, 1)):
        yield f"{n_vectors:,} support vectors", n_vectors, repeats, dm.SVMClassifier(C=1e-3, gamma=1.0)
    early = dm.SVMClassifier(strategy="dc", C=1.0, gamma=1.0, stop_level=1, n_levels=1, branching=16, random_state=0)
    yield '"dc", early, 16 clusters', 100_000, 3, early


def predicted(rows, folder, repeats):
    """Predictions of one source by several models, on two executors and here, in turns."""
    from pyspark.sql import functions as F

    from dimargin.spark import SVMClassificationModel

    spark = session(2, folder, 16)
    frame = synthetic(spark, rows, folder)
    labels = frame.select("label").toArrow().column(0).to_numpy()
    X = np.empty((rows, 18))
    for k in range(18):
        X[:, k] = frame.select(F.col("features")[k]).toArrow().column(0).to_numpy()
    lines = []
    for name, n_rows, most, machine in predictors():
        machine.fit(X[:n_rows], labels[:n_rows])
        model, there, here = SVMClassificationModel.fromSklearn(machine), [], []

        def total(model=model):  # a plan of its own each time: Spark keeps what it has shuffled
            return model.transform(frame).select(F.sum("prediction")).collect()[0][0]

        if not lines:  # workers start, and Java compiles
            total()
        for _ in range(min(repeats, most)):
            seconds, found = timed(total)
            there.append(seconds)
            seconds, expected = timed(machine.set_params(n_jobs=2).predict, X)
            here.append(seconds)
        lines.append([name, f"{len(machine.support_):,}", describe(there), describe(here),
                      describe([a / b for a, b in zip(there, here, strict=True)]), f"{rows / np.median(there):,.0f}",
                      f"{rows / np.median(here):,.0f}", f"{abs(found - expected.sum()):.0f}"])  # fmt: skip
        print("| " + " | ".join(lines[-1]) + " |", file=sys.stderr, flush=True)
    spark.stop()
    print(table([f"{rows:,} rows", "support vectors", "seconds on two executors", "here, two threads", "ratio",
                 "rows a second there", "here", "sums of predictions differ by"], lines), flush=True)  # fmt: skip


def machines():
    """Every strategy and both losses."""
    for strategy in ("exact", "diodm", "dc", "cascade", "dip", "landmark"):
        landmarks = {"n_landmarks": 500} if strategy == "landmark" else {}
        yield f"{strategy}, ODM", dm.ODMClassifier(strategy=strategy, lam=1e4, random_state=0, **landmarks)
        loss = "squared_hinge" if strategy == "landmark" else "hinge"
        yield f"{strategy}, {loss}", dm.SVMClassifier(strategy=strategy, C=1.0, loss=loss, random_state=0, **landmarks)
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


def dealt(way, folder):
    """Exact machines across shards of 1,000 rows of phishing, in 1 to 8 partitions, beside those in one place here."""
    from dimargin.sharding import parts
    from dimargin.spark.columns import Columns
    from dimargin.spark.training import train

    parts._ROWS_OF_SHARD = 1000
    X, y = load("phishing")
    X, y = scaled(np.asarray(X, dtype=float)), np.where(y == y.max(), 1.0, 0.0)
    pd.DataFrame({"features": list(X), "label": y}).to_parquet(f"{folder}/rows.parquet")
    spark = session(2, folder, connect=way == "connect")
    frame = spark.read.parquet(f"{folder}/rows.parquet")
    for name, machine in (
        ("hinge", dm.SVMClassifier(C=1.0, tol=1e-6, random_state=0)),
        ("squared hinge", dm.SVMClassifier(C=1.0, loss="squared_hinge", tol=1e-6, random_state=0)),
        ("ODM", dm.ODMClassifier(lam=1e4, tol=1e-6, random_state=0)),
    ):
        expected = clone(machine).set_params(strategy=dm.Exact(across_shards=False)).fit(X, y)
        for partitions in (1, 2, 4, 8):
            spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
            across = clone(machine).set_params(strategy=dm.Exact(across_shards=True, working_set=4000))
            seconds, found = timed(train, across, frame, Columns("features", "label"))
            difference = abs(found.objective_ / expected.objective_ - 1)
            differ = int((found.predict(X) != expected.predict(X)).sum())
            line = [way, name, str(partitions), f"{difference:.1e}", str(differ), f"{found.duality_gap_:.1e}",
                    f"{seconds:.3g}", hex(hash(found.dual_coef_.tobytes()) & 0xFFFF)]  # fmt: skip
            print(json.dumps(line), flush=True)
    spark.stop()


def partitioned():
    lines = []
    for way in ("executors", "connect"):
        with tempfile.TemporaryDirectory() as folder:
            command, seed = [sys.executable, __file__, "--dealt", way, folder], {**os.environ, "PYTHONHASHSEED": "0"}
            found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=seed).stdout
            lines += [json.loads(line) for line in found.splitlines() if line.startswith("[")]
    print(table(["session", "loss", "partitions", "objective, relative difference", "rows predicted otherwise", "gap",
                 "seconds", "hash of the coefficients"], lines), flush=True)  # fmt: skip


def main():
    if sys.argv[1:2] == ["--run"]:
        return run(*map(int, sys.argv[2:5]), sys.argv[6:], sys.argv[5])
    if sys.argv[1:2] == ["--grown"]:
        return grown(int(sys.argv[2]), sys.argv[3])
    if sys.argv[1:2] == ["--spread"]:
        return spread(*sys.argv[2:4])
    if sys.argv[1:2] == ["--dealt"]:
        return dealt(*sys.argv[2:4])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["time", "memory", "equal"])
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--machines", nargs="+", default=None)
    parser.add_argument("--data", nargs="+", default=["phishing", "cod-rna"])
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args()
    heading(__doc__)
    if "time" in options.parts:
        times(options.executors, options.repeats, options.machines or list(PROBLEMS))
    if "memory" in options.parts:
        memory()
    if "executors" in options.parts:
        executors(NARROW)
    if "whole" in options.parts:
        executors(WHOLE, list(ALL_ROWS))
    if "equal" in options.parts:
        equal(options.machines, options.data)
    if "partitions" in options.parts:
        partitioned()
    if "predict" in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            predicted(options.rows, folder, options.repeats)


if __name__ == "__main__":
    main()
