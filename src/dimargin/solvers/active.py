"""Shrinking: only active rows' margins are kept up to date while others rest, until a gap is to be certified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin import _core
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.system.arrays import Floats, Indices

_ROWS_AT_ONCE = 64


class RowCache:
    """Cache of the kernel rows of coefficients that move, over the columns of the active rows.

    Where few rows move, and often, remembering beats computing. Rows are stored until the memory is full, and stay
    there, because passes visit rows in turn: whatever would be thrown out for a new row is needed again just as soon.
    The columns are the active rows, and `memory` the bytes, at most.
    """

    def __init__(self, kernel: KernelMatrix, columns: Indices, memory: int) -> None:
        dtype = np.dtype(kernel.transform.dtype)
        self._kernel = kernel
        # pages are taken when they are written
        self._memory = np.empty(min(memory // dtype.itemsize, kernel.shape[0] * len(columns)), dtype=dtype)
        self._slot = np.full(kernel.shape[0], -1)
        self._set_columns(columns)

    @classmethod
    def of_whole_rows(cls, problem: DualProblem, memory: int) -> RowCache | None:
        """Return a cache of whole kernel rows where these pay and there is memory for those of all rows, else None.

        They pay where few coefficients move, which are never negative then, and kernel values are very expensive: with
        all margins up to date no value is computed twice, as those of resting rows are whenever they wake.
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
        """Change the columns; stored rows that are `wanted` (of shape (n,)) are kept, unless columns become more."""
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
        for first in range(0, len(rows), _ROWS_AT_ONCE):  # in place: a row never moves behind its old place
            batch = slice(first, first + _ROWS_AT_ONCE)
            values = np.empty((len(rows[batch]), len(columns)), dtype=self._memory.dtype)
            values[:, kept_to] = old[slots[batch]][:, kept_from]
            values[:, fresh_to] = self._kernel.values(rows[batch], fresh)
            self._values[first : first + len(values)] = values
        self._slot[rows] = np.arange(len(rows))
        self._used = len(rows)

    def multiply(self, rows: Indices, coefficients: Floats) -> Floats:
        """Return ``sum_j coefficients[q, j] k(x_rows[j], x_c)`` for the columns c, of shape (n_outputs, len(columns)).

        Rows that are not stored yet are computed in one batch and stored as far as there is room.
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
        """Return the kernel values between some rows, which are looked up where either is stored: as a whole."""
        slots = self._slot[rows]
        out = np.empty((len(rows), len(rows)), dtype=self._memory.dtype)
        _core.look_up_rows(self._values, slots, rows, out)
        fresh = np.flatnonzero(slots < 0)
        out[np.ix_(fresh, fresh)] = self._kernel.values(rows[fresh], rows[fresh])
        return out


@dataclass
class ActiveRows:
    """Active rows of a problem, while the margins of its other rows belong to earlier coefficients."""

    rows: Indices
    problem: DualProblem  # of these alone: while the others' coefficients are zero its dual objective is the whole one
    reference: Floats  # coefficients to which the margins of the resting rows belong, of shape (n_outputs, n)
    cache: RowCache

    @classmethod
    def choose(
        cls, problem: DualProblem, dual: Floats, margins: Floats, distance: float, cache: RowCache | int
    ) -> ActiveRows | None:
        """Choose all rows but those whose coefficients stay at zero, by `distance` in units of the slope at zero.

        Returns None if that would be nearly all rows, or none. `cache` is the cache of the last active rows, or the
        bytes of a first one.
        """
        slope = problem.conjugate.slope_right
        shifted = problem.shifted(margins, problem.intercepts(margins))
        sure = (dual == 0) & (shifted + slope > distance * np.abs(slope))
        rows = np.flatnonzero(~sure.all(axis=0))
        if len(rows) > 0.9 * problem.n_rows or not len(rows):
            return None
        return cls.of(problem, dual, rows, cache)

    @classmethod
    def of(cls, problem: DualProblem, dual: Floats, rows: Indices, cache: RowCache | int) -> ActiveRows:
        """Return the given rows as the active ones; `cache` is as in `choose`."""
        if isinstance(cache, int):
            cache = RowCache(problem.kernel, rows, cache)
        else:
            cache.move(rows, (dual != 0).any(axis=0))
        return cls(rows, problem.restrict(rows, problem.mass), dual.copy(), cache)

    def gap(self, dual: Floats, margins: Floats) -> float:
        """Return the relative gap of the worst output over the active rows alone."""
        return self.problem.objectives(dual[:, self.rows], margins[:, self.rows]).worst_gap

    def add(self, margins: Floats, moved: Indices, change: Floats) -> None:
        """Add the effect of changes of signed coefficients to the margins of the active rows."""
        margins[:, self.rows] += self.problem.labels * self.cache.multiply(moved, change)

    def evaluations_to_unshrink(self, dual: Floats) -> int:
        """Return the number of kernel values that `unshrink` would compute, if none are left out."""
        resting = dual.shape[1] - len(self.rows)
        return int(np.count_nonzero((dual != self.reference).any(axis=0))) * int(resting)

    def unshrink(self, problem: DualProblem, dual: Floats, margins: Floats) -> None:
        """Bring the margins of the resting rows up to date."""
        resting = np.setdiff1d(np.arange(problem.n_rows), self.rows, assume_unique=True)
        moved = np.flatnonzero((dual != self.reference).any(axis=0))
        change = (problem.labels * (dual - self.reference))[:, moved]
        margins[:, resting] += problem.labels[:, resting] * problem.kernel.multiply(moved, change, resting)
