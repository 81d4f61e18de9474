"""LinearODMClassifier: passes over the data, stages of distributed SVRG, and rivals.

Usage: bench_linear.py [newton] [stages] [rivals]; all parts by default.

newton: two million synthetic rows of 18 numbers, default parameters, beside one ``X @ w`` of numpy
on the same array. stages: how far above the optimum (Newton to a gap of 1e-12) every solver is
after each of 15 stages of one pass, at lam=64, theta=.1, upsilon=.5. rivals: time and test accuracy
beside LinearSVC and SGDClassifier, default parameters of all, five random splits of 80 to 20.
"""

import sys
import warnings
from functools import partial

import numpy as np
from common import describe, heading, load, scaled, seconds_of, split, table, timed
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

import dimargin as dm

STAGES = 15
RIVALS = ("phishing", "a9a", "cod-rna", "ijcnn1", "skin_nonskin", "SUSY-30k", "svmguide1")


def newton():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((2_000_000, 18)), rng.standard_normal(18)
    y = (X @ w + rng.standard_normal(len(X)) > 0).astype(int)
    one = np.median(seconds_of(lambda: X @ w, 15))
    rows = []
    for label, options in (
        ("defaults", {}),
        ("without intercept", {"fit_intercept": False}),
        ("lam=64, theta=0.1", {"lam": 64, "theta": 0.1}),
        ("tol=1e-9", {"tol": 1e-9}),
        ("float32 rows", {}),
        ("svrg, lam=64, theta=0.1", {"solver": "svrg", "lam": 64, "theta": 0.1}),
    ):
        machine, given = dm.LinearODMClassifier(**options, random_state=0), X
        if label == "float32 rows":
            given = X.astype(np.float32)
        spent = seconds_of(partial(machine.fit, given, y), 5)
        last = machine.history_[-1]
        times, gap = f"{np.median(spent) / one:.1f}", f"{last['relative_gap']:.1e}"
        rows.append([label, describe(spent), times, str(machine.n_iter_), gap])
    print(f"X @ w: {one:.4f} s\n")
    print(table(["machine", "seconds", "times one X @ w", "looks", "gap"], rows), flush=True)


def stages():
    rows = []
    for name in ("phishing", "a9a", "ijcnn1"):
        X, y = load(name)
        X = scaled(X)
        settings = {"lam": 64.0, "theta": 0.1, "upsilon": 0.5}
        best = dm.LinearODMClassifier(**settings, tol=1e-12).fit(X, y).objective_
        solvers = {
            "dsvrg": dm.LinearDSVRG(),
            "dsvrg, 32 partitions": dm.LinearDSVRG(n_partitions=32),
            "dsvrg, Barzilai-Borwein": dm.LinearDSVRG(step_size="barzilai_borwein"),
            "svrg": dm.LinearSVRG(),
        }
        for label, solver in solvers.items():
            excess, reached = [], []
            for seed in range(5):
                machine = dm.LinearODMClassifier(
                    **settings, solver=solver, tol=1e-12, max_iter=STAGES, random_state=seed
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    machine.fit(X, y)
                above = [entry["objective"] / best - 1 for entry in machine.history_]
                excess.append(above[-1])
                reached.append(next((float(k) for k, value in enumerate(above) if value <= 1e-3), np.inf))
            rows.append([name, label, describe(reached), describe(excess)])
    print(table(["data", "solver", "stages to 1e-3", f"above the optimum after {STAGES}"], rows), flush=True)


def rivals():
    rows = []
    for name in RIVALS:
        machines = {
            "LinearODMClassifier": lambda seed: dm.LinearODMClassifier(random_state=seed),
            "LinearSVC": lambda seed: LinearSVC(random_state=seed),
            "SGDClassifier": lambda seed: SGDClassifier(random_state=seed),
        }
        spent, accuracy = ({label: [] for label in machines} for _ in range(2))
        for seed in range(5):
            A, B, a, b = split(name, seed=seed)
            for label, make in machines.items():
                machine = make(seed)
                spent[label].append(timed(machine.fit, A, a)[0])
                accuracy[label].append(100 * machine.score(B, b))
        for label in machines:
            mean, deviation = np.mean(accuracy[label]), np.std(accuracy[label])
            rows.append([name, label, describe(spent[label]), f"{mean:.2f} ({deviation:.2f})"])
    print(table(["data", "machine", "seconds", "test accuracy, % (standard deviation)"], rows), flush=True)


if __name__ == "__main__":
    heading(__doc__)
    for part in sys.argv[1:] or ["newton", "stages", "rivals"]:
        {"newton": newton, "stages": stages, "rivals": rivals}[part]()
        print()
