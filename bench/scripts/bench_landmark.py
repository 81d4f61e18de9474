"""Strategy "landmark": SUSY and skin_nonskin beside the same features in scikit-learn, and time against rows.

Usage: bench_landmark.py [susy] [skin] [rows]; all parts by default.

susy: 24,000 training rows, 6,000 for test, 1,000 landmarks. skin: 196,045 training rows, 49,012 for
test, 300 landmarks. Both: random splits, features to [0, 1] by training ranges, ODMClassifier to
its default tolerance, beside scikit-learn's Nystroem with as many components and LinearSVC, and
beside SVC (one run). rows: up to two million synthetic rows of 18 numbers, 500 landmarks; every
size in a process of its own, for its memory.
"""

import subprocess
import sys

import numpy as np
from common import describe, heading, resident, split, table, timed
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

import dimargin as dm

SIZES = (250_000, 500_000, 1_000_000, 2_000_000)
# gamma and lam by a look at a hold-out of the training rows
PROBLEMS = {
    "susy": ("SUSY-30k", 1000, {"gamma": 0.5, "lam": 1e5, "upsilon": 0.5, "theta": 0.3}, 1.0),
    "skin": ("skin_nonskin", 300, {"gamma": 32.0, "lam": 1e6, "upsilon": 0.5, "theta": 0.3}, 32.0),
}


def measured(machine, X, X_test, y, y_test):
    return timed(machine.fit, X, y)[0], 100 * machine.score(X_test, y_test)


def beside_rivals(part):
    name, m, parameters, C = PROBLEMS[part]
    runs = {"dimargin": [], "Nystroem + LinearSVC": [], "SVC": []}
    for seed in range(3):
        data = split(name, seed=seed)
        ours = dm.ODMClassifier(strategy="landmark", n_landmarks=m, random_state=seed, **parameters)
        runs["dimargin"].append(measured(ours, *data))
        rival = make_pipeline(
            Nystroem(gamma=parameters["gamma"], n_components=m, random_state=seed), LinearSVC(C=C, dual=False)
        )
        runs["Nystroem + LinearSVC"].append(measured(rival, *data))
        if len(runs["SVC"]) < 1:
            runs["SVC"].append(measured(SVC(C=C, gamma=parameters["gamma"], cache_size=2000), *data))
    rows = [
        [name, str(len(data[0])), solver, describe([run[0] for run in found]), describe([run[1] for run in found])]
        for solver, found in runs.items()
    ]
    print(table(["data", "rows", "solver", "seconds", "test accuracy, %"], rows), flush=True)
    print(
        f"gap {ours.duality_gap_:.1e}, {ours.n_iter_} looks at the rows, {len(ours.support_)} landmarks\n", flush=True
    )


def synthetic_rows(n):
    rng = np.random.default_rng(0)
    X = rng.random((n, 18))
    return X, np.where(np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=n) > 0.4, 1, -1)


def synthetic(n):
    X, y = synthetic_rows(n)
    machine = dm.ODMClassifier(strategy="landmark", n_landmarks=500, gamma=0.5, lam=1e5, random_state=0)
    seconds, _ = timed(machine.fit, X, y)
    figures = f"{seconds:.3g} | {1e6 * seconds / n:.3g} | {machine.n_iter_} | {machine.duality_gap_:.1e}"
    print(f"{n} | {figures} | {resident(peak=True) / 1.024e6:.3g}")


def main():
    if sys.argv[1:2] == ["--size"]:
        return synthetic(int(sys.argv[2]))
    heading(__doc__)
    parts = sys.argv[1:] or ["susy", "skin", "rows"]
    for part in parts:
        if part != "rows":
            beside_rivals(part)
            continue
        command = [sys.executable, __file__, "--size"]
        outputs = [subprocess.run([*command, str(n)], capture_output=True, text=True, check=True).stdout for n in SIZES]
        rows = [output.strip().split(" | ") for output in outputs]
        print(table(["rows", "seconds", "s a million rows", "looks", "gap", "peak memory, GB"], rows))


if __name__ == "__main__":
    main()
