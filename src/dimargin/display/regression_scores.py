"""Scores of predicted numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.system.arrays import Floats


def regression_scores(y: Any, predicted: Floats, weights: Floats | None = None) -> dict[str, float | None]:
    """Return R2, the mean absolute error and the root of the mean squared error of predictions.

    R2 is None if all numbers in `y` are equal.

    Examples
    --------
    >>> regression_scores([1.0, 2.0, 6.0], np.array([1.0, 3.0, 6.0]))["mean_absolute_error"]
    0.3333333333333333
    """
    y = np.asarray(y, dtype=np.float64)
    squares = np.average((y - predicted) ** 2, weights=weights)
    spread = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
    return {
        "r2": None if np.ptp(y) == 0 else float(1 - squares / spread),
        "mean_absolute_error": float(np.average(np.abs(y - predicted), weights=weights)),
        "root_mean_squared_error": float(np.sqrt(squares)),
    }
