"""DC-SVM (early) on covtype, beside what the paper reports and beside LIBSVM on a subset.

Usage: bench_dc.py [--libsvm N] [--exact]

464,810 training rows and the rest for test, features to [0, 1] by training ranges, C=32, gamma=32,
64 clusters found on 4,000 rows (with the default, 1,000, accuracy differs more from seed to seed),
without intercept; three seeds. With --libsvm N also LIBSVM (scikit-learn's SVC, default tolerance,
a cache of 2 GB) and DC-SVM (early) on the same N of the training rows: N = 88,000 takes LIBSVM some
19 minutes. With --exact also one exact solve of all training rows, to a gap of 1e-2.
"""

import argparse
import resource

import numpy as np
from common import describe, heading, kernel_values, split, table, timed
from sklearn.svm import SVC

from dimargin import DivideAndConquer, SVMClassifier

TRAINING_ROWS = 464_810
HEADINGS = ["rows", "machine", "fit, s", "of it clusters, s", "predict, s", "accuracy, %"]


def early(seed=0, **parameters):
    """Four branches, three levels: 64 clusters."""
    dc = DivideAndConquer(sample_size=4000)
    return SVMClassifier(
        fit_intercept=False, C=32.0, gamma=32.0, strategy=dc, n_levels=3, stop_level=3, random_state=seed, **parameters
    )


def measured(machine, X, y, X_test, y_test):
    """Seconds to fit and to predict, accuracy in percent, seconds for the clusters (0 for LIBSVM)."""
    fit, _ = timed(machine.fit, X, y)
    predict, accuracy = timed(machine.score, X_test, y_test)
    clustering = sum(entry.get("clustering_seconds", 0.0) for entry in getattr(machine, "history_", []))
    return fit, predict, 100 * accuracy, clustering


def summary(machine, n_rows, runs):
    """A row of the table."""
    accuracies = ", ".join(f"{a:.2f}" for a in runs[:, 2])
    return [str(n_rows), machine, *(describe(runs[:, column]) for column in (0, 3, 1)), accuracies]


def peak_memory():
    """Of this process so far, in GB."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--libsvm", type=int)
    parser.add_argument("--exact", action="store_true")
    options = parser.parse_args()
    heading(__doc__)
    X, X_test, y, y_test = split("covtype.libsvm.binary", TRAINING_ROWS, seed=1)
    rows = []
    for tol in (1e-2, 1e-3):
        runs = np.array([measured(early(seed, tol=tol), X, y, X_test, y_test) for seed in range(3)])
        rows.append(summary(f"DC-SVM (early), tol={tol}", len(y), runs))
    print(table(HEADINGS, rows))
    print(f"\npeak memory, data included: {peak_memory()} GB; the paper: 672 s, 96.12%\n", flush=True)
    if options.exact:
        machine = SVMClassifier(
            fit_intercept=False, C=32.0, gamma=32.0, strategy="exact", tol=1e-2, random_state=0, verbose=1
        )
        fit, predict, accuracy, _ = measured(machine, X, y, X_test, y_test)
        evaluations = kernel_values(machine) / len(y) ** 2
        print(f"exact: {fit:.4g} s to a gap of {machine.duality_gap_:.2e} ({machine.certificate_}), {evaluations:.3g} "
              f"n^2 kernel values, {len(machine.support_)} support vectors, accuracy {accuracy:.2f}%, predicted in "
              f"{predict:.3g} s; peak memory {peak_memory()} GB\n", flush=True)  # fmt: skip
    if options.libsvm:
        n_libsvm = options.libsvm
        X, y, rows = X[:n_libsvm], y[:n_libsvm], []
        ours = np.array([measured(early(seed, tol=1e-2), X, y, X_test, y_test) for seed in range(3)])
        theirs = measured(SVC(C=32.0, gamma=32.0, cache_size=2000), X, y, X_test, y_test)
        rows.append(summary("DC-SVM (early), tol=0.01", n_libsvm, ours))
        rows.append([str(n_libsvm), "LIBSVM", f"{theirs[0]:.4g}", "", *(f"{value:.4g}" for value in theirs[1:3])])
        print(table(HEADINGS, rows))
        print(f"\nLIBSVM over DC-SVM (early): {theirs[0] / np.median(ours[:, 0]):.3g} times the time")


if __name__ == "__main__":
    main()
