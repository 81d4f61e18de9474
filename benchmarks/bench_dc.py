"""DC-SVM (early) on covtype, beside what the paper reports and beside LIBSVM on a subset.

Usage: bench_dc.py [--libsvm N]

464,810 training rows and the rest for test, features to [0, 1] by training ranges, C=32, gamma=32, 64 clusters, without
intercept; three seeds. With --libsvm N also LIBSVM (scikit-learn's SVC, default tolerance, a cache of 2 GB) and DC-SVM
(early) on the same N of the training rows: N = 75,000 takes LIBSVM some 20 minutes.
"""

import argparse
import resource
import time

import numpy as np
from common import describe, heading, load, scaled, table
from sklearn.svm import SVC

from dimargin import SVMClassifier

TRAINING_ROWS = 464_810
HEADINGS = ["rows", "machine", "fit, s", "of it clusters, s", "predict, s", "accuracy, %"]


def early(seed=0, **parameters):
    """Four branches, three levels: 64 clusters."""
    return SVMClassifier(C=32.0, gamma=32.0, strategy="dc", n_levels=3, stop_level=3, random_state=seed, **parameters)


def measured(machine, X, y, X_test, y_test):
    """Seconds to fit and to predict, accuracy in percent, seconds for the clusters (0 for LIBSVM)."""
    began = time.perf_counter()
    machine.fit(X, y)
    fitted = time.perf_counter()
    accuracy = 100 * machine.score(X_test, y_test)
    clustering = sum(entry["clustering_seconds"] for entry in getattr(machine, "history_", []))
    return fitted - began, time.perf_counter() - fitted, accuracy, clustering


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--libsvm", type=int)
    n_libsvm = parser.parse_args().libsvm
    heading(__doc__)
    X, y = load("covtype.libsvm.binary")
    order = np.random.default_rng(1).permutation(len(y))
    train, test = order[:TRAINING_ROWS], order[TRAINING_ROWS:]
    X, X_test = scaled(X[train], X[test])
    y, y_test = y[train], y[test]
    rows = []
    for tol in (1e-2, 1e-3):
        runs = np.array([measured(early(seed, tol=tol), X, y, X_test, y_test) for seed in range(3)])
        rows.append(
            [
                f"{len(y)}",
                f"DC-SVM (early), tol={tol}",
                describe(runs[:, 0]),
                describe(runs[:, 3]),
                describe(runs[:, 1]),
                ", ".join(f"{a:.2f}" for a in runs[:, 2]),
            ]
        )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(table(HEADINGS, rows))
    print(f"\npeak memory, data included: {memory:.2f} GB; the paper: 672 s, 96.12%\n", flush=True)
    if n_libsvm:
        X, y, rows = X[:n_libsvm], y[:n_libsvm], []
        ours = np.array([measured(early(seed, tol=1e-2), X, y, X_test, y_test) for seed in range(3)])
        theirs = measured(SVC(C=32.0, gamma=32.0, cache_size=2000), X, y, X_test, y_test)
        rows.append(
            [
                str(n_libsvm),
                "DC-SVM (early), tol=0.01",
                describe(ours[:, 0]),
                describe(ours[:, 3]),
                describe(ours[:, 1]),
                ", ".join(f"{a:.2f}" for a in ours[:, 2]),
            ]
        )
        rows.append([str(n_libsvm), "LIBSVM", f"{theirs[0]:.4g}", "", *(f"{value:.4g}" for value in theirs[1:3])])
        print(table(HEADINGS, rows))
        print(f"\nLIBSVM over DC-SVM (early): {theirs[0] / np.median(ours[:, 0]):.3g} times the time")


if __name__ == "__main__":
    main()
