"""DiODM on full cod-rna and ijcnn1: what a level costs and what its model is worth, and leaves on two threads.

Parameters as in bench_exact.py, lam = 1e4. The exact solve is the rival in the same run.
"""

import numpy as np
from bench_exact import local_gamma
from common import describe, heading, kernel_values, load, scaled, table, timed
from sklearn.model_selection import train_test_split

import dimargin as dm

REPEATS = 5


def levels(name):
    X, y = load(name)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    X_train, X_test = scaled(X_train, X_test)
    n = len(y_train)
    options = {
        "gamma": local_gamma(X_train, np.random.default_rng(0)),
        "lam": 1e4,
        "upsilon": 0.5,
        "theta": 0.3,
    }
    collected = {}
    for seed in range(REPEATS):
        exact = dm.ODMClassifier(strategy="exact", random_state=seed, **options)
        exact_seconds, _ = timed(exact.fit, X_train, y_train)
        best = exact.score(X_test, y_test)
        scores = dm.LevelScores(X_test, y_test)
        tree = dm.ODMClassifier(
            strategy=dm.DiODM(early_stop=False), n_levels=2, random_state=seed, **options
        ).set_callbacks(scores)
        tree.fit(X_train, y_train)
        evaluations = seconds = 0
        for entry, score in zip(tree.history_, scores.scores_, strict=True):
            evaluations += entry["kernel_evaluations"]
            seconds += entry["seconds"]
            collected.setdefault(entry["level"], []).append(
                (
                    evaluations / n**2,
                    seconds,
                    100 * score["score"],
                    100 * (best - score["score"]),
                    abs(entry["objective"] / exact.objective_ - 1),
                )
            )
        collected.setdefault("exact", []).append((kernel_values(exact) / n**2, exact_seconds, 100 * best, 0.0, 0.0))
    print(f"\n{name}: {n} training rows, 16 -> 4 -> 1 partitions")
    headings = ["level", "kernel evaluations / n^2, in all", "seconds, in all", "test accuracy",
                "points below exact", "objective: |relative difference| to exact"]  # fmt: skip
    print(table(headings, [[str(k), *map(describe, zip(*v, strict=True))] for k, v in collected.items()]))


def leaves(name):
    X, y = load(name)
    X = scaled(X)
    options = {"gamma": local_gamma(X, np.random.default_rng(0)), "lam": 1e4, "upsilon": 0.5, "theta": 0.3}
    seconds = {1: [], 2: []}
    for _ in range(2 * REPEATS + 1):
        for threads in seconds:
            machine = dm.ODMClassifier(
                strategy="diodm", n_levels=2, stop_level=2, tol=1e-4, n_jobs=threads, random_state=0, **options
            ).fit(X, y)
            seconds[threads].append(machine.history_[0]["seconds"])
    ratio = [a / b for a, b in zip(seconds[1], seconds[2], strict=True)]
    print(f"{name}: 16 leaves on one thread {describe(seconds[1])} s, on two {describe(seconds[2])} s, "
          f"ratio {describe(ratio)}")  # fmt: skip


def main():
    heading(__doc__)
    for name in ("cod-rna", "ijcnn1"):
        levels(name)
        leaves(name)


if __name__ == "__main__":
    main()
