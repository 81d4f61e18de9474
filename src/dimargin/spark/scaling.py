"""Scalers of scikit-learn fitted to rows on executors, from sums over parts of the rows, in one pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class ColumnSums(ABC):
    """Base class of two sums over rows for every column, one per row of `columns`.

    Columns beyond the width of some rows are zero for these.
    """

    n_rows: int
    columns: Floats

    @classmethod
    @abstractmethod
    def of(cls, X: Any) -> Self:
        """Compute the sums of an array or of sparse rows, zeros included, with at least one row."""

    def joined(self, other: Self) -> Self:
        """Return the sums over the rows of both."""
        width = max(self.columns.shape[1], other.columns.shape[1])
        a, b = self.between(0, width), other.between(0, width)
        return type(self)(a.n_rows + b.n_rows, np.array(a._added(b)))

    @abstractmethod
    def _added(self, other: Self) -> tuple[Floats, Floats]:
        """Return the two sums over the rows of both, which have the same width."""

    def between(self, first: int, width: int) -> Self:
        """Return the sums of `width` columns, beginning with `first`."""
        own = self.columns[:, first : first + width]
        return type(self)(self.n_rows, np.pad(own, ((0, 0), (0, width - own.shape[1]))))

    @abstractmethod
    def scaler(self, sparse: bool) -> Any:
        """Return the scaler fitted to these rows, which keeps zeros if `sparse`."""


class Extremes(ColumnSums):
    """Smallest and largest values, for `MinMaxScaler`, or for `MaxAbsScaler` if rows are sparse.

    Examples
    --------
    >>> import numpy as np
    >>> parts = Extremes.of(np.array([[1.0, -2.0]])), Extremes.of(np.array([[5.0], [3.0]]))
    >>> parts[0].joined(parts[1]).scaler(sparse=False).data_min_.tolist()
    [1.0, -2.0]
    """

    @classmethod
    def of(cls, X: Any) -> Self:
        """See `ColumnSums`."""
        extremes = min_max_axis(X, axis=0) if sp.issparse(X) else (X.min(axis=0), X.max(axis=0))
        return cls(X.shape[0], np.array(extremes))

    def _added(self, other: Self) -> tuple[Floats, Floats]:
        (least, largest), (others_least, others_largest) = self.columns, other.columns
        return np.minimum(least, others_least), np.maximum(largest, others_largest)

    def scaler(self, sparse: bool) -> Any:
        """See `ColumnSums`."""
        fitted = MaxAbsScaler().fit(np.abs(self.columns)) if sparse else MinMaxScaler().fit(self.columns)
        fitted.n_samples_seen_ = self.n_rows
        return fitted


class Moments(ColumnSums):
    """Means, and sums of squared differences from them, for `StandardScaler`.

    Examples
    --------
    >>> import numpy as np
    >>> parts = Moments.of(np.array([[1.0], [3.0]])), Moments.of(np.array([[8.0]]))
    >>> fitted = parts[0].joined(parts[1]).scaler(sparse=False)
    >>> fitted.mean_.tolist(), fitted.var_.round(6).tolist()
    ([4.0], [8.666667])
    """

    @classmethod
    def of(cls, X: Any) -> Self:
        """See `ColumnSums`."""
        means, variances = mean_variance_axis(X, axis=0) if sp.issparse(X) else (X.mean(axis=0), X.var(axis=0))
        return cls(X.shape[0], np.array([means, variances * X.shape[0]]))

    def _added(self, other: Self) -> tuple[Floats, Floats]:
        (means, squares), (others_means, others_squares) = self.columns, other.columns
        n_rows, apart = self.n_rows + other.n_rows, others_means - means
        spread = squares + others_squares + apart**2 * (self.n_rows * other.n_rows / n_rows)
        return means + apart * (other.n_rows / n_rows), spread

    def scaler(self, sparse: bool) -> Any:
        """See `ColumnSums`."""
        means, squares = self.columns
        fitted = StandardScaler(with_mean=not sparse).fit(means[None])
        fitted.n_samples_seen_ = type(fitted.n_samples_seen_)(self.n_rows)
        fitted.mean_, fitted.var_ = means, squares / self.n_rows
        # This is scikit-learn's bound of the rounding in the variance of a constant column.
        noise, n_rows = np.finfo(np.float64).eps, self.n_rows
        constant = fitted.var_ <= n_rows * noise * fitted.var_ + (n_rows * noise * fitted.mean_) ** 2
        fitted.scale_ = np.where(constant, 1.0, np.sqrt(fitted.var_))
        return fitted


SUMS: dict[str, type[ColumnSums] | None] = {"none": None, "minmax": Extremes, "standard": Moments}
