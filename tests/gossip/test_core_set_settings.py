"""What sites look for: machines and bounds, against independent means; the order of core-sets."""

import numpy as np
import pytest
from ball_reference import quadratic_optimum
from core_set_sites import EXACT, dealt, run

from dimargin.gossip.programs.candidates import Name, Named
from dimargin.gossip.programs.core_set_settings import Chosen, CoreSetSettings
from dimargin.gossip.topology import make_graph
from dimargin.kernels.functions import Kernel


def test_equal_points_of_two_sites_are_two_points():
    """Only their softness tells them apart: each carries half of the weight."""
    wanted = CoreSetSettings("margin", 1e-9, C=1.0, kernel=Kernel("rbf"), intercept=False)
    sites = dealt(np.zeros((2, 2)), 2, settings=wanted)
    _, chosen = run(sites, make_graph("complete", 2))
    assert chosen.points.names == (Name("site000", 0), Name("site001", 0))
    np.testing.assert_allclose(chosen.weights, 0.5)
    assert -chosen.value == pytest.approx(1.5)


def test_order_is_total():
    """Of sets with the same radius the names decide, and they are the same however the points come."""
    X = np.vstack([np.eye(3), -np.eye(3)])
    points = Named(tuple((f"s{i}", 0) for i in range(6)), X, np.ones(6), np.ones(6))
    whole = Chosen.of(points, EXACT)
    for seed in range(5):
        assert Chosen.of(points.take(np.random.default_rng(seed).permutation(6)), EXACT).rank == whole.rank
    other = Chosen.of(points.take([1, 4]), EXACT)
    assert other.rank[0] == whole.rank[0]
    assert other.rank == whole.rank or (other.rank > whole.rank) != (whole.rank > other.rank)


def test_weights_of_rows():
    """A weight of two is a row given twice."""
    X = np.random.default_rng(6).normal(size=(20, 2))
    wanted = CoreSetSettings("ball", 1e-9, C=2.0)
    twice = Named(tuple(("s", k) for k in range(40)), np.repeat(X, 2, axis=0), np.ones(40), np.ones(40))
    once = Named(tuple(("s", k) for k in range(20)), X, np.ones(20), np.full(20, 2.0))
    one, two = (Chosen.of(points, wanted) for points in (once, twice))
    np.testing.assert_allclose(one.weights @ one.points.X, two.weights @ two.points.X, atol=1e-9)


@pytest.mark.parametrize("machine", ["ball", "margin"])
@pytest.mark.parametrize("epsilon", [0.3, 1e-2, 1e-4])
def test_bounds_hold_once_all_agree(machine, epsilon):
    """The objective over all rows is between them: nobody has a row farther out than epsilon allows."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(90, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0) if machine == "margin" else np.ones(90)
    wanted = CoreSetSettings(machine, epsilon, C=2.0, kernel=Kernel("rbf", gamma=0.5))
    _, chosen = run(dealt(X, 6, y, wanted), make_graph("ring", 6))
    values = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)) * np.outer(y, y) + np.eye(90) / 2.0
    best = quadratic_optimum(values, np.ones(90))
    best = best if machine == "ball" else 0.5 / (1 - best)
    least, most = wanted.bounds(chosen)
    assert least <= best * (1 + 1e-5) and most >= best * (1 - 1e-5) and most <= least * (1 + 3 * epsilon)
