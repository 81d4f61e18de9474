"""Cholesky factor of the kernel matrix of some rows, from which near matrices are solved with too."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from dimargin import _core
from dimargin.kernels.matrix import KernelMatrix
from dimargin.solvers.loop import Limits
from dimargin.system.arrays import TINY, UNIT, Floats, Indices

_OPERATIONS_PER_CALL = 4e10  # of one call into the core, so that limits are obeyed within a second
_SOLVES_AT_ONCE = 64
_CHANGED = 0.25  # rows that may change, as a part of those of a factor, before a new one costs less
_RAISED = 16.0  # tried if rounding has spoilt the factor


class OutOfTimeError(Exception):
    """Raised where a limit is reached before a result is there."""


class TooManyRowsError(Exception):
    """Raised where the factor of as many rows as are wanted would take more memory than there is for it.

    Parameters
    ----------
    factorizations : int
        Factors that were computed before.
    """

    def __init__(self, factorizations: int) -> None:
        super().__init__(factorizations)
        self.factorizations = factorizations


class _Changes(NamedTuple):
    """How rows, and their entries of D, differ from those of a factor."""

    places: Indices  # of the rows in the factor, or -1
    come: Indices  # rows that are not in it
    gone: Indices  # places of those that are in it alone
    bent: NDArray[np.bool_]  # which of the rows are in it with another entry


class GramFactor:
    """Factor L of ``K_RR + D_R``, and solutions with ``K_AA + D_A`` for rows A that differ little from R.

    Rows N of A that are not in R, and rows of R that are not in A or whose entry of D has changed, by ``e_i``, are
    eliminated last (Schur complement), the latter by their unit vectors E:

        [K_RR + D_R    K_RN          E        ] [x_R]   [r_R]
        [K_NR          K_NN + D_N    0        ] [x_N] = [r_N],    1 / e_i = 0 for rows that are not in A.
        [E'            0        -diag(1 / e)  ] [ z ]   [ 0 ]

    What was computed of a changed row, one solution with L, is kept: a row may come and go.

    Parameters
    ----------
    kernel : KernelMatrix
        Of float64 values.
    rows : ndarray of shape (m,)
        The rows R.
    bend : ndarray of shape (m,)
        Positive entries of the diagonal matrix ``D_R``.
    limits : Limits
    memory : ndarray, optional
        Memory of an earlier factor, to be used again: new memory costs a page fault for every 512 numbers.

    Raises
    ------
    OutOfTimeError
        If a limit is reached first.

    Examples
    --------
    >>> from dimargin.kernels.functions import Kernel
    >>> K = KernelMatrix.of(np.arange(9.0)[:, None] ** 2, Kernel("rbf", gamma=0.5)).in_float64()
    >>> factor = GramFactor(K, np.arange(8), np.full(8, 0.1), Limits())
    >>> rows, bend = np.arange(1, 9), np.full(8, 0.1)  # one has gone, one has come
    >>> factor.is_near(rows, bend)
    True
    >>> factor.prepare(rows, bend)
    >>> x = factor.solve(np.ones(8))
    >>> bool(np.allclose((K.block(rows, rows) + np.diag(bend)) @ x, 1.0))
    True
    """

    def __init__(
        self, kernel: KernelMatrix, rows: Indices, bend: Floats, limits: Limits, memory: Floats | None = None
    ) -> None:
        self._kernel, self._rows, self._limits = kernel, rows, limits
        self._place = np.full(kernel.shape[0], -1)
        self._place[rows] = np.arange(len(rows))
        size = len(rows) ** 2
        self.memory = np.empty(size) if memory is None or len(memory) < size else memory
        self._matrix = self.memory[:size].reshape(len(rows), len(rows))
        self._slot: dict[int, int] = {}  # of rows that have changed, in `_eliminated`
        self._eliminated = np.empty((int(_CHANGED * len(rows)), len(rows)))  # pages are taken when they are written
        self._least = 0.0  # entry of D
        while not self._factored(bend):
            self._least *= _RAISED

    def _factored(self, bend: Floats) -> bool:
        """Compute the matrix and its factor; return whether it was positive definite."""
        n, matrix = len(self._rows), self._matrix
        self._kernel.values(self._rows, self._rows, out=matrix)
        diagonal = matrix.diagonal().copy()
        self._least = max(self._least, n * UNIT * float(diagonal.max(initial=0.0)), TINY)
        self._bend = np.maximum(bend, self._least)
        np.fill_diagonal(matrix, diagonal + self._bend)
        columns = max(1, int(_OPERATIONS_PER_CALL / (_core.tile_width * n**2 + 1))) * _core.tile_width
        for first in range(0, n, columns):
            if self._limits.reached:
                raise OutOfTimeError
            if not _core.factor_columns(matrix, first, min(n, first + columns), self._kernel.n_threads):
                return False
        return True

    def _changes(self, rows: Indices, bend: Floats) -> _Changes:
        places = self._place[rows]
        known = places >= 0
        gone = np.ones(len(self._rows), dtype=bool)
        gone[places[known]] = False
        bent = known.copy()
        bent[known] = bend[known] != self._bend[places[known]]
        return _Changes(places, rows[~known], np.flatnonzero(gone), bent)

    def is_near(self, rows: Indices, bend: Floats) -> bool:
        """Return whether so few rows have changed that a new factor would cost more."""
        changes = self._changes(rows, np.maximum(bend, self._least))
        changed = np.concatenate([changes.come, self._rows[changes.gone], rows[changes.bent]])
        fresh = sum(row not in self._slot for row in changed.tolist())
        return len(self._slot) + fresh <= len(self._eliminated)

    def prepare(self, rows: Indices, bend: Floats) -> None:
        """Get ready to solve with the matrix of these rows and entries of D, which are near (`is_near`).

        Raises
        ------
        OutOfTimeError
            If a limit is reached first.
        """
        bend = np.maximum(bend, self._least)
        places, come, gone, bent = self._changes(rows, bend)
        inner = np.concatenate([gone, places[bent]])
        self._eliminate(come, inner)
        changed = np.concatenate([come, self._rows[inner]])
        slots = np.array([self._slot[row] for row in changed.tolist()], dtype=np.int64)
        self._places, self._known, self._n_come = places, places >= 0, len(come)
        self._products = products = self._eliminated[slots]
        if not len(changed):
            return
        small, first = -(products @ products.T), len(come)
        small[:first, :first] += self._kernel.block(come, come)
        small[range(first), range(first)] += bend[~self._known]
        last = np.arange(first + len(gone), len(changed))
        small[last, last] -= 1.0 / (bend[bent] - self._bend[places[bent]])
        self._small = lu_factor(small, overwrite_a=True, check_finite=False)

    def _eliminate(self, come: Indices, inner: Indices) -> None:
        """Compute ``L^-1 K_Ri`` for rows that have come and ``L^-1 e_i`` for the others, unless they are known."""
        come = come[[row not in self._slot for row in come.tolist()]]
        inner = inner[[row not in self._slot for row in self._rows[inner].tolist()]]
        changed = np.concatenate([come, self._rows[inner]])
        if not len(changed):
            return
        known = len(self._slot)
        right = self._eliminated[known : known + len(changed)]
        right[:] = 0.0
        self._kernel.values(come, self._rows, out=right[: len(come)])
        right[np.arange(len(come), len(right)), inner] = 1.0
        step = max(1, int(_OPERATIONS_PER_CALL / (_SOLVES_AT_ONCE * len(self._rows) ** 2))) * _SOLVES_AT_ONCE
        for first in range(0, len(right), step):
            if self._limits.reached:
                raise OutOfTimeError
            self._solve(right[first : first + step], False)
        self._slot |= {row: known + k for k, row in enumerate(changed.tolist())}

    def _solve(self, right: NDArray[Any], transposed: bool) -> None:
        _core.solve_triangle(self._matrix, right, transposed, self._kernel.n_threads)

    def solve(self, right: Floats) -> Floats:
        """Return the solution for the rows that the factor was prepared for, in their order."""
        inside, found = np.zeros((1, len(self._rows))), np.empty(len(right))
        inside[0, self._places[self._known]] = right[self._known]
        self._solve(inside, False)
        if len(self._products):
            outer = -(self._products @ inside[0])
            outer[: self._n_come] += right[~self._known]
            outer = lu_solve(self._small, outer, overwrite_b=True, check_finite=False)
            inside[0] -= outer @ self._products
            found[~self._known] = outer[: self._n_come]
        self._solve(inside, True)
        found[self._known] = inside[0, self._places[self._known]]
        return found
