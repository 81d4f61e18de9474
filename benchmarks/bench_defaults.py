"""ODMClassifier() behind a scaler beside the tuned machine, on every data set in DIMARGIN_DATA: docs/defaults.md.

Up to 20,000 training rows (80% of a random selection of at most 25,000), features to [0, 1] by training ranges
(sparse text: divided by the largest value). Tuned by a hold-out of a quarter of at most 8,000 training rows over
gamma in {1/4, 1, 4, 16} times "scale", lam in {1e3, 1e4, 1e5, 1e6} and (upsilon, theta) in {(.3, .1), (.5, .3)}.
"""

from itertools import product

import numpy as np
import scipy.sparse as sp
from common import heading, load, table
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler

import dimargin as dm

NAMES = ("svmguide1", "phishing", "a9a", "cod-rna", "ijcnn1", "skin_nonskin", "SUSY-30k", "usps", "reuters",
         "covtype.libsvm.binary")  # fmt: skip
GRID = list(product((0.25, 1.0, 4.0, 16.0), (1e3, 1e4, 1e5, 1e6), ((0.3, 0.1), (0.5, 0.3))))


def machine(scale, factor, lam, band):
    upsilon, theta = band
    return dm.ODMClassifier(gamma=factor * scale, lam=lam, upsilon=upsilon, theta=theta, tol=3e-3, random_state=0)


def compare(name):
    X, y = load(name)
    rows = np.random.default_rng(0).permutation(len(y))[:25_000]
    X_train, X_test, y_train, y_test = train_test_split(X[rows], y[rows], test_size=0.2, random_state=0)
    scaler = (MaxAbsScaler() if sp.issparse(X) else MinMaxScaler()).fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    squares = X_train.multiply(X_train).mean() if sp.issparse(X) else np.mean(X_train**2)
    scale = 1 / (X.shape[1] * (squares - X_train.mean() ** 2))
    A, B, a, b = train_test_split(X_train[:8000], y_train[:8000], test_size=0.25, random_state=1)
    best = max(GRID, key=lambda p: machine(scale, *p).fit(A, a).score(B, b))
    tuned = 100 * machine(scale, *best).fit(X_train, y_train).score(X_test, y_test)
    default = 100 * dm.ODMClassifier(random_state=0).fit(X_train, y_train).score(X_test, y_test)
    return len(y_train), X.shape[1], default, tuned, best


def main():
    heading(__doc__)
    rows, losses = [], []
    for name in NAMES:
        n, d, default, tuned, (factor, lam, (upsilon, theta)) = compare(name)
        losses.append(tuned - default)
        chosen = f"{factor:g} x scale, {lam:g}, {upsilon}, {theta}"
        rows.append([name, str(n), str(d), f"{default:.2f}", f"{tuned:.2f}", f"{tuned - default:+.2f}", chosen])
    headings = ["data set", "rows", "columns", "defaults", "tuned", "points lost", "gamma, lam, upsilon, theta"]
    print(table(headings, rows))
    print(f"\npoints lost by the defaults: mean {np.mean(losses):.2f}, worst {max(losses):.2f}")


if __name__ == "__main__":
    main()
