"""SVC and SVR against scikit-learn's, which is LIBSVM."""

import numpy as np
import pytest
import scipy.sparse as sp
from drop_in import KERNELS, SEEDS, WEIGHTS, both_fitted, dense, rows, weights_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from dimargin.svm import SVC, SVR

CLASS_WEIGHTS = st.sampled_from([None, "balanced", {0: 3.0}, {1: 0.2}])


def has_free_coefficients(machine, bounds):
    """Whether every pair of classes has a coefficient inside its box: else the intercept is not unique."""
    sizes = np.abs(machine.dual_coef_)
    return len(machine.support_) and ((sizes > 1e-6) & (sizes < 0.999 * bounds[machine.support_])).any()


def primal(machine, X, y, bounds):
    """Objective of a machine of two classes, by the definition."""
    # With rows left out, scikit-learn's support_ does not hold their places in X.
    half = 0.5 * machine.dual_coef_[0] @ (machine.decision_function(machine.support_vectors_) - machine.intercept_[0])
    return half + bounds @ np.maximum(1 - np.where(y == 1, 1, -1) * machine.decision_function(X), 0.0)


@settings(max_examples=30)
@given(SEEDS, st.sampled_from([2, 3]), st.sampled_from(KERNELS), WEIGHTS, CLASS_WEIGHTS, st.sampled_from([0.1, 1, 30]))
def test_decision_values_and_labels_of_svc(seed, n_classes, kernel, weighting, class_weight, C):
    X, y, _ = rows(seed, n_classes=n_classes)
    weights = weights_of(seed, len(y), weighting)
    own, their = both_fitted(
        "SVC", X, y, weights, C=C, class_weight=class_weight, decision_function_shape="ovo", **kernel
    )
    each = np.ones(len(y)) if weights is None else np.maximum(weights, 0.0)
    assume(n_classes == 3 or has_free_coefficients(their, C * each * their.class_weight_[y]))
    queries = rows(seed + 1, n_classes=n_classes)[0]
    values, expected = own.decision_function(queries), their.decision_function(queries)
    precision = 1e-5
    if n_classes == 2:
        mine, theirs = (primal(machine, X, y, C * each * their.class_weight_[y]) for machine in (own, their))
        assert mine <= theirs * (1 + 1e-9)
        # LIBSVM's kernel values are of single precision, so that it may be far from the optimum.
        precision = 1e-5 if theirs <= mine * (1 + 1e-9) else 1e-4
    close = np.abs(values - expected) <= precision * (1 + C + np.abs(expected))
    # In a pair of classes without a free coefficient the intercept may be any of an interval.
    is_free = close.all(axis=0) if n_classes == 3 else close.all()
    assert is_free.any()
    if np.all(is_free):
        margins = np.abs(expected) if n_classes == 2 else np.abs(expected).min(axis=1)
        clear = margins > 2 * precision * (1 + C)
        np.testing.assert_array_equal(own.predict(queries)[clear], their.predict(queries)[clear])
    assert own.duality_gap_ <= 1e-6


@settings(max_examples=30)
@given(SEEDS, st.sampled_from(KERNELS), WEIGHTS, st.sampled_from([0.1, 1, 30]), st.sampled_from([0.0, 0.05, 0.4]))
def test_predictions_of_svr(seed, kernel, weighting, C, epsilon):
    X, _, y = rows(seed)
    weights = weights_of(seed, len(y), weighting)
    own, their = both_fitted("SVR", X, y, weights, C=C, epsilon=epsilon, **kernel)
    assume(has_free_coefficients(their, C * (np.ones(len(y)) if weights is None else weights)))
    queries = rows(seed + 1)[0]
    np.testing.assert_allclose(own.predict(queries), their.predict(queries), atol=1e-4 * (1 + C))
    assert own.duality_gap_ <= 1e-6


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("break_ties", [False, True])
def test_values_of_several_classes(shape, break_ties):
    X, y, _ = rows(3, n=120, n_classes=4)
    parameters = {"decision_function_shape": shape, "break_ties": break_ties and shape == "ovr", "C": 5.0}
    own, their = both_fitted("SVC", X, y, **parameters)
    np.testing.assert_allclose(own.decision_function(X), their.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(own.predict(X), their.predict(X))
    assert own.objective_.shape == own.dual_objective_.shape == (6,)


@pytest.mark.parametrize(("kind", "target"), [(SVC, 1), (SVR, 2)])
@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.coo_array, sp.lil_matrix])
def test_sparse_rows_give_the_same_machine(kind, target, container):
    X, *others = rows(4)
    X[np.abs(X) < 0.5] = 0.0
    y = others[target - 1]
    plain, sparse = kind().fit(X, y), kind().fit(container(X), y)
    np.testing.assert_allclose(sparse.dual_coef_.toarray(), plain.dual_coef_, atol=1e-6)
    np.testing.assert_allclose(sparse.support_vectors_.toarray(), plain.support_vectors_)
    np.testing.assert_allclose(sparse.predict(container(X)), plain.predict(X), atol=1e-6)


@pytest.mark.parametrize(("kind", "target"), [(SVC, 1), (SVR, 2)])
def test_own_kernels_and_kernel_values(kind, target):
    X, *others = rows(5)
    y, queries = others[target - 1], rows(6)[0]
    plain = kind(gamma=0.3).fit(X, y)
    own = kind(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3)).fit(X, y)
    given_values = kind(kernel="precomputed").fit(rbf_kernel(X, gamma=0.3), y)
    expected = plain.predict(queries)
    np.testing.assert_allclose(own.predict(queries), expected, atol=1e-6)
    np.testing.assert_allclose(given_values.predict(rbf_kernel(queries, X, gamma=0.3)), expected, atol=1e-6)
    with pytest.raises(ValueError, match="60"):
        given_values.predict(np.ones((3, 59)))
    with pytest.raises(ValueError, match="the 60 rows, got shape \\(1, 1\\)"):
        kind(kernel=lambda A, B: np.ones((1, 1))).fit(X, y)


def test_whole_weights_are_repetitions():
    X, y, targets = rows(7)
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    again = np.repeat(np.arange(len(y)), weights)
    for kind, t in ((SVC, y), (SVR, targets)):
        weighted, repeated = kind(gamma=0.5).fit(X, t, weights), kind(gamma=0.5).fit(X[again], t[again])
        np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-6)
        assert abs(weighted.objective_ - repeated.objective_) <= 1e-8 * repeated.objective_


def test_rows_without_positive_weight_leave_one_class_or_none():
    X, y, _ = rows(8)
    with pytest.raises(ValueError, match="all samples have zero or negative weights"):
        SVC().fit(X, y, -np.ones(len(y)))
    with pytest.raises(ValueError, match="belong to the same class"):
        SVC().fit(X, y, np.where(y == 0, 1.0, 0.0))
    y3 = rows(8, n_classes=3)[1]
    with pytest.raises(ValueError, match=r"are of the classes \[0, 2\] only"):
        SVC().fit(X, y3, np.where(y3 == 1, -1.0, 1.0))


def test_changed_coefficients_change_predictions():
    X, y, _ = rows(9)
    machine = SVC(kernel="linear").fit(X, y)
    before = machine.decision_function(X)
    machine._intercept_ = machine._intercept_ + 1.0
    np.testing.assert_allclose(machine.decision_function(X), before - 1.0)


def test_an_infinite_price_is_a_hard_margin():
    X = np.array([[0.0], [1.0], [3.0], [4.0]])
    machine = SVC(C=np.inf, kernel="linear").fit(X, [0, 0, 1, 1])
    np.testing.assert_allclose(machine.coef_, [[1.0]], rtol=1e-6)
    np.testing.assert_allclose(machine.intercept_, [-2.0], rtol=1e-6)


@pytest.mark.slow
def test_many_rows_of_three_classes():
    X, y, _ = rows(10, n=3000, n_classes=3)
    own, their = both_fitted("SVC", X, y, C=10.0, gamma=0.5, tol=1e-3)
    agree = own.predict(X) == their.predict(X)
    assert agree.mean() > 0.995 and own.duality_gap_ <= 1e-3
    assert dense(own.dual_coef_).shape == (2, len(own.support_)) and own.n_support_.sum() == len(own.support_)
