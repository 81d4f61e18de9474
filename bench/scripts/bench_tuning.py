"""ODMClassifierCV beside scikit-learn's HalvingGridSearchCV: the same machine, candidates and number of folds.

Usage: bench_tuning.py [defaults] [equal] [--splits N] [--only NAME ...]; both parts and all data
sets by default.

Both choose among the 45 candidates of ODMClassifierCV's default grid with three folds and train the
best on all training rows to a gap of 1e-3; 80% of the rows at random, features to [0, 1] by
training ranges. HalvingGridSearchCV with its defaults but for cv and the train scores, which it
need not compute; exact machines on both sides, on all threads. Rounds differ: HalvingGridSearchCV's
last one takes all training rows, ours 10,000 at most.

defaults: candidates are solved to what either has by default, ours to a gap of 0.2, in 30 passes at
most, the rival's to the machine's 1e-3. equal: to 0.2 on both sides, and to 1e-3 on both sides.
"""

import argparse
import sys

import numpy as np
from common import describe, heading, split, table, timed
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingGridSearchCV

import dimargin as dm

DATA = ("phishing", "cod-rna", "ijcnn1", "SUSY-30k")
TOL, LOOSE = 1e-3, 0.2
PARTS = {"defaults": [(LOOSE, TOL)], "equal": [(LOOSE, LOOSE), (TOL, TOL)]}  # of the search: ours, theirs


def ours(machine, A, a, tol, seed):
    """The machine of the best candidate, and all candidates."""
    search = dm.ODMClassifierCV(machine, search_tol=tol, random_state=seed).fit(A, a)
    return search, list({str(params): params for params in search.cv_results_["params"]}.values())


def theirs(machine, A, a, tol, seed, candidates):
    """The machine of the best candidate, trained to its own tolerance."""
    lists = [{key: [value] for key, value in params.items()} for params in candidates]
    loose = clone(machine).set_params(tol=tol)
    search = HalvingGridSearchCV(loose, lists, cv=3, return_train_score=False, refit=False, random_state=seed)
    return clone(machine).set_params(**search.fit(A, a).best_params_).fit(A, a)


def compared(name, pairs, splits):
    """A row for every pair of tolerances; each search runs once a split."""
    found = {}  # (whose, tol): seconds and accuracy of every split
    for seed in range(splits):
        A, B, a, b = split(name, seed=seed)
        machine = dm.ODMClassifier(tol=TOL, random_state=seed)
        for tol in sorted({pair[0] for pair in pairs}):
            seconds, (best, candidates) = timed(ours, machine, A, a, tol, seed)
            found.setdefault(("ours", tol), []).append((seconds, 100 * best.score(B, b)))
        for tol in sorted({pair[1] for pair in pairs}):
            seconds, best = timed(theirs, machine, A, a, tol, seed, candidates)
            found.setdefault(("theirs", tol), []).append((seconds, 100 * best.score(B, b)))
    print(f"  {name}: {found}", file=sys.stderr, flush=True)
    for own, rival in pairs:
        (s, p), (t, q) = (np.array(found[key]).T for key in (("ours", own), ("theirs", rival)))
        yield [name, str(len(a)), f"{own:g}, {rival:g}", *map(describe, (s, t, t / s, p, q, p - q))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=DATA, metavar="NAME")
    options = parser.parse_args()
    heading(__doc__)
    pairs = [pair for part in options.parts or PARTS for pair in PARTS[part]]
    headings = ["data", "rows", "search: ours to, theirs to", "ours, s", "HalvingGridSearchCV, s", "ratio", "ours, %",
                "theirs, %", "points more"]  # fmt: skip
    rows = [row for name in options.only for row in compared(name, pairs, options.splits)]
    print(table(headings, rows))
