"""Cholesky factor of the kernel matrix of some rows, reusable after changes of few rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from dimargin import _core
from dimargin.kernels.matrix import KernelMatrix
from dimargin.solvers.loop import Limits
from dimargin.system.arrays import TINY, UNIT, Floats, Indices


class OutOfTimeError(Exception):
    """Raised if a limit is reached before the result is known."""


class TooManyRowsError(Exception):
    """Raised if a factor would take too much memory, after a number of factorizations."""

    def __init__(self, factorizations: int) -> None:
        super().__init__(factorizations)
        self.factorizations = factorizations


class _Changes(NamedTuple):
    """Differences of rows and their entries of D from those of a factor."""

    places: Indices  # Positions of the rows in the factor, or -1.
    added: Indices  # Rows that are missing from the factor.
    removed: Indices  # Positions of rows that are only in the factor.
    changed: NDArray[np.bool_]  # Mask of the rows that have another entry of D in the factor.


class GramFactor:
    """Factor L of ``K_RR + D_R``, which also solves with ``K_AA + D_A`` for rows A close to R.

    Eliminated last (Schur complement) are the rows N of A that are not in R, and, by unit vectors
    E, the rows of R that are not in A or whose entry of D has changed by ``e_i``:

        [K_RR + D_R    K_RN          E        ] [x_R]   [r_R]
        [K_NR          K_NN + D_N    0        ] [x_N] = [r_N],    1 / e_i = 0 for rows that are not in A.
        [E'            0        -diag(1 / e)  ] [ z ]   [ 0 ]

    The solution with L that a changed row takes is kept, because rows often change back and forth.

    Parameters
    ----------
    kernel : KernelMatrix
        Kernel matrix of float64 values.
    rows : ndarray of shape (m,)
        The rows R.
    bend : ndarray of shape (m,)
        Positive entries of the diagonal matrix ``D_R``.
    limits : Limits
    memory : ndarray, optional
        Memory of an earlier factor, for reuse: new memory costs a page fault per 512 numbers.

    Raises
    ------
    OutOfTimeError
        If a limit is reached first.

    Examples
    --------
    >>> from dimargin.kernels.functions import Kernel
    >>> K = KernelMatrix.of(np.arange(9.0)[:, None] ** 2, Kernel("rbf", gamma=0.5)).in_float64()
    >>> factor = GramFactor(K, np.arange(8), np.full(8, 0.1), Limits())
    >>> rows, bend = np.arange(1, 9), np.full(8, 0.1)  # one row removed, one added
    >>> factor.is_near(rows, bend)
    True
    >>> factor.prepare(rows, bend)
    >>> x = factor.solve(np.ones(8))
    >>> bool(np.allclose((K.block(rows, rows) + np.diag(bend)) @ x, 1.0))
    True
    """

    operations_per_call = 4e10  # With so few per call of the core, limits are met within a second.

    def __init__(
        self, kernel: KernelMatrix, rows: Indices, bend: Floats, limits: Limits, memory: Floats | None = None
    ) -> None:
        self._kernel, self._rows, self._limits = kernel, rows, limits
        self._place = np.full(kernel.shape[0], -1)
        self._place[rows] = np.arange(len(rows))
        size = len(rows) ** 2
        self.memory = np.empty(size) if memory is None or len(memory) < size else memory
        self._matrix = self.memory[:size].reshape(len(rows), len(rows))
        self._slot: dict[int, int] = {}  # Index in `_eliminated` of every row that has changed.
        # A new factor costs less once a quarter of the rows have changed. Memory pages are
        # allocated when they are written.
        self._eliminated = np.empty((int(0.25 * len(rows)), len(rows)))
        self._min_bend = 0.0
        while not self._factored(bend):  # Rounding has made the matrix indefinite.
            self._min_bend *= 16.0

    def _factored(self, bend: Floats) -> bool:
        """Compute the matrix and its factor; return whether it was positive definite."""
        n, matrix = len(self._rows), self._matrix
        self._kernel.values(self._rows, self._rows, out=matrix)
        diagonal = matrix.diagonal().copy()
        self._min_bend = max(self._min_bend, n * UNIT * float(diagonal.max(initial=0.0)), TINY)
        self._bend = np.maximum(bend, self._min_bend)
        np.fill_diagonal(matrix, diagonal + self._bend)
        columns = max(1, int(self.operations_per_call / (_core.tile_width * n**2 + 1))) * _core.tile_width
        for first in range(0, n, columns):
            if self._limits.reached:
                raise OutOfTimeError
            if not _core.factor_columns(matrix, first, min(n, first + columns), self._kernel.n_threads):
                return False
        return True

    def _changes(self, rows: Indices, bend: Floats) -> _Changes:
        places = self._place[rows]
        known = places >= 0
        removed = np.ones(len(self._rows), dtype=bool)
        removed[places[known]] = False
        changed = known.copy()
        changed[known] = bend[known] != self._bend[places[known]]
        return _Changes(places, rows[~known], np.flatnonzero(removed), changed)

    def is_near(self, rows: Indices, bend: Floats) -> bool:
        """Return whether a new factor would cost more, because few rows have changed."""
        changes = self._changes(rows, np.maximum(bend, self._min_bend))
        affected = np.concatenate([changes.added, self._rows[changes.removed], rows[changes.changed]])
        fresh = sum(row not in self._slot for row in affected.tolist())
        return len(self._slot) + fresh <= len(self._eliminated)

    def prepare(self, rows: Indices, bend: Floats) -> None:
        """Prepare to solve with the matrix of rows and entries of D for which `is_near` is true.

        Raises
        ------
        OutOfTimeError
            If a limit is reached first.
        """
        bend = np.maximum(bend, self._min_bend)
        places, added, removed, changed = self._changes(rows, bend)
        inner = np.concatenate([removed, places[changed]])
        self._eliminate(added, inner)
        affected = np.concatenate([added, self._rows[inner]])
        slots = np.array([self._slot[row] for row in affected.tolist()], dtype=np.int64)
        self._places, self._known, self._n_added = places, places >= 0, len(added)
        self._products = products = self._eliminated[slots]
        if not len(affected):
            return
        small, first = -(products @ products.T), len(added)
        small[:first, :first] += self._kernel.block(added, added)
        small[range(first), range(first)] += bend[~self._known]
        last = np.arange(first + len(removed), len(affected))
        small[last, last] -= 1.0 / (bend[changed] - self._bend[places[changed]])
        self._small = lu_factor(small, overwrite_a=True, check_finite=False)

    def _eliminate(self, added: Indices, inner: Indices) -> None:
        """Compute ``L^-1 K_Ri`` of added rows and ``L^-1 e_i`` of others, unless they are known."""
        added = added[[row not in self._slot for row in added.tolist()]]
        inner = inner[[row not in self._slot for row in self._rows[inner].tolist()]]
        affected = np.concatenate([added, self._rows[inner]])
        if not len(affected):
            return
        known = len(self._slot)
        right = self._eliminated[known : known + len(affected)]
        right[:] = 0.0
        self._kernel.values(added, self._rows, out=right[: len(added)])
        right[np.arange(len(added), len(right)), inner] = 1.0
        step = max(1, int(self.operations_per_call / (64 * len(self._rows) ** 2))) * 64
        for first in range(0, len(right), step):
            if self._limits.reached:
                raise OutOfTimeError
            self._solve(right[first : first + step], False)
        self._slot |= {row: known + k for k, row in enumerate(affected.tolist())}

    def _solve(self, right: NDArray[Any], transposed: bool) -> None:
        _core.solve_triangle(self._matrix, right, transposed, self._kernel.n_threads)

    def solve(self, right: Floats) -> Floats:
        """Return the solution for the rows given to `prepare`, in their order."""
        inside, found = np.zeros((1, len(self._rows))), np.empty(len(right))
        inside[0, self._places[self._known]] = right[self._known]
        self._solve(inside, False)
        if len(self._products):
            outer = -(self._products @ inside[0])
            outer[: self._n_added] += right[~self._known]
            outer = lu_solve(self._small, outer, overwrite_b=True, check_finite=False)
            inside[0] -= outer @ self._products
            found[~self._known] = outer[: self._n_added]
        self._solve(inside, True)
        found[self._known] = inside[0, self._places[self._known]]
        return found
