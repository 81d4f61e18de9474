"""Checks of parameters and data; errors name what is wrong, where, and what was expected."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from dimargin.problems.losses import MAX_PARAMETER, MIN_PARAMETER
from dimargin.system.arrays import Floats


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    low_included: bool = False,
    high_included: bool = False,
    whole: bool = False,
    or_none: bool = False,
) -> None:
    """Raise an error unless `value` is a finite number in the given range, or None if `or_none`.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is out of range, infinite or NaN.
    """
    if or_none and value is None:
        return
    interval = f"{'[' if low_included else '('}{low:g}, {high:g}{']' if high_included else ')'}"
    expected = f"{name} must be a {'whole' if whole else 'finite'} number in {interval}, got {value!r}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral if whole else numbers.Real):
        raise TypeError(expected)
    try:
        number = float(value)
    except OverflowError:  # Integers may have hundreds of digits.
        number = math.inf
    above = number >= low if low_included else number > low
    below = number <= high if high_included else number < high
    if not (above and below and math.isfinite(number)):
        raise ValueError(expected)


def check_flag(name: str, value: Any) -> None:
    """Raise TypeError unless a parameter is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_limits(estimator: Any) -> None:
    """Raise an error if the tolerance or a limit of an estimator is out of range."""
    check_number("tol", estimator.tol, 0)
    check_number("max_iter", estimator.max_iter, 1, low_included=True, whole=True)
    check_number("max_time", estimator.max_time, 0, or_none=True)


def seed_of(random_state: Any) -> int:
    """Draw the seed of a fit from the ``random_state`` of an estimator."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def sample_weights(given: Any, X: Any) -> Floats:
    """Return row weights, by default ones; raises ValueError or TypeError if invalid."""
    weights = _check_sample_weight(given, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():  # scikit-learn before version 1.9 does not check this.
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return np.asarray(weights)


def check_no_missing_label(y: Any) -> None:
    """Raise ValueError for a label that is None or NaN among labels of any type."""
    labels = np.asarray(y)
    if labels.dtype == object and labels.ndim:
        for row, label in enumerate(labels.ravel().tolist()):
            if label is None or (isinstance(label, float) and label != label):
                raise ValueError(f"label {row} is missing ({label!r}); y must have a label for every row")


@contextmanager
def columns_named(X: Any, estimator: str) -> Iterator[None]:
    """Replace errors of the block by one that names a non-numeric column, if there is one."""
    try:
        yield
    except (ValueError, TypeError) as error:
        found = _first_non_number(X)
        if found is None:
            raise
        name, row, value, among_numbers = found
        helps = (
            f"If it is a missing value, read it as one, for example with pandas.read_csv(..., na_values=[{value!r}]), "
            f"and impute it: make_pipeline(SimpleImputer(), {estimator}())"
            if among_numbers
            else f"Drop the column, or encode it, for example with make_pipeline(make_column_transformer("
            f"(OneHotEncoder(handle_unknown='ignore'), [{name!r}]), remainder='passthrough'), {estimator}())"
        )
        raise ValueError(f"column {name!r} holds {value!r} (row {row}), expected numbers. {helps}") from error


def _first_non_number(X: Any) -> tuple[Any, int, Any, bool] | None:
    """Return column, row and value of the first non-number in a data frame or array of texts, or None.

    The last value is whether most of the column are numbers.
    """
    is_frame = hasattr(X, "columns") and hasattr(X, "__getitem__")
    if not is_frame and not (isinstance(X, np.ndarray) and X.dtype.kind in "OU" and X.ndim == 2):
        return None
    for name in X.columns if is_frame else range(X.shape[1]):
        values = np.asarray(X[name] if is_frame else X[:, name])
        if values.ndim != 1 or values.dtype.kind in "biuf":
            continue
        texts = values.astype(str) if values.dtype.kind == "M" else values
        others = [(row, value) for row, value in enumerate(texts.tolist()) if not _is_number(value)]
        if others and (is_frame or isinstance(others[0][1], str)):
            return name, *others[0], 2 * len(others) < len(values)
    return None


def _is_number(value: Any) -> bool:
    """Return whether a value of a data frame becomes a number, which None does: NaN."""
    try:
        return value is None or float(value) is not None
    except (ValueError, TypeError):
        return False


def check_finite(X: Any, name: str = "X", columns: NDArray[Any] | None = None) -> float:
    """Raise ValueError for NaN, infinite values and damaged CSR arrays, naming row and column.

    Returns
    -------
    float
        Upper bound of the absolute values; infinite if it would take another pass over them.
    """
    if sp.issparse(X):
        _check_indices(X, name)
    data = X.data if sp.issparse(X) else X
    values = data.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        square = float(np.dot(values, values)) if values.dtype.kind == "f" else np.inf
    if np.isfinite(square):
        return math.nextafter(2 * square**0.5, np.inf)  # The factor 2 covers rounding, also in float32.
    if bool(np.isfinite(data).all()):
        return math.inf
    row, column, value = _first(X, ~np.isfinite(data))
    kind = "NaN" if np.isnan(value) else "infinity"
    label = f"{column}" if columns is None else f"{column} ({columns[column]!r})"
    raise ValueError(
        f"Input {name} contains {kind} (row {row}, column {label}); every value must be finite. "
        "Impute or drop such rows first."
    )


def _first(X: Any, which: NDArray[np.bool_]) -> tuple[int, int, Any]:
    """Return row, column and value of the first stored value that the mask selects."""
    if sp.issparse(X):
        index = int(np.flatnonzero(which)[0])
        return int(np.searchsorted(X.indptr, index, side="right")) - 1, int(X.indices[index]), X.data[index]
    row, column = (int(i[0]) for i in np.nonzero(which))
    return row, column, X[row, column]


def check_magnitude(name: str, value: float) -> None:
    """Raise an error unless `value` is a positive number whose products stay in the range of float64."""
    check_number(name, value, 0)
    if not MIN_PARAMETER <= value <= MAX_PARAMETER:
        raise ValueError(
            f"{name} must be in [{MIN_PARAMETER:g}, {MAX_PARAMETER:g}], got {value!r}, whose products may leave the "
            "range of float64"
        )


def check_weights(weights: Floats, indices: NDArray[np.intp], by_class: bool = False) -> None:
    """Raise ValueError naming the first positive weight that is too small or too large for float64.

    Parameters
    ----------
    weights : ndarray of shape (n,)
    indices : ndarray of shape (n,)
        Indices of the caller's rows.
    by_class : bool
        Whether the weights include `class_weight`.
    """
    beyond = np.flatnonzero(~((weights >= MIN_PARAMETER) & (weights <= MAX_PARAMETER)))
    if len(beyond):
        name = "sample_weight times class_weight" if by_class else "sample_weight"
        raise ValueError(
            f"{name} must be 0 or in [{MIN_PARAMETER:g}, {MAX_PARAMETER:g}], got {weights[beyond[0]]:g} in row "
            f"{indices[beyond[0]]}, whose products may leave the range of float64"
        )


def largest_magnitude(X: Any) -> float:
    """Return the largest absolute value in dense or sparse rows."""
    data = X.data if sp.issparse(X) else X
    return max(float(data.max(initial=0.0)), -float(data.min(initial=0.0)))


def check_features(X: Any, bound: float = math.inf, columns: NDArray[Any] | None = None) -> None:
    """Raise ValueError naming row and column of the first value whose squares may overflow.

    `bound` is what `check_finite` returned.
    """
    if bound <= MAX_PARAMETER or largest_magnitude(X) <= MAX_PARAMETER:
        return
    row, column, value = _first(X, np.abs(X.data if sp.issparse(X) else X) > MAX_PARAMETER)
    label = f"{column}" if columns is None else f"{column} ({columns[column]!r})"
    raise ValueError(
        f"column {label} of X is too large: {value:g} in row {row}; expected magnitudes up to {MAX_PARAMETER:g}. "
        "Scale the columns first."
    )


def check_objectives(primal: Any, dual: Any, gap: Any) -> None:
    """Raise ValueError unless objectives and gap are finite."""
    if not (np.isfinite(primal).all() and np.isfinite(dual).all() and np.isfinite(gap).all()):
        raise ValueError(
            f"objective {primal}, dual objective {dual} and gap {gap} are not finite: the values of X, the weights or "
            "the parameters are so large or small that their products leave the range of float64. Scale the columns "
            "first."
        )


def _check_indices(X: Any, name: str) -> None:
    """Raise ValueError unless the indices of a CSR array are consistent with its shape.

    SciPy checks this only when an array is created, and its compiled functions follow invalid
    indices even out of the array's memory.
    """
    offsets, (n_rows, n_columns) = X.indptr, X.shape
    stored = min(len(X.indices), len(X.data))
    damaged = f"{name} is a damaged CSR array: "
    if len(offsets) != n_rows + 1 or offsets[0] != 0 or offsets[-1] > stored:
        raise ValueError(
            f"{damaged}indptr has {len(offsets)} entries from {offsets[:1].tolist()} to {offsets[-1:].tolist()}; "
            f"expected {n_rows + 1} entries from 0 to at most {stored}, the number of stored values"
        )
    falls = offsets[1:] < offsets[:-1]
    if falls.any():
        row = int(falls.argmax())
        raise ValueError(f"{damaged}row {row} ends at {offsets[row + 1]}, before its start at {offsets[row]}")
    used = X.indices[: offsets[-1]]
    # Negative indices are the largest unsigned numbers, so one pass checks both ends.
    if len(used) and used.view(f"u{used.itemsize}").max() >= n_columns:
        index = int(np.flatnonzero((used < 0) | (used >= n_columns))[0])
        row = int(np.searchsorted(offsets, index, side="right")) - 1
        raise ValueError(f"{damaged}row {row} has a value in column {used[index]} of {n_columns}")
