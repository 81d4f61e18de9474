"""Kernel functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

KernelName = Literal["linear", "poly", "rbf", "laplacian"]
KERNEL_NAMES: tuple[KernelName, ...] = ("linear", "poly", "rbf", "laplacian")

MOST_DEGREE = 1024
"""Of poly: powers are multiplied one by one, which for the degrees in use is the fastest way."""

LOG2E = 1.4426950408889634
"""Logarithm of e to the base of two: the compiled core has exp2."""


@dataclass(frozen=True)
class Kernel:
    """A kernel function.

    ``linear`` x.z; ``poly`` (gamma x.z + coef0)^degree; ``rbf`` exp(-gamma |x-z|^2); ``laplacian``
    exp(-gamma |x-z|_1): the same conventions as scikit-learn.

    Parameters
    ----------
    name : {"linear", "poly", "rbf", "laplacian"}
    gamma : float, default=1.0
        Positive; unused by ``linear``.
    degree : int, default=3
        Of ``poly``; at most `MOST_DEGREE`.
    coef0 : float, default=0.0
        Of ``poly``.
    """

    name: KernelName
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    @property
    def stationary(self) -> bool:
        """Whether k(x, z) depends on x - z alone; then k(x, x) = 1."""
        return self.name in ("rbf", "laplacian")

    @property
    def power(self) -> int:
        """Degree as a polynomial in the rows' product."""
        return self.degree if self.name == "poly" else 1

    @property
    def row_scale(self) -> float:
        """Factor on the rows that takes gamma (and the base of exp2) out of the tile."""
        if self.name == "rbf":
            return float(np.sqrt(2 * self.gamma * LOG2E))
        if self.name == "laplacian":
            return self.gamma * LOG2E
        return float(np.sqrt(self.gamma)) if self.name == "poly" else 1.0
