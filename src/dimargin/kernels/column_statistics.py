"""Statistics of the columns and rows of dense and sparse arrays, in float64 whatever their type."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.system.arrays import Floats, Indices
from dimargin.system.memory import check_memory


def row_chunks(n: int, size: int = 16384) -> Iterator[slice]:
    """Return slices that cut n rows into chunks, to bound the scratch memory of work on each."""
    return (slice(i, min(i + size, n)) for i in range(0, n, size))


def stacked(parts: Sequence[Any]) -> Any:
    """Stack the rows of several arrays or CSR arrays."""
    return sp.vstack(parts, "csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def column_means(X: Any, weights: Floats | None = None) -> Floats:
    """Return the weighted means of the columns of dense rows, in float64."""
    weights = np.ones(len(X)) if weights is None else weights
    means: Floats = column_sums(X, weights) / weights.sum()
    return means


def column_sums(X: Any, weights: Floats) -> Floats:
    """Return the weighted sums of the columns, of shape (n_features,)."""
    if sp.issparse(X):
        return np.asarray(weights @ X)
    with np.errstate(over="ignore", invalid="ignore"):
        parts = (np.einsum("i,ij->j", weights[s], X[s]) for s in row_chunks(len(X)))
        return np.asarray(sum(parts, np.zeros(X.shape[1])))


def _centred(X: Any, center: Floats | None) -> Floats:
    return np.asarray(X, dtype=np.float64) if center is None else np.subtract(X, center, dtype=np.float64)


def _absolute(X: Any) -> Any:
    """Return the absolute values of CSR rows, in float64."""
    return sp.csr_array((np.abs(X.data, dtype=np.float64), X.indices, X.indptr), shape=X.shape)


def power_sums(X: Any, order: int, center: Floats | None = None) -> Floats:
    """Sum ``|x_k - center_k|^order`` over the features of each row, in float64, for order 1 or 2.

    A centre, of shape (n_features,), can be subtracted from dense rows only.
    """
    if sp.issparse(X):
        return _sparse_power_sums(X, order)
    sums = np.empty(len(X))
    for s in row_chunks(len(X)):
        rows = _centred(X[s], center)
        sums[s] = np.abs(rows).sum(axis=1) if order == 1 else np.einsum("ij,ij->i", rows, rows)
    return sums


def _sparse_power_sums(X: Any, order: int) -> Floats:
    sums = np.empty(X.shape[0])
    for part in row_chunks(X.shape[0], max(1, 2**18 * X.shape[0] // max(X.size, 1))):
        offsets = X.indptr[part.start : part.stop + 1]
        stored = slice(offsets[0], offsets[-1])
        values = X.data[stored].astype(np.float64, copy=False)
        powers = np.abs(values) if order == 1 else values * values
        rows = sp.csr_array((powers, X.indices[stored], offsets - offsets[0]), shape=(len(offsets) - 1, X.shape[1]))
        sums[part] = rows.sum(axis=1)
    return sums


def column_reach(X: Any, center: Floats | None = None) -> Floats:
    """Return the largest distance of each column from the centre (default: zero)."""
    if sp.issparse(X):
        return np.asarray(_absolute(X).max(axis=0).toarray(), dtype=np.float64).ravel()
    reach: Floats = np.max([np.abs(_centred(X[s], center)).max(axis=0) for s in row_chunks(len(X))], axis=0)
    return reach


def largest_column(X: Any, center: Floats | None = None) -> int:
    """Return the index of the column that reaches furthest from the centre (default: zero)."""
    X, columns = narrowed(X)
    return int(columns[column_reach(X, center).argmax()])


def narrowed(X: Any) -> tuple[Any, Indices]:
    """Drop the columns in which nothing is stored, if there are more columns than stored values.

    A line of text may name feature 2,000,000,000, and an array over all columns would then have as
    many entries. The second value holds the indices of the kept columns, ascending, at least one.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> rows, columns = narrowed(sp.csr_array(([1.0, 2.0], ([0, 1], [7, 10**9])), shape=(2, 10**9 + 1)))
    >>> rows.toarray().tolist(), columns.tolist()
    ([[1.0, 0.0], [0.0, 2.0]], [7, 1000000000])
    """
    if not sp.issparse(X) or X.shape[1] <= X.nnz:
        return X, np.arange(X.shape[1])
    columns = stored_columns(X)
    return on_columns(X, columns), columns


def stored_columns(X: Any) -> Indices:
    """Return the indices of the columns with stored values in CSR rows, ascending, at least one."""
    columns = np.unique(X.indices).astype(np.int64)
    return columns if len(columns) else np.zeros(1, dtype=np.int64)


def places_of(indices: Any, columns: Indices) -> tuple[Indices, Any]:
    """Return the places of indices among ascending columns, and which indices occur there."""
    places = np.minimum(np.searchsorted(columns, indices), len(columns) - 1)
    return places, columns[places] == indices


def on_columns(X: Any, columns: Indices) -> Any:
    """Restrict CSR rows to the given columns, which must be ascending."""
    places, known = places_of(X.indices, columns)
    data, offsets = X.data, X.indptr
    if not known.all():
        data, places = data[known], places[known]
        offsets = np.concatenate([[0], np.cumsum(known)])[offsets]
    small = np.int32 if max(len(columns), offsets[-1]) < 2**31 else np.int64
    return sp.csr_array((data, places.astype(small), offsets.astype(small)), shape=(X.shape[0], len(columns)))


def rows_on(X: Any, columns: Indices | None) -> Any:
    """Restrict dense or CSR rows to the given columns; None keeps all columns."""
    if columns is None:
        return X
    return on_columns(X, columns) if sp.issparse(X) else X[:, columns]


def with_constant(X: Any, value: float | None) -> Any:
    """Append a column of this value, unless it is None, to dense or CSR rows.

    The result is in float64 if float32 would round the value.

    Examples
    --------
    >>> with_constant(np.array([[1.0, 2.0], [3.0, 4.0]]), 0.5).tolist()
    [[1.0, 2.0, 0.5], [3.0, 4.0, 0.5]]
    """
    if value is None:
        return X
    dtype = X.dtype if X.dtype.type(value) == value else np.dtype(np.float64)
    column = np.full((X.shape[0], 1), value, dtype=dtype)
    if not sp.issparse(X):
        return np.concatenate([X, column], axis=1, dtype=dtype)
    return sp.csr_array(sp.hstack([X, sp.csr_array(column)], format="csr", dtype=dtype))


@dataclass(frozen=True, eq=False)
class SparseColumns:
    """Array over all columns that stores the numbers of a few columns; the others are zero.

    Examples
    --------
    >>> import numpy as np
    >>> weights = SparseColumns(np.array([[0.5, -1.0]]), np.array([1, 4]), 6)
    >>> weights.shape, weights.dense().tolist()
    ((1, 6), [[0.0, 0.5, 0.0, 0.0, -1.0, 0.0]])
    >>> weights.on(np.array([0, 4])).tolist()
    [[0.0, -1.0]]
    """

    values: Floats  # stored numbers, of shape (..., n_stored)
    columns: Indices  # their columns, ascending, of shape (n_stored,)
    width: int  # number of all columns
    is_csr: bool = False  # Whether an estimator shows an array of two dimensions as a CSR array.

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole array."""
        return (*self.values.shape[:-1], self.width)

    def dense(self) -> Floats:
        """Return the whole array, read-only; raises MemoryError if it does not fit into memory."""
        kind = self.values.dtype
        check_memory(kind.itemsize * math.prod(self.shape), None, f"an array of shape {self.shape}")
        found = np.zeros(self.shape, dtype=kind)
        found[..., self.columns] = self.values
        found.flags.writeable = False
        return found

    def csr(self) -> Any:
        """Return the whole array of two dimensions as a CSR array, without stored zeros."""
        found = sp.csr_array(self.values)
        found.eliminate_zeros()
        return sp.csr_array((found.data, self.columns[found.indices], found.indptr), shape=self.shape)

    def on(self, columns: Indices) -> Floats:
        """Return the numbers of these columns, of shape (..., len(columns))."""
        places, known = places_of(columns, self.columns)
        return np.asarray(np.where(known, self.values[..., places], 0.0))
