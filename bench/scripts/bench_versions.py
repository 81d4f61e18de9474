"""The speed records of bench/targets with this version and with another one, in turn: is anything slower?

Usage: bench_versions.py [--before PYTHON] [NAME ...] [--rounds R]

PYTHON is an interpreter in which the other version is installed; without it this version is
measured alone. Every work runs in a process of its own, once to warm up and then three times, of
which the fastest counts; the two versions take turns, R times each (five by default). Seconds are
medians over the rounds, and the ratio is the median of the ratios of neighbours. Time of the
processor is that of all threads together: it tells more than seconds on a machine that is not
quiet.
"""

import argparse
import atexit
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from bench_dc import TRAINING_ROWS, early
from bench_exact import local_gamma, problem
from common import describe, heading, load, scaled, split

import dimargin as dm

WIDE = {"upsilon": 0.5, "theta": 0.3, "random_state": 0}
COVTYPE = "covtype.libsvm.binary"


# ---- functions that prepare data and return what is timed ------------------------------------------------------------


def fit(machine, X, y):
    return partial(machine.fit, X, y)


def fit_some(machine, name, n_train=None, seed=0):
    """Fit 80% of the rows, or so many."""
    X, _, y, _ = split(name, n_train, seed=seed)
    return fit(machine, X, y)


def fit_all(machine, name):
    X, y = load(name)
    return fit(machine, scaled(X), y)


def tile(d, n_threads=2):
    from dimargin.kernels.functions import Kernel
    from dimargin.kernels.matrix import KernelMatrix
    from dimargin.kernels.row_transform import RowTransform

    X = np.random.default_rng(0).random((20_000, d))
    kernel = KernelMatrix(RowTransform.fit(X, Kernel("rbf", 1 / (d * X.var()))), X, n_threads=n_threads)
    columns, coefficients = np.arange(512), np.random.default_rng(1).normal(size=(1, 512))
    return lambda: [kernel.multiply(columns, coefficients) for _ in range(20)]


def exact_odm(lam):
    X, y, gamma = problem()
    return fit(dm.ODMClassifier(strategy="exact", gamma=gamma, lam=lam, **WIDE), X, y)


def diodm(name):
    X, _, y, _ = split(name)
    options = {"gamma": local_gamma(X, np.random.default_rng(0)), "lam": 1e4, **WIDE}
    return fit(dm.ODMClassifier(strategy=dm.DiODM(early_stop=False), n_levels=2, **options), X, y)


def landmark(n_landmarks, gamma, lam):
    return dm.ODMClassifier(strategy="landmark", n_landmarks=n_landmarks, gamma=gamma, lam=lam, **WIDE)


def predicting():
    X, y = load("ijcnn1")
    X = scaled(X)
    return partial(dm.SVMClassifier(fit_intercept=False, C=32.0, gamma=2.0, random_state=0).fit(X, y).predict, X)


def newton():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((2_000_000, 18)), rng.standard_normal(18)
    return fit(dm.LinearODMClassifier(random_state=0), X, (X @ w + rng.standard_normal(len(X)) > 0).astype(int))


def against_the_rest():
    machine = dm.SVMClassifier(fit_intercept=False, C=8.0, gamma=0.03, random_state=0)
    if "multi_class" in machine.get_params():  # without it each class was always trained against the rest
        machine.set_params(multi_class="one_vs_rest")
    return fit_all(machine, "usps")


def enclosing():
    X = np.random.default_rng(0).normal(size=(200_000, 50))
    return lambda: dm.minimum_enclosing_ball(X, 1e-3)


def consensus():
    from bench_core_set import agreed

    return lambda: agreed(100, 50, 0.1, 0.1)


def gossip():
    from bench_gossip import rows

    return fit(dm.GossipSVMClassifier(alpha=1e-4, max_iter=300, random_state=0), *rows("a9a"))


def messages():
    from bench_gossip import averages

    return lambda: averages(200, "torus")[1].run(until=200)


def importing():
    command = [sys.executable, "-c", "from dimargin import SVMClassifier"]
    return lambda: subprocess.run(command, check=True)


def two_million():
    from bench_landmark import synthetic_rows

    machine = dm.ODMClassifier(strategy="landmark", n_landmarks=500, gamma=0.5, lam=1e5, random_state=0)
    return fit(machine, *synthetic_rows(2_000_000))


def reading(suffix):
    """Read 300,000 rows of 18 numbers from a file, which stays until the process ends."""
    from bench_files import write

    from dimargin.io.data import read_data

    folder = TemporaryDirectory()
    write(Path(folder.name), "rows", 300_000)
    atexit.register(folder.cleanup)
    return lambda: read_data(f"{folder.name}/rows.{suffix}")


def on_spark(name):
    """Train on two executors, on Parquet files."""
    from bench_spark import PROBLEMS, prepared, session

    from dimargin.spark.columns import Columns
    from dimargin.spark.training import train

    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    prepared([name], folder.name)
    data, n_rows, machine = PROBLEMS[name]
    frame = session(2, folder.name).read.parquet(f"{folder.name}/{data}-{n_rows}")
    return lambda: train(machine, frame, Columns("features", "label"))


def svm(**options):
    return dm.SVMClassifier(fit_intercept=False, random_state=0, **options)


DSVRG = dm.LinearODMClassifier(solver="dsvrg", lam=64.0, theta=0.1, upsilon=0.5, random_state=0)
WORKS = {
    **{f"tile_{d}": partial(tile, d) for d in (8, 22, 54, 123)},
    "exact_odm_1e3": partial(exact_odm, 1e3),
    "exact_odm_1e5": partial(exact_odm, 1e5),
    "diodm_cod_rna": partial(diodm, "cod-rna"),
    "diodm_ijcnn1": partial(diodm, "ijcnn1"),
    "hinge_ijcnn1": partial(fit_all, svm(C=32.0, gamma=2.0, fit_intercept=True), "ijcnn1"),
    "hinge_covtype_40000": partial(fit_some, svm(C=32.0, gamma=32.0, fit_intercept=True, tol=0.03), COVTYPE, 40_000),
    "squared_hinge_ijcnn1": partial(fit_all, svm(C=32.0, gamma=2.0, loss="squared_hinge"), "ijcnn1"),
    "predict_ijcnn1": predicting,
    "dc_early_covtype": partial(fit_some, early(tol=1e-2), COVTYPE, TRAINING_ROWS, seed=1),
    "landmark_susy": partial(fit_some, landmark(1000, 0.5, 1e5), "SUSY-30k"),
    "landmark_skin": partial(fit_some, landmark(300, 32.0, 1e6), "skin_nonskin"),
    "linear_newton": newton,
    "linear_dsvrg": partial(fit_all, DSVRG, "ijcnn1"),
    "usps_against_the_rest": against_the_rest,
    "tuning_cod_rna": partial(fit_some, dm.ODMClassifierCV(random_state=0), "cod-rna"),
    "svdd_and_balls": enclosing,
    "core_set_machine": partial(fit_some, dm.CoreSetSVMClassifier(gamma=8.0, C=1.0, random_state=0), "cod-rna", 20_000),
    "core_set_consensus": consensus,
    "gossip_a9a": gossip,
    "importing": importing,
    "landmark_two_million": two_million,
    **{f"read_{suffix}": partial(reading, suffix) for suffix in ("svm", "csv", "parquet")},
    "messages_of_200_sites": messages,
    **{f"spark_{name.replace(' ', '_')}": partial(on_spark, name) for name in ("level 0", "landmark", "stop_level=1")},
}


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
