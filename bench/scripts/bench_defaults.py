"""ODMClassifier() behind a scaler beside the tuned machine, on every data set in DIMARGIN_DATA: docs/defaults.md.

Up to 20,000 training rows drawn at random, at most 80% of a data set, and up to 100,000 of the
others for the test; features to [0, 1] by training ranges (sparse text: divided by the largest
value). Tuned by a hold-out of a quarter of at most 8,000 training rows over gamma in {1/4, 1, 4,
16} times "scale", lam in {1e3, 1e4, 1e5, 1e6} and (upsilon, theta) in {(.3, .1), (.5, .3)}.

With --choose: how the defaults were chosen. Candidates with gamma="scale" on hold-outs (two draws
of a quarter) of the training rows alone; a loss is what a candidate lacks to the best of all
candidates and of gamma in {1/4, 4, 16} times "scale" with the lam, upsilon, theta of the first
candidate.

With --sizes: fixed values of lam beside multiples of the number n of training rows, by which a row
weighs the same in a small table as in a large one; 2,000, 5,000, 20,000 and 100,000 training rows
where there are that many, up to 20,000 of the others for the test, the mean of 5, 3, 1 and 1 draws.
Fits of more than five minutes end at what they have.
"""

import argparse
from itertools import product

import numpy as np
import scipy.sparse as sp
from common import heading, load, table
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler

import dimargin as dm

NAMES = ("svmguide1", "phishing", "a9a", "cod-rna", "ijcnn1", "skin_nonskin", "SUSY-30k", "usps", "reuters",
         "covtype.libsvm.binary")  # fmt: skip
FACTORS = (0.25, 1.0, 4.0, 16.0)
GRID = list(product(FACTORS, (1e3, 1e4, 1e5, 1e6), ((0.3, 0.1), (0.5, 0.3))))
SIZES = {2000: 5, 5000: 3, 20_000: 1, 100_000: 1}  # training rows: draws
WEIGHTS = {"1e5": 1e5, "4e5": 4e5, "1e6": 1e6, "4e6": 4e6}  # of the mean loss
WEIGHTS_OF_A_ROW = (1, 5, 10, 20, 50, 100)
CANDIDATES = list(product((1e5, 4e5, 1e6, 2e6), ((0.5, 0.3), (0.3, 0.1), (0.1, 0.1), (0.1, 0.3))))


def machine(scale, factor, lam, band, tol=3e-3):
    upsilon, theta = band
    return dm.ODMClassifier(gamma=factor * scale, lam=lam, upsilon=upsilon, theta=theta, tol=tol, random_state=0)


def split(name, n_train=20_000, n_test=100_000, seed=0):
    """Training and test rows, scaled, and gamma="scale"."""
    X, y = load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    n_train = min(n_train, int(0.8 * len(y)))
    train, test = order[:n_train], order[n_train : n_train + n_test]
    scaler = (MaxAbsScaler() if sp.issparse(X) else MinMaxScaler()).fit(X[train])
    X_train, X_test = scaler.transform(X[train]), scaler.transform(X[test])
    squares = X_train.multiply(X_train).mean() if sp.issparse(X) else np.mean(X_train**2)
    return X_train, X_test, y[train], y[test], 1 / (X.shape[1] * (squares - X_train.mean() ** 2))


def compare(name):
    X_train, X_test, y_train, y_test, scale = split(name)
    A, B, a, b = train_test_split(X_train[:8000], y_train[:8000], test_size=0.25, random_state=1)
    best = max(GRID, key=lambda p: machine(scale, *p).fit(A, a).score(B, b))
    tuned = 100 * machine(scale, *best).fit(X_train, y_train).score(X_test, y_test)
    default = 100 * dm.ODMClassifier(random_state=0).fit(X_train, y_train).score(X_test, y_test)
    return X_train.shape, len(y_test), default, tuned, best


def choose():
    """Mean and worst loss of every candidate over the data sets, on hold-outs of training rows."""
    contenders = [(1.0, *c) for c in CANDIDATES] + [(f, *CANDIDATES[0]) for f in FACTORS if f != 1.0]
    losses = []
    for name in NAMES:
        X, _, y, _, scale = split(name)
        draws = [train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y) for seed in (2, 3)]
        scores = [
            np.mean([machine(scale, *p, tol=1e-3).fit(A, a).score(B, b) for A, B, a, b in draws]) for p in contenders
        ]
        losses.append(100 * (max(scores) - np.array(scores)))
        print(name, np.round(losses[-1], 2), flush=True)
    rows = [
        [f"{factor:g} x scale", f"{lam:g}", str(band), f"{column.mean():.2f}", f"{column.max():.2f}"]
        for (factor, lam, band), column in zip(contenders, np.transpose(losses), strict=True)
    ]
    print(table(["gamma", "lam", "upsilon, theta", "mean loss", "worst loss"], rows))


def sizes():
    """Accuracy by the number of rows for each way to choose lam, and its mean over the data sets of that size."""
    ways = [*WEIGHTS, *(f"{weight} n" for weight in WEIGHTS_OF_A_ROW)]
    rows, by_size = [], {n: [] for n in SIZES}
    for (n, draws), name in product(SIZES.items(), NAMES):
        scores = []
        for seed in range(draws):
            X, X_test, y, y_test, _ = split(name, n, 20_000, seed)
            if len(y) == n:
                lams = [*WEIGHTS.values(), *(weight * n for weight in WEIGHTS_OF_A_ROW)]
                fits = (dm.ODMClassifier(lam=lam, max_time=300, random_state=0).fit(X, y) for lam in lams)
                scores.append([100 * fit.score(X_test, y_test) for fit in fits])
        if scores:
            by_size[n].append(np.mean(scores, axis=0))
            rows.append([f"{n}", name, *(f"{score:.2f}" for score in by_size[n][-1])])
            print(*rows[-1], flush=True)
    for n, found in by_size.items():
        rows.append([f"{n}", f"mean of {len(found)}", *(f"{score:.2f}" for score in np.mean(found, axis=0))])
    print("", table(["rows", "data set", *ways], rows), sep="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--choose", action="store_true", help="compare candidates for the defaults instead")
    parser.add_argument("--sizes", action="store_true", help="compare lam and lam by row over numbers of rows instead")
    heading(__doc__)
    given = parser.parse_args()
    if given.choose:
        return choose()
    if given.sizes:
        return sizes()
    rows, losses = [], []
    for name in NAMES:
        (n, d), n_test, default, tuned, (factor, lam, (upsilon, theta)) = compare(name)
        losses.append(tuned - default)
        chosen = f"{factor:g} x scale, {lam:g}, {upsilon}, {theta}"
        rows.append([name, str(n), str(d), str(n_test), f"{default:.2f}", f"{tuned:.2f}", f"{losses[-1]:+.2f}", chosen])
        print(*rows[-1], flush=True)
    headings = ["data set", "rows", "columns", "test rows", "defaults", "tuned", "points lost",
                "tuned gamma, lam, upsilon, theta"]  # fmt: skip
    print("", table(headings, rows), sep="\n")
    print(f"\npoints lost by the defaults: mean {np.mean(losses):.2f}, worst {max(losses):.2f}")


if __name__ == "__main__":
    main()
