"""Nu machines of classes, targets and one class, against an interior point method and from samples."""

import nu_objectives as exact
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.nu import NuProblem
from dimargin.solvers import nu
from dimargin.solvers.loop import Limits
from dimargin.solvers.nu import solve_nu

RBF = Kernel("rbf", gamma=0.5)
MACHINES = ["classes", "targets", "one class"]


def data(seed, n):
    """Rows, weights, labels of overlapping classes and targets."""
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n, 3)), rng.uniform(0.5, 2.0, n)
    labels = np.where(np.arange(n) % 2, 1.0, -1.0)
    X[:, 0] += labels
    return X, weights, labels, np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)


def problem_of(machine, share, seed=0, n=50, C=2.0):
    X, weights, labels, targets = data(seed, n)
    kernel = KernelMatrix.of(X, RBF)
    if machine == "targets":
        return NuProblem.of_targets(kernel, targets, weights, share, C)
    return NuProblem.of_labels(kernel, labels if machine == "classes" else np.ones(n), weights, share)


def check(problem, found, best, tol=1e-6):
    primal, dual = found.objectives.primal[0], found.objectives.dual[0]
    assert dual <= best + 1e-7 * abs(best) and best <= primal + 1e-7 * abs(best)
    assert found.objectives.worst_gap <= tol
    a, upper = found.dual[0], problem.conjugate.upper
    assert (a >= 0).all() and (a <= upper).all()
    for rows, mass in problem.parts:
        np.testing.assert_allclose(a[rows].sum(), mass, rtol=1e-11)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.2, 0.5, 0.8]))
def test_classes(seed, share):
    X, weights, labels, _ = data(seed, 50)
    problem = NuProblem.of_labels(KernelMatrix.of(X, RBF), labels, weights, share)
    best = exact.best_nu_svc(exact.gram(X, X, "rbf", 0.5).astype(float), (labels < 0).astype(int), weights, share)
    check(problem, solve_nu(problem, Limits(tol=1e-6)), best)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.2, 0.5, 0.8, 1.0]), st.sampled_from([0.1, 10.0]))
def test_targets(seed, share, C):
    X, weights, _, targets = data(seed, 50)
    problem = NuProblem.of_targets(KernelMatrix.of(X, RBF), targets, weights, share, C)
    found = solve_nu(problem, Limits(tol=1e-6))
    check(problem, found, exact.best_nu_svr(exact.gram(X, X, "rbf", 0.5).astype(float), targets, weights, share, C))
    assert found.objectives.intercept.sum() <= 1e-9 or share == 1.0  # epsilon is not negative.


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.02, 0.1, 0.5, 0.9, 1.0]))
def test_one_class(seed, share):
    X, weights, _, _ = data(seed, 40)
    problem = NuProblem.of_labels(KernelMatrix.of(X, RBF), np.ones(40), weights, share)
    found, K = solve_nu(problem, Limits(tol=1e-3)), exact.gram(X, X, "rbf", 0.5).astype(float)
    check(problem, found, exact.best_one_class(K, weights, share), 1e-8)
    a, rho = found.dual[0], found.objectives.intercept[0, 0]
    # Rows on the boundary are inliers.
    assert weights[K @ a < rho].sum() <= share * weights.sum() * (1 + 1e-12)
    assert (K @ a)[(a > 0) & (a < weights)].min(initial=np.inf) >= rho


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("share", [0.4, 0.8])
def test_larger_problems_start_at_a_sample(monkeypatch, machine, share):
    problem, limits = problem_of(machine, share, n=1500), Limits(tol=1e-5)
    plain = solve_nu(problem, limits)
    monkeypatch.setattr(nu, "SAMPLE_ROWS", 600)
    sampled = solve_nu(problem, limits)
    assert plain.status == sampled.status == "converged"
    assert sampled.objectives.worst_gap <= 1e-5
    assert sampled.objectives.dual[0] <= plain.objectives.primal[0]
    assert plain.objectives.dual[0] <= sampled.objectives.primal[0]
    np.testing.assert_array_equal(solve_nu(problem, limits).dual, sampled.dual)


@pytest.mark.parametrize("machine", MACHINES)
def test_limits_leave_feasible_coefficients(machine):
    problem = problem_of(machine, 0.3, n=1500)
    found = solve_nu(problem, Limits(tol=1e-12, max_iter=1))
    assert found.status == "max_iter" and 1e-12 < found.objectives.worst_gap < np.inf
    for rows, mass in problem.parts:
        np.testing.assert_allclose(found.dual[0, rows].sum(), mass, rtol=1e-9)


def test_classes_without_a_margin_end_early():
    X, weights, _, _ = data(0, 700)
    labels = np.where(np.random.default_rng(1).random(700) < 0.5, 1.0, -1.0)
    problem = NuProblem.of_labels(KernelMatrix.of(X[:, :2], RBF), labels, weights, 0.1)
    found = solve_nu(problem, Limits(tol=1e-3))
    assert found.status == "precision" and "overlap" in found.reason and found.passes < 200
