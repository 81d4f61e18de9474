"""Base class of the regressors, and their training data in units of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from dimargin.estimators.fit_plan import DataSize
from dimargin.estimators.input_checks import check_magnitude, check_number, check_weights, sample_weights
from dimargin.estimators.margin_machine import MarginMachine
from dimargin.estimators.training_data import TrainingData, rows_of, validated
from dimargin.problems.losses import Loss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import Objectives
from dimargin.problems.regression_losses import EpsilonInsensitiveLoss, SquaredEpsilonInsensitiveLoss
from dimargin.strategies import LevelModel, Outcome, Progress
from dimargin.system.arrays import Floats, Indices

MAX_TARGET = 1e100
"""Largest absolute target, so that squares of residuals and objectives stay within float64."""


@dataclass(frozen=True)
class RegressionData(TrainingData):
    """Validated training data with targets in units of their own, in which residuals are near one.

    The centre is subtracted from the targets if there is an unregularised intercept, and the rest is divided by the
    unit, a power of two: objectives then are smaller by the square of the unit, up to no rounding at all. The bits of
    the targets take the place of classes, so that rows are ordered and merged by the same rules.

    Attributes
    ----------
    y : ndarray of shape (n,)
        The bits of the targets, as whole numbers.
    lost : float
        Bound of the rounding of a target by subtracting the centre, in the caller's units.
    """

    lost: float = 0.0

    @property
    def targets(self) -> Floats:
        """Targets in their own units."""
        return self.y.view(np.float64)

    @property
    def labels(self) -> Floats:
        """Ones, of shape (1, n): margins are decision values."""
        return np.ones((1, len(self.y)))

    @property
    def size(self) -> DataSize:
        """Numbers that the plan of a fit depends on; there is one decision function, as for two classes."""
        return DataSize(len(self.y), self.X.shape[1], int(self.X.size), (len(self.y), 0))


class MarginRegressor(RegressorMixin, MarginMachine):
    """Base class of the regressors, with the losses of residuals.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of each row; larger is less regularised.
    epsilon : float, default=0.1
        Half width of the band of residuals without loss, in the units of y. At least 0.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
    """

    C: float
    epsilon: float
    loss: str

    def _loss(self) -> Loss:
        return self.loss_for(1.0)

    def loss_for(self, unit: float) -> Loss:
        """Return the loss of residuals in these units, divided by their square."""
        check_magnitude("C", self.C)
        check_number("epsilon", self.epsilon, 0, MAX_TARGET, low_included=True, high_included=True)
        if self.loss == "epsilon_insensitive":
            return EpsilonInsensitiveLoss(float(self.C) / unit, float(self.epsilon) / unit)
        if self.loss == "squared_epsilon_insensitive":
            return SquaredEpsilonInsensitiveLoss(float(self.C), float(self.epsilon) / unit)
        raise ValueError(f"loss must be one of 'epsilon_insensitive', 'squared_epsilon_insensitive', got {self.loss!r}")

    def _losses(self, data: TrainingData) -> MarginLosses:
        assert isinstance(data, RegressionData)
        return replace(super()._losses(data), loss=self.loss_for(data.unit), targets=data.targets)

    def _training_data(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> RegressionData:
        y = targets_of(y)
        X, y = validated(self, X, y, self._is_linear, y_numeric=True, reset=reset)
        y = np.asarray(y, dtype=np.float64)
        given = sample_weights(sample_weight, X)
        kept = np.flatnonzero(given > 0)
        weights, n_given = given[kept], len(y)
        check_weights(weights, kept)
        if len(kept) < n_given:
            X, y = rows_of(self, X, kept), y[kept]
        return self.in_units(X, y, weights, kept, n_given)

    def in_units(self, X: Any, y: Floats, weights: Floats, kept: Indices, n_given: int) -> RegressionData:
        """Return the training data of validated rows, with the targets in units of their own."""
        centre = median_of(y, weights) if self._has_intercept else 0.0
        if self._has_intercept and np.ptp(y) <= 2 * self.epsilon:  # This constant has no loss, and is the solution.
            centre = float(y.min() + y.max()) / 2
        unit = unit_of(y - centre, weights)
        units: dict[str, Any] = {"centre": centre, "unit": unit, "lost": float(rounding_of_sums(y, -centre).max())}
        return RegressionData(X, bits_of(y, centre, unit), np.empty(0), weights, weights, kept, n_given, **units)

    def in_given_units(self, found: Any, data: TrainingData) -> Any:
        """Return a result, a model or parameters that a strategy has found, for the caller's targets."""
        if isinstance(found, np.ndarray):
            return np.column_stack([data.unit * found[:, :-1], data.unit * found[:, -1] + data.centre])
        if isinstance(found, LevelModel):
            intercept = data.unit * found.intercept + data.centre
            return replace(found, coefficients=data.unit * found.coefficients, intercept=intercept)
        square = data.unit**2
        history = [entry | {"objective": (square * np.asarray(entry["objective"])).tolist()} for entry in found.history]
        found = replace(found, objectives=self._objectives_in_given_units(found.objectives, data), history=history)
        if isinstance(found, Outcome):
            return replace(found, model=self.in_given_units(found.model, data))
        dual = None if found.dual is None else data.unit * found.dual
        return replace(found, weights=data.unit * found.weights, dual=dual)

    def _objectives_in_given_units(self, objectives: Objectives, data: Any) -> Objectives:
        square, own = data.unit**2, objectives.intercept
        primal, intercept = square * objectives.primal, data.unit * own + data.centre
        # Targets and the intercept are rounded once more; this bounds what that adds to the losses.
        shift, cost = (
            data.lost + rounding_of_sums(data.unit * own, data.centre),
            float(self.C) * float(data.weights.sum()),
        )
        size, is_smooth = np.abs(primal), self._loss().smooth
        if not size.any():
            # The model is a constant whose band holds all targets, unless rounding moves one of them out of it.
            beyond = np.abs(own - data.targets) - self.epsilon / data.unit + rounding_of_sums(own, -data.targets)
            excess = np.maximum(data.unit * beyond.max() + shift, 0.0)
            added = cost * (excess**2 if is_smooth else excess)
            return Objectives.of(added, np.zeros_like(added), intercept, added)
        added = 2 * shift * np.sqrt(cost * size) + cost * shift**2 if is_smooth else cost * shift
        return Objectives.of(primal, objectives.unrounded * size, intercept, objectives.rounding * size + added)

    def followed(self, progress: Progress, data: TrainingData) -> Progress:
        """See `MarginMachine`."""
        return GivenUnits(progress, data.unit**2)

    def _data_to_certify(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Return validated data with the features of the fitted model."""
        return self._training_data(X, y, sample_weight, reset=False)

    def predict(self, X: Any) -> Floats:
        """Predict targets, of shape (n_samples,)."""
        return self._decision_values(X)


class GivenUnits(Progress):
    """Receiver of a strategy's progress that passes it on with objectives in the caller's units."""

    def __init__(self, progress: Progress, square: float) -> None:
        self._progress, self._square = progress, square

    def level_begin(self, level: int, n_tasks: int | None) -> None:
        """See `Progress`."""
        self._progress.level_begin(level, n_tasks)

    def task_end(self, index: int) -> None:
        """See `Progress`."""
        self._progress.task_end(index)

    def check(self, entry: dict[str, Any]) -> bool:
        """See `Progress`."""
        return self._progress.check(self._in_given_units(entry))

    def level_end(self, entry: dict[str, Any], found: Callable[[], Any]) -> bool:
        """See `Progress`."""
        return self._progress.level_end(self._in_given_units(entry), found)

    def _in_given_units(self, entry: dict[str, Any]) -> dict[str, Any]:
        return entry | {"objective": (np.asarray(entry["objective"]) * self._square).tolist()}


def targets_of(y: Any) -> Any:
    """Return targets as they are given; raises ValueError naming the first row that is not a number in range."""
    values = np.asarray(y)
    if y is None or values.dtype.kind == "c" or values.shape[1:] not in ((), (1,)):
        return y  # scikit-learn refuses them.
    if values.dtype.kind in "OUS":
        for row, value in enumerate(values.ravel().tolist()):
            try:
                float(value)
            except (TypeError, ValueError, OverflowError):
                raise ValueError(f"y must be numbers, but row {row} is {value!r:.9}; classifiers take labels") from None
    elif values.dtype.kind not in "biuf":
        raise ValueError(f"y must be numbers, got an array of {values.dtype}")
    values = values.ravel().astype(np.float64)
    outside = np.flatnonzero(~(np.abs(values) <= MAX_TARGET))
    if len(outside):
        what = f"row {outside[0]} of y is {values[outside[0]]:g}; drop such rows, or divide y by a number"
        raise ValueError(f"targets must be finite and at most {MAX_TARGET:g} in absolute value, but {what}")
    return y


def bits_of(y: Floats, centre: float, unit: float) -> Indices:
    """Return the bits of targets in their own units, as whole numbers."""
    return ((y - centre) / unit + 0.0).view(np.int64)  # Adding zero removes -0.0.


def rounding_of_sums(one: Floats, other: Floats | float) -> Floats:
    """Return the absolute rounding errors of sums (Knuth's TwoSum)."""
    total = one + other
    back = total - one
    return np.abs((one - (total - back)) + (other - back))


def median_of(values: Floats, weights: Floats) -> float:
    """Return the weighted median, the lower one of two: weights count as repetitions."""
    order = np.lexsort((weights, values))
    sums = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(sums, sums[-1] / 2)]])


def unit_of(centred: Floats, weights: Floats) -> float:
    """Return a power of two near the median absolute value (if zero, the mean), at least 2^-40 of the largest."""
    sizes = np.abs(centred)
    size = max(median_of(sizes, weights) or float(np.average(sizes, weights=weights)), 2.0**-40 * float(sizes.max()))
    return 2.0 ** round(math.log2(min(max(size, 1e-60), 1e60))) if size > 0 else 1.0
