"""The kernel matrix: values computed in fused tiles when asked for, never stored, and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin import _core
from dimargin.rows import KERNEL_NAMES, Floats, Kernel, KernelName, RowTransform, largest_column, power_sums

__all__ = ["KERNEL_NAMES", "Floats", "Indices", "Kernel", "KernelMatrix", "RowTransform", "largest_column"]

Indices = NDArray[np.int64]

_CHEAP_NUMBERS = 128  # of a row, up to which its kernel values are cheap beside factorisations and memory
_OPERATIONS_PER_CALL = 3e9  # of one call into the core, so that an interrupt is answered within a second


class KernelMatrix:
    """Kernel values between rows and columns of data, computed on demand and counted.

    Parameters
    ----------
    transform : RowTransform
    X : array or CSR array of shape (n, n_features)
        Training rows, which are the columns of the matrix, and its rows too unless `queries` are given.
    queries : array or CSR array of shape (n_queries, n_features), optional
        Other rows.
    n_threads : int, default=1
        Threads of each call; the values do not depend on it.

    Attributes
    ----------
    evaluations : int
        Kernel values computed by this view so far.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.kernels import Kernel, KernelMatrix, RowTransform
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> K = KernelMatrix(RowTransform.fit(X, Kernel("rbf", gamma=0.5)), X)
    >>> K.block(np.arange(3), np.arange(2)).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ],
           [0.0111, 0.1353]])
    >>> K.evaluations
    6
    """

    def __init__(self, transform: RowTransform, X: Any, queries: Any = None, n_threads: int = 1) -> None:
        transform = transform if queries is None else transform.for_queries(queries)
        self.transform = transform
        self.n_threads = n_threads
        self.evaluations = 0
        self._X = X
        self._columns = transform.apply(X)
        self._rows = self._columns if queries is None else transform.apply(queries)
        self._column_index = np.arange(self._columns.n_rows)
        self._row_index = self._column_index if queries is None else np.arange(self._rows.n_rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self._row_index), len(self._column_index)

    @property
    def double(self) -> bool:
        """Whether values are computed in float64."""
        return self.transform.dtype is np.float64

    @property
    def dear(self) -> bool:
        """Whether a value costs much more than reading a stored one: rows hold more than 128 numbers, on average."""
        return bool(self._X.size > _CHEAP_NUMBERS * self._X.shape[0])

    def take(self, index: Indices, n_threads: int | None = None) -> KernelMatrix:
        """Return the square matrix of some of the training rows: a view with a count of its own."""
        view = object.__new__(KernelMatrix)
        view.transform, view._X = self.transform, self._X
        view._rows = view._columns = self._columns
        view._row_index = view._column_index = np.ascontiguousarray(self._column_index[index])
        view.n_threads = self.n_threads if n_threads is None else n_threads
        view.evaluations = 0
        return view

    def in_float64(self) -> KernelMatrix:
        """Return the same square matrix with float64 values, as a view with a count of its own."""
        view = self.take(np.arange(len(self._column_index)))
        if not self.double:
            view._X = self._X[self._column_index]
            view.transform = self.transform.in_float64()
            view._rows = view._columns = view.transform.apply(view._X)
            view._row_index = view._column_index = np.arange(len(self._column_index))
        return view

    def rows(self, index: Indices) -> Any:
        """Return the original training rows at these places."""
        return self._X[self._column_index[index]]

    def _spec(self) -> tuple[KernelName, float, int, bool]:
        k = self.transform.kernel
        return k.name, k.coef0, k.degree, self.transform.difference

    def block(self, rows: Indices, columns: Indices) -> Floats:
        """Kernel values of shape (len(rows), len(columns)), as float64."""
        return self.values(rows, columns).astype(np.float64, copy=False)

    def values(self, rows: Indices, columns: Indices, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Kernel values of shape (len(rows), len(columns)), in the precision of the matrix; into `out` if given."""
        if out is None:
            out = np.empty((len(rows), len(columns)), dtype=self.transform.dtype)
        _core.block(
            *self._spec(), self._rows, self._row_index[rows], self._columns, self._column_index[columns], out,
            self.n_threads,
        )  # fmt: skip
        self.evaluations += out.size
        return out

    def multiply(self, columns: Indices, coefficients: Floats, rows: Indices | None = None) -> Floats:
        """Products ``out[q, i] = sum_j k(x_i, x_columns[j]) coefficients[q, j]``.

        Parameters
        ----------
        columns : ndarray of shape (m,)
        coefficients : ndarray of shape (n_outputs, m)
        rows : ndarray, optional
            All rows by default.

        Returns
        -------
        ndarray of shape (n_outputs, n_rows)
        """
        places = self._row_index if rows is None else self._row_index[rows]
        which = self._column_index[columns]
        coefficients, exponent = _in_range(coefficients)
        out = np.zeros((len(coefficients), len(places)))
        if not len(which) or not len(places):
            return out
        width = self._columns.n_features + 16 + 2 * len(coefficients)
        step = max(1024, int(_OPERATIONS_PER_CALL / (width * len(which))))
        for first in range(0, len(places), step):
            part = places[first : first + step]
            to = out if len(part) == len(places) else np.zeros((len(coefficients), len(part)))
            _core.multiply(*self._spec(), self._rows, part, self._columns, which, coefficients, to, self.n_threads)
            if to is not out:
                out[:, first : first + step] = to
        self.evaluations += len(places) * len(which)
        return np.ldexp(out, exponent)

    def combine(self, values: NDArray[Any], slots: Indices, coefficients: Floats) -> Floats:
        """Return ``sum_j coefficients[q, j] values[slots[j]]`` for kernel values stored in this matrix's precision."""
        coefficients, exponent = _in_range(coefficients)
        out = np.zeros((len(coefficients), values.shape[1]))
        _core.combine_rows(values, slots, coefficients, out, self.n_threads)
        return np.ldexp(out, exponent)

    def diagonal(self, index: Indices | None = None) -> Floats:
        """k(x, x) of training rows: free of evaluations for stationary kernels, one a row otherwise."""
        index = np.arange(len(self._column_index)) if index is None else index
        if self.transform.kernel.stationary:
            return np.ones(len(index))
        X, k = self.rows(index), self.transform.kernel
        squares = power_sums(X, 2)
        self.evaluations += len(index)
        return squares if k.name == "linear" else (k.gamma * squares + k.coef0) ** k.degree


def _in_range(coefficients: Floats) -> tuple[Floats, NDArray[np.intc]]:
    """Coefficients over a power of two, and its exponent: the tile may round them to float32."""
    coefficients = np.asarray(coefficients, dtype=np.float64)
    exponent = np.frexp(np.abs(coefficients).max(axis=1, initial=0.0, keepdims=True))[1]
    return np.ascontiguousarray(np.ldexp(coefficients, -exponent)), exponent
