"""LinearSVMClassifier beside LinearSVC: seconds to the same primal objective.

Usage: bench_linear_svm.py [data set ...]; without arguments all but the largest text.

Both have C = 1 and no intercept, since LinearSVC's is regularised. Ours stops at its default, a
certified gap of 1e-3. LinearSVC has the faster of its solvers (for the squared hinge primal and
dual) with the largest tolerance of 1, 0.1, ... 1e-4 whose objective is at most 1e-3 above the
smallest known; searching it takes no time here. Memory is that of the rows with the most that a fit
needs besides, in relation to the rows. Texts are synthetic: column ``int(d u^3)``, uniform
values, rows of length one, labels of a random plane with noise of 0.3 standard deviations.
"""

import sys
import warnings

import numpy as np
import scipy.sparse as sp
from common import describe, extra_memory, heading, load, scaled, seconds_of, table
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

import dimargin as dm

TEXTS = {"text 20,000": (20_000, 50_000), "text 100,000": (100_000, 200_000), "text 1,000,000": (10**6, 10**6)}
DATA = ("reuters", "a9a", "phishing", "ijcnn1", "covtype", "covtype, dense", "text 20,000", "text 100,000")
TIMES = 5


def text(n_rows, n_columns, n_words=60):
    """Rows and labels of a synthetic text."""
    rng = np.random.default_rng(0)
    columns = (n_columns * rng.random((n_rows, n_words)) ** 3).astype(np.int32)
    shape = (n_rows, n_columns)
    X = sp.csr_array((rng.random(columns.size), columns.ravel(), np.arange(0, columns.size + 1, n_words)), shape=shape)
    X.sum_duplicates()
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1)), np.diff(X.indptr))
    scores = X @ rng.standard_normal(n_columns)
    return X, (scores + 0.3 * scores.std() * rng.standard_normal(n_rows) > 0).astype(int)


def rows_of(name):
    """Rows, training labels and test rows of a data set."""
    if name in TEXTS:
        return text(*TEXTS[name])
    X, y = load(name.partition(",")[0].replace("covtype", "covtype.libsvm.binary"))
    if name != "reuters":
        X = scaled(X)
    X = np.asarray(X.toarray() if sp.issparse(X) else X)
    y = (y == np.unique(y)[-1]).astype(int)
    return (X if name.endswith("dense") else narrow(X)), y


def narrow(X):
    """CSR rows with indices of 32 bits, which LinearSVC needs."""
    X = sp.csr_array(X)
    return sp.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


def objective(machine, X, y, loss):
    """Primal objective of a machine without intercept."""
    short = np.maximum(1 - np.where(y == 1, 1, -1) * (X @ machine.coef_[0]), 0)
    return 0.5 * (machine.coef_**2).sum() + (short if loss == "hinge" else short**2).sum()


def rivals(loss):
    """Settings of LinearSVC, from large to small tolerances."""
    for dual in (True, False) if loss == "squared_hinge" else (True,):
        yield [
            LinearSVC(loss=loss, dual=dual, fit_intercept=False, tol=10.0**-k, max_iter=10_000, random_state=0)
            for k in range(5)
        ]


def compare(name, loss):
    """One row of the table."""
    X, y = rows_of(name)
    X, queries, y, truth = train_test_split(X, y, test_size=0.2, random_state=0)
    X, queries = (narrow(part) if sp.issparse(part) else part for part in (X, queries))
    ours = dm.LinearSVMClassifier(loss=loss, fit_intercept=False, random_state=0)
    memory = [extra_memory(lambda: ours.fit(X, y))]
    spent = seconds_of(lambda: ours.fit(X, y), TIMES)
    best = min(
        objective(ours, X, y, loss),
        dm.LinearSVMClassifier(loss=loss, fit_intercept=False, tol=1e-5).fit(X, y).objective_,
    )
    found = []
    for path in rivals(loss):
        for rival in path:
            seconds = seconds_of(lambda rival=rival: rival.fit(X, y))
            if objective(rival, X, y, loss) <= 1.001 * best:
                found.append((seconds + seconds_of(lambda rival=rival: rival.fit(X, y), TIMES - 1), rival))
                break
    theirs, rival = min(found, key=lambda pair: np.median(pair[0]), default=([np.nan], None))
    memory += [] if rival is None else [extra_memory(lambda: rival.fit(X, y))]
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sp.issparse(X) else X.nbytes
    accuracy = "-" if rival is None else f"{100 * rival.score(queries, truth):.2f}"
    return [
        name, loss, describe(spent), f"{ours.n_iter_}, {ours.fit_plan(*X.shape, n_values=int(X.size)).name}",
        f"{ours.duality_gap_:.1e}", describe(theirs), "-" if rival is None else f"{rival.tol:g}, {rival.n_iter_}",
        f"{np.median(theirs) / np.median(spent):.2f}", ", ".join(f"{1 + extra / size:.2f}" for extra in memory),
        f"{100 * ours.score(queries, truth):.2f}", accuracy,
    ]  # fmt: skip


def main():
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = [compare(name, loss) for name in sys.argv[1:] or DATA for loss in ("hinge", "squared_hinge")]
    headings = [
        "rows",
        "loss",
        "seconds",
        "passes",
        "gap",
        "LinearSVC, s",
        "tol, passes",
        "ratio",
        "memory, its",
        "%",
        "its %",
    ]
    print(table(headings, rows), flush=True)


if __name__ == "__main__":
    main()
