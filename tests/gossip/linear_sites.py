"""Small data, their optimum by LIBLINEAR, and runs of GADGET or another algorithm on them."""

from functools import partial

import numpy as np
from sklearn.svm import LinearSVC

from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.programs.gadget_settings import GadgetSettings
from dimargin.gossip.simulation.conditions import Conditions
from dimargin.gossip.simulation.gossip_run import GossipRun, deal
from dimargin.gossip.topology import make_graph
from dimargin.problems.hinge import loss_of

ALPHA = 1e-2
TERMS = {"alpha": ALPHA, "scaling": "minmax", "fit_intercept": True}  # Sites must agree on these before they learn.


def overlapping(n=400, seed=0):
    """Two overlapping classes of unequal size, with a constant feature."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 6)), np.ones(n)])
    return X, np.where(X @ rng.normal(size=7) + rng.normal(size=n) > 0.7, 1.0, -1.0)


def three_classes(n=300, seed=0):
    """Three classes whose labels are texts, of features far from zero."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    return 10 * rng.normal(size=(n, 4)) + 30 * np.eye(4)[y] + 5, np.array(["ant", "bee", "cat"])[y]


def objective(X, y, w, alpha=ALPHA, power=1):
    return alpha / 2 * w @ w + (np.maximum(0, 1 - y * (X @ w)) ** power).mean()


def optimum(X, y, alpha=ALPHA, power=1):
    """The least objective, with the hinge loss or its square."""
    loss = {1: "hinge", 2: "squared_hinge"}[power]
    machine = LinearSVC(loss=loss, C=1 / (alpha * len(y)), fit_intercept=False, tol=1e-9, max_iter=10**7)
    return objective(X, y, machine.fit(X, y).coef_[0], alpha, power)


def pegasos(X, y, n_steps, batch_size=None, seed=(0, 0), projection=False):
    """Shalev-Shwartz et al. 2007, figures 1 and 2."""
    rng, w = np.random.default_rng(seed), np.zeros(X.shape[1])
    for t in range(1, n_steps + 1):
        chosen = np.arange(len(y)) if batch_size is None else rng.integers(len(y), size=batch_size)
        active = chosen[y[chosen] * (X[chosen] @ w) < 1]
        w = (1 - 1 / t) * w + (y[active] @ X[active]) / (ALPHA * t * len(chosen))
        if projection:
            w = min(1, 1 / (np.sqrt(ALPHA) * np.linalg.norm(w))) * w
    return w


def learning(
    rows, n_sites=6, topology="ring", shards="random", conditions=None, seed=0, loss="hinge", tol=1e-12, **settings
):
    """A run of GADGET that has not begun."""
    X, y = rows
    site = deal(shards, y, np.random.default_rng(seed).permutation(len(y)), n_sites)
    given = GadgetSettings(alpha=ALPHA, tol=tol, **settings)
    graph = make_graph(topology, n_sites)
    return GossipRun(X, y[None], site, n_sites, given, graph, conditions or Conditions(), seed, loss=loss_of(loss))


def sites(
    algorithm, X, y, n_sites=6, topology="ring", shards="random", conditions=None, seed=0, alpha=ALPHA, lease=20.0
):
    """A run that has not begun."""
    algorithm.validate()
    signs = y[None] if y.ndim == 1 else y
    site = deal(shards, signs[0], np.random.default_rng(seed).permutation(X.shape[0]), n_sites)
    problem = Problem(alpha, n_sites, X.shape[0], lease)
    graph = make_graph(topology, n_sites) if isinstance(topology, str) else topology
    make = partial(algorithm.program, problem)
    return GossipRun(X, signs, site, n_sites, problem, graph, conditions or Conditions(), seed, make=make)


def excess(run, X, y, best, alpha=ALPHA, power=1, average=False):
    """By how much the worst site's objective is above the optimum, relative to it."""
    return max(objective(X, y, w[0], alpha, power) for w in run.weights(average)) / best - 1
