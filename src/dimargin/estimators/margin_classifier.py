"""Base class of all margin classifiers."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from dimargin.estimators.margin_machine import MarginMachine
from dimargin.estimators.training_data import TrainingData, training_data
from dimargin.problems.one_vs_rest import codes_of
from dimargin.system.arrays import Floats


class MarginClassifier(ClassifierMixin, MarginMachine):
    """Base class of all classifiers.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    """

    class_weight: dict[Any, float] | str | None

    def _training_data(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        return training_data(self, X, y, sample_weight, linear=self._is_linear)

    def _has_classes_of(self, data: TrainingData) -> bool:
        return np.array_equal(self.classes_, data.classes)

    @property
    def predict_proba(self) -> NoReturn:
        """Absent, also for `hasattr`; the error explains how to get probabilities."""
        raise no_probabilities(self)

    def decision_function(self, X: Any) -> Floats:
        """Compute the decision values of rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Positive values mean ``classes_[1]``. With more classes, a column is one class against
            the rest; of a machine for every pair of classes, see the parameter `pair_scores`.
        """
        return self._decision_values(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels, of shape (n_samples,)."""
        values = self.decision_function(X)
        return np.asarray(self.classes_[codes_of(values)])


def no_probabilities(estimator: Any) -> AttributeError:
    """Return the error for `predict_proba`, which ``VotingClassifier(voting="soft")`` raises."""
    kind = type(estimator).__name__
    return AttributeError(
        f"{kind} has no predict_proba; use CalibratedClassifierCV({kind}(...), ensemble=False) to turn decision "
        "values into probabilities, also for soft voting, or train by dimargin train --probabilities "
        "(docs/probabilities.md)",
        name="predict_proba",
        obj=estimator,
    )
