"""The machine that a site trains, against LIBLINEAR."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.svm import LinearSVC

from dimargin.problems.hinge import HingeRows
from dimargin_bench.gossip_rivals.hinge_machine import HingeMachine


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(700, 6, n_informative=4, n_classes=3, random_state=0)
    return HingeRows(X, np.where(y == np.arange(3)[:, None], 1.0, -1.0))


@pytest.mark.parametrize("sparse", [False, True])
def test_weights_are_those_of_liblinear(rows, sparse):
    own = HingeRows(sp.csr_array(rows.X) if sparse else rows.X, rows.signs)
    machine = HingeMachine.of(own, 0.05, tol=1e-8)
    for weights, dual, signs in zip(machine.weights, machine.dual, rows.signs, strict=True):
        other = LinearSVC(loss="hinge", C=0.05, fit_intercept=False, tol=1e-9, max_iter=10**6).fit(rows.X, signs)
        assert_allclose(weights, other.coef_[0], atol=2e-4)
        assert_allclose(rows.X.T @ (signs * dual), weights, atol=1e-12)
        assert dual.min() >= 0 and dual.max() == pytest.approx(0.05)


def test_a_start_leads_to_the_same_machine(rows):
    machine = HingeMachine.of(rows, 0.05, tol=1e-8)
    some = HingeMachine.of(HingeRows(rows.X[:500], rows.signs[:, :500]), 0.05)
    longer = some.extended(700)
    assert_array_equal(longer.dual[:, 500:], 0.0)
    assert_array_equal(longer.weights, some.weights)
    assert_allclose(HingeMachine.of(rows, 0.05, longer.dual, 1e-8).weights, machine.weights, atol=2e-4)


def test_no_rows_and_rows_of_one_class():
    none = HingeMachine.of(HingeRows(np.zeros((0, 2)), np.zeros((1, 0))), 1.0)
    assert none.weights.tolist() == [[0.0, 0.0]] and none.dual.shape == (1, 0)
    alone = HingeMachine.of(HingeRows(np.array([[2.0, 0.0]]), np.array([[-1.0]])), 100.0)
    assert_allclose(alone.weights, [[-0.5, 0.0]])  # margin one
