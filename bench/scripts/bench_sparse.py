"""Sparse rows: nanoseconds a kernel value, and fits beside SVC and, where it is installed, scikit-learn-intelex.

Kernel values of 6,000 rows with 1,000 of them, on one thread, in processor time: `product` sums
them times coefficients, `values` stores them (those of 300 rows with all). Fits are of the hinge
with an intercept, C = 8 and the default tolerance, on all processors; SVC has one thread, and a
gigabyte of cache as scikit-learn-intelex has.
"""

import argparse
import time
from functools import partial

import numpy as np
import scipy.sparse as sp
from common import describe, heading, intel_svc, load, seconds_of, table
from sklearn.svm import SVC

import dimargin as dm
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform

GAMMA = {"phishing": 1.0, "reuters": 1.0, "a9a": 0.1}


def nanoseconds(call, n_values, repeats):
    call()
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        taken.append((time.process_time() - start) / n_values * 1e9)
    return describe(taken)


def kernel_values(name, X, repeats):
    X = X[np.random.default_rng(0).permutation(X.shape[0])[:6000]]
    K = KernelMatrix(RowTransform.fit(X, Kernel("rbf", GAMMA[name])), X)
    rows, columns, some = np.arange(6000), np.arange(0, 6000, 6), np.arange(300)
    coefficients = np.ones((1, 1000))
    product = nanoseconds(lambda: K.multiply(columns, coefficients), 6000 * 1000, repeats)
    values = nanoseconds(lambda: K.values(some, rows), 300 * 6000, repeats)
    return [name, "float64" if K.double else "float32", product, values]


def contenders(gamma):
    machines = {
        "dimargin": dm.SVMClassifier(C=8.0, gamma=gamma, fit_intercept=True),
        "SVC": SVC(C=8.0, gamma=gamma, cache_size=1000),
    }
    if intel := intel_svc():
        machines["scikit-learn-intelex"] = intel(C=8.0, gamma=gamma, cache_size=1000)
    return machines


def fits(name, X, y, repeats):
    for title, machine in contenders(GAMMA[name]).items():
        taken = seconds_of(partial(machine.fit, X, y), repeats)
        yield [f"{name}, {X.shape[0]} x {X.shape[1]}", title, describe(taken), str(len(machine.support_))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=GAMMA, default=list(GAMMA))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--values-only", action="store_true", help="no fits")
    options = parser.parse_args()
    heading(__doc__)
    data = {}
    for name in options.data:
        X, y = load(name)
        X = sp.csr_matrix(X)  # scikit-learn-intelex takes matrices
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        data[name] = X, y
    rows = [kernel_values(name, X, options.repeats) for name, (X, _) in data.items()]
    print(table(["rows", "precision", "product, ns", "values, ns"], rows), end="\n\n", flush=True)
    if not options.values_only:
        rows = [row for name, (X, y) in data.items() for row in fits(name, X, y, options.repeats)]
        print(table(["rows", "machine", "fit, s", "support vectors"], rows))


if __name__ == "__main__":
    main()
