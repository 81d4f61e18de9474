"""Thresholded regression against the sign of the regression by hand."""

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.linear_model import ElasticNetCV, RidgeCV

from dimargin_bench.kernel_rivals import ThresholdedRegression


def test_the_answer_is_the_side_of_the_regression_on_signs():
    X, y = make_classification(300, 6, n_redundant=0, random_state=0)
    y = np.array(["no", "yes"])[y]
    by_hand = ElasticNetCV(l1_ratio=0.8).fit(X, np.where(y == "yes", 1.0, -1.0)).predict(X)
    machine = ThresholdedRegression(ElasticNetCV(l1_ratio=0.8)).fit(X, y)
    assert_allclose(machine.decision_function(X), by_hand)
    assert_array_equal(machine.predict(X), np.where(by_hand > 0, "yes", "no"))


def test_by_default_it_is_ridge_and_takes_sparse_rows():
    X, y = make_classification(200, 6, random_state=0)
    dense, sparse = (
        ThresholdedRegression().fit(form(X), y).decision_function(form(X)) for form in (np.array, sp.csr_array)
    )
    assert_allclose(dense, RidgeCV().fit(X, 2.0 * y - 1).predict(X))
    assert_allclose(sparse, dense, atol=1e-6)
