"""ODM beside scikit-learn's SVC on ijcnn1 and cod-rna, both tuned over the same small grid on training rows.

Grid: gamma in {1, 4, 16} and a loss weight a row in {1, 10, 100} (C of the SVM, lam / n of the ODM; upsilon and theta
stay at their defaults), chosen on one fifth of 10,000 training rows. Then both are trained on all training rows.
"""

import time
from itertools import product

import numpy as np
from common import describe, heading, load, scaled, table
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

import dimargin as dm

GAMMA, WEIGHT = (1.0, 4.0, 16.0), (1.0, 10.0, 100.0)
REPEATS = 3


def odm(gamma, weight, n):
    return dm.ODMClassifier(gamma=gamma, lam=weight * n, random_state=0)


def svc(gamma, weight, n):
    return SVC(gamma=gamma, C=weight, cache_size=2000)


def tune(make, X, y):
    A, B, a, b = train_test_split(X, y, train_size=8000, test_size=2000, stratify=y, random_state=1)
    return max(product(GAMMA, WEIGHT), key=lambda p: make(*p, len(a)).fit(A, a).score(B, b))


def main():
    heading(__doc__)
    for name in ("ijcnn1", "cod-rna"):
        X, y = load(name)
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
        X_train, X_test = scaled(X_train, X_test)
        seconds, accuracy, chosen = {}, {}, {}
        for make in (odm, svc):
            chosen[make] = tune(make, X_train, y_train)
        for _ in range(REPEATS):
            for make in (odm, svc):
                machine = make(*chosen[make], len(y_train))
                began = time.perf_counter()
                machine.fit(X_train, y_train)
                seconds.setdefault(make, []).append(time.perf_counter() - began)
                accuracy[make] = 100 * machine.score(X_test, y_test)
        rows = [
            [make.__name__, *map(str, chosen[make]), describe(seconds[make]), f"{accuracy[make]:.2f}"]
            for make in (odm, svc)
        ]
        print(f"\n{name}: {len(y_train)} training rows")
        print(table(["machine", "gamma", "weight a row", "seconds", "test accuracy"], rows))
        print(f"SVC / ODM seconds: {np.median(seconds[svc]) / np.median(seconds[odm]):.1f}")


if __name__ == "__main__":
    main()
