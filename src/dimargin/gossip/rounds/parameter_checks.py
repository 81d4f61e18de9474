"""Checks of the parameters of algorithms, whose errors name the expected values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def check_between(name: str, value: Any, low: float, high: float = math.inf, high_included: bool = False) -> None:
    """Raise ValueError unless a parameter is a number above `low` and below `high`, or equal to `high` if included."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (is_number and low < value and (value <= high if high_included else value < high)):
        upper = f"{high:g}{']' if high_included else ')'}"
        expected = f"above {low:g}" if math.isinf(high) else f"in ({low:g}, {upper}"
        raise ValueError(f"{name} must be a number {expected}, got {value!r}")


def check_whole(name: str, value: Any, low: int, high: float = math.inf) -> None:
    """Raise ValueError unless a parameter is a whole number from `low` to `high`, both included."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (is_whole and low <= value <= high):
        expected = f"not below {low}" if math.isinf(high) else f"in [{low}, {high:g}]"
        raise ValueError(f"{name} must be a whole number {expected}, got {value!r}")
