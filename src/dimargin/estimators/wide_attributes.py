"""Fitted attributes with a value per column, stored sparsely for models of wide sparse rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dimargin.kernels.column_statistics import SparseColumns, narrowed
from dimargin.system.arrays import Floats, Indices


class WideArray:
    """Attribute that is set to an array or `SparseColumns`, and read as an array.

    The array for `SparseColumns` is created on access, and read-only; it is a CSR array if they say
    so. If it does not fit into
    memory, the attribute raises AttributeError, because code that looks at all attributes, such as
    diagrams in notebooks, would fail with other errors.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        kept = kept_of(estimator, self._name)
        try:
            if not isinstance(kept, SparseColumns):
                return kept
            return kept.csr() if kept.is_csr else kept.dense()
        except MemoryError as error:
            raise AttributeError(str(error), name=self._name, obj=estimator) from error

    def __set__(self, estimator: Any, value: Any) -> None:
        vars(estimator).pop(self._name, None)
        vars(estimator)[f"_{self._name}"] = value

    def __delete__(self, estimator: Any) -> None:
        del vars(estimator)[f"_{self._name}"]


def kept_of(estimator: Any, name: str, *default: Any) -> Any:
    """Return an attribute or the default; a `WideArray` is returned as it is stored."""
    if isinstance(getattr(type(estimator), name, None), WideArray):
        own = vars(estimator)
        for key in (f"_{name}", name):  # Older pickles have the name without underscore.
            if key in own:
                return own[key]
        if not default:
            kind = type(estimator).__name__
            raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=estimator)
        return default[0]
    return getattr(estimator, name, *default)


def set_attributes(estimator: Any, attributes: dict[str, Any]) -> None:
    """Set attributes by name."""
    for name, value in attributes.items():
        setattr(estimator, name, value)


def combination(weights: Floats, X: Any) -> Any:
    """Compute ``weights @ X`` as a `WideArray`, only for non-empty columns if X has few."""
    narrow, columns = narrowed(X)
    values = np.asarray(weights @ narrow, dtype=np.float64)
    return values if narrow is X else SparseColumns(values, columns, X.shape[1])


def on(value: Any, columns: Indices | None) -> Floats:
    """Return the values for these columns (None: all) from a result of `kept_of`."""
    if isinstance(value, SparseColumns):
        return value.dense() if columns is None else value.on(columns)
    return np.asarray(value if columns is None else value[..., columns])


def nonzero_columns(value: Any) -> Indices:
    """Return the columns of a result of `kept_of` in which a number is not zero, ascending."""
    if isinstance(value, SparseColumns):
        return value.columns[value.values.any(axis=0)]
    return np.flatnonzero(value.any(axis=0))


def in_float32(value: Any) -> Any:
    """Return a result of `kept_of` in float32, itself if it is; raises ValueError for one too large."""
    numbers = value.values if isinstance(value, SparseColumns) else value
    if numbers.dtype == np.float32:
        return value
    with np.errstate(over="ignore"):
        rounded: Any = numbers.astype(np.float32)
    if not np.isfinite(rounded).all():
        raise ValueError(f"coef_ has a number too large for float32: {np.abs(numbers).max():.3g}")
    return replace(value, values=rounded) if isinstance(value, SparseColumns) else rounded
