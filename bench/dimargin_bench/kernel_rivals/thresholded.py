"""Thresholded regression: a regression on labels of minus one and one, whose sign is the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.linear_model import RidgeCV
from sklearn.utils import get_tags

from dimargin.estimators.docstrings import documented
from dimargin.system.arrays import Floats
from dimargin_bench.kernel_rivals.checked_rows import BinaryRival, query_rows


@documented
@dataclass(eq=False, repr=False)
class ThresholdedRegression(MetaEstimatorMixin, BinaryRival):
    """Classifier by a regression on signs, as the GADGET paper's "thresholded (penalized) linear regression".

    Parameters
    ----------
    regressor : regressor or None, default=None
        Any of scikit-learn's kind; None is ``RidgeCV()``.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    regressor_ : regressor
        Fitted.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import ThresholdedRegression
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LassoCV
    >>> X, y = make_classification(2000, 10, class_sep=2.0, random_state=0)
    >>> ThresholdedRegression(LassoCV()).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    """

    regressor: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.regressor is None or get_tags(self.regressor).input_tags.sparse
        return tags

    def _check_parameters(self) -> None:
        """Leave the checks to the regressor."""

    def _train_on_signs(self, X: Any, signs: Floats) -> None:
        regressor = RidgeCV() if self.regressor is None else clone(self.regressor)
        self.regressor_ = regressor.fit(X, signs)

    def decision_function(self, X: Any) -> Floats:
        """Return what the regression says of rows, of shape (n_samples,)."""
        rows = query_rows(self, X)  # raises an error if there is no regressor yet
        return np.asarray(self.regressor_.predict(rows), dtype=np.float64)
