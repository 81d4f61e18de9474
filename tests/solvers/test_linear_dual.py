"""Dual coordinate descent and proximal Newton for linear machines, against a QP solver and by their certificates."""

from dataclasses import replace
from itertools import pairwise
from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import LOSSES, name
from hypothesis import given
from hypothesis import strategies as st
from linear_problems import losses_of, rows_of
from numpy.testing import assert_allclose, assert_array_equal
from qpsolvers import solve_qp
from scipy.sparse import csc_matrix

from dimargin.problems.losses import HingeLoss, SquaredHingeLoss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import CoordinateDescent, Limits, ProximalNewton, solve
from dimargin.solvers.linear_dual import Best
from dimargin.strategies.linear_newton import linear_shards

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)
both = pytest.mark.parametrize("intercept", [False, True])
SOLVERS = {
    "passes": CoordinateDescent, "newton": ProximalNewton,
    "both": lambda intercept, **more: CoordinateDescent(intercept, newton=ProximalNewton(intercept), **more),
}  # fmt: skip
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def fit(X, losses, solver="both", tol=1e-9, start=None, n_threads=1, max_iter=20_000, **parameters):
    shards = LocalEngine(n_threads, Event()).scatter(linear_shards(X, losses))
    start = np.zeros((len(losses.labels), X.shape[1] + 1)) if start is None else start
    return solve(shards, SOLVERS[solver](losses.intercept, **parameters), start, Limits(tol=tol, max_iter=max_iter))


def optimum(X, losses, q):
    """The optimal value of an output, by a QP solver on the primal: weights, intercept, and the parts of the losses."""
    labels, weights, loss = losses.labels[q], losses.weights, losses.loss
    n, d = X.shape
    sides = [(1.0, 1.0)] if not hasattr(loss, "theta") else [(1.0, 1 - loss.theta), (-1.0, -1 - loss.theta)]
    cost = np.concatenate(  # the losses of margins that are one beyond a kink
        [loss.value(np.full(n, side * end - side), weights, losses.mass, losses.total) for side, end in sides]
    )
    linear = isinstance(loss, HingeLoss)
    own = [side * labels[:, None] * np.c_[X, np.ones(n)] for side, _ in sides]
    G = np.c_[-np.concatenate(own), -np.eye(n * len(sides))]
    h = -np.concatenate([np.full(n, end) for _, end in sides])
    P = np.zeros((len(G[0]), len(G[0])))
    P[:d, :d] = np.eye(d)
    slacks = np.arange(d + 1, len(G[0]))
    if not linear:
        P[slacks, slacks] = 2 * cost
    price = np.r_[np.zeros(d + 1), cost * linear]
    lower = np.r_[np.full(d, -np.inf), -np.inf if losses.intercept else 0.0, np.zeros(len(slacks))]
    upper = np.r_[np.full(d, np.inf), np.inf if losses.intercept else 0.0, np.full(len(slacks), np.inf)]
    exact = {"tol_gap_rel": 1e-12, "tol_gap_abs": 1e-12}
    found = solve_qp(csc_matrix(P), price, csc_matrix(G), h, lb=lower, ub=upper, solver="clarabel", **exact)
    return 0.5 * found @ P @ found + price @ found


@every_solver
@every_loss
@both
@pytest.mark.parametrize("sparse", [False, True])
def test_the_optimum_is_that_of_a_qp_solver(solver, loss, intercept, sparse):
    X, labels, weights = rows_of(60, 5, n_outputs=2, density=0.6)
    losses = losses_of(labels, weights, loss, intercept)
    solution = fit(sp.csr_array(X) if sparse else X, losses, solver, tol=1e-7)
    assert solution.status == "converged" and solution.objectives.worst_gap <= 1e-7
    for q in range(2):
        assert solution.objectives.primal[q] == pytest.approx(optimum(X, losses, q), rel=3e-7)


@pytest.mark.slow_after(1)
@every_loss
@both
@given(
    seed=st.integers(0, 2**16), n=st.integers(2, 40), d=st.integers(1, 6), scale=st.floats(-8, 8),
    spread=st.floats(0, 4),
)  # fmt: skip
def test_a_certificate_is_true_for_rows_of_any_scale(loss, intercept, seed, n, d, scale, spread):
    """No dual objective passes the smallest primal one that any solver finds."""
    X, labels, weights = rows_of(n, d, seed)
    labels[:, :2] = [1.0, -1.0]
    X = X * 10.0 ** np.linspace(scale, scale + spread, d)
    losses = losses_of(labels, weights, loss, intercept)
    found = [
        fit(X, losses, "passes", 1e-1, max_iter=20), fit(X, losses, "both", 1e-3, max_iter=100),
        fit(X, losses, "newton", 1e-6, max_iter=100),
    ]  # fmt: skip
    smallest = min(solution.objectives.primal[0] * (1 + solution.objectives.rounding[0]) for solution in found)
    for solution in found:
        own = solution.objectives
        assert own.dual[0] <= smallest * (1 + 1e-12)
        margins = losses.labels * (X @ solution.weights[0] + own.intercept[0])
        primal = 0.5 * (solution.weights**2).sum() + loss.value(margins, weights, losses.mass, losses.total).sum()
        assert own.primal[0] == pytest.approx(primal, rel=1e-9 + 2 * own.rounding[0])
        values = [entry["objective"][0] for entry in solution.history]
        assert all(after <= before for before, after in pairwise(values))


@both
def test_rows_of_very_different_columns_take_newton_steps(intercept):
    X, labels, weights = rows_of(400, 6)
    losses = losses_of(labels, weights, HingeLoss(1.0), intercept)
    scaled = fit(X, losses, tol=1e-3)
    wide = X * np.array([1e3, 1.0, 1.0, 1.0, 1.0, 1e-3])
    assert fit(wide, losses, "passes", 1e-3, max_iter=500).status == "max_iter"
    solution = fit(wide, losses, tol=1e-3)
    assert solution.status == scaled.status == "converged" and solution.passes < 500


@both
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_one_envelope_of_the_hinge_is_enough(C, intercept):
    X, labels, weights = rows_of(3000, 10, density=0.5)
    rows, losses = sp.csr_array(X), losses_of(labels, weights, HingeLoss(C), intercept)
    solution, exact = fit(rows, losses, "newton", 1e-3), fit(rows, losses, tol=1e-7)
    assert solution.status == "converged" and len(solution.history) == 1 and solution.passes <= 20
    assert exact.objectives.primal <= solution.objectives.primal <= (1 + 1e-3) * exact.objectives.primal


@every_loss
def test_a_row_given_twice_is_one_of_twice_the_weight_and_rows_may_be_empty(loss):
    X, labels, weights = rows_of(50, 4, density=0.5)
    X[5:8] = 0.0
    twice = sp.csr_array(np.concatenate([X, X[:10]]))
    losses = losses_of(np.c_[labels, labels[:, :10]], np.r_[weights, weights[:10]], loss, True)
    solution = fit(twice, losses, tol=1e-8)
    same = losses_of(labels, np.r_[2 * weights[:10], weights[10:]], loss, True)
    assert solution.objectives.primal == pytest.approx(fit(sp.csr_array(X), same, tol=1e-8).objectives.primal, rel=1e-6)


@every_loss
def test_results_do_not_depend_on_threads_or_on_the_width_of_the_columns_indices(loss):
    X, labels, weights = rows_of(3000, 30, n_outputs=3, density=0.2)
    losses, rows = losses_of(labels, weights, loss, True), sp.csr_array(X)
    long = sp.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), shape=rows.shape)
    found = [fit(given, losses, tol=1e-4, n_threads=n) for given, n in ((rows, 1), (rows, 3), (rows, 8), (long, 2))]
    for solution in found[1:]:
        assert_array_equal(solution.weights, found[0].weights)
        assert_array_equal(solution.dual, found[0].dual)


def test_another_seed_takes_another_way_to_the_same_optimum():
    X, labels, weights = rows_of(500, 20)
    losses = losses_of(labels, weights, HingeLoss(1.0), True)
    one, same, other = (fit(X, losses, "passes", 1e-5, random_state=seed) for seed in (0, 0, 1))
    assert_array_equal(one.weights, same.weights)
    assert (one.weights != other.weights).any()
    assert_allclose(one.objectives.primal, other.objectives.primal, rtol=1e-5)


@both
def test_a_check_leaves_out_the_rows_that_stay_at_their_bounds(intercept):
    X, labels, weights = rows_of(4000, 20)
    losses = losses_of(labels, weights, HingeLoss(0.1), intercept)
    first = fit(X, losses, "passes", 1e-3)
    further = fit(X, losses, "passes", 1e-5, dual=first.dual, max_iter=1)
    assert 0 < further.history[-1]["epochs"] < 0.5
    assert fit(X, losses, "passes", 1e-7).objectives.primal == pytest.approx(further.objectives.primal, rel=1e-3)


def test_checks_leave_the_way_to_the_optimum_alone(monkeypatch):
    rng = np.random.default_rng(0)
    columns = (3000 * rng.random((4000, 20)) ** 3).astype(int)
    X = sp.csr_array((rng.random(80_000), columns.ravel(), np.arange(0, 80_001, 20)), shape=(4000, 3000))
    X.sum_duplicates()
    labels = np.where(X @ rng.normal(size=3000) + rng.normal(size=4000) > 0.5, 1.0, -1.0)[None]
    losses = losses_of(labels, np.ones(4000), HingeLoss(1.0), True)
    passes = fit(X, losses, "passes", 1e-4).passes
    monkeypatch.setattr(CoordinateDescent, "max_wait", 1)
    often = fit(X, losses, "passes", 1e-4)
    assert len(often.history) > 5 and often.status == "converged" and often.passes <= 1.2 * passes


@every_solver
def test_a_warm_start_continues(solver):
    X, labels, weights = rows_of(300, 8)
    losses = losses_of(labels, weights, HingeLoss(1.0), True)
    first = fit(X, losses, solver, 1e-6)
    assert fit(X, losses, solver, 1e-6, dual=first.dual).passes == 0
    smooth = losses_of(labels, weights, SquaredHingeLoss(1.0), True)
    first = fit(X, smooth, solver, 1e-9)
    assert fit(X, smooth, solver, 1e-3, start=first.parameters).passes == 0
    heavier = replace(losses, loss=HingeLoss(1.1))
    assert fit(X, heavier, solver, 1e-3, dual=fit(X, losses, solver, 1e-3).dual).status == "converged"


def test_limits_leave_the_best_model_and_its_certificate():
    X, labels, weights = rows_of(2000, 10)
    losses = losses_of(labels, weights, HingeLoss(10.0), True)
    short = fit(X, losses, tol=1e-6, max_iter=5)
    assert (short.status, short.passes) == ("max_iter", 5) and 1e-6 < short.objectives.worst_gap < 1
    shards = LocalEngine(1, Event()).scatter(linear_shards(X, losses))
    none = solve(shards, CoordinateDescent(True), np.zeros((1, 11)), Limits(tol=1e-6, deadline=0.0))
    assert none.status == "max_time" and np.isfinite(none.objectives.worst_gap)
    assert len(none.history) == 1


def test_a_solve_that_only_rounding_keeps_from_its_tolerance_says_so():
    X, labels, weights = rows_of(200, 4)
    solution = fit(X, losses_of(labels, weights, HingeLoss(1.0), True), tol=1e-17)
    assert solution.status == "precision" and solution.objectives.worst_gap < 1e-10


def test_the_gap_of_two_checks_includes_the_rounding_of_both_bounds_that_are_kept():
    def best(*values):
        return Best(np.zeros((1, 2)), *(np.array([value]) for value in values))

    for both in (
        (best(1.0, 0.0, 0.5, 0.0), best(0.9, 0.3, 0.6, 0.5)),
        (best(0.9, 0.3, 0.6, 0.5), best(1.0, 0.0, 0.5, 0.0)),
    ):
        found = both[0].better(both[1]).objectives  # the primal objective of one, the dual one of the other
        assert (found.primal[0], found.relative_gap[0]) == (0.9, pytest.approx((0.9 + 0.3 - 0.5) / 0.9))
        assert found.rounding[0] == pytest.approx(0.3 / 0.9)


@pytest.mark.parametrize("loss", [HingeLoss, SquaredHingeLoss])
@both
def test_coefficients_of_another_c_are_a_start(loss, intercept):
    X, losses = noisy_rows(loss(1.0), intercept)
    before = fit(X, losses, tol=1e-6)
    more = replace(losses, loss=loss(10.0))
    start = fit(X, more, max_iter=0, dual=before.dual).objectives
    best = max(
        fit(X, more, max_iter=0, dual=factor * before.dual).objectives.dual.item() for factor in np.linspace(1, 10, 19)
    )
    unscaled = before.dual.sum() - 0.5 * (before.weights**2).sum()
    unscaled -= (before.dual**2).sum() / (4 * 10.0) if loss is SquaredHingeLoss else 0.0
    assert start.dual.item() >= best - 1e-9 * abs(best) and start.dual.item() > 2 * unscaled
    # The weights hardly depend on C here: with them, the start is nearly certified.
    known = fit(X, more, max_iter=0, dual=before.dual, start=before.parameters).objectives
    assert known.worst_gap < 0.5 * start.worst_gap
    assert fit(X, more, dual=before.dual).objectives.primal == pytest.approx(fit(X, more).objectives.primal, rel=1e-8)


def test_coefficients_of_a_larger_c_are_clipped():
    X, losses = noisy_rows(HingeLoss(10.0), True)
    before = fit(X, losses, tol=1e-6)
    less = replace(losses, loss=HingeLoss(0.1))
    solution = fit(X, less, dual=before.dual)
    assert solution.status == "converged" and (solution.dual <= 0.1).all()
    assert solution.objectives.primal == pytest.approx(fit(X, less).objectives.primal, rel=1e-8)


def noisy_rows(loss, intercept):
    """Rows whose labels are mostly noise."""
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(300, 3)), np.sign(rng.normal(size=(1, 300)))
    return X, MarginLosses(labels, np.ones(300), loss, 300.0, 300.0, intercept)
