"""Pairs of classes on stored kernel values: block coordinate descent and scikit-learn's kernels say what to expect."""

import time
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import HINGE, ODM, SQUARED_HINGE, blobs, name
from sklearn.metrics.pairwise import rbf_kernel

from dimargin import _core
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.class_pairs import ClassPairs
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.strategies.block_pairs import PairSizes
from dimargin.strategies.pair_training import train_pairs
from dimargin.strategies.stored_pairs import StoredPairs, can_be_stored

ROWS = [0, 350, 500, 720]
KERNEL = Kernel("rbf", gamma=0.5)


def class_pairs(loss, intercept=True, kernel=KERNEL, weights=None, scale=1.0):
    X = scale * blobs(ROWS[-1])[0]
    weights = np.ones(ROWS[-1]) if weights is None else weights
    return X, ClassPairs(weights, np.array(ROWS), loss, intercept, KernelMatrix.of(X, kernel))


def solver(pairs, memory=2**30, n_threads=1):
    return StoredPairs.within(memory, pairs, LocalEngine(n_threads, Event()))


def solution(stored, number, start=None, tol=1e-3):
    return stored.solve(np.array([number]), start, tol)


def started(pairs, number, dual):
    """Coefficients of all pairs times labels, where those of one pair are given."""
    signed = np.zeros((2, ROWS[-1]))
    own = pairs.joined([number])
    signed[own.slots, own.rows.index] = own.labels * dual[0]
    return signed


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", [HINGE, SQUARED_HINGE], ids=name)
def test_the_certificate_brackets_the_optimum(loss, intercept):
    X, pairs = class_pairs(loss, intercept, weights=np.random.default_rng(0).uniform(0.5, 2.0, ROWS[-1]))
    stored = solver(pairs)
    together = stored.solve(np.arange(3), None, 1e-3)
    for number, pair in enumerate(pairs.pairs):
        problem, found = pairs.problem(pair, 1), together.objectives.take(slice(number, number + 1))
        assert found.worst_gap <= 1e-3 and found.rounding > 0
        best = solve(pairs.problem(pair, 1), BlockCoordinateDescent(), None, Limits(tol=1e-9)).objectives
        assert found.dual < best.primal and best.dual < found.primal
        # the dual objective of these coefficients, by another library's kernel
        own = np.r_[pairs.rows(pair)[0], pairs.rows(pair)[1]]
        dual = together.dual[together.problems.of(number)]
        signed = problem.labels[0] * dual
        value = -problem.conjugate.value(dual).sum() - 0.5 * signed @ rbf_kernel(X[own], gamma=0.5) @ signed
        np.testing.assert_allclose(value, found.reached, rtol=1e-6)
        assert not intercept or abs(signed.sum()) < 1e-9


def test_sparse_rows():
    X, pairs = class_pairs(HINGE)
    X[np.abs(X) < 0.5] = 0.0
    found = []
    for form in (np.asarray, sp.csr_array):
        sparse = replace(pairs, kernel=KernelMatrix.of(form(X), KERNEL))
        found.append(solution(solver(sparse), 2, tol=1e-4).objectives)
    np.testing.assert_allclose(found[0].primal, found[1].primal, rtol=2e-4)
    assert found[1].worst_gap <= 1e-4


def test_values_are_computed_once():
    _, pairs = class_pairs(HINGE)
    stored = solver(pairs)
    sizes = np.diff(ROWS)
    assert stored.evaluations == (sizes**2).sum()
    found = solution(stored, 1)
    n_support = np.count_nonzero(found.dual)
    assert found.evaluations == sizes[0] * sizes[2] + n_support * (sizes[0] + sizes[2])


def test_a_start_at_the_solution_takes_no_step():
    _, pairs = class_pairs(HINGE)
    problem = pairs.problem((0, 1), 1)
    best = solve(problem, BlockCoordinateDescent(), None, Limits(tol=1e-6)).dual
    np.testing.assert_array_equal(solution(solver(pairs), 0, started(pairs, 0, best)).dual, best[0])


def test_pairs_that_are_solved_together_are_solved_as_alone_on_any_number_of_threads():
    weights = np.random.default_rng(0).uniform(0.5, 2.0, ROWS[-1])
    _, pairs = class_pairs(HINGE, weights=weights)
    stored = solver(pairs)
    start = started(pairs, 2, solve(pairs.problem((1, 2), 1), BlockCoordinateDescent(), None, Limits(tol=0.1)).dual)
    alone = [solution(stored, number, start) for number in range(3)]
    for n_threads in (1, 4):
        together = stored.solve(np.array([2, 0, 1]), start, 1e-3, n_threads)
        for k, number in enumerate([2, 0, 1]):
            np.testing.assert_array_equal(together.dual[together.problems.of(k)], alone[number].dual)
            for own, other in zip(
                vars(together.objectives).values(), vars(alone[number].objectives).values(), strict=True
            ):
                np.testing.assert_allclose(own[k], other[0], rtol=1e-12)


def test_groups_are_of_bounded_work_and_of_small_pairs(monkeypatch):
    _, pairs = class_pairs(HINGE)  # pairs of 500, 570 and 370 rows
    stored = solver(pairs)
    numbers = np.array([1, 0, 2])
    assert [group.tolist() for group in stored.groups(numbers)] == [[1, 0, 2]]
    monkeypatch.setattr(PairSizes, "values_at_once", 500**2 + 370**2)
    assert [group.tolist() for group in stored.groups(numbers)] == [[1], [0, 2]]  # one that is larger is alone
    monkeypatch.setattr(PairSizes, "max_stored_rows", 500)
    assert [group.tolist() for group in stored.groups(numbers)] == [[0, 2]]


@pytest.mark.parametrize("found", [np.nan, 0.3], ids=["no numbers", "too early"])
def test_block_coordinate_descent_goes_on_where_the_tolerance_is_missed(monkeypatch, found):
    def give_up(first, between, second, pieces, dual, *others):
        dual[:] = found

    monkeypatch.setattr(_core, "solve_class_pairs", give_up)
    _, pairs = class_pairs(HINGE)
    _, outcome = train_pairs(pairs, None, Limits(), LocalEngine(2, Event()), 0, 2**30, lambda number: None)
    assert outcome.status == "converged" and outcome.objectives.worst_gap <= 1e-3


def test_rows_that_single_precision_cannot_tell_apart():
    _, pairs = class_pairs(HINGE, kernel=Kernel("poly", gamma=1.0, degree=2, coef0=1.0), scale=1e3)
    found = solution(solver(pairs), 0)
    assert found.objectives.worst_gap > 1e-3
    assert np.isfinite(found.dual).all() and found.objectives.dual < found.objectives.primal


def test_memory_decides_whether_values_are_stored_and_for_how_many_threads():
    _, pairs = class_pairs(HINGE)
    within = 4 * (np.diff(ROWS) ** 2).sum()
    each = 4 * _core.class_pair_scratch(570) + 2**23
    assert solver(pairs, within + each - 1, 8) is None
    assert solver(pairs, within + each, 8).engine.n_threads == 1
    assert solver(pairs, within + 3 * each, 8).engine.n_threads == 3
    assert solver(pairs, 2**30, 8).engine.n_threads == 8


@pytest.mark.parametrize("reached", ["deadline", "interrupted"])
def test_groups_are_given_up_where_a_limit_is_reached(monkeypatch, reached):
    monkeypatch.setattr(PairSizes, "values_at_once", 1)  # a group for each pair
    limits, done, solve_some = Limits(interrupted=Event()), [], StoredPairs.solve
    if reached == "deadline":
        limits = Limits(deadline=time.perf_counter() + 1000.0)

    def slow(self, *arguments):
        found = solve_some(self, *arguments)
        if reached == "deadline":
            object.__setattr__(limits, "deadline", time.perf_counter())
        else:
            limits.interrupted.set()
        return found

    monkeypatch.setattr(StoredPairs, "solve", slow)
    _, outcome = train_pairs(class_pairs(HINGE)[1], None, limits, LocalEngine(1, Event()), 0, 2**30, done.append)
    assert outcome.status == ("max_time" if reached == "deadline" else "stopped") and len(done) == 3
    assert (outcome.objectives.relative_gap <= 1e-3).tolist() == [False, True, False]  # the largest pair is the first
    assert "2 of 3 pairs" in outcome.reason


def test_only_small_pairs_are_stored(monkeypatch):
    monkeypatch.setattr(PairSizes, "max_stored_rows", 400)
    _, pairs = class_pairs(HINGE)  # 350, 150 and 220 rows
    assert solver(pairs).evaluations == 150**2 + 220**2
    monkeypatch.setattr(PairSizes, "max_stored_rows", 300)
    assert solver(pairs) is None


def test_what_can_be_stored():
    _, pairs = class_pairs(HINGE)
    assert can_be_stored(pairs.kernel, HINGE, 1e-3) and can_be_stored(pairs.kernel, SQUARED_HINGE, 1e-4)
    assert not can_be_stored(pairs.kernel, ODM, 1e-3)  # whose coefficients may be negative
    assert not can_be_stored(pairs.kernel, HINGE, 1e-5)
    assert not can_be_stored(pairs.kernel.in_float64(), HINGE, 1e-3)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, [np.ones((2, 3), dtype=np.float32)]),
        (0, [np.ones((2, 2), dtype=np.float32)] * 2),
        (1, np.ones(5, dtype=np.float32)),
        (1, np.ones(7, dtype=np.float32)),
        (2, [np.ones((2, 3), dtype=np.float32)]),
        (2, []),
        (3, np.ones((6, 4))),
        (3, np.ones((5, 5))),
        (4, np.ones(6)),
        (4, np.ones(4)),
    ],
)
def test_the_core_refuses_arrays_that_do_not_fit(place, wrong):
    first, between, second = ([np.ones((2, 2), np.float32)], np.ones(6, np.float32), [np.ones((3, 3), np.float32)])
    given = [first, between, second, np.ones((6, 5)), np.ones(5)]
    _core.solve_class_pairs(*given, True, 1e-3, 10, 1)
    given[place] = wrong
    with pytest.raises(ValueError, match="do not fit together"):
        _core.solve_class_pairs(*given, True, 1e-3, 10, 1)
