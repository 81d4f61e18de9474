"""Kernel matrix whose values are computed in fused tiles on demand, never stored, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from dimargin import _core
from dimargin.kernels.accurate_sums import (
    polynomial_products,
    polynomial_products_tail,
    weighted_row_sum,
    weighted_row_sum_tail,
)
from dimargin.kernels.column_statistics import row_chunks, stacked
from dimargin.kernels.functions import Kernel, KernelName
from dimargin.kernels.pieces import Pieces
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.sides import Side
from dimargin.system.arrays import FEW_ROUNDINGS, UNIT, Floats, Indices

# Binary logarithms of values that count as zero: 65,536 of them are within the rounding of one.
_NEGLIGIBLE_LOG2 = {np.float32: -40.0, np.float64: -69.0}


class KernelMatrix:
    """Kernel values between rows and columns of data, computed on demand and counted.

    Parameters
    ----------
    transform : RowTransform
    X : array or CSR array of shape (n, n_features)
        Training rows, which are the columns of the matrix, and its rows too unless `queries` are
        given.
    queries : array or CSR array of shape (n_queries, n_features), optional
        Other rows.
    n_threads : int, default=1
        Threads of each call; the values do not depend on it.

    Attributes
    ----------
    evaluations : int
        Kernel values computed by this view so far.
    left_out : int
        Kernel values that were known to be negligible and were not computed.
    local : bool
        Whether many kernel values between training rows are negligible compared with ``k(x, x) =
        1``: below 2^-40 in float32 and 2^-69 in float64. These then count as zero, and those
        between rows in distant bounding boxes are not computed. The closer neighbours are in the
        order of the rows, the more values are left out. Values of queries always count.

    Examples
    --------
    >>> from dimargin.kernels.functions import Kernel
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> K = KernelMatrix.of(X, Kernel("rbf", gamma=0.5))
    >>> K.block(np.arange(3), np.arange(2)).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ],
           [0.0111, 0.1353]])
    >>> K.evaluations
    6
    """

    # A call into the core does at most so many operations, to answer an interrupt within a second.
    operations_per_call = 3e9

    def __init__(self, transform: RowTransform, X: Any, queries: Any = None, n_threads: int = 1) -> None:
        transform = transform if queries is None else transform.for_queries(queries)
        columns = Side.of(transform, X)
        rows = columns if queries is None else Side.of(transform, queries)
        self._set(transform, rows, columns, n_threads, queries is None and _is_local(transform, X))

    def _set(self, transform: RowTransform, rows: Side, columns: Side, n_threads: int, local: bool) -> None:
        self.transform, self._rows, self._columns = transform, rows, columns
        self.n_threads, self.local = n_threads, local
        self.evaluations = self.left_out = 0

    def _view(
        self, rows: Side, columns: Side, n_threads: int | None = None, transform: RowTransform | None = None
    ) -> Self:
        """Return the matrix of other rows and columns for the same kernel, with its own count."""
        view, n_threads = object.__new__(type(self)), self.n_threads if n_threads is None else n_threads
        view._set(transform or self.transform, rows, columns, n_threads, self.local)
        return view

    @classmethod
    def of(cls, X: Any, kernel: Kernel) -> KernelMatrix:
        """Return the matrix of kernel values between rows, in the precision that they need."""
        return cls(RowTransform.fit(X, kernel), X)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self._rows.index), len(self._columns.index)

    @property
    def double(self) -> bool:
        """Return whether values are computed in float64."""
        return self.transform.dtype is np.float64

    @property
    def expensive(self) -> bool:
        """Return whether computing a value costs much more than reading it."""
        return self.numbers_per_row > 128

    @property
    def very_expensive(self) -> bool:
        """Return whether computing a value costs more than writing it and reading it several times.

        That is so for sparse rows with more than 32 numbers on average, unless all numbers are
        equal: the core then only counts common features.
        """
        if not sp.issparse(self._given) or self.numbers_per_row <= 32:
            return False
        return not self._columns.prepared.core.is_constant

    @property
    def numbers_per_row(self) -> float:
        """Return the average number of stored values of a training row."""
        return float(self._given.size / max(1, self._given.shape[0]))

    @property
    def _given(self) -> Any:
        """The array whose rows, or some of them, are the columns of the matrix."""
        return self._columns.prepared.X

    def take(self, index: Indices, n_threads: int | None = None) -> KernelMatrix:
        """Return the square matrix of some of the training rows, a view with its own count."""
        side = self._columns.take(index)
        return self._view(side, side, n_threads)

    def facing(self, others: KernelMatrix, n_threads: int) -> KernelMatrix:
        """Return the matrix of other training rows, with these as columns, in the same precision.

        The matrix is a view with its own count. The other rows are prepared again only if their
        precision differs.
        """
        rows = others._columns
        if others.double != self.double:
            rows = Side.of(self.transform, rows.X)
        return self._view(rows, self._columns, n_threads)

    def transposed(self) -> KernelMatrix:
        """Return the transposed matrix, a view with its own count."""
        return self._view(self._columns, self._rows)

    @staticmethod
    def joined(matrices: Sequence[KernelMatrix]) -> KernelMatrix:
        """Return the square matrix of the rows of several matrices, with its own count.

        It is a view if all of them are views of the same rows; otherwise their rows are copied.
        """
        first, sides = matrices[0], [matrix._columns for matrix in matrices]
        if all(matrix._given is first._given for matrix in matrices):
            side = Side(first._columns.prepared, np.concatenate([side.index for side in sides]))
        else:
            side = Side.of(first.transform, stacked([side.X for side in sides]))
        return first._view(side, side)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process: only the rows of this view, without its count."""
        queries = None if self._rows is self._columns else self._rows.X
        own = {"transform": self.transform, "n_threads": self.n_threads, "local": self.local}
        return {**own, "_X": self._columns.X, "queries": queries}

    def __setstate__(self, state: dict[str, Any]) -> None:
        transform, queries = state["transform"], state["queries"]
        columns = Side.of(transform, state["_X"])
        rows = columns if queries is None else Side.of(transform, queries)
        self._set(transform, rows, columns, state["n_threads"], state["local"])

    def in_float64(self) -> KernelMatrix:
        """Return the same square matrix with float64 values, a view with its own count."""
        if self.double:
            return self._view(self._columns, self._columns)
        transform = self.transform.in_float64()
        side = Side.of(transform, self._columns.X)
        return self._view(side, side, transform=transform)

    def rows(self, index: Indices) -> Any:
        """Return the original training rows at these indices."""
        return self._given[self._columns.index[index]]

    def vectors(self, index: Indices) -> Any:
        """Return what a model keeps of these training rows, to compute kernel values."""
        return self.rows(index)

    def _spec(self) -> tuple[KernelName, float, int, bool, float]:
        k = self.transform.kernel
        lowest = _NEGLIGIBLE_LOG2[self.transform.dtype] if self.local else -np.inf
        return k.name, k.coef0, k.degree, self.transform.difference, lowest

    def _count(self, computed: int, wanted: int) -> None:
        self.evaluations += computed
        self.left_out += wanted - computed

    def block(self, rows: Indices, columns: Indices) -> Floats:
        """Return kernel values of shape (len(rows), len(columns)), as float64."""
        return self.values(rows, columns).astype(np.float64, copy=False)

    def values(self, rows: Indices, columns: Indices, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return kernel values in the matrix's own precision, in `out` if given."""
        if out is None:
            out = np.empty((len(rows), len(columns)), dtype=self.transform.dtype)
        x, z = self._rows, self._columns
        computed = _core.block(
            *self._spec(), x.prepared.core, x.index[rows], z.prepared.core, z.index[columns], out, self.n_threads
        )
        self._count(computed, out.size)
        if self.transform.offset:
            out += self.transform.offset
        return out

    def multiply(self, columns: Indices, coefficients: Floats, rows: Indices | None = None) -> Floats:
        """Return products ``out[q, i] = sum_j k(x_i, x_columns[j]) coefficients[q, j]``.

        Coefficients have shape (n_outputs, m), products (n_outputs, n_rows), by default of all
        rows.
        """
        indices = self._rows.index if rows is None else self._rows.index[rows]
        which, (x, z) = self._columns.index[columns], (self._rows.prepared, self._columns.prepared)
        coefficients, exponent = _extract_exponents(coefficients)
        out = np.zeros((len(coefficients), len(indices)))
        if not len(which) or not len(indices):
            return out
        width = self._given.shape[1] + 16 + 2 * len(coefficients)
        step = max(1024, int(self.operations_per_call / (width * len(which))))
        for first in range(0, len(indices), step):
            part = indices[first : first + step]
            to = out if len(part) == len(indices) else np.zeros((len(coefficients), len(part)))
            computed = _core.multiply(*self._spec(), x.core, part, z.core, which, coefficients, to, self.n_threads)
            self._count(computed, len(part) * len(which))
            if to is not out:
                out[:, first : first + step] = to
        if self.transform.offset:
            out += self.transform.offset * coefficients.sum(axis=1, keepdims=True)
        return _times_power(out, exponent)

    def value_parts(self, rows: Pieces, columns: Pieces) -> NDArray[Any]:
        """Return the `values` of every piece of rows and its piece of columns, concatenated."""
        out = np.empty(int(rows.sizes @ columns.sizes), dtype=self.transform.dtype)
        if self._is_long(out.size):
            parts = np.split(out, np.cumsum(rows.sizes * columns.sizes)[:-1])
            for i, j, own in zip(rows.split(rows.index), columns.split(columns.index), parts, strict=True):
                self.values(i, j, own.reshape(len(i), len(j)))
            return out
        # Only here: kernels of users, which are always long, have no rows in the core.
        x, z = self._rows.in_core(rows), self._columns.in_core(columns)
        computed = _core.block_parts(*self._spec(), *x, *z, out, self.n_threads)
        self._count(computed, out.size)
        if self.transform.offset:
            out += self.transform.offset
        return out

    def multiply_parts(self, columns: Pieces, coefficients: Floats, rows: Pieces) -> Floats:
        """Return the products of every piece of rows and its piece of columns, concatenated.

        The coefficients, of shape (n_columns,), are those of one output.
        """
        wanted = int(rows.sizes @ columns.sizes)
        if self._is_long(wanted):
            of = zip(columns.split(columns.index), columns.split(coefficients), rows.split(rows.index), strict=True)
            return np.concatenate([self.multiply(own, factors[None], to)[0] for own, factors, to in of])
        (scaled,), exponent = _extract_exponents(coefficients[None])
        x, z = self._rows.in_core(rows), self._columns.in_core(columns)
        out = np.zeros(len(rows.index))
        computed = _core.multiply_parts(*self._spec(), *x, *z, scaled, out, self.n_threads)
        self._count(computed, wanted)
        if self.transform.offset:
            sums = [factors.sum() for factors in columns.split(scaled)]
            out += self.transform.offset * np.repeat(sums, rows.sizes)
        return _times_power(out, exponent[0])

    def _is_long(self, n_values: int) -> bool:
        """Return whether one call for this many kernel values would delay an interrupt."""
        return bool(n_values * (self._given.shape[1] + 18) > self.operations_per_call)

    def combine(self, values: NDArray[Any], slots: Indices, coefficients: Floats) -> Floats:
        """Return ``sum_j coefficients[q, j] values[slots[j]]`` for values in this precision."""
        coefficients, exponent = _extract_exponents(coefficients)
        out = np.zeros((len(coefficients), values.shape[1]))
        _core.combine_rows(values, slots, coefficients, out, self.n_threads)
        return _times_power(out, exponent)

    @property
    def has_weights(self) -> bool:
        """Return whether machines are feature weights, summed nearly without rounding."""
        return self.double and self.could_have_weights

    @property
    def could_have_weights(self) -> bool:
        """Return whether machines are feature weights once kernel values are float64."""
        X = self._given
        # Weights of wide sparse rows would mostly be those of columns that do not occur.
        is_narrow = not sp.issparse(X) or X.shape[1] <= max(4096, X.size)
        return is_narrow and self.transform.kernel.name == "linear"

    def weights(self, columns: Indices, coefficients: Floats) -> Floats:
        """Return ``sum_j coefficients[q, j] x_columns[j]``, with the offset's entry last.

        The weights, of shape (n_outputs, n_features + 1), are correct to nearly the last place.
        """
        X, offset = self.rows(columns), np.full((len(columns), 1), self.transform.offset**0.5)
        return np.array([np.append(weighted_row_sum(X, c), weighted_row_sum(offset, c)) for c in coefficients])

    def scores(self, weights: Floats) -> Floats:
        """Return products of `weights` with all rows, of shape (n_outputs, n_rows)."""
        out = np.empty((len(weights), self.shape[0]))
        for some in row_chunks(self.shape[0]):
            X = self._rows.prepared.X[self._rows.index[some]].astype(np.float64, copy=False)
            out[:, some] = (X @ weights[:, :-1].T).T
        out += self.transform.offset**0.5 * weights[:, -1:]
        return out

    def score_errors(self, weights: Floats, columns: Indices, coefficients: Floats) -> Floats:
        """Bound the rounding of `scores`, of the same shape, with the `weights` of some columns."""
        sizes = (self._given.shape[1] + FEW_ROUNDINGS) * UNIT * np.linalg.norm(weights, axis=1)
        sizes += weighted_row_sum_tail(len(columns)) * self.product_sizes(columns, coefficients)
        return np.asarray(sizes[:, None] * self.row_sizes)

    @property
    def can_be_accurate(self) -> bool:
        """Return whether `accurate_products`, 100 times as slow as `multiply`, can be used."""
        # In twice the precision 1,024 rows take half a second, and powers are multiplied one by
        # one.
        kernel, is_small = self.transform.kernel, not sp.issparse(self._given) and self.shape[0] <= 1024
        return is_small and self.double and kernel.name == "poly" and kernel.degree <= 16

    def accurate_products(self, columns: Indices, coefficients: Floats) -> Floats:
        """Return the products of `multiply` for all rows, correct to nearly the last place."""
        k, rows = self.transform.kernel, self._rows.X
        products = polynomial_products(rows, self.rows(columns), k.gamma, k.coef0, k.degree, coefficients)
        self.evaluations += len(rows) * len(columns)
        if self.transform.offset:
            ones = np.ones((len(columns), 1))
            products += self.transform.offset * np.array([weighted_row_sum(ones, c) for c in coefficients])
        return products

    def accurate_product_errors(self, columns: Indices, coefficients: Floats, products: Floats) -> Floats:
        """Bound the rounding of `accurate_products`, of shape (n_outputs, n_rows)."""
        tail = polynomial_products_tail(len(columns), self._given.shape[1], self.transform.kernel.degree)
        sums = self.product_sizes(columns, coefficients)
        return FEW_ROUNDINGS * UNIT * np.abs(products) + tail * sums[:, None] * self.row_sizes

    def product_errors(self, columns: Indices, coefficients: Floats) -> Floats:
        """Bound the rounding of `multiply` for the same columns and coefficients, in its shape.

        A kernel value errs by at most ``eta r_i r_j``, where ``r_i r_j`` bounds the sum of its
        absolute terms: one for stationary kernels; for linear and poly ``r_i^2`` is the value
        k(x_i, x_i) with ``|coef0|``, whose kernel is positive definite too. A sum of products errs
        by as many units in the last place as there are successive additions. Together the error is
        at most ``(eta + additions u) r_i sum_j |c_j| r_j``.
        """
        sums = self.product_sizes(columns, coefficients)
        return np.asarray(self.rounding(len(columns)) * sums[:, None] * self.row_sizes)

    def product_sizes(self, columns: Indices, coefficients: Floats) -> Floats:
        """Return sums of absolute coefficients times column sizes, of shape (n_outputs,)."""
        return np.asarray(np.abs(coefficients) @ self.column_sizes[columns])

    def rounding(self, n_columns: int) -> float:
        """Bound the rounding of `multiply`, relative to the sizes of rows and columns.

        Up to `_single_sum` float32 values are summed in float32, and these sums in float64.
        """
        others = self._given
        additions = (_core.longest_product(n_columns, others.shape[1], sp.issparse(others)) + FEW_ROUNDINGS) * UNIT
        sides = [others] if self._rows.prepared.X is others else [self._rows.prepared.X, others]
        own = max(self.transform.value_rounding(X) for X in sides)
        dropped = 2.0 ** _NEGLIGIBLE_LOG2[self.transform.dtype] if self.local else 0.0
        if not self.double:
            additions += (min(n_columns, self._single_sum) + FEW_ROUNDINGS) * 2.0**-24
        return own + dropped + additions

    @property
    def _single_sum(self) -> int:
        """Largest number of float32 values that are summed one after the other in float32."""
        stored = _core.longest_single_sum(True) if self.expensive or self.very_expensive else 0
        return max(stored, _core.longest_single_sum(False))

    @cached_property
    def row_sizes(self) -> Floats:
        """Sizes of the rows, of shape (n_rows,): see `RowTransform.sizes`."""
        return self.column_sizes if self._rows is self._columns else self._sizes(self._rows)

    @cached_property
    def column_sizes(self) -> Floats:
        """Sizes of the columns, of shape (n_columns,)."""
        return self._sizes(self._columns)

    def _sizes(self, side: Side) -> Floats:
        if self.transform.kernel.stationary:  # All sizes are equal, so no rows need be gathered.
            return np.full(len(side.index), (1.0 + abs(self.transform.offset)) ** 0.5)
        return self.transform.sizes(side.X)

    def diagonal(self, index: Indices | None = None) -> Floats:
        """Return k(x, x) of training rows; only stationary kernels need no evaluations."""
        side = self._columns if index is None else self._columns.take(index)
        if self.transform.kernel.stationary:
            return np.full(len(side.index), 1.0 + self.transform.offset)
        self.evaluations += len(side.index)
        return self.transform.offset + self.transform.kernel.with_itself(side.X)


def _is_local(transform: RowTransform, X: Any) -> bool:
    """Return whether over a quarter of the kernel values of sampled dense rows are negligible."""
    if not transform.kernel.stationary or sp.issparse(X) or len(X) < 4096:
        return False
    sample = np.asarray(X[np.linspace(0, len(X) - 1, 128).astype(int)], dtype=np.float64)
    k = transform.kernel
    with np.errstate(over="ignore"):
        distances = pdist(sample, "cityblock" if k.order == 1 else "sqeuclidean")
    negligible = k.gamma * distances > -np.log(2) * _NEGLIGIBLE_LOG2[transform.dtype]
    return bool(negligible.mean() > 0.25)


def _extract_exponents(coefficients: Floats) -> tuple[Floats, NDArray[np.intc]]:
    """Return coefficients over powers of two, and the exponents: the tile may round to float32."""
    coefficients = np.asarray(coefficients, dtype=np.float64)
    exponent = np.frexp(np.abs(coefficients).max(axis=1, initial=0.0, keepdims=True))[1]
    return np.ascontiguousarray(np.ldexp(coefficients, -exponent)), exponent


def _times_power(products: Floats, exponent: NDArray[np.intc]) -> Floats:
    """Return products times powers of two, which are infinite where float64 overflows."""
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(products, exponent))
