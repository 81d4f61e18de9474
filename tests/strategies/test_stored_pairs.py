"""Pairs of classes on stored kernel values: block coordinate descent and scikit-learn's kernels say what to expect."""

from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import HINGE, ODM, SQUARED_HINGE, blobs, name
from sklearn.metrics.pairwise import rbf_kernel

from dimargin import _core
from dimargin.engines import LocalEngine
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.strategies import stored_pairs
from dimargin.strategies.one_vs_one import ClassPairs, train_pairs
from dimargin.strategies.stored_pairs import StoredPairs, can_be_stored

ROWS = [0, 350, 500, 720]
KERNEL = Kernel("rbf", gamma=0.5)


def class_pairs(loss, intercept=True, kernel=KERNEL, weights=None, scale=1.0):
    X = scale * blobs(ROWS[-1])[0]
    weights = np.ones(ROWS[-1]) if weights is None else weights
    return X, ClassPairs(weights, np.array(ROWS), loss, intercept, KernelMatrix.of(X, kernel))


def solver(pairs, memory=2**30, n_threads=1):
    return StoredPairs.within(memory, pairs.kernel, pairs.classes, LocalEngine(n_threads, Event()))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", [HINGE, SQUARED_HINGE], ids=name)
def test_the_certificate_brackets_the_optimum(loss, intercept):
    X, pairs = class_pairs(loss, intercept, weights=np.random.default_rng(0).uniform(0.5, 2.0, ROWS[-1]))
    stored = solver(pairs)
    for pair in pairs.pairs:
        problem = pairs.problem(pair, 1)
        found = stored.solve(pair, problem, None, 1e-3)
        assert found.status == "converged" and found.objectives.worst_gap <= 1e-3 and found.objectives.rounding > 0
        best = solve(pairs.problem(pair, 1), BlockCoordinateDescent(), None, Limits(tol=1e-9)).objectives
        assert found.objectives.dual < best.primal and best.dual < found.objectives.primal
        # the dual objective of these coefficients, by another library's kernel
        own = np.r_[pairs.rows(pair)[0], pairs.rows(pair)[1]]
        signed = problem.labels[0] * found.dual[0]
        value = -problem.conjugate.value(found.dual).sum() - 0.5 * signed @ rbf_kernel(X[own], gamma=0.5) @ signed
        np.testing.assert_allclose(value, found.objectives.reached, rtol=1e-6)
        assert not intercept or abs(signed.sum()) < 1e-9


def test_sparse_rows():
    X, pairs = class_pairs(HINGE)
    X[np.abs(X) < 0.5] = 0.0
    found = []
    for form in (np.asarray, sp.csr_array):
        sparse = replace(pairs, kernel=KernelMatrix.of(form(X), KERNEL))
        found.append(solver(sparse).solve((1, 2), sparse.problem((1, 2), 1), None, 1e-4))
    np.testing.assert_allclose(found[0].objectives.primal, found[1].objectives.primal, rtol=2e-4)
    assert found[1].status == "converged"


def test_values_are_computed_once():
    _, pairs = class_pairs(HINGE)
    stored = solver(pairs)
    sizes = np.diff(ROWS)
    assert stored.evaluations == (sizes**2).sum()
    found = stored.solve((0, 2), pairs.problem((0, 2), 1), None, 1e-3)
    n_support = np.count_nonzero(found.dual)
    assert found.kernel_evaluations == sizes[0] * sizes[2] + n_support * (sizes[0] + sizes[2])
    both = pairs.problem((0, 2), 1)
    exact = both.labels * (rbf_kernel(both.kernel.rows(np.arange(570)), gamma=0.5) @ (both.labels * found.dual)[0])
    np.testing.assert_allclose(found.margins, exact, atol=1e-10)


def test_a_start_at_the_solution_takes_no_step():
    _, pairs = class_pairs(HINGE)
    problem = pairs.problem((0, 1), 1)
    best = solve(problem, BlockCoordinateDescent(), None, Limits(tol=1e-6)).dual
    np.testing.assert_array_equal(solver(pairs).solve((0, 1), problem, best, 1e-3).dual, best)


@pytest.mark.parametrize("found", [np.nan, 0.3], ids=["no numbers", "too early"])
def test_block_coordinate_descent_goes_on_where_the_tolerance_is_missed(monkeypatch, found):
    def give_up(first, between, second, pieces, dual, *others):
        dual[:] = found
        return 1.0

    monkeypatch.setattr(_core, "solve_class_pair", give_up)
    _, pairs = class_pairs(HINGE)
    outcome = train_pairs(pairs, None, Limits(), LocalEngine(2, Event()), 0, 2**30, lambda number: None)
    assert outcome.status == "converged" and outcome.objectives.worst_gap <= 1e-3


def test_rows_that_single_precision_cannot_tell_apart():
    _, pairs = class_pairs(HINGE, kernel=Kernel("poly", gamma=1.0, degree=2, coef0=1.0), scale=1e3)
    found = solver(pairs).solve((0, 1), pairs.problem((0, 1), 1), None, 1e-3)
    assert found.status == "max_iter" and found.objectives.worst_gap > 1e-3
    assert np.isfinite(found.dual).all() and found.objectives.dual < found.objectives.primal


def test_memory_decides_whether_values_are_stored_and_for_how_many_threads(monkeypatch):
    monkeypatch.setattr(stored_pairs, "_WORTH_THREADS", 0)
    _, pairs = class_pairs(HINGE)
    within = 4 * (np.diff(ROWS) ** 2).sum()
    each = 4 * _core.class_pair_scratch(570) + 570**2
    assert solver(pairs, within + each - 1, 8) is None
    assert solver(pairs, within + each, 8).engine.n_threads == 1
    assert solver(pairs, within + 3 * each, 8).engine.n_threads == 3
    assert solver(pairs, 2**30, 8).engine.n_threads == 8
    monkeypatch.undo()
    assert solver(pairs, 2**30, 8).engine.n_threads == 1  # so few values are soon computed


def test_only_small_pairs_are_stored(monkeypatch):
    monkeypatch.setattr(stored_pairs, "MOST_ROWS", 400)
    _, pairs = class_pairs(HINGE)  # 350, 150 and 220 rows
    assert solver(pairs).evaluations == 150**2 + 220**2
    monkeypatch.setattr(stored_pairs, "MOST_ROWS", 300)
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
        (0, np.ones((2, 3), dtype=np.float32)),
        (1, np.ones((3, 2), dtype=np.float32)),
        (2, np.ones((2, 3), dtype=np.float32)),
        (3, np.ones((6, 4))),
        (4, np.ones(6)),
        (5, np.ones(9, dtype=np.float32)),
    ],
)
def test_the_core_refuses_arrays_that_do_not_fit(place, wrong):
    single = [np.ones(shape, dtype=np.float32) for shape in ((2, 2), (2, 3), (3, 3))]
    given = [*single, np.ones((6, 5)), np.ones(5), np.empty(_core.class_pair_scratch(5), dtype=np.float32)]
    _core.solve_class_pair(*given, True, 1e-3, 10)
    given[place] = wrong
    with pytest.raises(ValueError, match="do not fit together"):
        _core.solve_class_pair(*given, True, 1e-3, 10)
