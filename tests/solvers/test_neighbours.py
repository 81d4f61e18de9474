from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.solvers.neighbours import along_neighbours, deal_neighbours


def matrix(X):
    return KernelMatrix.of(X, Kernel("rbf", gamma=0.1))


def deal(X, rows, n_blocks, seed=0, **chunks):
    return deal_neighbours(matrix(X), rows, n_blocks, np.random.default_rng(seed), **chunks)


@given(st.data())
def test_every_row_once_in_blocks_of_like_size(data):
    n = data.draw(st.integers(1, 60))
    rows = np.sort(np.random.default_rng(data.draw(st.integers(0, 9))).permutation(n)[: data.draw(st.integers(1, n))])
    n_blocks = data.draw(st.integers(1, len(rows)))
    X = np.random.default_rng(n).integers(0, 3, (n, 2)).astype(float)
    blocks = deal(X, rows, n_blocks)
    assert len(blocks) == n_blocks
    assert_array_equal(np.sort(np.concatenate(blocks)), rows)
    # a halving errs by less than one row in proportion
    levels = int(np.ceil(np.log2(n_blocks)))
    assert all(abs(len(block) - len(rows) / n_blocks) <= levels + 1 for block in blocks)


def test_rows_of_a_line_fall_into_intervals():
    X = np.random.default_rng(0).random((1000, 1))
    blocks = sorted(deal(X, np.arange(1000), 8), key=lambda block: X[block].min())
    assert all(X[a].max() < X[b].min() for a, b in pairwise(blocks))
    assert {len(block) for block in blocks} == {125}


def test_directions_follow_the_spread_of_the_rows():
    """A column that hardly varies hardly counts, however large its values."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(2000), 1e3 + 1e-3 * rng.random(2000)])
    lengths = [np.ptp(X[block, 0]) for block in deal(X, np.arange(2000), 16)]
    assert max(lengths) < 0.1


def test_sparse_rows_are_dealt_as_dense_ones():
    X = np.where(np.random.default_rng(0).random((700, 30)) < 0.2, 1.0, 0.0) * np.arange(30)
    rows = np.arange(0, 700, 2)
    for dense, sparse in zip(deal(X, rows, 5), deal(sp.csr_array(X), rows, 5, chunk_rows=100), strict=True):
        assert_array_equal(dense, sparse)


@pytest.mark.parametrize("constant", [np.zeros((40, 3)), np.full((40, 3), 7.0)])
def test_equal_rows_are_dealt_at_random(constant):
    first, again, other = (np.concatenate(deal(constant, np.arange(40), 4, seed)) for seed in (0, 0, 1))
    assert_array_equal(first, again)
    assert (first != other).any() and (first != np.arange(40)).any()


def test_rows_along_neighbours_lie_in_small_boxes():
    rng = np.random.default_rng(0)
    X = rng.permutation(np.repeat(rng.random((200, 3)) * [9, 3, 1], 8, axis=0) + 1e-3 * rng.random((1600, 3)))
    for numbers in (2**21, 1500):
        order = along_neighbours(matrix(X), numbers)
        assert_array_equal(np.sort(order), np.arange(1600))
        boxes = X[order].reshape(-1, 8, 3)
        assert np.median(np.ptp(boxes, axis=1), axis=0).max() < 1.5
        assert np.median(np.ptp(X.reshape(-1, 8, 3), axis=1), axis=0).max() > 5
    assert_array_equal(np.sort(along_neighbours(matrix(np.ones((1600, 3))))), np.arange(1600))
