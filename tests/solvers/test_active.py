"""Rows at rest and remembered kernel rows: they change no number, and the memory is obeyed."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import HINGE, SQUARED_HINGE, blobs, counted, fit, gram, make_problem, name
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from dimargin import _core
from dimargin.kernels.functions import Kernel
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.solvers.active import ActiveRows, RowCache
from dimargin.solvers.precision import continue_in_float64
from dimargin.solvers.stopwatch import Stopwatch

RBF = Kernel("rbf", gamma=1.0)


def apart(n):
    """Rows of which few are near another class: labels of two outputs."""
    X = np.random.default_rng(0).normal(size=(n, 2)) * [3.0, 1.0]
    return X, np.where([X[:, 0] > 0, np.abs(X[:, 0]) > 2], 1.0, -1.0)


@given(seed=st.integers(0, 2**32 - 1), capacity=st.integers(0, 40), n_outputs=st.integers(1, 3))
def test_remembered_rows_are_the_computed_ones(seed, capacity, n_outputs):
    rng = np.random.default_rng(seed)
    X, labels = blobs(60, seed)
    problem = make_problem(X, labels, HINGE, RBF)
    K = gram(problem)
    columns = np.sort(rng.permutation(60)[: rng.integers(1, 60)])
    cache = RowCache(problem.kernel, columns, capacity * 4 * len(columns))
    for _ in range(4):
        for _ in range(3):
            rows = rng.permutation(60)[: rng.integers(1, 30)]
            coefficients = rng.normal(size=(n_outputs, len(rows)))
            assert_allclose(cache.multiply(rows, coefficients), coefficients @ K[np.ix_(rows, columns)], atol=1e-4)
        columns = np.sort(rng.permutation(60)[: rng.integers(1, 60)])
        cache.move(columns, rng.random(60) < 0.7)


def test_a_row_is_computed_once(monkeypatch):
    X, labels = blobs(100)
    problem = make_problem(X, labels, HINGE, RBF)
    cache = RowCache(problem.kernel, np.arange(80), 10 * 80 * 4)
    with counted(monkeypatch) as counts:
        cache.multiply(np.arange(8), np.ones((1, 8)))
        cache.multiply(np.arange(4, 8), np.ones((1, 4)))
        assert sum(counts) == 8 * 80
        cache.multiply(np.arange(6, 16), np.ones((1, 10)))  # room for two more; six are computed and forgotten
        assert sum(counts) == 16 * 80
        cache.multiply(np.arange(16), np.ones((1, 16)))
        assert sum(counts) == 22 * 80
        cache.move(np.arange(20, 90), np.arange(100) < 5)  # ten new columns of five rows
        assert sum(counts) == 22 * 80 + 5 * 10
        cache.multiply(np.arange(5), np.ones((1, 5)))
        assert sum(counts) == 22 * 80 + 5 * 10


@pytest.mark.parametrize("loss", [HINGE, SQUARED_HINGE], ids=name)
def test_rows_that_rested_are_brought_up_to_date(loss):
    X, labels = apart(300)
    problem = make_problem(X, labels, loss, RBF)
    K, rng = gram(problem), np.random.default_rng(0)
    dual = fit(problem, tol=0.1).dual
    margins = labels * (labels * dual @ K)
    active = ActiveRows.choose(problem, dual, margins, 0.2, 2**20)
    resting = np.setdiff1d(np.arange(300), active.rows)
    assert len(resting) > 10
    assert (dual[:, resting] == 0).all() and (margins[:, resting] > 1.2).all()
    before = margins.copy()
    change = 0.1 * rng.normal(size=(2, 12))
    moved = active.rows[:12]
    active.add(margins, moved, change)
    dual[:, moved] += labels[:, moved] * change
    assert_array_equal(margins[:, resting], before[:, resting])
    active.unshrink(problem, dual, margins)
    assert_allclose(margins, labels * (labels * dual @ K), atol=1e-4)


def test_nearly_all_rows_active_is_no_rest():
    X, labels = blobs(100)
    problem = make_problem(X, labels, HINGE, RBF)
    nothing = np.zeros((1, 100))
    assert ActiveRows.choose(problem, nothing, nothing, 0.2, 2**20) is None


@pytest.mark.parametrize("stored", [0, 7, 20])
def test_values_among_rows_are_looked_up_where_either_is_stored(monkeypatch, stored):
    X, labels = blobs(60)
    problem = make_problem(X, labels, HINGE, RBF)
    cache, rows = RowCache(problem.kernel, np.arange(60), 2**20), np.random.default_rng(0).permutation(60)[:20]
    cache.multiply(rows[:stored], np.ones((1, stored)))
    with counted(monkeypatch) as counts:
        values = cache.among(rows)
        assert sum(counts) == (20 - stored) ** 2
    assert_array_equal(values, problem.kernel.values(rows, rows))


def test_what_is_looked_up_must_be_stored():
    values, out = np.zeros((2, 3), dtype=np.float32), np.zeros((2, 2), dtype=np.float32)
    for slots, columns in (([0, 2], [0, 1]), ([0, 1], [0, 3]), ([0, -1], [-1, 0])):
        with pytest.raises(IndexError, match="stored row or column out of range"):
            _core.look_up_rows(values, np.array(slots), np.array(columns), out)
    with pytest.raises(ValueError, match="do not fit the stored rows"):
        _core.look_up_rows(values, np.array([0]), np.array([0, 1]), out)


def text(n, n_features=400):
    """Sparse rows of 40 numbers, a few of whose features tell two outputs' classes apart."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 40 / n_features)
    score = X[:, :40].sum(axis=1) + 0.5 * rng.normal(size=n)
    return sp.csr_array(X), np.where([score > 0, score > 1], 1.0, -1.0)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])  # the latter in float64
def test_whole_rows_are_remembered_where_all_would_fit(intercept, tol):
    X, labels = text(900)
    problem = make_problem(X, labels, HINGE, Kernel("rbf", gamma=0.02), intercept=intercept)
    solutions = [
        solve(problem, BlockCoordinateDescent(gram=memory), None, Limits(tol=tol)) for memory in (0, 8 * 900**2)
    ]
    K = rbf_kernel(X, gamma=0.02)
    for solution in solutions:
        assert solution.status == "converged"
        assert_allclose(solution.margins, labels * (labels * solution.dual @ K), atol=1e-3)
    assert solutions[1].kernel_evaluations < 0.8 * solutions[0].kernel_evaluations
    for memory in (4 * 900**2 - 1, 4 * 900**2):  # for those of all rows in float32, or nearly
        state = BlockCoordinateDescent(gram=memory).init(problem, None, Limits(tol=tol))
        assert (state.shrinking.whole_rows is not None) == (memory == 4 * 900**2)
        continue_in_float64(state)
        assert state.shrinking.whole_rows is None


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("memory", [0, 2**31])
def test_the_solution_does_not_depend_on_what_is_remembered(monkeypatch, memory, intercept):
    X, labels = apart(3000)
    problem = make_problem(X, labels, HINGE, RBF, intercept=intercept)
    rests = []
    choose = ActiveRows.choose
    monkeypatch.setattr(ActiveRows, "choose", lambda *a: rests.append(choose(*a)) or rests[-1])
    solution = solve(problem, BlockCoordinateDescent(cache=memory), None, Limits(tol=1e-3))
    assert any(active is not None for active in rests)
    margins = labels * (labels * solution.dual @ gram(problem))
    assert_allclose(solution.margins, margins, atol=1e-3)


@pytest.mark.parametrize("soon", [True, False])
def test_an_end_while_rows_rest(soon):
    """The present iterate is certified if that takes no time, else the last one that was is returned."""
    X, labels = apart(6000)
    problem = make_problem(X, labels[:1], HINGE, RBF)
    solver = BlockCoordinateDescent()
    state = solver.init(problem, None, Limits())
    solver.check(state)
    while state.schedule.passes < 2:
        solver.step(state)
    assert state.shrinking.active is not None and state.iterate.dual.any()
    if not soon:
        state.iterate.stopwatch.add(1e6, 1)
    solution = solver.finish(state, "stopped", "", [])
    assert (solution.objectives.worst_gap < 1) == soon and solution.dual.any() == soon
    margins = problem.labels * (problem.labels * solution.dual @ gram(problem))
    assert_allclose(solution.margins, margins, atol=1e-4)


@pytest.mark.parametrize(("deadline", "rests"), [(None, True), (1e9, True), (2000.0, True), (1.0, False)])
def test_rows_wake_in_time_for_the_deadline(deadline, rests):
    X, labels = apart(6000)
    problem = make_problem(X, labels[:1], HINGE, RBF)
    now = time.perf_counter()
    limits = Limits(tol=1e-12, deadline=None if deadline is None else now + deadline)
    solver = BlockCoordinateDescent()
    state = solver.init(problem, None, limits)
    solver.check(state)
    state.shrinking.whole_gap = 1e-3  # so that the gap of the active rows wakes none
    while state.schedule.passes < 2:
        solver.step(state)
    n_values = state.shrinking.active.evaluations_to_unshrink(state.iterate.dual)
    state.iterate.stopwatch = Stopwatch(100.0, n_values)  # Unshrinking would take a hundred seconds.
    assert state.shrinking.may_continue(state.iterate, state.schedule.passes, limits) == rests
