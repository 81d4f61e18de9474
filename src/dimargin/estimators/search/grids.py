"""Default grids of a search, and values beyond the edges of a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from dimargin.estimators import LinearODMClassifier, LinearSVMClassifier, SVMClassifier
from dimargin.estimators.training_data import TrainingData, gamma_value

WIDENED = ("gamma", "lam", "C")
"""Parameters that are positive and have no upper bound, whose grids are geometric."""


def default_grid(estimator: Any, data: TrainingData) -> list[dict[str, Any]]:
    """Return the grid for a machine: gamma around "scale", and the weights of losses that suit most data."""
    if isinstance(estimator, LinearSVMClassifier):
        return [{"C": [0.01, 0.1, 1.0, 10.0, 100.0]}]
    linear = isinstance(estimator, LinearODMClassifier)
    # A linear machine cannot pull all margins close to one, so its band is wide.
    pairs = [(0.5, 0.95)] if linear else [(0.5, 0.3), (0.1, 0.1), (0.5, 0.8)]
    bands = [{"upsilon": [upsilon], "theta": [theta]} for upsilon, theta in pairs]
    if linear:
        return [{**band, "lam": [1e1, 1e2, 1e3, 1e4, 1e5, 1e6]} for band in bands]
    shared: dict[str, list[Any]] = {"lam": [1e4, 1e5, 1e6]}
    if isinstance(estimator, SVMClassifier):
        shared, bands = {"C": [0.1, 1.0, 10.0, 100.0, 1000.0]}, [{}]
    if estimator.kernel != "linear" and not callable(estimator.kernel):
        scale = gamma_value("scale", data.X, data.weights, data.columns)
        shared["gamma"] = [float(scale * times) for times in (0.25, 1, 4, 16, 64)]
    return [{**band, **shared} for band in bands]


def edges(best: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the parameters whose best value is the smallest or largest of three or more that were tried.

    Examples
    --------
    >>> tried = [{"gamma": gamma, "C": C} for gamma in (1.0, 2.0, 4.0) for C in (1.0, 10.0)]
    >>> edges({"gamma": 4.0, "C": 10.0}, tried)
    {'gamma': 'largest'}
    """
    found = {}
    for name in WIDENED:
        values = _values(name, candidates)
        if len(values) >= 3 and best.get(name) in (values[0], values[-1]):
            found[name] = "smallest" if best[name] == values[0] else "largest"
    return found


def beyond(best: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return a value beyond every edge that the best candidate is at, as far from it as the one before it.

    Examples
    --------
    >>> tried = [{"gamma": gamma, "C": 1.0} for gamma in (1.0, 2.0, 8.0)]
    >>> beyond({"gamma": 8.0, "C": 1.0}, tried), beyond({"gamma": 1.0, "C": 1.0}, tried)
    ({'gamma': 32.0}, {'gamma': 0.5})
    """
    found = {}
    for name, end in edges(best, candidates).items():
        values = _values(name, candidates)
        found[name] = values[0] ** 2 / values[1] if end == "smallest" else values[-1] ** 2 / values[-2]
    return found


def widened(best: Mapping[str, Any], values: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the candidates that differ from the best one by each of these values, and by all of them."""
    one_by_one = [{**best, name: value} for name, value in values.items()]
    return [*one_by_one, {**best, **values}] if len(values) > 1 else one_by_one


def _values(name: str, candidates: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the numbers of a parameter that were tried, in ascending order."""
    return sorted({float(one[name]) for one in candidates if isinstance(one.get(name), Real)})
