"""Kernel functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from dimargin.kernels.column_statistics import power_sums
from dimargin.system.arrays import Floats

KernelName = Literal["linear", "poly", "rbf", "laplacian"]
KERNEL_NAMES: tuple[KernelName, ...] = get_args(KernelName)
# The order p of each stationary kernel exp(-gamma |x - z|_p^p).
_ORDERS: dict[KernelName, int] = {"rbf": 2, "laplacian": 1}

MAX_DEGREE = 1024
"""Largest degree of poly: powers are multiplied one by one, which is fastest for usual degrees."""

LOG2E = 1.4426950408889634
"""Binary logarithm of e, since the compiled core computes exponentials with exp2."""


def check_semi_definite(name: str, gamma: float, degree: int, coef0: float) -> None:
    """Raise ValueError for parameters with which a kernel is not positive semi-definite.

    A polynomial kernel with a negative constant term is indefinite: near zero it is ``coef0^degree
    + degree coef0^(degree - 1) gamma x.z``, where one of the two powers of coef0 is negative.
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
    """A positive semi-definite kernel function; other parameters raise ValueError.

    The kernels are ``linear``, x.z; ``poly``, (gamma x.z + coef0)^degree; ``rbf``, exp(-gamma
    |x-z|^2); and ``laplacian``, exp(-gamma |x-z|_1). These are the conventions of scikit-learn.
    """

    name: KernelName
    gamma: float = 1.0  # positive; unused by ``linear``
    degree: int = 3  # degree of ``poly``, at most `MAX_DEGREE`
    coef0: float = 0.0  # constant term of ``poly``

    def __post_init__(self) -> None:
        check_semi_definite(self.name, self.gamma, self.degree, self.coef0)

    @property
    def stationary(self) -> bool:
        """Return whether k(x, z) depends on x - z alone; then k(x, x) = 1."""
        return self.name in _ORDERS

    @property
    def order(self) -> int:
        """Order of the norm of rows and, for stationary kernels, of their distances."""
        return _ORDERS.get(self.name, 2)

    @property
    def polynomial(self) -> tuple[float, float, int]:
        """Factor, constant term and degree of a kernel that is a polynomial of inner products."""
        return (self.gamma, self.coef0, self.degree) if self.name == "poly" else (1.0, 0.0, 1)

    @property
    def row_scale(self) -> float:
        """Factor on the rows that replaces gamma (and the base of exp2) in the tile."""
        if self.order == 1:
            return self.gamma * LOG2E
        return float(np.sqrt(2 * self.gamma * LOG2E if self.stationary else self.polynomial[0]))

    def exponent(self, norm: float) -> float:
        """Return ``gamma |x|_p^p`` of a row from its norm after scaling by `row_scale`."""
        return norm**self.order / (self.order * LOG2E)

    def with_itself(self, X: Any, absolute: bool = False) -> Floats:
        """Return k(x, x) of rows or, if `absolute`, the sums of its absolute terms."""
        if self.stationary:
            return np.ones(X.shape[0])
        factor, constant, degree = self.polynomial
        return np.asarray((factor * power_sums(X, 2) + (abs(constant) if absolute else constant)) ** degree)
