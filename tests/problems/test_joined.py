"""Problems that are certified together have the certificates of each alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers import HINGE, KERNELS, SQUARED_HINGE, blobs, certificate, name

from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.pieces import Pieces
from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.joined import JoinedProblems
from dimargin.problems.margin_losses import MarginLosses

BOUNDS = [0, 3, 60, 100]


def class_pairs(loss, kernel=KERNELS[2], intercept=True):
    weights = np.random.default_rng(1).uniform(0.5, 3, BOUNDS[-1])
    kernel = KernelMatrix.of(blobs(BOUNDS[-1])[0], kernel).in_float64()
    return ClassPairs(weights, np.array(BOUNDS), loss, intercept, kernel)


def coefficients(joined, seed=2):
    conjugate = joined.losses.conjugate
    dual = np.random.default_rng(seed).normal(size=len(joined.labels))
    return np.clip(dual, conjugate.lower, conjugate.upper)


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@pytest.mark.parametrize("loss", [HINGE, SQUARED_HINGE], ids=name)
@pytest.mark.parametrize("intercept", [True, False])
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
        # a little more, where one bound is for the most columns of all, or for weights of linear machines
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
    joined = JoinedProblems(losses, rows)
    for terms in (np.full(sum(sizes), 0.1), rng.uniform(0, 1, sum(sizes)), np.geomspace(1, 1e-8, sum(sizes))):
        for sum_, own in zip(joined.sums(terms), rows.split(terms), strict=True):
            assert abs(sum_ - math.fsum(own)) <= 16 * 2.0**-53 * math.fsum(own)
