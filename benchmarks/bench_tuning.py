"""ODMClassifierCV beside scikit-learn's HalvingGridSearchCV: the same machine, candidates and number of folds.

Both choose among the 45 candidates of ODMClassifierCV's default grid with three folds and train the best on all
training rows; 80% of the rows at random, features to [0, 1] by training ranges. HalvingGridSearchCV with its defaults
but for cv and the train scores, which it need not compute; exact machines on both sides.
"""

import sys
import time

import numpy as np
from common import describe, heading, load, scaled, table
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingGridSearchCV

import dimargin as dm

DATA = ("phishing", "cod-rna", "ijcnn1", "SUSY-30k")
SPLITS = 3


def compared(name):
    X, y = load(name)
    spent, accuracy = ({"ours": [], "theirs": []} for _ in range(2))
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[: len(y) * 4 // 5], order[len(y) * 4 // 5 :]
        A, B = scaled(X[train], X[test])
        machine = dm.ODMClassifier(random_state=seed)
        ours = dm.ODMClassifierCV(machine, random_state=seed)
        began = time.perf_counter()
        ours.fit(A, y[train])
        spent["ours"].append(time.perf_counter() - began)
        grid = {str(params): params for params in ours.cv_results_["params"]}.values()
        lists = [{key: [value] for key, value in params.items()} for params in grid]
        theirs = HalvingGridSearchCV(machine, lists, cv=3, return_train_score=False, random_state=seed)
        began = time.perf_counter()
        theirs.fit(A, y[train])
        spent["theirs"].append(time.perf_counter() - began)
        for label, search in (("ours", ours), ("theirs", theirs)):
            accuracy[label].append(100 * search.score(B, y[test]))
    ratio = np.array(spent["theirs"]) / spent["ours"]
    difference = np.array(accuracy["ours"]) - accuracy["theirs"]
    print(f"  {name}: {spent}, {accuracy}", file=sys.stderr, flush=True)
    columns = spent["ours"], spent["theirs"], ratio, accuracy["ours"], accuracy["theirs"], difference
    return [name, str(len(train)), *(describe(values) for values in columns)]


if __name__ == "__main__":
    heading(__doc__)
    headings = ["data", "rows", "ours, s", "HalvingGridSearchCV, s", "ratio", "ours, %", "theirs, %", "points more"]
    print(table(headings, [compared(name) for name in DATA]))
