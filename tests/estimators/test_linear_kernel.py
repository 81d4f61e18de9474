"""Coefficients of the features, of kernel classifiers with a linear kernel, as scikit-learn's SVC has them."""

import pickle
from functools import partial

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


# ---- coordinate descent on sparse rows -------------------------------------------------------------------------------


def texts(n=900, d=3000, seed=0):
    """Sparse rows with few of many columns, and two classes."""
    rng = np.random.default_rng(seed)
    rows = sp.csr_array(sp.random_array((n, d), density=0.004, random_state=rng, format="csr"))
    scores = rows @ rng.standard_normal(d)
    return rows, (scores + 0.3 * scores.std() * rng.standard_normal(n) > 0).astype(int)


@pytest.mark.parametrize(
    "machine",
    [
        dm.SVMClassifier(kernel="linear"), dm.SVMClassifier(kernel="linear", loss="squared_hinge"),
        dm.SVMClassifier(kernel="linear", fit_intercept=False), dm.ODMClassifier(kernel="linear"),
        dm.ODMClassifier(kernel="linear", fit_intercept=True, lam=1e3),
    ],
    ids=str,
)  # fmt: skip
def test_auto_descends_on_the_rows_of_texts(machine):
    rows, y = texts()
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    machine, other, threads = (
        clone(machine).set_params(random_state=0, tol=1e-5, **given)
        for given in ({}, {"strategy": "exact"}, {"n_jobs": 2})
    )
    assert (
        machine.fit_plan(900, 3000, rows.nnz).strategy.by_rows
        and not other.fit_plan(900, 3000, rows.nnz).strategy.by_rows
    )
    for one in (machine, other, threads):
        one.fit(rows, y, weights)
    assert machine.history_[-1]["kernel_evaluations"] == 0 < other.history_[-1]["kernel_evaluations"]
    assert machine.status_ == "converged" and machine.certificate_ == "global"
    assert_allclose(machine.objective_, other.objective_, rtol=2e-5)
    np.testing.assert_array_equal(machine.dual_coef_, threads.dual_coef_)
    # The coefficients of the features follow from the dual coefficients, and `certify` finds the same gap.
    assert_allclose(machine.coef_, machine.dual_coef_ @ machine.support_vectors_, atol=1e-9)
    assert_allclose(rows[machine.support_].toarray(), machine.support_vectors_.toarray())
    objective = machine.objective_
    assert clone_of(machine).certify(rows, y, weights).objective_ == pytest.approx(objective, rel=1e-8)
    assert machine.duality_gap_ <= 1e-5
    again = machine.set_params(warm_start=True).fit(rows, y, weights)
    assert again.n_iter_ == 0 and again.objective_ == pytest.approx(objective, rel=1e-8)


def clone_of(machine):
    return pickle.loads(pickle.dumps(machine))


def test_auto_descends_only_where_it_is_faster():
    plan = dm.SVMClassifier(kernel="linear").fit_plan
    assert plan(900, 3000, 10_000).strategy.by_rows and plan(10**6, 10**6, 60 * 10**6).strategy.by_rows
    assert plan(30_000, 123, 30_000 * 14).strategy.by_rows and plan(900, 225).strategy.by_rows
    assert not plan(900, 3000).strategy.by_rows and not plan(900, 226).strategy.by_rows  # Dense rows with many columns.
    assert not plan(500, 3000, 10_000).strategy.by_rows  # Few rows are solved up to rounding.
    for other in ({"kernel": "rbf"}, {"memory_limit": 2**30}, {"strategy": "exact"}):
        machine = dm.SVMClassifier(**({"kernel": "linear"} | other))
        assert not getattr(machine.fit_plan(900, 3000, 10_000).strategy, "by_rows", False)
    assert dm.SVMClassifier(kernel="linear", n_levels=1).fit_plan(900, 3000, 10_000).name == "diodm"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "odm"])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("multi_class", ["one_vs_one", "one_vs_rest"])
def test_auto_takes_steps_on_rows_with_few_columns(loss, store, multi_class):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2500, 6)) + 1.0
    y = np.argmax(rows @ rng.standard_normal((6, 3)) + rng.standard_normal((2500, 3)), axis=1)
    kind = dm.ODMClassifier if loss == "odm" else partial(dm.SVMClassifier, loss=loss)
    machine, other = (
        kind(kernel="linear", multi_class=multi_class, tol=1e-5, strategy=strategy, random_state=0).fit(store(rows), y)
        for strategy in ("auto", "exact")
    )
    assert machine.status_ == other.status_ == "converged"
    n_values, n_others = (one.history_[-1]["kernel_evaluations"] for one in (machine, other))
    # A pair of at most 512 rows is still solved as a block of kernel values.
    assert n_values == 0 if multi_class == "one_vs_rest" else n_values < 0.3 * n_others
    assert_allclose(machine.objective_, other.objective_, rtol=2e-5)
    assert_allclose(machine.decision_function(store(rows)), other.decision_function(store(rows)), atol=0.05)
    objective = machine.objective_
    assert_allclose(machine.certify(store(rows), y).objective_, objective, rtol=1e-8)
    assert machine.duality_gap_ <= 1e-5
