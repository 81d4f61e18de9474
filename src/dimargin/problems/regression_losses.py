"""Losses of regression: of residuals, in place of margins.

All labels are one, and margins are decision values ``f(x_i)``: `MarginLosses.targets` subtracts the
targets, so that a loss receives residuals ``r_i = f(x_i) - t_i`` (Vapnik, "The nature of statistical
learning theory", 1995, section 6.1; Smola and Schoelkopf, "A tutorial on support vector regression",
Statistics and Computing 2004, equations 3 to 10). Of the tutorial's two coefficients of a row at most
one is positive at the optimum, and ``g_i`` is their difference ``alpha_i - alpha_i*``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dimargin.problems.losses import (
    HingeLoss,
    Loss,
    PiecewiseConjugate,
    RowCostLoss,
    SquaredHingeLoss,
    least_of_hinges,
    least_of_squares,
)
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class EpsilonInsensitiveLoss(RowCostLoss):
    """The loss ``C_i (|r| - epsilon)_+``, with conjugate ``epsilon |g|`` on ``[-C_i, C_i]``."""

    epsilon: float  # half width of the band of residuals without loss, not negative
    smooth = False

    def value(self, margins: Floats, weights: Floats, mass: float, total: float) -> Floats:
        """See `Loss`."""
        return self._row_weights(weights, mass, total) * self._excess(margins)

    def conjugate(self, weights: Floats, mass: float, total: float) -> PiecewiseConjugate:
        """See `Loss`."""
        ends = self._row_weights(weights, mass, total)
        return self._conjugate(np.zeros_like(weights), ends)

    def best_intercept(
        self, decision: Floats, labels: Floats, conjugate: PiecewiseConjugate, pull: float = 0.0
    ) -> float:
        """See `Loss`; the middle of all minimisers."""
        return least_of_hinges(*self.kinks(decision, labels, conjugate.upper), pull)

    def kinks(self, margins: Floats, labels: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """See `Loss`."""
        ends = np.concatenate([-self.epsilon - margins, self.epsilon - margins])
        return ends, np.concatenate([labels, -labels]), np.concatenate([weights, weights])

    @property
    def one_sided(self) -> Loss:
        """See `Loss`."""
        return HingeLoss(self.C)

    def _excess(self, residuals: Floats) -> Floats:
        return np.maximum(np.abs(residuals) - self.epsilon, 0.0)

    def _conjugate(self, curvature: Floats, ends: Floats) -> PiecewiseConjugate:
        """Return the conjugate ``epsilon |g| + curvature g^2 / 2`` on the interval from minus `ends` to `ends`."""
        slope = np.broadcast_to(self.epsilon, curvature.shape)
        return PiecewiseConjugate(slope, curvature, -slope, curvature, -ends, ends)


class SquaredEpsilonInsensitiveLoss(EpsilonInsensitiveLoss):
    """The loss ``C_i (|r| - epsilon)_+^2``, with conjugate ``epsilon |g| + g^2 / (4 C_i)``."""

    smooth = True

    def value(self, margins: Floats, weights: Floats, mass: float, total: float) -> Floats:
        """See `Loss`."""
        return self._row_weights(weights, mass, total) * self._excess(margins) ** 2

    def conjugate(self, weights: Floats, mass: float, total: float) -> PiecewiseConjugate:
        """See `Loss`."""
        curvature = 1 / (2 * self._row_weights(weights, mass, total))
        return self._conjugate(curvature, np.broadcast_to(np.inf, weights.shape))

    def best_intercept(
        self, decision: Floats, labels: Floats, conjugate: PiecewiseConjugate, pull: float = 0.0
    ) -> float:
        """See `Loss`."""
        return least_of_squares(*self.kinks(decision, labels, 1 / conjugate.curvature_right), pull)

    @property
    def one_sided(self) -> Loss:
        """See `Loss`."""
        return SquaredHingeLoss(self.C)
