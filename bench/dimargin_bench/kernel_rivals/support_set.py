"""The rows that LaSVM keeps, and its two steps on them."""

from __future__ import annotations

import numpy as np

from dimargin.kernels.functions import Kernel
from dimargin.system.arrays import TINY, Floats

_ROOM = 64  # rows, doubled whenever there are more


class SupportSet:
    """Rows that may be support vectors, with coefficients and gradients, for the RBF or a polynomial kernel.

    The signed coefficients ``a`` maximise the dual
    ``sum_s a_s y_s - 1/2 sum_st a_s a_t k(x_s, x_t)`` over ``sum_s a_s = 0`` and
    ``A_s <= a_s <= B_s`` with ``A = min(0, C y)``, ``B = max(0, C y)`` (Bordes et al. 2005, section
    2); its gradient is ``g_s = y_s - sum_t a_t k(x_s, x_t)``. All is in arrays with room for more
    rows; the last row takes the place of one that leaves. A step computes two rows of kernel
    values, at a cost of O(rows times features), and none is stored.

    Parameters
    ----------
    n_features : int
    C : float
    kernel : Kernel
        "rbf" or "poly".

    Attributes
    ----------
    size : int
        Rows.
    numbers : set of int
        What the caller knows the rows by.
    """

    def __init__(self, n_features: int, C: float, kernel: Kernel) -> None:
        self.C, self.kernel = C, kernel
        self.size = 0
        self.numbers: set[int] = set()
        self._rows = np.empty((_ROOM, n_features))
        # squared norms, coefficients, gradients, A, B, and kernel values of rows with themselves
        self._values = np.empty((6, _ROOM))
        self._numbers = np.empty(_ROOM, dtype=np.int64)

    @property
    def rows(self) -> Floats:
        """Rows, of shape (size, n_features)."""
        return self._rows[: self.size]

    @property
    def coefficients(self) -> Floats:
        """Signed coefficients, of shape (size,)."""
        return self._values[1, : self.size]

    @property
    def gradients(self) -> Floats:
        """Gradients of the dual, of shape (size,)."""
        return self._values[2, : self.size]

    @property
    def lower(self) -> Floats:
        """Lower bounds ``A``, of shape (size,)."""
        return self._values[3, : self.size]

    @property
    def upper(self) -> Floats:
        """Upper bounds ``B``, of shape (size,)."""
        return self._values[4, : self.size]

    def kernel_row(self, x: Floats) -> Floats:
        """Return the kernel values of a row with all rows of the set, of shape (size,)."""
        products = self.rows @ x
        if not self.kernel.stationary:
            factor, constant, degree = self.kernel.polynomial
            return np.asarray((factor * products + constant) ** degree)
        squares = self._values[0, : self.size] - 2 * products + x @ x
        return np.exp(-self.kernel.gamma * np.maximum(squares, 0.0))

    def add(self, x: Floats, sign: float, number: int) -> int:
        """Let a row take part with coefficient zero, and return its place; `number` is how the caller knows it."""
        if self.size == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
            self._numbers = np.concatenate([self._numbers, np.empty_like(self._numbers)])
            self._values = np.concatenate([self._values, np.empty_like(self._values)], axis=1)
        gradient = sign - self.coefficients @ self.kernel_row(x)
        place = self.size
        self._rows[place], self._numbers[place] = x, number
        bounds = min(0.0, self.C * sign), max(0.0, self.C * sign)
        self._values[:, place] = x @ x, 0.0, gradient, *bounds, self.kernel.with_itself(x[None])[0]
        self.numbers.add(number)
        self.size += 1
        return place

    def forget_numbers(self) -> None:
        """Forget how the caller knows the rows, because other rows come that have these numbers."""
        self.numbers.clear()
        self._numbers[:] = -1

    def process(self, x: Floats, sign: float, number: int, tol: float) -> None:
        """Add a row, and make a step with it and the row that violates optimality most together with it (PROCESS)."""
        place = self.add(x, sign, number)
        highest, lowest = self._extremes()
        i, j = (place, lowest) if sign > 0 else (highest, place)
        if i is not None and j is not None and self.gradients[i] - self.gradients[j] > tol:
            self._step(i, j)

    def reprocess(self, tol: float) -> bool:
        """Make a step with the pair that violates optimality most, and drop rows that cannot (REPROCESS).

        Returns whether there was such a pair.
        """
        i, j = self._extremes()
        if i is None or j is None or self.gradients[i] - self.gradients[j] <= tol:
            return False
        self._step(i, j)
        self._drop()
        return True

    @property
    def gap(self) -> float:
        """Violation ``g_i - g_j`` of the extreme pair, at the optimum over these rows at most the tolerance."""
        ends = self._ends()
        return ends[0] - ends[1] if len(ends) == 2 else 0.0

    @property
    def intercept(self) -> float:
        """Mean ``(g_i + g_j) / 2`` of the extreme pair, or what one class alone has of it."""
        ends = self._ends()
        return sum(ends) / len(ends)

    def _ends(self) -> list[float]:
        return [float(self.gradients[k]) for k in self._extremes() if k is not None]

    def _extremes(self) -> tuple[int | None, int | None]:
        """Return the row of largest gradient that may rise, and that of smallest gradient that may fall."""
        may_rise, may_fall = self.coefficients < self.upper, self.coefficients > self.lower
        i = int(np.where(may_rise, self.gradients, -np.inf).argmax())
        j = int(np.where(may_fall, self.gradients, np.inf).argmin())
        return i if may_rise[i] else None, j if may_fall[j] else None

    def _step(self, i: int, j: int) -> None:
        """Raise the coefficient of i and lower that of j by the step that is best within their bounds."""
        first, second = self.kernel_row(self.rows[i]), self.kernel_row(self.rows[j])
        a, gradients = self.coefficients, self.gradients
        curvature = self._values[5, i] + self._values[5, j] - 2 * first[j]
        newton = (gradients[i] - gradients[j]) / max(curvature, TINY)
        # where the step ends at a bound the sum is the bound itself: a + (B - a) is rounded to B
        # for every a in [0, B]
        step = min(newton, self.upper[i] - a[i], a[j] - self.lower[j])
        a[i] += step
        a[j] -= step
        gradients -= step * (first - second)

    def _drop(self) -> None:
        """Drop rows with coefficient zero that violate optimality together with no other row."""
        highest, lowest = self._ends()
        positive = self.upper > 0
        useless = np.where(positive, self.gradients <= lowest, self.gradients >= highest) & (self.coefficients == 0)
        for place in np.flatnonzero(useless)[::-1]:
            self.size -= 1
            self.numbers.discard(int(self._numbers[place]))
            for array in (self._rows, self._numbers, self._values.T):
                array[place] = array[self.size]
