"""SpSVM against the primal of the squared hinge, minimised by scipy and by the exact solver."""

import numpy as np
import pytest
from helpers import blobs
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel

from dimargin import SVMClassifier
from dimargin_bench.kernel_rivals import SpSVM

C, GAMMA = 2.0, 0.5


@pytest.fixture(scope="module")
def rows():
    X, labels = blobs(2000)
    return X, labels[0]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("n", [500, 2000])
def test_all_rows_as_basis_make_the_exact_machine(n):
    X, labels = blobs(n)
    y = labels[0]
    machine = SpSVM(n_basis=n, n_candidates=1, C=C, gamma=GAMMA, random_state=0).fit(X, y)
    exact = SVMClassifier(fit_intercept=False, loss="squared_hinge", C=C, gamma=GAMMA, tol=1e-9).fit(X, y)
    assert_allclose(machine.objective_, exact.objective_, rtol=1e-5)
    assert_allclose(machine.decision_function(X), exact.decision_function(X), atol=1e-3)
    assert sorted(machine.basis_) == list(range(n))


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_coefficients_minimise_the_primal_on_the_basis(rows, offset):
    X, y = rows
    machine = SpSVM(n_basis=25, C=C, gamma=GAMMA, tol=1e-12, random_state=0, offset=offset).fit(X, y)
    values = rbf_kernel(X, X[machine.basis_], gamma=GAMMA) + offset
    between = values[machine.basis_]

    def objective(b):
        lacking = np.maximum(1 - y * (values @ b), 0)
        return 0.5 * b @ between @ b + C * lacking @ lacking, between @ b - 2 * C * values.T @ (y * lacking)

    found = minimize(objective, np.zeros(25), jac=True, method="BFGS", options={"gtol": 1e-4, "maxiter": 2000})
    assert_allclose(machine.objective_, found.fun, rtol=1e-6)
    assert_allclose(objective(machine.dual_coef_[0])[0], machine.objective_, rtol=1e-9)
    assert np.abs(objective(machine.dual_coef_[0])[1]).max() < 1e-3
    assert_allclose(machine.decision_function(X), values @ machine.dual_coef_[0], atol=1e-9)
    assert machine.n_iter_ < 150  # some six each time, as Newton's method needs them


def test_more_basis_rows_come_near_the_exact_objective(rows):
    X, y = rows
    exact = SVMClassifier(fit_intercept=False, loss="squared_hinge", C=C, gamma=GAMMA).fit(X, y).objective_
    found = [SpSVM(n_basis=n, C=C, gamma=GAMMA, random_state=0).fit(X, y).objective_ for n in (10, 40, 160)]
    assert found == sorted(found, reverse=True) and exact <= found[-1] < 1.1 * exact


def test_chosen_rows_are_better_than_the_first_that_come(rows):
    X, y = rows
    chosen, drawn = (
        [SpSVM(n_basis=15, n_candidates=k, C=C, gamma=GAMMA, random_state=seed).fit(X, y).objective_ for seed in (0, 1)]
        for k in (59, 1)
    )
    assert max(chosen) < min(drawn)
