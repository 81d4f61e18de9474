"""Checks of parameters and data that name what is wrong, where, and what was expected."""

from __future__ import annotations

import math
import numbers
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    low_included: bool = False,
    high_included: bool = False,
    whole: bool = False,
) -> None:
    """Raise unless `value` is a finite number in the given range.

    Raises
    ------
    TypeError
        If it is no number.
    ValueError
        If it is out of range, infinite or NaN.
    """
    interval = f"{'[' if low_included else '('}{low:g}, {high:g}{']' if high_included else ')'}"
    expected = f"{name} must be a {'whole' if whole else 'finite'} number in {interval}, got {value!r}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral if whole else numbers.Real):
        raise TypeError(expected)
    number = float(value)
    above = number >= low if low_included else number > low
    below = number <= high if high_included else number < high
    if not (above and below and math.isfinite(number)):
        raise ValueError(expected)


def check_finite(X: Any, name: str = "X", columns: NDArray[Any] | None = None) -> None:
    """Raise ValueError naming row and column of the first NaN or infinite value."""
    data = X.data if sp.issparse(X) else X
    if np.isfinite(np.sum(data, dtype=np.float64)) or bool(np.isfinite(data).all()):
        return
    if sp.issparse(X):
        place = int(np.flatnonzero(~np.isfinite(data))[0])
        row, column, value = int(np.searchsorted(X.indptr, place, side="right")) - 1, int(X.indices[place]), data[place]
    else:
        row, column = (int(i[0]) for i in np.nonzero(~np.isfinite(X)))
        value = X[row, column]
    kind = "NaN" if np.isnan(value) else "infinity"
    label = f"{column}" if columns is None else f"{column} ({columns[column]!r})"
    raise ValueError(
        f"Input {name} contains {kind} (row {row}, column {label}); every value must be finite. "
        "Impute or drop such rows first."
    )


def memory_of_process() -> int:
    """Bytes that this process may use: the machine's, or those that its container or its limits leave."""
    bounds = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        bounds.append(limit)
    with suppress(OSError, ValueError):  # no such file, or "max"
        bounds.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(bounds)


def check_memory(needed: int, limit: int | None) -> None:
    """Raise MemoryError, before any work, if the fit cannot fit.

    Parameters
    ----------
    needed : int
        Bytes, beside the data that the caller already holds.
    limit : int or None
        ``memory_limit``; None compares with what the process may use.
    """
    most = memory_of_process()
    if limit is not None and needed > limit:
        raise MemoryError(
            f"memory_limit={limit} bytes is too small: this fit needs about {needed} bytes beside the data. Raise the "
            "limit, pass fewer rows or columns, or use tol >= 1e-4, which needs no float64 copy"
        )
    if needed > most:
        raise MemoryError(
            f"this fit needs about {needed} bytes beside the data, and the machine has {most}. Pass fewer rows or "
            "columns"
        )
