"""Access to pandas data frames and Arrow tables, which may hold text and missing values."""

from __future__ import annotations

from typing import Any

from dimargin.system.arrays import Indices


def is_table(X: Any) -> bool:
    """Return whether rows are a data frame or a table instead of an array."""
    return hasattr(X, "columns")


def names_of_columns(X: Any) -> list[Any]:
    """Return the names of a table's columns."""
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def value_of(X: Any, row: int, column: int) -> Any:
    """Return one value of a table, or None if it is missing."""
    if hasattr(X, "column_names"):
        return X.column(column)[row].as_py()
    value = X.iloc[row, column]
    return None if value is None or value != value else value


def with_columns_from(X: Any, rows: Indices) -> Any:
    """Return a table whose value at (i, k) is that of the given table at (rows[i, k], k)."""
    if hasattr(X, "column_names"):
        for k, name in enumerate(X.column_names):
            X = X.set_column(k, name, X.column(k).take(rows[:, k]))
        return X
    X = X.copy()
    for k in range(X.shape[1]):
        X.isetitem(k, X.iloc[:, k].take(rows[:, k]).set_axis(X.index))
    return X
