"""Gradients of decision functions with respect to the features, in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.user import kernel_matrix
from dimargin.system.arrays import Floats
from dimargin.system.memory import check_memory
from dimargin.system.threads import effective_n_threads


class DecisionGradient:
    """Mixin of estimators whose decision function has a gradient, by default with a kernel."""

    def decision_gradient(self, X: Any) -> Floats:
        r"""Compute the gradients of the decision function with respect to the features, at rows.

        With dual coefficients b and support vectors z, they are, up to rounding: for "rbf" :math:`2
        \gamma \sum_j b_j k(x, z_j) (z_j - x)`; for "laplacian" :math:`\gamma \sum_j b_j k(x, z_j)
        \operatorname{sign}(z_j - x)`, a subgradient where features are equal; for "poly" of degree p
        :math:`p \gamma \sum_j b_j (\gamma x \cdot z_j + c)^{p - 1} z_j`; `coef_` for linear ones. With
        one against one, they are those of the smallest pair, or of the votes without their jumps.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features) for two classes, else (n_samples, n_classes, n_features)
            Dense, for sparse rows too; a MemoryError is raised if it does not fit into memory.

        Raises
        ------
        ValueError
            If the kernel is precomputed or a function, or the model predicts by clusters.

        Examples
        --------
        >>> from dimargin import SVMClassifier
        >>> SVMClassifier(gamma=1.0).fit([[0.0], [1.0]], [0, 1]).decision_gradient([[0.5]]).round(4)  # 2 exp(-1/4)
        array([[1.5576]])
        """
        found = self._decision_gradients(X)
        return found[:, 0] if found.shape[1] == 1 else found

    def _decision_gradients(self: Any, X: Any) -> Floats:
        """Return gradients of shape (n_samples, n_outputs, n_features)."""
        n_rows, batches = self._batches(X)
        if self._router is not None or not isinstance(self._transform, RowTransform):
            own = f"has kernel={self.kernel!r}" if self._router is None else "predicts by clusters (stop_level)"
            raise ValueError(f"decision_gradient needs a named kernel, and one machine for all rows; this one {own}")
        n_functions, width = self.intercept_.size, self.n_features_in_
        n_outputs = n_functions if n_functions == 1 else len(self.classes_)
        size = max(1, 2**21 // n_functions // max(width, self.support_vectors_.shape[0]))  # arrays of 16 MiB
        check_memory(8 * width * (n_rows * n_outputs + 3 * n_functions * min(size, n_rows)), None, "decision_gradient")
        found = np.empty((n_rows, n_outputs, width))
        for batch, part in batches:
            for piece in gen_batches(part.shape[0], size):
                found[batch][piece] = self._gradients(part[piece]).swapaxes(0, 1)
        return found

    def _gradients(self: Any, part: Any) -> Any:
        """Return gradients of shape (n_outputs, n_rows, n_features)."""
        return self._sum_gradients(self.support_vectors_, self.dual_coef_, part)

    def _sum_gradients(self: Any, Z: Any, coefficients: Floats, X: Any) -> Any:
        """Return gradients of sums of kernel values with Z, of shape (n_outputs, n_rows, n_features)."""
        transform, shape = self._transform.in_float64(), (len(coefficients), *X.shape)
        kernel, (factor, _, degree) = transform.kernel, transform.kernel.polynomial
        if (not kernel.stationary and degree == 1) or not Z.shape[0]:
            return np.broadcast_to(factor * np.asarray(coefficients @ Z)[:, None], shape)
        power = kernel if kernel.stationary else replace(kernel, degree=degree - 1)
        matrix = kernel_matrix(replace(transform, kernel=power), Z, X, effective_n_threads(self.n_jobs))
        values = matrix.values(*map(np.arange, matrix.shape))
        weights = (coefficients[:, None] * values).reshape(-1, Z.shape[0])
        if kernel.name == "laplacian":
            sums = np.asarray(weights @ (Z.sign() if sp.issparse(Z) else np.sign(Z))).reshape(shape)
            columns, others = sp.csc_array(X), sp.csc_array(Z)
            for column in np.flatnonzero(np.diff(columns.indptr)):  # The signs above are right where x is zero.
                stored = slice(*columns.indptr[column : column + 2])
                rows, x, z = columns.indices[stored], columns.data[stored, None], others[:, [column]].toarray().T
                sums[:, rows, column] = coefficients @ (values[rows] * ((z > x).astype(np.int8) - (z < x))).T
            return kernel.gamma * sums
        if transform.center is not None:  # About the centre, differences of large terms round less.
            X, Z = X - transform.center, Z - transform.center
        sums = np.asarray(weights @ Z).reshape(shape)
        if kernel.stationary:
            sums -= weights.sum(axis=1).reshape(*shape[:2], 1) * (X.toarray() if sp.issparse(X) else X)
        return (2 * kernel.gamma if kernel.stationary else degree * factor) * sums
