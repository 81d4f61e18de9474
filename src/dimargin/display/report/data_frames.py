"""Data frames of pandas and tables of Arrow, whose columns may hold texts, and nothing in some rows."""

from __future__ import annotations

from typing import Any

from dimargin.system.arrays import Indices


def is_table(X: Any) -> bool:
    """Return whether rows are a data frame or a table, and no array."""
    return hasattr(X, "columns")


def names_of_columns(X: Any) -> list[Any]:
    """Return the names of a table's columns."""
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def value_of(X: Any, row: int, column: int) -> Any:
    """Return a single value of a table, None where there is none."""
    if hasattr(X, "column_names"):
        return X.column(column)[row].as_py()
    value = X.iloc[row, column]
    return None if value is None or value != value else value


def with_columns_from(X: Any, rows: Indices) -> Any:
    """Return a table each of whose values is taken from the row whose index stands in its place in `rows`."""
    if hasattr(X, "column_names"):
        for k, name in enumerate(X.column_names):
            X = X.set_column(k, name, X.column(k).take(rows[:, k]))
        return X
    X = X.copy()
    for k in range(X.shape[1]):
        X.isetitem(k, X.iloc[:, k].take(rows[:, k]).set_axis(X.index))
    return X
