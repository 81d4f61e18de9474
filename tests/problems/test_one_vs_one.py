"""The layout of the coefficients of one against one."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.svm import SVC

from dimargin.problems.one_vs_one import coefficients_of, pair_numbers, pairs_of, set_coefficients


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
    bounds, signed = [0, 2, 3, 6, 7], np.zeros((3, 7))
    rows = [slice(*ends) for ends in pairwise(bounds)]
    for number, pair in enumerate(pairs_of(4)):
        own = rows[pair[0]], rows[pair[1]]
        size = sum(part.stop - part.start for part in own)
        assert not coefficients_of(signed, pair, own).any()  # none was set by another pair
        set_coefficients(signed, pair, own, 10 * number + 1 + np.arange(size))
    for number, pair in enumerate(pairs_of(4)):
        values = coefficients_of(signed, pair, (rows[pair[0]], rows[pair[1]]))
        np.testing.assert_array_equal(values, 10 * number + 1 + np.arange(len(values)))
    assert (signed != 0).all()
