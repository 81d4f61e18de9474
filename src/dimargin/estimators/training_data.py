"""Validation of training data and their conversion for solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import compute_class_weight, gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dimargin.estimators.fit_plan import DataSize
from dimargin.estimators.input_checks import (
    check_features,
    check_finite,
    check_no_missing_label,
    check_weights,
    columns_named,
    largest_magnitude,
    sample_weights,
)
from dimargin.kernels.column_statistics import largest_column, narrowed, on_columns, stored_columns
from dimargin.kernels.user import Transform
from dimargin.kernels.wide_rows import KeptColumns, is_wide
from dimargin.problems.one_vs_rest import labels_of
from dimargin.shards.keys import row_keys
from dimargin.system.arrays import Floats, Indices

STORED_DTYPES = [np.float64, np.float32]
_MAX_BATCH_ROWS = 65_536  # Batches bound the scratch memory.


@dataclass(frozen=True)
class TrainingData:
    """Validated training data without rows of zero weight.

    Attributes
    ----------
    X : ndarray or CSR array of shape (n, n_features)
    y : ndarray of shape (n,)
        Indices in `classes`.
    classes : ndarray
        Labels that occur, sorted.
    weights : ndarray of shape (n,)
        Row weights times class weights.
    row_weights : ndarray of shape (n,)
    kept : ndarray of shape (n,)
        Indices of these rows in the caller's X.
    n_given : int
        Number of rows of the caller's X.
    is_thinned : bool
        Whether X is a sparse copy of the caller's dense X, see `thinned`.
    standing_for : ndarray of shape (n_kept,) or None
        Index of the row that each of the caller's rows with weight was merged into, see `merged`;
        None if no rows were merged.
    kept_before : ndarray of shape (n_kept,) or None
        Indices of the rows of `standing_for` in the caller's X.
    columns : KeptColumns or None
        Columns of the caller's X that are kept in X, see `narrow`; None if all are.
    centre, unit : float
        What was subtracted from the targets of regression, and by what they were divided then.
    """

    X: Any
    y: Indices
    classes: NDArray[Any]
    weights: Floats
    row_weights: Floats
    kept: Indices
    n_given: int
    is_thinned: bool = False
    standing_for: Indices | None = None
    kept_before: Indices | None = None
    columns: KeptColumns | None = None

    centre: float = 0.0
    unit: float = 1.0

    @property
    def size(self) -> DataSize:
        """Numbers that the plan of a fit depends on."""
        counts = tuple(np.bincount(self.y, minlength=len(self.classes)).tolist())
        return DataSize(len(self.y), self.X.shape[1], int(self.X.size), counts)

    def in_own_units(self, parameters: Floats) -> Floats:
        """Return coefficients, with an intercept in the last column, for the targets of these data."""
        return np.column_stack([parameters[:, :-1], parameters[:, -1] - self.centre]) / self.unit

    @property
    def n_features(self) -> int:
        """Number of columns of the caller's X."""
        return int(self.X.shape[1] if self.columns is None else self.columns.width)

    @cached_property
    def labels(self) -> Floats:
        """Labels +1 or -1 of shape (n_outputs, n), with one output if there are two classes."""
        return labels_of(self.y, len(self.classes))

    def take(self, rows: Indices) -> TrainingData:
        """Return the data of some rows, which are not merged ones."""
        return replace(
            self, **{name: getattr(self, name)[rows] for name in ("X", "y", "weights", "row_weights", "kept")}
        )

    def sums(self, indices: Indices, values: Floats) -> Floats:
        """Sum values over the rows merged into each row, to shape (n_outputs, n).

        `values`, of shape (n_outputs, len(indices)), belong to the caller's rows with these
        indices; rows without weight are ignored.
        """
        given = np.zeros((len(values), self.n_given))
        given[:, indices] = values
        if self.standing_for is None or self.kept_before is None:
            return given[:, self.kept]
        return np.array([np.bincount(self.standing_for, own[self.kept_before], len(self.y)) for own in given])


@dataclass(frozen=True)
class Origin:
    """Relation between the rows that a strategy trains on and the caller's rows.

    Attributes
    ----------
    classes : ndarray
    n_rows, n_given : int
        Number of rows with positive weight, and of all rows of the caller.
    transform : RowTransform or UserKernel
    indices : ndarray of shape (n_rows,) or None
        Indices of the caller's rows, in the order of the strategy; None if these have no order.
    is_thinned : bool
        Whether the rows are a sparse copy of the caller's dense rows.
    columns : KeptColumns or None
        Columns of the caller's rows that are kept; None if all are.
    """

    classes: NDArray[Any]
    n_rows: int
    n_given: int
    transform: Transform
    indices: Indices | None = None
    is_thinned: bool = False
    columns: KeptColumns | None = None


def canonical(X: Any) -> Any:
    """Return sparse rows as a CSR array in canonical format; dense rows are unchanged.

    Indices have 32 bits if possible, because scikit-learn's clustering accepts no others. The
    caller's matrix is not changed.
    """
    if not sp.issparse(X):
        return X
    X = sp.csr_array(X)
    if X.indices.dtype != np.int32 and max(*X.shape, X.nnz) < 2**31:
        X = sp.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def with_room(X: Any, bound: float) -> Any:
    """Return rows in float64 if sums of squares may overflow; see `check_finite` for `bound`."""
    max_float32 = 1e15
    if X.dtype != np.float32 or bound <= max_float32 or largest_magnitude(X) <= max_float32:
        return X
    return X.astype(np.float64)


def validated(estimator: Any, X: Any, y: Any = "no_validation", linear: bool = False, **options: Any) -> Any:
    """Validate rows for training, and labels if given, with scikit-learn and further checks.

    Raises ValueError or TypeError naming what is wrong. Rows must be a square matrix for
    ``kernel="precomputed"``. With `linear`, features whose squares overflow are also refused;
    kernels have their own limits. `options` are those of scikit-learn's `validate_data`.
    """
    pairwise = getattr(estimator, "kernel", None) == "precomputed"
    with columns_named(X, type(estimator).__name__):
        options |= {"accept_sparse": False if pairwise else "csr", "accept_large_sparse": True}
        found = validate_data(estimator, X, y, dtype=STORED_DTYPES, order="C", ensure_all_finite=False, **options)
    X, *labels = found if isinstance(found, tuple) else (found,)
    if pairwise and X.shape[0] != X.shape[1]:
        raise ValueError(f"kernel='precomputed' needs a square matrix of kernel values, got shape {X.shape}")
    names = getattr(estimator, "feature_names_in_", None)
    bound = check_finite(X, columns=names)
    if linear:
        check_features(X, bound, names)
    X = canonical(with_room(X, bound))
    return (X, *labels) if labels else X


def queries(estimator: Any, X: Any, order: str | None = "C") -> Any:
    """Validate rows for prediction with scikit-learn and further checks."""
    check_is_fitted(estimator)
    with columns_named(X, type(estimator).__name__):
        X = validate_data(
            estimator, X, reset=False, accept_sparse="csr", dtype=STORED_DTYPES, order=order, ensure_all_finite=False
        )
    check_finite(X, columns=getattr(estimator, "feature_names_in_", None))
    return X


def training_data(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    classes: NDArray[Any] | None = None,
    linear: bool = False,
) -> TrainingData:
    """Validate the arguments of `fit`, or of `partial_fit` with known classes, and return the training data.

    Raises ValueError or TypeError naming what is wrong; see `validated`.
    """
    is_continued = classes is not None and hasattr(estimator, "classes_")
    check_no_missing_label(y)
    X, y = validated(estimator, X, y, linear, reset=not is_continued)
    check_classification_targets(y)
    given = sample_weights(sample_weight, X)
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
    codes, weights = np.searchsorted(present, y[kept]).astype(np.int64), given[kept]
    if len(kept) < len(y):
        X = rows_of(estimator, X, kept)
    return with_class_weight(TrainingData(X, codes, present, weights, weights, kept, len(y)), estimator.class_weight)


def with_class_weight(data: TrainingData, class_weight: Any) -> TrainingData:
    """Multiply row weights by class weights; raises ValueError naming what is wrong."""
    weights = data.row_weights
    if class_weight is not None:
        totals = np.bincount(data.y, weights, len(data.classes)).astype(np.float64)
        weights = weights * class_factors(class_weight, data.classes, totals, "class_weight")[data.y]
    check_weights(weights, data.kept, by_class=class_weight is not None)
    return replace(data, weights=weights)


def narrow(data: TrainingData) -> TrainingData:
    """Drop columns without values from wide sparse rows; return other data unchanged."""
    if not is_wide(data.X):
        return data
    columns = KeptColumns.of(data.X)
    return replace(data, X=columns.narrow(data.X), columns=columns)


def on_stored_columns(data: TrainingData, more: Indices | None = None) -> tuple[TrainingData, Indices | None]:
    """Drop empty columns, except `more`, of sparse rows with more columns than values.

    The second result holds the sorted indices of the kept columns. It is None for other data, which
    are returned unchanged.
    """
    X = data.X
    if not sp.issparse(X) or X.shape[1] <= X.nnz:
        return data, None
    columns = stored_columns(X)
    columns = columns if more is None else np.union1d(columns, more)
    return replace(data, X=on_columns(X, columns)), columns


def thinned(data: TrainingData, min_rows: int = 2048) -> TrainingData:
    """Convert dense rows of zeros and ones, or of zeros and another number, to sparse rows.

    The compiled core counts the features that sparse rows of equal numbers share, which is faster
    for one-hot columns such as those of a9a (123 columns, 11% nonzero) and phishing (68 columns,
    44% nonzero). Rows stay dense if they are fewer than `min_rows`, for which a copy does not pay
    off, have few columns, or have more than half nonzeros.
    """
    X = data.X
    if sp.issparse(X) or X.shape[0] < min_rows or X.shape[1] < 32:
        return data
    first, n_stored = None, 0
    # Most other data are recognised in the first batch, which is therefore small.
    for batch in gen_batches(X.shape[0], _MAX_BATCH_ROWS // 16):
        stored = X[batch]
        stored = stored[stored != 0]
        first, n_stored = stored[:1] if first is None else first, n_stored + len(stored)
        if n_stored > 0.5 * X.size or (stored != first).any():
            return data
    return replace(data, X=sp.csr_array(X), is_thinned=True)


def merged(data: TrainingData, min_rows: int = 2048) -> TrainingData:
    """Merge equal rows with the same label into the first of them, with the sum of their weights.

    Equal rows have equal margins, so the sum of their losses is the loss of one row with the sum of
    their weights: the problem and its objectives stay the same. The cost of a solve grows with the
    square of the number of distinct rows, which are 21% of skin_nonskin, 53% of phishing, 80% of
    a9a and 83% of cod-rna. Data with fewer than `min_rows` rows, or few equal rows, are returned
    unchanged, because a copy does not pay off.
    """
    n = len(data.y)
    if n < min_rows:
        return data
    keys = row_keys(data.X, data.y, np.zeros(n), 0)
    # Weights are summed in the order of their values, so sums do not depend on the order of the
    # rows.
    order = np.lexsort((data.weights, keys))
    alike = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    if len(alike) < (1 - 0.95) * n:  # A copy pays off if at most 95% of the rows are distinct.
        return data
    begins = np.ones(n, dtype=bool)  # True for rows that differ from the row before.
    begins[alike + 1] = ~_are_equal(data, order[alike], order[alike + 1])
    starts = np.flatnonzero(begins)
    first = np.minimum.reduceat(order, starts)
    by_first = np.argsort(first)
    first = first[by_first]
    standing_for = np.empty(n, dtype=np.int64)
    standing_for[order] = np.argsort(by_first)[np.cumsum(begins) - 1]
    weights, row_weights = (np.add.reduceat(own[order], starts)[by_first] for own in (data.weights, data.row_weights))
    rows = {name: getattr(data, name)[first] for name in ("X", "y", "kept")} | {"kept_before": data.kept}
    return replace(data, **rows, weights=weights, row_weights=row_weights, standing_for=standing_for)


def _are_equal(data: TrainingData, some: Indices, others: Indices) -> NDArray[np.bool_]:
    """Compare pairs of rows with their labels."""
    equal: NDArray[np.bool_] = data.y[some] == data.y[others]
    for batch in gen_batches(len(some), _MAX_BATCH_ROWS):
        unlike = data.X[some[batch]] != data.X[others[batch]]
        equal[batch] &= np.asarray(unlike.sum(axis=1)).ravel() == 0
    return equal


def rows_of(estimator: Any, X: Any, indices: Indices) -> Any:
    """Return some rows; with ``kernel="precomputed"``, also only their columns."""
    pairwise = getattr(estimator, "kernel", None) == "precomputed"
    return X[np.ix_(indices, indices)] if pairwise else X[indices]


def class_factors(given: Any, classes: NDArray[Any], weights: Floats | None, name: str) -> Floats:
    """Return the factor of a ``class_weight`` for each class.

    `weights` are the total weights of the classes. Raises ValueError naming the parameter, `name`.
    """
    factors = _class_weights(given, classes, classes, weights)
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        raise ValueError(f"{name} must be positive for every class, got {given!r}")
    return np.asarray(factors, dtype=np.float64)


def _class_weights(given: Any, classes: NDArray[Any], y: NDArray[Any], weights: Floats | None) -> Floats:
    """Return a factor per class; "balanced" counts weights, as the newest scikit-learn does."""
    if isinstance(given, str) and given == "balanced":
        counts = np.bincount(np.searchsorted(classes, y), weights, len(classes))
        with np.errstate(divide="ignore"):
            return np.asarray(counts.sum() / (len(classes) * counts))
    if not isinstance(given, dict):
        return np.asarray(compute_class_weight(given, classes=classes, y=y))
    # scikit-learn would treat the texts "007" and "7" as the same class 7.
    labels = classes.tolist()
    absent = [label for label in labels if label not in given]
    if absent and len(given) + len(absent) > len(labels):
        raise ValueError(f"The classes, {absent}, are not in class_weight")
    return np.array([given.get(label, 1.0) for label in labels], dtype=np.float64)


def gamma_value(gamma: str | float, X: Any, weights: Floats, columns: KeptColumns | None = None) -> float:
    """Return `gamma` as a number; "scale" is ``1 / (n_features X.var())`` with weighted rows.

    `columns` are the columns of wider rows that are kept in X; gamma is that of the wider rows.
    """
    if columns is not None:
        X = columns.widen(X)
    variance, n_features = np.nan, X.shape[1]
    share = weights / weights.sum() / n_features
    X, occurring = narrowed(X)
    if gamma == "scale":
        with np.errstate(over="ignore", invalid="ignore"):
            mean = (share @ X).sum(dtype=np.float64)
            if sp.issparse(X) and X.nnz == X.shape[0] * n_features:
                X = X.data.reshape(X.shape)
            if sp.issparse(X):
                variance = (share @ X.multiply(X)).sum() - mean**2
            else:
                batches = gen_batches(len(X), _MAX_BATCH_ROWS)
                variance = sum(float(share[s] @ np.square(X[s] - mean).sum(axis=1)) for s in batches)
            variance = beyond_rounding(variance, mean)
    return gamma_of(gamma, n_features, variance, lambda: int(occurring[largest_column(X)]))


def beyond_rounding(variance: float, mean: float) -> float:
    """Return a variance, or zero if it may be only the rounding of the mean."""
    # The mean of equal numbers has a relative error of about 1e-16.
    return 0.0 if variance < 1e-26 * mean**2 else variance


def gamma_of(gamma: str | float, n_features: int, variance: float, largest: Callable[[], int]) -> float:
    """Return `gamma` as a number, given the variance of all values of the rows.

    Raises ValueError naming the largest column if "scale" is used and the variance is not finite.
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
