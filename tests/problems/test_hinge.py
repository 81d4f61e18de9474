"""Rows with any of the losses: gradients, dual coefficients and bounds, against differences and scipy."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from dimargin.estimators.certificate import hinge_objectives
from dimargin.problems.hinge import LOSSES, HingeRows, hinge_dual, loss_of

ALPHA, SMOOTH = 1e-2, LOSSES[1:]


def rows_of(name, n=60, sparse=False, n_outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * rng.integers(0, 2, size=(n, 5))
    signs = np.where(X @ rng.normal(size=(5, n_outputs)) + rng.normal(size=(n, n_outputs)) > 0, 1.0, -1.0).T
    return HingeRows(sp.csr_array(X) if sparse else X, signs, loss_of(name, 0.3, 0.6))


def losses(name, m):
    """As they are printed."""
    if name == "odm":
        return (np.maximum(0, 0.7 - m) ** 2 + 0.6 * np.maximum(0, m - 1.3) ** 2) / (2 * 0.7**2)
    return np.maximum(0, 1 - m) ** (2 if name == "squared_hinge" else 1)


def objective(rows, name, w, alpha=ALPHA):
    return alpha / 2 * w @ w + losses(name, rows.signs[0] * (rows.X @ w)).mean()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("sparse", [False, True])
def test_an_evaluation_is_loss_and_slope(name, sparse):
    rows, rng = rows_of(name, sparse=sparse, n_outputs=2), np.random.default_rng(1)
    w = rng.normal(size=(2, 5))
    found, margins = rows.evaluate(w), rows.signs * (rows.X @ w.T).T
    assert_allclose(found.loss, losses(name, margins).sum(axis=1))
    slopes = (losses(name, margins + 1e-6) - losses(name, margins - 1e-6)) / 2e-6
    assert_allclose(found.dual, -slopes, atol=1e-5)
    assert_allclose(found.pull, (rows.X.T @ (rows.signs * found.dual).T).T)
    assert_allclose(found.active, rows.gains(found.dual).sum(axis=1))
    if name != "hinge":  # which is why no site sends the quadratic terms as well
        assert_allclose(rows.prices(found.dual).sum(axis=1), found.loss)
        assert (found.active**2 <= 2 * rows.n_rows * rows.largest_gain * found.loss * (1 + 1e-12)).all()
        second = np.diff(losses(name, np.linspace(-3, 3, 6001)), 2) / 1e-6
        assert second.max() == pytest.approx(rows.steepness, rel=1e-6)
    chosen = np.array([3, 3, 7])
    assert_allclose(rows.evaluate(w, chosen).loss, losses(name, margins[:, chosen]).sum(axis=1))


@pytest.mark.parametrize("name", LOSSES)
def test_rows_that_are_none(name):
    found = HingeRows(np.zeros((0, 5)), np.zeros((2, 0)), loss_of(name)).evaluate(np.ones((2, 5)))
    assert not found.loss.any() and not found.pull.any() and found.dual.shape == (2, 0)


@given(st.sampled_from(LOSSES), st.integers(0, 99), st.floats(-3, 3))
def test_a_dual_objective_is_below_all_primal_ones(name, seed, size):
    rows, rng = rows_of(name, 12, seed=seed), np.random.default_rng(seed)
    dual = rng.normal(size=(1, 12)) * 10**size
    dual = dual if name == "odm" else np.abs(dual)
    dual = dual / dual.max() if name == "hinge" else dual
    least = min(objective(rows, name, w) for w in (rng.normal(size=(20, 5)) * 10 ** rng.uniform(-2, 1, size=(20, 1))))
    found = rows.dual_objective(dual, ALPHA)[0]
    assert found <= least
    pull = rows.X.T @ (rows.signs * dual)[0] / 12
    scales = np.linspace(0, 1 if name == "hinge" else 2, 41)
    at = [(rows.gains(s * dual) - rows.prices(s * dual)).mean() - s * s * pull @ pull / (2 * ALPHA) for s in scales]
    assert found >= max(at) - 1e-9 * (1 + abs(max(at)))


@pytest.mark.parametrize("name", SMOOTH)
def test_the_certificate_of_a_smooth_loss_closes_the_gap(name):
    rows = rows_of(name, 200)
    best = minimize(lambda w: objective(rows, name, w), np.zeros(5), method="BFGS", options={"gtol": 1e-9})
    for factor, tol in ((1.0, 1e-8), (1.1, 1e-3), (0.0, 1e-3)):
        w = factor * best.x
        found = hinge_objectives(rows, w[None], ALPHA, tol)
        assert found.primal[0] == pytest.approx(objective(rows, name, w))
        assert found.dual[0] <= best.fun * (1 + 1e-12)
        assert found.dual[0] >= best.fun - tol * found.primal[0]


def test_roundings_bound_what_longer_numbers_tell():
    for name in SMOOTH:
        rows, w = rows_of(name, 50), np.random.default_rng(3).normal(size=5) * 1e3
        margins = rows.signs[0].astype(np.longdouble) * (rows.X.astype(np.longdouble) @ w.astype(np.longdouble))
        exact = losses(name, margins).sum()
        error = abs(float(rows.evaluate(w[None]).loss[0] - exact))
        assert error <= rows.loss_rounding(w[None])[0] <= 1e-10 * float(exact)


def test_a_dual_objective_without_a_price_is_zero_for_smooth_losses():
    """Sums from other sites may leave none, by rounding: the factor was 1e290, and its square overflowed."""
    nothing, activity = np.zeros((1, 1)), np.array([6.3e-9])
    with np.errstate(all="raise"):
        assert hinge_dual(activity, nothing, 1e-2, price=np.zeros(1))[0] == 0.0
        assert hinge_dual(activity, nothing, 1e-2)[0] > 6e-9  # those of the hinge are bounded
