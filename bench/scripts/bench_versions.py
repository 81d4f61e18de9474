"""The speed records of bench/targets with this version and with another one, in turn: is anything slower?

Usage: bench_versions.py [--before PYTHON] [NAME ...] [--rounds R]

PYTHON is an interpreter in which the other version is installed; without it this version is measured alone. Every work
runs in a process of its own, once to warm up and then three times, of which the fastest counts; the two versions take
turns, R times each (five by default). Seconds are medians over the rounds, and the ratio is the median of the ratios of
neighbours. Time of the processor is that of all threads together: it tells more than seconds on a machine that is not
quiet.
"""

import argparse
import atexit
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from bench_dc import TRAINING_ROWS, early
from bench_exact import local_gamma, problem
from common import describe, heading, load, scaled, split

import dimargin as dm

WORKS = {}
WIDE = {"upsilon": 0.5, "theta": 0.3, "random_state": 0}


def work(make):
    """Register a function that prepares data and returns what is timed."""
    WORKS[make.__name__] = make
    return make


def fit_of(machine, X, y):
    return lambda: machine.fit(X, y)


def tile(d, n_threads):
    from dimargin.kernels.functions import Kernel
    from dimargin.kernels.matrix import KernelMatrix
    from dimargin.kernels.row_transform import RowTransform

    X = np.random.default_rng(0).random((20_000, d))
    kernel = KernelMatrix(RowTransform.fit(X, Kernel("rbf", 1 / (d * X.var()))), X, n_threads=n_threads)
    columns, coefficients = np.arange(512), np.random.default_rng(1).normal(size=(1, 512))
    return lambda: [kernel.multiply(columns, coefficients) for _ in range(20)]


for numbers in (8, 22, 54, 123):
    WORKS[f"tile_{numbers}"] = lambda d=numbers: tile(d, 2)


@work
def exact_odm_1e3():
    X, y, gamma = problem()
    return fit_of(dm.ODMClassifier(strategy="exact", gamma=gamma, lam=1e3, **WIDE), X, y)


@work
def exact_odm_1e5():
    X, y, gamma = problem()
    return fit_of(dm.ODMClassifier(strategy="exact", gamma=gamma, lam=1e5, **WIDE), X, y)


def diodm(name):
    X, _, y, _ = split(name)
    options = {"gamma": local_gamma(X, np.random.default_rng(0)), "lam": 1e4, **WIDE}
    return fit_of(dm.ODMClassifier(strategy=dm.DiODM(early_stop=False), n_levels=2, **options), X, y)


@work
def diodm_cod_rna():
    return diodm("cod-rna")


@work
def diodm_ijcnn1():
    return diodm("ijcnn1")


@work
def hinge_ijcnn1():
    X, y = load("ijcnn1")
    return fit_of(dm.SVMClassifier(C=32.0, gamma=2.0, fit_intercept=True, random_state=0), scaled(X), y)


@work
def hinge_covtype_40000():
    X, _, y, _ = split("covtype.libsvm.binary", 40_000)
    return fit_of(dm.SVMClassifier(C=32.0, gamma=32.0, fit_intercept=True, tol=0.03, random_state=0), X, y)


@work
def squared_hinge_ijcnn1():
    X, y = load("ijcnn1")
    return fit_of(dm.SVMClassifier(C=32.0, gamma=2.0, loss="squared_hinge", random_state=0), scaled(X), y)


@work
def predict_ijcnn1():
    X, y = load("ijcnn1")
    X = scaled(X)
    machine = dm.SVMClassifier(C=32.0, gamma=2.0, random_state=0).fit(X, y)
    return lambda: machine.predict(X)


@work
def dc_early_covtype():
    X, _, y, _ = split("covtype.libsvm.binary", TRAINING_ROWS, seed=1)
    return fit_of(early(tol=1e-2), X, y)


@work
def landmark_susy():
    X, _, y, _ = split("SUSY-30k")
    return fit_of(dm.ODMClassifier(strategy="landmark", n_landmarks=1000, gamma=0.5, lam=1e5, **WIDE), X, y)


@work
def landmark_skin():
    X, _, y, _ = split("skin_nonskin")
    return fit_of(dm.ODMClassifier(strategy="landmark", n_landmarks=300, gamma=32.0, lam=1e6, **WIDE), X, y)


@work
def linear_newton():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((2_000_000, 18)), rng.standard_normal(18)
    return fit_of(dm.LinearODMClassifier(random_state=0), X, (X @ w + rng.standard_normal(len(X)) > 0).astype(int))


@work
def linear_dsvrg():
    X, y = load("ijcnn1")
    machine = dm.LinearODMClassifier(solver="dsvrg", lam=64.0, theta=0.1, upsilon=0.5, random_state=0)
    return fit_of(machine, scaled(X), y)


@work
def usps_against_the_rest():
    X, y = load("usps")
    machine = dm.SVMClassifier(C=8.0, gamma=0.03, random_state=0)
    if "multi_class" in machine.get_params():  # without it each class was always trained against the rest
        machine.set_params(multi_class="one_vs_rest")
    return fit_of(machine, scaled(X), y)


@work
def tuning_cod_rna():
    X, _, y, _ = split("cod-rna")
    return fit_of(dm.ODMClassifierCV(random_state=0), X, y)


@work
def svdd_and_balls():
    X = np.random.default_rng(0).normal(size=(200_000, 50))
    return lambda: dm.minimum_enclosing_ball(X, 1e-3)


@work
def core_set_machine():
    X, _, y, _ = split("cod-rna", 20_000)
    return fit_of(dm.CoreSetSVMClassifier(gamma=8.0, C=1.0, random_state=0), X, y)


@work
def core_set_consensus():
    from bench_core_set import agreed

    return lambda: agreed(100, 50, 0.1, 0.1)


@work
def gossip_a9a():
    from bench_gossip import rows

    X, y = rows("a9a")
    return fit_of(dm.GossipSVMClassifier(alpha=1e-4, max_iter=300, random_state=0), X, y)


@work
def importing():
    command = [sys.executable, "-c", "from dimargin import SVMClassifier"]
    return lambda: subprocess.run(command, check=True)


@work
def landmark_two_million():
    from bench_landmark import synthetic_rows

    machine = dm.ODMClassifier(strategy="landmark", n_landmarks=500, gamma=0.5, lam=1e5, random_state=0)
    return fit_of(machine, *synthetic_rows(2_000_000))


def reading(suffix):
    """Read 300,000 rows of 18 numbers from a file, which stays until the process ends."""
    from bench_files import write

    from dimargin.io.data import read_data

    folder = TemporaryDirectory()
    write(Path(folder.name), "rows", 300_000)
    atexit.register(folder.cleanup)
    return lambda: read_data(f"{folder.name}/rows.{suffix}")


for text in ("svm", "csv", "parquet"):
    WORKS[f"read_{text}"] = lambda suffix=text: reading(suffix)


@work
def messages_of_200_sites():
    from bench_gossip import averages

    return lambda: averages(200, "torus")[1].run(until=200)


def on_spark(name):
    """Train on two executors, on Parquet files."""
    from bench_spark import PROBLEMS, prepared, session

    from dimargin.spark.columns import Columns
    from dimargin.spark.training import train

    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    prepared([name], folder.name)
    data, machine = PROBLEMS[name]
    frame = session(2, folder.name).read.parquet(f"{folder.name}/{data}")
    return lambda: train(machine, frame, Columns("features", "label"))


for machine in ("level 0", "landmark", "stop_level=1"):
    WORKS[f"spark_{machine.replace(' ', '_')}"] = lambda name=machine: on_spark(name)


def measured(name):
    """The fastest of three runs: seconds, and seconds of the processor."""
    run, found = WORKS[name](), []
    run()
    for _ in range(3):
        began, before = time.perf_counter(), os.times()
        run()
        spent = sum(os.times()[:4]) - sum(before[:4])  # of this process and of those that it waited for
        found.append((time.perf_counter() - began, spent))
    return [min(column) for column in zip(*found, strict=True)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--before", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", metavar="NAME", help="print one measurement as JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one)))
        return
    heading(__doc__)
    pythons = {"before": given.before} if given.before else {}
    pythons["now"] = sys.executable
    whose = [*pythons, *(["ratio"] if given.before else [])]
    headings = ["work", *(f"{version}, {unit}" for unit in ("s", "processor") for version in whose)]
    print("| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings), sep="\n", flush=True)
    for name in given.names or WORKS:
        runs = {version: [] for version in pythons}
        for _ in range(given.rounds):
            for version, python in pythons.items():
                command = [python, __file__, "--one", name]
                answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                runs[version].append(json.loads(answer.splitlines()[-1]))
        found = {version: np.array(own) for version, own in runs.items()}
        cells = [name]
        for column in (0, 1):
            cells += [describe(own[:, column]) for own in found.values()]
            if given.before:
                ratios = found["now"][:, column] / np.maximum(found["before"][:, column], 1e-9)
                cells.append(f"{np.median(ratios):.2f}")
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
