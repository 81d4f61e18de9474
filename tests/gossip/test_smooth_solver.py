"""The problem of one site with a smooth loss is solved to its minimum."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from dimargin.gossip.rounds.smooth_solver import solve_smooth
from dimargin.problems.hinge import HingeRows, loss_of


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["squared_hinge", "odm"]),
    st.integers(1, 40),
    st.integers(1, 6),
    st.floats(1e-3, 100),
    st.floats(1e-2, 10),
    st.booleans(),
)
def test_it_finds_what_a_general_solver_finds(seed, loss, n, d, h, c, is_sparse):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    curvature, centre = h * rng.uniform(0.5, 2, d), rng.normal(size=(1, d))
    rows = HingeRows(sp.csr_array(X) if is_sparse else X, y[None], loss_of(loss, 0.3, 0.7))
    weights, dual = solve_smooth(rows, c, curvature, centre, np.zeros((1, d)), 1e-13, 200)

    def objective(w):
        value = (curvature * (w - centre[0]) ** 2).sum() / 2 + c * rows.evaluate(w[None]).loss[0]
        return value, curvature * (w - centre[0]) - c * rows.evaluate(w[None]).pull[0]

    best = minimize(objective, centre[0], jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-12})
    assert objective(weights[0])[0] <= best.fun * (1 + 1e-9) + 1e-12
    # The coefficients of the rows are those of the optimum: they balance the distance from the centre.
    assert_allclose(curvature * (weights - centre)[0], c * X.T @ (y * dual[0]), atol=1e-5 * (1 + c * n))


def test_a_site_without_rows_stays_at_the_centre():
    rows = HingeRows(np.zeros((0, 2)), np.zeros((1, 0)), loss_of("odm"))
    weights, dual = solve_smooth(rows, 1.0, np.ones(2), np.array([[1.0, 2.0]]), np.zeros((1, 2)), 1e-9, 10)
    assert weights.tolist() == [[1.0, 2.0]] and dual.shape == (1, 0)


@pytest.mark.parametrize("loss", ["squared_hinge", "odm"])
def test_each_output_is_solved(loss):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), np.where(rng.random(30) < 0.5, 1.0, -1.0)
    rows = HingeRows(X, np.array([y, -y]), loss_of(loss))
    weights, _ = solve_smooth(rows, 1.0, np.ones(3), np.zeros((2, 3)), np.zeros((2, 3)), 1e-12, 100)
    assert_allclose(weights[0], -weights[1], atol=1e-6)
