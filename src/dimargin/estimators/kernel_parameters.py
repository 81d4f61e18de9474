"""Checks of the parameters that describe a kernel, and the transform of rows that they stand for."""

from __future__ import annotations

import math
from typing import Any

from dimargin.estimators.data import gamma_value
from dimargin.estimators.validation import check_number
from dimargin.kernels.functions import KERNEL_NAMES, MOST_DEGREE, Kernel
from dimargin.kernels.rows import RowTransform
from dimargin.kernels.user import KernelFunction, Transform, UserKernel
from dimargin.system.arrays import Floats


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
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise ValueError(f"gamma must be 'scale', 'auto' or a number above 0, got {gamma!r}")
    else:
        check_number("gamma", gamma, 0)
    check_number("degree", degree, 1, MOST_DEGREE, low_included=True, high_included=True, whole=True)
    check_number("coef0", coef0, -math.inf)


def kernel_transform(
    X: Any, weights: Floats, kernel: str | KernelFunction, gamma: str | float, degree: int, coef0: float
) -> Transform:
    """Return the transform that prepares rows for the kernel that checked parameters describe.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, n_features)
        Training rows.
    weights : ndarray of shape (n,)
    kernel, gamma, degree, coef0
        As in `dimargin.SVMClassifier`.
    """
    if callable(kernel) or kernel == "precomputed":
        return UserKernel(kernel if callable(kernel) else None)
    named = Kernel(kernel, gamma_value(gamma, X, weights), int(degree), float(coef0))  # type: ignore[arg-type]
    return RowTransform.fit(X, named, weights)
