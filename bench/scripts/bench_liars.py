"""Members who lie within all bounds: accuracy of the worst honest site, by attack and rule of merging.

Usage: bench_liars.py [svmguide1] [a9a] [--shards random|sorted] [--rounds R] [--rows N] [--seed S]
                      [--step ETA] [--average] [--only TEXT] [--graphs complete 6-regular ring] [--worlds]

Ten sites, of which site2 and site7 lie, on a complete and on a 6-regular graph or in a ring, learn by
`RobustGossip` or `ConsensusADMM` with alpha = 1e-3 on at most N rows (10,000). Every entry is the accuracy
on the test set (at most N / 2 rows) of the worst of the eight honest sites after R rounds (100), by its
last iterate or the average of its iterates, in percent, with local gradients or tracked ones, and with
the default step or another. "optimum" is that of LIBLINEAR on the rows of the honest sites. Two
data sets take half an hour; --rounds 20 --rows 2000 is a trial. --only takes algorithms whose names
contain a text.

--worlds compares two networks whose sites send the same messages: two sites learn from rows with inverted
labels, and lie; or these are their rows, and nobody lies. In the second network a rule that loses nothing
to honest sites ends with the optimum of all ten sites' rows; so it does in the first, where it should have
that of the eight. The table has the accuracy of both machines on the test set, for every pair of sites.
"""

import argparse
import itertools
import warnings
from dataclasses import replace

import networkx as nx
import numpy as np
from common import heading, load, table
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from dimargin import GossipSVMClassifier
from dimargin.gossip.rounds.consensus_admm import ConsensusADMM
from dimargin.gossip.rounds.merging import ClippedMean, Mean, NearestMixing, TrimmedMean
from dimargin.gossip.rounds.robust import RobustGossip
from dimargin_bench.gossip_rivals.attacks import (
    Equivocation,
    InnerProduct,
    LabelFlip,
    LittleIsEnough,
    RandomNoise,
    SignFlip,
    Stale,
)
from dimargin_bench.gossip_rivals.liars import lying

ALPHA, N_SITES, LIARS = 1e-3, 10, (2, 7)
ATTACKS = {
    "nobody lies": None,
    "sign flip, scale 1": SignFlip(1.0),
    "sign flip, scale 4": SignFlip(),
    "a little is enough, z = 1.5": LittleIsEnough(),
    "a little is enough, z = -1.5": LittleIsEnough(-1.5),
    "inner product, scale 0.5": InnerProduct(),
    "inner product, scale 4": InnerProduct(4.0),
    "label flip": LabelFlip(),
    "noise, scale 3": RandomNoise(),
    "equivocation, scale 4": Equivocation(),
    "stale": Stale(),
}
ALGORITHMS = {
    "mean": RobustGossip(Mean()),
    "clipped": RobustGossip(ClippedMean(2)),
    "trimmed": RobustGossip(TrimmedMean(2)),
    "nearest mixing, trimmed": RobustGossip(NearestMixing(2)),
    "the same, tracked, flow 0.1": RobustGossip(NearestMixing(2), gradient="tracked"),
    "tracked, flow 0.3": RobustGossip(NearestMixing(2), gradient="tracked", flow=0.3),
    "tracked, not clipped": RobustGossip(NearestMixing(2), gradient="tracked", flow=float("inf")),
    "ADMM": ConsensusADMM(tol=1e-4),
    "ADMM, liars=2": ConsensusADMM(tol=1e-4, liars=2),
}


def data(name, n_rows, seed):
    """Rows with standard features (a9a: as they are) and a constant one, and signs, for training and test."""
    (X, y), (X_test, y_test) = load(name), load(f"{name}.t")
    X_test = np.pad(X_test, ((0, 0), (0, X.shape[1] - X_test.shape[1])))
    if name != "a9a":
        mean, std = X.mean(axis=0), X.std(axis=0)
        X, X_test = (X - mean) / std, (X_test - mean) / std
    rng = np.random.default_rng(seed)
    parts = []
    for rows, labels, n in ((X, y, n_rows), (X_test, y_test, n_rows // 2)):
        chosen = rng.permutation(len(labels))[:n]
        parts += [np.column_stack([rows[chosen], np.ones(len(chosen))]), np.where(labels[chosen] > 0, 1.0, -1.0)]
    return parts


def trained(algorithm, attack, graph, X, y, arguments):
    if arguments.step is not None and isinstance(algorithm, RobustGossip):
        algorithm = replace(algorithm, step_size=arguments.step)
    if attack is not None:
        algorithm = lying(algorithm, {f"site{i}": attack for i in LIARS})
    machine = GossipSVMClassifier(
        algorithm, n_sites=N_SITES, topology=graph, alpha=ALPHA, shards=arguments.shards, max_iter=arguments.rounds,
        average=arguments.average, random_state=arguments.seed,
    )  # fmt: skip
    return machine.fit(X, y)


def worst(machine, X, y):
    coef = machine.site_average_coef_ if machine.average else machine.site_coef_
    right = (np.where(X @ coef.T > 0, 1.0, -1.0) == y[:, None]).mean(axis=0)
    return min(right[i] for i in range(N_SITES) if i not in LIARS)


def site_of_rows(X, y, arguments):
    arguments = argparse.Namespace(**{**vars(arguments), "rounds": 1})
    return trained(RobustGossip(Mean()), None, nx.complete_graph(N_SITES), X, y, arguments).site_of_rows_


def machine_of(X, y):
    machine = LinearSVC(loss="hinge", C=1 / (ALPHA * len(y)), fit_intercept=False, max_iter=10**5, tol=1e-4)
    return machine.fit(X, y)


def optimum(X, y, X_test, y_test, arguments):
    honest = ~np.isin(site_of_rows(X, y, arguments), LIARS)
    return machine_of(X[honest], y[honest]).score(X_test, y_test)


def worlds(X, y, X_test, y_test, arguments):
    """The table of --worlds, by the labels that the two sites have."""
    site, found = site_of_rows(X, y, arguments), {}
    share = [round(100 * (y[site == i] > 0).mean()) for i in range(N_SITES)]
    for pair in itertools.combinations(range(N_SITES), 2):
        lies = np.isin(site, pair)
        eight = machine_of(X[~lies], y[~lies]).score(X_test, y_test)
        ten = machine_of(X, np.where(lies, -y, y)).score(X_test, y_test)
        found.setdefault(tuple(sorted(share[i] for i in pair)), []).append((eight, ten))
    rows = [
        [f"{first} and {second}%", str(len(scores)), *(f"{100 * one:.2f}" for one in np.mean(scores, axis=0)),
         f"{100 * max(eight - ten for eight, ten in scores):.2f}"]
        for (first, second), scores in sorted(found.items())
    ]  # fmt: skip
    return table(["positive rows of the two", "pairs", "eight sites", "all ten", "largest loss"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["svmguide1", "a9a"])
    parser.add_argument("--shards", default="random")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", type=float)
    parser.add_argument("--average", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--graphs", nargs="+", default=["complete", "6-regular"])
    parser.add_argument("--worlds", action="store_true")
    arguments = parser.parse_args()
    algorithms = {name: one for name, one in ALGORITHMS.items() if arguments.only in name}
    warnings.simplefilter("ignore", ConvergenceWarning)
    heading(__doc__.split("\n")[0])
    graphs = {
        "complete": nx.complete_graph(N_SITES), "6-regular": nx.random_regular_graph(6, N_SITES, arguments.seed),
        "ring": nx.cycle_graph(N_SITES),
    }  # fmt: skip
    for name in arguments.names:
        X, y, X_test, y_test = data(name, arguments.rows, arguments.seed)
        if arguments.worlds:
            print(f"{name}, {arguments.shards} deal\n")
            print(worlds(X, y, X_test, y_test, arguments), end="\n\n", flush=True)
            continue
        best = optimum(X, y, X_test, y_test, arguments)
        for graph_name in arguments.graphs:
            graph = graphs[graph_name]
            print(
                f"{name}, {graph_name} graph, {arguments.shards} deal, {arguments.rounds} rounds, optimum {best:.2%}\n"
            )
            rows = []
            for attack_name, attack in ATTACKS.items():
                machines = (trained(algorithm, attack, graph, X, y, arguments) for algorithm in algorithms.values())
                rows.append([attack_name, *(f"{100 * worst(machine, X_test, y_test):.2f}" for machine in machines)])
            print(table(["attack", *algorithms], rows), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
