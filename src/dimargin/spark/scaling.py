"""Scalers of scikit-learn for rows on executors, fitted from sums over parts of the rows in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from dimargin.system.arrays import Floats


class ColumnSums(Protocol):
    """Sums over the columns of some rows; a column that a part of the rows does not reach is zero there."""

    @classmethod
    def of(cls, X: Any) -> Self:
        """Compute the sums of an array or of sparse rows, zeros included, with at least one row."""

    def joined(self, other: Self) -> Self:
        """Return the sums over the rows of both."""

    def between(self, first: int, width: int) -> Self:
        """Return the sums of `width` columns from `first` on."""

    def scaler(self, sparse: bool) -> Any:
        """Return the scaler fitted to these rows; for `sparse` ones it keeps zeros."""


@dataclass(frozen=True)
class Extremes:
    """Least and largest values, for `MinMaxScaler`, or for `MaxAbsScaler` where rows are sparse.

    Examples
    --------
    >>> import numpy as np
    >>> parts = Extremes.of(np.array([[1.0, -2.0]])), Extremes.of(np.array([[5.0], [3.0]]))
    >>> parts[0].joined(parts[1]).scaler(sparse=False).data_min_.tolist()
    [1.0, -2.0]
    """

    n_rows: int
    least: Floats
    largest: Floats

    @classmethod
    def of(cls, X: Any) -> Self:
        """See `ColumnSums`."""
        least, largest = min_max_axis(X, axis=0) if sp.issparse(X) else (X.min(axis=0), X.max(axis=0))
        return cls(X.shape[0], least, largest)

    def joined(self, other: Self) -> Self:
        """See `ColumnSums`."""
        width = max(len(self.least), len(other.least))
        a, b = self.between(0, width), other.between(0, width)
        return type(self)(a.n_rows + b.n_rows, np.minimum(a.least, b.least), np.maximum(a.largest, b.largest))

    def between(self, first: int, width: int) -> Self:
        """See `ColumnSums`."""
        return type(self)(self.n_rows, _between(self.least, first, width), _between(self.largest, first, width))

    def scaler(self, sparse: bool) -> Any:
        """See `ColumnSums`."""
        ends = np.array([self.least, self.largest])
        fitted = MaxAbsScaler().fit(np.abs(ends)) if sparse else MinMaxScaler().fit(ends)
        fitted.n_samples_seen_ = self.n_rows
        return fitted


@dataclass(frozen=True)
class Moments:
    """Means, and sums of squared differences from them, for `StandardScaler`.

    Examples
    --------
    >>> import numpy as np
    >>> parts = Moments.of(np.array([[1.0], [3.0]])), Moments.of(np.array([[8.0]]))
    >>> fitted = parts[0].joined(parts[1]).scaler(sparse=False)
    >>> fitted.mean_.tolist(), fitted.var_.round(6).tolist()
    ([4.0], [8.666667])
    """

    n_rows: int
    means: Floats
    squares: Floats

    @classmethod
    def of(cls, X: Any) -> Self:
        """See `ColumnSums`."""
        means, variances = mean_variance_axis(X, axis=0) if sp.issparse(X) else (X.mean(axis=0), X.var(axis=0))
        return cls(X.shape[0], means, variances * X.shape[0])

    def joined(self, other: Self) -> Self:
        """See `ColumnSums`."""
        width = max(len(self.means), len(other.means))
        a, b = self.between(0, width), other.between(0, width)
        n_rows, apart = a.n_rows + b.n_rows, b.means - a.means
        means = a.means + apart * (b.n_rows / n_rows)
        return type(self)(n_rows, means, a.squares + b.squares + apart**2 * (a.n_rows * b.n_rows / n_rows))

    def between(self, first: int, width: int) -> Self:
        """See `ColumnSums`."""
        return type(self)(self.n_rows, _between(self.means, first, width), _between(self.squares, first, width))

    def scaler(self, sparse: bool) -> Any:
        """See `ColumnSums`."""
        fitted = StandardScaler(with_mean=not sparse).fit(self.means[None])
        fitted.n_samples_seen_ = type(fitted.n_samples_seen_)(self.n_rows)
        fitted.mean_, fitted.var_ = self.means, self.squares / self.n_rows
        # scikit-learn's bound on what rounding makes of the variance of a column that is constant
        noise, n_rows = np.finfo(np.float64).eps, self.n_rows
        constant = fitted.var_ <= n_rows * noise * fitted.var_ + (n_rows * noise * fitted.mean_) ** 2
        fitted.scale_ = np.where(constant, 1.0, np.sqrt(fitted.var_))
        return fitted


def _between(values: Floats, first: int, width: int) -> Floats:
    own = values[first : first + width]
    return np.concatenate([own, np.zeros(width - len(own))])


SUMS: dict[str, type[ColumnSums] | None] = {"none": None, "minmax": Extremes, "standard": Moments}
