"""Decision values and coefficients of machines with kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.decision_gradient import DecisionGradient
from dimargin.estimators.kernel_parameters import KernelEstimator
from dimargin.estimators.margin_machine import MarginMachine
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.user import Transform, kernel_matrix
from dimargin.strategies import Router
from dimargin.system.arrays import Floats
from dimargin.system.memory import check_memory
from dimargin.system.threads import effective_n_threads


class KernelPrediction(DecisionGradient, KernelEstimator, MarginMachine):
    """Base class of the machines with kernels, with their decision values."""

    n_features_in_: int
    intercept_: Floats
    dual_coef_: Floats
    support_vectors_: Any
    _transform: Transform
    _router: Router | None = None  # It combines several decision functions; most models have only one.

    def _decision_values(self, X: Any) -> Floats:
        n_rows, batches = self._batches(X)
        values = np.zeros((len(self.intercept_), n_rows))
        for batch, part in batches:
            values[:, batch] = self._values_of_batch(part)
        return values[0] if len(values) == 1 else values.T

    def _values_of_batch(self, part: Any) -> Floats:
        """Return decision values of shape (n_outputs, n_rows) for a batch of rows."""
        values = np.zeros((len(self.intercept_), part.shape[0]))
        if self.support_vectors_.shape[0] or self._router is not None:
            outgrown = self._transform.outgrown(part)
            if not outgrown.any():
                values = self._values(part)
            else:  # Separate calls make the value of a row independent of the other rows.
                for rows in (~outgrown, outgrown):
                    if part[rows].shape[0]:
                        values[:, rows] = self._values(part[rows])
        values += self.intercept_[:, None]
        return values

    def _values(self, part: Any) -> Floats:
        """Return decision values without intercept, of shape (n_outputs, n_rows)."""
        matrix = self._kernel_with(part)
        if self._router is not None:
            return self._router.decision_values(matrix, part, self.dual_coef_)
        return matrix.multiply(np.arange(len(self.support_)), self.dual_coef_)

    def _kernel_with(self, part: Any) -> KernelMatrix:
        """Return the matrix of kernel values of rows with the support vectors."""
        threads = effective_n_threads(self.n_jobs)
        return kernel_matrix(self._transform, self.support_vectors_, queries=part, n_threads=threads)

    # ---- coefficients of the features -----------------------------------------------------------------------------

    @property
    def coef_(self) -> Floats:
        """Coefficients of the features, computed from the support vectors; AttributeError for any other kernel."""
        check_is_fitted(self)
        kernel = self._transform.kernel
        if not isinstance(kernel, Kernel) or kernel.name != "linear":
            raise AttributeError(
                f"coef_ exists only with kernel='linear'; this {type(self).__name__} has kernel={self.kernel!r}",
                name="coef_",
                obj=self,
            )
        if self._router is not None:
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
