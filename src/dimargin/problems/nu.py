r"""Problems with nu in place of the weight of the loss or the width of the band, and their certificate.

They have the form (Schoelkopf, Smola, Williamson, Bartlett, "New support vector algorithms", Neural Computation
12, 2000; Schoelkopf et al., "Estimating the support of a high-dimensional distribution", Neural Computation 13, 2001)

    minimise over f, t  1/2 |w|^2 + sum_k [ sum_{i in k} u_i (t_k - v_i)_+ - mass_k t_k ],
    maximise over a    -1/2 |sum_i a_i z_i|^2 + sum_i a_i shift_i,   0 <= a_i <= u_i,  sum_{i in k} a_i = mass_k,

with sides k of rows, each with a level t of its own, and values v that are affine in the decision values f:

    one class              v_i = f_i        one side                   t = rho
    classification         v_i = y_i f_i    the two classes            t = rho -/+ b
    regression             v_i = f_i - y_i, y_i - f_i   above, below   t = -epsilon -/+ b

For fixed f the best level is a quantile, so that the gap is ``sum_i u_i (t - v_i)_+ - a_i (t - v_i)``, of which no
term is negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dimargin.problems.losses import least_of_hinges
from dimargin.problems.objectives import ROUNDINGS
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class Side:
    """Rows whose coefficients have a given sum, with the values of their hinges."""

    values: Floats  # ``v``, of shape (n,)
    errors: Floats  # bounds of their rounding
    coefficients: Floats  # ``a``, between zero and the weights
    weights: Floats  # ``u``
    mass: float

    def level(self) -> float:
        """Return the level t that minimises ``sum u (t - v)_+ - mass t``: as LIBSVM's, the middle one of several."""
        at_upper, at_zero = self.coefficients >= self.weights, self.coefficients <= 0
        low, high = self.values[at_upper].max(initial=-np.inf), self.values[at_zero].min(initial=np.inf)
        if (at_upper | at_zero).all() and np.isfinite(high - low) and low <= high:
            return float(0.5 * (low + high))
        # As a function of -t each row is the hinge of a positive one with its kink at -v.
        return -least_of_hinges(-self.values, np.ones(len(self.values)), self.weights, -self.mass)

    def gap(self, level: float) -> tuple[float, float]:
        """Return this side's part of the gap at a level, and a bound of its rounding."""
        lacking, a = level - self.values, self.coefficients
        losses, products = self.weights * np.maximum(lacking, 0.0), a * lacking
        gap = float(np.maximum(losses - products, 0.0).sum())
        excess = abs(float(a.sum()) - self.mass) + ROUNDINGS * self.mass
        rounding = float(((self.weights + a) * self.errors).sum() + ROUNDINGS * (losses + np.abs(products)).sum())
        return gap, rounding + excess * (abs(level) + float(np.abs(self.values).max(initial=0.0)))


def without_rounding(sizes: Floats, weights: Floats, sides: Floats) -> Floats:
    """Return coefficients without those nearly zero or nearly at their bound: free ones of their side take the rest."""
    near = 1e-8 * weights
    rounded = np.where(sizes < near, 0.0, np.where(sizes > weights - near, weights, sizes))
    for side in np.unique(sides):
        room = np.where(sides == side, np.minimum(rounded, weights - rounded), 0.0)
        left = float((sizes - rounded)[sides == side].sum())
        if abs(left) < float(room.max(initial=0.0)):
            rounded[room.argmax()] += left
        elif abs(left) > ROUNDINGS * float(sizes.sum()):
            rounded[sides == side] = sizes[sides == side]
    return rounded
