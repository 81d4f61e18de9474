"""Coefficients of the features for kernel classifiers with a linear kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dimargin.kernels.functions import Kernel
from dimargin.system.arrays import Floats
from dimargin.system.memory import check_memory


class LinearKernelCoefficients:
    """Mixin of kernel classifiers with the attribute ``coef_`` for linear kernels."""

    n_features_in_: int
    intercept_: Floats
    dual_coef_: Floats
    support_vectors_: Any

    @property
    def coef_(self) -> Floats:
        """Coefficients of the features, computed from the support vectors; AttributeError for any other kernel."""
        check_is_fitted(self)
        own: Any = self
        kernel = own._transform.kernel
        if not isinstance(kernel, Kernel) or kernel.name != "linear":
            raise AttributeError(
                f"coef_ exists only with kernel='linear'; this {type(self).__name__} has kernel={own.kernel!r}",
                name="coef_",
                obj=self,
            )
        if own._router is not None:
            raise AttributeError(
                "coef_ exists only for a single decision function; this model predicts by clusters or by the mean of "
                "local machines. Fit with stop_level=0, or with strategy=DivideAndConquer(prediction='naive')",
                name="coef_",
                obj=self,
            )
        try:
            check_memory(8 * len(self.intercept_) * self.n_features_in_, None, "coef_")
        # Diagrams in notebooks look at all attributes, and would fail with a MemoryError.
        except MemoryError as error:
            raise AttributeError(str(error), name="coef_", obj=self) from error
        found = self._weights()
        found.flags.writeable = False  # Changes would not reach the model.
        return found

    def _weights(self) -> Floats:
        """Return sums of the support vectors with their coefficients, of shape (n_outputs, n_features_in_)."""
        return np.asarray(self.dual_coef_ @ self.support_vectors_)
