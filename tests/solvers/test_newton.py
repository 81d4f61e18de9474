"""Generalised Newton against L-BFGS and finite differences; its certificate, shards and limits."""

import time
from dataclasses import dataclass
from itertools import pairwise
from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import LOSSES, ODM, SQUARED_HINGE, name
from hypothesis import given
from hypothesis import strategies as st
from linear_problems import losses_of, rows_of, shards_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad, minimize

from dimargin.kernels.row_transform import StoredRows
from dimargin.problems.losses import Loss, ODMLoss, PiecewiseConjugate, SquaredHingeLoss
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import Limits, LinearFeatures, Newton, Shard, newton, solve
from dimargin.solvers.line_search import next_steps, step_to_minimum
from dimargin.strategies.linear_newton import linear_shards


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """A hinge rounded off below one: its coefficients are bounded, other than those of the package's smooth losses."""

    C: float = 3.0

    def value(self, margins, weights, mass, total):
        short = np.maximum(1 - margins, 0)
        return self.C * weights * total / mass * np.where(short < 0.5, short**2, short - 0.25)

    def conjugate(self, weights, mass, total):
        box, zero = self.C * weights * total / mass, np.zeros(len(weights))
        return PiecewiseConjugate(zero - 1, 0.5 / box, zero, zero, zero, box)


SMOOTH = [loss for loss in LOSSES if loss.smooth]
every_smooth_loss = pytest.mark.parametrize("loss", SMOOTH, ids=name)
both = pytest.mark.parametrize("intercept", [False, True])


def fit(X, losses, tol=1e-10, start=None, n_shards=1, n_threads=1, **limits):
    shards = shards_of(X, losses, np.array_split(np.arange(len(X)), n_shards), n_threads)
    start = np.zeros((len(losses.labels), X.shape[1] + 1)) if start is None else start
    return solve(shards, Newton(X.shape[1], losses.intercept), start, Limits(tol=tol, **limits))


def primal(X, losses, q, parameters):
    """One output's objective at weights with the intercept behind them, by the definition."""
    w, b = parameters[:-1], parameters[-1] if losses.intercept else 0.0
    margins = losses.labels[q] * (X @ w + b)
    return 0.5 * w @ w + losses.loss.value(margins, losses.weights, losses.mass, losses.total).sum()


@every_smooth_loss
@both
def test_the_optimum_is_that_of_l_bfgs(loss, intercept):
    X, labels, weights = rows_of(200, 5, n_outputs=3)
    losses = losses_of(labels, weights, loss, intercept)
    solution = fit(X, losses)
    assert solution.status == "converged" and solution.passes <= 20
    assert [entry["kernel_evaluations"] for entry in solution.history] == [0] * solution.passes
    assert solution.history[-1]["relative_gap"] == solution.objectives.worst_gap
    for q in range(3):
        found = minimize(lambda parameters: primal(X, losses, q, parameters), np.zeros(6), options={"gtol": 1e-9})  # noqa: B023
        parameters = np.append(solution.weights[q], solution.objectives.intercept[q])
        assert solution.objectives.primal[q] == pytest.approx(primal(X, losses, q, parameters), rel=1e-12)
        assert solution.objectives.primal[q] <= found.fun * (1 + 1e-9)
        assert_allclose(parameters[: 5 + intercept], found.x[: 5 + intercept], atol=1e-4)


@pytest.mark.slow_after(1)
@every_smooth_loss
@both
@given(seed=st.integers(0, 2**16), n=st.integers(2, 40), d=st.integers(1, 6), scale=st.floats(-3, 3))
def test_every_step_is_certified(loss, intercept, seed, n, d, scale):
    """The dual objective never passes the optimum, the primal one never rises, whatever the loss weighs."""
    X, labels, weights = rows_of(n, d, seed)
    losses = losses_of(labels, weights * 10.0**scale, loss, intercept)
    best = fit(X, losses, tol=1e-11)
    objectives = []
    for steps in range(1, 6):
        objectives.append(fit(X, losses, tol=1e-11, max_iter=steps).objectives)
    optimum = best.objectives.primal[0]
    size = max(optimum, 1e-12)
    of_one_class = intercept and abs(labels.sum()) == n  # whose optimum is zero, of which nothing is a part
    assert best.objectives.worst_gap <= 1e-8 or (of_one_class and optimum <= 1e-18 * losses.weights.sum())
    for now in objectives:
        assert now.dual[0] <= optimum + 1e-9 * size
        assert now.primal[0] >= optimum - 1e-9 * size
    values = [now.primal[0] for now in objectives]
    assert all(after <= before + 1e-12 * size for before, after in pairwise(values))


@every_smooth_loss
@both
def test_the_gradient_is_that_of_finite_differences(loss, intercept):
    X, labels, weights = rows_of(60, 4)
    losses = losses_of(labels, weights, loss, intercept)
    solver, rng = Newton(4, intercept), np.random.default_rng(1)
    for _ in range(5):
        parameters = rng.normal(size=(1, 5)) * (1 if intercept else np.r_[1, 1, 1, 1, 0])
        state = solver.init(shards_of(X, losses, [np.arange(len(X))]), parameters, Limits())
        solver.check(state)
        error = check_grad(
            lambda x: primal(X, losses, 0, x),
            lambda x, found=state.gradient[0]: found,
            parameters[0],
            epsilon=1e-7,
        )
        assert error <= 1e-4 * np.abs(state.gradient).max()


@pytest.mark.slow_after(1)
@both
@given(seed=st.integers(0, 999), size=st.floats(0, 4))
def test_the_gap_of_a_loss_with_bounded_coefficients_is_one(intercept, seed, size):
    X, labels, weights = rows_of(12, 2, seed)
    losses = losses_of(labels, weights, SmoothedHinge(), intercept)
    found = minimize(lambda parameters: primal(X, losses, 0, parameters), np.zeros(3), method="Nelder-Mead", tol=1e-9)
    parameters = size * np.random.default_rng(seed).normal(size=(1, 3)) * [1, 1, intercept]
    solver = Newton(2, intercept)
    objectives = solver.evaluate(solver.init(shards_of(X, losses, [np.arange(len(X))]), parameters, Limits()))
    assert objectives.primal[0] == pytest.approx(primal(X, losses, 0, parameters[0]))
    assert objectives.dual[0] <= found.fun * (1 + 1e-6) + 1e-9


def test_the_mass_of_a_part_counts():
    X, labels, weights = rows_of(100, 3)
    whole = losses_of(labels, weights, ODM, False)
    part = np.arange(0, 100, 2)
    scaled = whole.of_rows(part, float(weights[part].sum()))
    again = losses_of(labels[:, part], weights[part], ODM, False)
    assert_allclose(fit(X[part], scaled).weights, fit(X[part], again).weights, rtol=1e-10)


@every_smooth_loss
@both
def test_shards_and_threads_change_no_bit_and_little(loss, intercept):
    X, labels, weights = rows_of(5000, 6, n_outputs=2)
    losses = losses_of(labels, weights, loss, intercept)
    one, two = (fit(X, losses, n_shards=7, n_threads=k) for k in (1, 2))
    assert_array_equal(one.weights, two.weights)
    assert_allclose(fit(X, losses).weights, one.weights, rtol=1e-9, atol=1e-12)


@every_smooth_loss
@both
def test_sparse_rows_take_the_steps_of_dense_ones(loss, intercept):
    X, labels, weights = rows_of(800, 20, n_outputs=3, density=0.2)
    losses = losses_of(labels, weights, loss, intercept)

    def solution_of(rows):
        shards = LocalEngine(1, Event()).scatter(linear_shards(rows, losses))
        return solve(shards, Newton(20, intercept), np.zeros((3, 21)), Limits(tol=1e-10))

    dense, sparse = solution_of(X), solution_of(sp.csr_array(X))
    assert sparse.status == "converged" and sparse.passes == dense.passes
    assert_allclose(sparse.parameters, dense.parameters, rtol=1e-7, atol=1e-9)


@both
def test_one_class_and_rows_of_zeros(intercept):
    X = np.vstack([np.zeros((5, 2)), np.ones((5, 2))])
    for labels in (np.ones((1, 10)), -np.ones((1, 10)), np.where(np.arange(10) < 5, 1.0, -1.0)[None]):
        for loss in SMOOTH:
            solution = fit(X, losses_of(labels, np.ones(10), loss, intercept))
            assert np.isfinite(solution.weights).all()
            if solution.status != "converged":  # nothing is a part of an optimum of zero
                assert intercept and abs(labels.sum()) == 10
                assert solution.status == "precision" and solution.objectives.primal[0] <= 1e-18


def test_a_start_at_the_optimum_ends_there():
    X, labels, weights = rows_of(300, 4)
    losses = losses_of(labels, weights, SQUARED_HINGE, True)
    first = fit(X, losses)
    start = np.column_stack([first.weights, first.objectives.intercept])
    again = fit(X, losses, tol=1e-8, start=start)
    assert again.passes == 1 and len(again.history) == 1


@pytest.mark.slow
@given(seed=st.integers(0, 2**16), kinks=st.integers(0, 12), scale=st.floats(-3, 3))
def test_a_step_along_a_line_goes_down_nearly_all_the_way(seed, kinks, scale):
    """On convex piecewise quadratics, of which the search sees slopes at the steps it asks for."""
    rng = np.random.default_rng(seed)
    indices, bends = 10**scale * rng.exponential(size=kinks), 10 ** rng.uniform(-2, 2, kinks)

    widths, stiffness = 10**scale * rng.exponential(size=kinks), 10 ** rng.uniform(-2, 1)

    def slope(step):
        return float(stiffness * step - 1 + (bends * np.clip((step - indices) / widths, 0, 1)).sum())

    def fallen(step):
        inside = np.clip(step - indices, 0, widths)
        rises = bends * (inside**2 / (2 * widths) + np.maximum(step - indices - widths, 0))
        return step - stiffness * step**2 / 2 - rises.sum()

    points, step = [(0.0, -1.0), (1.0, slope(1.0))], np.nan
    while not np.isfinite(step) and len(points) <= 5 * Newton.max_line_passes:
        points += [(t, slope(t)) for t in next_steps(points)]
        step = step_to_minimum(points)
    best = max(fallen(t) for t in np.linspace(0, 2 * step, 2001))
    assert fallen(step) > 0 and fallen(step) >= 0.5 * best


def overshooting():
    """From far above most rows are no loss, and the few that are send a full step far below, where most are."""
    labels = np.append(np.ones(200), -1.0)[None]
    return np.ones((201, 1)), losses_of(labels, np.ones(201), SquaredHingeLoss(C=10.0), False), np.array([[5.0, 0.0]])


def test_steps_that_overshoot_are_cut():
    X, losses, start = overshooting()
    values = [fit(X, losses, max_iter=k, tol=1e-12, start=start).objectives.primal[0] for k in range(1, 8)]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(values))
    solution = fit(X, losses, tol=1e-12, start=start)
    assert solution.status == "converged" and solution.history[-1]["epochs"] > solution.passes


@every_smooth_loss
def test_a_full_step_that_is_good_takes_one_pass(loss):
    X, labels, weights = rows_of(200, 5)
    solution = fit(X, losses_of(labels, weights, loss, True))
    assert solution.history[-1]["epochs"] == solution.passes


def test_a_limit_leaves_no_step_that_goes_up():
    """Wherever in a solve it is reached: within the pass over a full step too."""

    class ReachedLater(Limits):
        calls = 0

        @property
        def reached(self):
            self.__dict__["calls"] = self.calls + 1
            return self.calls > self.last

        @property
        def out_of_time(self):
            return self.calls > self.last

    X, losses, start = overshooting()
    values = []
    for last in range(12):
        limits = ReachedLater(tol=1e-12)
        limits.__dict__["last"] = last
        solution = solve(shards_of(X, losses, [np.arange(len(X))]), Newton(1), start, limits)
        parameters = np.append(solution.weights[0], 0.0)
        assert solution.objectives.primal[0] == pytest.approx(primal(X, losses, 0, parameters), rel=1e-12)
        values.append(solution.objectives.primal[0])
    assert max(values) <= primal(X, losses, 0, start[0]) * (1 + 1e-12) and min(values) < values[0]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_limits_end_a_long_pass_and_leave_a_certified_model(monkeypatch, n_threads):
    X, labels, weights = rows_of(3000, 5)
    losses = losses_of(labels, weights, ODMLoss(1e3, 0.5, 0.2), False)
    monkeypatch.setattr(newton, "chunk_rows", lambda width: 1)

    class Slow(LinearFeatures):
        def rows(self, index):
            time.sleep(0.01)
            return super().rows(index)

    cancelled, halves = Event(), np.split(np.arange(3000), 2)
    engine = LocalEngine(n_threads, cancelled)
    shards = engine.scatter([Shard(Slow(StoredRows(X[half])), losses.of_rows(half, losses.mass)) for half in halves])
    began = time.perf_counter()
    limits = Limits(tol=1e-6, deadline=began + 0.3, cancelled=cancelled)
    solution = solve(shards, Newton(5), np.zeros((1, 6)), limits)
    assert solution.status == "max_time" and time.perf_counter() - began < 10  # 30 s without
    assert not solution.weights.any() and solution.objectives.worst_gap <= 1 + 1e-9
    interrupted = Event()
    interrupted.set()
    assert fit(X, losses, interrupted=interrupted).status == "stopped"


@pytest.mark.parametrize("look", [1, 2, 4])  # before any row is added, and between outputs
def test_a_hessian_that_was_given_up_is_made_again(look, monkeypatch):
    class OnceReached(Limits):
        looked = 0

        @property
        def reached(self):
            OnceReached.looked += 1
            return OnceReached.looked == look

    given_up, measured = [], Newton.measured

    def noted(self, state):
        found = measured(self, state)
        given_up.append(state.hessian_at is None and not state.hessian.any())
        return found

    monkeypatch.setattr(Newton, "measured", noted)
    X, labels, weights = rows_of(3000, 5, n_outputs=4)
    losses = losses_of(labels, weights, ODMLoss(1e3, 0.5, 0.2), False)
    solution = solve(shards_of(X, losses, [np.arange(len(X))]), Newton(5), np.zeros((4, 6)), OnceReached(tol=1e-9))
    assert given_up[0] and not any(given_up[1:]) and solution.status == "converged"
    assert_allclose(solution.weights, fit(X, losses).weights, rtol=1e-6)


def test_a_tolerance_below_rounding_ends():
    X, labels, weights = rows_of(400, 3)
    solution = fit(X, losses_of(labels, weights, ODM, False), tol=1e-300)
    assert solution.status in ("precision", "converged") and solution.objectives.worst_gap < 1e-12


@pytest.mark.parametrize("seed", [69, 107, 189])
def test_rows_far_from_zero_end_with_a_certificate(seed):
    """They were refused, because their Hessian was not positive definite, with words about infinite features."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(3, 7), rng.integers(3, 6)
    X = 1e7 * (1 + 0.01 * rng.normal(size=(n, d)))
    labels = np.r_[-1.0, 1.0, np.where(rng.random(n - 2) < 0.6, 1.0, -1.0)][None]
    weights, lam = 10 ** rng.uniform(-3, 3, n), 10 ** rng.uniform(3, 8)
    losses = losses_of(labels, weights, ODMLoss(lam=lam, upsilon=1.0, theta=0.2), bool(seed % 2))
    solution = fit(X, losses, tol=1e-12)
    assert solution.status == "precision" and np.isfinite(solution.objectives.worst_gap)


@pytest.mark.parametrize("seed", [297, 573, 1873])
def test_a_hessian_that_has_vanished_is_summed_again(seed):
    """They were refused, because rounding errors were left of the Hessian when no row had a loss any more."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 40)), int(rng.integers(1, 3))
    X = 1e6 * rng.normal(size=(n, d))
    labels = np.sign(X @ rng.normal(size=d))[None]
    weights = 10 ** rng.uniform(-1, 1, n)
    losses = losses_of(labels, weights, SquaredHingeLoss(float(10 ** rng.uniform(0, 4))), bool(seed % 2))
    solution = fit(X, losses, tol=1e-12, max_iter=60)
    assert np.isfinite(solution.weights).all() and np.isfinite(solution.objectives.worst_gap)


def test_a_start_that_suffices_needs_no_hessian(monkeypatch):
    X, labels, weights = rows_of(50, 4)
    shards = shards_of(X, losses_of(labels, weights, SQUARED_HINGE, False), [np.arange(20), np.arange(20, 50)])
    found = solve(shards, Newton(4), np.zeros((1, 5)), Limits(tol=1e-6))
    again = solve(shards, Newton(4, start_may_suffice=True), found.parameters, Limits(tol=1e-3))
    assert again.status == "converged" and again.passes == 1 and again.objectives.worst_gap <= 1e-3
    other = solve(shards, Newton(4, start_may_suffice=True), 0.1 * found.parameters, Limits(tol=1e-6))
    assert_allclose(other.weights, found.weights, rtol=1e-5, atol=1e-8)
    monkeypatch.setattr(newton, "_evaluate_with_hessian", None)
    solve(shards, Newton(4, start_may_suffice=True), found.parameters, Limits(tol=1e-3))
