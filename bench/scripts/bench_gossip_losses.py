"""Gossip beyond the hinge: smooth losses, messages as differences, and kernels. Ten sites, alpha=1e-4.

Usage: bench_gossip_losses.py [losses] [bytes] [federated] [kernels] [kernels-admm] [--rows N]
                              [--kernel DATA GAMMA C FEATURES ROUNDS]

losses: a9a with a constant feature, on a ring and a complete graph, rows dealt at random and sorted
by label: how far the worst site's objective is above the optimum after 300 rounds, by squared hinge
(LIBLINEAR's optimum, tol=1e-10) and ODM loss (that of LinearODMClassifier, tol=1e-9), and the
largest error of the gaps that sites estimate. bytes: bytes of all messages until the worst site is
within 1% of the optimum, by numbers as they are and as differences. federated: the
same for consensus ADMM, CHOCO-SGD, FedAvg and FedProx with the parameters of `dimargin bench gossip`
(parts bytes and bytes-sorted), until within 1% and 0.1%, in 600 rounds at most. kernels: random
Fourier features behind kernel gossip by tracked gradients, sites sorted by label, beside the exact
kernel machine on the same rows; ijcnn1 takes a quarter of an hour. kernels-admm: the same by
consensus ADMM with logarithmic levels and the hinge, beside the best exact machine of a grid.
"""

import argparse
import itertools
import sys
import warnings

import numpy as np
from bench_gossip import ALPHA, central, rows
from common import heading, load, scaled, table
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import dimargin as dm
from dimargin.estimators.certificate import hinge_objectives
from dimargin.estimators.preprocessing import FourierFeatures
from dimargin.gossip.programs.gadget_settings import GadgetSettings
from dimargin.gossip.rounds import ConsensusADMM, Logarithmic
from dimargin.gossip.simulation.conditions import Conditions
from dimargin.gossip.simulation.gossip_run import GossipRun, deal
from dimargin.gossip.topology import make_graph
from dimargin.problems.hinge import HingeRows, loss_of
from dimargin_bench.experiments import gossip_methods
from dimargin_bench.gossip_rivals import federated

ROUNDS = 300
LOSSES = ("squared_hinge", "odm")


def objectives(X, y, weights, loss):
    """Of models, by weights of shape (n_models, d)."""
    margins = y[:, None] * (X @ weights.T)
    losses = loss_of(loss).value(margins.T, np.ones(len(y)), 1.0, 1.0).mean(axis=1)
    return ALPHA / 2 * (weights**2).sum(axis=1) + losses


def optimum(X, y, loss):
    if loss == "hinge":
        weights = central(X, y)
    elif loss == "squared_hinge":
        machine = LinearSVC(C=1 / (ALPHA * len(y)), tol=1e-10, max_iter=100_000, fit_intercept=False, dual=False)
        weights = machine.fit(X, y).coef_[0]
    else:
        machine = dm.LinearODMClassifier(lam=1 / ALPHA, theta=0.8, upsilon=0.5, tol=1e-9, fit_intercept=False)
        weights = machine.fit(X, y).coef_[0]
    return float(objectives(X, y, weights[None], loss)[0])


def gossip(X, y, loss, rounds, **parameters):
    machine = dm.GossipSVMClassifier(loss_function=loss, alpha=ALPHA, tol=1e-12, max_iter=rounds, random_state=0)
    return machine.set_params(**parameters).fit(X, y)


def losses():
    (X, y), found = rows("a9a"), []
    order = np.random.default_rng(0).permutation(len(y))
    for loss in LOSSES:
        least, whole = optimum(X, y, loss), HingeRows(X, y[None].astype(float), loss_of(loss))
        for topology in ("ring", "complete"):
            for shards in ("random", "sorted"):
                site, settings = deal(shards, y, order, 10), GadgetSettings(alpha=ALPHA, tol=1e-12)
                graph = make_graph(topology, 10)
                run = GossipRun(X, whole.signs, site, 10, settings, graph, Conditions(), loss=whole.loss).run(ROUNDS)
                own = objectives(X, y, run.weights()[:, 0], loss)
                dual = hinge_objectives(whole, run.weights().mean(axis=0), ALPHA, 1e-6, None).dual.max()
                estimated = np.array([float(program.estimated_gap[0]) for program in run.programs])
                gaps = (own - dual) / own
                found.append([loss, topology, shards, f"{own.max() / least - 1:.1e}", f"{gaps.max():.1e}",
                              f"{np.abs(estimated - gaps).max():.1e}"])  # fmt: skip
    print(table(["loss", "topology", "deal", f"worst site above the optimum, {ROUNDS} rounds", "largest true gap",
                 "largest error of an estimated gap"], found), flush=True)  # fmt: skip


def bytes_to_a_percent():
    (X, y), found = rows("a9a"), []
    GossipRun._entry_spacing = 1.02  # every round at first, and every fiftieth of them
    for loss, shards in (("hinge", "random"), ("squared_hinge", "random"), ("squared_hinge", "sorted")):
        least, line = optimum(X, y, loss), [loss, shards]
        for compression in ("none", "quantised"):
            machine = gossip(X, y, loss, 400, topology="ring", shards=shards, compression=compression)
            near = [one for one in machine.history_ if np.max(one["worst_objective"]) <= 1.01 * least]
            line += [str(near[0]["round"]), f"{near[0]['bytes'] / 1e6:.3g}"] if near else ["", ""]
        found.append(line)
    print(table(["loss", "deal", "rounds", "MB", "rounds, differences", "MB, differences"], found), flush=True)


def federated_bytes():
    """Rounds and megabytes of the methods of `dimargin bench gossip`, looked at after nearly every round."""
    (X, y), found = rows("a9a"), []
    X, least = X[:, :-1].toarray(), optimum(X, y, "hinge")
    GossipRun._entry_spacing = federated.SPACING = 1.02
    for shards, methods in (("random", gossip_methods.AT_RANDOM), ("sorted", gossip_methods.SORTED)):
        for method in methods:
            if method.name.split(",")[0] not in ("admm", "choco", "fedavg", "fedprox"):
                continue
            history = method.make(shards=shards, max_iter=600, random_state=0).fit(X, y).history_
            line = [shards, method.name]
            for worth in (1.01, 1.001):
                near = [one for one in history if np.max(one.get("worst_objective", one["objective"])) <= worth * least]
                line += [str(near[0]["round"]), f"{near[0]['bytes'] / 1e6:.3g}"] if near else ["", ""]
            found.append(line)
            print("| " + " | ".join(line) + " |", file=sys.stderr, flush=True)
    print(table(["deal", "method", "rounds to 1%", "MB", "rounds to 0.1%", "MB"], found), flush=True)


# gamma, C, features, rounds
KERNELS = {"ijcnn1": (1.0, 1.0, 2000, 3000), "cod-rna": (2.0, 30.0, 1000, 1000)}


def sample(name, n):
    X, y = load(name)
    A, B, a, b = train_test_split(X, y, train_size=n, test_size=20_000, stratify=y, random_state=0)
    return (*(scaled(A, B) if name != "ijcnn1" else (A, B)), a, b)


def worst_site(machine, B, b):
    sites = machine[-1]
    values = machine[0].transform(B) @ sites.site_coef_.T
    return min(float(np.mean(sites.classes_[(one > 0).astype(int)] == b)) for one in values.T)


def kernel_gossip(sites, gamma, features, A, B, a, b):
    """Percent right of the machine and of its worst site, gap and megabytes, on random Fourier features."""
    sites.set_params(shards="sorted", tol=1e-12, random_state=0)
    machine = make_pipeline(FourierFeatures(gamma=gamma, n_components=features // 2, random_state=0), sites).fit(A, a)
    percents = [f"{100 * share:.2f}" for share in (machine.score(B, b), worst_site(machine, B, b))]
    return [*percents, f"{sites.duality_gap_:.1e}", f"{sites.history_[-1]['bytes'] / 1e6:.0f}"]


FOUND = ("kernel gossip, %", "worst site, %", "gap", "MB")


def kernels(n, tried):
    found = []
    for name, (gamma, C, features, rounds) in tried.items():
        A, B, a, b = sample(name, n)
        exact = dm.SVMClassifier(fit_intercept=False, C=C, gamma=gamma, loss="squared_hinge", random_state=0).fit(A, a)
        sites = dm.GossipSVMClassifier(
            loss_function="squared_hinge", compression="quantised", alpha=1 / (2 * C * n), max_iter=rounds
        )
        found.append([name, f"{n:,}", str(features), f"{rounds:,}", f"{100 * exact.score(B, b):.2f}",
                      *kernel_gossip(sites, gamma, features, A, B, a, b)])  # fmt: skip
    print(table(["data", "rows", "features", "rounds", "exact machine, %", *FOUND], found), flush=True)


# gamma, C, features, rounds, rho
ADMM_KERNELS = {"ijcnn1": (1.0, 10.0, 3000, 400, 2e-4), "cod-rna": (2.0, 30.0, 1000, 200, 3e-4)}
GRID = tuple(itertools.product((0.5, 1.0, 2.0, 4.0), (1.0, 5.0, 30.0, 100.0), ("hinge", "squared_hinge")))


def kernels_by_admm(n):
    found = []
    for name, (gamma, C, features, rounds, rho) in ADMM_KERNELS.items():
        A, B, a, b = sample(name, n)
        exact = max(
            (
                dm.SVMClassifier(fit_intercept=False, C=c, gamma=g, loss=loss, random_state=0).fit(A, a).score(B, b),
                g,
                c,
                loss,
            )
            for g, c, loss in GRID
        )
        admm = ConsensusADMM(rho=rho, tol=1e-3, compression=Logarithmic())
        sites = dm.GossipSVMClassifier(admm, alpha=1 / (C * n), max_iter=rounds)
        found.append([name, f"{n:,}", str(features), f"{rounds:,}", f"{100 * exact[0]:.2f}", str(exact[1:]),
                      *kernel_gossip(sites, gamma, features, A, B, a, b)])  # fmt: skip
    headings = ["data", "rows", "features", "rounds", f"best exact of {len(GRID)}, %", "gamma, C, loss", *FOUND]
    print(table(headings, found), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["losses", "bytes", "federated", "kernels", "kernels-admm"])
    parser.add_argument("--rows", type=int, default=20_000, help="of kernel machines")
    parser.add_argument(
        "--kernel", nargs=5, metavar=("DATA", "GAMMA", "C", "FEATURES", "ROUNDS"), help="in place of both"
    )
    options = parser.parse_args()
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if "losses" in options.parts:
        losses()
    if "bytes" in options.parts:
        bytes_to_a_percent()
    if "federated" in options.parts:
        federated_bytes()
    if "kernels" in options.parts:
        name, *given = options.kernel or [None]
        tried = {name: (*map(float, given[:2]), *map(int, given[2:]))} if name else KERNELS
        kernels(options.rows, tried)
    if "kernels-admm" in options.parts:
        kernels_by_admm(options.rows)


if __name__ == "__main__":
    main()
