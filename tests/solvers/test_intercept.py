"""Problems with an unregularised intercept, against LIBSVM and an interior-point method."""

import numpy as np
import pytest
from helpers import (
    HINGE,
    KERNELS,
    LOSSES,
    ODM,
    blobs,
    certificate,
    fit,
    gram,
    interior_point_optimum,
    make_problem,
    name,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from sklearn.svm import SVC

from dimargin.kernels.functions import Kernel
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import HingeLoss

RBF = Kernel("rbf", gamma=1.0)
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)


@pytest.mark.parametrize("n", [60, 512, 1500])
@pytest.mark.parametrize("kernel", KERNELS[:3], ids=name)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_libsvm_solves_the_same_problem(n, kernel, C):
    X, labels = blobs(n)
    X += 0.3
    weights = np.random.default_rng(0).uniform(0.5, 2, n)
    problem = make_problem(X, labels, HingeLoss(C), kernel, weights, intercept=True)
    solution = fit(problem, tol=1e-8)
    svc = SVC(kernel="precomputed", C=C, tol=1e-6).fit(gram(problem), labels[0], sample_weight=weights)
    dual = np.zeros(n)
    dual[svc.support_] = np.abs(svc.dual_coef_[0])
    ours, theirs = certificate(problem, solution.dual), certificate(problem, dual[None])
    assert solution.status == "converged" and ours[2] <= 2e-8
    assert ours[1] >= theirs[1] * (1 - 1e-7)
    decision = labels[0] * solution.margins[0] + solution.objectives.intercept
    assert_allclose(decision, svc.decision_function(gram(problem)), atol=2e-3 * max(1, C))


@pytest.mark.slow_after(1)
@each_loss
@pytest.mark.parametrize("n", [100, 700])
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_the_optimum_of_an_interior_point_method(loss, n, tol):
    X, labels = blobs(n, n_outputs=2)
    problem = make_problem(X, labels, loss, RBF, intercept=True)
    solution = fit(problem, tol=tol)
    primal, dual_objective, gap = certificate(problem, solution.dual)
    assert_allclose(primal, solution.objectives.primal, rtol=max(1e-9, 0.1 * tol))
    assert (gap <= 1.1 * tol).all()
    for q in range(2):
        best = interior_point_optimum(problem, q)
        slack = 1e-6 * best
        assert dual_objective[q] <= best + slack and primal[q] >= best - slack
        assert primal[q] - best <= tol * primal[q] + slack


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 40),
    share=st.floats(0, 1),
    loss=st.sampled_from(LOSSES),
)
def test_the_intercept_minimises_the_primal(seed, n, share, loss):
    rng = np.random.default_rng(seed)
    y, f = np.where(rng.random(n) < share, 1.0, -1.0), rng.normal(size=n).round(1) * 3
    weights = rng.uniform(0.2, 3, n).round(1)
    conjugate = loss.conjugate(weights, 1.0, 1.0)

    def primal(b):
        return loss.value(y * (f + b), weights, 1.0, 1.0).sum()

    b = loss.best_intercept(f, y, conjugate)
    by_search = minimize_scalar(primal, bounds=(-20, 20), method="bounded", options={"xatol": 1e-10})
    assert primal(b) <= by_search.fun + 1e-8


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1000, 5000), share=st.floats(0, 1), ties=st.integers(0, 3))
def test_the_hinge_has_a_flat_primal_at_the_intercept_of_many_rows(seed, n, share, ties):
    """Its slopes on both sides, by definition, enclose zero."""
    rng = np.random.default_rng(seed)
    y, f = np.where(rng.random(n) < share, 1.0, -1.0), rng.normal(size=n).round(ties)
    f[rng.random(n) < 0.1] *= 1000.0
    weights = np.minimum(rng.pareto(0.3, n), 1e6) + 1e-3  # few rows have nearly all weight, and samples miss them
    b = HINGE.best_intercept(f, y, HINGE.conjugate(weights, 1.0, 1.0))
    kinks, error = y - f, 1e-9 * weights.sum()
    near = 1e-9 * (1 + np.abs(kinks))
    at = np.abs(kinks - b) <= near
    slope = weights[(y < 0) & (kinks < b) & ~at].sum() - weights[(y > 0) & (kinks > b) & ~at].sum()
    assert slope - weights[at & (y > 0)].sum() <= error and slope + weights[at & (y < 0)].sum() >= -error


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), share=st.floats(0, 1), loss=st.sampled_from([HINGE, ODM]))
def test_feasible_coefficients_are_in_the_box_and_sum_to_zero(seed, n, share, loss):
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random((2, n)) < share, 1.0, -1.0)
    problem = make_problem(rng.normal(size=(n, 2)), labels, loss, RBF, rng.uniform(0.5, 2, n), intercept=True)
    dual = problem.feasible(rng.normal(size=(2, n)) * 3)
    assert (dual >= problem.conjugate.lower).all() and (dual <= problem.conjugate.upper).all()
    assert_allclose((labels * dual).sum(axis=1), 0, atol=1e-12)
    assert_allclose(problem.feasible(dual), dual, atol=1e-12)


@each_loss
@pytest.mark.parametrize("n", [40, 700])
def test_one_class_alone(loss, n):
    """A part of the rows may be of one class: nothing moves, and the intercept alone is right everywhere."""
    X, _ = blobs(n)
    for sign in (1.0, -1.0):
        problem = make_problem(X, np.full((1, n), sign), loss, RBF, intercept=True)
        solution = fit(problem)
        assert solution.status == "converged" and not solution.dual.any()
        assert solution.objectives.primal == 0 and sign * solution.objectives.intercept >= 1 - getattr(loss, "theta", 0)


@each_loss
def test_a_start_is_made_feasible_and_saves_work(loss):
    X, labels = blobs(900)
    problem = make_problem(X, labels, loss, RBF, intercept=True)
    cold = fit(problem, tol=1e-5)
    again = fit(problem, tol=1e-4, start=cold.dual)
    assert again.status == "converged" and again.kernel_evaluations < 0.7 * cold.kernel_evaluations
    skewed = fit(problem, tol=1e-4, start=cold.dual * np.where(labels > 0, 1.2, 0.9))
    assert skewed.status == "converged" and certificate(problem, skewed.dual)[2] <= 1.1e-4


@pytest.mark.parametrize("kernel", [Kernel("linear"), Kernel("poly", gamma=0.5, degree=1, coef0=1.0)], ids=name)
@pytest.mark.parametrize("C", [0.05, 0.15, 1.0, 10.0])
def test_the_sum_is_kept_where_the_kernel_is_of_low_rank(kernel, C):
    """Flat directions of the dual: steps along them are long, cancel, and used to leave the equality by a third."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, weights = rng.normal(size=(60, 3)), rng.uniform(0.5, 2, 60)
        labels = np.where(X[:, :1].T + rng.normal(size=(1, 60)) > 0, 1.0, -1.0)
        problem = make_problem(X, labels, HingeLoss(C), kernel, weights, intercept=True)
        solution = fit(problem)
        assert solution.status == "converged"
        assert abs((labels * solution.dual).sum()) <= 1e-13 * solution.dual.sum()
        libsvm = SVC(C=C, kernel="precomputed", tol=1e-8).fit(gram(problem), labels[0], weights)
        a = np.zeros(60)
        a[libsvm.support_] = libsvm.dual_coef_[0]
        margins = labels[0] * (gram(problem) @ a + libsvm.intercept_)
        primal = 0.5 * a @ gram(problem) @ a + C * weights @ np.maximum(1 - margins, 0)
        assert solution.objectives.primal[0] <= primal * (1 + 1e-9)


@pytest.mark.parametrize("loss", [HINGE, ODM], ids=name)
@pytest.mark.parametrize("drift", [1e-12, 1e-9, 1e-3, 1.0])
def test_a_point_that_is_not_feasible_is_moved_before_it_is_certified(drift, loss):
    X, labels = blobs(200, n_outputs=2)
    problem = make_problem(X, labels, loss, RBF, intercept=True)
    problem = DualProblem.of(problem, problem.kernel.in_float64())
    solution = fit(problem)
    dual = solution.dual.copy()
    dual[:, 3] += drift
    near, margins = problem.at_feasible(dual, problem.margins(dual))
    assert (near >= problem.conjugate.lower).all() and (near <= problem.conjugate.upper).all()
    assert np.abs((labels * near).sum(axis=1)).max() <= 1e-13 * np.abs(near).sum()
    assert_allclose(margins, problem.margins(near), atol=1e-9)
    assert (np.count_nonzero(near != dual, axis=1) <= (3 if drift < 1e-4 else 200)).all()
    assert problem.at_feasible(near, margins)[0] is near
    # and what nobody has moved is charged for: the bound of the optimum stays one
    charged = problem.objectives(dual, problem.margins(dual))
    assert (charged.dual <= solution.objectives.primal).all()


def test_a_coefficient_outside_its_box_certifies_nothing():
    X, labels = blobs(50)
    problem = make_problem(X, labels, HINGE, RBF)
    dual = fit(problem).dual
    dual[0, 0] = problem.conjugate.upper[0] * (1 + 1e-9)
    found = problem.objectives(dual, problem.margins(dual))
    assert found.worst_gap == np.inf and found.dual == -np.inf
