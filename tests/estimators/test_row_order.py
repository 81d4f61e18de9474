"""Samples and parts go by the content of rows: shuffled rows give the same machine."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification

from dimargin import LinearODMClassifier, ODMClassifier, SVMClassifier

TREE = {"branching": 2, "n_levels": 2, "tol": 1e-4}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "machine",
    [
        ODMClassifier(strategy="diodm", stop_level=2, **TREE),
        ODMClassifier(strategy="dc", stop_level=2, **TREE),
        ODMClassifier(strategy="dip", stop_level=2, **TREE),
        SVMClassifier(strategy="cascade", stop_level=1, **TREE),
        ODMClassifier(strategy="landmark", n_landmarks=60),
        LinearODMClassifier(solver="dsvrg", max_iter=1),
    ],
    ids=lambda machine: str(getattr(machine, "strategy", "dsvrg")),
)
@pytest.mark.filterwarnings("ignore:.*stopped before the tolerance:sklearn.exceptions.ConvergenceWarning")
def test_shuffled_rows_give_the_same_machine(machine):
    X, y = make_classification(1600, 8, n_informative=5, n_classes=3, flip_y=0.1, random_state=0)
    weights = np.random.default_rng(2).integers(0, 3, len(y))
    order = np.random.default_rng(1).permutation(len(y))
    machine.set_params(random_state=0)
    one = machine.fit(X, y, weights).decision_function(X)
    two = machine.fit(X[order], y[order], weights[order]).decision_function(X)
    assert_allclose(two, one, atol=1e-3 * np.abs(one).max())
    other = machine.set_params(random_state=1).fit(X, y, weights).decision_function(X)
    assert np.abs(other - one).max() > 0.02 * np.abs(one).max()


@pytest.mark.parametrize(
    "machine",
    [ODMClassifier(strategy="exact"), SVMClassifier(strategy="exact"), LinearODMClassifier(solver="svrg", max_iter=3)],
    ids=["odm", "svm", "svrg"],
)
@pytest.mark.filterwarnings("ignore:.*stopped before the tolerance:sklearn.exceptions.ConvergenceWarning")
def test_blocks_and_steps_go_by_content_too(machine):
    X, y = make_classification(1600, 8, n_informative=5, flip_y=0.1, random_state=0)
    order = np.random.default_rng(1).permutation(len(y))
    machine.set_params(random_state=0)
    one = machine.fit(X, y).decision_function(X)
    two = machine.fit(X[order], y[order]).decision_function(X)
    assert_allclose(two, one, atol=2e-3 * np.abs(one).max())


def test_support_vectors_are_named_by_their_indices_in_the_given_rows():
    X, y = make_classification(1200, 4, flip_y=0.1, random_state=0)
    machine = SVMClassifier(strategy="cascade", random_state=0, **TREE).fit(X, y)
    assert np.all(np.diff(machine.support_) > 0) and np.array_equal(machine.support_vectors_, X[machine.support_])
    assert np.all(np.sign(machine.dual_coef_[0]) == np.where(y[machine.support_] == machine.classes_[1], 1, -1))
