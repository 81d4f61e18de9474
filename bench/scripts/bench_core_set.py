"""Core-sets: smallest balls, machines and detectors on few rows, and their consensus over a network.

Usage: bench_core_set.py [ball] [classifier] [detectors] [consensus] [--repeats R] [--rows N] [--seeds S] [--nodes M]

ball: minimum_enclosing_ball of standard normal points and of points on a sphere, passes over the
data and seconds, beside the passes of two rivals: Badoiu and Clarkson's steps towards the farthest
point, and Frank-Wolfe steps with steps away (Yildirim 2008), each with the best step length, both
stopped by the same certificate. classifier: CoreSetSVMClassifier (rbf, gamma=8, C=1; features in
[0, 1]; a quarter of the rows for the test) by gap and by epsilon, beside the exact solver on the
same problem. detectors: CoreSetSVDD and OneClassCoreSetSVM by gap and by epsilon beside
scikit-learn's OneClassSVM (gamma="scale", nu=0.1), trained on one class: area under the curve of
the other class, seconds. consensus: steps until all simulated nodes have the same core-set, of
standard normal points, one a node, on a random digraph drawn again at every step, against nodes, d,
epsilon and the probability p of an edge.

A trial of all takes less than a minute: bench_core_set.py --repeats 1 --rows 4000 --seeds 1 --nodes
100.
"""

import argparse
import warnings
from functools import partial

import numpy as np
from common import describe, heading, kernel_values, load, scaled, seconds_of, table, timed
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

import dimargin as dm
from dimargin.gossip.programs.core_set_consensus import CoreSetConsensus
from dimargin.gossip.programs.core_set_settings import CoreSetSettings
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import changing_digraphs
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
        indices = list(x)
        weights = np.array([x[k] for k in indices])
        value = float(weights @ distances[indices])
        far, near = int(distances.argmax()), indices[int(distances[indices].argmin())]
        if distances[far] <= value * (1 + epsilon) ** 2:
            return step
        is_away = away and value > 0 and distances[far] / value - 1 < 1 - distances[near] / value and x[near] < 1
        to, sign = (near, -1.0) if is_away else (far, 1.0)
        direction = sign * (X[to] - centre)
        square = float(direction @ direction)
        slope = sign * (lengths[to] - weights @ lengths[indices]) - 2 * centre @ direction
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
            runs = [timed(dm.minimum_enclosing_ball, X, epsilon) for _ in range(options.repeats)]
            best = runs[-1][1]
            assert best.certificate
            rivals = [passes_of_rival(X, epsilon, away) if epsilon == 1e-3 else "" for away in (False, True)]
            rows.append(
                [name, f"{epsilon:g}", str(best.n_passes), describe(seconds for seconds, _ in runs),
                 str(len(best.core_set_indices)), f"{best.farthest / best.radius - 1:.1e}",
                 *("> 300" if passes is None else str(passes) for passes in rivals)]
            )  # fmt: skip
    headings = ["points", "epsilon", "passes", "s", "core-set", "farthest / radius - 1"]
    return table([*headings, "passes of steps to the farthest", "with steps away"], rows)


class Full(dm.CoreSetSVMClassifier):
    """The exact solver on the same problem."""

    @property
    def strategy(self):
        return Exact()


def until(epsilon):
    """What ends the growth of a core-set."""
    return "gap 1e-3" if epsilon is None else f"epsilon {epsilon:g}"


def classifier(options):
    rows = []
    for name in ("svmguide1", "cod-rna"):
        X, y = load(name)
        X, order = scaled(X), np.random.default_rng(0).permutation(len(y))[: options.rows]
        train, test = order[: 3 * len(order) // 4], order[3 * len(order) // 4 :]
        machines = {"exact solver": Full(gamma=8.0)} | {
            until(epsilon): dm.CoreSetSVMClassifier(epsilon=epsilon, gamma=8.0)
            for epsilon in (None, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
        }
        for label, machine in machines.items():
            seconds = seconds_of(partial(machine.set_params(random_state=0).fit, X[train], y[train]), options.repeats)
            rows.append(
                [name, label, f"{100 * machine.score(X[test], y[test]):.2f}", str(len(machine.support_)),
                 f"{machine.duality_gap_:.1e}", describe(seconds), f"{kernel_values(machine) / len(train) ** 2:.3f}"]
            )  # fmt: skip
    return table(["data set", "machine", "%", "core-set", "gap", "s", "kernel values / n^2"], rows)


def detectors(options):
    core_sets = {
        "CoreSetSVDD": dm.CoreSetSVDD(random_state=0),
        "OneClassCoreSetSVM": dm.OneClassCoreSetSVM(random_state=0),
        "OneClassCoreSetSVM, C=1e-3": dm.OneClassCoreSetSVM(1e-3, random_state=0),
    }
    rows = []
    for name in ("cod-rna", "ijcnn1", "phishing", "skin_nonskin"):
        X, y = load(name)
        X = scaled(X)
        usual = y == np.unique(y)[np.bincount(np.searchsorted(np.unique(y), y)).argmax()]
        order = np.random.default_rng(0).permutation(np.flatnonzero(usual))[: min(40_000, options.rows)]
        train, others = order[: len(order) // 2], np.flatnonzero(~usual)[: min(20_000, options.rows // 2)]
        test = np.concatenate([order[len(order) // 2 :], others])
        machines = [
            *(
                (label, until(epsilon), clone(machine).set_params(epsilon=epsilon))
                for label, machine in core_sets.items()
                for epsilon in (None, 1e-1, 1e-2, 1e-3, 1e-4)
            ),
            ("OneClassSVM, nu=0.1", "", OneClassSVM(nu=0.1)),
        ]
        for label, end, machine in machines:
            seconds, _ = timed(machine.fit, X[train])
            curve = roc_auc_score(usual[test], machine.score_samples(X[test]))
            gap = f"{machine.duality_gap_:.1e}" if end else ""
            rows.append([name, str(len(train)), label, end, f"{curve:.4f}", str(len(machine.support_)), gap,
                         f"{seconds:.2f}"])  # fmt: skip
    return table(["data set", "rows", "detector", "until", "AUC", "support", "gap", "s"], rows)


def agreed(n, d, epsilon, p, loss=0.0, seed=0, most=400):
    """A run to consensus: steps, megabytes, seconds, and the core-set's ball beside the best."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    settings = CoreSetSettings(epsilon=epsilon, size=int(np.ceil(1 / epsilon)), quiet_rounds=most)

    programs = {
        f"n{i:04}": lambda i=i: CoreSetConsensus(f"n{i:04}", X[i : i + 1], np.ones(1), settings) for i in range(n)
    }

    def one_set(_):
        chosen = [program.chosen for program in simulator.programs.values()]
        return all(chosen) and len({one.rank for one in chosen}) == 1

    graphs, conditions = changing_digraphs(n, p, seed), Conditions(LinkFaults(loss=loss))
    making, simulator = timed(Simulator, programs, graphs, conditions, seed)
    running, end = timed(simulator.run, until=most, watch=one_set)
    found = simulator.sites["n0000"].program.chosen
    best = dm.minimum_enclosing_ball(X, 0).radius
    reach = np.linalg.norm(X - found.weights @ found.points.X, axis=1).max()
    return {
        "steps": simulator.sites["n0000"].program.rounds if end == "watch" else None, "names": found.points.names,
        "seconds": making + running,
        "megabytes": simulator.counts["bytes"] / 1e6, "radius": found.value**0.5 / best, "reach": reach / best,
    }  # fmt: skip


def consensus(options):
    rows, runs_at = [], {}
    for n, d, epsilon, p, loss in (
        *((100, 50, 0.1, 0.01, loss) for loss in (0.0, 0.3)),
        *((n, 50, 0.1, p, 0.0) for n, p in ((10, 0.1), (30, 0.03), (300, 0.003), (1000, 0.001))),
        *((n, 50, 0.1, 0.01, 0.0) for n in (10, 30, 300, 1000)),
        *((100, d, 0.1, 0.01, 0.0) for d in (10, 20, 100, 200)),
        *((100, 50, epsilon, 0.01, 0.0) for epsilon in (0.3, 0.03, 0.01)),
        *((100, 50, 0.1, p, 0.0) for p in (0.001, 0.003, 0.03, 0.1, 0.3)),
    ):
        if n > max(100, options.nodes):
            continue
        seeds = 10 if (n, d, epsilon, p) == (100, 50, 0.1, 0.01) else max(1, min(3, 300 // n))
        runs = [agreed(n, d, epsilon, p, loss, seed) for seed in range(min(seeds, options.seeds))]
        runs_at.setdefault(loss, runs)  # at the paper's values, which come first
        steps, megabytes, radii, reaches, seconds = (
            [run[key] for run in runs] for key in ("steps", "megabytes", "radius", "reach", "seconds")
        )
        rows.append(
            [str(n), str(d), f"{epsilon:g}", f"{p:g}", f"{loss:.0%}", str(len(runs)), describe(steps),
             describe(megabytes), f"{min(radii):.4f}", f"{max(reaches):.4f}", describe(seconds)]
        )  # fmt: skip
    headings = ["nodes", "d", "epsilon", "p", "lost", "runs", "steps", "MB", "least r / r*", "largest distance / r*",
                "s"]  # fmt: skip
    same = sum(a["names"] == b["names"] for a, b in zip(runs_at[0.0], runs_at[0.3], strict=True))
    said = f"With 30% lost, {same} of {len(runs_at[0.0])} runs end with the core-set of the run without loss."
    return f"{table(headings, rows)}\n\n{said}"


PARTS = {"ball": ball, "classifier": classifier, "detectors": detectors, "consensus": consensus}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the ball, and at most of a data set")
    parser.add_argument("--seeds", type=int, default=10, help="at most, of a row of consensus")
    parser.add_argument("--nodes", type=int, default=1000, help="at most, but never fewer than the paper's 100")
    options = parser.parse_args()
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    for part in options.parts or PARTS:
        print(PARTS[part](options), end="\n\n", flush=True)
