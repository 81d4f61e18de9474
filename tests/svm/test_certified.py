"""What all classes of `dimargin.svm` share with scikit-learn's, and what they have besides."""

import logging
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from drop_in import CLASSIFIERS, LIBLINEAR, LIBSVM, MORE, NAMES, both_fitted, dense, rows, signature, targets_for
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._testing import ignore_warnings

import dimargin.svm as ours
from dimargin.svm.certified import CERTIFICATE


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_scikit_learn_and_three_more(name):
    own, theirs = signature(getattr(ours, name)), signature(getattr(sklearn.svm, name))
    assert own[: len(theirs)] == theirs
    assert [(parameter, default) for parameter, _, default in own[len(theirs) :]] == [(each, None) for each in MORE]
    assert issubclass(getattr(ours, name), getattr(sklearn.svm, name))


def public(machine):
    return {key: value for key, value in vars(machine).items() if key.endswith("_") and not key.startswith("_")}


def same_form(own, theirs):
    """Whether two attributes have the same type, shape and kind of numbers."""
    if sp.issparse(theirs):
        return type(own) is type(theirs) and own.shape[0] == theirs.shape[0]
    if isinstance(theirs, np.ndarray):
        return own.dtype == theirs.dtype and own.ndim == theirs.ndim
    return isinstance(own, type(theirs)) or isinstance(theirs, type(own))


@pytest.mark.filterwarnings("ignore:Attribute `prob[AB]_` was deprecated")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("form", ["dense", "sparse", "precomputed", "callable"])
@pytest.mark.parametrize("name", LIBSVM)
def test_attributes_of_a_fit_have_the_names_and_forms_of_scikit_learn(name, form, n_classes):
    X, y, targets = rows(n_classes, n_classes=n_classes)
    X = {"sparse": sp.csr_matrix(X), "precomputed": rbf_kernel(X)}.get(form, X)
    kernel = {"precomputed": "precomputed", "callable": rbf_kernel}.get(form, "rbf")
    y = np.array(["a", "b", "c"])[y] if name in CLASSIFIERS else targets
    own, their = both_fitted(name, X, y, kernel=kernel, gamma=0.4)
    mine, theirs = public(own), public(their)
    assert mine.keys() == theirs.keys() | set(CERTIFICATE)
    assert [key for key in theirs if not same_form(mine[key], theirs[key])] == []
    for key in ("coef_", "n_support_", "shape_fit_", "offset_", "n_iter_", "probA_", "probB_", *theirs):
        if key == "n_support_" and their.n_support_.sum() != len(their.support_):
            continue  # Of sparse rows, scikit-learn 1.6 counts stored values.
        assert hasattr(own, key) == hasattr(their, key)
        if key not in ("n_iter_", "coef_") and hasattr(their, key):
            value, expected = dense(getattr(own, key)), dense(getattr(their, key))
            assert value.shape == expected.shape and value.dtype == expected.dtype
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(value, expected, atol=1e-5 * max(1.0, np.abs(expected).max(initial=0.0)))
            else:
                np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("name", LIBSVM)
def test_coefficients_of_columns(name, form):
    X, y, targets = rows(2)
    X = form(X + 3.0 if name == "OneClassSVM" else X)  # Around the origin the best detector is zero.
    own, their = both_fitted(name, X, targets_for(name, y, targets), kernel="linear")
    assert type(own.coef_) is type(their.coef_) and own.coef_.shape == their.coef_.shape
    np.testing.assert_allclose(dense(own.coef_), dense(their.coef_), rtol=1e-5)
    with pytest.raises(AttributeError):
        own.coef_ = 1


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", LIBLINEAR)
def test_attributes_of_a_linear_fit(name, fit_intercept, n_classes):
    X, y, targets = rows(n_classes, n_classes=n_classes)
    y = targets_for(name, y, targets)
    own, their = both_fitted(name, X, y, fit_intercept=fit_intercept, dual=name == "LinearSVR", max_iter=100_000)
    mine, theirs = public(own), public(their)
    assert mine.keys() == theirs.keys() | set(CERTIFICATE)
    for key in ("coef_", "intercept_"):
        assert type(mine[key]) is type(theirs[key]) and np.shape(mine[key]) == np.shape(theirs[key])
        np.testing.assert_allclose(mine[key], theirs[key], atol=0.02)
    assert type(own.n_iter_) is type(their.n_iter_) or name == "LinearSVC"


@pytest.mark.parametrize("name", NAMES)
def test_clones_copies_and_pipelines(name):
    X, y, targets = rows(0)
    y = targets_for(name, y, targets)
    machine = getattr(ours, name)(tol=1e-4, max_time=100.0, n_jobs=1)
    again = clone(machine)
    assert again.get_params() == machine.get_params() and not hasattr(again, "n_features_in_")
    model = make_pipeline(StandardScaler(), machine).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert copy[-1].duality_gap_ == machine.duality_gap_ <= 1e-4


@pytest.mark.parametrize("name", [name for name in NAMES if name != "OneClassSVM"])
def test_a_search_finds_what_scikit_learn_finds(name):
    X, y, targets = rows(1, n=90)
    y = targets_for(name, y, targets)
    parameter = {"NuSVC": ("nu", [0.2, 0.5, 0.7])}.get(name, ("C", [0.001, 0.03, 1.0]))
    found = [
        ignore_warnings(GridSearchCV(getattr(module, name)(tol=1e-6), dict([parameter]), cv=3).fit)(X, y)
        for module in (ours, sklearn.svm)
    ]
    assert found[0].best_params_ == found[1].best_params_
    scores = [each.cv_results_["mean_test_score"] for each in found]
    np.testing.assert_allclose(*scores, atol=0.05)


# ---- what has no certificate -----------------------------------------------------------------------------------------

UNCERTIFIED = [(name, {"kernel": "sigmoid"}, "not positive semi-definite") for name in LIBSVM]
UNCERTIFIED += [(name, {"kernel": "poly", "coef0": -1.0}, "coef0=-1.0") for name in LIBSVM]
UNCERTIFIED += [(name, {"gamma": 0.0}, "constant") for name in LIBSVM if name != "NuSVC"]
UNCERTIFIED += [("LinearSVC", {"penalty": "l1", "random_state": 0}, "penalty='l1'")]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("name", "parameters", "reason"), UNCERTIFIED)
def test_what_has_no_certificate_is_refused_unless_that_is_allowed(name, parameters, reason, form, caplog):
    X, y, targets = rows(0)
    X, y = form(X), targets_for(name, y, targets)
    for refusing in ({}, {"allow_uncertified": False}):
        with pytest.raises(ValueError, match=f"{reason}.*so {name} could give no certificate.*allow_uncertified=True"):
            getattr(ours, name)(**parameters, **refusing).fit(X, y)
    with caplog.at_level(logging.INFO, logger="dimargin"):
        machine = getattr(ours, name)(allow_uncertified=True, **parameters).fit(X, y)
    assert f"scikit-learn's own {name} solves it, without a certificate" in caplog.text and reason in caplog.text
    theirs = getattr(sklearn.svm, name)(**parameters).fit(X, y)
    np.testing.assert_array_equal(machine.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(dense(machine.coef_ if name == "LinearSVC" else machine.dual_coef_),
                                  dense(theirs.coef_ if name == "LinearSVC" else theirs.dual_coef_))  # fmt: skip
    if hasattr(theirs, "decision_function"):
        np.testing.assert_array_equal(machine.decision_function(X), theirs.decision_function(X))
    assert not hasattr(machine, "duality_gap_")


@pytest.mark.parametrize("name", LIBSVM)
def test_a_second_fit_forgets_whether_there_was_a_certificate(name):
    X, y, targets = rows(0)
    y = targets_for(name, y, targets)
    machine = getattr(ours, name)(allow_uncertified=True).fit(X, y)
    first = machine.predict(X)
    assert machine.duality_gap_ <= 1e-3
    machine.set_params(kernel="sigmoid").fit(X, y)
    assert not set(CERTIFICATE) & vars(machine).keys()
    np.testing.assert_array_equal(machine.set_params(kernel="rbf").fit(X, y).predict(X), first)


@pytest.mark.parametrize("name", NAMES)
def test_own_parameters_are_checked(name):
    X, y, targets = rows(0)
    y = targets_for(name, y, targets)
    for wrong in ({"max_time": -1.0}, {"max_time": "long"}, {"n_jobs": 0}, {"n_jobs": 1.5}):
        (parameter,) = wrong
        with pytest.raises((TypeError, ValueError), match=parameter):
            getattr(ours, name)(**wrong).fit(X, y)
    uncertified = {"penalty": "l1"} if name == "LinearSVC" else {"kernel": "sigmoid"}
    if name != "LinearSVR":
        with pytest.raises(TypeError, match="allow_uncertified"):
            getattr(ours, name)(allow_uncertified="yes", **uncertified).fit(X, y)


# ---- warnings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"max_time": 1e-6}, {"max_iter": 1}])
@pytest.mark.parametrize("name", NAMES)
def test_a_limit_leaves_a_model_with_its_gap_and_a_warning_that_names_the_class(name, limit):
    X, y = make_classification(3000, 10, flip_y=0.2, random_state=0)
    y = targets_for(name, y, y + X[:, 0])
    parameters = {"tol": 1e-12} | ({} if name in ("NuSVC", "OneClassSVM") else {"C": 100.0})
    if name in LIBLINEAR:
        parameters["loss"] = "hinge" if name == "LinearSVC" else "epsilon_insensitive"
    machine = getattr(ours, name)(**parameters, **limit)
    with pytest.warns(ConvergenceWarning, match=f"^{name} stopped before the tolerance was reached") as caught:
        machine.fit(X, y)
    assert {warning.filename for warning in caught} == {__file__}
    assert len(caught) == 1 and machine.status_ in ("max_time", "max_iter", "precision")
    assert machine.duality_gap_ > 1e-12
    assert np.isfinite(machine.predict(X)).all()
    assert machine.objective_ >= machine.dual_objective_


@pytest.mark.parametrize("name", NAMES)
def test_threads_do_not_change_results(name):
    X, y = make_classification(1500, 10, flip_y=0.2, random_state=0)
    y = targets_for(name, y, y + X[:, 0])
    seed = {"random_state": 0} if name in LIBLINEAR else {}
    one, two = (getattr(ours, name)(n_jobs=n_jobs, **seed).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert one.duality_gap_ == two.duality_gap_ <= one.tol
