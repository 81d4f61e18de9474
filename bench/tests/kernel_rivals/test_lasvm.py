"""LaSVM against LIBSVM, and its steps against the dual that they climb."""

from functools import partial

import numpy as np
import pytest
from helpers import blobs
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from dimargin.kernels.functions import Kernel
from dimargin_bench.kernel_rivals import LaSVM
from dimargin_bench.kernel_rivals.support_set import SupportSet

C, GAMMA = 2.0, 0.5
RBF = Kernel("rbf", GAMMA)
VALUES = partial(rbf_kernel, gamma=GAMMA)


@pytest.fixture(scope="module")
def rows():
    X, labels = blobs(2000)
    return X, labels[0]


@pytest.fixture(scope="module")
def exact(rows):
    return SVC(C=C, gamma=GAMMA, tol=1e-6).fit(*rows)


def dual_objective(vectors, coefficients, kernel=VALUES):
    """``sum_s a_s y_s - 1/2 sum_st a_s a_t k_st`` of signed coefficients, of which the sign is the label."""
    return np.abs(coefficients).sum() - 0.5 * coefficients @ kernel(vectors) @ coefficients


def of(machine, **kernel):
    return dual_objective(machine.support_vectors_, machine.dual_coef_[0], **kernel)


def test_several_epochs_reach_the_exact_machine(rows, exact):
    X, y = rows
    machine = LaSVM(C=C, gamma=GAMMA, tol=1e-3, n_epochs=4, random_state=0).fit(X, y)
    assert_allclose(of(machine), of(exact), rtol=1e-4)
    assert of(machine) <= of(exact) * (1 + 1e-9)
    assert_allclose(machine.decision_function(X), exact.decision_function(X), atol=0.05)
    assert_allclose(machine.intercept_, exact.intercept_, atol=0.02)


def test_a_polynomial_kernel_reaches_the_exact_machine(rows):
    X, y = rows[0][:600], rows[1][:600]
    cubic = {"degree": 3, "gamma": 0.5, "coef0": 0.3}
    exact = SVC(C=C, tol=1e-6, kernel="poly", **cubic).fit(X, y)
    machine = LaSVM(C=C, n_epochs=4, tol=1e-4, random_state=0, kernel="poly", **cubic).fit(X, y)
    best, reached = (of(one, kernel=partial(polynomial_kernel, **cubic)) for one in (exact, machine))
    assert_allclose(reached, best, rtol=3e-4)
    # Which rows LaSVM leaves out depends on rounding, so that its predictions are those of its own rows' exact machine.
    own = SVC(C=C, tol=1e-6, kernel="poly", **cubic).fit(machine.support_vectors_, np.sign(machine.dual_coef_[0]))
    assert reached == pytest.approx(of(own, kernel=partial(polynomial_kernel, **cubic)), rel=1e-5)
    assert reached <= best and (np.sign(machine.decision_function(X)) == own.predict(X)).mean() > 0.99
    with pytest.raises(ValueError, match="kernel must be 'rbf' or 'poly', got 'linear'"):
        LaSVM(kernel="linear").fit(X, y)


def test_one_epoch_is_nearly_exact(rows, exact):
    X, y = rows
    machine = LaSVM(C=C, gamma=GAMMA, random_state=0).fit(X, y)
    assert 0.97 * of(exact) < of(machine) < of(exact)
    assert (machine.predict(X) == exact.predict(X)).mean() > 0.97


@pytest.mark.parametrize("bound", [C, 0.7, 11.3])
def test_the_model_is_feasible_and_optimal_over_its_own_vectors(rows, bound):
    X, y = rows
    machine = LaSVM(C=bound, gamma=GAMMA, random_state=0).fit(X, y)
    a = machine.dual_coef_[0]
    assert_allclose(a.sum(), 0, atol=1e-9)
    assert np.abs(a).max() <= bound and np.abs(a).min() > 1e-12
    free = np.abs(a) < bound
    assert np.abs(a[free]).max() < bound * (1 - 1e-12)  # no coefficient misses its bound by rounding
    margins = np.sign(a) * machine.decision_function(machine.support_vectors_)
    assert_allclose(margins[free], 1, atol=machine.tol)  # b halves what the pair lacks
    assert margins[~free].max() <= 1 + machine.tol


def test_every_step_climbs_the_dual_and_gradients_stay_right():
    X, labels = blobs(150)
    members = SupportSet(X.shape[1], C, RBF)
    reached = 0.0
    for row, (x, sign) in enumerate(zip(X, labels[0], strict=True)):
        members.process(x, sign, row, 1e-3)
        for _ in range(2):
            value = dual_objective(members.rows, members.coefficients)
            assert value >= reached - 1e-9
            reached = value
            members.reprocess(1e-3)
    signs = np.where(members.upper > 0, 1.0, -1.0)
    assert_allclose(members.gradients, signs - rbf_kernel(members.rows, gamma=GAMMA) @ members.coefficients, atol=1e-9)
    assert members.size < 150 and len(members.numbers) == members.size  # some were dropped


def test_a_step_within_the_bounds_is_the_best_along_its_direction():
    members = SupportSet(1, 100.0, RBF)
    members.add(np.array([0.0]), 1.0, 0)
    members.process(np.array([0.8]), -1.0, 1, 1e-3)
    assert_allclose(members.gradients[0], members.gradients[1], atol=1e-12)
    assert_allclose(members.coefficients, np.array([1, -1]) / (1 - np.exp(-GAMMA * 0.64)), rtol=1e-12)


def test_rows_with_equal_features_and_other_labels_end_at_their_bounds():
    X = np.zeros((4, 2))
    machine = LaSVM(C=3.0, gamma=1.0, random_state=0).fit(X, [0, 1, 0, 1])
    assert_array_equal(np.abs(machine.dual_coef_), np.full((1, 4), 3.0))
    assert_allclose(machine.decision_function(X), 0, atol=1e-12)


def test_two_rows_stay():
    machine = LaSVM(random_state=0).fit([[0.0], [1.0]], ["a", "b"])
    assert len(machine.support_vectors_) == 2
    assert machine.predict([[0.0], [1.0]]).tolist() == ["a", "b"]


def test_parts_of_the_rows_make_the_machine_of_one_pass(rows):
    X, y = rows
    parts = LaSVM(C=C, gamma=GAMMA)
    for part in np.array_split(np.arange(len(X)), 7):
        parts.partial_fit(X[part], y[part])
    whole = LaSVM(C=C, gamma=GAMMA).partial_fit(X, y)
    assert_array_equal(parts.finish().dual_coef_, whole.finish().dual_coef_)


def test_a_first_part_of_one_class_predicts_it_until_the_other_comes():
    machine = LaSVM(gamma=1.0).partial_fit([[0.0], [0.1]], ["b", "b"], classes=["a", "b"])
    assert machine.predict([[0.0]]).tolist() == ["b"]
    machine.partial_fit([[2.0], [2.1]], ["a", "a"])
    assert machine.predict([[0.0], [2.0]]).tolist() == ["b", "a"]
    with pytest.raises(ValueError, match="labels that are not among the classes"):
        machine.partial_fit([[1.0]], ["c"])
