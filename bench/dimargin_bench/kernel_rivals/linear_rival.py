"""Base of the linear rivals: ``alpha/2 |w|^2 + mean hinge``, of dense or sparse rows."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_magnitude, check_number
from dimargin.problems.hinge import HingeRows
from dimargin.problems.one_vs_rest import labels_of
from dimargin.system.arrays import Floats
from dimargin.system.threads import single_threaded_blas
from dimargin_bench.kernel_rivals.checked_rows import Rival, query_rows


@documented
@dataclass(eq=False, repr=False)
class LinearRival(Rival):
    """Base class of the rivals that minimise the objective of `dimargin.GossipSVMClassifier` on one computer.

    Parameters
    ----------
    alpha : float, default=1e-4
        Weight of the regulariser, ``1 / (C n_samples)`` of other support vector machines.
    fit_intercept : bool, default=False
        Whether a constant feature is added, whose coefficient is regularised like the others.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    coef_ : ndarray of shape (n_outputs, n_features_in_)
        One output for two classes, else one a class, against the rest.
    intercept_ : ndarray of shape (n_outputs,)
        Zero without `fit_intercept`.
    objective_ : float, or ndarray of shape (n_classes,) for more than two classes
    seconds_ : float
        Of the training, without the checks of the data.
    """

    alpha: float = 1e-4
    fit_intercept: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        check_number("alpha", self.alpha, 0)
        check_magnitude("alpha", self.alpha)

    def _train(self, X: Any, y: NDArray[Any]) -> None:
        self.classes_, codes = np.unique(y, return_inverse=True)
        with single_threaded_blas():
            rows = HingeRows(self._with_constant(X), labels_of(codes, len(self.classes_)))
            began = time.perf_counter()
            weights = self._learn(rows)
            self.seconds_ = time.perf_counter() - began
            objectives = self._objectives(rows, weights)
        self.coef_ = weights[:, : X.shape[1]].copy()
        self.intercept_ = weights[:, -1].copy() if self.fit_intercept else np.zeros(len(weights))
        self.objective_ = float(objectives[0]) if len(objectives) == 1 else objectives

    @abstractmethod
    def _learn(self, rows: HingeRows) -> Floats:
        """Return weights of shape (n_outputs, n_features), of the constant feature last."""

    def _objectives(self, rows: HingeRows, weights: Floats) -> Floats:
        """Return the objectives of weights, of shape (n_outputs,)."""
        loss = rows.evaluate(weights).loss / rows.n_rows
        return np.asarray(0.5 * float(self.alpha) * (weights**2).sum(axis=1) + loss)

    def _with_constant(self, X: Any) -> Any:
        if not self.fit_intercept:
            return X
        ones = np.ones((X.shape[0], 1))
        return sp.csr_array(sp.hstack([X, ones])) if sp.issparse(X) else np.column_stack([X, ones])

    def decision_function(self, X: Any) -> Floats:
        """Return decision values of shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        X = query_rows(self, X)
        values = np.asarray(X @ self.coef_.T) + self.intercept_
        return np.asarray(values[:, 0] if len(self.coef_) == 1 else values)
