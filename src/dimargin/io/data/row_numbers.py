"""Features that number the rows, which reveal all labels in a file that is sorted by class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.io.data.chunks import DataSet, short

_MIN_ROWS = 10  # Fewer rows may be numbered in order by chance.


def remarks_on_row_numbers(path: Path | str, data: DataSet) -> tuple[str, ...]:
    """Return a remark for each feature that is 0, 1, 2, ... or 1, 2, 3, ... in the order of the rows."""
    first = 0 if data.zero_based or data.zero_based is None else 1
    names = data.feature_names
    return tuple(
        remark_on_row_number(path, f"{k + first}" if names is None else short(repr(names[k])), column)
        for k, column in _candidates(data.X)
        if is_row_number(column)
    )


def remark_on_row_number(path: Path | str, name: str, column: Any) -> str:
    """Return a remark on a feature that numbers the rows."""
    return (
        f"{path}: feature {name} numbers the rows from {column[0]:g}, and a model may learn the order of the file from "
        "it; exclude it by --drop, in Python by drop="
    )


def is_row_number(column: Any) -> bool:
    """Return whether values are 0, 1, 2, ... or 1, 2, 3, ..."""
    n = len(column)
    if n < _MIN_ROWS or column[0] not in (0, 1) or column[-1] - column[0] != n - 1:
        return False
    return bool((column == np.arange(n) + column[0]).all())


def _candidates(X: Any) -> Iterator[tuple[int, Any]]:
    """Yield up to 16 columns that end with the number of rows, or one less, with indices."""
    n = X.shape[0]
    if n < _MIN_ROWS:
        return
    last = X[[n - 1]].tocsr() if sp.issparse(X) else X[-1]
    values, columns = (last.data, last.indices) if sp.issparse(X) else (last, np.arange(len(last)))
    # Each candidate among sparse columns costs a pass over the rows.
    for k in columns[(values == n - 1) | (values == n)][:16].tolist():
        yield k, X[:, [k]].toarray()[:, 0] if sp.issparse(X) else X[:, k]
