r"""Step sizes of a site that follows the gradient of all rows.

Steps are as long as the mean of x x' allows. For any centre m and e > 0, ``x = m + z`` has

    1/N sum_i x_i x_i'  <=  (1 + e) diag(p) + (1 + 1/e) m m',   p_j = 1/N sum_i |z_ij| |z_i|_1,

(De Pierro's majoriser of z, and ``(a + b)^2 <= (1 + 1/e) a^2 + (1 + e) b^2``), a diagonal plus a
matrix of rank one. Here e = 1/4. The centre is the mean of all rows in features that vary little
about it, and zero in rare features. If all features are positive, scaled to [0, 1] for example, a
diagonal alone allows a tenth of the step or less.

If the loss is smooth, its second derivative is at most h, and the majoriser of the whole objective
is ``alpha + h`` times that. Steps use Nesterov's momentum, restarted when it leads uphill.

The gradient that a site follows is delayed by as many rounds as its network takes to mix. If steps
of this length oscillate because of that, they are damped until they do not. The first steps with a
centre are always damped, since errors that they make take long to repair.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dimargin.system.arrays import Floats


@dataclass
class Steps:
    """Step sizes of one site."""

    centre: Floats  # Centre m of the majoriser, of shape (n_features,), zero at first.
    damping: float = 1.0  # Steps are shorter than the majoriser allows by this factor.
    taken: int = 0  # Steps so far.
    next_centre: int = 32  # Steps after which the centre moves next; 32 steps bring in means of distant sites.
    last: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # Gradient of the last step.
    last_size: float = 0.0
    reached: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # Weights after the last step, without momentum.
    momentum: float = 1.0  # Value t of Nesterov's sequence; 1 at a restart.

    def move_centre(self, first: Floats, second: Floats) -> bool:
        """Update the centre if the number of steps has doubled since the last update; return whether it has moved.

        `first` and `second` are the means of x and x^2 over all rows, of shape (n_features,).
        """
        self.taken += 1
        if self.taken < self.next_centre:
            return False
        self.next_centre = 2 * self.taken
        centre = np.where(2 * first**2 > second, first, 0.0)
        if np.abs(centre - self.centre).max(initial=0.0) <= 1e-3 * np.abs(centre).max(initial=0.0):
            return False
        if not self.centre.any():
            self.damping = max(self.damping, 16.0)
        self.centre = centre
        return True

    def step(self, gradient: Floats, shrinkage: float, steepness: float, curvature: Floats, may_damp: bool) -> Floats:
        """Return the step to subtract from the weights: the inverse of the majoriser times the gradient, damped.

        The gradient is of shape (n_outputs, n_features). The majoriser, whose diagonal p is
        `curvature`, of shape (n_features,), is multiplied by `steepness`, the largest second
        derivative of the loss, and `shrinkage` is added: alpha t, or alpha for steps that do not
        shrink. Set `may_damp` if gradients are exact and oscillate only because of the network.
        """
        step = self._majorised(gradient, shrinkage / steepness, np.maximum(curvature, 0.0)) / steepness
        size = float((step * gradient).sum())
        if not may_damp:
            self._damp(1.0)
        elif size > 0:
            if self.last_size > 0:
                # The product of both sizes may underflow, so each is divided by.
                self._damp(float((step * self.last).sum()) / size**0.5 / self.last_size**0.5)
            self.last, self.last_size = gradient, size
        return step / self.damping

    def carried_on(self, weights: Floats, gradient: Floats) -> Floats:
        """Return the weights after a step, extrapolated by Nesterov's momentum, at which to take the next gradient.

        It restarts when the previous step went uphill (O'Donoghue, Candes, Found. Comput. Math.
        2015). `gradient` is the one before the step.
        """
        before, self.reached = self.reached, weights
        moved = weights - before if before.shape == weights.shape else np.zeros_like(weights)
        if (moved * gradient).sum() > 0:
            self.momentum = 1.0
            return weights
        now, self.momentum = self.momentum, (1 + (1 + 4 * self.momentum**2) ** 0.5) / 2
        return np.asarray(weights + (now - 1) / self.momentum * moved)

    def _majorised(self, gradient: Floats, shrinkage: float, curvature: Floats) -> Floats:
        if not self.centre.any():
            return np.asarray(gradient / (shrinkage + curvature))
        slack = 0.25  # The number e of the majoriser.
        diagonal, weight = shrinkage + (1 + slack) * curvature, 1 + 1 / slack
        step, along = gradient / diagonal, self.centre / diagonal  # This inverts by Sherman and Morrison's formula.
        return np.asarray(step - np.outer(step @ self.centre, along) * (weight / (1 + weight * (along @ self.centre))))

    def _damp(self, cosine: float) -> None:
        """Shorten steps if the cosine between the last two gradients is far below zero; relax if it is positive."""
        if cosine < -0.5:
            self.damping = min(self.damping * 1.4, 1e3)
        elif cosine > 0.0:
            self.damping = max(self.damping * 0.97, 1.0)
