"""Margins of classifiers for two or more classes, and their statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class WeightedMargins:
    """Margins and row weights, both of shape (n_samples,)."""

    margins: Floats
    weights: Floats

    @property
    def mean(self) -> float:
        """Weighted mean of the margins."""
        return float(np.average(self.margins, weights=self.weights))

    @property
    def variance(self) -> float:
        """Weighted variance of the margins."""
        return float(np.average((self.margins - self.mean) ** 2, weights=self.weights))

    @property
    def error(self) -> float:
        """Share of the total weight with margins at or below zero."""
        return float(np.average(self.margins <= 0, weights=self.weights))

    @property
    def cumulative(self) -> tuple[Floats, Floats]:
        """Sorted margins, the first one twice, and the cumulative share of weight from 0 to 1."""
        order = np.argsort(self.margins, kind="stable")
        share = np.cumsum(self.weights[order]) / self.weights.sum()
        return self.margins[np.r_[order[:1], order]], np.r_[0.0, share]

    def __str__(self) -> str:
        return f"mean {self.mean:.3g}, variance {self.variance:.3g}, errors {self.error:.1%}"


def margins_of(y_true: Any, y_score: Any, classes: NDArray[Any]) -> Floats:
    """Compute margins from decision values.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
    y_score : array-like of shape (n_samples,) for two classes, else (n_samples, n_classes)
    classes : ndarray of shape (n_classes,)
        Labels of the columns; with two classes, a positive value predicts ``classes[1]``.

    Returns
    -------
    ndarray of shape (n_samples,)
        ``y f(x)`` for two classes, else the value of the true class minus the largest other value.

    Raises
    ------
    ValueError
        If the shapes do not match, or `y_true` has labels that are not in `classes`.
    """
    y_true, scores = column_or_1d(y_true), np.asarray(y_score, dtype=np.float64)
    check_consistent_length(y_true, scores)
    unknown = np.setdiff1d(y_true, classes)
    if len(unknown):
        raise ValueError(f"labels must be among the classes {classes.tolist()}, got {unknown.tolist()} too")
    if len(classes) < 2:
        raise ValueError(f"margins need two classes or more, got {classes.tolist()}; pass all of them as classes")
    expected = (len(y_true),) if len(classes) == 2 else (len(y_true), len(classes))
    if scores.shape != expected:
        raise ValueError(
            f"decision values of {len(classes)} classes and {len(y_true)} rows must have shape {expected}, "
            f"got {scores.shape}"
        )
    if len(classes) == 2:
        return np.where(y_true == classes[1], scores, -scores)
    true = y_true[:, None] == classes
    margins: Floats = scores[true] - np.where(true, -np.inf, scores).max(axis=1)
    return margins
