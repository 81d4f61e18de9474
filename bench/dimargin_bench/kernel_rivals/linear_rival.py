"""Base of the linear rivals: ``alpha/2 |w|^2 + mean hinge``, of dense or sparse rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from dimargin.estimators.validated_data import queries, training_data
from dimargin.estimators.validation import check_magnitude, check_number
from dimargin.problems.hinge import HingeRows
from dimargin.problems.one_vs_rest import codes_of
from dimargin.system.arrays import Floats
from dimargin.system.threads import single_threaded_blas


@dataclass(eq=False, repr=False)
class LinearRival(ClassifierMixin, BaseEstimator):
    """Base class of the rivals that minimise the objective of `dimargin.GossipSVMClassifier` on one computer.

    Parameters
    ----------
    alpha : float, default=1e-4
        Weight of the regulariser, ``1 / (C n_samples)`` of other support vector machines.
    fit_intercept : bool, default=False
        Whether a constant feature is added, whose coefficient is regularised like the others.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had column names.
    coef_ : ndarray of shape (n_outputs, n_features_in_)
        One output for two classes, else one a class, against the rest.
    intercept_ : ndarray of shape (n_outputs,)
        Zero without `fit_intercept`.
    objective_ : float, or ndarray of shape (n_classes,) for more than two classes
    """

    class_weight = None  # what the checks of the data ask for, and these machines do not have

    alpha: float = 1e-4
    fit_intercept: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels; more than two classes are separated one against the rest.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter or data out of range; the message names the parameter, row or column.
        """
        check_number("alpha", self.alpha, 0)
        check_magnitude("alpha", self.alpha)
        self._check()
        data = training_data(self, X, y, None, linear=True)
        with single_threaded_blas():
            rows = HingeRows(self._with_constant(data.X), data.labels)
            weights = self._learn(rows)
            objectives = self._objectives(rows, weights)
        self.classes_ = data.classes
        self.coef_ = weights[:, : data.X.shape[1]].copy()
        self.intercept_ = weights[:, -1].copy() if self.fit_intercept else np.zeros(len(weights))
        self.objective_ = float(objectives[0]) if len(objectives) == 1 else objectives
        return self

    @abstractmethod
    def _check(self) -> None:
        """Raise an error for a parameter out of its range."""

    @abstractmethod
    def _learn(self, rows: HingeRows) -> Floats:
        """Return weights of shape (n_outputs, n_features), of the constant feature last."""

    def _objectives(self, rows: HingeRows, weights: Floats) -> Floats:
        """Return the objectives of weights, of shape (n_outputs,)."""
        loss = rows.evaluate(weights).loss / rows.n_rows
        return np.asarray(0.5 * float(self.alpha) * (weights**2).sum(axis=1) + loss)

    def _with_constant(self, X: Any) -> Any:
        if sp.issparse(X):
            X = sp.csr_array(X, dtype=np.float64)
            return sp.csr_array(sp.hstack([X, np.ones((X.shape[0], 1))])) if self.fit_intercept else X
        X = np.asarray(X, dtype=np.float64)
        return np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X

    def decision_function(self, X: Any) -> Floats:
        """Return decision values of shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        X = queries(self, X, order=None)
        values: Floats = np.asarray((sp.csr_array(X) if sp.issparse(X) else X) @ self.coef_.T) + self.intercept_
        return values[:, 0] if len(self.coef_) == 1 else values

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels, of shape (n_samples,)."""
        values = self.decision_function(X)
        return np.asarray(self.classes_[codes_of(values)])
