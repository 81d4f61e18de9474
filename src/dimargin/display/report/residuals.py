"""Predictions of a regressor, and their residuals."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array

from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class Residuals:
    """Targets of rows, the numbers that were predicted for them, and the seconds that this took."""

    true: Floats
    predicted: Floats
    seconds: float

    @classmethod
    def of(cls, model: Any, X: Any, y: Any) -> Residuals:
        """Predict rows with a regressor; raises ValueError for targets that are not finite numbers."""
        true = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        began = time.perf_counter()
        predicted = np.asarray(model.predict(X), dtype=np.float64)
        return cls(true, predicted, time.perf_counter() - began)

    @property
    def values(self) -> Floats:
        """Targets minus predictions."""
        return self.true - self.predicted

    @property
    def deciles(self) -> list[dict[str, float]]:
        """Errors in groups of about equally many rows, in the order of the targets; ten, or fewer of few rows."""
        groups = np.array_split(np.argsort(self.true, kind="stable"), min(10, len(self.true)))
        return [
            {
                "low": self.true[rows[0]], "high": self.true[rows[-1]], "rows": len(rows),
                "center": self.true[rows].mean(), "residual": self.values[rows].mean(),
                "error": np.abs(self.values[rows]).mean(), "large": np.quantile(np.abs(self.values[rows]), 0.9),
            }
            for rows in groups
        ]  # fmt: skip
