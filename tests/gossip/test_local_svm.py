"""The problem of one site, against a general solver of quadratic programs."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import Bounds, minimize

from dimargin.gossip.rounds.local_svm import LocalSVM
from dimargin.problems.hinge import HingeRows


def problem(seed, n, d=5, outputs=1):
    rng = np.random.default_rng(seed)
    X, signs = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], size=(outputs, n))
    return HingeRows(X, signs), rng.uniform(0.3, 3, size=d), rng.normal(size=(outputs, d)), float(rng.uniform(0.01, 2))


def value(rows, curvature, centre, c, w):
    losses = np.maximum(0, 1 - rows.signs * (w @ rows.X.T)).sum(axis=1)
    return (curvature * (w - centre) ** 2).sum(axis=1) / 2 + c * losses


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60))
def test_it_is_the_minimiser(seed, n):
    rows, curvature, centre, c = problem(seed, n)
    found = LocalSVM(rows, c, curvature, np.zeros((1, n))).solve(centre, 1e-9, 500)
    Z = rows.signs[0][:, None] * rows.X / np.sqrt(curvature)
    gain = 1 - rows.signs[0] * (rows.X @ centre[0])

    def dual(a):
        v = Z.T @ a
        return v @ v / 2 - a @ gain, Z @ v - gain

    best = -minimize(dual, np.zeros(n), jac=True, bounds=Bounds(0, c), options={"ftol": 1e-15, "gtol": 1e-10}).fun
    assert value(rows, curvature, centre, c, found)[0] == pytest.approx(best, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", [7, 8, 9])
def test_large_features_and_a_small_curvature(seed):
    """The first step of the multipliers was so large that Newton's system was singular by rounding."""
    rng = np.random.default_rng(seed)
    X, signs = np.round(rng.normal(size=(48, 2))) * 1e6, rng.choice([-1.0, 1.0], size=(1, 48))
    machine = LocalSVM(HingeRows(X, signs), 1 / 48, np.full(2, 1e-6), np.zeros((1, 48)))
    found = machine.solve(np.zeros((1, 2)), 1e-6, 200)
    assert value(machine.rows, np.full(2, 1e-6), 0.0, 1 / 48, found)[0] <= 1.5  # It is 1 at no weights.


def test_many_rows_and_outputs():
    """The gap of the coefficients is that of the whole problem, sparse rows or not."""
    rows, curvature, centre, c = problem(1, 700, outputs=3)
    dense = LocalSVM(rows, c, curvature, np.zeros((3, 700)))
    found = dense.solve(centre, 1e-8, 200)
    a = dense.dual
    assert (a >= 0).all() and (a <= c).all()
    pull = (a * rows.signs) @ rows.X
    assert_allclose(found, centre + pull / curvature, atol=1e-2)
    dual = a.sum(axis=1) - (rows.signs * a * (centre @ rows.X.T)).sum(axis=1) - (pull**2 / curvature).sum(axis=1) / 2
    assert_allclose(value(rows, curvature, centre, c, found), dual, rtol=2e-8)
    sparse = LocalSVM(HingeRows(sp.csr_array(rows.X), rows.signs), c, curvature, np.zeros((3, 700)))
    assert_allclose(sparse.solve(centre, 1e-8, 200), found, rtol=1e-3, atol=1e-4)


def test_it_goes_on_from_the_last_solution():
    rows, curvature, centre, c = problem(2, 600)
    machine = LocalSVM(rows, c, curvature, np.zeros((1, 600)))
    exact = machine.solve(centre, 1e-8, 200)
    before = machine.dual.copy()
    again = machine.solve(centre, 1e-6, 0)
    assert_array_equal(machine.dual, before)
    assert_allclose(value(rows, curvature, centre, c, again), value(rows, curvature, centre, c, exact), rtol=1e-2)


def test_a_site_without_rows_stays_at_the_centre():
    machine = LocalSVM(HingeRows(np.zeros((0, 2)), np.zeros((1, 0))), 1.0, np.ones(2), np.zeros((1, 0)))
    assert_allclose(machine.solve(np.array([[1.0, 2.0]]), 1e-6, 5), [[1.0, 2.0]])
