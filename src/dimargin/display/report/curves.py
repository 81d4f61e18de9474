"""ROC, precision-recall and calibration curves of a classifier, thinned for plotting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_curve

from dimargin.display.probability_scores import Groups, predicted_outcomes, probability_scores
from dimargin.display.report.predictions import Predictions, interval
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class ClassCurves:
    """Curves of one class against all others."""

    index: int
    roc: tuple[Floats, Floats]  # False and true positive rates.
    area: float
    precision_recall: tuple[Floats, Floats]  # Recall comes before precision, as plots need it.
    average_precision: float


@dataclass(frozen=True)
class Reliability:
    """Observed frequencies of predictions in groups of about equal size, sorted by score.

    Attributes
    ----------
    score, share : ndarray of shape (n_groups,)
        Mean score and observed frequency of each group.
    low, high : ndarray of shape (n_groups,)
        95% interval of the observed frequency.
    is_probability : bool
        Whether scores are probabilities (which frequencies should match) or decision values.
    scores : dict of str to float
        Values of `probability_scores`, empty without probabilities.
    """

    score: Floats
    share: Floats
    low: Floats
    high: Floats
    is_probability: bool
    scores: dict[str, float]


def thinned(x: Floats, y: Floats, points: int = 400) -> tuple[Floats, Floats]:
    """Thin a curve to at most `points` evenly spaced points, with both ends.

    More points than by default would not change how a curve looks.
    """
    if len(x) <= points:
        return x, y
    steps = np.zeros(len(x))
    for values in (x, y):
        extent = float(np.ptp(values))
        steps[1:] += np.abs(np.diff(values)) / extent if extent else 0.0
    along = np.cumsum(steps)
    indices = np.unique(np.searchsorted(along, np.linspace(0, along[-1], points)).clip(0, len(x) - 1))
    indices[-1] = len(x) - 1
    return x[indices], y[indices]


def class_curves(found: Predictions) -> list[ClassCurves]:
    """Return the curves of every class for which there are rows of this class and of others."""
    curves = []
    for index in np.flatnonzero((found.counts > 0) & (found.counts < found.n_rows)).tolist():
        is_it = found.true == index
        values = found.values if found.values.ndim == 2 else np.stack([-found.values, found.values], axis=1)
        score = values[:, index]
        false, true, _ = roc_curve(is_it, score)
        precision, recall, _ = precision_recall_curve(is_it, score)
        average = float(average_precision_score(is_it, score))
        area = float(auc(false, true))
        curves.append(ClassCurves(index, thinned(false, true), area, thinned(recall, precision), average))
    return curves


def reliability(found: Predictions) -> Reliability | None:
    """Return observed frequencies in up to ten groups of scores, or None with fewer than 40 rows.

    With two classes, the frequency is that of the second class; with more, that of correct
    predictions.
    """
    if found.n_rows < 40:
        return None
    two, scores = len(found.classes) == 2, dict[str, float]()
    if found.probabilities is None:
        score, came_true = found.values if two else found.certainty, found.true == (1 if two else found.predicted)
    else:
        score, came_true = predicted_outcomes(found.true, found.probabilities)
        scores = probability_scores(found.true, found.probabilities, np.arange(len(found.classes)))
    groups = Groups.of(score, came_true)
    counts = np.rint(groups.share * groups.weight)
    bounds: Any = np.array([interval(*pair) for pair in zip(counts, groups.weight, strict=True)])
    return Reliability(
        score=groups.score,
        share=groups.share,
        low=bounds[:, 0],
        high=bounds[:, 1],
        is_probability=found.probabilities is not None,
        scores=scores,
    )
