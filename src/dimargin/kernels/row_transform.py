"""Preparation of rows, so that float32 tiles compute accurate kernel values.

Training column means are subtracted in float64, which changes no distance, and ``gamma`` is
multiplied into the rows. `RowTransform` then chooses the cheapest form (float32 products, float32
differences, float64) whose error bound keeps kernel values within 1e-5 of float64, or raises an
error that names the column that makes this impossible. Errors of unbounded kernels are relative to
the largest value that rows of such size could have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin import _core
from dimargin.kernels.column_statistics import column_means, largest_column, power_sums, row_chunks, stacked
from dimargin.kernels.functions import Kernel
from dimargin.kernels.wide_rows import KeptColumns, as_given
from dimargin.system.arrays import UNIT, Floats

Rows = _core.Rows32 | _core.Rows64

_MAX_VALUE_ERROR = 1e-5  # The error of kernel values must not exceed this bound.


def _longest_sum(X: Any) -> int:
    """Return the longest chain of additions in a kernel value of these rows (see cpp/tile.hpp)."""
    if sp.issparse(X):
        return int(_sparse_sums(X).max(initial=0))
    return _core.longest_sum(X.shape[1])


def _sparse_sums(X: Any) -> NDArray[np.int64]:
    """Bound the chain of additions of each sparse row; the longer one bounds a kernel value's."""
    lengths: NDArray[np.int64] = np.diff(X.indptr).astype(np.int64)
    long = np.flatnonzero(lengths > _core.LONGEST_CHAIN)
    if len(long):  # Two long rows are summed in parts; other sums are as long as the shorter row.
        rows, parts = X[long], _core.SPARSE_PARTS
        which = np.repeat(parts * np.arange(len(long)), lengths[long]) + rows.indices // _core.columns_a_part(
            X.shape[1]
        )
        counts = np.bincount(which, minlength=parts * len(long)).reshape(-1, parts)
        lengths[long] = counts.max(axis=1) + parts - 1
    return lengths


@dataclass(frozen=True)
class Extent:
    """Largest norms and longest sums of rows, which each shard can compute on its own."""

    size: float  # largest norm about the kernel's centre, in the kernel's order and before gamma
    spread: float  # largest such norm about the means; sparse rows have both about zero
    longest_sum: int  # longest chain of additions in a kernel value

    @classmethod
    def of(cls, X: Any, kernel: Kernel, means: Floats | None) -> Extent:
        """Return the extent of rows; `means` are those of all dense rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            size = _largest_norm(X, kernel, means if kernel.stationary else None)
            spread = size if kernel.stationary or means is None else _largest_norm(X, kernel, means)
        return cls(size, spread, _longest_sum(X))

    @staticmethod
    def joined(parts: Sequence[Extent]) -> Extent:
        """Return the joint extent of the rows of several shards."""
        sizes, spreads, sums = zip(*((part.size, part.spread, part.longest_sum) for part in parts), strict=True)
        return Extent(max(sizes), max(spreads), max(sums))


@dataclass(frozen=True)
class RowTransform:
    """Preparation of rows for the tile, fitted to training rows and applied to any rows."""

    kernel: Kernel
    # Point subtracted in float64; None if that would change the kernel (linear, poly) or sparsity.
    center: Floats | None
    dtype: type[np.float32] | type[np.float64]  # precision of the tile
    difference: bool  # whether ``rbf`` sums squared differences instead of using norms and products
    size: float  # largest norm of a prepared training row
    # Constant added to every kernel value; an offset of one regularises an intercept.
    offset: float = 0.0

    @classmethod
    def fit(
        cls, X: Any, kernel: Kernel, weights: Floats | None = None, columns: KeptColumns | None = None
    ) -> RowTransform:
        """Choose centre and precision for training rows; the centre counts rows by weight.

        `columns` are those that X has kept of wider rows, for messages.

        Raises
        ------
        ValueError
            If not even float64 is accurate enough; the message names the column.
        """
        means = None if sp.issparse(X) else column_means(X, weights)
        center = means if kernel.stationary else None
        extent = Extent.of(X, kernel, means)
        return cls.for_extent(kernel, means, extent, lambda: largest_column(as_given(X, columns), center))

    @classmethod
    def for_extent(
        cls, kernel: Kernel, means: Floats | None, extent: Extent, furthest: Callable[[], int]
    ) -> RowTransform:
        """Choose centre and precision for training rows from their means and their `Extent`.

        Parameters
        ----------
        kernel : Kernel
        means : ndarray of shape (n_features,) or None
            Weighted means of dense rows.
        extent : Extent
            Extent of the rows about these means.
        furthest : callable
            Returns the column that reaches furthest from the centre, for a message.

        Raises
        ------
        ValueError
            As in `fit`.
        """
        center = means if kernel.stationary else None
        size, spread = extent.size * kernel.row_scale, extent.spread * kernel.row_scale
        exact = cls(kernel, center, np.float64, False, size).in_float64()
        exact._check_size(size, extent.longest_sum, furthest)
        # If all rows are far from the origin, the digits of float32 go to the offset that they
        # share.
        if size <= 30.0 * spread and exact._fits_float32(size):
            return exact._single(extent.longest_sum) or exact
        return exact

    @classmethod
    def for_bounds(cls, kernel: Kernel, means: Floats | None, least: Extent, most: Extent) -> RowTransform | None:
        """Choose as `for_extent` from two bounds of the extent; None if it has to be measured.

        If both bounds choose the same form, so does every extent between them, since larger rows
        never make a form more accurate. The transform has the upper bound as its size, so its error
        bounds hold for the rows.
        """
        try:
            above, below = (cls.for_extent(kernel, means, extent, lambda: 0) for extent in (most, least))
        except ValueError:
            return None
        return above if (above.dtype, above.difference) == (below.dtype, below.difference) else None

    def for_queries(self, X: Any) -> RowTransform:
        """Return this transform, or the one in float64 if any row at prediction needs it.

        Raises ValueError, which names the column, if kernel values would overflow.
        """
        return self.in_float64() if self.outgrown(X).any() else self

    def outgrown(self, X: Any) -> NDArray[np.bool_]:
        """Return which rows at prediction need float64, one by one; raise as `for_queries` does."""
        none = np.zeros(X.shape[0], dtype=bool)
        longest = _longest_sum(X)
        if self.kernel.stationary:
            # Distant rows have kernel values of zero, but sums longer than in training err more.
            if self.center is not None or self._error_bound(longest) <= _MAX_VALUE_ERROR:
                return none
            return self._has_long_sums(X)
        with np.errstate(over="ignore"):
            size = _largest_norm(X, self.kernel, None) * self.kernel.row_scale
        self._check_size(size, longest, lambda: largest_column(X, self.center))
        if self._error_bound(longest) <= _MAX_VALUE_ERROR and self._fits_float32(size):
            return none
        norms = power_sums(X, 2, None) ** 0.5 * self.kernel.row_scale
        far: NDArray[np.bool_] = np.array([not self._fits_float32(float(norm)) for norm in norms], dtype=bool)
        far |= self._has_long_sums(X)
        return far

    def _has_long_sums(self, X: Any) -> NDArray[np.bool_]:
        """Return which rows have sums too long for the largest accepted error of kernel values."""
        lengths = _sparse_sums(X) if sp.issparse(X) else np.full(X.shape[0], _longest_sum(X))
        present, indices = np.unique(lengths, return_inverse=True)
        long = np.array([self._error_bound(int(length)) > _MAX_VALUE_ERROR for length in present])
        return np.asarray(long[indices])

    def in_float32(self, *parts: Any) -> RowTransform | None:
        """Return the float32 form of a stationary kernel that suits these rows, if there is one."""
        return self._single(max(map(_longest_sum, parts))) if self.kernel.stationary else None

    def _single(self, longest_sum: int) -> RowTransform | None:
        """Return the first float32 form, of products or of differences, that is accurate enough."""
        single = replace(self, dtype=np.float32, difference=False)
        forms = [single, replace(single, difference=True)] if self.difference else [single]
        return next((form for form in forms if form._error_bound(longest_sum) <= _MAX_VALUE_ERROR), None)

    def in_float64(self) -> RowTransform:
        """Return the same preparation without rounding to float32."""
        return replace(self, dtype=np.float64, difference=self.center is not None and self.kernel.order == 2)

    def value_rounding(self, X: Any) -> float:
        """Bound the rounding of kernel values with training rows, relative to their `sizes`."""
        return self._error_bound(_longest_sum(X))

    def sizes(self, X: Any) -> Floats:
        """Return the sizes of rows; the rounding of a kernel value is relative to their product.

        A size is the root of the sum of the absolute terms of k(x, x): one for stationary kernels,
        k(x, x) with ``|coef0|`` for linear and poly, plus the absolute offset.
        """
        return np.asarray((self.kernel.with_itself(X, absolute=True) + abs(self.offset)) ** 0.5)

    def _error_bound(self, longest_sum: int) -> float:
        """Bound the rounding errors of kernel values, to first order.

        Entries err by a ``unit`` of themselves, sums by ``unit * longest_sum`` of their terms.
        """
        unit = 2.0**-24 if self.dtype is np.float32 else UNIT
        if not self.kernel.stationary:
            return unit * self.kernel.polynomial[2] * (4 + 0.5 * longest_sum)
        exponent = self.kernel.exponent(self.size)  # This is a^2 for the longest training row.
        if self.difference:  # The bound uses 4 a s exp(-s^2) <= 1.72 a and s^2 exp(-s^2) <= 0.37.
            return unit * (1.72 * math.sqrt(exponent) + 0.37 * longest_sum + 3)
        if self.kernel.order == 1 and self.center is not None:
            return unit * (2 * exponent + 0.37 * longest_sum + 3)
        return unit * (exponent + 0.25) * (5 + 1.1 * longest_sum)  # Norms and sum may cancel.

    def _magnitude(self, norm: float) -> float:
        """Return log10 of a row's largest kernel value with training rows, for linear and poly."""
        _, constant, degree = self.kernel.polynomial
        return degree * math.log10(max(norm * self.size + abs(constant), 1e-300))

    def _fits_float32(self, norm: float) -> bool:
        """Return whether kernel values of a row of this norm fit into the range of float32."""
        if self.kernel.stationary:
            return True  # The error bound is stricter.
        return norm < 1e36 and self._magnitude(self.size) > -25 and self._magnitude(norm) < 30

    def _check_size(self, norm: float, longest_sum: int, furthest: Callable[[], int]) -> None:
        """Raise ValueError, naming the furthest column, if values overflow or drown in rounding."""
        if math.isfinite(norm):
            if self.kernel.stationary:
                sound = self.size < 1e150 and self._error_bound(longest_sum) <= _MAX_VALUE_ERROR
            else:
                sound = self._magnitude(norm) < 100  # Squares of kernel values must be finite too.
            if sound:
                return
        detail = f" with gamma={self.kernel.gamma:.3g}" if self.kernel.name != "linear" else ""
        with np.errstate(over="ignore", invalid="ignore"):
            column = furthest()
        raise ValueError(
            f"column {column} of X is too large for the {self.kernel.name} kernel{detail}: kernel values "
            "would overflow or drown in rounding. Scale the columns first, to [0, 1] for example."
        )

    def apply(self, X: Any) -> Rows:
        """Prepare rows of shape (n, n_features) for the compiled core."""
        if sp.issparse(X):
            rows = self._apply_sparse(X)
        else:
            dense = np.empty(X.shape, dtype=self.dtype)
            center = 0.0 if self.center is None else self.center
            with np.errstate(over="ignore"):
                for s in row_chunks(len(X)):
                    exact = dense[s] if self.dtype is np.float64 else None
                    dense[s] = self._scaled(np.subtract(X[s], center, out=exact, dtype=np.float64))
            rows = self._make(dense)
        absolute = self.kernel.order == 1
        if self.kernel.stationary and (sp.issparse(X) or not absolute):
            rows.compute_norms(absolute)
        return rows

    def _apply_sparse(self, X: Any) -> Rows:
        limit = np.iinfo(np.int32).max
        if X.shape[1] > limit:
            raise ValueError(f"X has {X.shape[1]} columns; sparse rows may have at most {limit}")
        if not X.has_canonical_format:  # The tile needs ascending columns without duplicates.
            X = X.copy()
            X.sum_duplicates()
        with np.errstate(over="ignore"):
            data = self._scaled(X.data.astype(np.float64)).astype(self.dtype)
        return self._make(data, X.indptr.astype(np.int64), X.indices.astype(np.int32), X.shape[1])

    def _make(self, *arrays: Any) -> Rows:
        return _core.Rows32(*arrays) if self.dtype is np.float32 else _core.Rows64(*arrays)

    def _scaled(self, values: Floats) -> Floats:
        """Scale values in place; for stationary kernels, clip them so that squares are finite."""
        values *= self.kernel.row_scale
        # No training row reaches these limits, and infinite squares would lead to nan.
        limit = (1e15 if self.dtype is np.float32 else 1e100) if self.kernel.stationary else np.inf
        return np.clip(values, -limit, limit, out=values)


def _largest_norm(X: Any, kernel: Kernel, center: Floats | None) -> float:
    """Return the largest norm of a row, before gamma."""
    return float(power_sums(X, kernel.order, center).max(initial=0.0) ** (1 / kernel.order))


def transposed(X: Any) -> Any:
    """Return the transpose of CSR rows, without a copy.

    SciPy's own calls a constructor that copies slices of less than half of an array.
    """
    columns = sp.csc_array((X.shape[1], X.shape[0]), dtype=X.dtype)
    columns.data, columns.indices, columns.indptr = X.data, X.indices, X.indptr
    return columns


@dataclass(frozen=True)
class StoredRows:
    """Rows in memory, which shards may share."""

    X: Any  # an array or CSR array of float32 or float64, with sorted columns
    # The rows that this is a slice of, if any, with the slice's start and stop.
    span: tuple[StoredRows, int, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return only the rows, which another process prepares for its own core."""
        return {"X": self.X, "span": None}

    @cached_property
    def core(self) -> _core.Rows32 | _core.Rows64:
        """Rows for the compiled core, which share these arrays."""
        make = cast("type[_core.Rows64]", _core.Rows32 if self.X.dtype == np.float32 else _core.Rows64)
        if sp.issparse(self.X):
            offsets, columns = self.X.indptr.astype(np.int64), self.X.indices.astype(np.int32, copy=False)
            return make(self.X.data, offsets, columns, self.X.shape[1])
        return make(np.ascontiguousarray(self.X))

    def between(self, first: int, last: int) -> StoredRows:
        """Return the rows from `first` to `last`, the latter excluded, without a copy."""
        span = self, first, last
        if not sp.issparse(self.X):
            return StoredRows(self.X[first:last], span)
        offsets = self.X.indptr[first : last + 1]
        stored = slice(offsets[0], offsets[-1])
        part = sp.csr_array((last - first, self.X.shape[1]), dtype=self.X.dtype)
        # Attributes are set because the constructor copies slices of less than half of an array.
        part.data, part.indices, part.indptr = self.X.data[stored], self.X.indices[stored], offsets - offsets[0]
        return StoredRows(part, span)

    @staticmethod
    def joined(parts: Sequence[StoredRows]) -> StoredRows:
        """Concatenate rows, without a copy if they are consecutive slices of the same rows."""
        if len(parts) == 1:
            return parts[0]
        spans = [part.span for part in parts if part.span is not None]
        if len(spans) == len(parts) and all(a[0] is b[0] and a[2] == b[1] for a, b in pairwise(spans)):
            (whole, first, _), (_, _, last) = spans[0], spans[-1]
            return whole.between(first, last)
        return StoredRows(stacked([part.X for part in parts]))
