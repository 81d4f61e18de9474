"""Grouping of near neighbours: blocks of them (cells of a random projection tree), and an order of all rows."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from dimargin.kernels.column_statistics import row_chunks
from dimargin.kernels.matrix import KernelMatrix
from dimargin.system.arrays import Floats, Indices

_SAMPLE = 256  # rows that directions are drawn from
_LEAF = 8  # rows of a tile
_NUMBERS_OF_TREE = 2**21  # 16 MiB; a tree of all of covtype leaves out little more than trees of 38,000 rows each
_ROWS_AT_ONCE = 65536  # copied for a projection


def deal_neighbours(kernel: KernelMatrix, rows: Indices, n_blocks: int, rng: np.random.Generator) -> list[Indices]:
    """Deal rows into blocks of near neighbours whose sizes differ by little.

    Rows are halved again and again at a quantile of their projection on a random direction, one direction a level (a
    random projection tree; Dasgupta and Freund, STOC 2008, with a direction shared by the cells of a
    level, so that one pass over the rows computes all projections). Directions are normal with the covariance of a
    sample of rows: those along which rows differ come up most. No kernel value is computed. Every row is in one of the
    `n_blocks` blocks, which are at most as many as the rows.

    Examples
    --------
    >>> from dimargin.kernels.functions import Kernel
    >>> X = np.array([[0.0], [9.0], [0.1], [9.1]])
    >>> K = KernelMatrix.of(X, Kernel("rbf", gamma=1.0))
    >>> blocks = deal_neighbours(K, np.arange(4), 2, np.random.default_rng(0))
    >>> sorted(sorted(block.tolist()) for block in blocks)
    [[0, 2], [1, 3]]
    """
    n_levels = int(np.ceil(np.log2(n_blocks)))
    sample = kernel.rows(rng.choice(rows, _SAMPLE))
    weights = rng.standard_normal((n_levels, _SAMPLE))
    weights -= weights.mean(axis=1, keepdims=True)  # of rows minus their mean
    directions = sample.T @ weights.T
    # in random order, so that ties fall at random
    rows = rng.permutation(rows)
    chunks = row_chunks(len(rows), _ROWS_AT_ONCE)
    projections = np.concatenate([kernel.rows(rows[some]) @ directions for some in chunks])
    return [rows[indices] for indices in _cells(projections, np.arange(len(rows)), n_blocks, 0)]


def along_neighbours(kernel: KernelMatrix) -> Indices:
    """Return indices of all training rows, leaf after leaf of k-d trees, so that neighbours sit side by side.

    Examples
    --------
    >>> from dimargin.kernels.functions import Kernel
    >>> X = np.r_[np.zeros((40, 1)), np.full((40, 1), 9.0)][np.arange(80).reshape(2, 40).T.ravel()]  # 0, 9, 0, 9, ...
    >>> K = KernelMatrix.of(X, Kernel("rbf", gamma=1.0))
    >>> order = along_neighbours(K)
    >>> bool((X[order[:40]] == X[order[0]]).all())
    True
    """
    n = kernel.shape[0]
    numbers = n * kernel.rows(np.arange(1)).shape[1]
    parts = np.array_split(np.arange(n), min(n, 1 + numbers // _NUMBERS_OF_TREE))
    return np.concatenate([part[_leaves(np.asarray(kernel.rows(part), dtype=np.float64))] for part in parts])


def _leaves(rows: Floats) -> Indices:
    """Return indices in the order of the leaves of a k-d tree.

    Cells are cut in the middle of their widest side, not at the median, because cells of equal size mix distant rows,
    so that fewer kernel values can be left out.
    """
    tree = cKDTree(rows, leafsize=_LEAF, compact_nodes=False, balanced_tree=False)
    return np.asarray(tree.indices, dtype=np.int64)


def _cells(projections: Floats, indices: Indices, n_cells: int, level: int) -> list[Indices]:
    if n_cells == 1:
        return [indices]
    left = n_cells // 2
    cut = len(indices) * left // n_cells
    order = np.argpartition(projections[indices, level], cut)
    below, above = indices[order[:cut]], indices[order[cut:]]
    return _cells(projections, below, left, level + 1) + _cells(projections, above, n_cells - left, level + 1)
