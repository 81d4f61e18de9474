"""Core-sets: smallest balls, machines and detectors on few rows, and their consensus over a network.

Usage: coreset.py [ball] [classifier] [detectors] [consensus] [--repeats R] [--rows N]

ball: minimum_enclosing_ball of standard normal points and of points on a sphere, passes over the data and seconds,
beside the passes of two rivals: Badoiu and Clarkson's steps towards the farthest point, and Frank-Wolfe steps with
steps away (Yildirim 2008), each with the best step length, both stopped by the same certificate. classifier:
CoreSetSVMClassifier (rbf, gamma=8, C=1; features in [0, 1]; a quarter of the rows for the test) by gap and by epsilon,
beside the exact solver on the same problem. detectors: CoreSetSVDD and OneClassCoreSetSVM beside scikit-learn's
OneClassSVM (gamma="scale", nu=0.1), trained on one class: area under the curve of the other class, seconds. consensus:
steps until all simulated nodes have the same core-set, of standard normal points, one a node, on a random digraph drawn
again at every step.
"""

import argparse
import time
import warnings

import numpy as np
from common import describe, heading, load, scaled, table
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

import dimargin as dm
from dimargin.network.conditions import Conditions, Link
from dimargin.network.programs.core_set import CoreSetConsensus
from dimargin.network.programs.core_set_settings import CoreSetSettings
from dimargin.network.simulator import Simulator
from dimargin.network.topology import changing_digraphs
from dimargin.strategies import Exact


def clouds(n, d=50):
    """Points of the issue."""
    rng = np.random.default_rng(0)
    yield "normal", rng.normal(size=(n, d))
    points = rng.normal(size=(n, d))
    points /= np.linalg.norm(points, axis=1)[:, None]
    yield "sphere", points


def squared_distances(X, centre):
    out = np.empty(len(X))
    for first in range(0, len(X), 8192):
        difference = X[first : first + 8192] - centre
        out[first : first + 8192] = np.einsum("ij,ij->i", difference, difference)
    return out


def passes_of_rival(X, epsilon, away, most=300):
    """Frank-Wolfe on the dual, a pass a step; None if `most` are not enough."""
    x, centre = {0: 1.0}, X[0].copy()
    lengths = np.einsum("ij,ij->i", X, X)
    for step in range(1, most + 1):
        distances = squared_distances(X, centre)
        places = list(x)
        weights = np.array([x[k] for k in places])
        value = float(weights @ distances[places])
        far, near = int(distances.argmax()), places[int(distances[places].argmin())]
        if distances[far] <= value * (1 + epsilon) ** 2:
            return step
        is_away = away and value > 0 and distances[far] / value - 1 < 1 - distances[near] / value and x[near] < 1
        to, sign = (near, -1.0) if is_away else (far, 1.0)
        direction = sign * (X[to] - centre)
        square = float(direction @ direction)
        slope = sign * (lengths[to] - weights @ lengths[places]) - 2 * centre @ direction
        largest = x[near] / (1 - x[near]) if is_away else 1.0
        t = min(max(slope / (2 * square), 0.0), largest)
        x = {k: w * (1 - sign * t) for k, w in x.items()}
        x[to] = x.get(to, 0.0) + sign * t
        x = {k: w for k, w in x.items() if w > 1e-15}
        centre = centre + t * direction
    return None


def ball(options):
    rows = []
    for name, X in clouds(options.rows):
        for epsilon in (1e-1, 1e-3, 0.0):
            seconds = []
            for _ in range(options.repeats):
                began = time.perf_counter()
                found = dm.minimum_enclosing_ball(X, epsilon)
                seconds.append(time.perf_counter() - began)
            assert found.certificate
            rivals = [passes_of_rival(X, epsilon, away) if epsilon == 1e-3 else "" for away in (False, True)]
            rows.append(
                [name, f"{epsilon:g}", str(found.n_passes), describe(seconds), str(len(found.core_set_indices)),
                 f"{found.farthest / found.radius - 1:.1e}", *("> 300" if r is None else str(r) for r in rivals)]
            )  # fmt: skip
    headings = ["points", "epsilon", "passes", "s", "core-set", "farthest / radius - 1"]
    print(table([*headings, "passes of steps to the farthest", "with steps away"], rows), end="\n\n", flush=True)


class Full(dm.CoreSetSVMClassifier):
    """The exact solver on the same problem."""

    @property
    def strategy(self):
        return Exact()


def classifier(options):
    rows = []
    for name in ("svmguide1", "cod-rna"):
        X, y = load(name)
        X, order = scaled(X), np.random.default_rng(0).permutation(len(y))
        train, test = order[: 3 * len(y) // 4], order[3 * len(y) // 4 :]
        machines = {"exact solver": Full(gamma=8.0, random_state=0), "gap 1e-3": dm.CoreSetSVMClassifier(gamma=8.0)}
        for epsilon in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
            machines[f"epsilon {epsilon:g}"] = dm.CoreSetSVMClassifier(epsilon=epsilon, gamma=8.0)
        for label, machine in machines.items():
            seconds = []
            for _ in range(options.repeats):
                began = time.perf_counter()
                machine.set_params(random_state=0).fit(X[train], y[train])
                seconds.append(time.perf_counter() - began)
            evaluations = sum(entry["kernel_evaluations"] for entry in machine.history_) / len(train) ** 2
            rows.append(
                [name, label, f"{100 * machine.score(X[test], y[test]):.2f}", str(len(machine.support_)),
                 f"{machine.duality_gap_:.1e}", describe(seconds), f"{evaluations:.3f}"]
            )  # fmt: skip
    print(
        table(["data set", "machine", "%", "core-set", "gap", "s", "kernel values / n^2"], rows), end="\n\n", flush=True
    )


def detectors(options):
    rows = []
    for name in ("cod-rna", "ijcnn1", "phishing", "skin_nonskin"):
        X, y = load(name)
        X = scaled(X)
        usual = y == np.unique(y)[np.bincount(np.searchsorted(np.unique(y), y)).argmax()]
        order = np.random.default_rng(0).permutation(np.flatnonzero(usual))[:40_000]
        train, others = order[: len(order) // 2], np.flatnonzero(~usual)[:20_000]
        test = np.concatenate([order[len(order) // 2 :], others])
        for label, machine in (
            ("CoreSetSVDD", dm.CoreSetSVDD(random_state=0)),
            ("OneClassCoreSetSVM", dm.OneClassCoreSetSVM(random_state=0)),
            ("OneClassCoreSetSVM, C=1e-3", dm.OneClassCoreSetSVM(1e-3, random_state=0)),
            ("OneClassSVM, nu=0.1", OneClassSVM(nu=0.1)),
        ):
            began = time.perf_counter()
            machine.fit(X[train])
            seconds = time.perf_counter() - began
            curve = roc_auc_score(usual[test], machine.score_samples(X[test]))
            gap = f"{machine.duality_gap_:.1e}" if hasattr(machine, "duality_gap_") else ""
            rows.append(
                [name, str(len(train)), label, f"{curve:.4f}", str(len(machine.support_)), gap, f"{seconds:.2f}"]
            )
    print(table(["data set", "rows", "detector", "AUC", "support", "gap", "s"], rows), end="\n\n", flush=True)


def agreed(n, d, epsilon, p, loss=0.0, seed=0, most=400):
    """A run to consensus: steps, megabytes, seconds, and the core-set's ball beside the best."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    settings = CoreSetSettings(epsilon=epsilon, size=int(np.ceil(1 / epsilon)), quiet_rounds=most)

    programs = {
        f"n{i:04}": lambda i=i: CoreSetConsensus(f"n{i:04}", X[i : i + 1], np.ones(1), settings) for i in range(n)
    }
    began = time.perf_counter()
    simulator = Simulator(programs, changing_digraphs(n, p, seed), Conditions(Link(loss=loss)), seed)

    def one_set(_):
        chosen = [program.chosen for program in simulator.programs.values()]
        return all(chosen) and len({one.rank for one in chosen}) == 1

    end = simulator.run(until=most, watch=one_set)
    seconds = time.perf_counter() - began
    found = simulator.sites["n0000"].program.chosen
    best = dm.minimum_enclosing_ball(X, 0).radius
    reach = np.linalg.norm(X - found.weights @ found.points.X, axis=1).max()
    return {
        "steps": simulator.sites["n0000"].program.rounds if end == "watch" else None, "names": found.points.names,
        "seconds": seconds,
        "megabytes": simulator.counts["bytes"] / 1e6, "radius": found.value**0.5 / best, "reach": reach / best,
    }  # fmt: skip


def consensus(options):
    rows = []
    for n, d, epsilon, p, loss in (
        *((100, 50, 0.1, 0.01, loss) for loss in (0.0, 0.3)), (10, 50, 0.1, 0.1, 0.0), (30, 50, 0.1, 0.03, 0.0),
        (300, 50, 0.1, 0.003, 0.0), (1000, 50, 0.1, 0.001, 0.0), (1000, 50, 0.1, 0.01, 0.0), (100, 10, 0.1, 0.01, 0.0),
        (100, 200, 0.1, 0.01, 0.0), (100, 50, 0.3, 0.01, 0.0), (100, 50, 0.03, 0.01, 0.0), (100, 50, 0.1, 0.003, 0.0),
        (100, 50, 0.1, 0.1, 0.0),
    ):  # fmt: skip
        seeds = range(10 if (n, d, epsilon, p) == (100, 50, 0.1, 0.01) else max(1, min(3, 300 // n)))
        runs = [agreed(n, d, epsilon, p, loss, seed) for seed in seeds]
        rows.append(
            [str(n), str(d), f"{epsilon:g}", f"{p:g}", f"{loss:.0%}", str(len(runs)),
             describe(run["steps"] for run in runs), describe(run["megabytes"] for run in runs),
             f"{min(run['radius'] for run in runs):.4f}", f"{max(run['reach'] for run in runs):.4f}",
             describe(run["seconds"] for run in runs)]
        )  # fmt: skip
    headings = [
        "nodes",
        "d",
        "epsilon",
        "p",
        "lost",
        "runs",
        "steps",
        "MB",
        "least r / r*",
        "largest distance / r*",
        "s",
    ]
    print(table(headings, rows), end="\n\n")
    same = sum(
        agreed(100, 50, 0.1, 0.01, 0.0, s)["names"] == agreed(100, 50, 0.1, 0.01, 0.3, s)["names"] for s in range(10)
    )
    print(f"With 30% lost, {same} of 10 runs end with the core-set of the run without loss.", flush=True)


PARTS = {"ball": ball, "classifier": classifier, "detectors": detectors, "consensus": consensus}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    for part in options.parts or PARTS:
        PARTS[part](options)
