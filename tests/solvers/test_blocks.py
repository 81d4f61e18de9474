"""Which rows are solved together and when: sizes of blocks, near neighbours, worst violators."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import KERNELS, LOSSES, ODM, blobs, fit, make_problem, name

from dimargin import _core
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.user import UserKernel, kernel_matrix
from dimargin.problems.losses import HingeLoss, ODMLoss, SquaredHingeLoss
from dimargin.solvers import BlockCoordinateDescent, Limits, block_coordinate_descent, blocks, solve
from dimargin.solvers.neighbours import deal_neighbours
from dimargin.solvers.shrinking import ShrinkingRule

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)
RBF = Kernel("rbf", gamma=1.0)


@pytest.fixture
def block_sizes(monkeypatch):
    """Rows of every block that is solved."""
    sizes = []

    def record(name):
        original = getattr(_core, name)

        def recording(gram, index, *arguments, **options):
            sizes.append(len(index))
            return original(gram, index, *arguments, **options)

        monkeypatch.setattr(_core, name, recording)

    record("solve_block")
    record("solve_pairs")
    return sizes


@pytest.mark.parametrize(
    ("n_features", "density", "expected"), [(128, 1, 256), (129, 1, 512), (200, 0.6, 256), (200, 0.7, 512)]
)
def test_blocks_are_larger_where_kernel_values_are_dear(block_sizes, n_features, density, expected):
    """They cost as much as a row holds numbers: in sparse rows, fewer than there are features."""
    X, labels = blobs(1024, n_features=n_features)
    if density < 1:
        X = sp.csr_array(X * (np.random.default_rng(0).random(X.shape) < density))
    problem = make_problem(X, labels, ODM, Kernel("rbf", gamma=1 / n_features))
    solve(problem, BlockCoordinateDescent(), None, Limits(tol=1e-9, max_iter=1))
    assert max(block_sizes) <= expected
    assert sum(block_sizes[: math.ceil(1024 / expected)]) == 1024  # the first pass, in as few blocks as can be


@pytest.mark.parametrize("loss", [HingeLoss(1.0), SquaredHingeLoss(1.0)], ids=name)
@pytest.mark.parametrize(("n", "expected"), [(1200, 512), (9600, 800), (16000, 1024)])
def test_blocks_of_pairs_are_a_twelfth_of_the_rows_of_a_pass(block_sizes, monkeypatch, loss, n, expected):
    monkeypatch.setattr(BlockCoordinateDescent, "shrinking", ShrinkingRule(large=n))  # all rows, from the beginning
    X, labels = blobs(n)
    solve(make_problem(X, labels, loss, RBF), BlockCoordinateDescent(), None, Limits(max_iter=1))
    first = block_sizes[: math.ceil(n / expected)]
    assert max(first) <= expected and sum(first) == n  # in as few blocks as can be


@pytest.mark.parametrize(("n_features", "remembered"), [(128, 0), (129, 1000)])
def test_kernel_rows_are_remembered_where_they_are_dear(n_features, remembered):
    problem = make_problem(*blobs(600, n_features=n_features), HingeLoss(1.0), Kernel("rbf", gamma=1 / n_features))
    assert BlockCoordinateDescent(cache=1000).init(problem, None, Limits()).shrinking.max_cache_bytes == remembered


@pytest.mark.parametrize(("numbers", "equal", "dear"), [(32, False, False), (33, False, True), (33, True, False)])
def test_values_of_sparse_rows_are_dear_unless_they_are_counted(numbers, equal, dear):
    X = np.full((600, numbers), 0.1) if equal else np.random.default_rng(0).random((600, numbers)) + 0.1
    K = KernelMatrix.of(sp.csr_array(np.hstack([X, np.zeros((600, 200))])), Kernel("rbf", gamma=0.1))
    assert (K.expensive, K.very_expensive) == (False, dear)


def test_values_of_a_function_are_dear_and_those_looked_up_are_not():
    assert kernel_matrix(UserKernel(np.inner), np.ones((3, 2))).expensive
    assert not kernel_matrix(UserKernel(None), np.eye(200)).expensive


@every_loss
def test_up_to_512_rows_are_one_block_solved_to_rounding(block_sizes, loss):
    X, labels = blobs(513)
    small = fit(make_problem(X[:512], labels[:, :512], loss, RBF), tol=0.5)
    assert set(block_sizes) == {512} and small.objectives.unrounded < 1e-12
    block_sizes.clear()
    large = fit(make_problem(X, labels, loss, RBF), tol=0.5)
    assert max(block_sizes) <= 512 and large.objectives.worst_gap > 1e-6


def test_blocks_of_neighbours_save_kernel_evaluations(monkeypatch):
    monkeypatch.setattr(
        block_coordinate_descent, "is_newton_faster", lambda *arguments: False
    )  # Newton's method would take over
    X, labels = blobs(2000, n_features=3)

    def evaluations():
        return fit(make_problem(X, labels, ODMLoss(1e5, 0.5, 0.3), Kernel("rbf", gamma=4.0))).kernel_evaluations

    mixed = evaluations()

    def at_random(kernel, rows, n_blocks, rng):
        return np.array_split(rng.permutation(rows), n_blocks)

    monkeypatch.setattr(blocks, "deal_neighbours", at_random)
    assert mixed < 0.7 * evaluations()


def test_passes_of_neighbours(monkeypatch):
    """Every second one with one output, three of four while several go on."""
    X, labels = blobs(600, n_outputs=2)
    problem, dealt = make_problem(X, labels, ODM, RBF), []

    def recording(*arguments):
        dealt.append(state.schedule.passes)
        return deal_neighbours(*arguments)

    monkeypatch.setattr(blocks, "deal_neighbours", recording)
    solver = BlockCoordinateDescent()
    state = solver.init(problem, None, Limits(tol=0.0))
    while state.schedule.passes < 8 or state.schedule.queue:
        solver.step(state)
    assert dealt == [1, 2, 3, 5, 6, 7]
    dealt.clear()
    state.iterate.keep_outputs(np.array([1]))
    while state.schedule.passes < 16 or state.schedule.queue:
        solver.step(state)
    assert dealt == [9, 11, 13, 15]


@pytest.mark.parametrize(
    ("loss", "kernel", "n", "limit"),
    [
        # blocks balanced between rows that must rise and fall, half of the last one kept: else 65
        # n^2, or no end at all
        (HingeLoss(100.0), Kernel("rbf", gamma=0.3), 3000, 8),
        # matrices that are singular to rounding get a ridge: else 19 n^2
        (HingeLoss(1e3), Kernel("rbf", gamma=1e-3), 900, 5),
        # steps on the primal go on until they are back in the box: else 150 n^2
        (SquaredHingeLoss(1e3), KERNELS[1], 900, 10),
        (ODMLoss(1e5, 0.3, 0.1), Kernel("rbf", gamma=0.1), 900, 12),
    ],
    ids=repr,
)
def test_few_kernel_values_are_looked_at(loss, kernel, n, limit):
    X, labels = blobs(n, 1, n_features=5)
    solution = fit(make_problem(X, labels, loss, kernel))
    assert solution.status == "converged"
    assert solution.kernel_evaluations <= limit * n**2
