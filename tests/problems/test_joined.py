"""Problems that are certified together have the certificates of each alone."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from helpers import HINGE, KERNELS, ODM, SQUARED_HINGE, blobs, certificate, name

from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.pieces import Pieces
from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.joined import JoinedProblems
from dimargin.problems.losses import ODMLoss
from dimargin.problems.margin_losses import MarginLosses

BOUNDS = [0, 3, 60, 100]
ODM_A_ROW = ODMLoss(lam=None, upsilon=0.4, theta=0.2)  # whose weight is not shared by the rows


def class_pairs(loss, kernel=KERNELS[2], intercept=True):
    weights = np.random.default_rng(1).uniform(0.5, 3, BOUNDS[-1])
    kernel = KernelMatrix.of(blobs(BOUNDS[-1])[0], kernel).in_float64()
    return ClassPairs(weights, np.array(BOUNDS), loss, intercept, kernel)


def coefficients(joined, seed=2):
    conjugate = joined.losses.conjugate
    dual = np.random.default_rng(seed).normal(size=len(joined.labels))
    return np.clip(dual, conjugate.lower, conjugate.upper)


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@pytest.mark.parametrize(
    ("loss", "intercept"),
    list(product([HINGE, SQUARED_HINGE, ODM, ODM_A_ROW], [False, True])),
)
def test_objectives(loss, intercept, kernel):
    pairs = class_pairs(loss, kernel, intercept)
    numbers = [2, 0, 1]
    joined = pairs.joined(numbers)
    dual = joined.feasible(coefficients(joined))
    margins, found = joined.objectives(pairs.kernel, dual)
    for k, number in enumerate(numbers):
        own, problem = joined.of(k), pairs.problem(pairs.pairs[number], 1)
        g = dual[None, own]
        np.testing.assert_allclose(margins[own], problem.margins(g)[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.intercept[k], problem.middle_intercepts(g, margins[None, own]), rtol=1e-12)
        alone = problem.objectives(g, margins[None, own], found.intercept[[k]])
        for values, own_values in zip(vars(found).values(), vars(alone).values(), strict=True):
            if values is not found.rounding:
                np.testing.assert_allclose(values[k], own_values[0], rtol=1e-9, atol=1e-9 * abs(alone.primal[0]))
        # a little more, where one bound is for the most columns of all, or for weights of linear
        # machines
        assert 0.99 * alone.rounding[0] <= found.rounding[k] <= 100 * alone.rounding[0] + 1e-12
        if not intercept:  # in numpy, without any of ours
            expected = np.ravel(certificate(problem, g)[:2])
            np.testing.assert_allclose([found.primal[k], found.dual[k]], expected, atol=1e-8 * expected[0])


def test_coefficients_become_feasible_problem_by_problem():
    pairs = class_pairs(HINGE)
    joined = pairs.joined([0, 1, 2])
    given = 3.0 * np.abs(coefficients(joined))
    found = joined.feasible(given)
    assert (found <= joined.losses.conjugate.upper).all() and (found >= 0).all()
    np.testing.assert_allclose(joined.sums(joined.labels * found), 0, atol=1e-12)
    for k, pair in enumerate(pairs.pairs):
        alone = pairs.problem(pair, 1).feasible(given[None, joined.of(k)])[0]
        np.testing.assert_allclose(found[joined.of(k)], alone, rtol=1e-12)
    np.testing.assert_array_equal(joined.feasible(found), found)


@pytest.mark.parametrize("loss", [HINGE, ODM, ODM_A_ROW], ids=name)
def test_problems_of_few_rows_are_those_of_all_with_coefficients_of_zero(loss):
    pairs = class_pairs(loss, intercept=False)
    few, all_rows = pairs.joined([2, 0], 20), pairs.joined([2, 0])
    signed = np.zeros((2, BOUNDS[-1]))
    signed[few.slots, few.rows.index] = few.labels * coefficients(few)
    dual = all_rows.coefficients(signed)
    assert few.rows.sizes.tolist() == [40, 23] and np.count_nonzero(dual) == np.count_nonzero(coefficients(few))
    part = np.isin(np.arange(len(dual)), np.flatnonzero(few_of_each(all_rows, 20)))
    np.testing.assert_array_equal(dual[part], coefficients(few))
    for whole, own in zip(all_rows.losses.conjugate.rows, few.losses.conjugate.rows, strict=True):
        np.testing.assert_allclose(whole[part], own, rtol=1e-14)


def few_of_each(joined, few):
    """Whether a row is one of the first of its class in its pair."""
    starts = np.r_[0, 1 + np.flatnonzero(np.diff(joined.labels) != 0)]
    return np.arange(len(joined.labels)) - np.repeat(starts, np.diff(np.r_[starts, len(joined.labels)])) < few


def test_coefficients_are_set_where_those_of_their_pair_are():
    pairs = class_pairs(HINGE)
    signed, joined = np.zeros((2, BOUNDS[-1])), pairs.joined([2, 0, 1])
    dual = joined.feasible(np.abs(coefficients(joined)))
    signed[joined.slots, joined.rows.index] = joined.labels * dual
    np.testing.assert_array_equal(joined.coefficients(signed), dual)
    for k, number in enumerate([2, 0, 1]):
        np.testing.assert_array_equal(pairs.joined([number]).coefficients(signed), dual[joined.of(k)])
        (a, b), (first, second) = pairs.pairs[number], pairs.rows(pairs.pairs[number])
        own = dual[joined.of(k)]
        np.testing.assert_array_equal(np.r_[-signed[b - 1, first], signed[a, second]], own)


def test_groups_are_of_bounded_work_and_rows():
    pairs = class_pairs(HINGE)  # of 60, 43 and 97 rows
    numbers = np.array([2, 0, 1])

    def groups(n_values, n_rows):
        return [group.tolist() for group in pairs.groups(numbers, n_values, n_rows)]

    assert groups(97**2 + 60**2 + 43**2, 200) == [[2, 0, 1]]
    assert groups(97**2 + 60**2 + 43**2 - 1, 200) == groups(10**6, 199) == [[2, 0], [1]]
    assert groups(60**2 + 43**2, 200) == groups(10**6, 103) == [[2], [0, 1]]  # one that is larger is alone
    assert groups(0, 0) == [[2], [0], [1]] and not pairs.groups(numbers[:0], 1, 1)


def test_coefficients_outside_of_their_box_have_no_certificate():
    pairs = class_pairs(HINGE)
    joined = pairs.joined([0, 1, 2])
    dual = joined.feasible(coefficients(joined))
    dual[joined.of(1)][0] = -1e-9
    _, found = joined.objectives(pairs.kernel, dual)
    assert np.isfinite(found.relative_gap).tolist() == [True, False, True]


def test_with_all_coefficients_at_a_bound_there_is_an_intercept():
    pairs = replace(class_pairs(HINGE), weights=np.repeat([19.0, 1.0, 1.425], [3, 57, 40]))  # classes weigh the same
    joined = pairs.joined([0, 1, 2])
    for bound in (joined.losses.conjugate.lower, joined.losses.conjugate.upper):
        _, found = joined.objectives(pairs.kernel, joined.feasible(np.array(bound)))
        assert np.isfinite(found.intercept).all() and np.isfinite(found.relative_gap).all()


def test_sums_are_as_exact_as_their_bound_of_rounding_expects():
    """`numpy.add.reduceat` adds by pairs; one after the other, 4,096 numbers err by hundreds of roundings."""
    rng = np.random.default_rng(0)
    sizes = [4096, 1, 4095, 2000]
    rows = Pieces.of([np.arange(size) for size in sizes])
    losses = MarginLosses(np.ones((1, sum(sizes))), np.ones(sum(sizes)), HINGE, 1.0, 1.0)
    joined = JoinedProblems(losses, rows, np.zeros(sum(sizes), dtype=np.int64))
    for terms in (np.full(sum(sizes), 0.1), rng.uniform(0, 1, sum(sizes)), np.geomspace(1, 1e-8, sum(sizes))):
        for sum_, own in zip(joined.sums(terms), rows.split(terms), strict=True):
            assert abs(sum_ - math.fsum(own)) <= 16 * 2.0**-53 * math.fsum(own)
