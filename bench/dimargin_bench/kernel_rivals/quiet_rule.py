r"""The GADGET paper's rule of convergence: successive iterations that change the weights by less than epsilon.

The paper words it in three ways. Two of them are read here, and end at different iterations:

"weights"
    "the local weight vectors converge i.e. they do not change more than" epsilon (section 5.4):
    ``|w(t) - w(t-1)| < epsilon``.
"norm"
    "the difference in norm of the weight vector falls below" epsilon (section 6):
    ``||w(t)| - |w(t-1)|| < epsilon``.

That the norm itself "falls below" epsilon, as the captions of Figure 1 and Table 2 have it, never
happens to a machine that has learnt something. A step of ``1/(lambda t)`` moves weights by up to
``|w|/t + R/(lambda t)``, whatever the error, with R the length of the longest row: either rule
measures the step. Vectors that the projection on the ball ``|w| <= 1/sqrt(lambda)`` has just
shortened have the same norm: by "norm" Pegasos with the projection converges within its first
iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dimargin.estimators.input_checks import check_number
from dimargin.system.arrays import Floats

READINGS = ("norm", "weights")


@dataclass
class QuietRule:
    """Counts of successive quiet iterations, of one or several weight vectors at a time.

    Parameters
    ----------
    epsilon : float
    reading : {"norm", "weights"}
        What an iteration has to change by less than epsilon: the norm, or the weights.

    Examples
    --------
    Weights that turn, but keep their length:

    >>> rule, other = QuietRule(1e-3, "norm"), QuietRule(1e-3, "weights")
    >>> for angle in (0.0, 0.1, 0.2):
    ...     w = np.array([[np.cos(angle), np.sin(angle)]])
    ...     counts = rule.look(w), other.look(w)
    >>> [int(count[0]) for count in counts]
    [2, 0]
    """

    epsilon: float
    reading: str
    counts: NDArray[np.int64] | None = field(default=None, init=False)
    _last: Floats | None = field(default=None, init=False)

    def look(self, weights: Floats) -> NDArray[np.int64]:
        """Return for how many iterations running each of m vectors has been quiet, given the newest, of shape (m, d).

        Before the first iteration all weights are zero, and while they are, nothing has been learnt
        that could be quiet.
        """
        last = np.zeros_like(weights) if self._last is None else self._last
        if self.reading == "norm":
            change = np.abs(np.linalg.norm(weights, axis=1) - np.linalg.norm(last, axis=1))
        else:
            change = np.linalg.norm(weights - last, axis=1)
        before = 0 if self.counts is None else self.counts
        is_quiet = (change < self.epsilon) & weights.any(axis=1)
        self.counts, self._last = np.where(is_quiet, before + 1, 0), weights.copy()
        return self.counts


def check_rule(epsilon: float | None, reading: str) -> None:
    """Raise ValueError for a parameter of the rule that is out of its range."""
    if epsilon is not None:
        check_number("epsilon", epsilon, 0)
    if reading not in READINGS:
        raise ValueError(f"reading must be 'norm' or 'weights', got {reading!r}")
