"""Base class of the linear classifiers, whose decision values are computed from rows as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.estimators.common import MarginClassifier
from dimargin.estimators.data import queries
from dimargin.system.arrays import Floats


class LinearMarginClassifier(MarginClassifier):
    """Base class of the linear classifiers."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _can_resume_on(self, X: Any) -> bool:
        return bool(X.shape[1] == self.n_features_in_)

    @property
    def _facts(self) -> dict[str, Any]:
        return {"coefficients": self.coef_.size, "privacy": "coefficients only: no training row is in the model"}

    def decision_function(self, X: Any) -> Floats:
        """Return the decision values of rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Positive means ``classes_[1]``; with more classes, one against the rest each.
        """
        X = queries(self, X, order=None)
        values: Floats = np.asarray((sp.csr_array(X) if sp.issparse(X) else X) @ self.coef_.T) + self.intercept_
        return values[:, 0] if len(self.coef_) == 1 else values
