"""Scores of predicted probabilities: log loss, Brier score, and how far they are from observed frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from dimargin.system.arrays import Floats, Indices

_MAX_GROUPS = 10


@dataclass(frozen=True)
class Groups:
    """Groups of about equally many rows with similar scores; equal scores are in the same group.

    Attributes
    ----------
    score, share : ndarray of shape (n_groups,)
        Weighted mean of the score, and of whether the outcome came true.
    weight : ndarray of shape (n_groups,)
        Sum of the row weights.
    """

    score: Floats
    share: Floats
    weight: Floats

    @classmethod
    def of(cls, score: Floats, came_true: NDArray[np.bool_], weights: Floats | None = None) -> Groups:
        """Make up to ten groups, of at least 20 rows each if there are 20 rows; rows of weight zero do not count."""
        weights = np.ones(len(score)) if weights is None else weights
        score, came_true, weights = score[weights > 0], came_true[weights > 0], weights[weights > 0]
        n_groups = min(_MAX_GROUPS, max(1, len(score) // 20))
        edges = np.unique(np.quantile(score, np.arange(1, n_groups) / n_groups))
        index = np.unique(np.searchsorted(edges, score), return_inverse=True)[1]
        weight: Floats = np.bincount(index, weights).astype(np.float64)
        score, share = (np.bincount(index, weights * values) / weight for values in (score, came_true))
        return cls(score, share, weight)

    @property
    def error(self) -> float:
        """Weighted mean distance between score and share: for probabilities, the expected calibration error."""
        return float(np.average(np.abs(self.score - self.share), weights=self.weight))


def predicted_outcomes(true: Indices, probabilities: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the probabilities that are compared with frequencies, and whether their outcome came true.

    With two classes, the outcome is the second class; with more, that the prediction is correct.
    """
    if probabilities.shape[1] == 2:
        return probabilities[:, 1], true == 1
    return probabilities.max(axis=1), true == probabilities.argmax(axis=1)


def probability_scores(
    y: Any, probabilities: Floats, classes: NDArray[Any], weights: Floats | None = None
) -> dict[str, float]:
    """Compute scores of probabilities, all of which are better if they are smaller.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        True labels, all of which are in `classes`.
    probabilities : ndarray of shape (n_rows, n_classes)
    classes : ndarray of shape (n_classes,)
        Sorted labels of the columns.
    weights : ndarray of shape (n_rows,) or None

    Returns
    -------
    dict of str to float
        ``log_loss`` as scikit-learn computes it; ``brier_score``, the mean squared distance from
        the outcomes, with more than two classes summed over the classes; ``calibration_error``, the
        mean distance between probability and frequency in ten groups of rows.

    Examples
    --------
    >>> import numpy as np
    >>> probabilities = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> scores = probability_scores(["ham", "spam"], probabilities, np.array(["ham", "spam"]))
    >>> {name: round(score, 3) for name, score in scores.items()}
    {'log_loss': 0.164, 'brier_score': 0.025, 'calibration_error': 0.05}
    """
    true, two = np.searchsorted(classes, np.asarray(y)), len(classes) == 2
    squares = ((probabilities - (true[:, None] == np.arange(len(classes)))) ** 2).sum(axis=1)
    return {
        "log_loss": float(log_loss(true, probabilities, labels=np.arange(len(classes)), sample_weight=weights)),
        "brier_score": float(np.average(squares, weights=weights)) / (2 if two else 1),
        "calibration_error": Groups.of(*predicted_outcomes(true, probabilities), weights).error,
    }
