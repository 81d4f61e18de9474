"""The path of LinearSVMClassifierCV and LinearODMClassifierCV beside fits from zero, and LinearSVC's.

Usage: bench_linear_path.py [data set ...]; without arguments reuters, a9a and a text of 20,000 rows.

The only fold trains and scores on all rows, and every fit has one thread: seconds of the class less
those of one fit with the chosen C (or lam) are those of the path of ten values, 0.01 to 100 (10 to 1e6).
The same values are fitted from zero, one by one. Seconds are those of the processor, on one thread.
LinearSVC has its defaults, and no machine an intercept, since LinearSVC's is regularised.
"""

import sys
import time
import warnings

import numpy as np
from bench_linear_svm import narrow, rows_of
from common import describe, heading, table
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import dimargin as dm

DATA = ("reuters", "a9a", "text 20,000")
MACHINES = {
    "hinge": (dm.LinearSVMClassifierCV, dm.LinearSVMClassifier, "C", {"loss": "hinge"}),
    "squared hinge": (dm.LinearSVMClassifierCV, dm.LinearSVMClassifier, "C", {"loss": "squared_hinge"}),
    "odm": (dm.LinearODMClassifierCV, dm.LinearODMClassifier, "lam", {}),
}
TIMES = 3


def seconds_of(machine, X, y):
    """Seconds of the processor of a fit."""
    began = time.process_time()
    machine.fit(X, y)
    return time.process_time() - began


def compare(name, machine):
    """One row of the table."""
    X, y = rows_of(name)
    X, queries, y, truth = train_test_split(X, y, test_size=0.2, random_state=0)
    X, queries = narrow(X), narrow(queries)
    searched, single, parameter, options = MACHINES[machine]
    options = options | {"fit_intercept": False, "n_jobs": 1, "random_state": 0}
    every = np.arange(len(y))
    # The value is chosen by other rows, as in use.
    chosen = searched(**options, cv=3).fit(X, y)
    value, path = getattr(chosen, f"{parameter}_"), searched(**options, cv=[(every, every)])
    fits = [single(**{parameter: own}, **options) for own in getattr(chosen, f"{parameter}s_")]
    index = getattr(chosen, f"{parameter}s_").tolist().index(value)
    whole, cold, rival = [], [], []
    for _ in range(TIMES):
        spent = seconds_of(path, X, y)
        last = single(**{parameter: getattr(path, f"{parameter}_")}, **options)
        whole.append(spent - seconds_of(last, X, y))
        cold.append([seconds_of(own, X, y) for own in fits])
    if machine != "odm":
        svcs = [LinearSVC(C=own.C, loss=own.loss, fit_intercept=False, random_state=0) for own in fits]
        rival.append(sum(seconds_of(own, X, y) for own in svcs))
    seconds, each = np.median(whole), np.median(cold, axis=0)
    return [
        name, machine, describe(whole), f"{value:.3g}", f"{each[index]:.3f}", f"{seconds / each[index]:.1f}",
        f"{each.max():.3f}", f"{seconds / each.max():.1f}", f"{each.sum():.3f}",
        f"{rival[0]:.3f}" if rival else "-", f"{path.duality_gaps_.max():.1e}",
        f"{100 * chosen.score(queries, truth):.2f}",
    ]  # fmt: skip


def main():
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    headings = [
        "rows", "machine", "path, s", "value", "one fit, s", "ratio", "dearest, s", "ratio", "ten from zero, s",
        "ten LinearSVC, s", "largest gap", "%",
    ]  # fmt: skip
    print(table(headings, []), flush=True)
    with threadpool_limits(1):
        for name in sys.argv[1:] or DATA:
            for machine in MACHINES:
                print("| " + " | ".join(compare(name, machine)) + " |", flush=True)


if __name__ == "__main__":
    main()
