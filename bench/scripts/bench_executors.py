"""Exact machines across executors: equal ones, their memory, and predictions of many rows.

Usage: bench_executors.py [partitions] [small] [whole] [predict] [--repeats R] [--rows N]

partitions: "exact" across shards of phishing, tol=1e-6, in 1 to 8 partitions, on executors and over
Spark Connect, beside the exact machine here. The others take long, and are done where they are
asked for. small: two million rows on executors with 1 GiB of heap, with the most memory of each
process of an executor. whole: 464,810 rows of covtype, on executors and here, each in a process of
its own. predict: `transform` of ten million rows in Parquet files on two executors beside the local
predictor with two threads, whose rows are in memory already.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pandas as pd
from bench_spark import ALL_ROWS, memory_of_driver, prepared, session, synthetic, timed
from common import describe, heading, load, scaled, table
from sklearn.base import clone

import dimargin as dm


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
        spark = session(2, f"{folder}/spark", 16, "1g" if where == "small" else "4g")
        if where == "small":
            frame = synthetic(spark, 2_000_000, folder, 0.5)  # so that some percent of the rows are support vectors
            machine = clone(machine).set_params(C=1.0, gamma=0.5)
        else:
            frame = spark.read.parquet(f"{folder}/{data}-{rows}")
        watch.start()
        seconds, found = timed(train, machine, frame, Columns("features", "label"))
        watch.ended.set()
        spark.stop()
    print(json.dumps([seconds, found.duality_gap_, found.n_iter_, len(found.support_), watch.peaks("JVM"),
                      watch.peaks("Python"), *memory_of_driver()]), flush=True)  # fmt: skip


def executors(places, names=()):
    with tempfile.TemporaryDirectory() as folder:
        prepared(names, folder)
        for where, what in places.items():
            command = [sys.executable, __file__, "--spread", where, folder]
            line = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            seconds, gap, rounds, vectors, jvm, python, *driver = json.loads(line)
            there = f"executors' JVMs {jvm} MB, Python workers {python} MB, " if jvm else ""
            print(
                f"exact, hinge, {what}: {seconds:.3g} s to a gap of {gap:.1e}, {rounds} rounds, {vectors:,} support "
                f"vectors; {there}the caller's Python and JVM {driver[0]:.0f} and {driver[1]:.0f} MB at their peak",
                flush=True,
            )


SMALL = {"small": "2,000,000 rows of 18 numbers, two executors with a heap of 1 GiB"}
WHOLE = {"wide": "464,810 rows of covtype, two executors with a heap of 4 GiB", "here": "the same here, two threads"}


def predictors():
    """Models of different numbers of support vectors, and how often they are timed at most.

    With a C as small as this every row is a support vector. An early model of "dc" looks at those
    of one cluster.
    """
    for n_vectors, repeats in ((1000, 3), (20_000, 1)):
        yield (
            f"{n_vectors:,} support vectors",
            n_vectors,
            repeats,
            dm.SVMClassifier(fit_intercept=False, C=1e-3, gamma=1.0),
        )
    early = dm.SVMClassifier(
        fit_intercept=False, strategy="dc", C=1.0, gamma=1.0, stop_level=1, n_levels=1, branching=16, random_state=0
    )
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


def dealt(way, folder):
    """Exact machines across shards of 1,000 rows of phishing, in 1 to 8 partitions, beside those in one place here."""
    from dimargin.shards import parts
    from dimargin.spark.columns import Columns
    from dimargin.spark.training import train

    parts._ROWS_OF_SHARD = 1000
    X, y = load("phishing")
    X, y = scaled(np.asarray(X, dtype=float)), np.where(y == y.max(), 1.0, 0.0)
    pd.DataFrame({"features": list(X), "label": y}).to_parquet(f"{folder}/rows.parquet")
    spark = session(2, folder, connect=way == "connect")
    frame = spark.read.parquet(f"{folder}/rows.parquet")
    for name, machine in (
        ("hinge", dm.SVMClassifier(fit_intercept=False, C=1.0, tol=1e-6, random_state=0)),
        ("squared hinge", dm.SVMClassifier(fit_intercept=False, C=1.0, loss="squared_hinge", tol=1e-6, random_state=0)),
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
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=seed) as process:
                for line in process.stdout:
                    print(line, end="", file=sys.stderr, flush=True)
                    lines += [json.loads(line)] if line.startswith("[") else []
            if process.returncode:
                raise SystemExit(f"the fits on {way} ended with exit status {process.returncode}")
    print(table(["session", "loss", "partitions", "objective, relative difference", "rows predicted otherwise", "gap",
                 "seconds", "hash of the coefficients"], lines), flush=True)  # fmt: skip


def main():
    if sys.argv[1:2] == ["--spread"]:
        return spread(*sys.argv[2:4])
    if sys.argv[1:2] == ["--dealt"]:
        return dealt(*sys.argv[2:4])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["partitions"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10_000_000, help="to be predicted")
    options = parser.parse_args()
    heading(__doc__)
    if "partitions" in options.parts:
        partitioned()
    if "small" in options.parts:
        executors(SMALL)
    if "whole" in options.parts:
        executors(WHOLE, list(ALL_ROWS))
    if "predict" in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            predicted(options.rows, folder, options.repeats)


if __name__ == "__main__":
    main()
