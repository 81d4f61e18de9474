"""Fitted attributes with a number for every column, of which models of wide sparse rows keep a few columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.kernels.column_statistics import SparseColumns, narrowed
from dimargin.system.arrays import Floats, Indices


class WideArray:
    """Attribute that is set to an array or to `SparseColumns`, and read as an array.

    The array of `SparseColumns` is made when it is asked for, and read-only. Where it does not fit into memory the
    attribute is absent: an error of another kind would end what looks at all attributes, as diagrams in notebooks do.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        kept = kept_of(estimator, self._name)
        try:
            return kept.dense() if isinstance(kept, SparseColumns) else kept
        except MemoryError as error:
            raise AttributeError(str(error), name=self._name, obj=estimator) from error

    def __set__(self, estimator: Any, value: Any) -> None:
        vars(estimator).pop(self._name, None)
        vars(estimator)[f"_{self._name}"] = value

    def __delete__(self, estimator: Any) -> None:
        del vars(estimator)[f"_{self._name}"]


def kept_of(estimator: Any, name: str, *default: Any) -> Any:
    """Return an attribute: if it is a `WideArray`, as it is kept. A default is for one that is not there."""
    if isinstance(getattr(type(estimator), name, None), WideArray):
        own = vars(estimator)
        for key in (f"_{name}", name):  # the latter in pickles of before
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
    """Return ``weights @ X`` as the value of a `WideArray`: of sparse X the columns that occur, if these are few."""
    narrow, columns = narrowed(X)
    values = np.asarray(weights @ narrow, dtype=np.float64)
    return values if narrow is X else SparseColumns(values, columns, X.shape[1])


def on(value: Any, columns: Indices | None) -> Floats:
    """Return the numbers of these columns, or of all if these are None, of a value that `kept_of` returned."""
    if isinstance(value, SparseColumns):
        return value.dense() if columns is None else value.on(columns)
    return np.asarray(value if columns is None else value[..., columns])
