"""SVMPerf against LIBLINEAR's optimum, the promise of its epsilon, and the bound of its planes."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification
from sklearn.svm import LinearSVC

from dimargin_bench.kernel_rivals import SVMPerf


@pytest.fixture(scope="module")
def rows():
    return make_classification(600, 8, n_informative=5, n_clusters_per_class=1, class_sep=0.7, random_state=1)


def objective(X, y, w, alpha):
    return alpha / 2 * w @ w + np.maximum(0, 1 - (2 * y - 1) * (X @ w)).mean()


def liblinear(X, y, alpha):
    machine = LinearSVC(loss="hinge", C=1 / (alpha * len(y)), fit_intercept=False, tol=1e-8, max_iter=10**7)
    return machine.set_params(random_state=0).fit(X, y).coef_[0]


@pytest.mark.parametrize("alpha", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_the_objective_is_within_epsilon_and_the_planes_within_their_bound(rows, alpha, tol):
    X, y = rows
    machine = SVMPerf(alpha=alpha, tol=tol).fit(sp.csr_array(X), y)
    optimum = objective(X, y, liblinear(X, y, alpha), alpha)
    assert optimum - 1e-9 <= machine.objective_ <= optimum + tol + 1e-9
    assert machine.objective_ - tol - 1e-12 <= machine.dual_objective_ <= optimum + 1e-9
    assert machine.objective_ == pytest.approx(objective(X, y, machine.coef_[0], alpha))
    assert machine.n_iter_ <= max(2 / tol, 8 * (X**2).sum(axis=1).max() / (alpha * tol**2))
    assert machine.n_iter_ <= 120


def test_a_small_epsilon_makes_the_weights_of_liblinear(rows):
    X, y = rows
    machine = SVMPerf(alpha=1e-2, tol=1e-10, fit_intercept=True).fit(X, y)
    expected = liblinear(np.column_stack([X, np.ones(600)]), y, 1e-2)
    assert_allclose(np.append(machine.coef_, machine.intercept_), expected, atol=1e-3)


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 3), st.floats(-3, 1))
@settings(max_examples=30)
def test_the_objective_is_that_of_the_quadratic_program_with_all_planes(seed, n, d, exponent):
    """All ``2^n`` planes at once; their dual, at any weights of them, is below."""
    rng, alpha = np.random.default_rng(seed), 10**exponent
    X, y = rng.normal(size=(n, d)), np.arange(n) % 2
    signs = 2 * y - 1
    machine = SVMPerf(alpha=alpha, tol=1e-8).fit(X, y)
    subsets = np.array(list(itertools.product([0, 1], repeat=n)))
    planes, offsets = subsets * signs @ X / n, subsets.mean(axis=1)
    values = offsets - planes @ machine.coef_[0]
    assert machine.objective_ == pytest.approx(alpha / 2 * (machine.coef_**2).sum() + values.max())
    for weights in rng.dirichlet(np.full(len(offsets), 0.1), size=20):
        dual = weights @ offsets - ((weights @ planes) ** 2).sum() / (2 * alpha)
        assert dual <= machine.objective_ + 1e-9
    assert -1e-12 <= machine.objective_ - machine.dual_objective_ <= 1e-8 + 1e-12


def test_more_classes_are_one_against_the_rest(rows):
    X, y = rows
    y = np.where(X[:, 0] > 1, 2, y)
    machine = SVMPerf(alpha=1e-2, tol=1e-6).fit(X, y)
    for k in range(3):
        optimum = objective(X, y == k, liblinear(X, (y == k).astype(int), 1e-2), 1e-2)
        assert machine.objective_[k] == pytest.approx(optimum, abs=2e-6)
