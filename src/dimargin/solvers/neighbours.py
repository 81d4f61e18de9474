"""Grouping of near neighbours: blocks (cells of a random projection tree), and an order of rows."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from dimargin.kernels.column_statistics import row_chunks
from dimargin.kernels.matrix import KernelMatrix
from dimargin.system.arrays import Floats, Indices


def deal_neighbours(
    kernel: KernelMatrix, rows: Indices, n_blocks: int, rng: np.random.Generator, chunk_rows: int = 65536
) -> list[Indices]:
    """Split rows into blocks of near neighbours, of nearly equal sizes.

    Rows are split recursively at a quantile of their projection on a random direction (random
    projection tree; Dasgupta and Freund, STOC 2008). The cells of a level share one direction, so
    that one pass over the rows computes all projections. Directions are normal with the covariance
    of a sample of rows, which favours those along which rows differ. No kernel value is computed.
    `n_blocks` must not exceed the number of rows, of which `chunk_rows` are copied at a time.

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
    sample = kernel.rows(rng.choice(rows, 256))
    weights = rng.standard_normal((n_levels, sample.shape[0]))
    weights -= weights.mean(axis=1, keepdims=True)  # This centres the rows.
    directions = sample.T @ weights.T
    rows = rng.permutation(rows)  # Ties are broken at random.
    chunks = row_chunks(len(rows), chunk_rows)
    projections = np.concatenate([kernel.rows(rows[some]) @ directions for some in chunks])
    return [rows[indices] for indices in _cells(projections, np.arange(len(rows)), n_blocks, 0)]


def along_neighbours(kernel: KernelMatrix, tree_numbers: int = 2**21) -> Indices:
    """Return all indices in the order of the leaves of k-d trees, near neighbours together.

    A tree holds at most about `tree_numbers` numbers, by default 16 MiB: a tree of all rows of
    covtype lets the kernel leave out little more than trees of 38,000 rows each.

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
    parts = np.array_split(np.arange(n), min(n, 1 + numbers // tree_numbers))
    return np.concatenate([part[_leaves(np.asarray(kernel.rows(part), dtype=np.float64))] for part in parts])


def _leaves(rows: Floats) -> Indices:
    """Return indices in the order of the leaves of a k-d tree.

    Cells are cut in the middle of their widest side, not at the median: cells of equal numbers of
    rows would mix distant rows, so that fewer kernel values could be left out.
    """
    # A leaf has the rows of one tile of kernel values.
    tree = cKDTree(rows, leafsize=8, compact_nodes=False, balanced_tree=False)
    return np.asarray(tree.indices, dtype=np.int64)


def _cells(projections: Floats, indices: Indices, n_cells: int, level: int) -> list[Indices]:
    if n_cells == 1:
        return [indices]
    left = n_cells // 2
    cut = len(indices) * left // n_cells
    order = np.argpartition(projections[indices, level], cut)
    below, above = indices[order[:cut]], indices[order[cut:]]
    return _cells(projections, below, left, level + 1) + _cells(projections, above, n_cells - left, level + 1)
