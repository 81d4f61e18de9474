"""CoCoA+ over shards, against proximal Newton on all rows, and by its certificates."""

from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import LOSSES, name
from hypothesis import given
from hypothesis import strategies as st
from linear_problems import losses_of, rows_of, shards_of
from numpy.testing import assert_array_equal

from dimargin import LinearCoCoA, LinearSVMClassifier
from dimargin.problems.losses import HingeLoss
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import CoCoA, Limits, ProximalNewton, solve
from dimargin.strategies.linear_newton import linear_shards

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)
both = pytest.mark.parametrize("intercept", [False, True])


def fit(X, losses, n_shards, tol=1e-3, start=None, n_threads=1, max_iter=20_000, **parameters):
    shards = shards_of(X, losses, np.array_split(np.arange(losses.n_rows), n_shards), n_threads)
    start = np.zeros((len(losses.labels), X.shape[1] + 1)) if start is None else start
    return solve(shards, CoCoA(losses.intercept, **parameters), start, Limits(tol=tol, max_iter=max_iter))


def reference(X, losses):
    shards = LocalEngine(1, Event()).scatter(linear_shards(X, losses))
    start = np.zeros((len(losses.labels), X.shape[1] + 1))
    return solve(shards, ProximalNewton(losses.intercept), start, Limits(tol=1e-9, max_iter=1000)).objectives


@every_loss
@both
@pytest.mark.parametrize("n_shards", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_the_optimum_is_that_of_proximal_newton(loss, intercept, n_shards):
    X, labels, weights = rows_of(60, 40, n_outputs=2, density=0.3)
    losses = losses_of(labels, weights, loss, intercept)
    solution = fit(sp.csr_array(X), losses, n_shards)
    assert solution.status == "converged" and solution.objectives.worst_gap <= 1e-3
    expected = reference(X, losses)
    assert solution.objectives.primal == pytest.approx(expected.primal, rel=1.1e-3)
    assert (solution.objectives.dual <= expected.primal).all() and (solution.objectives.primal >= expected.dual).all()


@pytest.mark.slow_after(1)
@every_loss
@both
@given(
    seed=st.integers(0, 2**16), n=st.integers(4, 40), d=st.integers(1, 6), n_shards=st.integers(1, 4),
    scale=st.floats(-8, 8), rounds=st.integers(0, 30),
)  # fmt: skip
def test_a_certificate_is_true_whenever_the_rounds_end(loss, intercept, seed, n, d, n_shards, scale, rounds):
    X, labels, weights = rows_of(n, d, seed)
    labels[:, :2] = [1.0, -1.0]
    X = X * 10.0**scale
    losses = losses_of(labels, weights, loss, intercept)
    solution = fit(X, losses, n_shards, max_iter=3 * rounds)
    own, expected = solution.objectives, reference(X, losses)
    assert own.dual[0] <= expected.primal[0] * (1 + expected.rounding[0]) * (1 + 1e-12)
    margins = losses.labels * (X @ solution.weights[0] + own.intercept[0])
    primal = 0.5 * (solution.weights**2).sum() + loss.value(margins, weights, losses.mass, losses.total).sum()
    assert own.primal[0] == pytest.approx(primal, rel=1e-9 + 2 * own.rounding[0])


def test_results_do_not_depend_on_threads_and_a_warm_start_continues():
    X, labels, weights = rows_of(300, 30, n_outputs=2, density=0.2)
    losses = losses_of(labels, weights, HingeLoss(1.0), True)
    one, other = (fit(sp.csr_array(X), losses, 4, n_threads=n, max_iter=150) for n in (1, 3))
    assert_array_equal(one.weights, other.weights)
    again = fit(sp.csr_array(X), losses, 4, start=one.parameters, max_iter=0)
    assert again.objectives.primal == pytest.approx(one.objectives.primal)


def test_the_machine_is_that_of_coordinate_descent_and_options_are_checked():
    X, labels, weights = rows_of(2500, 40, density=0.3)  # three shards
    y, machine = labels[0], LinearSVMClassifier(C=0.1, random_state=0)
    there = machine.set_params(solver=LinearCoCoA(n_partitions=2)).fit(sp.csr_array(X), y, weights)
    objective = there.objective_
    assert there.status_ == "converged" and there.history_[-1]["epochs"] == there.n_iter_
    assert machine.set_params(solver="cd", tol=1e-6).fit(X, y, weights).objective_ == pytest.approx(objective, rel=1e-3)
    with pytest.raises(ValueError, match="n_passes"):
        machine.set_params(solver=LinearCoCoA(n_passes=0)).fit(X, y)
