"""Predictions of a classifier, and their scores."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from dimargin.display.margin_values import margins_of
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class Predictions:
    """Predictions of a classifier for labelled rows.

    Attributes
    ----------
    classes : list
        Labels; the other attributes hold indices into this list.
    true, predicted : ndarray of int of shape (n,)
    values : ndarray of shape (n,) for two classes, else (n, n_classes)
        Decision values; without a ``decision_function`` probabilities (two classes: minus 1/2).
    score : str
        Name of these values.
    probabilities : ndarray of shape (n, n_classes) or None
        None if the model has no ``predict_proba``.
    seconds : float
        Time that the predictions took.
    """

    classes: list[Any]
    true: Indices
    predicted: Indices
    values: Floats
    score: str
    probabilities: Floats | None
    seconds: float

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.true)

    @property
    def n_right(self) -> int:
        """Number of correct predictions."""
        return int((self.true == self.predicted).sum())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows of each class."""
        return np.bincount(self.true, minlength=len(self.classes))

    @cached_property
    def confusion(self) -> NDArray[np.int64]:
        """Confusion matrix of shape (n_classes, n_classes), with true classes as rows."""
        return np.asarray(confusion_matrix(self.true, self.predicted, labels=np.arange(len(self.classes))))

    @cached_property
    def by_class(self) -> tuple[Floats, Floats, Floats]:
        """Precision, recall and F1 of each class; NaN where they are undefined (0/0)."""
        found = precision_recall_fscore_support(
            self.true, self.predicted, labels=np.arange(len(self.classes)), zero_division=np.nan
        )
        return found[0], found[1], found[2]

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall of the classes that occur in the rows."""
        return float(self.by_class[1][self.counts > 0].mean())

    @cached_property
    def certainty(self) -> Floats:
        """Distance of each prediction from that of another class, whether or not it is correct."""
        if self.values.ndim == 1:
            return np.abs(self.values)
        two = np.partition(self.values, -2, axis=1)[:, -2:]
        certainty: Floats = two[:, 1] - two[:, 0]
        return certainty

    @cached_property
    def margins(self) -> Floats:
        """Margin of each row, negative if the prediction is wrong."""
        return margins_of(self.true, self.values, np.arange(len(self.classes)))


def interval(n_right: int, n_rows: int) -> tuple[float, float]:
    """Return Wilson's 95% interval for the share of independently drawn rows that are correct."""
    found = binomtest(int(n_right), int(n_rows)).proportion_ci(0.95, method="wilson")
    return float(found.low), float(found.high)


def predictions_of(model: Any, X: Any, y: Any) -> Predictions:
    """Predict rows with a classifier; raises ValueError for labels that it does not know."""
    classes = np.asarray(model.classes_).tolist()
    place = {label: k for k, label in enumerate(classes)}
    labels, inverse = np.unique(np.asarray(y), return_inverse=True)
    unknown = [label for label in labels.tolist() if label not in place]
    if unknown:
        raise ValueError(f"y: the model knows the classes {classes}, not {unknown}")
    true = np.array([place[label] for label in labels.tolist()], dtype=np.int64)[inverse]
    began = time.perf_counter()
    decide = getattr(model, "decision_function", None)
    values = None if decide is None else np.asarray(decide(X), dtype=np.float64)
    probabilities = np.asarray(model.predict_proba(X), dtype=np.float64) if hasattr(model, "predict_proba") else None
    score = "decision value"
    if values is None:
        if probabilities is None:
            raise TypeError(f"model must have a decision_function or predict_proba; {type(model).__name__} has none")
        values = probabilities[:, 1] - 0.5 if len(classes) == 2 else probabilities
        score = "probability minus one half" if len(classes) == 2 else "probability"
    seconds = time.perf_counter() - began
    predicted = (values > 0).astype(np.int64) if values.ndim == 1 else values.argmax(axis=1)
    return Predictions(classes, true, predicted, values, score, probabilities, seconds)
