"""ODM beside scikit-learn's SVC on ijcnn1 and cod-rna, both tuned over the same small grid on training rows.

Grid: gamma in {1, 4, 16} and a loss weight a row in {1, 10, 100} (C of the SVM, lam / n of the ODM;
upsilon and theta stay at their defaults), by five-fold cross-validation on 20,000 training rows and
the one-standard-error rule: the smallest weight, then the smallest gamma, whose mean is within one
standard error of the best. What the best mean would have chosen is printed beside it. Then all are
trained on all training rows and tested on ijcnn1.t, and on a fifth of cod-rna (which has no test
file).
"""

from itertools import product

import numpy as np
from common import describe, heading, load, scaled, table, timed
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.svm import SVC

import dimargin as dm

GAMMA, WEIGHT = (1.0, 4.0, 16.0), (1.0, 10.0, 100.0)
REPEATS = 5


def odm(gamma, weight, n):
    return dm.ODMClassifier(gamma=gamma, lam=weight * n, random_state=0)


def svc(gamma, weight, n):
    return SVC(gamma=gamma, C=weight, cache_size=2000)


def tune(make, X, y):
    """Choose parameters by the one-standard-error rule, and by the best mean."""
    A, _, a, _ = train_test_split(X, y, train_size=20_000, stratify=y, random_state=1)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    grid = list(product(WEIGHT, GAMMA))  # from the most regularised on
    scores = [cross_val_score(make(gamma, weight, 16_000), A, a, cv=folds) for weight, gamma in grid]
    means = np.mean(scores, axis=1)
    best = int(means.argmax())
    enough = means[best] - np.std(scores[best], ddof=1) / np.sqrt(len(scores[best]))
    return {"one standard error": grid[int((means >= enough).argmax())], "best mean": grid[best]}


def main():
    heading(__doc__)
    for name in ("ijcnn1", "cod-rna"):
        X, y = load(name)
        if name == "ijcnn1":
            X_test, y_test = load(f"{name}.t")
        else:
            X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
        X, X_test = scaled(X, X_test)
        tuned = {make: tune(make, X, y) for make in (odm, svc)}
        rules, machines = {}, {}  # where both rules agree there is one machine to time
        for make, choices in tuned.items():
            for rule, (weight, gamma) in choices.items():
                key = make.__name__.upper(), weight, gamma
                rules.setdefault(key, []).append(rule)
                machines[key] = make(gamma, weight, len(y))
        seconds = {key: [] for key in machines}
        for _ in range(REPEATS):
            for key, machine in machines.items():
                seconds[key].append(timed(machine.fit, X, y)[0])
        rows = []
        for key, machine in machines.items():
            accuracy = f"{100 * machine.score(X_test, y_test):.2f}"
            rows.append([*map(str, key), ", ".join(rules[key]), describe(seconds[key]), accuracy])
        print(f"\n{name}: {len(y)} training rows")
        print(table(["machine", "weight a row", "gamma", "chosen by", "seconds", "test accuracy"], rows), flush=True)


if __name__ == "__main__":
    main()
