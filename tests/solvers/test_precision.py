"""What the exact solver claims, against its own dual coefficients in float64; where single precision would not do."""

import time

import judge
import numpy as np
import pytest
from helpers import HINGE, KERNELS, LOSSES, ODM, blobs, certificate, fit, make_problem, name
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.kernels.functions import Kernel
from dimargin.problems.losses import HingeLoss, ODMLoss, SquaredHingeLoss
from dimargin.solvers import (
    BlockCoordinateDescent,
    block_coordinate_descent,
    newton_switch,
    precision,
    single_precision,
)
from dimargin.solvers.precision import continue_in_float64
from dimargin.solvers.stopwatch import Stopwatch

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=name)
RBF = Kernel("rbf", gamma=1.0)


@pytest.mark.slow_after(1)
@every_kernel
@pytest.mark.parametrize("loss", [*LOSSES, ODMLoss(1e5, 0.3, 0.1), HingeLoss(1e3), SquaredHingeLoss(1e3)], ids=repr)
def test_the_certificate_is_honest(loss, kernel):
    n = 1500 if kernel.name == "rbf" else 700
    X, labels = blobs(n, seed=n)
    for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        problem = make_problem(X, labels, loss, kernel)
        solution = fit(problem, tol)
        primal, dual, gap = certificate(problem, solution.dual)
        assert solution.status == "converged" and gap[0] <= tol + 1e-9, tol
        assert gap[0] <= solution.objectives.worst_gap + 1e-12
        assert_allclose(solution.objectives.unrounded, gap, rtol=0.05, atol=1e-9)
        # the objectives themselves to a tenth of what the certificate leaves open
        assert_allclose(solution.objectives.primal, primal, rtol=max(1e-9, 0.1 * gap[0]))
        found, rounding = solution.objectives, solution.objectives.rounding * solution.objectives.primal
        assert_allclose(found.dual + rounding, dual, rtol=max(1e-9, 0.1 * gap[0]))
        assert found.dual <= dual * (1 + 1e-8)  # which numpy rounds too
        assert solution.history[-1]["relative_gap"] == solution.objectives.worst_gap


def test_the_sample_is_compared_some_columns_at_a_time(monkeypatch):
    """For memory; if a part went missing the margins would not be believed and float64 be paid for."""
    X, labels = blobs(900, n_outputs=2)
    whole = fit(make_problem(X, labels, ODM, RBF))
    monkeypatch.setattr(single_precision, "BOUND_SETTINGS", single_precision.BoundSettings(chunk_columns=100))
    parts = fit(make_problem(X, labels, ODM, RBF))
    assert parts.kernel_evaluations == whole.kernel_evaluations < 5 * 900**2
    assert_array_equal(parts.dual, whole.dual)


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e3], ids="{:g}".format)
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_hinge_from_near_rank_one_to_the_identity(C, gamma):
    X, labels = blobs(900)
    solution = fit(make_problem(X, labels, HingeLoss(C), Kernel("rbf", gamma=gamma)), tol=1e-7)
    assert solution.status == "converged" and solution.passes <= 40


@pytest.mark.parametrize(
    ("loss", "intercept"), [(HingeLoss(1e3), False), (HingeLoss(1e3), True), (SquaredHingeLoss(1e3), True)], ids=str
)
@pytest.mark.parametrize("kernel", KERNELS[:2], ids=name)
def test_a_kernel_of_low_rank_and_large_weight(kernel, loss, intercept):
    """Most directions of the dual are flat there, and most rows end at a bound."""
    X, labels = blobs(900)
    problem = make_problem(X, labels, loss, kernel, intercept=intercept)
    solution = fit(problem, tol=1e-7)
    assert solution.status == "converged" and certificate(problem, solution.dual)[2] <= 2e-7
    if not intercept:
        # how many passes hangs on rounding: up to 20 with AVX-512, 26 with AVX2, 21 without; few
        # rows take part in most
        assert solution.passes <= 40 and solution.kernel_evaluations <= 4 * 900**2


@pytest.mark.parametrize("scale", [10, 30, 100])
def test_single_precision_is_left_when_it_amplifies_its_rounding(scale):
    """Large kernel values, little curvature: float32 margins send the coefficients up to 1e22, step by step."""
    X, labels = blobs(900, n_features=10)
    problem = make_problem(np.round(scale * X), labels, ODMLoss(lam=2e6, upsilon=0.3, theta=0.6), Kernel("linear"))
    solution = fit(problem, tol=1e-5)
    gap = certificate(problem, solution.dual)[2]
    # a few blocks may do harm before a check sees it; how much depends on how this processor rounds
    assert solution.status == "converged" and solution.passes <= 8
    assert gap[0] <= 1.1e-5


@pytest.mark.parametrize(
    ("loss", "judged_loss"),
    [
        (HingeLoss(1e2), judge.Hinge(1e2)),
        (SquaredHingeLoss(1e2), judge.SquaredHinge(1e2)),
        (ODMLoss(1e4, 0.3, 0.1), judge.Odm(1e4, 0.3, 0.1)),
    ],
    ids=name,
)
@pytest.mark.parametrize("kernel", [Kernel("linear"), Kernel("poly", gamma=1.0, degree=3)], ids=name)
def test_rows_of_very_different_size(loss, judged_loss, kernel):
    X, labels = blobs(200)
    X *= 10 ** np.random.default_rng(0).uniform(-3, 1.5, size=(200, 1))
    problem = make_problem(X, labels, loss, kernel)
    solution = fit(problem, tol=1e-2)
    found = solution.objectives
    assert solution.status == "converged" and found.unrounded < 1e-9
    values = {"kernel": kernel.name, "gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0}
    exact = judge.Problem(X, labels, problem.weights, judged_loss, values)
    truth = judge.judge(exact, labels * solution.dual, np.zeros(1))
    gap = truth.gap[0] / truth.primal[0]
    # kernel values of poly reach 1e9, and the odm takes part at every row: what rounding does is
    # its gap
    assert gap < (1e-8 if kernel.name == "poly" and isinstance(loss, ODMLoss) else 1e-9)
    assert gap <= found.worst_gap and found.dual[0] <= truth.dual[0]


@every_loss
@pytest.mark.parametrize("n", [300, 800])
def test_a_tolerance_below_rounding_ends_and_says_so(loss, n):
    X, labels = blobs(n)
    solution = fit(make_problem(X, labels, loss, RBF), tol=1e-17)
    assert solution.status == "precision" and "1.00e-17" in solution.reason
    assert solution.objectives.unrounded < 1e-11 < 1e-10 > solution.objectives.worst_gap


def test_all_coefficients_at_their_bounds():
    """Nothing violates its condition, and the gap is rounding."""
    X, labels = blobs(700)
    problem = make_problem(X, labels, HingeLoss(1e-4), RBF)
    for start in (None, np.full((1, 700), 1e-4)):
        solution = fit(problem, tol=1e-17, start=start)
        assert_array_equal(solution.dual, 1e-4)
        assert solution.status == "precision"


def test_a_gap_of_zero_certifies_no_more_than_rounding_allows():
    problem = make_problem(np.ones((1, 1)), 1.0, HINGE, RBF)
    assert fit(problem, tol=1e-13).status == "converged"
    solution = fit(problem, tol=1e-17)
    assert (solution.status, solution.objectives.unrounded) == ("precision", 0.0)
    assert 1e-16 < solution.objectives.worst_gap < 1e-13


@pytest.mark.parametrize("tol", [1e-3, 5e-5])
def test_no_float64_pass_begins_that_the_time_limit_would_not_let_end(tol, monkeypatch):
    no_bounds = single_precision.BoundSettings(bound_values=0.0, bound_share=0.0)  # those of so few rows would suffice
    monkeypatch.setattr(single_precision, "BOUND_SETTINGS", no_bounds)
    X, labels = blobs(900)
    problem, left = make_problem(X, labels, SquaredHingeLoss(1e3), RBF), []
    for module in (precision, block_coordinate_descent, newton_switch):
        monkeypatch.setattr(module, "continue_in_float64", lambda state: left.append(state) or go_on(state))
    go_on = continue_in_float64
    fit(problem, tol=tol)
    assert left
    left.clear()
    solution = fit(problem, tol=tol, deadline=time.perf_counter() + 1e6)  # which leaves the time
    assert left and solution.status == "converged"
    left.clear()
    monkeypatch.setattr(precision, "FLOAT64_COST", 1e12)
    monkeypatch.setattr(Stopwatch, "min_seconds", 0.0)
    solution = fit(problem, tol=tol, max_iter=30, deadline=time.perf_counter() + 1e6)
    assert solution.status != "converged"  # float32 alone does not tell
    assert not left
    _, _, gap = certificate(problem, solution.dual)
    assert solution.objectives.rounding[0] > 0 and solution.objectives.worst_gap >= gap[0]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("C", [1e3, 1e5])
def test_squared_hinge_of_low_rank_stays_in_its_box(seed, C):
    """Steps on the primal leave it on their way."""
    X, labels = blobs(900, seed, n_features=8)
    solution = fit(make_problem(20 * X, labels, SquaredHingeLoss(C), Kernel("linear")), tol=1e-4)
    assert solution.status == "converged"
    assert solution.dual.min() == 0


@pytest.mark.parametrize("max_iter", [1, 2, 4])
@pytest.mark.parametrize(
    ("loss", "intercept"),
    [(HINGE, False), (HINGE, True), (SquaredHingeLoss(1.0), True), (ODM, False), (ODM, True)],
    ids=str,
)
def test_rounding_counts_when_the_steps_end_early(loss, intercept, max_iter):
    """What float32 has done to the objectives is bounded once, at the end, whatever ends the solve."""
    X, labels = blobs(900)
    problem = make_problem(X, labels, loss, RBF, intercept=intercept)
    solution = fit(problem, tol=1e-9, max_iter=max_iter)
    assert solution.status == "max_iter"
    primal, dual, gap = certificate(problem, solution.dual)
    found = solution.objectives
    assert 0 < found.rounding[0] < 0.02 * found.unrounded[0]
    assert found.relative_gap[0] >= gap[0] - 1e-12
    assert found.dual[0] <= dual[0] + 1e-12 * primal[0]


@pytest.mark.parametrize("n, C, share, seed", [(60, 1e6, 0.9, 1), (60, 1e6, 0.7, 1), (20, 1e4, 0.9, 0)])
def test_what_float64_rounds_counts_where_float32_rounds_nothing(monkeypatch, n, C, share, seed):
    """Kernel values of equal rows are ones in either, and margins sums of the same numbers, none of which tells."""
    monkeypatch.setattr(BlockCoordinateDescent, "small", 4)
    rng = np.random.default_rng(seed)
    labels, weights = np.where(rng.random(n) < share, 1.0, -1.0), rng.uniform(0.5, 2.0, n)
    found = fit(make_problem(np.ones((n, 1)), labels, HingeLoss(C), RBF, weights), tol=0.1, max_iter=20)
    dual = np.longdouble(found.dual[0])
    margins = labels * (labels @ dual)
    half = dual @ margins / 2
    primal = half + C * (weights * np.maximum(1 - margins, 0)).sum()
    assert abs(found.objectives.primal[0] - primal) <= found.objectives.worst_gap * primal
    assert found.objectives.dual[0] <= dual.sum() - half


@pytest.mark.filterwarnings("error")
def test_kernel_values_near_the_end_of_float32_end_without_a_warning(monkeypatch):
    """Coefficients go to infinity on the way."""
    monkeypatch.setattr(BlockCoordinateDescent, "small", 4)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, labels = rng.normal(size=(22, 3)) * [0.02, 400.0, 0.1], np.where(rng.random(22) < 0.7, 1.0, -1.0)
        problem = make_problem(X, labels, SquaredHingeLoss(1.8), Kernel("poly", gamma=2.0, degree=3, coef0=1.0))
        found = fit(problem, tol=0.1, max_iter=20)
        assert np.isfinite(found.dual).all() and np.isfinite(found.objectives.primal).all()
