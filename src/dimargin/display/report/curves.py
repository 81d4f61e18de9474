"""Curves of a classifier: what they are, as few points as a picture needs, and the figures below them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_curve

from dimargin.display.report.predictions import Predictions, interval
from dimargin.system.arrays import Floats

POINTS = 400  # of a curve, beyond which a picture looks no different
_BINS, _ROWS_OF_A_BIN = 10, 20


@dataclass(frozen=True)
class ClassCurves:
    """Curves of one class against all others."""

    index: int  # of the class
    roc: tuple[Floats, Floats]  # share of other rows, and of its own, that are taken for it
    area: float  # below it
    precision_recall: tuple[Floats, Floats]  # recall and precision
    average_precision: float


@dataclass(frozen=True)
class Reliability:
    """How often predictions of about the same score come true, in groups of equally many rows.

    Attributes
    ----------
    score, share : ndarray of shape (n_groups,)
        Mean score of the rows of a group, and the share that came true.
    low, high : ndarray of shape (n_groups,)
        95% interval of the share.
    is_probability : bool
        Whether scores are probabilities, which the shares should equal, or decision values.
    brier : float or None
        Mean squared distance of the probabilities from what came true, summed over the classes if there are more than
        two.
    """

    score: Floats
    share: Floats
    low: Floats
    high: Floats
    is_probability: bool
    brier: float | None


def thinned(x: Floats, y: Floats, points: int = POINTS) -> tuple[Floats, Floats]:
    """Return at most so many points of a curve, in equal steps along it, the first and the last among them."""
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
    """Return the curves of every class that there are rows of, and other rows."""
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
    """Return how often predictions come true, or None for too few rows to tell.

    Of two classes, what may come true is the second one; of more, the one that was predicted.
    """
    n_groups = min(_BINS, found.n_rows // _ROWS_OF_A_BIN)
    if n_groups < 2:
        return None
    two = len(found.classes) == 2
    if found.probabilities is None:
        score, came_true = found.values if two else found.certainty, found.true == (1 if two else found.predicted)
        brier = None
    else:
        score = found.probabilities[:, 1] if two else found.probabilities.max(axis=1)
        came_true = found.true == (1 if two else found.probabilities.argmax(axis=1))
        distance = found.probabilities - (found.true[:, None] == np.arange(len(found.classes)))
        brier = float((distance**2).sum(axis=1).mean()) / (2 if two else 1)
    groups = np.array_split(np.argsort(score, kind="stable"), n_groups)
    bounds: Any = np.array([interval(came_true[group].sum(), len(group)) for group in groups])
    return Reliability(
        score=np.array([score[group].mean() for group in groups]),
        share=np.array([came_true[group].mean() for group in groups]),
        low=bounds[:, 0],
        high=bounds[:, 1],
        is_probability=found.probabilities is not None,
        brier=brier,
    )
