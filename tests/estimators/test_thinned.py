"""Dense rows of zeros and ones are trained on as sparse ones, of which users see nothing but the time."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from dimargin import ODMClassifier, ODMClassifierCV, SVMClassifier
from dimargin.estimators.training_data import thinned, training_data

MACHINES = [SVMClassifier(C=2.0, fit_intercept=True), ODMClassifier(lam=1e5), SVMClassifier(kernel="laplacian")]


def one_hot(n=2300, n_columns=48, value=1.0, n_classes=2, seed=0):
    """Rows with one of six columns each, eight times, and labels that some of these tell."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, 6, size=(n, n_columns // 6))
    X = np.zeros((n, n_columns))
    X[np.arange(n)[:, None], chosen + 6 * np.arange(n_columns // 6)] = value
    X[0] = 0.0
    score = np.where(rng.random(n) < 0.9, chosen[:, 0] + chosen[:, 1], rng.integers(0, 11, n))
    return X, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


def is_thinned(X, y):
    return thinned(training_data(SVMClassifier(), X, y, None)).is_thinned


@pytest.mark.parametrize("machine", MACHINES, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_model_is_that_of_sparse_rows_and_looks_like_that_of_dense_ones(machine, n_classes):
    X, y = one_hot(n_classes=n_classes)
    machine = machine.set_params(random_state=0)
    dense = machine.fit(X, y)
    coefficients, vectors, values = dense.dual_coef_, dense.support_vectors_, dense.decision_function(X[:50])
    assert isinstance(vectors, np.ndarray)
    assert_array_equal(vectors, X[dense.support_])
    assert_allclose(dense.decision_function(sp.csr_array(X[:50])), values, rtol=0, atol=1e-5)
    certified = dense.duality_gap_
    dense.certify(X, y)
    assert dense.certificate_ == "global" and dense.duality_gap_ <= 1.1 * certified + 1e-6
    sparse = machine.fit(sp.csr_array(X), y)
    assert_array_equal(sparse.dual_coef_, coefficients)
    assert_allclose(sparse.decision_function(X[:50]), values, rtol=0, atol=1e-5)


def test_dense_rows_would_give_the_same():
    X, y = one_hot()
    machine = SVMClassifier(C=2.0, fit_intercept=True, tol=1e-6)
    objective = machine.fit(X, y).objective_
    assert machine.set_params(memory_limit=2**40).fit(X, y).objective_ == pytest.approx(objective, rel=3e-6)


def test_which_rows_are_thinned():
    X, y = one_hot()
    assert is_thinned(X, y) and is_thinned(7.5 * X, y) and is_thinned(X.astype(np.float32), y)
    assert not is_thinned(X[:1000], y[:1000])
    assert not is_thinned(X[:, :24], y)
    assert not is_thinned(1.0 - X, y)
    other = X.copy()
    other[-1, 0] = 2.0
    assert not is_thinned(other, y)


def test_precision_and_memory_come_first():
    X, y = one_hot()
    for options, as_sparse in (({"gamma": 1e-3}, True), ({"gamma": 10.0}, False),
                               ({"gamma": 1e-3, "memory_limit": 2**30}, False)):  # fmt: skip
        dense, sparse = (
            SVMClassifier(fit_intercept=False, random_state=0, **options).fit(rows, y).dual_coef_
            for rows in (X, sp.csr_array(X))
        )
        assert np.array_equal(dense, sparse) == as_sparse


def test_kernel_values_are_not_looked_at(monkeypatch):
    monkeypatch.setattr("dimargin.estimators.kernel_parameters.thinned", None)
    SVMClassifier(kernel="precomputed").fit(np.eye(2100), np.arange(2100) % 2)


def test_a_search_chooses_as_on_sparse_rows():
    X, y = one_hot()
    grid = {"gamma": [0.01, 0.3], "lam": [1e4, 1e6]}
    dense, sparse = (ODMClassifierCV(None, grid, random_state=0).fit(rows, y) for rows in (X, sp.csr_array(X)))
    assert dense.best_params_ == sparse.best_params_ and dense.best_score_ == sparse.best_score_
    assert isinstance(dense.best_estimator_.support_vectors_, np.ndarray)
