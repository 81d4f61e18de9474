"""Access to the estimator inside pipelines, searches and calibration."""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator
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


def members(model: Any) -> list[Any]:
    """Return the models whose probabilities a `CalibratedClassifierCV` averages, without their calibration.

    With ``ensemble=False`` there is one. The steps of a pipeline that ends with a
    `CalibratedClassifierCV` are steps of every member. Any other model is its own only member.
    """
    if isinstance(model, Pipeline):
        *before, (name, last) = model.steps
        inside = members(last)
        if inside[0] is last:
            return [model]
        return [Pipeline([*before, *(one.steps if isinstance(one, Pipeline) else [(name, one)])]) for one in inside]
    inside = [one.estimator for one in getattr(model, "calibrated_classifiers_", [])]
    return [one.estimator if isinstance(one, FrozenEstimator) else one for one in inside] or [model]


def uncalibrated(model: Any) -> Any:
    """Return the only member of a calibrated model, else the model itself."""
    found = members(model)
    return found[0] if len(found) == 1 else model
