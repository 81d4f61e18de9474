"""The problem of some rows while others stay, against the problem of all rows in float64 numpy."""

from itertools import product

import numpy as np
import pytest
from helpers import HINGE, LOSSES, SQUARED_HINGE, blobs, certificate, fit, gram, make_problem, name
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dimargin.kernels.functions import Kernel
from dimargin.problems.inner import InnerProblem

N = 60
RBF = Kernel("rbf", gamma=1.0)
CASES = list(product(LOSSES, [False, True]))
every_case = pytest.mark.parametrize(("loss", "intercept"), CASES)


def example(loss, intercept, seed, n_outputs=1):
    """A problem, feasible coefficients of it, their margins, and some of its rows."""
    rng = np.random.default_rng(seed)
    X, labels = blobs(N, seed % 1000, n_outputs=n_outputs)
    whole = make_problem(X, labels, loss, RBF, rng.uniform(0.5, 2, N), intercept=intercept)
    whole = whole.with_kernel(whole.kernel.in_float64())
    dual = whole.feasible(coefficients(rng, loss, labels.shape) * (rng.random(labels.shape) < 0.7))
    rows = np.sort(rng.permutation(N)[: rng.integers(2, N)])
    return whole, dual, whole.margins(dual), rows


def coefficients(rng, loss, shape):
    """Random coefficients; those of the hinges are not negative."""
    drawn = rng.normal(size=shape)
    return drawn if loss is LOSSES[0] else np.abs(drawn)


def inner_of(whole, dual, margins, rows):
    sums = tuple(np.maximum(sign * whole.labels * dual, 0).sum(axis=1) for sign in (1, -1))
    objectives = whole.objectives(dual, margins)
    part = whole.restrict(rows, whole.mass)
    inner = InnerProblem.within(part, dual[:, rows], margins[:, rows], sums, objectives.reached)
    return inner, objectives.primal


def dual_objective(whole, dual):
    signed = whole.labels * dual
    quadratic = 0.5 * (signed * (signed @ gram(whole))).sum(axis=1)
    return -quadratic - whole.conjugate.value(dual).sum(axis=1)


@every_case
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_it_is_the_larger_problem_but_for_a_constant(loss, intercept, seed):
    whole, dual, margins, rows = example(loss, intercept, seed, n_outputs=2)
    inner, primal = inner_of(whole, dual, margins, rows)
    start = inner.objectives(dual[:, rows], margins[:, rows])
    assert_allclose(inner.margins(dual[:, rows]), margins[:, rows], atol=1e-9)
    assert_allclose(start.reached, dual_objective(whole, dual), atol=1e-9 * np.abs(primal).max())
    other = dual.copy()
    other[:, rows] = inner.feasible(coefficients(np.random.default_rng(seed), loss, other[:, rows].shape))
    reached = inner.objectives(other[:, rows], inner.margins(other[:, rows]))
    if intercept:
        others = np.setdiff1d(np.arange(N), rows)
        assert_allclose(inner.excess, (whole.labels * dual)[:, others].sum(axis=1), atol=1e-9 * np.abs(dual).sum())
        sums = (whole.labels * other).sum(axis=1)
        if np.abs(sums).max() > 1e-9 * np.abs(other).sum():
            return  # these rows cannot make up for the others
    rise = dual_objective(whole, other) - dual_objective(whole, dual)
    assert_allclose(reached.reached - start.reached, rise, atol=1e-8 * np.abs(primal).max())


@every_case
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_change_of_its_rows_improves_on_its_solution(loss, intercept, seed):
    """By the definition of a constrained optimum: random feasible changes never raise the dual objective of all."""
    whole, dual, margins, rows = example(loss, intercept, seed)
    inner, primal = inner_of(whole, dual, margins, rows)
    solution = fit(inner, 1e-10, dual[:, rows])
    assert solution.objectives.worst_gap <= 1e-9
    best = dual.copy()
    best[:, rows] = solution.dual
    reached, rng = dual_objective(whole, best), np.random.default_rng(seed)
    assert reached >= dual_objective(whole, dual) - 1e-9 * np.abs(primal)
    assert_allclose(solution.objectives.dual, reached - dual_objective(whole, dual) + inner_start(inner, dual, rows),
                    atol=1e-7 * np.abs(primal).max())  # fmt: skip
    for size in (1e-3, 1e-2, 1e-1, 1.0):
        other = best.copy()
        other[:, rows] = inner.feasible(best[:, rows] + size * rng.normal(size=(1, len(rows))))
        if intercept and np.abs((whole.labels * other).sum()) > 1e-9 * np.abs(other).sum():
            continue
        assert dual_objective(whole, other) <= reached + 1e-9 * np.abs(primal)


def inner_start(inner, dual, rows):
    return inner.objectives(dual[:, rows], inner.margins(dual[:, rows])).reached


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_all_rows_are_the_problem_itself(loss):
    whole, dual, margins, _ = example(loss, loss in (HINGE, SQUARED_HINGE), 3, n_outputs=2)
    inner, _ = inner_of(whole, dual, margins, np.arange(N))
    solution = fit(inner, 1e-8, dual)
    assert solution.objectives.worst_gap <= 1e-8
    assert certificate(whole, whole.feasible(solution.dual))[2].max() <= 2e-8
