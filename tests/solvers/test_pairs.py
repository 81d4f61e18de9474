"""Pair steps inside a block, against an interior-point method, on every instruction set."""

import numpy as np
import pytest
from helpers import HINGE, SQUARED_HINGE, blobs, gram, loss_and_conjugate, make_problem, name
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from qpsolvers import solve_qp
from scipy.sparse import csc_matrix

from dimargin import _core
from dimargin.kernels.functions import Kernel
from dimargin.problems.losses import HingeLoss, SquaredHingeLoss

RBF = Kernel("rbf", gamma=1.0)
one_sided = pytest.mark.parametrize("loss", [HINGE, SQUARED_HINGE], ids=name)
with_and_without = pytest.mark.parametrize("intercept", [False, True], ids=["bias-free", "intercept"])


@pytest.fixture(params=_core.instruction_sets())
def instruction_set(request):
    before = _core.instruction_set()
    _core.use_instruction_set(request.param)
    yield
    _core.use_instruction_set(before)


def solve_pairs(problem, block, dual, dtype, tolerance=0.1, absolute=0.0, max_steps=30):
    """New dual coefficients, and the change of signed coefficients."""
    K, labels, dual = gram(problem), problem.labels, dual.copy()
    change = np.empty((len(labels), len(block)))
    _core.solve_pairs(
        np.ascontiguousarray(K[np.ix_(block, block)], dtype=dtype), block, problem.conjugate.stack(), labels, dual,
        labels * (labels * dual @ K), change, problem.intercept, tolerance, absolute, max_steps, 1,
    ).finish()  # fmt: skip
    return dual, change


def objective(problem, dual):
    margins = problem.labels * (problem.labels * dual @ gram(problem))
    return 0.5 * (dual * margins).sum(axis=1) + loss_and_conjugate(problem, margins, dual)[1]


@with_and_without
@one_sided
@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float32, 1e-5), (np.float64, 1e-9)])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 90])
def test_a_block_alone_is_solved(instruction_set, n, dtype, accuracy, loss, intercept):
    X, labels = blobs(n + 2)
    weights = np.random.default_rng(n).uniform(0.3, 3, n)
    problem = make_problem(X[:n], labels[:, :n], loss, RBF, weights, intercept=intercept)
    dual, change = solve_pairs(problem, np.arange(n), np.zeros((1, n)), dtype, tolerance=0.0, absolute=1e-6)
    y, conjugate = problem.labels[0], problem.conjugate
    P = y[:, None] * gram(problem) * y + np.diag(conjugate.curvature_right)
    equality = {"A": csc_matrix(y[None]), "b": np.zeros(1)} if intercept else {}
    exact = solve_qp(
        csc_matrix(P), conjugate.slope_right, lb=np.zeros(n), ub=conjugate.upper, solver="clarabel", **equality
    )
    best = 0.5 * exact @ P @ exact - exact.sum()
    assert objective(problem, dual)[0] - best <= accuracy * max(1, abs(best))
    assert (dual >= 0).all() and (dual <= conjugate.upper).all()
    assert_array_equal(change, problem.labels * dual)
    if intercept:
        assert abs(change.sum()) <= 1e-12 * np.abs(change).sum()


@with_and_without
@given(
    seed=st.integers(0, 2**32 - 1),
    loss=st.sampled_from([HINGE, SQUARED_HINGE, HingeLoss(1e3), SquaredHingeLoss(1e4)]),
    kernel=st.sampled_from([RBF, Kernel("linear"), Kernel("poly", gamma=0.5, degree=3)]),
    size=st.integers(1, 60),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_the_dual_objective_never_rises(seed, loss, kernel, size, dtype, intercept):
    rng = np.random.default_rng(seed)
    X, labels = blobs(60, seed, n_outputs=2)
    problem = make_problem(X, labels, loss, kernel, intercept=intercept)
    start = problem.feasible(np.abs(rng.normal(size=(2, 60))) * 10.0 ** rng.uniform(-3, 3))
    block = np.sort(rng.permutation(60)[:size])
    dual, change = solve_pairs(problem, block, start, dtype)
    before = objective(problem, start)
    slack = 1e-9 if dtype is np.float64 else 1e-4
    assert (objective(problem, dual) <= before + slack * (np.abs(before) + np.abs(start).sum())).all()
    others = np.setdiff1d(np.arange(60), block)
    assert_array_equal(dual[:, others], start[:, others])
    assert (dual >= 0).all() and (dual <= problem.conjugate.upper).all()
    assert_allclose(change, (problem.labels * (dual - start))[:, block], rtol=1e-9, atol=1e-9 * np.abs(start).max())
    if intercept:
        assert_allclose(change.sum(axis=1), 0, atol=1e-10 * (1 + np.abs(start).sum()))


@with_and_without
def test_duplicates_of_both_classes(intercept):
    """No pair of them has any bend; all end at the bound."""
    X, labels = np.zeros((20, 2)), np.where(np.arange(20) % 2, 1.0, -1.0)[None]
    problem = make_problem(X, labels, HINGE, RBF, intercept=intercept)
    dual, _ = solve_pairs(problem, np.arange(20), np.zeros((1, 20)), np.float32, tolerance=0.0, absolute=1e-5)
    assert_allclose(dual, 2.0)


def test_other_precisions_are_refused():
    X, labels = blobs(10)
    with pytest.raises(TypeError):
        solve_pairs(make_problem(X, labels, HINGE, RBF), np.arange(10), np.zeros((1, 10)), np.float16)
