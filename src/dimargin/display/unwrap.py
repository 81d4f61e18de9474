"""The classifier inside pipelines and searches, whose parameters and history the displays read."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline


def innermost(estimator: Any) -> Any:
    """Return the classifier inside pipelines, as the last step, and searches, as the best estimator, to any depth."""
    while True:
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator
