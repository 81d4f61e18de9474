"""The compiled solves of one block: they never make the dual objective worse, and solve alone what they are given."""

from functools import partial

import numpy as np
import pytest
from helpers import (
    HINGE,
    KERNELS,
    LOSSES,
    SQUARED_HINGE,
    blobs,
    gram,
    interior_point_optimum,
    loss_and_conjugate,
    make_problem,
    name,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from nu_objectives import optimum
from numpy.testing import assert_allclose, assert_array_equal
from qpsolvers import solve_qp
from scipy.sparse import csc_matrix
from sklearn.metrics.pairwise import rbf_kernel

from dimargin import _core
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.losses import HingeLoss, ODMLoss, SquaredHingeLoss
from dimargin.problems.nu import NuProblem
from dimargin.problems.regression_losses import EpsilonInsensitiveLoss, SquaredEpsilonInsensitiveLoss

RBF = KERNELS[2]
BAND, SQUARED_BAND = EpsilonInsensitiveLoss(2.0, 0.3), SquaredEpsilonInsensitiveLoss(20.0, 0.1)


def solved(solve, problem, block, dual, dtype, *limits):
    """New dual coefficients, and the change of signed coefficients, by one of the core's solvers."""
    K, labels, dual = gram(problem), problem.labels, dual.copy()
    change = np.empty((len(labels), len(block)))
    solve(
        np.ascontiguousarray(K[np.ix_(block, block)], dtype=dtype), block, problem.conjugate.stack(), labels, dual,
        labels * (labels * dual @ K), change, problem.intercept, *limits, 1,
    ).finish()  # fmt: skip
    return dual, change


def solve_block(problem, block, dual, tolerance=0.1, max_steps=2):
    return solved(_core.solve_block, problem, block, dual, np.float64, tolerance, 0.0, max_steps)


def solve_pairs(problem, block, dual, dtype=np.float64, tolerance=0.1, absolute=0.0):
    return solved(_core.solve_pairs, problem, block, dual, dtype, tolerance, absolute, 30)


def objective(problem, dual):
    """Of the dual problem as the block solver has it, which minimises."""
    margins = problem.labels * (problem.labels * dual @ gram(problem))
    return 0.5 * (dual * margins).sum(axis=1) + loss_and_conjugate(problem, margins, dual)[1]


SMALL_STEPS = {
    **{f"sweeps, {loss!r}": (solve_block, loss, False, 1e-9)
       for loss in (*LOSSES, ODMLoss(1e7, 0.05, 0.1), SquaredHingeLoss(1e4), BAND, SQUARED_BAND)},
    **{f"primal steps, {loss!r}": (solve_block, loss, True, 1e-9)
       for loss in (ODMLoss(256.0, 0.4, 0.2), ODMLoss(1e7, 0.05, 0.1), ODMLoss(10.0, 1.0, 0.9), SQUARED_BAND)},
    f"pairs of a block, {BAND!r}": (solve_block, BAND, True, 1e-9),
    **{f"pairs, {loss!r}, intercept={intercept}, {dtype.__name__}": (
           partial(solve_pairs, dtype=dtype), loss, intercept, slack)
       for loss in (HINGE, SQUARED_HINGE, HingeLoss(1e3), SquaredHingeLoss(1e4), BAND, SQUARED_BAND)
       for intercept in (False, True)
       for dtype, slack in ((np.float64, 1e-9), (np.float32, 1e-4))},
}  # fmt: skip


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("solve", "loss", "intercept", "slack"), SMALL_STEPS.values(), ids=SMALL_STEPS)
@given(
    seed=st.integers(0, 2**32 - 1),
    kernel=st.sampled_from([*KERNELS, Kernel("poly", gamma=0.5, degree=3)]),
    size=st.integers(1, 60),
)
def test_the_dual_objective_never_rises(solve, loss, intercept, slack, seed, kernel, size):
    rng = np.random.default_rng(seed)
    X, labels = blobs(60, seed, n_outputs=2)
    problem = make_problem(X, labels, loss, kernel, intercept=intercept)
    start = rng.normal(size=(2, 60)) * 10.0 ** rng.uniform(-3, 3)
    start = problem.feasible(start if (problem.conjugate.lower < 0).all() else np.abs(start))
    block = np.sort(rng.permutation(60)[:size])
    dual, change = solve(problem, block, start)
    before = objective(problem, start)
    exact = solve is solve_block
    assert np.all(objective(problem, dual) <= before + slack * (np.abs(before) + (not exact) * np.abs(start).sum()))
    assert (dual >= problem.conjugate.lower).all() and (dual <= problem.conjugate.upper).all()
    # only the block moves, and its changes are what they are said to be
    others = np.setdiff1d(np.arange(60), block)
    assert_array_equal(dual[:, others], start[:, others])
    rtol, atol = (1e-12, 0.0) if exact else (1e-9, 1e-9 * np.abs(start).max())
    assert_allclose(change, (labels * (dual - start))[:, block], rtol=rtol, atol=atol)
    if intercept:
        assert_allclose(change.sum(axis=1), 0, atol=1e-10 * (1 + np.abs(start).sum()) + 1e-14 * np.abs(change).sum())


# ---- sweeps and Newton steps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_to_rounding(loss):
    X, labels = blobs(80)
    problem = make_problem(X, labels, loss, RBF)
    dual, _ = solve_block(problem, np.arange(80), np.zeros((1, 80)), tolerance=0.0, max_steps=200)
    margins = labels * (labels * dual @ gram(problem))
    assert np.abs(problem.conjugate.subgradient_distance(margins, dual)).max() < 1e-11


@pytest.mark.parametrize("seed", range(5))
def test_few_primal_steps_with_an_intercept_go_to_rounding(seed):
    X, labels = blobs(80, seed)
    problem = make_problem(X, labels, LOSSES[0], RBF, intercept=True)
    dual, _ = solve_block(problem, np.arange(80), np.zeros((1, 80)), tolerance=0.0, max_steps=8)
    assert_array_equal(dual, solve_block(problem, np.arange(80), np.zeros((1, 80)), tolerance=0.0, max_steps=200)[0])
    signed = labels * dual
    (shift,) = problem.intercepts(labels * (signed @ gram(problem)))
    margins = labels * (signed @ gram(problem) + shift)
    assert abs(signed.sum()) < 1e-12 * np.abs(signed).sum()
    assert np.abs(problem.conjugate.subgradient_distance(margins, dual)).max() < 1e-11


@pytest.mark.parametrize(
    ("curvature", "left"),
    # float32 does above a thousandth of the diagonal; float64 is needed below, where the condition
    # is 1e5 and 5e7
    [(1.0, 1e-5), (2e-3, 1e-2), (5e-4, 1e-6), (1e-6, 1e-4)],
)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_one_newton_step_solves_a_quadratic(curvature, left, seed):
    """One piece for all rows, so that the optimum solves linear equations: how much one step leaves of the error."""
    rng, n = np.random.default_rng(seed), 80
    X, labels = rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], size=n)
    K = rbf_kernel(X, gamma=0.1)
    H = labels[:, None] * K * labels + curvature * np.eye(n)
    slope = -H @ (rng.uniform(1, 2, n) * rng.choice([-1.0, 1.0], size=n))
    exact = np.linalg.solve(H, -slope)
    start = exact + 1e-3 * rng.normal(size=n)
    dual, margins = start[None].copy(), (labels * (K @ (labels * start)))[None]
    bend, infinite = np.full(n, curvature), np.full(n, np.inf)
    _core.solve_block(
        K, np.arange(n), np.array([slope, bend, slope, bend, -infinite, infinite]), labels[None], dual, margins,
        np.empty((1, n)), sums=0, tolerance=1e-15, absolute=0.0, max_steps=1, n_threads=1,
    ).finish()  # fmt: skip
    assert np.linalg.norm(dual[0] - exact) <= left * np.linalg.norm(start - exact)


def test_arrays_that_do_not_fit_are_refused():
    X, labels = blobs(10)
    problem = make_problem(X, labels, LOSSES[0], RBF)
    with pytest.raises(IndexError, match="row index"):
        solve_block_with(problem, index=np.arange(7, 11))
    with pytest.raises(ValueError, match="do not fit"):
        solve_block_with(problem, index=np.arange(3))


def solve_block_with(problem, index):
    """A gram matrix of four rows and any index."""
    _core.solve_block(
        np.eye(4), index, problem.conjugate.stack(), problem.labels, np.zeros((1, 10)), np.zeros((1, 10)),
        np.zeros((1, 4)), sums=0, tolerance=0.1, absolute=0.0, max_steps=1, n_threads=1,
    ).finish()  # fmt: skip


def test_one_call_ends_soon():
    """Where Newton steps end at one row after another of a matrix of low rank; time limits are obeyed between calls."""
    X, labels = blobs(500)
    problem = make_problem(1e3 * X, labels, HingeLoss(2.0), Kernel("poly", gamma=1.0, degree=2, coef0=1.0))
    dual, change, block = np.zeros((1, 500)), np.empty((1, 500)), np.arange(500)
    operations = _core.solve_block(
        gram(problem), block, problem.conjugate.stack(), labels, dual, np.zeros((1, 500)), change, False, 0.0, 0.0,
        max_steps=200, n_threads=1,
    ).finish()  # fmt: skip
    assert 1e9 < operations < 5e9
    assert objective(problem, dual) < 0


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_a_solve_that_has_begun_is_done_by_whoever_comes_first(n_outputs, n_threads):
    """By a thread that comes to help with something else, or by its owner; or by nobody, if it is given up."""
    n = 2500  # threads come to help with a product of so many rows
    X, labels = blobs(n, n_outputs=n_outputs)
    problem = make_problem(X, labels, ODMLoss(1e4, 0.3, 0.1), Kernel("rbf", gamma=1.0), n_threads=n_threads)
    block, K = np.arange(0, n, 6), gram(problem)  # to rounding, which takes longer than the product
    start, values = np.zeros((n_outputs, n)), np.ascontiguousarray(K[np.ix_(block, block)])
    expected = solve_block(problem, block, start, 0.0, 200)
    for round_ in range(30):
        dual, change = start.copy(), np.empty((n_outputs, len(block)))
        solving = _core.solve_block(
            values, block, problem.conjugate.stack(), labels, dual, start, change, False, 0.0, 0.0, 200, n_threads
        )
        if round_ % 3:
            assert_allclose(problem.kernel.multiply(np.arange(n), labels), labels @ K, atol=1e-2)
        if round_ % 3 == 2:
            del solving
            continue
        assert solving.finish() == solving.finish() > 0
        assert_array_equal(dual, expected[0])
        assert_array_equal(change, expected[1])


# ---- pair steps, on every instruction set ----------------------------------------------------------------------------

one_sided = pytest.mark.parametrize("loss", [HINGE, SQUARED_HINGE], ids=name)
with_and_without = pytest.mark.parametrize("intercept", [False, True], ids=["bias-free", "intercept"])


@pytest.fixture(params=_core.instruction_sets())
def instruction_set(request):
    before = _core.instruction_set()
    _core.use_instruction_set(request.param)
    yield
    _core.use_instruction_set(before)


@with_and_without
@one_sided
@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float32, 1e-5), (np.float64, 1e-9)])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 90])
def test_pair_steps_solve_a_block_alone(instruction_set, n, dtype, accuracy, loss, intercept):
    X, labels = blobs(n + 2)
    weights = np.random.default_rng(n).uniform(0.3, 3, n)
    problem = make_problem(X[:n], labels[:, :n], loss, RBF, weights, intercept=intercept)
    dual, change = solve_pairs(problem, np.arange(n), np.zeros((1, n)), dtype, tolerance=0.0, absolute=1e-6)
    best = -interior_point_optimum(problem)
    assert objective(problem, dual)[0] - best <= accuracy * max(1, abs(best))
    assert (dual >= 0).all() and (dual <= problem.conjugate.upper).all()
    assert_array_equal(change, problem.labels * dual)
    if intercept:
        assert abs(change.sum()) <= 1e-12 * np.abs(change).sum()


@with_and_without
def test_pair_steps_on_duplicates_of_both_classes(intercept):
    """No pair of them has any bend; all end at the bound."""
    X, labels = np.zeros((20, 2)), np.where(np.arange(20) % 2, 1.0, -1.0)[None]
    problem = make_problem(X, labels, HINGE, RBF, intercept=intercept)
    dual, _ = solve_pairs(problem, np.arange(20), np.zeros((1, 20)), np.float32, tolerance=0.0, absolute=1e-5)
    assert_allclose(dual, 2.0)


def test_pair_steps_refuse_other_precisions():
    X, labels = blobs(10)
    with pytest.raises(TypeError):
        solve_pairs(make_problem(X, labels, HINGE, RBF), np.arange(10), np.zeros((1, 10)), np.float16)


# ---- sums of the coefficients of either label ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solve", "dtype"),
    [(_core.solve_block, np.float64), (_core.solve_pairs, np.float64), (_core.solve_pairs, np.float32)],
    ids=["block", "pairs, float64", "pairs, float32"],
)
# Of a matrix of full rank the reference is accurate.
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 60), nu=st.floats(0.1, 0.9))
@settings(max_examples=60)
def test_two_sums_stay(solve, dtype, seed, n, nu):
    X, labels = blobs(n + 2, seed % 1000)
    labels, weights = np.where(np.arange(n) % 3, 1.0, -1.0), np.random.default_rng(seed).uniform(0.5, 2.0, n)
    matrix = KernelMatrix.of(X[:n], RBF).in_float64()
    problem = NuProblem.of_labels(matrix, labels, weights, nu)
    # The core has the values in single precision as well.
    K = matrix.block(np.arange(n), np.arange(n)).astype(np.float32).astype(float)
    dual, change = problem.feasible(np.zeros((1, n))), np.empty((1, n))
    start, margins = dual.copy(), labels * ((labels * dual) @ K)
    solve(
        np.ascontiguousarray(K, dtype=dtype), np.arange(n), problem.conjugate.stack(), problem.labels, dual, margins,
        change, 2, 0.0, 1e-7, 300, 1,
    ).finish()  # fmt: skip
    assert (dual >= 0).all() and (dual <= weights).all()
    assert_allclose(change, labels * (dual - start), atol=1e-12)
    for rows, mass in problem.parts:
        assert_allclose(dual[0, rows].sum(), mass, rtol=1e-12)
    signed = labels * dual[0]
    sums = [(labels == sign, mass) for sign, mass in zip((1.0, -1.0), problem.masses, strict=True)]
    best = optimum(labels[:, None] * K * labels, np.zeros(n), weights, sums)
    assert -0.5 * signed @ K @ signed == pytest.approx(best, rel=1e-6, abs=1e-6 * weights.sum())


# ---- coefficients of either sign, whose conjugates have a kink at zero -----------------------------------------------


def two_sided_pieces(rng, n, curvature):
    """Conjugates with any slopes, some without a kink, on intervals some of which begin or end at zero."""
    left = rng.normal(size=n)
    right = left + np.where(rng.random(n) < 0.8, rng.exponential(size=n), 0.0)
    lower, upper = -rng.uniform(0.1, 3, n), rng.uniform(0.1, 3, n)
    lower[rng.random(n) < 0.15], upper[rng.random(n) < 0.15] = 0.0, 0.0
    bend = np.full(n, curvature)
    return np.array([right, bend, left, bend, lower, upper])


def two_sided_objective(K, labels, pieces, dual):
    right, bend, left = pieces[:3]
    linear = np.where(dual > 0, right, left) @ dual
    return 0.5 * (labels * dual) @ K @ (labels * dual) + linear + 0.5 * (bend * dual) @ dual


def two_sided_optimum(K, labels, pieces, intercept):
    """By an interior point method, of the two parts of every coefficient."""
    right, bend, left, _, lower, upper = pieces
    Q, n = labels[:, None] * K * labels + np.diag(bend), len(labels)
    equality = {"A": csc_matrix(np.r_[labels, -labels][None]), "b": np.zeros(1)} if intercept else {}
    x = solve_qp(
        csc_matrix(np.block([[Q, -Q], [-Q, Q]])), np.r_[right, -left], lb=np.zeros(2 * n), ub=np.r_[upper, -lower],
        solver="clarabel", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11, **equality,
    )  # fmt: skip
    return two_sided_objective(K, labels, pieces, np.clip(x[:n] - x[n:], lower, upper))


@pytest.mark.parametrize(
    ("solve", "dtype"),
    [(_core.solve_block, np.float64), (_core.solve_pairs, np.float64), (_core.solve_pairs, np.float32)],
    ids=["block", "pairs, float64", "pairs, float32"],
)
@with_and_without
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), kernel=st.sampled_from(KERNELS),
    curvature=st.sampled_from([0.0, 0.0, 1e-3, 1.0]), sign=st.sampled_from([None, 1.0, -1.0]),
)  # fmt: skip
@settings(max_examples=60)
def test_coefficients_of_either_sign(solve, dtype, intercept, seed, n, kernel, curvature, sign):
    rng = np.random.default_rng(seed)
    problem = make_problem(*blobs(n + 2, seed % 1000), HINGE, kernel)
    K = gram(problem)[:n, :n].astype(np.float32).astype(float)
    labels = rng.choice([-1.0, 1.0], size=n) if sign is None else np.full(n, sign)
    pieces = two_sided_pieces(rng, n, curvature)
    dual, change = np.zeros((1, n)), np.empty((1, n))
    solve(
        np.ascontiguousarray(K, dtype=dtype), np.arange(n), pieces, labels[None], dual, np.zeros((1, n)), change,
        intercept, 0.0, 1e-6, 300, 1,
    ).finish()  # fmt: skip
    assert (dual >= pieces[4]).all() and (dual <= pieces[5]).all()
    assert_array_equal(change[0], labels * dual[0])
    if intercept:
        assert abs(change.sum()) <= 1e-12 * np.abs(change).sum()
    best = two_sided_optimum(K, labels, pieces, intercept)
    assert two_sided_objective(K, labels, pieces, dual[0]) == pytest.approx(best, rel=1e-8, abs=1e-8)


# ---- many problems in a call ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(
    ("loss", "intercept"), [(LOSSES[0], False), (LOSSES[0], True), (HingeLoss(2.0), True)], ids=repr
)
def test_problems_of_one_call_are_solved_as_alone(loss, intercept, n_threads):
    sizes = [1, 40, 7, 90]
    alone, given = [], [[] for _ in range(4)]
    for seed, n in enumerate(sizes):
        X, labels = blobs(max(n, 2), seed)
        problem = make_problem(X[:n], labels[:, :n], loss, RBF, intercept=intercept)
        alone.append(solve_block(problem, np.arange(n), np.zeros((1, n)), 0.0, 200)[0][0])
        own = gram(problem).ravel(), problem.conjugate.stack(), labels[0, :n], np.zeros(n)
        for values, more in zip(given, own, strict=True):
            values.append(more)
    grams, pieces, labels, dual = (np.concatenate(values, axis=-1) for values in given)
    bounds = np.array([0, 1, 41, 41, 48, 138])  # one of them has no rows
    _core.solve_blocks(grams, bounds, pieces, labels, dual, np.zeros(len(dual)), intercept, 200, n_threads)
    assert_array_equal(dual, np.concatenate(alone))


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, np.ones(12)),
        (1, np.array([0, 2])),
        (1, np.array([1, 2, 5])),
        (1, np.array([0, 6, 5])),
        (2, np.ones((6, 4))),
        (2, np.ones((5, 5))),
        (3, np.ones(4)),
        (4, np.ones(6)),
        (5, np.ones(4)),
    ],
)
def test_problems_that_do_not_fit_are_refused(place, wrong):
    given = [np.ones(13), np.array([0, 2, 5]), np.ones((6, 5)), np.ones(5), np.zeros(5), np.zeros(5)]
    _core.solve_blocks(*given, False, 1, 1)
    given[place] = wrong
    with pytest.raises(ValueError, match="do not fit together"):
        _core.solve_blocks(*given, False, 1, 1)
