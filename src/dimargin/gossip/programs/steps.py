r"""Step sizes of a site that follows the gradient of all rows.

Steps are as long as the mean of x x' allows. For any centre m and e > 0, ``x = m + z`` has

    1/N sum_i x_i x_i'  <=  (1 + e) diag(p) + (1 + 1/e) m m',   p_j = 1/N sum_i |z_ij| |z_i|_1,

(De Pierro's majoriser of z, and ``(a + b)^2 <= (1 + 1/e) a^2 + (1 + e) b^2``), whose inverse is that of a diagonal but
for one direction. The centre is the mean of all rows in features that vary little about it, and zero in those that are
rare: features that are all positive, scaled to [0, 1] say, let a diagonal alone allow a tenth of the step and less.

Where the loss is smooth, its second derivative is at most h, and the majoriser of the whole objective is ``alpha + h``
times that. Steps of its inverse are carried on by the momentum of Nesterov, which begins anew where it leads uphill.

The gradient that a site follows is late by as many rounds as its network takes to mix. Where steps of this length
oscillate for that reason, they are damped until they do not. The first steps with a centre are damped in any case, for
the damage that they do takes long to repair.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dimargin.system.arrays import Floats

_SLACK = 0.25  # e
_FIRST_CENTRE = 32  # steps after which means have been heard from far enough
_AGAINST, _ALONG = -0.5, 0.0  # cosines of two gradients beyond which steps are shortened, or made longer again
_SHORTER, _LONGER = 1.4, 0.97
_MOST = 1e3
_AT_FIRST = 16.0  # damping, when steps begin to follow the centre


@dataclass
class Steps:
    """Step sizes of one site."""

    centre: Floats  # m of the majoriser, of shape (n_features,), zero at first
    damping: float = 1.0  # factor by which steps are shorter than the majoriser allows
    taken: int = 0  # steps so far
    next_centre: int = _FIRST_CENTRE  # steps after which the centre is moved again
    last: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # gradient of the last step
    last_size: float = 0.0
    reached: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # weights after the last step, not carried on
    momentum: float = 1.0  # t of Nesterov's sequence; 1 where it begins

    def move_centre(self, first: Floats, second: Floats) -> bool:
        """Update the centre if the steps have doubled since the last time, and return whether it has moved.

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
            self.damping = max(self.damping, _AT_FIRST)
        self.centre = centre
        return True

    def step(self, gradient: Floats, shrinkage: float, steepness: float, curvature: Floats, may_damp: bool) -> Floats:
        """Return what to subtract from the weights: the gradient times the inverse of the majoriser, damped.

        The gradient is of shape (n_outputs, n_features). The majoriser, whose diagonal p is `curvature`, of shape
        (n_features,), is multiplied by `steepness`, the largest second derivative of the loss, and `shrinkage` is
        added, which is alpha t, or alpha for steps that do not become shorter. Steps may be damped where gradients
        that change direction do so because of the network, not by chance.
        """
        step = self._majorised(gradient, shrinkage / steepness, np.maximum(curvature, 0.0)) / steepness
        size = float((step * gradient).sum())
        if not may_damp:
            self._damp(1.0)
        elif size > 0:
            if self.last_size > 0:
                # no product of the two, which may be too small for float64
                self._damp(float((step * self.last).sum()) / size**0.5 / self.last_size**0.5)
            self.last, self.last_size = gradient, size
        return step / self.damping

    def carried_on(self, weights: Floats, gradient: Floats) -> Floats:
        """Return where the next gradient is looked at: beyond the weights after a step, by Nesterov's momentum.

        It begins anew where the step before has gone uphill (O'Donoghue, Candes, Found. Comput. Math. 2015).
        `gradient` is that before the step.
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
        diagonal, weight = shrinkage + (1 + _SLACK) * curvature, 1 + 1 / _SLACK
        step, along = gradient / diagonal, self.centre / diagonal  # Sherman and Morrison
        return np.asarray(step - np.outer(step @ self.centre, along) * (weight / (1 + weight * (along @ self.centre))))

    def _damp(self, cosine: float) -> None:
        if cosine < _AGAINST:
            self.damping = min(self.damping * _SHORTER, _MOST)
        elif cosine > _ALONG:
            self.damping = max(self.damping * _LONGER, 1.0)
