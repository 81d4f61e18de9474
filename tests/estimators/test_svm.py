"""SVMClassifier: the same contract as ODMClassifier, with the hinge."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from dimargin import DiODM, SVMClassifier


@parametrize_with_checks(
    [
        SVMClassifier(),
        SVMClassifier(loss="squared_hinge", C=10.0),
        SVMClassifier(kernel="poly", degree=2, coef0=1.0),
        SVMClassifier(strategy="diodm", n_levels=1, branching=2),
        SVMClassifier(strategy="dc", n_levels=2, branching=2),
        SVMClassifier(strategy="cascade", n_levels=1, branching=2),
        SVMClassifier(strategy="dc", n_levels=1, branching=3, stop_level=1),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def moons():
    return make_moons(1400, noise=0.3, random_state=0)


@pytest.mark.parametrize("n", [300, 1400])
@pytest.mark.parametrize(("loss", "C"), [("hinge", 5.0), ("squared_hinge", 3.0)])
def test_optimality_conditions_on_a_gram_matrix_of_another_library(moons, loss, C, n):
    X, y = moons[0][:n], np.where(moons[1][:n] == 1, 1.0, -1.0)
    weights = np.random.default_rng(0).uniform(0.5, 2, n)
    machine = SVMClassifier(C=C, loss=loss, gamma=2.0, tol=1e-8, random_state=0).fit(X, y, weights)
    g = np.zeros(n)
    g[machine.support_] = machine.dual_coef_[0] * y[machine.support_]
    margins = y * (rbf_kernel(X, gamma=2.0) @ (y * g))
    if loss == "hinge":
        assert g.min() >= 0 and (g <= C * weights).all()
        inside = (g > 1e-6) & (g < C * weights - 1e-6)
        assert inside.sum() > 5
        assert_allclose(margins[inside], 1, atol=1e-4)
        assert (margins[g == 0] > 1 - 1e-4).all() and (margins[g == C * weights] < 1 + 1e-4).all()
    else:
        # (g - 2 C_i xi_i)^2 / 4 C_i is a row's part of the gap
        parts = (g - 2 * C * weights * np.maximum(1 - margins, 0)) ** 2 / (4 * C * weights)
        assert parts.sum() < 2e-8 * machine.objective_


def test_digits_are_told_apart():
    X, y = load_digits(return_X_y=True)
    machine = SVMClassifier(C=10.0, random_state=0).fit(X[:900], y[:900])
    assert machine.score(X[900:], y[900:]) > 0.95
    assert machine.dual_coef_.shape == (10, len(machine.support_))


def test_partitions_and_whole_agree(moons):
    exact = SVMClassifier(C=5.0, tol=1e-6).fit(*moons)
    tree = SVMClassifier(C=5.0, tol=1e-6, strategy=DiODM(early_stop=False), n_levels=1, random_state=0).fit(*moons)
    assert_allclose(tree.objective_, exact.objective_, rtol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"C": 0.0}, ValueError, r"C must be a finite number in \(0, inf\), got 0.0"),
        ({"C": -1}, ValueError, "C must be"),
        ({"C": "much"}, TypeError, "C must be a finite number"),
        ({"loss": "logistic"}, ValueError, "loss must be one of 'hinge', 'squared_hinge', got 'logistic'"),
        ({"kernel": "sigmoid"}, ValueError, "kernel must be one of"),
    ],
)
def test_parameters_out_of_range_are_named(moons, parameters, error, message):
    with pytest.raises(error, match=message):
        SVMClassifier(**parameters).fit(*moons)
