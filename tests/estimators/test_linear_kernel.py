"""Coefficients of the features, of kernel classifiers with a linear kernel, as scikit-learn's SVC has them."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE, RFECV, SelectFromModel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dimargin as dm
from dimargin.problems.one_vs_one import pair_numbers, smallest_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 7)) + 0.2
TWO = (X[:, 1] + 0.3 * RNG.normal(size=300) > 0.2).astype(int)
FOUR = TWO + 2 * (X[:, 2] > 0.2)
MACHINES = {
    "hinge": dm.SVMClassifier(kernel="linear"),
    "hinge with an intercept": dm.SVMClassifier(kernel="linear", fit_intercept=True, loss="squared_hinge"),
    "odm": dm.ODMClassifier(kernel="linear"),
    "odm, one against the rest": dm.ODMClassifier(kernel="linear", multi_class="one_vs_rest"),
    "odm, landmarks": dm.ODMClassifier(kernel="linear", strategy="landmark", n_landmarks=20, random_state=0),
    "svm, naive clusters": dm.SVMClassifier(
        kernel="linear", strategy=dm.DivideAndConquer(prediction="naive"), n_levels=1, random_state=0
    ),
    "core-set": dm.CoreSetSVMClassifier(kernel="linear"),
}


def decision_values(machine, products):
    """Decision values that follow from products with the coefficients, of shape (n_outputs, n_rows)."""
    n_classes = len(machine.classes_)
    is_paired = len(machine.dual_coef_) < n_classes and n_classes > 2
    return smallest_of(products, pair_numbers(n_classes)) if is_paired else products.T


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("y", [TWO, FOUR], ids=["two", "four"])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array, np.float32], ids=["dense", "sparse", "float32"])
def test_decision_values_are_products_with_the_coefficients(machine, y, store, tmp_path):
    fitted = clone(MACHINES[machine]).fit(store(X), y, sample_weight=RNG.uniform(0.5, 2, 300))
    queries = 3 * RNG.normal(size=(50, 7))
    coefficients = fitted.coef_
    assert type(coefficients) is np.ndarray and coefficients.dtype == np.float64
    assert coefficients.shape == (len(fitted.intercept_), 7)
    values = fitted.decision_function(queries).reshape(len(queries), -1)
    found = decision_values(fitted, coefficients @ queries.T + fitted.intercept_[:, None])
    assert_allclose(found, values, atol=1e-4 * np.abs(values).max())
    dm.save(fitted, tmp_path / "model")
    for again in (dm.load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))):
        assert (again.coef_ == coefficients).all()


def test_they_are_those_of_svc():
    for y in (TWO, FOUR):
        ours = dm.SVMClassifier(kernel="linear", fit_intercept=True, tol=1e-8).fit(X, y)
        theirs = SVC(kernel="linear", tol=1e-6).fit(X, y)
        sign = 1 if y is TWO else -1  # the second class of a pair is the positive one here
        assert ours.coef_.shape == theirs.coef_.shape
        assert_allclose(ours.coef_, sign * theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian", "precomputed", lambda a, b: a @ b.T])
def test_no_other_kernel_has_them(kernel):
    machine = dm.SVMClassifier(kernel=kernel).fit(X @ X.T if kernel == "precomputed" else X, TWO)
    assert not hasattr(machine, "coef_")
    with pytest.raises(AttributeError, match="coef_ exists only with kernel='linear'"):
        machine.coef_  # noqa: B018
    assert not hasattr(machine.set_params(kernel="linear"), "coef_")  # a parameter changes no fitted model


def test_who_has_none():
    assert not hasattr(dm.SVMClassifier(kernel="linear"), "coef_") and not hasattr(dm.ODMClassifierCV(), "coef_")
    with pytest.raises(NotFittedError):
        dm.SVMClassifier(kernel="linear").coef_  # noqa: B018
    assert not hasattr(dm.OneClassCoreSetSVM(kernel="linear").fit(X), "coef_")
    early = dm.SVMClassifier(kernel="linear", strategy="dc", n_levels=1, stop_level=1, random_state=0).fit(X, TWO)
    assert not hasattr(early, "coef_")
    with pytest.raises(AttributeError, match="predicts by clusters"):
        early.coef_  # noqa: B018


def test_they_are_read_only():
    machine = dm.SVMClassifier(kernel="linear").fit(X, TWO)
    with pytest.raises(AttributeError):
        machine.coef_ = np.zeros((1, 7))
    with pytest.raises(ValueError, match="read-only"):
        machine.coef_[0, 0] = 1.0


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("machine", ["hinge with an intercept", "odm", "core-set"])
@pytest.mark.parametrize("y", [TWO, FOUR], ids=["two", "four"])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_features_are_selected(machine, y, store):
    machine, rows, y = MACHINES[machine], store(X[:150]), y[:150]
    wanted = {1} if y.max() == 1 else {1, 2}
    chosen = RFE(machine, n_features_to_select=len(wanted)).fit(rows, y).support_
    assert set(np.flatnonzero(chosen)) == wanted
    assert RFECV(machine, cv=2, step=3).fit(rows, y).n_features_ >= 1
    assert SelectFromModel(machine, max_features=2).fit(rows, y).get_support().sum() <= 2


def test_in_searches_and_pipelines():
    search = GridSearchCV(dm.SVMClassifier(kernel="linear"), {"C": [0.1, 1.0]}, cv=2).fit(X, TWO)
    assert search.best_estimator_.coef_.shape == (1, 7)
    piped = make_pipeline(StandardScaler(), dm.ODMClassifier(kernel="linear")).fit(X, TWO)
    assert np.abs(piped[-1].coef_).argmax() == 1 and "coef_" not in vars(piped[-1])
    tuned = dm.ODMClassifierCV(dm.ODMClassifier(kernel="linear"), {"lam": [1e3, 1e4]}, random_state=0).fit(X, TWO)
    assert tuned.coef_.shape == (1, 7)
