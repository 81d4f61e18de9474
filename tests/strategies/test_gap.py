"""The gap of the whole problem from the support vectors, shard by shard, against arithmetic of its own."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import HINGE, LOSSES, blobs, certificate, counted, fit, make_problem, name, scattered
from numpy.testing import assert_allclose, assert_array_equal
from trainings import RBF

from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.shards.parts import Part
from dimargin.solvers import Limits
from dimargin.solvers.loop import Interrupted
from dimargin.strategies import Facts, gap
from dimargin.strategies.gap import coefficients_of, whole_objectives


def support_of(problem, dual):
    """The support vectors as a piece of the whole."""
    part = Part(problem, np.arange(problem.n_rows), dual)
    return part.take(part.support, problem.total)


def seen(problem, dual, n_shards=4, n_threads=1):
    rows = scattered(problem, n_shards, n_threads=n_threads)
    return whole_objectives(rows, support_of(problem, dual), Facts.of(problem), Limits())


@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize("sparse", [False, True])
def test_it_is_that_of_all_rows_and_counted(monkeypatch, loss, sparse):
    X, labels = blobs(900, n_outputs=2)
    problem = make_problem(X, labels, loss, RBF, np.random.default_rng(0).uniform(0.5, 2, 900))
    dual = fit(problem, tol=0.1).dual
    given = problem
    if sparse:
        given = DualProblem.of(problem, KernelMatrix.of(sp.csr_array(X), RBF))
    with counted(monkeypatch) as counts:
        objectives, evaluations = seen(given, dual)
    primal, dual_objective, relative = certificate(problem, dual)
    assert_allclose(objectives.primal, primal, rtol=1e-10)
    assert_allclose(objectives.dual, dual_objective, rtol=1e-10)
    assert_allclose(objectives.relative_gap, relative, rtol=1e-8)
    assert evaluations == sum(counts) == 900 * np.count_nonzero(dual.any(axis=0))


@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize("scale", [1.0, 300.0])  # of rows that stretch the range of decision values
@pytest.mark.parametrize("seed", range(4))
def test_with_an_intercept_it_is_that_of_the_best(loss, scale, seed):
    X, labels = blobs(700, seed, n_outputs=2)
    labels[1, labels[0] > 0] = 1.0  # few of one class
    problem = make_problem(X, labels, loss, RBF, np.random.default_rng(seed).uniform(0.5, 2, 700), intercept=True)
    dual = problem.feasible(scale * fit(problem, tol=0.3).dual)
    dual[:, :5] *= 0.0
    dual = problem.feasible(dual)
    objectives, _ = seen(problem, dual)
    primal, dual_objective, _ = certificate(problem, dual)
    assert_allclose(objectives.primal, primal, rtol=1e-9)
    assert_allclose(objectives.dual, dual_objective, rtol=1e-9, atol=1e-9 * primal.max())


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_zooms_find_what_all_rows_together_say(monkeypatch, loss):
    # few intervals: only the last of many zooms is narrow
    monkeypatch.setattr(gap.InterceptSearch, "n_intervals", 8)
    monkeypatch.setattr(gap.InterceptSearch, "n_zooms", 24)
    X, labels = blobs(400, 3)
    problem = make_problem(X, labels, loss, RBF, intercept=True)
    dual = fit(problem, tol=0.1).dual
    margins = problem.margins(dual)
    objectives, _ = seen(problem, dual)
    exact = problem.objectives(dual, margins)
    assert_allclose(objectives.primal, exact.primal, rtol=1e-6)
    if loss is not HINGE:  # the best is one number
        assert_allclose(objectives.intercept, exact.intercept, atol=1e-5)


def test_where_all_decision_values_are_equal_the_intercept_is_between_the_classes():
    problem = make_problem(np.zeros((600, 2)), np.where(np.arange(600) % 3, 1.0, -1.0), HINGE, RBF, intercept=True)
    objectives, _ = seen(problem, np.zeros((1, 600)))
    assert objectives.primal[0] == pytest.approx(2 * 2.0 * 200)  # those of the smaller class, at b = 1
    assert objectives.intercept[0] == pytest.approx(1.0)


def test_shards_and_threads_change_nothing_but_the_order_of_sums():
    X, labels = blobs(900, n_outputs=2)
    problem = replace(make_problem(X, labels, HINGE, RBF), intercept=True)
    dual = fit(problem, tol=0.1).dual
    one, _ = seen(problem, dual)
    two, _ = seen(problem, dual, n_threads=2)
    other, _ = seen(problem, dual, n_shards=1)
    assert_array_equal(one.primal, two.primal)
    assert_array_equal(one.intercept, two.intercept)
    assert_allclose(one.primal, other.primal, rtol=1e-12)


def test_coefficients_find_their_rows():
    problem = make_problem(*blobs(10), HINGE, RBF)
    support = Part(problem, np.arange(10), np.arange(10.0)[None]).take(np.array([2, 5, 9]), 10.0)
    part = Part(problem, np.arange(10)).take(np.array([9, 0, 2, 4]), 10.0)
    assert_array_equal(coefficients_of(part, support), [[9.0, 0.0, 2.0, 0.0]])


def test_a_cancelled_fit_does_not_look_on(monkeypatch):
    monkeypatch.setattr(gap.Evaluation, "max_values_at_once", 1)
    problem, limits = make_problem(*blobs(2000), HINGE, RBF), Limits()
    support, multiplied = support_of(problem, np.ones((1, 2000))), []
    original = KernelMatrix.multiply

    def cancelling(*arguments):
        limits.cancelled.set()
        multiplied.append(len(arguments[-1]))
        return original(*arguments)

    monkeypatch.setattr(KernelMatrix, "multiply", cancelling)
    with pytest.raises(Interrupted):
        gap.evaluate_from(Part(problem, np.arange(2000)), (support, 1, limits))
    assert multiplied == [512]
