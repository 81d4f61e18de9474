"""Base class of the linear classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.estimators.margin_classifier import MarginClassifier
from dimargin.estimators.training_data import queries
from dimargin.estimators.wide_attributes import WideArray, kept_of
from dimargin.kernels.column_statistics import SparseColumns, rows_on
from dimargin.system.arrays import Floats, Indices


class LinearMarginClassifier(MarginClassifier):
    """Base class of the linear classifiers."""

    coef_ = WideArray()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _kept_columns(self) -> Indices | None:
        """Columns that the model has coefficients for; None for all."""
        kept = kept_of(self, "coef_")
        return kept.columns if isinstance(kept, SparseColumns) else None

    def _of_columns(self, coefficients: Floats, columns: Indices | None) -> Any:
        """Return coefficients of these columns (None: all) in the form that the model keeps."""
        return coefficients if columns is None else SparseColumns(coefficients, columns, self.n_features_in_)

    def can_resume_on(self, X: Any) -> bool:
        """Return whether X has the features of the model."""
        return bool(X.shape[1] == self.n_features_in_)

    def _decision_values(self, X: Any) -> Floats:
        X, weights = queries(self, X, order=None), kept_of(self, "coef_")
        X = sp.csr_array(X) if sp.issparse(X) else X
        if isinstance(weights, SparseColumns):
            X, weights = rows_on(X, weights.columns), weights.values
        values: Floats = np.asarray(X @ weights.T) + self.intercept_
        return values[:, 0] if len(weights) == 1 else values
