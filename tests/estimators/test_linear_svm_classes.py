"""The linear machine of Crammer and Singer."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import dimargin as dm


def problem(seed=0, n=120, d=5, n_classes=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.5
    y = np.argmax(X @ rng.standard_normal((d, n_classes)) + rng.standard_normal((n, n_classes)), axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y, rng.uniform(0.2, 3.0, n)


def primal(machine, X, y, weights):
    """Objective by its definition, of a machine with one vector per class."""
    scores = machine.decision_function(X)
    coefficients, intercepts = machine.coef_, np.atleast_1d(machine.intercept_)
    if scores.ndim == 1:
        scores, intercepts = np.column_stack([-scores, scores]) / 2, np.array([-1, 1]) * intercepts[0] / 2
        coefficients = np.concatenate([-coefficients, coefficients]) / 2
    own = scores[np.arange(len(y)), y]
    others = scores + 1.0
    others[np.arange(len(y)), y] = own
    regulariser = (coefficients**2).sum()
    if machine.fit_intercept:
        regulariser += ((intercepts / machine.intercept_scaling) ** 2).sum()
    return 0.5 * regulariser + machine.C * weights @ (others.max(axis=1) - own)


@given(
    seed=st.integers(0, 1000), n_classes=st.integers(2, 6), C=st.sampled_from([0.01, 0.3]),
    scaling=st.sampled_from([None, 1.0, 5.0]),
    store=st.sampled_from([np.asarray, sp.csr_array, lambda X: X.astype(np.float32)]),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_it_is_the_machine_of_liblinear(seed, n_classes, C, scaling, store):
    X, y, weights = problem(seed, n_classes=n_classes)
    X = X.astype(np.float32).astype(float)
    both = {"C": C, "fit_intercept": scaling is not None, "multi_class": "crammer_singer"}
    ours = dm.LinearSVMClassifier(**both, intercept_scaling=scaling, tol=1e-5, max_iter=10**5, random_state=0)
    ours.fit(store(X), y, weights)
    other = LinearSVC(**both, intercept_scaling=scaling or 1.0, tol=1e-5, max_iter=10**5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # LIBLINEAR sometimes visits the same rows for ever.
        other.fit(X, y, weights)
    assert ours.status_ == "converged" and ours.certificate_ == "global"
    assert ours.coef_.shape == other.coef_.shape
    found, theirs = (primal(machine, X, y, weights) for machine in (ours, other))
    assert ours.objective_ == pytest.approx(found, rel=1e-10)
    # The bounds enclose the optimum, to which the other machine is near.
    assert ours.dual_objective_ <= theirs * (1 + 1e-12) and found <= theirs * (1 + 2e-5)
    # Half the squared distance to the optimum is at most the gap.
    apart = np.sqrt(8 * max(found - ours.dual_objective_, theirs - ours.dual_objective_))
    assert_allclose(ours.coef_, other.coef_, atol=apart + 1e-12)
    assert_array_equal(ours.classes_, np.arange(n_classes))


def test_the_certificate_of_other_weights():
    X, y, weights = problem()
    machine = dm.LinearSVMClassifier(
        C=0.05, multi_class="crammer_singer", intercept_scaling=2.0, tol=1e-5, random_state=0
    )
    machine.fit(X, y, weights)
    again = pickle.loads(pickle.dumps(machine)).certify(X, y, weights)
    assert again.objective_ == pytest.approx(machine.objective_, rel=1e-9) and again.duality_gap_ <= 1e-5
    machine.coef_ = 1.1 * machine.coef_
    machine.certify(X, y, weights)
    assert machine.objective_ == pytest.approx(primal(machine, X, y, weights), rel=1e-9)
    gap = (machine.objective_ - again.objective_) / machine.objective_
    assert gap - 1e-5 <= machine.duality_gap_ <= gap + 1e-5 and gap > 1e-4


def test_limits_and_warm_starts():
    X, y, weights = problem(n=600, d=20)
    machine = dm.LinearSVMClassifier(
        multi_class="crammer_singer", intercept_scaling=1.0, tol=1e-4, max_iter=3, warm_start=True, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        machine.fit(X, y, weights)
    first = machine.objective_
    assert np.isfinite(first) and 1e-4 < machine.duality_gap_ <= 1.0
    machine.set_params(max_iter=10_000).fit(X, y, weights)
    assert machine.status_ == "converged" and machine.objective_ < first
    assert machine.fit(X, y, weights).n_iter_ == 0
    with pytest.warns(ConvergenceWarning, match="time limit"):
        machine.set_params(warm_start=False, max_time=1e-9).fit(X, y, weights)
    assert machine.status_ == "max_time" and 0 < machine.duality_gap_ <= 1.000001


def test_rows_of_zeros_have_a_loss_of_one():
    X, y = np.zeros((6, 2)), np.array([0, 1, 2, 0, 1, 2])
    machine = dm.LinearSVMClassifier(C=2.0, multi_class="crammer_singer", fit_intercept=False).fit(X, y)
    assert machine.objective_ == pytest.approx(12.0) and machine.duality_gap_ <= 1e-12
    X[0] = 1.0
    machine.fit(X, y)
    assert machine.status_ == "converged" and machine.predict(X)[0] == 0


def test_the_same_on_any_number_of_threads_and_stored_order():
    X, y, _ = problem(n=3000, d=20, n_classes=7)
    one, two = (
        dm.LinearSVMClassifier(multi_class="crammer_singer", fit_intercept=False, random_state=1, n_jobs=n).fit(X, y)
        for n in (1, 2)
    )
    assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"multi_class": "ovr"}, "multi_class must be 'one_vs_rest' or 'crammer_singer', got 'ovr'"),
        ({}, "set intercept_scaling=1, as LinearSVC does, or fit_intercept=False"),
        ({"loss": "squared_hinge"}, "needs loss='hinge' and solver='auto' or 'cd', got loss='squared_hinge'"),
        ({"solver": "cocoa"}, "and solver='cocoa'"),
    ],
)
def test_parameters_that_do_not_fit_together(parameters, message):
    X, y, _ = problem()
    with pytest.raises(ValueError, match=message):
        dm.LinearSVMClassifier(**{"multi_class": "crammer_singer", **parameters}).fit(X, y)
