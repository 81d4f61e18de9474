"""Coordinate descent on the rows of a linear kernel gives the coefficients of a kernel machine."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import HingeLoss, ODMLoss, SquaredHingeLoss
from dimargin.solvers import ExactSolver, Limits, RowDescent, solve

STIFF = HingeLoss(100.0)
LOSSES = {"hinge": HingeLoss(0.7), "squared_hinge": SquaredHingeLoss(0.7), "odm": ODMLoss(50.0, 0.5, 0.3)}


def problem_of(loss="hinge", seed=0, n=120, d=30, n_outputs=1, intercept=True, scales=1.0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.2, random_state=rng, format="csr") * scales
    scores = rng.standard_normal((n_outputs, d)) @ X.T + noise * rng.standard_normal((n_outputs, n))
    labels, weights = np.where(scores > np.median(scores), 1.0, -1.0), rng.uniform(0.2, 3.0, n)
    kernel = KernelMatrix.of(sp.csr_array(X), Kernel("linear")).in_float64()
    total = float(weights.sum())
    return DualProblem(labels, weights, LOSSES.get(loss, STIFF), total, total, intercept, kernel=kernel)


def true_gaps(problem, solution):
    """Gap of the machine that the dual coefficients define, by the definition."""
    margins = problem.margins(solution.dual)
    intercept = solution.objectives.intercept
    assert solution.margins == pytest.approx(margins, abs=1e-10)
    primal = 0.5 * (solution.dual * margins).sum(axis=1) + problem.values(problem.shifted(margins, intercept)).sum(
        axis=1
    )
    dual = -0.5 * (solution.dual * margins).sum(axis=1) - problem.conjugate.value(solution.dual).sum(axis=1)
    return primal, dual


@given(
    loss=st.sampled_from(list(LOSSES)), seed=st.integers(0, 1000), n_outputs=st.integers(1, 3), intercept=st.booleans()
)
@settings(max_examples=30, deadline=None)
def test_the_coefficients_have_the_certificate(loss, seed, n_outputs, intercept):
    problem = problem_of(loss, seed, n_outputs=n_outputs, intercept=intercept)
    solution = solve(problem, RowDescent(ExactSolver()), None, Limits(tol=1e-4))
    primal, dual = true_gaps(problem, solution)
    assert solution.status == "converged" and solution.objectives.worst_gap <= 1e-4
    assert solution.objectives.primal == pytest.approx(primal, rel=1e-9)
    assert (primal - dual <= 1.0001e-4 * primal).all()
    if intercept:
        assert (problem.labels * solution.dual).sum(axis=1) == pytest.approx(0, abs=1e-9)
    other = solve(problem, ExactSolver(), None, Limits(tol=1e-8))
    assert (other.objectives.primal - primal <= 1e-7 * primal).all()
    assert (primal - other.objectives.primal <= 1e-4 * primal).all()


def test_the_result_is_one_iterate_even_if_the_last_is_worse():
    n_stopped = 0
    for seed in range(30):  # Rounding decides for which of them an iterate is worse.
        problem, gaps = problem_of("stiff", seed, n=40, n_outputs=3), []

        def is_no_better(entry, gaps=gaps):
            gaps.append(entry["relative_gap"])
            return len(gaps) > 1 and gaps[-1] == gaps[-2]

        solution = solve(problem, RowDescent(ExactSolver()), None, Limits(tol=1e-9, stop_requested=is_no_better))
        primal, dual = true_gaps(problem, solution)
        n_stopped += solution.status == "stopped" and solution.kernel_evaluations == 0
        assert solution.objectives.primal == pytest.approx(primal, rel=1e-9)
        assert solution.objectives.dual == pytest.approx(dual, rel=1e-7)
    assert n_stopped


@pytest.mark.parametrize("loss", list(LOSSES))
def test_newton_takes_over_where_columns_differ(loss):
    problem = problem_of(loss, n=700, scales=10.0 ** np.linspace(-2, 2, 30), noise=1000.0)
    solution = solve(problem, RowDescent(ExactSolver()), None, Limits(tol=1e-6))
    assert solution.status == "converged" and solution.kernel_evaluations == 0 and solution.passes <= 100
    primal, dual = true_gaps(problem, solution)
    assert (primal - dual <= 2e-6 * primal).all()


@pytest.mark.parametrize("d", [1100, 30])
def test_block_coordinate_descent_takes_over_where_many_columns_differ_or_few_rows_matter(d):
    problem = problem_of("hinge", n=700, d=d, scales=10.0 ** np.linspace(-2, 2, d))
    solution = solve(problem, RowDescent(ExactSolver()), None, Limits(tol=1e-6))
    assert solution.status == "converged" and solution.kernel_evaluations > 0
    assert solution.history[0]["kernel_evaluations"] == 0
    primal, dual = true_gaps(problem, solution)
    assert (primal - dual <= 2e-6 * primal).all()
    assert solution.passes <= 1000


def test_a_start_and_limits():
    problem = problem_of(n=300)
    solution = solve(problem, RowDescent(ExactSolver()), None, Limits(tol=1e-5))
    again = solve(problem, RowDescent(ExactSolver()), solution.dual, Limits(tol=1e-5))
    assert again.passes == 0 and again.status == "converged"
    late = solve(problem, RowDescent(ExactSolver()), None, Limits(tol=1e-5, deadline=time.perf_counter() - 1))
    assert late.status == "max_time" and np.isfinite(late.objectives.worst_gap)
    seen = []
    stopped = Limits(tol=1e-9, stop_requested=lambda entry: seen.append(entry) or len(seen) == 2)
    solution = solve(problem, RowDescent(ExactSolver()), None, stopped)
    assert solution.status == "stopped" and len(solution.history) == 2
    primal, dual = true_gaps(problem, solution)
    assert solution.objectives.primal == pytest.approx(primal, rel=1e-9)
    assert solution.objectives.dual == pytest.approx(dual, rel=1e-7)
