"""The ODM by single coordinates against ODMClassifier, the closed form, and scipy on the dual as the paper has it."""

import numpy as np
import pytest
from helpers import blobs
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel

from dimargin import ODMClassifier
from dimargin_bench.kernel_rivals import SingleCoordinateODM

GAMMA = 0.5


@pytest.mark.parametrize(("lam", "upsilon", "theta"), [(256.0, 0.4, 0.2), (2000.0, 1.0, 0.0), (100.0, 0.1, 0.8)])
def test_it_reaches_the_objective_of_the_odm(lam, upsilon, theta):
    X, labels = blobs(300)
    loss = {"lam": lam, "upsilon": upsilon, "theta": theta, "gamma": GAMMA}
    machine = SingleCoordinateODM(**loss, tol=1e-7, random_state=0).fit(X, labels[0])
    exact = ODMClassifier(**loss, tol=1e-8).fit(X, labels[0])
    assert_allclose(machine.objective_, exact.objective_, rtol=2e-7)
    assert_allclose(machine.decision_function(X), exact.decision_function(X), atol=1e-3)
    assert 0 <= machine.duality_gap_ <= 1e-7
    assert not (machine.zeta_ * machine.beta_).any()


def test_without_a_band_and_with_equal_weights_it_is_ridge_regression():
    """``(Q + M c I) gamma = 1`` for theta = 0 and upsilon = 1, with ``c = 1 / lam``."""
    X, labels = blobs(200)
    y, lam = labels[0], 500.0
    machine = SingleCoordinateODM(lam=lam, upsilon=1.0, theta=0.0, gamma=GAMMA, tol=1e-12, random_state=0).fit(X, y)
    Q = y[:, None] * y * rbf_kernel(X, gamma=GAMMA)
    expected = np.linalg.solve(Q + 200 / lam * np.eye(200), np.ones(200))
    assert_allclose(machine.zeta_ - machine.beta_, expected, atol=1e-4)


def test_its_variables_minimise_the_dual_of_the_paper():
    X, labels = blobs(40)
    y, lam, upsilon, theta, M = labels[0], 100.0, 0.4, 0.2, 40
    machine = SingleCoordinateODM(lam=lam, upsilon=upsilon, theta=theta, gamma=GAMMA, tol=1e-10, random_state=0)
    machine.fit(X, y)
    Q, c = y[:, None] * y * rbf_kernel(X, gamma=GAMMA), (1 - theta) ** 2 / (lam * upsilon)

    def dual(alpha):
        zeta, beta = np.split(alpha, 2)
        g = zeta - beta
        value = 0.5 * g @ Q @ g + M * c / 2 * (upsilon * zeta @ zeta + beta @ beta)
        value += (theta - 1) * zeta.sum() + (theta + 1) * beta.sum()
        return value, np.r_[Q @ g + M * c * upsilon * zeta + theta - 1, -Q @ g + M * c * beta + theta + 1]

    options = {"ftol": 1e-14, "gtol": 1e-9, "maxiter": 10_000}
    found = minimize(dual, np.zeros(2 * M), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 2 * M, options=options)
    assert_allclose(dual(np.r_[machine.zeta_, machine.beta_])[0], found.fun, rtol=1e-8)
    assert_allclose(machine.objective_, -found.fun, rtol=1e-8)
