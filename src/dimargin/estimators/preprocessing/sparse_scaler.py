"""A scikit-learn transformer that scales sparse rows with very many columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from dimargin.estimators.training_data import STORED_DTYPES, canonical
from dimargin.kernels.column_statistics import on_columns, places_of, stored_columns

SCALERS: dict[str, Any] = {"maxabs": MaxAbsScaler(), "standard": StandardScaler(with_mean=False)}


@dataclass(eq=False, repr=False)
class SparseScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scaler of sparse rows that stores scales only for columns with values in the training rows.

    Rows are scaled as by scikit-learn's MaxAbsScaler or StandardScaler(with_mean=False); other
    columns are left unchanged. Rows of hashed features may have billions of columns.

    Parameters
    ----------
    method : {"maxabs", "standard"}, default="maxabs"
        Divide every column by its largest absolute value, or by its standard deviation.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had column names.
    columns_ : ndarray of shape (n_columns,)
        Sorted indices of the columns with values.
    scale_ : ndarray of shape (n_columns,)
        Divisors of these columns.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from dimargin.estimators.preprocessing import SparseScaler
    >>> X = sp.csr_array(([2.0, -4.0, 5.0], ([0, 1, 1], [7, 7, 10**9])), shape=(2, 10**10))
    >>> scaler = SparseScaler().fit(X)
    >>> scaler.columns_.tolist(), scaler.transform(X).data.tolist()
    ([7, 1000000000], [0.5, -1.0, 1.0])
    """

    method: str = "maxabs"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the scale of every column with values.

        Parameters
        ----------
        X : sparse matrix or array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        if self.method not in SCALERS:
            raise ValueError(f"method must be one of {', '.join(map(repr, SCALERS))}, got {self.method!r}")
        X = self._checked(X, reset=True)
        self.columns_ = stored_columns(X)
        scaler = clone(SCALERS[self.method]).fit(on_columns(X, self.columns_))
        self.scale_ = np.asarray(scaler.scale_, dtype=np.float64)
        return self

    def transform(self, X: Any) -> Any:
        """Scale the columns that had values in training, and return a CSR array."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        places, known = places_of(X.indices, self.columns_)
        scale = np.where(known, self.scale_[places], 1.0).astype(X.dtype)
        return sp.csr_array((X.data / scale, X.indices, X.indptr), shape=X.shape)

    def _checked(self, X: Any, reset: bool) -> Any:
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=STORED_DTYPES, accept_large_sparse=True)
        return canonical(sp.csr_array(X))
