"""Core-sets that grow to the machine of all rows."""

import time
from itertools import pairwise

import numpy as np
import pytest
from helpers import HINGE, ODM, SQUARED_HINGE, blobs, make_problem, name

from dimargin.kernels.functions import Kernel
from dimargin.problems.dual import DualProblem
from dimargin.solvers import BlockCoordinateDescent, GrowingRows, Limits, solve
from dimargin.solvers.stopwatch import Stopwatch

RBF = Kernel("rbf", gamma=1.0)


def problem_of(n, loss=SQUARED_HINGE, n_outputs=1, **options):
    X, labels = blobs(n, n_outputs=n_outputs)
    return make_problem(X, labels, loss, RBF, **options)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("loss", [HINGE, SQUARED_HINGE, ODM], ids=name)
@pytest.mark.parametrize("n", [100, 3000])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_machine_of_all_rows(loss, n, n_outputs):
    """Of any loss, and an intercept, by another solver."""
    problem = problem_of(n, loss, n_outputs, intercept=True)
    grown = solve(problem, GrowingRows(BlockCoordinateDescent()), None, Limits(tol=1e-5))
    whole = solve(problem_of(n, loss, n_outputs, intercept=True), BlockCoordinateDescent(), None, Limits(tol=1e-6))
    assert grown.status == "converged" and grown.objectives.worst_gap <= 1e-5
    np.testing.assert_allclose(grown.objectives.primal, whole.objectives.primal, rtol=2e-5)
    precise = DualProblem.of(problem, problem.kernel.in_float64())
    np.testing.assert_allclose(grown.margins, precise.margins(grown.dual), atol=1e-4)


@pytest.mark.parametrize("intercept", [False, True])
def test_few_rows_come_in(intercept):
    problem = problem_of(4000, intercept=intercept)
    grown = solve(problem, GrowingRows(BlockCoordinateDescent()), None, Limits(tol=1e-3))
    whole = solve(problem_of(4000, intercept=intercept), BlockCoordinateDescent(), None, Limits(tol=1e-3))
    assert grown.history[-1]["relative_gap"] <= 1e-3  # of the core-set alone
    assert np.count_nonzero(grown.dual) <= np.count_nonzero(whole.dual)
    sizes = [entry["core_set"] for entry in grown.history]
    assert len(sizes) > 3 and max(b / max(a, 256) for a, b in pairwise(sizes)) <= 2.01
    assert grown.history[-1]["kernel_evaluations"] <= grown.kernel_evaluations


def test_a_warm_start_needs_no_second_round():
    problem = problem_of(3000)
    grown = solve(problem, GrowingRows(BlockCoordinateDescent()), None, Limits(tol=1e-3))
    again = solve(problem_of(3000), GrowingRows(BlockCoordinateDescent()), grown.dual, Limits(tol=1e-3))
    assert again.passes == 1 and len(again.history) == 1 and again.status == "converged"


def test_limits_end_with_what_there_is():
    problem = problem_of(3000)
    late = solve(problem, GrowingRows(BlockCoordinateDescent()), None, Limits(deadline=time.perf_counter()))
    assert late.status == "max_time" and not late.dual.any() and late.objectives.worst_gap == pytest.approx(1)
    one = solve(problem, GrowingRows(BlockCoordinateDescent()), None, Limits(max_iter=1))
    precise = DualProblem.of(problem, problem.kernel.in_float64())
    assert one.status == "max_iter" and one.passes == 1
    np.testing.assert_allclose(one.margins, precise.margins(one.dual), atol=1e-4)
    assert np.count_nonzero(one.dual) <= 256


def test_no_pass_is_begun_that_would_end_late():
    solver, limits = GrowingRows(BlockCoordinateDescent()), Limits(deadline=time.perf_counter() + 1000)
    state = solver.init(problem_of(3000), None, limits)
    solver.check(state)
    solver.step(state)
    before, state.stopwatch = state.dual.copy(), Stopwatch(1.0, 1)  # a pass would take weeks
    solver.check(state)
    solver.step(state)
    assert solver.verdict(state, solver.check(state))[0] == "max_time"
    np.testing.assert_array_equal(state.dual, before)
    state.is_late, state.is_complete = False, True
    assert solver.verdict(state, state.objectives)[0] == "max_time"
    state.stopwatch = Stopwatch()
    assert solver.verdict(state, state.objectives)[0] == "converged"


@pytest.mark.parametrize("weighted", [False, True])
def test_radii_are_those_of_the_ball(weighted):
    """History and verdict beside the formulas of docs/algorithms.md#core-set-machines."""
    weights = np.random.default_rng(0).uniform(0.5, 2, 2000) if weighted else None
    problem = problem_of(2000, weights=weights)
    grown = solve(problem, GrowingRows(BlockCoordinateDescent(), epsilon=0.01), None, Limits())
    y, g = problem.labels[0], grown.dual[0]
    values = problem.kernel.in_float64().block(np.arange(2000), np.arange(2000))
    products = np.outer(y, y) * values + np.diag(problem.conjugate.curvature_right)
    x, longest = g / g.sum(), products.diagonal().max()
    rho = x @ products @ x
    ratio = ((longest + rho - 2 * (products @ x).min()) / (longest - rho)) ** 0.5
    assert grown.status == "converged" and ratio <= 1.01 * (1 + 1e-6)
    assert grown.history[-1]["farthest"] == pytest.approx(ratio, rel=1e-5)
    assert np.count_nonzero(g) < 300


def test_rounding_is_said_once_no_row_outside_is_wanted():
    solver = GrowingRows(BlockCoordinateDescent(), epsilon=1e-14)
    state = solver.init(problem_of(1000), None, Limits())
    objectives = solver.check(state)
    state.ratio, state.tightening = 1 + 1e-12, 1e-7
    assert solver.verdict(state, objectives) is None
    state.is_complete = True
    assert solver.verdict(state, objectives)[0] == "precision"
