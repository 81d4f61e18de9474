"""Shrinking: only the margins of active rows are updated until a gap is to be certified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin import _core
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.system.arrays import Floats, Indices


class RowCache:
    """Cache of the kernel rows of coefficients that move, over the columns of the active rows.

    Rows are stored until `memory` bytes are used, and never evicted: passes visit all rows in turn,
    so that an evicted row would be needed again as soon as the new one.
    """

    def __init__(self, kernel: KernelMatrix, columns: Indices, memory: int) -> None:
        dtype = np.dtype(kernel.transform.dtype)
        self._kernel = kernel
        # Memory pages are allocated when they are written.
        self._memory = np.empty(min(memory // dtype.itemsize, kernel.shape[0] * len(columns)), dtype=dtype)
        self._slot = np.full(kernel.shape[0], -1)
        self._set_columns(columns)

    @classmethod
    def of_whole_rows(cls, problem: DualProblem, memory: int) -> RowCache | None:
        """Return a cache of full kernel rows if it pays and all rows fit into memory, else None.

        It pays where kernel values are very expensive and few coefficients move, as with losses
        whose coefficients are nonnegative. No value is computed twice, while unshrinking recomputes
        values.
        """
        kernel, n = problem.kernel, problem.n_rows
        fits = np.dtype(kernel.transform.dtype).itemsize * n * n <= memory
        if not (problem.loss.selection == "greedy" and kernel.very_expensive and fits):
            return None
        return cls(kernel, np.arange(n), memory)

    def _set_columns(self, columns: Indices) -> None:
        self._columns, width = columns, len(columns)
        capacity = len(self._memory) // width
        self._values = self._memory[: capacity * width].reshape(capacity, width)
        self._used = 0

    def move(self, columns: Indices, wanted: NDArray[np.bool_]) -> None:
        """Change the columns, and keep stored rows that are `wanted`, unless columns are added."""
        old, old_columns = self._values, self._columns
        rows = np.flatnonzero((self._slot >= 0) & wanted)
        rows = rows[np.argsort(self._slot[rows])]
        slots = self._slot[rows]
        self._slot[:] = -1
        self._set_columns(columns)
        if len(columns) > len(old_columns):
            return
        _, kept_from, kept_to = np.intersect1d(old_columns, columns, assume_unique=True, return_indices=True)
        fresh = np.setdiff1d(columns, old_columns, assume_unique=True)
        fresh_to = np.searchsorted(columns, fresh)
        for first in range(0, len(rows), 64):  # A row never moves to a later place.
            batch = slice(first, first + 64)
            values = np.empty((len(rows[batch]), len(columns)), dtype=self._memory.dtype)
            values[:, kept_to] = old[slots[batch]][:, kept_from]
            values[:, fresh_to] = self._kernel.values(rows[batch], fresh)
            self._values[first : first + len(values)] = values
        self._slot[rows] = np.arange(len(rows))
        self._used = len(rows)

    def multiply(self, rows: Indices, coefficients: Floats) -> Floats:
        """Return ``sum_j coefficients[q, j] k(x_rows[j], x_c)`` for outputs q and columns c.

        Rows that are not stored yet are computed in one batch, and stored if there is room.
        """
        fresh = rows[self._slot[rows] < 0][: len(self._values) - self._used]
        if len(fresh):
            end = self._used + len(fresh)
            self._kernel.values(fresh, self._columns, out=self._values[self._used : end])
            self._slot[fresh] = np.arange(self._used, end)
            self._used = end
        slots = self._slot[rows]
        stored = slots >= 0
        out = self._kernel.combine(self._values, slots[stored], coefficients[:, stored])
        if not stored.all():
            out += self._kernel.multiply(rows[~stored], coefficients[:, ~stored], self._columns)
        return out

    def among(self, rows: Indices) -> NDArray[Any]:
        """Return kernel values between rows, looked up where either row is stored in full."""
        slots = self._slot[rows]
        out = np.empty((len(rows), len(rows)), dtype=self._memory.dtype)
        _core.look_up_rows(self._values, slots, rows, out)
        fresh = np.flatnonzero(slots < 0)
        out[np.ix_(fresh, fresh)] = self._kernel.values(rows[fresh], rows[fresh])
        return out


@dataclass
class ActiveRows:
    """Active rows of a problem, while the margins of shrunk rows belong to earlier coefficients."""

    rows: Indices
    problem: DualProblem
    """Problem of the active rows. Its dual objective is exact while other coefficients are zero."""
    reference: Floats  # Coefficients of the margins of shrunk rows, of shape (n_outputs, n).
    cache: RowCache

    @classmethod
    def choose(
        cls, problem: DualProblem, dual: Floats, margins: Floats, distance: float, cache: RowCache | int
    ) -> ActiveRows | None:
        """Choose all rows but those whose coefficients are likely to stay at zero.

        These have a margin beyond the kink by `distance` times the slope at zero, or between the kinks
        of either side by as much times half the step of the slope. Returns None if
        nearly all rows, or none, would be active. `cache` is the last cache, or the bytes of a
        first one.
        """
        slope, left, lower = (getattr(problem.conjugate, name) for name in ("slope_right", "slope_left", "lower"))
        shifted = problem.shifted(margins, problem.intercepts(margins))
        width = np.where(lower < 0, 0.5 * (slope - left), np.abs(slope))
        bound = (dual == 0) & (shifted + slope > distance * width)
        bound &= (lower == 0) | (-(shifted + left) > distance * width)
        rows = np.flatnonzero(~bound.all(axis=0))
        if len(rows) > 0.9 * problem.n_rows or not len(rows):
            return None
        return cls.of(problem, dual, rows, cache)

    @classmethod
    def of(cls, problem: DualProblem, dual: Floats, rows: Indices, cache: RowCache | int) -> ActiveRows:
        """Make the given rows active; `cache` is that of `choose`."""
        if isinstance(cache, int):
            cache = RowCache(problem.kernel, rows, cache)
        else:
            cache.move(rows, (dual != 0).any(axis=0))
        return cls(rows, problem.restrict(rows, problem.mass), dual.copy(), cache)

    def gap(self, dual: Floats, margins: Floats) -> float:
        """Return the relative gap over the active rows, of the worst output."""
        return self.problem.objectives(dual[:, self.rows], margins[:, self.rows]).worst_gap

    def add(self, margins: Floats, moved: Indices, change: Floats) -> None:
        """Add the effect of changes of signed coefficients to the margins of the active rows."""
        margins[:, self.rows] += self.problem.labels * self.cache.multiply(moved, change)

    def evaluations_to_unshrink(self, dual: Floats) -> int:
        """Return the number of kernel values that `unshrink` would compute at most."""
        n_shrunk = dual.shape[1] - len(self.rows)
        return int(np.count_nonzero((dual != self.reference).any(axis=0))) * int(n_shrunk)

    def unshrink(self, problem: DualProblem, dual: Floats, margins: Floats) -> None:
        """Bring the margins of shrunk rows up to date."""
        shrunk = np.setdiff1d(np.arange(problem.n_rows), self.rows, assume_unique=True)
        moved = np.flatnonzero((dual != self.reference).any(axis=0))
        change = (problem.labels * (dual - self.reference))[:, moved]
        margins[:, shrunk] += problem.labels[:, shrunk] * problem.kernel.multiply(moved, change, shrunk)
