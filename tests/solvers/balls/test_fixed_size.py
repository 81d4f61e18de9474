"""Core-sets of a fixed size: the theorem of Badoiu and Clarkson, and the exact ball where the size allows it."""

import numpy as np
import pytest
from ball_reference import simplex
from hypothesis import given
from hypothesis import strategies as st

from dimargin.solvers import Limits, solve
from dimargin.solvers.balls.fixed_size import FixedSizeCoreSet, exchanged
from dimargin.solvers.balls.growing_core_set import GrowingCoreSet
from dimargin.solvers.balls.spaces import FeatureSpace


def ball(X, solver, **limits):
    return solve(FeatureSpace(X), solver, None, Limits(**{"max_iter": 10_000, **limits}))


@given(st.integers(1, 60), st.integers(1, 30), st.integers(2, 12), st.integers(0, 10**6), st.booleans())
def test_all_points_are_within_one_and_epsilon(n, d, size, seed, on_a_grid):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, d)).astype(float) if on_a_grid else rng.normal(size=(n, d))
    found, exact = ball(X, FixedSizeCoreSet(size, 1 / size)), ball(X, GrowingCoreSet(0.0))
    assert found.result.status == "converged" and len(found.indices) <= size + 1
    assert found.squared_radius <= exact.squared_radius * (1 + 1e-9)
    distances = np.linalg.norm(X - found.weights @ X[found.indices], axis=1)
    assert distances.max() <= (1 + 1 / size) * found.squared_radius**0.5 * (1 + 1e-9) + 1e-12
    if size > d:  # d + 1 points determine the smallest ball
        assert found.squared_radius == pytest.approx(exact.squared_radius, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("size", [2, 5, 10])
def test_one_point_more_where_the_theorem_needs_it(size):
    """Corners of a simplex, where sqrt((k + 1) / (k - 1)) times the radius is more than 1 + 1 / k times."""
    found = ball(simplex(200), FixedSizeCoreSet(size, 1 / size))
    assert found.result.status == "converged" and len(found.indices) == size + 1
    assert found.ratio == pytest.approx(((size + 2) / size) ** 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_any_points_may_be_the_start(seed):
    rng = np.random.default_rng(seed)
    X, start = rng.normal(size=(300, 20)), rng.choice(300, 8, replace=False)
    found = solve(FeatureSpace(X), FixedSizeCoreSet(8, 1 / 8), start, Limits(max_iter=10_000))
    first = np.linalg.norm(X[start] - X[start].mean(axis=0), axis=1).max() ** 2
    assert found.result.status == "converged" and found.squared_radius > first
    distances = np.linalg.norm(X - found.weights @ X[found.indices], axis=1)
    assert distances.max() <= (1 + 1 / 8) * ball(X, GrowingCoreSet(0.0)).squared_radius ** 0.5


def test_radii_grow_with_every_exchange():
    found = ball(np.random.default_rng(0).normal(size=(2000, 40)), FixedSizeCoreSet(8, 1 / 8))
    radii = np.array([entry["objective"][0] * (1 - entry["relative_gap"]) for entry in found.result.history])
    assert len(radii) > 8 and (np.diff(radii[:-1]) > 0).all()


@given(st.integers(2, 7), st.integers(1, 12), st.integers(0, 10**6))
def test_the_best_exchange_is_made(size, d, seed):
    """Beside all the balls that there are."""
    X = np.random.default_rng(seed).normal(size=(200, d))
    space = FeatureSpace(X)

    def enclosed(indices):
        return space.enclose(np.asarray(indices), np.arange(len(indices)), 0.0)

    core = np.arange(size)
    now = enclosed(core)
    outside = int(space.distances(core[now.indices], now.weights).argmax())
    best = max(enclosed(np.delete(np.append(core, outside), k)).value for k in range(size + 1))
    found = exchanged(core, now, outside, size, enclosed)
    if best <= now.value * (1 + 1e-9):
        assert found is None
    else:
        indices, exchanged_ball = found
        assert len(indices) == size and outside in indices
        assert enclosed(indices).value == pytest.approx(exchanged_ball.value) == pytest.approx(best)
