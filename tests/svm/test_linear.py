"""LinearSVC and LinearSVR against scikit-learn's, which is LIBLINEAR."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from drop_in import SEEDS, rows, weights_of
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import LinearSVC as TheirSVC
from sklearn.svm import LinearSVR as TheirSVR
from sklearn.utils._testing import ignore_warnings
from sklearn.utils.fixes import parse_version

from dimargin.svm import LinearSVC, LinearSVR

LOSSES = ["hinge", "squared_hinge"]
OTHERS = ["epsilon_insensitive", "squared_epsilon_insensitive"]
COUNTS_WEIGHTS = parse_version(sklearn.__version__) >= parse_version("1.7")  # where classes are balanced
POSITIVE = st.sampled_from(["none", "positive", "whole"])


def svc_objectives(machine, X, y, weights, C, loss, scaling):
    """LIBLINEAR's objective of every output, with the intercept as one more coefficient."""
    classes = machine.classes_[1:] if len(machine.classes_) == 2 else machine.classes_
    found = []
    for label, w, b in zip(classes, machine.coef_, np.broadcast_to(machine.intercept_, len(classes)), strict=True):
        lacking = np.maximum(1 - np.where(y == label, 1, -1) * (X @ w + b), 0)
        own = (w @ w + (b / scaling) ** 2) / 2
        found.append(own + C * weights @ (lacking if loss == "hinge" else lacking**2))
    return np.array(found)


def svr_objective(machine, X, y, weights, C, loss, epsilon, scaling):
    """LIBLINEAR's objective of a regressor."""
    outside = np.maximum(np.abs(X @ machine.coef_ + machine.intercept_ - y) - epsilon, 0)
    own = (machine.coef_ @ machine.coef_ + ((machine.intercept_ / scaling) ** 2).item()) / 2
    return own + C * weights @ (outside if loss == OTHERS[0] else outside**2)


@given(SEEDS, st.sampled_from([2, 3]), st.sampled_from(LOSSES), POSITIVE, st.sampled_from([0.01, 1, 10]),
       st.sampled_from([None, "balanced"]), st.sampled_from([0.5, 1.0, 10.0]))  # fmt: skip
def test_objectives_of_linear_svc_are_those_of_liblinear(seed, n_classes, loss, kind, C, class_weight, scaling):
    X, y, _ = rows(seed, n_classes=n_classes)
    weights = weights_of(seed, len(y), kind)
    each = np.ones(len(y)) if weights is None else weights
    own = LinearSVC(C=C, loss=loss, class_weight=class_weight, intercept_scaling=scaling, tol=1e-6, max_iter=10_000)
    own.fit(X, y, weights)
    if class_weight:
        counts = np.bincount(y, each if COUNTS_WEIGHTS else None)
        each = each * (counts.sum() / (n_classes * counts))[y]
    mine = svc_objectives(own, X, y, each, C, loss, scaling)
    np.testing.assert_allclose(mine, own.objective_, rtol=1e-9)
    theirs = TheirSVC(C=C, loss=loss, class_weight=class_weight, intercept_scaling=scaling, dual=True, tol=1e-6,
                      max_iter=100_000, random_state=0)  # fmt: skip
    expected = svc_objectives(ignore_warnings(theirs.fit)(X, y, weights), X, y, each, C, loss, scaling)
    assert (mine <= expected * (1 + 1e-6)).all() and (own.dual_objective_ <= expected * (1 + 1e-9)).all()


@given(SEEDS, st.sampled_from(OTHERS), POSITIVE, st.sampled_from([0.01, 1, 10]), st.sampled_from([0.0, 0.2]),
       st.sampled_from([0.5, 1.0, 10.0]))  # fmt: skip
def test_objectives_of_linear_svr_are_those_of_liblinear(seed, loss, kind, C, epsilon, scaling):
    X, _, y = rows(seed)
    weights = weights_of(seed, len(y), kind)
    each = np.ones(len(y)) if weights is None else weights
    parameters = {"C": C, "loss": loss, "epsilon": epsilon, "intercept_scaling": scaling, "tol": 1e-6}
    own = LinearSVR(**parameters, max_iter=10_000).fit(X, y, weights)
    mine = svr_objective(own, X, y, each, C, loss, epsilon, scaling)
    assert abs(mine - own.objective_) <= 1e-9 * mine
    theirs = TheirSVR(**parameters, dual=True, max_iter=100_000, random_state=0)
    expected = svr_objective(ignore_warnings(theirs.fit)(X, y, weights), X, y, each, C, loss, epsilon, scaling)
    assert mine <= expected * (1 + 1e-6) and own.dual_objective_ <= expected * (1 + 1e-9)


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix, sp.csc_array])
def test_values_of_several_classes(multi_class, container):
    X, y, _ = rows(0, n=90, n_classes=3)
    names = np.array(["x", "y", "z"])[y]
    own = LinearSVC(multi_class=multi_class, tol=1e-6, max_iter=100_000, random_state=0).fit(container(X), names)
    their = ignore_warnings(TheirSVC(multi_class=multi_class, tol=1e-9, max_iter=10**6, random_state=0).fit)(X, names)
    np.testing.assert_allclose(own.decision_function(container(X)), their.decision_function(X), atol=2e-3)
    np.testing.assert_allclose(own.coef_, their.coef_, atol=2e-3)
    assert own.classes_.tolist() == ["x", "y", "z"] and own.n_features_in_ == 3


@pytest.mark.parametrize("kind", [LinearSVC, LinearSVR])
def test_without_an_intercept(kind):
    X, y, _ = rows(1)
    machine = kind(fit_intercept=False).fit(X, y)
    assert machine.intercept_ == 0.0 and isinstance(machine.intercept_, float)


def test_combinations_that_liblinear_lacks_are_refused():
    X, y, targets = rows(2)
    with pytest.raises(ValueError, match="loss='hinge' are not supported when dual=False"):
        LinearSVC(loss="hinge", dual=False).fit(X, y)
    with pytest.raises(ValueError, match="loss='epsilon_insensitive' are not supported when dual=False"):
        LinearSVR(dual=False).fit(X, targets)
    with pytest.raises(ValueError, match="The 'C' parameter"):
        LinearSVC(C=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="The 'loss' parameter"):
        LinearSVR(loss="hinge").fit(X, targets)


def test_crammer_and_singers_machine_ignores_the_loss():
    X, y, _ = rows(3, n_classes=3)
    first, second = (
        LinearSVC(loss=loss, multi_class="crammer_singer", dual=False, random_state=0, max_iter=10_000).fit(X, y)
        for loss in LOSSES
    )
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_balanced_classes_count_rows_as_scikit_learn_does():
    X, y, _ = rows(4)
    weights = np.where(y == 0, 5.0, 1.0)
    parameters = {"class_weight": "balanced", "dual": True}
    own = LinearSVC(**parameters, tol=1e-8, max_iter=10_000).fit(X, y, weights)
    their = TheirSVC(**parameters, tol=1e-10, max_iter=10**6, random_state=0).fit(X, y, weights)
    np.testing.assert_allclose(own.coef_, their.coef_, rtol=1e-3)


def test_names_of_columns_are_kept():
    pd = pytest.importorskip("pandas")
    X, y, _ = rows(5)
    machine = LinearSVC().fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    assert machine.feature_names_in_.tolist() == ["a", "b", "c"]
