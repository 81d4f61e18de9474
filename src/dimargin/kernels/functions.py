"""Kernel functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

KernelName = Literal["linear", "poly", "rbf", "laplacian"]
KERNEL_NAMES: tuple[KernelName, ...] = ("linear", "poly", "rbf", "laplacian")

MOST_DEGREE = 1024
"""Largest degree of poly, whose powers are multiplied one by one: the fastest way for the degrees in use."""

LOG2E = 1.4426950408889634
"""Logarithm of e to the base of two: the compiled core has exp2."""


@dataclass(frozen=True)
class Kernel:
    """A kernel function.

    The kernels are ``linear``, x.z; ``poly``, (gamma x.z + coef0)^degree; ``rbf``, exp(-gamma |x-z|^2); and
    ``laplacian``, exp(-gamma |x-z|_1). These are the conventions of scikit-learn.

    Parameters
    ----------
    name : {"linear", "poly", "rbf", "laplacian"}
    gamma : float, default=1.0
        Positive; unused by ``linear``.
    degree : int, default=3
        Degree of ``poly``; at most `MOST_DEGREE`.
    coef0 : float, default=0.0
        Constant term of ``poly``.
    """

    name: KernelName
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    @property
    def stationary(self) -> bool:
        """Return whether k(x, z) depends on x - z alone; then k(x, x) = 1."""
        return self.name in ("rbf", "laplacian")

    @property
    def power(self) -> int:
        """Degree of the kernel as a polynomial in the inner product of two rows."""
        return self.degree if self.name == "poly" else 1

    @property
    def row_scale(self) -> float:
        """Factor on the rows by which gamma (and the base of exp2) need not be applied in the tile."""
        if self.name == "rbf":
            return float(np.sqrt(2 * self.gamma * LOG2E))
        if self.name == "laplacian":
            return self.gamma * LOG2E
        return float(np.sqrt(self.gamma)) if self.name == "poly" else 1.0
