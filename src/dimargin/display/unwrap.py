"""Access to the estimator inside pipelines, searches and calibration."""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from dimargin.estimators.nested_steps import flat_steps


def innermost(estimator: Any) -> Any:
    """Return the last step of a pipeline or the best estimator of a search, through any nesting."""
    return flat_steps(estimator)[-1][1]


def members(model: Any) -> list[Any]:
    """Return the models whose probabilities a `CalibratedClassifierCV` averages, without their calibration.

    With ``ensemble=False`` there is one. The steps before the `CalibratedClassifierCV` are steps of
    every member. Any other model is its own only member.
    """
    *before, (name, last) = flat_steps(model)
    inside = [one.estimator for one in getattr(last, "calibrated_classifiers_", [])]
    own = [one.estimator if isinstance(one, FrozenEstimator) else one for one in inside]
    return [Pipeline([*before, (name, one)]) if before else one for one in own] or [model]


def uncalibrated(model: Any) -> Any:
    """Return the only member of a calibrated model, else the model itself."""
    found = members(model)
    return found[0] if len(found) == 1 else model
