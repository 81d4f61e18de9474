"""Training data: from what users hand over to what solvers take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import compute_class_weight, gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from dimargin.estimators.validation import check_features, check_finite, check_weights, largest_magnitude
from dimargin.kernels.columns import largest_column, narrowed
from dimargin.kernels.user import Transform
from dimargin.system.arrays import Floats, Indices

STORED_DTYPES = [np.float64, np.float32]
_ROWS_AT_ONCE = 65_536  # bounds the scratch memory
_LARGEST_IN_FLOAT32 = 1e15  # of a feature, whose squares are summed


@dataclass(frozen=True)
class TrainingData:
    """Validated training data; rows with zero weight are gone.

    Attributes
    ----------
    X : ndarray or CSR array of shape (n, n_features)
    y : ndarray of shape (n,)
        Indices in `classes`.
    classes : ndarray
        Labels that occur.
    weights : ndarray of shape (n,)
        Row weights times class weights.
    row_weights : ndarray of shape (n,)
    kept : ndarray of shape (n,)
        Indices of these rows in the caller's X.
    n_given : int
        Rows of the caller's X.
    """

    X: Any
    y: Indices
    classes: NDArray[Any]
    weights: Floats
    row_weights: Floats
    kept: Indices
    n_given: int

    @cached_property
    def labels(self) -> Floats:
        """Plus or minus one, of shape (n_outputs, n): one output for two classes, else one a class."""
        if len(self.classes) == 2:
            return np.where(self.y == 1, 1.0, -1.0)[None]
        return np.where(self.y == np.arange(len(self.classes))[:, None], 1.0, -1.0)


@dataclass(frozen=True)
class Origin:
    """Where the rows that a strategy has come from.

    Attributes
    ----------
    classes : ndarray
    n_rows, n_given : int
        Rows with positive weight, and all that the caller gave.
    transform : RowTransform or UserKernel
    indices : ndarray of shape (n_rows,) or None
        Of the rows, in the order in which the strategy has them, among the caller's; None where these have no order.
    """

    classes: NDArray[Any]
    n_rows: int
    n_given: int
    transform: Transform
    indices: Indices | None = None


def canonical(X: Any) -> Any:
    """Sparse rows as a CSR array with sorted columns and no duplicates; the caller's matrix is left alone."""
    if not sp.issparse(X):
        return X
    X = sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def with_room(X: Any, bound: float) -> Any:
    """Rows stored so that there is room for sums of their squares, if that can be; `bound` is from `check_finite`."""
    if X.dtype != np.float32 or bound <= _LARGEST_IN_FLOAT32 or largest_magnitude(X) <= _LARGEST_IN_FLOAT32:
        return X
    return X.astype(np.float64)


def training_data(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    pairwise: bool = False,
    classes: NDArray[Any] | None = None,
    linear: bool = False,
) -> TrainingData:
    """Validate what `fit` was given, or `partial_fit` of known classes.

    Raises ValueError or TypeError naming what is wrong. With `linear`, there is room for squares of the features;
    kernels have limits of their own.
    """
    go_on = classes is not None and hasattr(estimator, "classes_")
    X, y = validate_data(
        estimator, X, y, reset=not go_on, accept_sparse=False if pairwise else "csr", dtype=STORED_DTYPES, order="C",
        ensure_all_finite=False, accept_large_sparse=True,
    )  # fmt: skip
    if pairwise and X.shape[0] != X.shape[1]:
        raise ValueError(f"kernel='precomputed' needs a square matrix of kernel values, got shape {X.shape}")
    names = getattr(estimator, "feature_names_in_", None)
    bound = check_finite(X, columns=names)
    if linear:
        check_features(X, bound, names)
    X = with_room(X, bound)
    check_classification_targets(y)
    given = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    kept = np.flatnonzero(given > 0)
    present = np.unique(y[kept])
    if classes is not None:
        unknown = np.setdiff1d(present, classes)
        if len(unknown):
            raise ValueError(f"y has labels that are not among the classes {classes.tolist()}: {unknown.tolist()}")
        present = classes
    if len(present) < 2:
        trimmed = " after rows with zero weight were dropped" if len(kept) < len(y) else ""
        name, label = type(estimator).__name__, present.tolist()[0]
        raise ValueError(f"{name} needs at least two classes; y has one class only{trimmed}: {label!r}")
    codes, weights = np.searchsorted(present, y[kept]), given[kept]
    if estimator.class_weight is not None:
        factors = compute_class_weight(estimator.class_weight, classes=present, y=y[kept], sample_weight=weights)
        weights = weights * factors[codes]
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise ValueError(f"class_weight must be positive for every class, got {estimator.class_weight!r}")
    check_weights(weights, kept, by_class=estimator.class_weight is not None)
    if len(kept) < len(y):
        X = X[np.ix_(kept, kept)] if pairwise else X[kept]
    return TrainingData(canonical(X), codes.astype(np.int64), present, weights, given[kept], kept, len(y))


def class_factors(given: Any, classes: NDArray[Any], weights: Floats | None, name: str) -> Floats:
    """Factors on the weights of the classes, whose rows weigh so much; raises ValueError naming the parameter."""
    factors = compute_class_weight(given, classes=classes, y=classes, sample_weight=weights)
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        raise ValueError(f"{name} must be positive for every class, got {given!r}")
    return np.asarray(factors, dtype=np.float64)


def gamma_value(gamma: str | float, X: Any, weights: Floats) -> float:
    """The number behind `gamma`; "scale" is ``1 / (n_features X.var())`` with rows weighted."""
    variance, n_features = np.nan, X.shape[1]
    share = weights / weights.sum() / n_features
    X, columns = narrowed(X)
    if gamma == "scale":
        with np.errstate(over="ignore", invalid="ignore"):
            mean = (share @ X).sum(dtype=np.float64)
            if sp.issparse(X):
                variance = (share @ X.multiply(X)).sum() - mean**2
            else:
                batches = gen_batches(len(X), _ROWS_AT_ONCE)
                variance = sum(float(share[s] @ np.square(X[s] - mean).sum(axis=1)) for s in batches)
    return gamma_of(gamma, n_features, variance, lambda: int(columns[largest_column(X)]))


def gamma_of(gamma: str | float, n_features: int, variance: float, largest: Callable[[], int]) -> float:
    """The number behind `gamma`, for rows of this variance over all of their values.

    Raises ValueError naming the largest column where "scale" needs a variance that is not finite.
    """
    if gamma == "auto":
        return 1.0 / n_features
    if gamma != "scale":
        return float(gamma)
    if not np.isfinite(variance):
        raise ValueError(
            f"column {largest()} of X is too large for gamma='scale': the variance of X overflows. "
            "Scale the columns first."
        )
    return float(1 / (n_features * variance)) if variance > 0 and np.isfinite(1 / variance) else 1.0
