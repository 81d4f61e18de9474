"""The exact solver against closed forms, an interior-point method and LIBLINEAR; its limits, starts and counts."""

import time
from itertools import product
from threading import Event

import numpy as np
import pytest
from helpers import (
    HINGE,
    KERNELS,
    LOSSES,
    SQUARED_HINGE,
    blobs,
    certificate,
    counted,
    fit,
    gram,
    interior_point_optimum,
    make_problem,
    name,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from sklearn.svm import LinearSVC

from dimargin.kernels.functions import Kernel
from dimargin.problems.losses import HingeLoss, ODMLoss, SquaredHingeLoss
from dimargin.solvers import BlockCoordinateDescent, Interrupted, Limits, solve
from dimargin.solvers.blocks import Schedule

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=name)
RBF = Kernel("rbf", gamma=1.0)


# ---- independent solutions -----------------------------------------------------------------------------------


@every_kernel
@pytest.mark.parametrize("n", [300, 1200])
def test_ridge_closed_form(kernel, n):
    """theta = 0, upsilon = 1 is least squares of the margins to one: (Q + W c / s) g = 1."""
    X, labels = blobs(n)
    weights = np.random.default_rng(0).uniform(0.5, 2, n)
    problem = make_problem(X, labels, ODMLoss(lam=1e3, upsilon=1.0, theta=0.0), kernel, weights)
    solution = fit(problem, tol=1e-9)
    diagonal = weights.sum() / 1e3 / weights
    exact = np.linalg.solve(labels.T * gram(problem) * labels + np.diag(diagonal), np.ones(n))
    assert solution.status == "converged"
    # what a gap implies where the dual is strongly convex
    assert np.sqrt(diagonal) @ (solution.dual[0] - exact) ** 2 <= 2e-9 * solution.objectives.primal[0]
    assert_allclose(solution.dual[0], exact, rtol=1e-8 if n <= 512 else 1e-2, atol=1e-3 * abs(exact).max())


RANDOM_LOSSES = {
    "odm": st.builds(ODMLoss, lam=st.floats(1, 1e4), upsilon=st.floats(0.1, 1), theta=st.floats(0, 0.6)),
    "hinge": st.builds(HingeLoss, C=st.floats(0.01, 1e2)),
    "squared hinge": st.builds(SquaredHingeLoss, C=st.floats(0.01, 1e2)),
}


@pytest.mark.parametrize("losses", RANDOM_LOSSES.values(), ids=RANDOM_LOSSES)
@given(data=st.data(), n=st.integers(1, 25), d=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_small_problems_are_exact_in_any_order(losses, data, n, d, seed):
    """Few integer coordinates: duplicates and duplicates of contradicting labels are common; one row too."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, d)).astype(float)
    labels, weights = rng.choice([-1.0, 1.0], size=n), rng.choice([0.5, 1.0, 3.0], size=n)
    loss, kernel = data.draw(losses), data.draw(st.sampled_from(KERNELS))
    mass = weights.sum() * data.draw(st.sampled_from([1.0, 2.5]))
    order = rng.permutation(n)
    problem = make_problem(X, labels, loss, kernel, weights, mass, total=4 * weights.sum())
    other = make_problem(X[order], labels[order], loss, kernel, weights[order], mass, 4 * weights.sum())
    solution, again = fit(problem, tol=1e-2), fit(other, tol=1e-2)
    optimum, hinge = interior_point_optimum(problem), isinstance(loss, HingeLoss)
    in_another = 1e-8 if hinge else 1e-10  # rounding leaves more of the hinge where the kernel matrix is singular
    for asked, found, bound in (problem, solution, 1e-10), (other, again, in_another):
        primal, dual, gap = certificate(asked, found.dual)
        assert found.status == "converged" and abs(gap[0]) < bound
        assert dual[0] == pytest.approx(optimum, rel=1e-8)
    if hinge:
        # many coefficients are optimal there, but all have the same margins: |w - w*|^2 is at most
        # twice the gap
        distance = 2 * (2 * in_another * primal[0]) ** 0.5 * gram(problem).diagonal().max() ** 0.5
        assert_allclose(again.margins[0], solution.margins[0][order], rtol=0, atol=distance + 1e-12)
        return
    # the same coefficients, but for swaps among rows that are equal in everything
    one, two = solution.dual[0], again.dual[0]
    one = one[np.lexsort((one, weights, labels, *X.T))]
    two = two[np.lexsort((two, weights[order], labels[order], *X[order].T))]
    assert_allclose(two, one, rtol=1e-10, atol=1e-10 * abs(one).max())


@pytest.mark.parametrize("loss", [HINGE, SQUARED_HINGE], ids=name)
@pytest.mark.parametrize("n", [400, 1000])
def test_liblinear(loss, n):
    X, labels = blobs(n)
    solution = fit(make_problem(X, labels, loss, Kernel("linear")), tol=1e-9)
    other = LinearSVC(
        C=loss.C, loss="hinge" if loss is HINGE else "squared_hinge", dual=True, fit_intercept=False, tol=1e-9,
        max_iter=1_000_000, random_state=0,
    ).fit(X, labels[0])  # fmt: skip
    w = other.coef_[0]
    xi = np.maximum(1 - labels[0] * (X @ w), 0)
    theirs = 0.5 * w @ w + loss.C * (xi.sum() if loss is HINGE else (xi**2).sum())
    assert solution.objectives.primal[0] == pytest.approx(theirs, rel=1e-6)
    assert_allclose((labels * solution.dual) @ X, [w], rtol=1e-3, atol=1e-3)


# ---- limits and starts ---------------------------------------------------------------------------------------


def hard(n=1500):
    X, labels = blobs(n)
    return make_problem(X, labels, ODMLoss(1e6, 0.1, 0.1), Kernel("rbf", gamma=2.0))


def zigzag(n=1100):
    """Its gap leaps up and down."""
    X, labels = blobs(n, n_features=8)
    return make_problem(20 * X, labels, SquaredHingeLoss(1e3), Kernel("linear"))


def assert_certified(problem, solution, best_gap, slack):
    """The solution has the gap that its objectives claim, and that is the smallest one of the history."""
    gap = certificate(problem, solution.dual)[2]
    assert gap <= solution.objectives.relative_gap + 1e-12
    assert_allclose(gap, solution.objectives.unrounded, rtol=1e-3)
    assert_allclose(solution.objectives.unrounded, best_gap, rtol=slack)


@pytest.mark.parametrize("make", [hard, zigzag])
def test_max_iter_returns_the_best_so_far(make):
    problem = make()
    solution = fit(problem, tol=1e-4, max_iter=2)
    gaps = [entry["relative_gap"] for entry in solution.history]
    assert np.all(np.diff(gaps) <= 0)
    assert solution.status == "max_iter" and 2 <= solution.passes <= 3 and "max_iter=2" in solution.reason
    assert min(gaps) < gaps[0] and solution.objectives.rounding > 0
    assert_certified(problem, solution, min(gaps), 0.01)  # the objective is raised by its rounding


@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_a_deadline_returns_the_best_so_far(tol):
    problem = hard()
    start = fit(problem, tol=0.5).dual
    solution = fit(problem, tol, start, deadline=time.perf_counter())
    assert solution.status == "max_time" and "time" in solution.reason
    assert_array_equal(solution.dual, start)
    assert_certified(problem, solution, certificate(problem, start)[2], 1e-3)


@pytest.mark.parametrize("make", [hard, zigzag])
def test_an_interrupt_returns_the_best_so_far(make):
    problem, gaps, interrupted = make(), [1.0], Event()

    def when_the_gap_has_risen(entry):
        gaps.append(entry["relative_gap"])  # the smallest so far
        if gaps[-1] == gaps[-2] < 1:
            interrupted.set()

    solution = fit(problem, tol=1e-9, interrupted=interrupted, stop_requested=when_the_gap_has_risen, max_iter=20)
    assert solution.status == "stopped" and "interrupted" in solution.reason
    assert len(solution.history) == len(gaps) - 1
    assert_certified(problem, solution, gaps[-1], 0.01)


def test_a_callback_stops_and_a_cancelled_fit_raises():
    problem, seen = hard(), []
    solution = fit(problem, stop_requested=lambda entry: seen.append(entry) or len(seen) == 4)
    assert solution.status == "stopped" and solution.history == seen and len(seen) == 4
    limits = Limits()
    cancelling = Limits(cancelled=limits.cancelled, stop_requested=lambda entry: limits.cancelled.set())
    with pytest.raises(Interrupted):
        solve(problem, BlockCoordinateDescent(), None, cancelling)


@every_loss
@pytest.mark.parametrize("n", [300, 1100])
def test_warm_starts(loss, n):
    X, labels = blobs(n)
    problem = make_problem(X, labels, loss, RBF)
    cold = fit(problem, tol=1e-5)
    warm = fit(problem, tol=1e-5, start=cold.dual)
    assert warm.status == "converged" and warm.passes == 1
    assert n <= 512 or (warm.history[0]["relative_gap"] <= 1e-5 and len(warm.history) == 1)
    garbage = np.random.default_rng(0).normal(scale=100, size=(1, n))  # outside the box, too
    other = fit(problem, tol=1e-5, start=garbage)
    assert other.status == "converged"
    assert other.objectives.primal[0] == pytest.approx(cold.objectives.primal[0], rel=2e-5)
    certificate(problem, other.dual)  # asserts that the coefficients are feasible


@pytest.mark.parametrize("loss, intercept", [*((loss, False) for loss in LOSSES), (HINGE, True), (LOSSES[0], True)])
def test_rows_whose_kernel_is_local_are_solved_along_neighbours(monkeypatch, loss, intercept):
    """The answer comes in the order of the question, and is the same for fewer kernel values."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (1500, 2)) * 12.0 + rng.normal(size=(1500, 2))  # sixteen groups, in no order
    labels = np.where(np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=(2, 1500)) > 0, 1.0, -1.0)
    problem = make_problem(X, labels, loss, RBF, rng.uniform(0.5, 2, 1500), intercept=intercept)
    tol = 1e-3
    plain = fit(problem, tol=tol)
    problem.kernel.local = True
    with counted(monkeypatch) as counts:
        local = fit(problem, tol=tol)
    assert local.status == "converged" and local.kernel_evaluations == sum(counts) < 0.5 * plain.kernel_evaluations
    assert_allclose(local.margins, labels * (labels * local.dual @ gram(problem)), atol=1e-4)
    primal, _, gap = certificate(problem, local.dual)
    assert_allclose(local.objectives.primal, primal, rtol=1e-4)
    assert (gap <= 1.05 * tol).all()
    assert_allclose(primal, plain.objectives.primal, rtol=2 * tol)
    warm = fit(problem, tol=tol, start=local.dual)
    assert warm.passes == 1 and warm.history[0]["relative_gap"] <= 1.05 * tol


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "loss, intercept", [*((loss, False) for loss in LOSSES), (SQUARED_HINGE, True), (LOSSES[0], True)]
)
def test_a_start_that_goes_too_far_is_shrunk_to_its_best_part(loss, intercept):
    X, labels = blobs(900, n_outputs=2)
    problem = make_problem(X, labels, loss, RBF, intercept=intercept)
    start = problem.feasible(np.array([[30.0], [0.1]]) * fit(problem, tol=1e-3).dual)
    solver = BlockCoordinateDescent()
    state = solver.init(problem, start, Limits())

    def dual_objective(share, q):
        return certificate(problem, np.where(np.arange(2)[:, None] == q, share * start, start))[1][q]

    iterate = state.iterate
    for q in range(2):
        best = minimize_scalar(lambda share, q=q: -dual_objective(share, q), bounds=(0, 1), method="bounded").x
        share = np.abs(iterate.dual[q]).sum() / np.abs(start[q]).sum()
        assert share == pytest.approx(best, abs=0.011) if best < 0.9 else share == 1.0
    assert_allclose(iterate.margins, problem.margins(iterate.dual), atol=1e-4)


# ---- weights, outputs, threads, counts -----------------------------------------------------------------------


@every_loss
def test_several_outputs_are_several_problems(loss):
    X, labels = blobs(900, n_outputs=3)
    together = fit(make_problem(X, labels, loss, RBF), tol=1e-8)
    assert together.status == "converged"
    for q in range(3):
        alone = fit(make_problem(X, labels[q], loss, RBF), tol=1e-8)
        assert together.objectives.primal[q] == pytest.approx(alone.objectives.primal[0], rel=2e-8)
        assert_allclose(together.margins[q], alone.margins[0], atol=1e-2)


@pytest.mark.parametrize("loss, intercept", list(product(LOSSES, [False, True])))
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_threads_do_not_change_a_bit(loss, intercept, n_outputs, tol):
    X, labels = blobs(1200, n_outputs=n_outputs)
    one, two = (fit(make_problem(X, labels, loss, RBF, n_threads=k, intercept=intercept), tol) for k in (1, 2))
    assert_array_equal(one.dual, two.dual)
    assert_array_equal(one.margins, two.margins)
    assert_array_equal(one.objectives.intercept, two.objectives.intercept)
    assert one.kernel_evaluations == two.kernel_evaluations


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_blocks_that_are_solved_ahead_are_those_that_would_be(monkeypatch, n_outputs, n_threads):
    X, labels = blobs(6000, n_outputs=n_outputs)
    problem = make_problem(X, labels, ODMLoss(1e4, 0.3, 0.1), RBF, n_threads=n_threads)
    with counted(monkeypatch) as counts:
        ahead = fit(problem)
    with monkeypatch.context() as patch, counted(patch) as alone_counts:
        patch.setattr(Schedule, "upcoming_block", lambda *_: None)
        alone = fit(problem)
    assert_array_equal(ahead.dual, alone.dual)
    assert_array_equal(ahead.margins, alone.margins)
    assert sum(alone_counts) < sum(counts) < 1.15 * sum(alone_counts)  # the first margins of a block ahead


@every_loss
@every_kernel
@pytest.mark.parametrize(("n", "tol"), [(300, 1e-3), (800, 1e-2), (800, 1e-6)])
def test_every_kernel_value_is_counted(monkeypatch, loss, kernel, n, tol):
    X, labels = blobs(n, n_outputs=2)
    problem = make_problem(X, labels, loss, kernel)
    for start in (None, np.full((2, n), 0.01)):  # twice, of one problem: what came before does not count
        with counted(monkeypatch) as counts:
            solution = fit(problem, tol, start)
        assert solution.kernel_evaluations == sum(counts) == solution.history[-1]["kernel_evaluations"]


@every_loss
@pytest.mark.parametrize("n", [200, 700])
def test_weight_two_is_a_row_twice(loss, n):
    X, labels = blobs(n)
    weights = np.where(np.arange(n) % 3, 1.0, 2.0)
    rows = np.repeat(np.arange(n), weights.astype(int))
    weighted = fit(make_problem(X, labels, loss, RBF, weights), tol=1e-9)
    repeated = fit(make_problem(X[rows], labels[:, rows], loss, RBF), tol=1e-9)
    assert weighted.objectives.primal == pytest.approx(repeated.objectives.primal, rel=2e-9)
    assert_allclose(weighted.margins[:, rows], repeated.margins, atol=1e-3)
