"""Rows that deserve inspection, with their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from dimargin.display.report.data_frames import is_table, value_of
from dimargin.display.report.predictions import Predictions
from dimargin.display.report.residuals import Residuals
from dimargin.display.report.words import number, plain
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class ShownRow:
    """A row with its number from 1 in the file, labels, and pairs of column name and formatted value."""

    number: int
    true: Any
    predicted: Any
    score: float
    values: list[tuple[str, str]]
    n_left_out: int


@dataclass(frozen=True)
class Rows:
    """Rows X, their numbers from 1 in the file, and the function from a column's index to its name."""

    X: Any
    numbers: Indices
    names: Callable[[int], str]


def least_certain(found: Predictions, rows: Rows, first: Indices) -> list[ShownRow]:
    """Return the rows whose predictions are least certain, whether or not they are correct."""
    return _shown(np.argsort(found.certainty, kind="stable"), found.certainty, rows, first, found)


def most_wrong(found: Predictions, rows: Rows, first: Indices) -> list[ShownRow]:
    """Return the wrong predictions that the model was most certain of."""
    wrong = np.flatnonzero(found.predicted != found.true)
    order = wrong[np.argsort(-found.certainty[wrong], kind="stable")]
    return _shown(order, found.certainty, rows, first, found)


def largest_errors(found: Residuals, rows: Rows, first: Indices) -> list[ShownRow]:
    """Return the rows whose predictions are farthest from the targets, with their residuals."""
    return _shown(np.argsort(-np.abs(found.values), kind="stable"), found.values, rows, first, found)


def by_score(score: Floats, rows: Rows, shown_score: Floats | None = None) -> list[ShownRow]:
    """Return the rows with the smallest scores, shown with `shown_score` if it is given."""
    none = np.empty(0, dtype=np.int64)
    return _shown(np.argsort(score, kind="stable"), score if shown_score is None else shown_score, rows, none)


def _shown(
    order: Indices,
    score: Floats,
    rows: Rows,
    first: Indices,
    found: Predictions | Residuals | None = None,
    max_rows: int = 10,
) -> list[ShownRow]:
    """Return the first rows in an order, with labels if there are predictions."""
    indices = order[:max_rows]

    def label(codes: Any, row: int) -> str:
        return plain(found.classes[codes[row]]) if isinstance(found, Predictions) else number(codes[row])

    true, predicted = (score, score) if found is None else (found.true, found.predicted)
    return [
        ShownRow(int(rows.numbers[i]), label(true, i), label(predicted, i), float(score[i]), values, left_out)
        for i, (values, left_out) in zip(indices, values_of(rows.X, rows.names, first, indices), strict=True)
    ]


def values_of(
    X: Any, names: Callable[[int], str], first: Indices, indices: Indices, max_values: int = 8
) -> list[tuple[list[tuple[str, str]], int]]:
    """Return names and at most `max_values` formatted values for some rows, and how many are left out.

    Columns in `first` come before others. Zeros of sparse rows are neither shown nor counted.
    """
    rows = _safe_indexing(X, indices)
    place = {int(column): k for k, column in enumerate(first)}
    texts = []
    for k in range(len(indices)):
        if sp.issparse(rows):
            here = rows[[k]].tocsr()
            columns, values = here.indices, here.data
        else:
            columns = np.concatenate([first, np.setdiff1d(np.arange(X.shape[1]), first)])[:max_values]
            values = [value_of(rows, k, int(j)) for j in columns] if is_table(rows) else rows[k, columns]
        chosen = np.argsort([place.get(int(j), len(place) + int(j)) for j in columns], kind="stable")[:max_values]
        shown = [(names(int(columns[j])), _value(values[j])) for j in chosen]
        total = len(columns) if sp.issparse(rows) else X.shape[1]
        texts.append((shown, total - len(shown)))
    return texts


def _value(value: Any) -> str:
    if value is None:
        return "missing"
    return number(float(value)) if isinstance(value, (int, float, np.number)) else plain(value)
