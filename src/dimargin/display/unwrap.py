"""Access to the estimator inside pipelines and searches."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline


def innermost(estimator: Any) -> Any:
    """Return the last step of a pipeline or the best estimator of a search, through any nesting."""
    while True:
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator
