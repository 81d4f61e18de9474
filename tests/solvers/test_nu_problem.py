"""Nu problems of two classes and with targets, against an interior point method and on several samples."""

import nu_objectives as exact
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.solvers import nu_problem
from dimargin.solvers.loop import Limits
from dimargin.solvers.nu_problem import NuProblem

RBF = Kernel("rbf", gamma=0.5)


def problem_of(seed, nu, n=50, C=None):
    """A problem of overlapping classes, or with targets, and its kernel values and weights."""
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n, 3)), rng.uniform(0.5, 2.0, n)
    labels = np.where(np.arange(n) % 2, 1.0, -1.0)
    X[:, 0] += labels
    targets = None if C is None else np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    ones = labels if C is None else np.ones(n)
    return NuProblem(KernelMatrix.of(X, RBF), ones, weights, nu, C, targets), exact.gram(X, X, "rbf", 0.5).astype(float)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.2, 0.5, 0.8]))
def test_classes(seed, nu):
    problem, K = problem_of(seed, nu)
    found, levels = problem.search(Limits(tol=1e-6))
    y, w, a = (problem.labels < 0).astype(int), problem.weights, found.coefficients
    best = exact.best_nu_svc(K, y, w, nu)
    primal, dual = found.objectives.primal[0], found.objectives.dual[0]
    assert dual <= best + 1e-8 * abs(best) and best <= primal + 1e-8 * abs(best)
    assert found.objectives.worst_gap <= 1e-6 and len(levels) == 2
    assert (a >= 0).all() and (a <= w).all()
    for sign in (1.0, -1.0):
        np.testing.assert_allclose(a[problem.labels == sign].sum(), nu * w.sum() / 2, rtol=1e-9)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.2, 0.5, 0.8, 1.0]), st.sampled_from([0.1, 10.0]))
def test_targets(seed, nu, C):
    problem, K = problem_of(seed, nu, C=C)
    found, levels = problem.search(Limits(tol=1e-6))
    best = exact.best_nu_svr(K, problem.targets, problem.weights, nu, C)
    primal, dual = found.objectives.primal[0], found.objectives.dual[0]
    assert dual <= best + 1e-7 * abs(best) and best <= primal + 1e-7 * abs(best)
    assert found.objectives.worst_gap <= 1e-6 and sum(levels) <= 1e-12
    assert abs(found.coefficients.sum()) <= 1e-9 * np.abs(found.coefficients).sum()


def test_feasibility_and_the_largest_coefficients():
    problem, _ = problem_of(0, 0.5, n=40)
    problem.weights = np.where(problem.labels > 0, 1.0, 3.0)  # Twenty rows each: 20 and 60.
    problem.total = 80.0
    assert problem.is_feasible
    problem.nu = 0.500001
    assert not problem.is_feasible
    np.testing.assert_allclose(problem.largest, np.ones(40))
    assert problem_of(0, 0.9, C=1.0)[0].is_feasible and problem_of(0, 0.9, C=1.0)[0].largest is None


@pytest.mark.parametrize("C", [None, 2.0])
def test_many_rows_begin_where_samples_end(monkeypatch, C):
    problem, _ = problem_of(1, 0.5, n=1200, C=C)
    plain = problem.search(Limits(tol=1e-3))[0]
    monkeypatch.setattr(nu_problem, "SAMPLE_ROWS", 100)
    sampled = problem.search(Limits(tol=1e-3))[0]
    assert plain.status == sampled.status == "converged"
    intervals = [(each.objectives.dual[0], each.objectives.primal[0]) for each in (plain, sampled)]
    assert max(low for low, _ in intervals) <= min(high for _, high in intervals)
    start, step = problem._start(Limits(tol=1e-3), 0)
    monkeypatch.setattr(nu_problem, "SAMPLE_ROWS", 10**6)
    guess, first = problem._start(Limits(tol=1e-3), 0)
    assert abs(start - sampled.at) < abs(guess - sampled.at) and step < first


def test_an_estimate_of_the_certificate_leaves_out_rounding():
    problem, _ = problem_of(2, 0.4)
    a = problem.search(Limits(tol=1e-6))[0].coefficients
    margins = problem.at(0.0).margins(a[None])[0]
    whole, estimate = problem.certify(a)[0], problem.certify(a, margins)[0]
    np.testing.assert_allclose(whole.primal, estimate.primal, rtol=1e-6)
    assert estimate.rounding <= whole.rounding
