"""Growing core-sets: balls of any size of data, in any space, and their certificates."""

import time
from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp
from ball_reference import quadratic_optimum, unit_sphere
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.solvers.balls.core_set import CoreSetState
from dimargin.solvers.balls.growing_core_set import GrowingCoreSet
from dimargin.solvers.balls.spaces import FeatureSpace, KernelSpace

VALUES = {
    "rbf": lambda X: rbf_kernel(X, gamma=0.1),
    "laplacian": lambda X: laplacian_kernel(X, gamma=0.1),
    "poly": lambda X: polynomial_kernel(X, gamma=0.1, degree=2, coef0=1.0),
    "linear": lambda X: X @ X.T,
}


def kernel_space(X, name, softness=None):
    kernel = Kernel(name, gamma=0.1, degree=2, coef0=1.0)
    return KernelSpace(KernelMatrix(RowTransform.fit(X, kernel).in_float64(), X), softness)


def grown(points, epsilon, **limits):
    return solve(points, GrowingCoreSet(epsilon), None, Limits(**{"max_iter": 1000, **limits}))


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_balls_in_the_space_of_a_kernel(name, epsilon):
    X = np.random.default_rng(0).normal(size=(300, 4))
    values = VALUES[name](X)
    found = grown(kernel_space(X, name), epsilon)
    x = np.zeros(len(X))
    x[found.indices] = found.weights
    distances = values.diagonal() - 2 * values @ x + x @ values @ x
    best = quadratic_optimum(values, values.diagonal())
    assert found.result.status == "converged"
    assert found.farthest == pytest.approx(distances.max(), rel=1e-9)
    assert distances.max() <= found.squared_radius * (1 + epsilon) ** 2 * (1 + 1e-9)
    assert found.squared_radius <= best * (1 + 1e-6) <= distances.max() * (1 + 2e-6)
    if not epsilon:
        assert found.squared_radius == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1e-3, 0.0])
@pytest.mark.parametrize("make", ["normal", "sphere", "sparse", "float32"])
def test_many_points(make, epsilon):
    rng = np.random.default_rng(3)
    X = {
        "normal": lambda: rng.normal(size=(20_000, 10)) + 5,
        "sphere": lambda: unit_sphere(20_000, 10),
        "sparse": lambda: sp.csr_array(rng.normal(size=(20_000, 30)) * (rng.random((20_000, 30)) < 0.2)),
        "float32": lambda: rng.normal(size=(20_000, 10)).astype(np.float32) + np.float32(5),
    }[make]()
    space = FeatureSpace(X)
    found = grown(space, epsilon)
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    distances = np.linalg.norm(dense - found.weights @ dense[found.indices], axis=1)
    assert found.result.status == "converged"
    assert distances.max() <= found.squared_radius**0.5 * (1 + epsilon + 1e-9)
    np.testing.assert_allclose(
        space.centre(found.indices, found.weights), found.weights @ dense[found.indices], atol=1e-12
    )
    core = dense[found.indices] - dense[found.indices].mean(axis=0)
    assert found.squared_radius == pytest.approx(quadratic_optimum(core @ core.T, (core**2).sum(axis=1)), rel=1e-6)
    assert found.result.passes <= 10


def test_softness_is_a_coordinate_of_its_own():
    """docs/algorithms.md#enclosing-balls: K + delta / C, as points that carry one more coordinate each."""
    X = np.random.default_rng(4).normal(size=(150, 3))
    lifted = np.hstack([X, np.eye(150) * 0.5**0.5])
    soft, hard = grown(FeatureSpace(X, np.full(150, 0.5)), 0.0), grown(FeatureSpace(lifted), 0.0)
    np.testing.assert_array_equal(soft.indices, hard.indices)
    np.testing.assert_allclose(soft.weights, hard.weights, rtol=1e-8)
    assert soft.squared_radius == pytest.approx(hard.squared_radius, rel=1e-10)
    assert soft.farthest == pytest.approx(hard.farthest, rel=1e-10)
    kernel = grown(kernel_space(X, "linear", np.full(150, 0.5)), 0.0)
    assert kernel.squared_radius == pytest.approx(hard.squared_radius, rel=1e-10)


def test_a_weight_of_two_is_a_point_given_twice():
    X = np.random.default_rng(5).normal(size=(60, 3))
    softness = np.full(60, 50.0)
    softness[:20] = 25.0
    weighted = grown(FeatureSpace(X, softness), 0.0)
    repeated = grown(FeatureSpace(np.vstack([X, X[:20]]), np.full(80, 50.0)), 0.0)
    assert (weighted.indices < 20).any() and (weighted.indices >= 20).any()
    x, twice = np.zeros(60), np.zeros(80)
    x[weighted.indices], twice[repeated.indices] = weighted.weights, repeated.weights
    twice[:20] += twice[60:]
    np.testing.assert_allclose(x, twice[:60], atol=1e-10)


def test_radii_bound_the_optimum_after_every_pass():
    found = grown(FeatureSpace(unit_sphere(20_000, 40)), 0.0)
    history = found.result.history
    radii = [entry["objective"][0] * (1 - entry["relative_gap"]) for entry in history]
    assert len(radii) > 1
    assert max(radii) <= found.squared_radius * (1 + 1e-9) <= min(e["objective"][0] for e in history) * (1 + 2e-9)


def test_no_point_may_be_farther_than_asked_for():
    """Within 1.3 times the radius is not within 1.2 times."""
    state = CoreSetState(FeatureSpace(np.eye(3)), Limits(), np.arange(3), np.full(3, 1 / 3), 1.0, 1.3**2)
    assert GrowingCoreSet(0.2).verdict(state, None) is None
    assert GrowingCoreSet(0.31).verdict(state, None)[0] == "converged"


def test_limits_end_with_a_certificate():
    X = unit_sphere(5000, 20)
    first = grown(FeatureSpace(X), 0.0, max_iter=1)
    assert first.result.status == "max_iter" and first.ratio > 1
    late = grown(FeatureSpace(X), 0.0, deadline=time.perf_counter())
    interrupted = Event()
    interrupted.set()
    stopped = grown(FeatureSpace(X, np.ones(5000)), 0.0, interrupted=interrupted)
    for found, status, soft in ((late, "max_time", 0.0), (stopped, "stopped", 1.0)):
        assert found.result.status == status and found.squared_radius == 0
        distances = ((X - found.weights @ X[found.indices]) ** 2).sum(axis=1) + soft
        assert found.farthest >= distances.max() - 1e-12


@pytest.mark.filterwarnings("ignore")
def test_descent_that_rounding_keeps_from_moving_leaves_the_start(monkeypatch):
    """Kernel values near 1e18 of rows of equal length, of which the ball begins with what descent has found."""
    monkeypatch.setattr(BlockCoordinateDescent, "small", 4)
    kernel, weights = Kernel("poly", gamma=0.5, degree=3, coef0=0.0), []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = np.where(rng.random((12, 2)) < 0.5, 1.0, -1.0) * [1000.0, 2000.0]
        signs = np.where(rng.random(12) < 0.6, 1.0, -1.0)
        points = KernelSpace(KernelMatrix(RowTransform.fit(X, kernel), X), np.ones(12), signs)
        weights.append(points.enclose(np.arange(12), np.array([0]), 0.1).weights.sum())
    np.testing.assert_allclose(weights, 1.0)
