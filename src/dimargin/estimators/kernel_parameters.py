"""Kernel parameters, and the base class of all estimators with a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from dimargin.estimators.input_checks import check_number
from dimargin.estimators.training_data import TrainingData, canonical, gamma_value, queries, thinned
from dimargin.kernels.functions import KERNEL_NAMES, MAX_DEGREE, Kernel, check_semi_definite
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.user import KernelFunction, Transform, UserKernel, check_eigenvalues
from dimargin.kernels.wide_rows import KeptColumns, is_wide
from dimargin.shards.keys import order_of_keys
from dimargin.system.arrays import Floats, Indices


def check_kernel(kernel: str | KernelFunction, gamma: str | float, degree: int, coef0: float) -> None:
    """Raise ValueError or TypeError if a kernel parameter is out of range."""
    if kernel == "sigmoid":
        raise ValueError(
            "kernel='sigmoid' is not positive semi-definite, so a duality gap would not certify a model. "
            f"Use one of {', '.join(map(repr, KERNEL_NAMES))}"
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
    """Return the transform that prepares rows for the kernel with these parameters.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, n_features)
        Training rows.
    weights : ndarray of shape (n,)
    kernel, gamma, degree, coef0
        As in `dimargin.SVMClassifier`.
    columns : KeptColumns or None
        Columns of the caller's rows that are kept in X.
    """
    if callable(kernel) or kernel == "precomputed":
        own = UserKernel(kernel if callable(kernel) else None)
        check_eigenvalues(own, X)
        return own
    scale = gamma_value(gamma, X, weights, columns)
    named = Kernel(kernel, scale, int(degree), float(coef0))  # type: ignore[arg-type]
    return RowTransform.fit(X, named, weights, columns)


def row_transform_of(estimator: Any, X: Any, weights: Floats, columns: KeptColumns | None = None) -> Transform:
    """Return `kernel_transform` with the parameters of an estimator."""
    parameters = estimator.kernel, estimator.gamma, estimator.degree, estimator.coef0
    return replace(kernel_transform(X, weights, *parameters, columns), offset=estimator._offset)


def may_merge(estimator: Any) -> bool:
    """Return whether equal rows have equal kernel values, which user functions do not ensure."""
    return estimator.kernel in KERNEL_NAMES


def thinned_for(
    estimator: Any, data: TrainingData, thin: Callable[[TrainingData], TrainingData] | None = None
) -> TrainingData:
    """Return a sparse copy of dense one-hot rows if that is faster and as precise; else the data.

    Thinned rows are not centred, which may need more precision. `thin` replaces `thinned`, for
    copies that were made before.
    """
    # Kernels that are computed faster for sparse one-hot rows than for dense ones.
    if estimator.kernel not in ("rbf", "laplacian", "poly") or estimator.memory_limit is not None:
        return data
    sparse = (thin or thinned)(data)
    if sparse.is_thinned:
        with suppress(ValueError):  # Columns may be too large for the kernel.
            transforms = [row_transform_of(estimator, part.X, part.weights) for part in (sparse, data)]
            return sparse if transforms[0].dtype is transforms[1].dtype else data
    return data


def keeps_columns(X: Any, kernel: str | KernelFunction) -> bool:
    """Return whether a ball around rows is computed without the columns that have no values."""
    if kernel == "linear" and sp.issparse(X):  # The centre would be dense.
        return bool(X.shape[1] > X.nnz)
    return kernel in KERNEL_NAMES and is_wide(X)


class KernelEstimator:
    """Mixin of the estimators with a kernel, classifiers and detectors.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "laplacian", "precomputed"} or callable, default="rbf"
        Kernel function. With "precomputed", X holds kernel values, of shape (n, n) for fit and
        (n_queries, n) for prediction. In Python, it may be a function that takes two arrays of rows
        and returns their kernel values. Both are several times slower than named kernels, and must
        be positive semi-definite for the certificate to be valid. A ValueError is raised if the
        values of up to 256 random rows have a negative eigenvalue, or if two rows have
        k(x, z) != k(z, x) or k(x, z)^2 > k(x, x) k(z, z) in a block that is computed. These checks
        do not prove semi-definiteness.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient. As in scikit-learn, "scale" is ``1 / (n_features * X.var())`` (rows
        weighted by `sample_weight`), "auto" ``1 / n_features``.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly": ``(gamma x.z + coef0) ** degree``. At least 0, or the kernel would not
        be positive semi-definite.
    n_jobs : int or None, default=None
        Number of threads. None is one for every processor that the affinity and the container quota
        of the process allow, -2 all but one. OpenMP and threadpoolctl may limit it. Results do not
        depend on it.
    """

    kernel: str | KernelFunction
    gamma: str | float
    degree: int
    coef0: float
    n_jobs: int | None

    _offset = 0.0  # It is added to every kernel value; one acts as a regularised intercept.

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags

    def _check_kernel(self) -> None:
        check_kernel(self.kernel, self.gamma, self.degree, self.coef0)

    def _order(self, X: Any, y: Indices, weights: Floats, seed: int) -> Indices:
        """Return the order of the rows by their keys.

        Samples, parts and blocks follow this order, and therefore not that of the caller.
        """
        if self.kernel == "precomputed":  # Keys of kernel values would depend on the order of the rows.
            return np.random.default_rng(seed).permutation(len(y))
        return order_of_keys(X, y, weights, seed)

    def _batches(self, X: Any) -> tuple[int, Iterator[tuple[slice, Any]]]:
        """Return the number of rows to predict, and batches stored as the support vectors are."""
        X = queries(self, X)
        vectors = self.support_vectors_  # type: ignore[attr-defined]
        # The model decides about sparse storage, because centring would fill sparse rows.
        X = canonical(sp.csr_array(X) if sp.issparse(vectors) else X)

        def stored(batch: slice) -> Any:
            part = X[batch, self.support_] if self.kernel == "precomputed" else X[batch]  # type: ignore[attr-defined]
            return part.toarray() if sp.issparse(part) and not sp.issparse(vectors) else part

        # The batch size bounds the scratch memory.
        return X.shape[0], ((batch, stored(batch)) for batch in gen_batches(X.shape[0], 65_536))
