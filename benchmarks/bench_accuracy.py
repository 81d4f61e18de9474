"""Test accuracy of machines tuned on training rows alone by ODMClassifierCV, over five random splits of 80 to 20.

Usage: bench_accuracy.py [rbf] [linear] [--only NAME ...]; both parts and all data sets by default.

Features to [0, 1] by training ranges. One grid for all data sets: gamma from a quarter of "scale" to 64 times it by
factors of two, lam from 1e4 to 1e7, three pairs of upsilon and theta. One rule of strategy
choice: exact up to 100,000 training rows, landmark above. Linear: the default grid, five folds of all training rows,
beside LinearSVC with C=1, and with C chosen from seven by GridSearchCV, five folds too. Standard deviations over the
splits in brackets.
"""

import sys
import time
import warnings

import numpy as np
from common import describe, heading, load, scaled, table
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

import dimargin as dm

DATA = ("phishing", "a9a", "cod-rna", "ijcnn1", "skin_nonskin", "SUSY-30k")
BANDS = ((0.5, 0.3), (0.1, 0.1), (0.5, 0.8))
SPLITS = 5
TARGETS = dict(zip(DATA, (97.2, 84.8, 96.0, 98.8, 99.9, 79.1), strict=True))


def grid(X):
    scale = 1 / (X.shape[1] * X.var())
    shared = {"gamma": scale * 2.0 ** np.arange(-2, 7), "lam": [1e4, 1e5, 1e6, 1e7]}
    return [{**shared, "upsilon": [upsilon], "theta": [theta]} for upsilon, theta in BANDS]


def splits(name):
    X, y = load(name)
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[: len(y) * 4 // 5], order[len(y) * 4 // 5 :]
        yield seed, *scaled(X[train], X[test]), y[train], y[test]


def mean(values):
    return f"{np.mean(values):.2f} ({np.std(values):.2f})"


def rbf(name):
    accuracy, searching, fitting, chosen = [], [], [], []
    for seed, A, B, a, b in splits(name):
        strategy = "exact" if len(a) <= 100_000 else "landmark"
        machine = dm.ODMClassifier(strategy=strategy, random_state=seed)
        tuned = dm.ODMClassifierCV(machine, grid(A), min_rows=3000, max_rows=27_000, random_state=seed).fit(A, a)
        accuracy.append(100 * tuned.score(B, b))
        searching.append(tuned.search_seconds_)
        fitting.append(tuned.refit_seconds_)
        best = {**tuned.best_params_, "gamma": tuned.best_params_["gamma"] * A.shape[1] * A.var()}
        chosen.append(", ".join(f"{best[key]:.3g}" for key in ("gamma", "lam", "upsilon", "theta")))
        print(f"  {name}, split {seed}: {accuracy[-1]:.2f}%, {searching[-1]:.0f} and {fitting[-1]:.0f} s, {chosen[-1]}",
              file=sys.stderr, flush=True)  # fmt: skip
    return [name, mean(accuracy), f"{TARGETS[name]}", describe(searching), describe(fitting), "; ".join(chosen)]


def linear(name):
    ours, plain, best, seconds = [], [], [], []
    for seed, A, B, a, b in splits(name):
        machine, every = dm.LinearODMClassifier(random_state=seed), len(a)
        tuned = dm.ODMClassifierCV(machine, cv=5, min_rows=every, max_rows=every, random_state=seed)
        began = time.perf_counter()
        ours.append(100 * tuned.fit(A, a).score(B, b))
        seconds.append(time.perf_counter() - began)
        plain.append(100 * LinearSVC(random_state=seed).fit(A, a).score(B, b))
        rival = GridSearchCV(LinearSVC(random_state=seed), {"C": 10.0 ** np.arange(-3, 4)}, cv=5)
        best.append(100 * rival.fit(A, a).score(B, b))
    return [name, mean(ours), mean(plain), mean(best), describe(seconds)]


if __name__ == "__main__":
    heading(__doc__)
    names = sys.argv[sys.argv.index("--only") + 1 :] if "--only" in sys.argv else DATA
    parts = [part for part in ("rbf", "linear") if part in sys.argv] or ["rbf", "linear"]
    warnings.simplefilter("ignore", ConvergenceWarning)  # of a machine's last fit; its gap is not what is asked here
    began = time.perf_counter()
    if "linear" in parts:
        headings = ["data", "LinearODM tuned, %", "LinearSVC, C=1, %", "LinearSVC tuned, %", "seconds"]
        print(table(headings, [linear(name) for name in names]), end="\n\n", flush=True)
    if "rbf" in parts:
        headings = [
            "data",
            "test accuracy, %",
            "wanted",
            "search, s",
            "last fit, s",
            "gamma / scale, lam, upsilon, theta",
        ]
        print(table(headings, [rbf(name) for name in names]), flush=True)
    print(f"\n{(time.perf_counter() - began) / 60:.1f} minutes in all")
