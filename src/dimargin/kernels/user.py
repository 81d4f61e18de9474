"""User-defined kernels: a Python function, or a precomputed matrix of values.

Both are float64 and slower than the kernels of the compiled core, which computes values in fused
tiles on all threads. They must be positive semi-definite: otherwise the dual is not concave, and a
duality gap certifies nothing. Two necessary conditions are checked: in a square block of values,
every two rows must satisfy ``k(x, z) = k(z, x)`` and ``k(x, z)^2 <= k(x, x) k(z, z)``; and the
values of up to 256 random rows must have no negative eigenvalue. A violation beyond rounding proves
that the kernel is not positive semi-definite. Passing proves nothing about the other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.kernels.column_statistics import row_chunks
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.sides import Side
from dimargin.kernels.wide_rows import narrow_pair
from dimargin.system.arrays import FEW_ROUNDINGS, TINY, UNIT, Floats, Indices
from dimargin.system.memory import check_memory

KernelFunction = Callable[[Any, Any], Any]

_MAX_ROUNDING = 1e-6  # The rounding of kernel values that is accepted, relative to the diagonal.


@dataclass(frozen=True)
class UserKernel:
    """A user-defined kernel, used in place of a `RowTransform`."""

    # Returns (a, b) values of arrays of a and of b rows; None for precomputed values.
    function: KernelFunction | None
    offset: float = 0.0  # constant added to every kernel value, as in `RowTransform`
    dtype = np.float64
    stationary = False

    @property
    def kernel(self) -> UserKernel:
        """The kernel itself, in place of the `Kernel` of a `RowTransform`."""
        return self

    def in_float32(self, *parts: Any) -> None:
        """Return None: values are computed in float64 only."""
        return None

    def in_float64(self) -> UserKernel:
        """Return the kernel itself: its values are float64 already."""
        return self

    def for_queries(self, X: Any) -> UserKernel:
        """Return the kernel itself."""
        return self

    def outgrown(self, X: Any) -> NDArray[np.bool_]:
        """Return False for every row: values are float64 already."""
        return np.zeros(X.shape[0], dtype=bool)


Transform = RowTransform | UserKernel


def kernel_matrix(transform: Transform, X: Any, queries: Any = None, n_threads: int = 1) -> KernelMatrix:
    """Return the matrix of kernel values of rows, of the class that belongs to the transform.

    With queries, wide sparse rows are replaced by narrow ones without the columns that X lacks.

    Raises MemoryError if the core's array over all columns of sparse rows does not fit into memory.
    """
    if queries is not None and isinstance(transform, RowTransform):
        kernel = transform.kernel
        X, queries = narrow_pair(X, queries, kernel.order if kernel.stationary else None)
    # The array is hardly ever filled, but may exceed a limit on addresses unless it is small.
    needed = 4 * n_threads * X.shape[1]
    if needed > 2**26 and sp.issparse(X):
        check_memory(needed, None, f"a kernel of rows of {X.shape[1]} columns")
    make = UserKernelMatrix if isinstance(transform, UserKernel) else KernelMatrix
    return make(transform, X, queries, n_threads)  # type: ignore[arg-type]


class UserKernelMatrix(KernelMatrix):
    """Values of a user-defined kernel, computed or looked up on demand and counted.

    Parameters
    ----------
    transform : UserKernel
    X : array or CSR array of shape (n, n_features)
        Training rows, or precomputed values of shape (n, n).
    queries : array or CSR array of shape (n_queries, n_features), optional
        Other rows, or precomputed values of shape (n_queries, n).
    n_threads : int, default=1
        Number of threads that work on the values.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.kernels.user import UserKernel, kernel_matrix
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> K = kernel_matrix(UserKernel(lambda a, b: a @ b.T), X)
    >>> K.values(np.array([1, 2]), np.array([2]))
    array([[3.],
           [9.]])
    """

    values_at_once = 2**23  # The kernel values of one call, which bounds the scratch memory.
    transform: UserKernel  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a user-defined kernel cannot be pickled or sent to another process")

    @property
    def has_weights(self) -> bool:
        """Return False (see `KernelMatrix`): the function that the kernel computes is unknown."""
        return False

    can_be_accurate = could_have_weights = has_weights

    @property
    def expensive(self) -> bool:
        """Return whether values are computed by a function rather than looked up."""
        return self.transform.function is not None

    very_expensive = expensive

    def vectors(self, index: Indices) -> Any:
        """See `KernelMatrix`; for precomputed values the returned rows have no features."""
        return self.rows(index) if self.transform.function else np.empty((len(index), 0), dtype=self._given.dtype)

    def values(self, rows: Indices, columns: Indices, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """See `KernelMatrix`.

        Raises ValueError if the function returns another shape, or values that are not finite or
        not those of a symmetric, positive semi-definite kernel.
        """
        queries, X = self._rows.prepared.X, self._given
        left, right = self._rows.index[rows], self._columns.index[columns]
        if not len(rows) or not len(columns):  # A user's function need not accept empty arrays.
            values = np.empty((len(rows), len(columns)))
        elif self.transform.function is None:
            values = np.asarray(queries[np.ix_(left, right)], dtype=np.float64)
        else:
            given = self.transform.function(queries[left], X[right])
            values = np.asarray(given.toarray() if sp.issparse(given) else given, dtype=np.float64)
            if values.shape != (len(rows), len(columns)):
                raise ValueError(
                    f"kernel: the function returned shape {values.shape} for {len(rows)} and {len(columns)} rows, "
                    f"expected {(len(rows), len(columns))}"
                )
            if not np.isfinite(values).all():
                raise ValueError("kernel: the function returned NaN or infinity")
        if queries is X and np.array_equal(left, right):
            _check_semi_definite(values, left)
        self.evaluations += values.size
        if self.transform.offset:
            values = values + self.transform.offset
        if out is None:
            return values
        out[:] = values
        return out

    def multiply(self, columns: Indices, coefficients: Floats, rows: Indices | None = None) -> Floats:
        """See `KernelMatrix`."""
        rows = np.arange(self.shape[0]) if rows is None else rows
        out = np.zeros((len(coefficients), len(rows)))
        if len(columns):
            for some in row_chunks(len(rows), max(1, self.values_at_once // len(columns))):
                out[:, some] = coefficients @ self.values(rows[some], columns).T
        return out

    def _is_long(self, n_values: int) -> bool:
        """Return True: the values of small parts are computed part by part."""
        return True

    def rounding(self, n_columns: int) -> float:
        """See `KernelMatrix`; values count as exact, and BLAS may add terms one by one."""
        return (n_columns + FEW_ROUNDINGS) * UNIT

    def _sizes(self, side: Side) -> Floats:
        """Return the roots of the rows' diagonal values, which bound all values of the kernel."""
        rows, index = side.prepared.X, side.index
        function = self.transform.function
        if function is None:
            squares = rows[index, index].astype(np.float64)
        else:
            own = kernel_matrix(replace(self.transform, offset=0.0), rows)
            # Parts are small, because the function computes whole blocks for their diagonals.
            parts = [index[some] for some in row_chunks(len(index), 32)]
            squares = np.concatenate([np.zeros(0), *(own.values(part, part).diagonal() for part in parts)])
            self.evaluations += own.evaluations
        return np.asarray((np.abs(squares) * (1 + _MAX_ROUNDING) + abs(self.transform.offset)) ** 0.5)

    def diagonal(self, index: Indices | None = None) -> Floats:
        """See `KernelMatrix`."""
        index = np.arange(self.shape[1]) if index is None else index
        return np.array([self.values(index[k : k + 1], index[k : k + 1])[0, 0] for k in range(len(index))])


def check_eigenvalues(kernel: UserKernel, X: Any) -> None:
    """Raise ValueError if the values of up to 256 random rows prove that a kernel is indefinite.

    The values are divided by the square roots of the diagonal. An eigenvalue is negative beyond
    rounding if it is below -1e-6 times the number of rows: values that err by a millionth of these
    roots do not lower it further. The eigenvalues of 256 rows take some milliseconds.
    """
    n = X.shape[0]
    rows = np.sort(np.random.default_rng(0).choice(n, min(n, 256), replace=False))
    values = kernel_matrix(kernel, X).values(rows, rows)
    sizes = np.sqrt(values.diagonal())
    sizes[sizes == 0] = 1.0
    values = values / sizes[:, None] / sizes
    lowest = float(np.linalg.eigvalsh((values + values.T) / 2)[0])
    if lowest < -_MAX_ROUNDING * len(rows):
        raise ValueError(
            f"kernel is not positive semi-definite: the matrix of {len(rows)} of {n} training rows, divided by the "
            f"square roots of its diagonal, has the eigenvalue {lowest:.3g}. The dual is not concave, and no duality "
            "gap would certify a model. (Passing this check of up to 256 rows proves nothing about the others.)"
        )


def _check_semi_definite(values: Floats, indices: Indices) -> None:
    """Raise ValueError unless every two rows satisfy k(x, z) = k(z, x) and k(x, z)^2 <= k(x, x) k(z, z)."""
    diagonal = values.diagonal()
    scale = np.sqrt(np.maximum(np.outer(diagonal, diagonal), 0)) + TINY
    for wrong, what in (
        (np.abs(values - values.T) > _MAX_ROUNDING * (scale + np.abs(values)), "not symmetric"),
        ((np.abs(values) > (1 + _MAX_ROUNDING) * scale) | (diagonal < 0), "not positive semi-definite"),
    ):
        if wrong.any():
            i, j = (int(indices[k]) for k in np.argwhere(wrong)[0])
            raise ValueError(f"kernel is {what}, see training rows {i} and {j} (of those with a positive weight)")
