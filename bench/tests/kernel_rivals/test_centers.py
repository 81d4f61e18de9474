"""LLSVM and LTPU: limit cases, and recomputation."""

import numpy as np
import pytest
from helpers import blobs
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from dimargin import SVMClassifier
from dimargin_bench.kernel_rivals import LLSVM, LTPU
from dimargin_bench.kernel_rivals.centers import centers

C, GAMMA = 2.0, 0.5


@pytest.fixture(scope="module")
def rows():
    X, labels = blobs(600)
    return X, labels[0]


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_llsvm_with_all_rows_as_centres_is_the_kernel_machine(rows, loss):
    """Up to the eigenvalues that are left out; repeated rows are one centre."""
    X, y = (np.concatenate([part, part[:40]]) for part in rows)
    machine = LLSVM(n_centers=len(X), C=C, gamma=GAMMA, loss=loss, tol=1e-8, max_iter=100_000, random_state=0)
    machine.fit(X, y)
    exact = SVMClassifier(fit_intercept=False, loss=loss, C=C, gamma=GAMMA, tol=1e-8).fit(X, y)
    assert len(machine.centers_) == 600
    assert_allclose(machine.decision_function(X), exact.decision_function(X), atol=1e-3)
    assert_array_equal(machine.predict(X), exact.predict(X))


def test_llsvm_features_have_the_nystrom_kernel_as_inner_products(rows):
    X, y = rows
    machine = LLSVM(n_centers=60, C=C, gamma=GAMMA, random_state=0).fit(X, y)
    E, cross = rbf_kernel(machine.centers_, gamma=GAMMA), rbf_kernel(X, machine.centers_, gamma=GAMMA)
    features = machine._features(X)
    assert_allclose(features @ features.T, cross @ np.linalg.solve(E, cross.T), atol=1e-6)


def test_llsvm_leaves_out_directions_that_are_rounding(rows):
    X, y = rows
    machine = LLSVM(n_centers=60, gamma=1e-4, random_state=0).fit(X, y)
    assert machine.map_.shape[1] < 60
    assert np.isfinite(machine.map_).all()


def test_ltpu_is_a_linear_machine_on_its_units(rows):
    X, y = rows
    machine = LTPU(n_centers=30, C=C, gamma=GAMMA, random_state=0).fit(X, y)
    units = np.exp(-GAMMA * ((X[:, None] - machine.centers_) ** 2).sum(axis=2))
    expected = LinearSVC(C=C, dual=False, fit_intercept=False).fit(units, y)
    assert_allclose(machine.decision_function(X), expected.decision_function(units), atol=1e-3)


def test_centres_are_nearly_the_means_of_the_rows_that_are_nearest_to_them(rows):
    X, _ = rows
    found = centers(X, 20, 0)
    nearest = ((X[:, None] - found) ** 2).sum(axis=2).argmin(axis=1)
    means = np.array([X[nearest == k].mean(axis=0) for k in range(20)])
    assert np.linalg.norm(means - found, axis=1).max() < 0.2  # few iterations, so nearly
