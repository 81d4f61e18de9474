"""Machines of all pairs of classes: time limits, shares of time, interruption."""

import time
from threading import Event

import numpy as np
import pytest
from helpers import HINGE, blobs

from dimargin.engines import LocalEngine
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.class_pairs import ClassPairs
from dimargin.solvers import Limits
from dimargin.solvers.loop import Interrupted
from dimargin.strategies import one_vs_one
from dimargin.strategies.one_vs_one import train_pairs


@pytest.fixture
def pairs():
    X, _ = blobs(240)
    bounds = np.array([0, 100, 130, 200, 240])
    return ClassPairs(np.ones(240), bounds, HINGE, True, KernelMatrix.of(X, Kernel("rbf", gamma=0.5)))


def train(pairs, limits, n_threads=2, done=lambda number: None):
    return train_pairs(pairs, None, limits, LocalEngine(n_threads, limits.cancelled), 0, 1600, done)


def test_the_largest_pair_is_first(pairs):
    order = []
    train(pairs, Limits(), 1, order.append)
    sizes = [pairs.n_rows[number] for number in order]
    assert sizes == sorted(sizes, reverse=True) and sorted(order) == list(range(6))


def test_without_time_the_majority_of_every_pair_answers(pairs):
    outcome = train(pairs, Limits(deadline=time.perf_counter()))
    assert outcome.status == "max_time" and not outcome.signed.any()
    larger = [np.diff(pairs.bounds)[b] > np.diff(pairs.bounds)[a] for a, b in pairs.pairs]
    np.testing.assert_array_equal(outcome.objectives.intercept > 0, larger)
    assert "6 of 6 pairs" in outcome.reason and np.isfinite(outcome.objectives.primal).all()


def test_every_pair_gets_its_share_of_the_time_and_the_rest_goes_to_those_that_need_it(pairs, monkeypatch):
    deadlines, solve = [], one_vs_one.solve

    def slow_at_first(problem, solver, start, limits):
        deadlines.append(limits.deadline - time.perf_counter())
        late = Limits(deadline=time.perf_counter()) if len(deadlines) <= 2 else limits
        return solve(problem, solver, start, late)

    monkeypatch.setattr(one_vs_one, "solve", slow_at_first)
    outcome = train(pairs, Limits(deadline=time.perf_counter() + 1000.0), 1)
    assert outcome.status == "converged" and len(deadlines) == 8
    np.testing.assert_allclose(deadlines[:6], 1000 / np.arange(6, 0, -1), rtol=0.1)  # six wait, five wait, ...
    np.testing.assert_allclose(deadlines[6:], [500, 1000], rtol=0.1)  # the two that had too little


def test_large_pairs_are_solved_by_all_threads(pairs, monkeypatch):
    threads, memory, solve = {}, {}, one_vs_one.solve

    def noted(problem, solver, *others):
        threads.setdefault(problem.n_rows, set()).add(problem.kernel.n_threads)
        memory.setdefault(problem.n_rows, set()).add(solver.cache)
        return solve(problem, solver, *others)

    monkeypatch.setattr(one_vs_one, "solve", noted)
    monkeypatch.setattr(one_vs_one, "_LARGE", 135)
    expected = train(pairs, Limits(), 1)
    threads.clear()
    outcome = train(pairs, Limits(), 3)
    assert memory == {170: {1600}, 140: {1600}, 130: {100}, 110: {100}, 100: {100}, 70: {100}}  # whatever the threads
    assert threads == {170: {3}, 140: {3}, 130: {1}, 110: {1}, 100: {1}, 70: {1}}
    np.testing.assert_array_equal(outcome.signed, expected.signed)


def test_an_interrupted_fit_ends_with_what_there_is(pairs):
    limits = Limits(interrupted=Event())
    outcome = train(pairs, limits, 1, lambda number: limits.interrupted.set())
    assert outcome.status == "stopped"
    assert 0 < np.count_nonzero(outcome.signed) < np.count_nonzero(train(pairs, Limits()).signed)


def test_a_cancelled_fit_ends_without_a_model(pairs):
    limits = Limits()
    limits.cancelled.set()
    with pytest.raises(Interrupted):
        train(pairs, limits)
