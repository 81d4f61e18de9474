"""The dual problem and its certificate, against numpy."""

import numpy as np
import pytest
from helpers import KERNELS, LOSSES, blobs, certificate, gram, make_problem, name
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import HingeLoss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import Objectives

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)


def example(loss, kernel=KERNELS[2], n_outputs=2):
    X, labels = blobs(40, n_outputs=n_outputs)
    weights = np.random.default_rng(1).uniform(0.5, 3, 40)
    return make_problem(X, labels, loss, kernel, weights, mass=60.0, total=300.0)


def feasible(problem, seed=2):
    dual = np.random.default_rng(seed).normal(size=problem.labels.shape)
    return np.clip(dual, problem.conjugate.lower, problem.conjugate.upper)


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_margins(kernel):
    problem = example(LOSSES[0], kernel)
    dual = feasible(problem)
    dual[:, ::3] = 0
    expected = problem.labels * (problem.labels * dual @ gram(problem))
    assert_allclose(problem.margins(dual), expected, rtol=1e-5, atol=1e-4)
    assert problem.kernel.evaluations == 40 * 26  # columns without a coefficient cost nothing


@every_loss
def test_objectives(loss):
    problem = example(loss)
    exact = DualProblem.of(problem, problem.kernel.in_float64())
    dual = feasible(problem)
    objectives = exact.objectives(dual, exact.margins(dual))
    primal, dual_objective, gap = certificate(problem, dual)
    assert_allclose(objectives.primal, primal, rtol=1e-10)
    assert_allclose(objectives.dual, dual_objective, rtol=1e-10)
    assert_allclose(objectives.relative_gap, gap, rtol=1e-10)
    assert objectives.worst_gap == max(objectives.relative_gap)


@every_loss
@given(seed=st.integers(0, 2**32 - 1))
def test_no_row_takes_from_the_gap(loss, seed):
    """For any dual coefficients and *any* margins: the gap cannot be hidden by cancellation."""
    problem = example(loss)
    margins = np.random.default_rng(seed).normal(scale=3, size=problem.labels.shape)
    dual = feasible(problem, seed)
    raw = loss.value(margins, problem.weights, 60.0, 300.0) + problem.conjugate.value(dual) + dual * margins
    assert raw.min() > -1e-12
    assert_allclose(problem.gaps(dual, margins), raw, atol=1e-12)


def test_gap_of_an_objective_that_is_zero():
    """All margins within the band, no coefficients: optimal, and nothing is divided by zero."""
    problem = example(LOSSES[0])
    nothing = np.zeros(problem.labels.shape)
    objectives = problem.objectives(nothing, np.ones_like(nothing))
    assert_array_equal(objectives.relative_gap, 0)
    assert Objectives.of(np.ones(2), np.array([0.5, 0.1]), np.zeros(2)).worst_gap == 0.5


def test_restrict_takes_rows_and_mass():
    problem = example(LOSSES[1])
    rows = np.array([30, 2, 11, 12])
    part = problem.restrict(rows, mass=7.0)
    assert (part.n_rows, part.mass, part.total) == (4, 7.0, 300.0)
    assert_array_equal(part.labels, problem.labels[:, rows])
    assert_array_equal(part.weights, problem.weights[rows])
    assert_allclose(part.kernel.block(np.arange(4), np.arange(4)), gram(problem)[np.ix_(rows, rows)], atol=1e-5)
    assert_allclose(part.conjugate.upper, 2.0 * 300.0 / 7.0 * problem.weights[rows])


def test_select_takes_outputs():
    problem = example(LOSSES[0], n_outputs=3)
    assert problem.select(np.arange(3)) is problem
    some = problem.select(np.array([2, 0]))
    assert_array_equal(some.labels, problem.labels[[2, 0]])
    assert some.kernel is problem.kernel


def test_a_mass_that_is_the_total_but_for_rounding_is_the_total():
    """Coefficients of the whole, times mass over total, must not be rounded again: their certificate was of others."""
    losses = MarginLosses(np.ones((1, 2)), np.ones(2), HingeLoss(1.0), np.nextafter(2.0, 3.0), 2.0)
    assert losses.mass == 2.0 and losses.of_rows(slice(1), np.nextafter(2.0, 1.0)).mass == 2.0
    assert losses.of_rows(slice(1), 1.0).mass == 1.0
