"""The one-class machine against an interior point method, and from samples."""

import nu_objectives as exact
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.solvers import one_class
from dimargin.solvers.loop import Limits
from dimargin.solvers.one_class import solve_one_class

RBF = Kernel("rbf", gamma=0.5)


def rows(seed, n):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.uniform(0.5, 2.0, n)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.02, 0.1, 0.5, 0.9, 1.0]))
def test_small_problems(seed, nu):
    X, weights = rows(seed, 40)
    found, rho = solve_one_class(KernelMatrix.of(X, RBF), weights, nu, Limits(tol=1e-3))
    K, a = exact.gram(X, X, "rbf", 0.5).astype(float), found.coefficients
    best = exact.best_one_class(K, weights, nu)
    primal, dual = found.objectives.primal[0], found.objectives.dual[0]
    assert dual <= best + 1e-8 * abs(best) and best <= primal + 1e-8 * abs(best)
    assert found.objectives.worst_gap <= 1e-8 and (a >= 0).all() and (a <= weights).all()
    np.testing.assert_allclose(a.sum(), nu * weights.sum(), rtol=1e-11)
    # Rows on the boundary are inliers.
    assert weights[K @ a < rho].sum() <= nu * weights.sum() * (1 + 1e-12)
    assert (K @ a)[(a > 0) & (a < weights)].min(initial=np.inf) >= rho


@pytest.mark.parametrize("nu", [0.05, 0.5])
def test_larger_problems_start_at_a_sample(monkeypatch, nu):
    X, weights = rows(0, 1500)
    kernel = KernelMatrix.of(X, RBF)
    plain, _ = solve_one_class(kernel, weights, nu, Limits(tol=1e-5))
    monkeypatch.setattr(one_class, "SAMPLE_ROWS", 600)
    sampled, rho = solve_one_class(kernel, weights, nu, Limits(tol=1e-5))
    assert plain.status == sampled.status == "converged"
    assert sampled.objectives.worst_gap <= 1e-5
    assert sampled.objectives.dual[0] <= plain.objectives.primal[0]
    assert plain.objectives.dual[0] <= sampled.objectives.primal[0]
    again, same = solve_one_class(kernel, weights, nu, Limits(tol=1e-5))
    np.testing.assert_array_equal(again.coefficients, sampled.coefficients)
    assert same == rho


def test_limits_leave_a_feasible_machine():
    X, weights = rows(1, 1500)
    found, _ = solve_one_class(KernelMatrix.of(X, RBF), weights, 0.3, Limits(tol=1e-12, max_iter=1))
    assert found.status == "max_iter" and found.objectives.worst_gap > 1e-12
    np.testing.assert_allclose(found.coefficients.sum(), 0.3 * weights.sum(), rtol=1e-9)
