"""Wide sparse rows reduced to the columns that occur, for kernels that sum over common columns.

The compiled core keeps an array over all columns for every thread, and counts columns in 32 bits.
If that array would be large, kernels are computed on narrow rows. Rounding bounds do not change:
the core cuts sums over long rows into parts by columns, and every column stays in its part.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from dimargin import _core
from dimargin.kernels.column_statistics import on_columns, places_of, power_sums, stored_columns
from dimargin.system.arrays import Indices

WIDE = 2**24
"""Number of columns up to which the core's array, of 64 MiB, is cheap, since it is never filled."""


def is_wide(X: Any) -> bool:
    """Return whether rows are sparse and so wide that kernels are computed on narrow rows."""
    return bool(sp.issparse(X) and X.shape[1] > WIDE)


@dataclass(frozen=True, eq=False)
class KeptColumns:
    """Columns of wide rows that are kept, and their places in narrow rows.

    The last column of narrow rows represents all other columns, which rows at prediction may have.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> X = sp.csr_array(([1.0, 2.0], ([0, 1], [7, 10**9])), shape=(2, 10**10))
    >>> kept = KeptColumns.of(X)
    >>> narrow = kept.narrow(X)
    >>> narrow.shape[1], bool(abs(kept.widen(narrow) - X).sum() == 0)
    (24, True)
    """

    columns: Indices  # ascending
    width: int  # number of columns of wide rows

    @classmethod
    def of(cls, X: Any) -> Self:
        """Keep the columns of CSR rows in which something is stored."""
        return cls(stored_columns(X), X.shape[1])

    @cached_property
    def _part_starts(self) -> Indices:
        """Places in `columns` where the core's parts of wide rows begin, and the last one ends."""
        part = _core.columns_a_part(self.width)
        return np.searchsorted(self.columns, part * np.arange(_core.SPARSE_PARTS + 1))

    @cached_property
    def _part_width(self) -> int:
        """Number of columns of a part of narrow rows, the last of them unused."""
        return int(np.diff(self._part_starts).max()) + 1

    def narrow(self, X: Any, order: int | None = None) -> Any:
        """Return wide CSR rows as narrow ones.

        Values in columns that are not kept are dropped or, given an `order`, replaced by their norm
        of this order in the last column, which keeps the distance from rows without these columns.
        """
        places, known = places_of(X.indices, self.columns)
        parts = np.searchsorted(self._part_starts, places, side="right") - 1
        indices = parts * self._part_width + places - self._part_starts[parts]
        shape = X.shape[0], self._part_width * _core.SPARSE_PARTS
        if known.all():
            return sp.csr_array((X.data, indices.astype(np.int32), _with_short_offsets(X.indptr)), shape=shape)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        numbers, rows, indices = X.data[known], rows[known], indices[known]
        if order is not None:
            unknown = on_columns(X, np.setdiff1d(X.indices, self.columns))
            with np.errstate(over="ignore"):
                rest = power_sums(unknown, order) ** (1 / order)
            others = np.flatnonzero(rest)
            numbers, rows = np.concatenate([numbers, rest[others]]), np.concatenate([rows, others])
            indices = np.concatenate([indices, np.full(len(others), shape[1] - 1)])
        found = sp.csr_array((numbers, (rows, indices.astype(np.int32))), shape=shape)
        found.sum_duplicates()
        return found

    def widen(self, X: Any) -> Any:
        """Return narrow CSR rows, whose last column is empty, as wide ones."""
        indices = self.columns[self._part_starts[X.indices // self._part_width] + X.indices % self._part_width]
        return sp.csr_array((X.data, indices, X.indptr.astype(np.int64)), shape=(X.shape[0], self.width))


def _with_short_offsets(offsets: Any) -> Any:
    """Return offsets in 32 bits, if these suffice, since CSR arrays have indices of one type."""
    return offsets.astype(np.int32) if offsets[-1] < 2**31 else offsets


def as_given(X: Any, kept: KeptColumns | None) -> Any:
    """Return rows as the caller passed them: widened if only some of their columns were kept."""
    return X if kept is None else kept.widen(X)


def narrow_pair(X: Any, queries: Any, order: int | None) -> tuple[Any, Any]:
    """Narrow rows and queries to the columns of the rows, if they are wide; see `KeptColumns`."""
    if not is_wide(X):
        return X, queries
    kept = KeptColumns.of(X)
    return kept.narrow(X), kept.narrow(queries, order)
