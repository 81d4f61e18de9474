"""Machines of all pairs of classes: time limits, shares of time, interruption."""

import time
from itertools import product
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import HINGE, ODM, SQUARED_HINGE, blobs, name

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.class_pairs import ClassPairs
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.solvers.loop import Interrupted
from dimargin.strategies import block_pairs, pair_training
from dimargin.strategies.block_pairs import PairSizes
from dimargin.strategies.pair_training import train_pairs

SIZES = [100, 30, 70, 40]


def class_pairs(loss=HINGE, intercept=True, sizes=SIZES):
    X, _ = blobs(sum(sizes))
    bounds = np.cumsum([0, *sizes])
    return ClassPairs(np.ones(len(X)), bounds, loss, intercept, KernelMatrix.of(X, Kernel("rbf", gamma=0.5)))


@pytest.fixture
def pairs():
    return class_pairs()


@pytest.fixture
def one_by_one(monkeypatch):
    """No pair is solved as a block of many in a call."""
    monkeypatch.setattr(pair_training._Run, "_solve_blocks", lambda self, numbers: numbers)


def train(pairs, limits, n_threads=2, done=lambda number: None, start=None, memory=1600):
    signed, result = train_pairs(pairs, start, limits, LocalEngine(n_threads, limits.cancelled), 0, memory, done)
    return SimpleNamespace(signed=signed, **vars(result))


def soon(seconds=1000.0, **others):
    return Limits(deadline=time.perf_counter() + seconds, **others)


def test_the_largest_pair_is_first(pairs, one_by_one):
    order = []
    train(pairs, Limits(), 1, order.append)
    sizes = [pairs.n_rows[number] for number in order]
    assert sizes == sorted(sizes, reverse=True) and sorted(order) == list(range(6))


@pytest.mark.parametrize(("loss", "intercept"), [(HINGE, True), (SQUARED_HINGE, False), (ODM, False), (ODM, True)])
def test_without_time_every_pair_has_a_machine_of_few_rows(loss, intercept):
    pairs, done = class_pairs(loss, intercept), []
    outcome = train(pairs, soon(0.0), done=done.append)
    assert outcome.status == "max_time" and "6 of 6 pairs" in outcome.reason and sorted(done) == list(range(6))
    for number, pair in enumerate(pairs.pairs):
        problem, dual = pairs.problem(pair, 1), pairs.joined([number]).coefficients(outcome.signed)
        assert 0 < np.count_nonzero(dual) <= 2 * PairSizes.last_rows
        problem = problem.with_kernel(problem.kernel.in_float64())
        intercept = outcome.objectives.intercept[[number]]
        objectives = problem.objectives(dual[None], problem.margins(dual[None]), intercept)
        np.testing.assert_allclose(outcome.objectives.primal[number], objectives.primal[0], rtol=1e-9)
        np.testing.assert_allclose(outcome.objectives.relative_gap[number], objectives.relative_gap[0], rtol=1e-6)
        assert objectives.relative_gap[0] < 1  # that of no coefficients


def test_with_little_time_machines_are_of_more_rows():
    pairs = class_pairs(ODM, False)
    run = pair_training._Run(pairs, None, soon(), LocalEngine(1, Event()), 0, 1600, lambda number: None)
    run._solve_roughly()
    for number in range(6):
        dual = pairs.joined([number]).coefficients(run.results.signed)
        assert 2 * PairSizes.last_rows < np.count_nonzero(dual) <= 2 * PairSizes.few_rows
    assert run.results.is_rough.all() and not run.results.met(np.arange(6)).any()


def test_every_pair_gets_its_share_of_the_time(pairs, monkeypatch, one_by_one):
    """Shares are as the squares of the rows, and the rest goes to pairs that had too little: they begin anew."""
    deadlines, starts, solve = [], [], pair_training.solve

    def slow_at_first(problem, solver, start, limits):
        deadlines.append(limits.deadline - time.perf_counter())
        starts.append(start)
        late = Limits(deadline=time.perf_counter()) if len(deadlines) <= 2 else limits
        return solve(problem, solver, start, late)

    monkeypatch.setattr(pair_training, "solve", slow_at_first)
    outcome = train(pairs, soon(), 1)
    assert outcome.status == "converged" and len(deadlines) == 8 and starts == [None] * 8
    work = np.sort(pairs.n_rows)[::-1] ** 2.0
    shares = 1000 * work / np.cumsum(work[::-1])[::-1]
    np.testing.assert_allclose(deadlines[:6], shares, rtol=0.05)
    np.testing.assert_allclose(deadlines[6:], [1000 * work[0] / (work[0] + work[1]), 1000], rtol=0.05)
    monkeypatch.undo()
    monkeypatch.setattr(pair_training._Run, "_solve_blocks", lambda self, numbers: numbers)
    unlimited = train(pairs, Limits(), 1)
    np.testing.assert_array_equal(outcome.signed, unlimited.signed)
    assert outcome.kernel_evaluations == unlimited.kernel_evaluations


def test_a_machine_that_time_cut_short_replaces_no_better_one(pairs, monkeypatch, one_by_one):
    limits, solve = soon(), pair_training.solve

    def without_time(problem, solver, start, _):
        found = solve(problem, solver, start, Limits(deadline=time.perf_counter()))
        object.__setattr__(limits, "deadline", time.perf_counter())
        return found

    monkeypatch.setattr(pair_training, "solve", without_time)
    outcome = train(pairs, limits, 1)
    assert outcome.status == "max_time" and (outcome.objectives.relative_gap < 1).all()


def test_large_pairs_are_solved_by_all_threads(pairs, monkeypatch, one_by_one):
    threads, memory, solve = {}, {}, pair_training.solve

    def noted(problem, solver, *others):
        threads.setdefault(problem.n_rows, set()).add(problem.kernel.n_threads)
        memory.setdefault(problem.n_rows, set()).add(solver.cache)
        return solve(problem, solver, *others)

    monkeypatch.setattr(pair_training, "solve", noted)
    monkeypatch.setattr(PairSizes, "large_pair_rows", 135)
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
    assert (outcome.objectives.relative_gap < 1).all()


def test_a_cancelled_fit_ends_without_a_model(pairs):
    limits = Limits()
    limits.cancelled.set()
    with pytest.raises(Interrupted):
        train(pairs, limits)


# ---- pairs as blocks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "intercept"), list(product([HINGE, SQUARED_HINGE, ODM], [False, True])))
def test_blocks_are_solved_to_rounding(loss, intercept, monkeypatch):
    pairs = class_pairs(loss, intercept, [100, 3, 300, 1, 250])  # the largest pair is no block
    alone = []

    def noted(problem, *others):
        alone.append(problem.n_rows)
        return solve(problem, *others)

    monkeypatch.setattr(pair_training, "solve", noted)
    outcome = train(pairs, Limits(tol=1e-6), memory=2**30)
    assert alone == [550] and outcome.status == "converged"
    for number, pair in enumerate(pairs.pairs):
        if pairs.n_rows[number] <= BlockCoordinateDescent.small:
            best = solve(pairs.problem(pair, 1), BlockCoordinateDescent(), None, Limits(tol=1e-9))
            assert outcome.objectives.unrounded[number] <= 1e-11
            np.testing.assert_allclose(outcome.objectives.primal[number], best.objectives.primal[0], rtol=1e-9)


@pytest.mark.parametrize("loss", [HINGE, ODM], ids=name)
def test_neither_threads_nor_neighbours_in_a_call_change_a_block(loss, monkeypatch):
    pairs = class_pairs(loss, loss is HINGE)
    together = train(pairs, Limits(), 1, memory=2**30)
    for n_threads in (2, 5):
        outcome = train(pairs, Limits(), n_threads, memory=2**30)
        np.testing.assert_array_equal(outcome.signed, together.signed)
        np.testing.assert_array_equal(outcome.objectives.primal, together.objectives.primal)
    monkeypatch.setattr(PairSizes, "values_at_once", 1)  # a call for each pair
    np.testing.assert_array_equal(train(pairs, Limits(), 1, memory=2**30).signed, together.signed)
    assert train(pairs, soon(), 1, memory=2**30).kernel_evaluations == together.kernel_evaluations


@pytest.mark.parametrize("loss", [HINGE, ODM], ids=name)
def test_blocks_start_from_coefficients_that_are_given(loss, monkeypatch):
    pairs, calls, solve_many = class_pairs(loss, loss is HINGE), [], block_pairs._core.solve_blocks
    solved = train(pairs, Limits(), 1)

    def noted(grams, bounds, *others):
        calls.append(len(bounds) - 1)
        solve_many(grams, bounds, *others)

    monkeypatch.setattr(block_pairs._core, "solve_blocks", noted)
    again = train(pairs, Limits(), 1, start=solved.signed, memory=2**30)
    assert again.status == "converged" and sum(calls) <= 1  # hardly any is far from rounding
    np.testing.assert_allclose(again.signed, solved.signed, atol=1e-9)
    calls.clear()
    near = train(pairs, Limits(), 1, start=0.9 * solved.signed, memory=2**30)
    assert sum(calls) >= 6
    np.testing.assert_allclose(near.objectives.primal, solved.objectives.primal, rtol=1e-9)


@pytest.mark.parametrize("found", [np.nan, 0.01], ids=["no numbers", "far away"])
def test_block_coordinate_descent_goes_on_where_blocks_fail(pairs, monkeypatch, found):
    def fail(grams, bounds, pieces, labels, dual, *others):
        dual[:] = found

    monkeypatch.setattr(block_pairs._core, "solve_blocks", fail)
    outcome = train(pairs, Limits())
    assert outcome.status == "converged" and outcome.objectives.worst_gap <= 1e-3


def test_a_tolerance_below_rounding_is_not_met_by_luck():
    outcome = train(class_pairs(ODM, False), Limits(tol=1e-18))
    assert outcome.status == "precision"
