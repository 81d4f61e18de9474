"""Oversampling of a rare class, which the GADGET paper names as future work of its study of a production line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone


@dataclass(eq=False, repr=False)
class Oversampled(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Classifier that is trained on rows of all classes in equal numbers: those of rarer ones are repeated.

    Parameters
    ----------
    estimator : classifier

    Attributes
    ----------
    resampled_ : classifier
        Trained on the repeated rows.
    classes_ : ndarray

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 0, 1, 1])
    >>> machine = Oversampled(DecisionTreeClassifier()).fit(X, y)
    >>> machine.resampled_.tree_.value[0].tolist()  # shares of the classes
    [[0.5, 0.5]]
    """

    estimator: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Train on as many rows of every class as the most frequent one has."""
        classes, counts = np.unique(y, return_counts=True)
        rows = np.concatenate([np.resize(np.flatnonzero(y == label), counts.max()) for label in classes])
        self.resampled_ = clone(self.estimator).fit(X[rows], np.asarray(y)[rows])
        self.classes_ = self.resampled_.classes_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels."""
        return np.asarray(self.resampled_.predict(X))
