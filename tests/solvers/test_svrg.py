"""Stochastic variance reduced gradient against its equation in numpy; stages, rounds, steps and core-sets."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import ODM, SQUARED_HINGE, name
from hypothesis import given
from hypothesis import strategies as st
from linear_problems import losses_of, rows_of, shards_of
from numpy.testing import assert_allclose, assert_array_equal

from dimargin import _core
from dimargin.kernels.row_transform import StoredRows
from dimargin.problems.losses import ODMLoss
from dimargin.solvers import SVRG, CoreSetSVRG, Limits, LinearFeatures, Newton, solve
from dimargin.solvers.core_set_svrg import cover

MILD = ODMLoss(lam=5.0, upsilon=0.5, theta=0.2)


def fit(X, losses, solver, n_parts=1, **limits):
    parts = [np.arange(X.shape[0])[part::n_parts] for part in range(n_parts)]
    return solve(shards_of(X, losses, parts), solver, np.zeros((len(losses.labels), X.shape[1] + 1)), Limits(**limits))


def steps_by_definition(X, losses, order, steps, anchor, gradient, change):
    """``w -= eta ( f_i'(w) - f_i'(w~) + h )``, one row after the other."""
    n, indices = losses.n_rows, anchor + change
    for q, parameters in enumerate(indices):
        y = losses.labels[q]

        def slope(i, at, y=y):
            margin = y[i] * (X[i] @ at[:-1] + at[-1])
            dual = losses.of_rows(np.array([i]), losses.mass).conjugate.response(np.array([[margin]]))[0][0, 0]
            return np.append(at[:-1] - n * dual * y[i] * X[i], -n * dual * y[i] * losses.intercept)

        for i in order:
            parameters -= steps[q] * (slope(i, parameters) - slope(i, anchor[q]) + gradient[q])
    return indices - anchor


@pytest.mark.parametrize("loss", [ODM, SQUARED_HINGE, MILD], ids=name)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
def test_inner_steps_are_those_of_the_equation(loss, intercept, dtype, sparse):
    X, labels, weights = rows_of(60, 5, n_outputs=2, density=0.6)
    X = X.astype(dtype)
    losses, rng = losses_of(labels, weights, loss, intercept), np.random.default_rng(1)
    features = LinearFeatures(StoredRows(sp.csr_array(X) if sparse else X), np.arange(60)[::-1].copy())
    flipped = losses.of_rows(np.arange(60)[::-1], losses.mass)
    anchor, gradient, change = (scale * rng.normal(size=(2, 6)) for scale in (0.3, 1.0, 0.01))
    if not intercept:
        anchor[:, -1] = gradient[:, -1] = change[:, -1] = 0
    order, steps = rng.permutation(60)[:40], np.array([1e-4, 2e-3])
    found = features.descend(flipped, order, 60.0, steps, anchor, gradient, change)
    expected = steps_by_definition(X[::-1].astype(float), flipped, order, steps, anchor, gradient, change.copy())
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_long_pass_of_large_steps_does_not_underflow():
    X, labels, weights = rows_of(3000, 3)
    losses = losses_of(labels, weights, ODMLoss(1e-3, 0.5, 0.2), False)
    anchor, gradient = np.zeros((1, 4)), np.array([[1.0, -2.0, 0.5, 0.0]])
    change = np.array([[1.0, 1.0, 1.0, 0.0]])
    found = LinearFeatures(StoredRows(X)).descend(
        losses, np.arange(3000), 3000.0, np.array([0.25]), anchor, gradient, change
    )
    expected = steps_by_definition(X, losses, np.arange(3000), np.array([0.25]), anchor, gradient, change)
    assert_allclose(found[:, :3], expected[:, :3], rtol=1e-9)  # 0.75^3000 is no float64


@pytest.mark.parametrize("instruction_set", _core.instruction_sets())
def test_every_instruction_set_gives_the_same_steps(instruction_set):
    X, labels, weights = rows_of(200, 21)
    losses, best = losses_of(labels, weights, MILD, True), _core.instruction_set()
    try:
        _core.use_instruction_set(instruction_set)
        found = fit(X, losses, SVRG(21, True), tol=1e-6, max_iter=500)
    finally:
        _core.use_instruction_set(best)
    assert_allclose(found.weights, fit(X, losses, SVRG(21, True), tol=1e-6, max_iter=500).weights, rtol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n_parts", [1, 3, 60])
@pytest.mark.parametrize("inner_passes", [0.13, 1.0, 2.5])
@pytest.mark.parametrize("step_size", ["safe", "barzilai_borwein"])
def test_stages_end_at_the_optimum_of_newton(intercept, n_parts, inner_passes, step_size):
    X, labels, weights = rows_of(300, 4, n_outputs=2)
    losses = losses_of(labels, weights, MILD, intercept)
    solver = SVRG(4, intercept, inner_passes=inner_passes, step_size=step_size)
    solution = fit(X, losses, solver, n_parts, tol=1e-10, max_iter=20_000)
    exact = fit(X, losses, Newton(4, intercept), tol=1e-13)
    assert solution.status == "converged"
    assert_allclose(solution.objectives.primal, exact.objectives.primal, rtol=1e-9)
    assert_allclose(solution.weights, exact.weights, atol=1e-4)


def test_every_row_has_its_turn_in_every_round_and_stages_go_on(monkeypatch):
    X, labels, weights = rows_of(50, 2)
    losses, visited = losses_of(labels, weights, MILD, False), []
    descend = LinearFeatures.descend

    def remember(self, losses, order, *args):
        visited.append(self.index[order])
        return descend(self, losses, order, *args)

    monkeypatch.setattr(LinearFeatures, "descend", remember)
    fit(X, losses, SVRG(2, inner_passes=0.3), n_parts=4, tol=1e-300, max_iter=10)  # stages of 15 steps: three rounds
    rounds = np.concatenate(visited).reshape(3, 50)
    assert all(len(np.unique(turn)) == 50 for turn in rounds)
    assert_array_equal(rounds % 4, np.repeat([[0] * 13 + [1] * 13 + [2] * 12 + [3] * 12], 3, axis=0))
    assert not np.array_equal(rounds[0], rounds[1])  # dealt anew


def test_the_step_is_that_of_the_smoothness_constant():
    X, labels, _ = rows_of(80, 3)
    losses = losses_of(labels, np.ones(80), ODMLoss(lam=7.0, upsilon=0.5, theta=0.4), True)
    state = SVRG(3, True).init(shards_of(X, losses, [np.arange(80)]), np.zeros((1, 4)), Limits())
    smoothness = 1 + 7.0 * ((X**2).sum(axis=1).max() + 1) / 0.6**2
    assert state.step_sizes[0] == pytest.approx(1 / (4 * smoothness))


def test_a_stage_that_went_too_far_is_given_up(monkeypatch):
    monkeypatch.setattr(SVRG, "step_divisor", 0.02)  # steps two hundred times too long
    X, labels, weights = rows_of(300, 4)
    losses = losses_of(labels, weights, MILD, True)
    solution = fit(X, losses, SVRG(4, True), tol=1e-8, max_iter=2000)
    values = [entry["objective"][0] for entry in solution.history]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(values))
    assert values[1] == values[0] and solution.status == "converged"


# ---- core-sets -------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 99), n=st.integers(20, 200), radius=st.floats(0.01, 1), sparse=st.booleans())
def test_a_cover_covers_every_row_by_one_of_its_class(seed, n, radius, sparse):
    rng = np.random.default_rng(seed)
    X, classes = rng.integers(0, 4, (n, 2)).astype(float), rng.integers(0, 2, n)
    found = cover(sp.csr_array(X) if sparse else X, classes, radius)
    if found is None:
        return
    centres, balls = found
    assert len(centres) <= n // 10 and balls.min() >= 0
    assert_array_equal(classes[centres][balls], classes)
    distances = np.linalg.norm(X - X[centres][balls], axis=1)
    for value in (0, 1):
        members = classes == value
        if members.any():
            first = X[centres][classes[centres] == value][0]
            extent = np.linalg.norm(X[members] - first, axis=1).max()
            assert distances[members].max() <= radius * extent + 1e-6


def test_a_cover_that_saves_too_little_is_none():
    X = np.random.default_rng(0).normal(size=(300, 6))
    assert cover(X, np.zeros(300, dtype=int), 0.01) is None


@pytest.mark.parametrize("n_parts", [1, 2])
def test_a_core_set_shrinks_out_of_the_way(n_parts):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))[rng.integers(0, 40, 3000)] + 0.03 * rng.normal(size=(3000, 3))
    labels = np.where(X @ [1.0, -1.0, 0.5] + 0.2 * rng.normal(size=3000) > 0, 1.0, -1.0)[None]
    losses = losses_of(labels, np.ones(3000), ODMLoss(50.0, 0.5, 0.1), True)
    exact = fit(X, losses, Newton(3, True), tol=1e-12).objectives.primal[0]
    solver = CoreSetSVRG(3, True, radius=0.4)
    solution = fit(X, losses, solver, n_parts, tol=1e-9, max_iter=3000)
    assert solution.status == "converged" and solution.objectives.primal[0] == pytest.approx(exact, rel=1e-8)
    state = solver.init(shards_of(X, losses, [np.arange(3000)]), np.zeros((1, 4)), Limits())
    assert state.n_centres < 300
    (core,) = state.core_sets.collect()
    assert core.losses.weights.sum() == pytest.approx(3000)
    anchor_rows = [entry["anchor_rows"] for entry in solution.history]
    assert anchor_rows[0] < 300 and anchor_rows[-1] == 3000 and anchor_rows == sorted(anchor_rows)
    looked = [entry["epochs"] for entry in solution.history]
    assert looked[1] - looked[0] > 8  # four stages of inner steps before the second look


def test_the_error_of_a_core_sets_gradient_is_bounded_by_its_radius():
    """Handbook 2.10: a row's gradient changes by at most its curvature's bound times the distance to its centre."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 2))[rng.integers(0, 15, 1000)] + 0.05 * rng.normal(size=(1000, 2))
    labels = np.where(X[:, 0] > 0, 1.0, -1.0)[None]
    loss = ODMLoss(2.0, 0.5, 0.1)
    losses, solver = losses_of(labels, np.ones(1000), loss, False), CoreSetSVRG(2, radius=0.2)
    start = np.array([[0.7, -0.4, 0.0]])
    state = solver.init(shards_of(X, losses, [np.arange(1000)]), start, Limits())
    near = solver.gradient(state)[0, :2]
    solver.evaluate(state)
    centres, balls = cover(X, (labels[0] > 0).astype(int), 0.2)
    assert len(centres) < 100
    moved = np.linalg.norm(X - X[centres][balls], axis=1).max()
    slope = loss.lam / (1 - loss.theta) ** 2
    size, length = np.linalg.norm(start), np.linalg.norm(X, axis=1).max()
    # g_i is the slope of the loss times y x: either factor may change
    bound = slope * moved * (size * length + (1 + loss.theta + size * length))
    assert 0 < np.linalg.norm(near - state.gradient[0, :2]) <= bound
