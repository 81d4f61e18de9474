"""Parameters that describe a kernel, the rows that they are for, and what all estimators with a kernel share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from dimargin.estimators.validated_data import canonical, gamma_value, queries
from dimargin.estimators.validation import check_number
from dimargin.kernels.functions import KERNEL_NAMES, MAX_DEGREE, Kernel, check_semi_definite
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.user import KernelFunction, Transform, UserKernel, check_eigenvalues
from dimargin.kernels.wide_rows import KeptColumns, is_wide
from dimargin.shards.keys import order_of_keys
from dimargin.system.arrays import Floats, Indices

_ROWS_AT_ONCE = 65_536  # bounds the scratch memory


def check_kernel(kernel: str | KernelFunction, gamma: str | float, degree: int, coef0: float) -> None:
    """Raise ValueError or TypeError for a parameter out of its range; parameters as in `dimargin.SVMClassifier`."""
    if kernel == "sigmoid":
        raise ValueError(
            "kernel='sigmoid' is not positive semi-definite: its dual is not concave, and no duality gap would "
            f"certify a model. Use one of {', '.join(map(repr, KERNEL_NAMES))}"
        )
    if not callable(kernel) and kernel not in (*KERNEL_NAMES, "precomputed"):
        raise ValueError(
            f"kernel must be one of {', '.join(map(repr, KERNEL_NAMES))}, 'precomputed' or a function, got {kernel!r}"
        )
    check_gamma(gamma)
    check_number("degree", degree, 1, MAX_DEGREE, low_included=True, high_included=True, whole=True)
    check_number("coef0", coef0, -math.inf)
    check_semi_definite(str(kernel), 1.0, degree, coef0)


def check_gamma(gamma: str | float) -> None:
    """Raise ValueError or TypeError unless `gamma` is "scale", "auto" or a positive number."""
    if not isinstance(gamma, str):
        check_number("gamma", gamma, 0)
    elif gamma not in ("scale", "auto"):
        raise ValueError(f"gamma must be 'scale', 'auto' or a number above 0, got {gamma!r}")


def kernel_transform(
    X: Any,
    weights: Floats,
    kernel: str | KernelFunction,
    gamma: str | float,
    degree: int,
    coef0: float,
    columns: KeptColumns | None = None,
) -> Transform:
    """Return the transform that prepares rows for the kernel that checked parameters describe.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, n_features)
        Training rows.
    weights : ndarray of shape (n,)
    kernel, gamma, degree, coef0
        As in `dimargin.SVMClassifier`.
    columns : KeptColumns or None
        Those that X has kept of the caller's rows.
    """
    if callable(kernel) or kernel == "precomputed":
        own = UserKernel(kernel if callable(kernel) else None)
        check_eigenvalues(own, X)
        return own
    scale = gamma_value(gamma, X, weights, columns)
    named = Kernel(kernel, scale, int(degree), float(coef0))  # type: ignore[arg-type]
    return RowTransform.fit(X, named, weights, columns)


def keeps_columns(X: Any, kernel: str | KernelFunction) -> bool:
    """Return whether a ball around rows is found without the columns that do not occur."""
    if kernel == "linear" and sp.issparse(X):  # its centre has a number for every column
        return bool(X.shape[1] > X.nnz)
    return kernel in KERNEL_NAMES and is_wide(X)


class KernelEstimator:
    """Mixin of the estimators with a kernel, classifiers and detectors.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "laplacian", "precomputed"} or callable, default="rbf"
        "precomputed": X holds kernel values, of shape (n, n) to fit and (n_queries, n) to predict. A function takes two
        arrays of rows and returns their kernel values. Both are several times slower than a named kernel. They must be
        positive semi-definite, or the certificate means nothing, and two signs of the contrary are looked for: two rows
        with k(x, z) != k(z, x) or k(x, z)^2 > k(x, x) k(z, z), in every block of values of rows with one another that
        is computed, and a negative eigenvalue of the values of up to 256 rows, drawn at random, before the fit. Either
        is a ValueError; that none is seen proves nothing of more rows.
    gamma : {"scale", "auto"} or float, default="scale"
        As in scikit-learn: "scale" is ``1 / (n_features * X.var())`` (rows weighted by `sample_weight`), "auto"
        ``1 / n_features``.
    degree : int, default=3
        Of "poly".
    coef0 : float, default=0.0
        Of "poly": ``(gamma x.z + coef0) ** degree``. At least 0: with a negative constant the kernel is not positive
        semi-definite.
    n_jobs : int or None, default=None
        Threads; None is one for every processor that the process may use, by affinity and by the quota of its
        container, -2 all but one. At most what OpenMP and threadpoolctl allow. The result does not depend on it.
    """

    kernel: str | KernelFunction
    gamma: str | float
    degree: int
    coef0: float
    n_jobs: int | None

    _offset = 0.0  # on every kernel value: one is an intercept that the regulariser counts

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags

    def _check_kernel(self) -> None:
        check_kernel(self.kernel, self.gamma, self.degree, self.coef0)

    def _row_transform(self, X: Any, weights: Floats, columns: KeptColumns | None = None) -> Transform:
        """Return the transform that prepares rows for the kernel, from the training rows and their weights.

        `columns` are those that X has kept of the caller's rows; None for all.
        """
        own = kernel_transform(X, weights, self.kernel, self.gamma, self.degree, self.coef0, columns)
        return replace(own, offset=self._offset)

    def _order(self, X: Any, y: Indices, weights: Floats, seed: int) -> Indices:
        """Return the order of the rows by their keys.

        Samples, parts and blocks depend on this order, and so not on that in which the rows are given.
        """
        if self.kernel == "precomputed":  # such values change with the order of the rows, and so would their keys
            return np.random.default_rng(seed).permutation(len(y))
        return order_of_keys(X, y, weights, seed)

    def _batches(self, X: Any) -> tuple[int, Iterator[tuple[slice, Any]]]:
        """Return the number of rows at prediction, and the rows in batches, stored as the support vectors are."""
        X = queries(self, X)
        vectors = self.support_vectors_  # type: ignore[attr-defined]
        # centring would fill sparse rows: the model's storage decides
        X = canonical(sp.csr_array(X) if sp.issparse(vectors) else X)

        def stored(batch: slice) -> Any:
            part = X[batch, self.support_] if self.kernel == "precomputed" else X[batch]  # type: ignore[attr-defined]
            return part.toarray() if sp.issparse(part) and not sp.issparse(vectors) else part

        return X.shape[0], ((batch, stored(batch)) for batch in gen_batches(X.shape[0], _ROWS_AT_ONCE))
