"""Landmarks in the reproducing kernel Hilbert space (DiODM paper, section 3.2).

The paper chooses ``z_{s+1} = argmax_z SC_s(z)`` with the Schur complement
``SC_s(z) = k(z,z) - k_z' K_s^{-1} k_z`` (its equation 5, where the division sign before the set is
a set difference). This is greedy pivoted Cholesky, without any inverse. For kernels with constant
diagonal the first choice is a tie, broken by the seed. See docs/algorithms.md#landmarks-and-strata.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from dimargin.kernels.column_statistics import row_chunks
from dimargin.kernels.matrix import KernelMatrix
from dimargin.system.arrays import Floats, Indices


def pivoted_cholesky(
    kernel: KernelMatrix,
    candidates: Indices,
    n_landmarks: int,
    rng: np.random.Generator,
    choice: Literal["greedy", "random"] = "greedy",
) -> Indices:
    """Choose landmarks, the rows that span the others best.

    Parameters
    ----------
    kernel : KernelMatrix of shape (n, n)
    candidates : ndarray of shape (m,)
        Rows to choose from.
    n_landmarks : int
        Number of landmarks; fewer are returned if the rank of the kernel is lower.
    rng : numpy.random.Generator
        Breaks the tie of the first landmark, and draws all of them if `choice` is "random".
    choice : {"greedy", "random"}
        Whether the row with the largest Schur complement is chosen, as in the paper (which favours
        outliers), or a row drawn in proportion to it.

    Returns
    -------
    ndarray of shape (at most n_landmarks,)
        Landmarks, in the order in which they were chosen.
    """
    exact = kernel.take(candidates).in_float64()  # In float32, rounding would look like rank.
    every = np.arange(len(candidates))
    residual = exact.diagonal()
    floor = 1e-10 * residual.max()  # Smaller residuals are rounding.
    factor = np.empty((min(n_landmarks, len(candidates)), len(candidates)))
    chosen: list[int] = []
    while len(chosen) < len(factor) and residual.max() > floor:
        if choice == "random":
            pivot = int(rng.choice(len(candidates), p=residual / residual.sum()))
        else:
            tied = np.flatnonzero(residual == residual.max())
            pivot = int(tied[rng.integers(len(tied))])
        rank = len(chosen)
        row = exact.block(every[pivot : pivot + 1], every)[0]
        row -= factor[:rank, pivot] @ factor[:rank]
        factor[rank] = row / np.sqrt(residual[pivot])
        residual = np.maximum(residual - factor[rank] ** 2, 0.0)
        chosen.append(pivot)
    kernel.evaluations += exact.evaluations
    return candidates[chosen]


def nearest_landmark(kernel: KernelMatrix, landmarks: Indices) -> Indices:
    """Return the stratum of each row: the index of the landmark nearest in the kernel's space.

    Without landmarks (if all rows are zero for the kernel) there is one stratum.
    """
    return nearest_point(kernel.diagonal(landmarks), kernel.shape[0], lambda rows: kernel.block(rows, landmarks))


def nearest_point(squares: Floats, n_rows: int, products: Callable[[Indices], Floats]) -> Indices:
    """Return the index of the point nearest to each row; zeros without points.

    It minimises ``<z,z> - 2 <x,z>``, the squared distance less ``<x,x>``. The `squares` are
    ``<z,z>`` of the points z, and `products` returns ``<x,z>`` of some rows with all points.
    """
    nearest = np.zeros(n_rows, dtype=np.int64)
    for some in row_chunks(n_rows if len(squares) else 0, 65536):
        nearest[some] = (squares - 2 * products(np.arange(some.start, some.stop))).argmin(axis=1)
    return nearest
