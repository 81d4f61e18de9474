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
from dimargin.display.report.words import number, plain
from dimargin.system.arrays import Floats, Indices

SHOWN = 10  # A list has at most this many rows.
VALUES = 8  # A row is shown with at most this many values.


@dataclass(frozen=True)
class ShownRow:
    """A row with its position from 1, labels, and pairs of column name and formatted value."""

    place: int
    true: Any
    predicted: Any
    score: float
    values: list[tuple[str, str]]
    n_left_out: int


def least_certain(found: Predictions, X: Any, names: Callable[[int], str], first: Indices) -> list[ShownRow]:
    """Return the rows whose predictions are least certain, whether or not they are correct."""
    indices = np.argsort(found.certainty, kind="stable")[:SHOWN]
    return _shown(found, X, names, first, indices, found.certainty)


def most_wrong(found: Predictions, X: Any, names: Callable[[int], str], first: Indices) -> list[ShownRow]:
    """Return the wrong predictions that the model was most certain of."""
    wrong = np.flatnonzero(found.predicted != found.true)
    indices = wrong[np.argsort(-found.certainty[wrong], kind="stable")[:SHOWN]]
    return _shown(found, X, names, first, indices, found.certainty)


def by_score(
    score: Floats, X: Any, names: Callable[[int], str], first: Indices, shown_score: Floats | None = None
) -> list[ShownRow]:
    """Return the rows with the smallest scores, shown with `shown_score` if it is given."""
    indices = np.argsort(score, kind="stable")[:SHOWN]
    shown = score if shown_score is None else shown_score
    return [
        ShownRow(int(i) + 1, None, None, float(shown[i]), values, left_out)
        for i, (values, left_out) in zip(indices, values_of(X, names, first, indices), strict=True)
    ]


def _shown(
    found: Predictions, X: Any, names: Callable[[int], str], first: Indices, indices: Indices, score: Floats
) -> list[ShownRow]:
    return [
        ShownRow(
            place=int(i) + 1,
            true=plain(found.classes[found.true[i]]),
            predicted=plain(found.classes[found.predicted[i]]),
            score=float(score[i]),
            values=values,
            n_left_out=left_out,
        )
        for i, (values, left_out) in zip(indices, values_of(X, names, first, indices), strict=True)
    ]


def values_of(
    X: Any, names: Callable[[int], str], first: Indices, indices: Indices
) -> list[tuple[list[tuple[str, str]], int]]:
    """Return names and formatted values for some rows, and how many values are left out.

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
            columns = np.concatenate([first, np.setdiff1d(np.arange(X.shape[1]), first)])[:VALUES]
            values = [value_of(rows, k, int(j)) for j in columns] if is_table(rows) else rows[k, columns]
        chosen = np.argsort([place.get(int(j), len(place) + int(j)) for j in columns], kind="stable")[:VALUES]
        shown = [(names(int(columns[j])), _value(values[j])) for j in chosen]
        total = len(columns) if sp.issparse(rows) else X.shape[1]
        texts.append((shown, total - len(shown)))
    return texts


def _value(value: Any) -> str:
    if value is None:
        return "missing"
    return number(float(value)) if isinstance(value, (int, float, np.number)) else plain(value)
