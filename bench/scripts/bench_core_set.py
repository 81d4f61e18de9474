"""Core-sets: smallest balls, machines and detectors on few rows, and their consensus over a network.

Usage: bench_core_set.py [ball] [classifier] [detectors] [consensus] [--repeats R] [--rows N] [--seeds S] [--nodes M]
                  [--pictures FOLDER]

ball: minimum_enclosing_ball of standard normal points and of points on a sphere, passes over the data and seconds,
beside the passes of two rivals: Badoiu and Clarkson's steps towards the farthest point, and Frank-Wolfe steps with
steps away (Yildirim 2008), each with the best step length, both stopped by the same certificate. classifier:
CoreSetSVMClassifier (rbf, gamma=8, C=1; features in [0, 1]; a quarter of the rows for the test) by gap and by epsilon,
beside the exact solver on the same problem. detectors: CoreSetSVDD and OneClassCoreSetSVM by gap and by epsilon beside
scikit-learn's OneClassSVM (gamma="scale", nu=0.1), trained on one class: area under the curve of the other class,
seconds. consensus: steps until all simulated nodes have the same core-set, of standard normal points, one a node, on a
random digraph drawn again at every step, against nodes, d, epsilon and the probability p of an edge.

Every part prints a table; the last three also draw it: coreset_classifier.png, coreset_detectors.png and
coreset_consensus.png in FOLDER, bench/scripts/output unless it is given. A trial of all that takes less than a minute:
bench_core_set.py --repeats 1 --rows 4000 --seeds 1 --nodes 100.
"""

import argparse
import time
import warnings
from pathlib import Path

import core_set_pictures
import numpy as np
from common import describe, heading, load, scaled, table
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
    found = []
    for name, X in clouds(options.rows):
        for epsilon in (1e-1, 1e-3, 0.0):
            seconds = []
            for _ in range(options.repeats):
                began = time.perf_counter()
                best = dm.minimum_enclosing_ball(X, epsilon)
                seconds.append(time.perf_counter() - began)
            assert best.certificate
            rivals = [passes_of_rival(X, epsilon, away) if epsilon == 1e-3 else "" for away in (False, True)]
            found.append(
                {"points": name, "epsilon": epsilon, "passes": best.n_passes, "seconds": seconds,
                 "core_set": len(best.core_set_indices), "excess": best.farthest / best.radius - 1, "rivals": rivals}
            )  # fmt: skip
    return found


def ball_table(found):
    headings = ["points", "epsilon", "passes", "s", "core-set", "farthest / radius - 1"]
    rows = [
        [one["points"], f"{one['epsilon']:g}", str(one["passes"]), describe(one["seconds"]), str(one["core_set"]),
         f"{one['excess']:.1e}", *("> 300" if rival is None else str(rival) for rival in one["rivals"])]
        for one in found
    ]  # fmt: skip
    return table([*headings, "passes of steps to the farthest", "with steps away"], rows)


class Full(dm.CoreSetSVMClassifier):
    """The exact solver on the same problem."""

    @property
    def strategy(self):
        return Exact()


def classifier(options):
    found = []
    for name in ("svmguide1", "cod-rna"):
        X, y = load(name)
        X, order = scaled(X), np.random.default_rng(0).permutation(len(y))[: options.rows]
        train, test = order[: 3 * len(order) // 4], order[3 * len(order) // 4 :]
        machines = [
            ("exact solver", None, Full(gamma=8.0)),
            ("core-set", None, dm.CoreSetSVMClassifier(gamma=8.0)),
            *(
                ("core-set", epsilon, dm.CoreSetSVMClassifier(epsilon=epsilon, gamma=8.0))
                for epsilon in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
            ),
        ]
        for label, epsilon, machine in machines:
            seconds = []
            for _ in range(options.repeats):
                began = time.perf_counter()
                machine.set_params(random_state=0).fit(X[train], y[train])
                seconds.append(time.perf_counter() - began)
            evaluations = sum(entry["kernel_evaluations"] for entry in machine.history_) / len(train) ** 2
            found.append(
                {"data": name, "rows": len(train), "machine": label, "epsilon": epsilon,
                 "accuracy": machine.score(X[test], y[test]), "support": len(machine.support_),
                 "gap": machine.duality_gap_, "seconds": seconds, "evaluations": evaluations}
            )  # fmt: skip
    return found


def stop(epsilon):
    """What ends the growth of a core-set."""
    return "gap 1e-3" if epsilon is None else f"epsilon {epsilon:g}"


def classifier_table(found):
    headings = ["data set", "machine", "%", "core-set", "gap", "s", "kernel values / n^2"]
    rows = [
        [one["data"], stop(one["epsilon"]) if one["machine"] == "core-set" else one["machine"],
         f"{100 * one['accuracy']:.2f}", str(one["support"]), f"{one['gap']:.1e}", describe(one["seconds"]),
         f"{one['evaluations']:.3f}"]
        for one in found
    ]  # fmt: skip
    return table(headings, rows)


def detectors(options):
    core_sets = {
        "CoreSetSVDD": dm.CoreSetSVDD(random_state=0),
        "OneClassCoreSetSVM": dm.OneClassCoreSetSVM(random_state=0),
        "OneClassCoreSetSVM, C=1e-3": dm.OneClassCoreSetSVM(1e-3, random_state=0),
    }
    found = []
    for name in ("cod-rna", "ijcnn1", "phishing", "skin_nonskin"):
        X, y = load(name)
        X = scaled(X)
        usual = y == np.unique(y)[np.bincount(np.searchsorted(np.unique(y), y)).argmax()]
        order = np.random.default_rng(0).permutation(np.flatnonzero(usual))[: min(40_000, options.rows)]
        train, others = order[: len(order) // 2], np.flatnonzero(~usual)[: min(20_000, options.rows // 2)]
        test = np.concatenate([order[len(order) // 2 :], others])
        machines = [
            *(
                (label, epsilon, clone(machine).set_params(epsilon=epsilon))
                for label, machine in core_sets.items()
                for epsilon in (None, 1e-1, 1e-2, 1e-3, 1e-4)
            ),
            ("OneClassSVM, nu=0.1", None, OneClassSVM(nu=0.1)),
        ]
        for label, epsilon, machine in machines:
            began = time.perf_counter()
            machine.fit(X[train])
            seconds = time.perf_counter() - began
            curve = roc_auc_score(usual[test], machine.score_samples(X[test]))
            found.append(
                {"data": name, "rows": len(train), "detector": label, "epsilon": epsilon, "curve": curve,
                 "support": len(machine.support_), "gap": getattr(machine, "duality_gap_", None), "seconds": seconds}
            )  # fmt: skip
    return found


def detectors_table(found):
    rows = [
        [one["data"], str(one["rows"]), one["detector"], "" if one["gap"] is None else stop(one["epsilon"]),
         f"{one['curve']:.4f}", str(one["support"]), "" if one["gap"] is None else f"{one['gap']:.1e}",
         f"{one['seconds']:.2f}"]
        for one in found
    ]  # fmt: skip
    return table(["data set", "rows", "detector", "until", "AUC", "support", "gap", "s"], rows)


def agreed(n, d, epsilon, p, loss=0.0, seed=0, most=400):
    """A run to consensus: steps, megabytes, seconds, and the core-set's ball beside the best."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    settings = CoreSetSettings(epsilon=epsilon, size=int(np.ceil(1 / epsilon)), quiet_rounds=most)

    programs = {
        f"n{i:04}": lambda i=i: CoreSetConsensus(f"n{i:04}", X[i : i + 1], np.ones(1), settings) for i in range(n)
    }
    began = time.perf_counter()
    simulator = Simulator(programs, changing_digraphs(n, p, seed), Conditions(LinkFaults(loss=loss)), seed)

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
    found = []
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
        found.append({"nodes": n, "d": d, "epsilon": epsilon, "p": p, "loss": loss, "runs": runs})
    return found


def consensus_table(found):
    headings = "nodes", "d", "epsilon", "p", "lost", "runs", "steps", "MB", "least r / r*", "largest distance / r*", "s"
    rows = []
    for one in found:
        steps, megabytes, radii, reaches, seconds = (
            [run[key] for run in one["runs"]] for key in ("steps", "megabytes", "radius", "reach", "seconds")
        )
        rows.append(
            [str(one["nodes"]), str(one["d"]), f"{one['epsilon']:g}", f"{one['p']:g}", f"{one['loss']:.0%}",
             str(len(steps)), describe(steps), describe(megabytes), f"{min(radii):.4f}", f"{max(reaches):.4f}",
             describe(seconds)]
        )  # fmt: skip
    whole, lossy = (one["runs"] for one in found[:2])  # the same seeds
    same = sum(a["names"] == b["names"] for a, b in zip(whole, lossy, strict=True))
    said = f"With 30% lost, {same} of {len(whole)} runs end with the core-set of the run without loss."
    return f"{table(list(headings), rows)}\n\n{said}"


PARTS = {
    "ball": (ball, ball_table, None),
    "classifier": (classifier, classifier_table, core_set_pictures.classifier),
    "detectors": (detectors, detectors_table, core_set_pictures.detectors),
    "consensus": (consensus, consensus_table, core_set_pictures.consensus),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the ball, and at most of a data set")
    parser.add_argument("--seeds", type=int, default=10, help="at most, of a row of consensus")
    parser.add_argument("--nodes", type=int, default=1000, help="at most, but never fewer than the paper's 100")
    parser.add_argument("--pictures", type=Path, default=Path(__file__).parent / "output", metavar="FOLDER")
    options = parser.parse_args()
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    for part in options.parts or PARTS:
        measure, tabulate, draw = PARTS[part]
        found = measure(options)
        print(tabulate(found), end="\n\n", flush=True)
        if draw:
            picture = options.pictures / f"coreset_{part}.png"
            picture.parent.mkdir(parents=True, exist_ok=True)
            draw(found).savefig(picture, dpi=110)
            print(f"Saved {picture}", end="\n\n", flush=True)
