"""Kernel values of models: precise enough for the coefficients that they are multiplied with."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels

from dimargin import ODMClassifier, SVMClassifier
from dimargin.estimators.training_data import gamma_value

RNG = np.random.default_rng(0)
X = RNG.normal(size=(900, 2))
NOISY = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=900)
QUERIES = RNG.normal(size=(500, 2))
NOTICED = 0.01  # of the margin


def fitted(machine, y, X=X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a gap that is rounding, and of a limit
        return machine.fit(X, y)


def exact_values(machine, kernel, **parameters):
    K = pairwise_kernels(QUERIES, machine.support_vectors_, metric=kernel, **parameters)
    return K @ machine.dual_coef_[0] + machine.intercept_[0]


@pytest.mark.parametrize("lam", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("gamma", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("strategy", ["exact", "landmark"])
def test_steep_losses_and_wide_kernels(strategy, gamma, lam):
    options = {"n_landmarks": 300} if strategy == "landmark" else {}
    machine = ODMClassifier(strategy=strategy, gamma=gamma, lam=lam, max_iter=100, random_state=0, **options)
    fitted(machine, NOISY > 0)
    exact = exact_values(machine, "rbf", gamma=gamma)
    assert_allclose(machine.decision_function(QUERIES), exact, rtol=0, atol=NOTICED)


def test_large_kernel_values():
    machine = fitted(SVMClassifier(kernel="poly", gamma=3.0, degree=4, coef0=1.0, C=10.0, random_state=0), NOISY > 0)
    exact = exact_values(machine, "poly", gamma=3.0, degree=4, coef0=1.0)
    assert_allclose(machine.decision_function(QUERIES), exact, rtol=1e-3, atol=NOTICED)


def test_pairs_of_classes():
    y = np.digitize(NOISY, [-0.5, 0.5])
    machine = ODMClassifier(gamma=0.05, lam=1e9, multi_class="one_vs_one", random_state=0)
    fitted(machine, y)
    assert machine._transform.dtype is np.float64


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
@pytest.mark.parametrize("C", [0.01, 1.0, 1e6])
def test_the_objective_of_decision_values_is_certified(kernel, C):
    """In float32 the objective of decision values was up to thirty times the one that was certified."""
    labels = np.where(NOISY > 0, 1.0, -1.0)
    machine = SVMClassifier(C=C, kernel=kernel, gamma=0.1, coef0=1.0, tol=1e-4, random_state=0)
    fitted(machine, NOISY > 0)
    parameters = {"degree": 3, "coef0": 1.0} if kernel == "poly" else {}
    K = pairwise_kernels(machine.support_vectors_, metric=kernel, gamma=0.1, **parameters)
    losses = C * np.maximum(1 - labels * machine.decision_function(X), 0).sum()
    used = machine.dual_coef_[0] @ K @ machine.dual_coef_[0] / 2 + losses
    assert used <= machine.objective_ * (1 + 1e-6)
    assert used - machine.dual_objective_ <= (machine.duality_gap_ + 1e-6) * used


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
@pytest.mark.parametrize("C", [1.0, 1e5])
def test_labels_are_those_of_decision_values_however_near_zero(kernel, C):
    """Labels come from float32 where that is sure: rows of values within 1e-9 of zero are told apart in float64."""
    machine = fitted(SVMClassifier(C=C, kernel=kernel, gamma=0.5, tol=1e-2, random_state=0), NOISY > 0)
    positive = machine.decision_function(QUERIES) > 0
    inner, outer = QUERIES[positive][:150], QUERIES[~positive][:150]
    for _ in range(40):  # bisection along the ways from positive to negative rows
        middle = (inner + outer) / 2
        is_positive = (machine.decision_function(middle) > 0)[:, None]
        inner, outer = np.where(is_positive, middle, inner), np.where(is_positive, outer, middle)
    rows = np.concatenate([QUERIES, inner, outer])
    assert_array_equal(machine.predict(rows), machine.decision_function(rows) > 0)


@pytest.mark.parametrize("value", [1.0, 0.1, 3.0, 255.0])
@pytest.mark.parametrize("n_rows", [6, 40, 55])
def test_the_scale_of_equal_numbers_is_one(n_rows, value):
    """The rounding of their mean made a variance of 1e-32."""
    rows = np.full((n_rows, 3), value)
    for given in (rows, sp.csr_array(rows)):
        assert gamma_value("scale", given, np.ones(n_rows)) == 1.0
    rows[0] += 1e-3 * value
    for given in (rows, sp.csr_array(rows)):
        assert gamma_value("scale", given, np.ones(n_rows)) == pytest.approx(1 / (3 * rows.var()), rel=1e-5)
