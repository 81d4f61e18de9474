"""Kernel functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from dimargin.kernels.column_statistics import power_sums
from dimargin.system.arrays import Floats

KernelName = Literal["linear", "poly", "rbf", "laplacian"]
KERNEL_NAMES: tuple[KernelName, ...] = get_args(KernelName)
_ORDERS: dict[KernelName, int] = {"rbf": 2, "laplacian": 1}  # p, of stationary kernels exp(-gamma |x - z|_p^p)

MAX_DEGREE = 1024
"""Largest degree of poly, whose powers are multiplied one by one: the fastest way for the degrees in use."""

LOG2E = 1.4426950408889634
"""Logarithm of e to the base of two: the compiled core has exp2."""


def check_semi_definite(name: str, gamma: float, degree: int, coef0: float) -> None:
    """Raise ValueError for parameters with which a kernel is not positive semi-definite.

    A polynomial kernel with a negative constant term is not: near zero it is ``coef0^degree + degree coef0^(degree - 1)
    gamma x.z``, of which one term is negative.
    """
    if name != "linear" and not gamma > 0:
        raise ValueError(f"gamma must be above 0, got {gamma!r}")
    if name == "poly" and not degree >= 1:
        raise ValueError(f"degree must be at least 1, got {degree!r}")
    if name == "poly" and not coef0 >= 0:
        raise ValueError(
            f"kernel='poly' needs a coef0 of at least 0, got {coef0!r}: with a negative one it is not positive "
            "semi-definite, its dual is not concave, and no duality gap would certify a model"
        )


@dataclass(frozen=True)
class Kernel:
    """A kernel function; its parameters make it positive semi-definite, or it is refused with a ValueError.

    The kernels are ``linear``, x.z; ``poly``, (gamma x.z + coef0)^degree; ``rbf``, exp(-gamma |x-z|^2); and
    ``laplacian``, exp(-gamma |x-z|_1). These are the conventions of scikit-learn.
    """

    name: KernelName
    gamma: float = 1.0  # positive; unused by ``linear``
    degree: int = 3  # of ``poly``; at most `MAX_DEGREE`
    coef0: float = 0.0  # constant term of ``poly``

    def __post_init__(self) -> None:
        check_semi_definite(self.name, self.gamma, self.degree, self.coef0)

    @property
    def stationary(self) -> bool:
        """Return whether k(x, z) depends on x - z alone; then k(x, x) = 1."""
        return self.name in _ORDERS

    @property
    def order(self) -> int:
        """Order of the norm in which the kernel measures rows, and a stationary one their distances."""
        return _ORDERS.get(self.name, 2)

    @property
    def polynomial(self) -> tuple[float, float, int]:
        """Factor, constant term and degree of a kernel that is a polynomial in the inner product of two rows."""
        return (self.gamma, self.coef0, self.degree) if self.name == "poly" else (1.0, 0.0, 1)

    @property
    def row_scale(self) -> float:
        """Factor on the rows by which gamma (and the base of exp2) need not be applied in the tile."""
        if self.order == 1:
            return self.gamma * LOG2E
        return float(np.sqrt(2 * self.gamma * LOG2E if self.stationary else self.polynomial[0]))

    def exponent(self, norm: float) -> float:
        """Return ``gamma |x|_p^p`` for the norm of a row that `row_scale` has scaled, of a stationary kernel."""
        return norm**self.order / (self.order * LOG2E)

    def with_itself(self, X: Any, absolute: bool = False) -> Floats:
        """Return k(x, x) of rows or, if `absolute`, the sums of the absolute terms of it."""
        if self.stationary:
            return np.ones(X.shape[0])
        factor, constant, degree = self.polynomial
        return np.asarray((factor * power_sums(X, 2) + (abs(constant) if absolute else constant)) ** degree)
