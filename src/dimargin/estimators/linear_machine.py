"""Base classes of the linear machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.decision_gradient import DecisionGradient
from dimargin.estimators.margin_classifier import MarginClassifier
from dimargin.estimators.margin_machine import MarginMachine
from dimargin.estimators.training_data import queries
from dimargin.estimators.wide_attributes import WideArray, in_float32, kept_of, nonzero_columns, on
from dimargin.kernels.column_statistics import SparseColumns, rows_on
from dimargin.system.arrays import Floats, Indices
from dimargin.system.memory import check_memory


class LinearMachine(DecisionGradient, MarginMachine):
    """Base class of the linear machines, with their coefficients and decision values."""

    _is_linear = True
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

    # ---- storage of the coefficients -----------------------------------------------------------------------------

    def sparsify(self) -> Self:
        """Keep only columns with a nonzero coefficient, and show ``coef_`` as a CSR array.

        It is worth while if most columns are zero, for example because they do not occur in training.
        All methods work as before, and predictions are the same up to the order of their sums.
        Training sets ``coef_`` to an array again. ``coef_`` is created on access: changes of it do not
        change the model.

        Returns
        -------
        self

        Raises
        ------
        sklearn.exceptions.NotFittedError

        See Also
        --------
        densify : Reverse it.

        Examples
        --------
        >>> from dimargin import LinearSVMClassifier
        >>> machine = LinearSVMClassifier().fit([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]], [0, 1]).sparsify()
        >>> machine.coef_.nnz, machine.coef_.shape, machine.densify().coef_.tolist()
        (1, (1, 3), [[0.0, -1.0, 0.0]])
        """
        check_is_fitted(self)
        columns = self._nonzero_columns()
        self._keep_on(columns if len(columns) else np.zeros(1, dtype=np.int64))
        self.coef_ = replace(kept_of(self, "coef_"), is_csr=True)
        return self

    def densify(self) -> Self:
        """Keep coefficients of all columns in an array, as before `sparsify`.

        Returns
        -------
        self

        Raises
        ------
        MemoryError
            If the array does not fit into memory.
        sklearn.exceptions.NotFittedError
        """
        check_is_fitted(self)
        self._keep_on(None)
        return self

    def to_float32(self) -> Self:
        r"""Round the coefficients to float32, which halves the memory and the model file of wide machines.

        A decision value of a row x changes by at most :math:`2^{-24} |w| |x|`, in Euclidean norms, for
        coefficients of 2^-126 = 1.2e-38 or more; smaller ones add :math:`2^{-150} \sqrt d |x|` for d of
        them. The intercept stays float64, and predictions are computed in float64, for which they
        convert the coefficients at each call.

        The certificate is not recomputed, because that takes the training rows: ``objective_``,
        ``dual_objective_`` and ``duality_gap_`` are still those of the coefficients before, and
        ``certificate_`` becomes "before_rounding". `certify` computes those of the rounded ones.

        Returns
        -------
        self
            If the coefficients are float32 already, nothing changes.

        Raises
        ------
        ValueError
            If a coefficient is too large for float32 (3.4e38).
        sklearn.exceptions.NotFittedError

        Examples
        --------
        >>> from dimargin import LinearSVMClassifier
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(500, 10, random_state=0)
        >>> machine = LinearSVMClassifier(random_state=0).fit(X, y).to_float32()
        >>> machine.coef_.dtype, machine.certificate_, machine.certify(X, y).certificate_
        (dtype('float32'), 'before_rounding', 'global')
        """
        check_is_fitted(self)
        kept = kept_of(self, "coef_")
        rounded = in_float32(kept)
        if rounded is not kept:
            self.coef_ = rounded
            self.certificate_ = "before_rounding"
        return self

    def _nonzero_columns(self) -> Indices:
        """Return the columns, ascending, that the model needs."""
        return nonzero_columns(kept_of(self, "coef_"))

    def _keep_on(self, columns: Indices | None) -> None:
        """Keep coefficients of these columns (None: all)."""
        self.coef_ = self._of_columns(on(kept_of(self, "coef_"), columns), columns)

    # ---- prediction ----------------------------------------------------------------------------------------------

    def can_resume_on(self, X: Any) -> bool:
        """Return whether X has the features of the model."""
        return bool(X.shape[1] == self.n_features_in_)

    def _decision_values(self, X: Any) -> Floats:
        X, weights = queries(self, X, order=None), kept_of(self, "coef_")
        X = sp.csr_array(X) if sp.issparse(X) else X
        if isinstance(weights, SparseColumns):
            X, weights = rows_on(X, weights.columns), weights.values
        # Rows of float32 would be multiplied in float32 by such weights.
        values: Floats = np.asarray(X @ weights.astype(np.float64, copy=False).T) + self.intercept_
        return values[:, 0] if len(weights) == 1 else values

    def _decision_gradients(self, X: Any) -> Floats:
        n_rows, weights = queries(self, X, order=None).shape[0], on(kept_of(self, "coef_"), None)
        check_memory(8 * n_rows * weights.size, None, "decision_gradient")
        return np.repeat(weights[None].astype(np.float64, copy=False), n_rows, axis=0)


class LinearMarginClassifier(MarginClassifier, LinearMachine):
    """Base class of the linear classifiers."""
