"""The layout of the coefficients of one against one."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.svm import SVC
from sklearn.utils.multiclass import _ovr_decision_function

from dimargin.problems.one_vs_one import pair_numbers, pairs_of, slots_of, smallest_of, votes_of


@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_layout_is_that_of_svc(n_classes):
    X, y = make_blobs(40 * n_classes, 3, centers=n_classes, cluster_std=3.0, random_state=0)
    svc = SVC(kernel="linear", C=0.1, decision_function_shape="ovo").fit(X, y)
    ends = np.cumsum(svc.n_support_)
    products, numbers = X @ svc.support_vectors_.T, pair_numbers(n_classes)
    values = np.zeros((len(X), len(pairs_of(n_classes)))) + svc.intercept_
    for own, first, end in zip(numbers, np.r_[0, ends], ends, strict=False):
        values[:, own] += products[:, first:end] @ svc.dual_coef_[:, first:end].T
    np.testing.assert_allclose(values, svc.decision_function(X), atol=1e-9)


def test_every_coefficient_belongs_to_one_pair():
    assert [tuple(pair) for pair in pairs_of(4)] == list(combinations(range(4), 2))
    bounds, taken = [0, 2, 3, 6, 7], np.zeros((3, 7), dtype=int)
    rows = [slice(*ends) for ends in pairwise(bounds)]
    for pair, slots in zip(pairs_of(4), slots_of(pairs_of(4)), strict=True):
        for c, slot in zip(pair, slots, strict=True):
            taken[slot, rows[c]] += 1
    assert (taken == 1).all()


@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_smallest_value_of_a_class_against_another_one(n_classes):
    values = np.random.default_rng(0).normal(size=(n_classes * (n_classes - 1) // 2, 50))
    against = np.full((50, n_classes, n_classes), np.inf)
    for (a, b), found in zip(combinations(range(n_classes), 2), values, strict=True):
        against[:, a, b], against[:, b, a] = -found, found
    scores = smallest_of(values, pair_numbers(n_classes))
    np.testing.assert_array_equal(scores, against.min(axis=2))
    votes = votes_of(values, pair_numbers(n_classes))
    wins = (scores > 0).any(axis=1)
    assert 0 < wins.mean() < 1 and (votes.argmax(axis=1) == scores.argmax(axis=1))[wins].all()


@pytest.mark.parametrize("n_classes", [3, 4, 30])
def test_votes_are_those_of_scikit_learn(n_classes):
    rng = np.random.default_rng(n_classes)
    values = rng.normal(size=(n_classes * (n_classes - 1) // 2, 200)) * 10.0 ** rng.integers(-3, 3, 200)
    values[rng.uniform(size=values.shape) < 0.2] = 0.0  # ties are for the first class of a pair
    expected = _ovr_decision_function(values.T > 0, values.T, n_classes)
    np.testing.assert_array_equal(votes_of(values, pair_numbers(n_classes)), expected)
    # as in predictions of one row each; values of the same size, so that the order of a sum shows
    values = np.random.default_rng(0).normal(size=values.shape)
    together = votes_of(values, pair_numbers(n_classes))
    one_by_one = [votes_of(np.ascontiguousarray(row[:, None]), pair_numbers(n_classes)) for row in values.T]
    np.testing.assert_array_equal(np.concatenate(one_by_one), together)
