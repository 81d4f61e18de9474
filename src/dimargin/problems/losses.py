"""Losses: their values at margins, and their piecewise conjugates for the dual solvers.

Every loss here gives the dual (``DualProblem``)

    minimise  1/2 g'Qg + sum_i phi_i(g_i),   Q_ij = y_i y_j k(x_i, x_j),   margins m = Qg,

where ``phi_i(g) = loss_i*(-g)`` is piecewise quadratic with at most one kink, at zero, on a box
that contains zero. To add a loss, write one subclass of `Loss`; no solver needs to know its name.
See docs/algorithms.md#losses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from dimargin.system.arrays import TINY, Floats, Indices

MIN_PARAMETER, MAX_PARAMETER = 1e-50, 1e50
"""Smallest and largest parameters, weights and features, so that products stay within float64."""

ROUNDING_OF_WEIGHTS = 1e-12
"""Relative rounding of sums of weights."""


@dataclass(frozen=True)
class PiecewiseConjugate:
    """The conjugate ``phi`` of a loss, with one entry per row.

    ``phi(g) = slope_right g + curvature_right g^2 / 2`` for ``g >= 0``, with the ``left`` pair for
    ``g < 0``, on ``[lower, upper]`` with ``lower <= 0 <= upper``.
    """

    slope_right: Floats
    curvature_right: Floats
    slope_left: Floats
    curvature_left: Floats
    lower: Floats
    upper: Floats

    @property
    def rows(self) -> list[Floats]:
        """The six arrays for compiled passes; an array may be broadcast, with a stride of zero."""
        return list(vars(self).values())

    def between(self, part: slice) -> PiecewiseConjugate:
        """Return the conjugate of the loss on consecutive rows, without a copy."""
        return PiecewiseConjugate(*(array[part] for array in self.rows))

    def shifted(self, targets: Floats) -> PiecewiseConjugate:
        """Return the conjugate of the loss of ``m_i - t_i``: its slopes are smaller by the targets."""
        return replace(self, slope_right=self.slope_right - targets, slope_left=self.slope_left - targets)

    @property
    def largest_curvature(self) -> Floats:
        """Largest second derivative of each row's loss, if it is smooth."""
        left = np.where(self.lower < 0, self.curvature_left, np.inf)
        return np.asarray(1 / np.minimum(self.curvature_right, left))

    def stack(self) -> Floats:
        """Return the six arrays as one contiguous (6, n) array for the compiled block solver."""
        return np.ascontiguousarray(self.rows)

    def piece(self, dual: Floats, left_of_kink: bool = False) -> tuple[Floats, Floats]:
        """Return slope and curvature of each coefficient's piece, at the kink of the right or the left one."""
        right = dual > 0 if left_of_kink else dual >= 0
        slope = np.where(right, self.slope_right, self.slope_left)
        return slope, np.where(right, self.curvature_right, self.curvature_left)

    def value(self, dual: Floats) -> Floats:
        """Return ``phi`` at dual coefficients of shape (..., n)."""
        slope, curvature = self.piece(dual)
        return (slope + 0.5 * curvature * dual) * dual

    def slopes(self, dual: Floats) -> Floats:
        """Return ``phi'`` at dual coefficients of shape (..., n), at the kink the right slope."""
        slope, curvature = self.piece(dual)
        return slope + dual * curvature

    def magnitude(self, dual: Floats) -> Floats:
        """Return the sum of the absolute terms of `value`, to which its rounding is relative."""
        (slope, curvature), size = self.piece(dual), np.abs(dual)
        return (np.abs(slope) + 0.5 * size * curvature) * size

    def response(self, margins: Floats) -> tuple[Floats, Floats, Floats]:
        """Return negative derivative, second derivative and value of a smooth loss at margins.

        The first is the dual coefficient that answers a margin: the g with ``m + phi'(g) = 0``,
        which attains ``loss(m) = max_g -(g m + phi(g))``.
        """
        margins = np.ascontiguousarray(margins, dtype=np.float64)
        dual, curvature, value = (np.empty(margins.shape) for _ in range(3))
        rows = (-1, margins.shape[-1])
        outputs = (array.reshape(rows) for array in (dual, curvature, value))
        from dimargin import _core  # Sites with the hinge loss need no compiled core, which takes 10 MB.

        _core.respond(margins.reshape(rows), self.rows, *outputs)
        return dual, curvature, value

    def subgradient_distance(self, gradient: Floats, dual: Floats) -> Floats:
        """Return the signed distance of zero from ``gradient + phi'(dual)``.

        It is positive if `dual` must rise, and zero at the optimum, where the objective decreases
        in neither direction, except beyond a bound.
        """
        right = self.slope_right + self.curvature_right * dual
        left = self.slope_left + self.curvature_left * dual
        rise = -gradient - np.where(dual >= 0, right, left)
        fall = gradient + np.where(dual > 0, right, left)
        rise = np.where(dual < self.upper, np.maximum(rise, 0.0), 0.0)
        return rise - np.where(dual > self.lower, np.maximum(fall, 0.0), 0.0)


class Loss(ABC):
    """A loss of margins, as the dual solvers need it.

    Attributes
    ----------
    selection : {"permutation", "greedy"}
        Rule by which a solver chooses blocks: all rows in random order if most dual coefficients
        move (the optimal margin distribution loss), the most violating rows if few do (the hinge).
    smooth : bool
        Whether the loss has a derivative everywhere, so that Newton's method can minimise the
        primal.
    is_shared : bool
        Whether one parameter weights the mean loss (`lam`), rather than the loss of each row (`C`).
    """

    selection: Literal["permutation", "greedy"]
    smooth: bool = True
    is_shared: bool = False

    @abstractmethod
    def value(self, margins: Floats, weights: Floats, mass: float, total: float) -> Floats:
        """Return the loss of every row.

        Parameters
        ----------
        margins : ndarray of shape (..., n)
            ``m_i = y_i f(x_i)``.
        weights : ndarray of shape (n,)
            Positive row weights ``s_i``.
        mass : float
            Weight of the rows that this problem represents (``W_k``; ``W`` for a whole problem).
        total : float
            Weight of all rows of the whole problem, ``W``.

        Returns
        -------
        ndarray of the shape of `margins`
        """

    @abstractmethod
    def conjugate(self, weights: Floats, mass: float, total: float) -> PiecewiseConjugate:
        """Return the piecewise conjugate ``phi_i(g) = loss_i*(-g)``; parameters are those of `value`."""

    def best_intercept(
        self, decision: Floats, labels: Floats, conjugate: PiecewiseConjugate, pull: float = 0.0
    ) -> float:
        """Return the ``b`` that minimises ``sum_i loss_i(y_i (f_i + b)) - pull b``.

        Decision values ``f`` without intercept and labels are of shape (n,); `conjugate` is that of
        this loss on these rows. `pull` is the slope in b of the rows outside this problem.
        """
        raise NotImplementedError(f"{type(self).__name__} does not support an unregularised intercept")

    def kinks(self, margins: Floats, labels: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Return kinks, labels and weights of rows with the loss `one_sided`, whose sum is that of these rows.

        As a function of the intercept, a row has a kink at every end of the margins without loss:
        here at a margin of one. Arguments are of shape (n,); margins are without intercept.
        """
        return labels * (1 - margins), labels, weights

    @property
    def one_sided(self) -> Loss:
        """Loss of the rows of `kinks`: below the kink of a positive row, and above that of a negative one."""
        return self


@dataclass(frozen=True)
class ODMLoss(Loss):
    r"""The loss of the Optimal margin Distribution Machine.

    ``lam s_i / (2 W (1-theta)^2) [ (1-theta-m)_+^2 + upsilon (m-1-theta)_+^2 ]`` penalises margins
    further than ``theta`` from one: below with weight 1, above with weight ``upsilon`` (DiODM
    paper, section 2: its formula is right, but its text puts ``upsilon`` on the other term). With
    ``c = (1-theta)^2 / (lam upsilon)`` the conjugate is ``(theta-1) g + W c upsilon/(2 s_i) g^2``
    for ``g >= 0`` and ``-(theta+1) g + W c/(2 s_i) g^2`` below. The paper's ``zeta, beta`` are the
    parts of ``g = zeta - beta``, since ``zeta_i beta_i = 0`` at the optimum.
    """

    lam: float | None  # positive weight; larger is less regularised; None: `row_weight` times W
    upsilon: float  # weight of margins beyond ``1 + theta``, in (0, 1]
    theta: float  # half width of the band without loss, in [0, 1)
    selection = "permutation"
    row_weight: ClassVar[float] = 20.0
    """Default weight of a row's loss; docs/defaults.md has the measurements."""

    @property
    def is_shared(self) -> bool:  # type: ignore[override]
        """Return whether `lam`, the weight of all rows together, was given."""
        return self.lam is not None

    def weight(self, total: float) -> float:
        """Return lam for a problem with this total weight of rows."""
        return self.row_weight * total if self.lam is None else self.lam

    def value(self, margins: Floats, weights: Floats, mass: float, total: float) -> Floats:
        """See `Loss`."""
        scale = self.weight(total) * weights / (2 * mass * (1 - self.theta) ** 2)
        below = np.maximum(1 - self.theta - margins, 0)
        beyond = np.maximum(margins - 1 - self.theta, 0)
        return scale * (below**2 + self.upsilon * beyond**2)

    def conjugate(self, weights: Floats, mass: float, total: float) -> PiecewiseConjugate:
        """See `Loss`."""
        curvature = mass * (1 - self.theta) ** 2 / (self.weight(total) * weights)
        return PiecewiseConjugate(
            slope_right=np.broadcast_to(self.theta - 1.0, weights.shape),
            curvature_right=curvature,
            slope_left=np.broadcast_to(-1.0 - self.theta, weights.shape),
            curvature_left=curvature / self.upsilon,
            lower=np.broadcast_to(-np.inf, weights.shape),
            upper=np.broadcast_to(np.inf, weights.shape),
        )

    def best_intercept(
        self, decision: Floats, labels: Floats, conjugate: PiecewiseConjugate, pull: float = 0.0
    ) -> float:
        """Return the zero of the piecewise linear derivative; see `Loss`."""
        return least_of_squares(*self.kinks(labels * decision, labels, 1 / conjugate.curvature_right), pull)

    def kinks(self, margins: Floats, labels: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """See `Loss`."""
        kinks = np.concatenate([labels * (1 + side * self.theta - margins) for side in (-1, 1)])
        return kinks, np.concatenate([labels, -labels]), np.concatenate([weights, self.upsilon * weights])

    @property
    def one_sided(self) -> Loss:
        """See `Loss`."""
        return SquaredHingeLoss(1.0)


@dataclass(frozen=True)
class RowCostLoss(Loss):
    """Base of losses with the weight ``C_i = C s_i W / W_k`` for row i."""

    C: float  # weight of the loss, positive; larger is less regularised
    selection = "greedy"

    def _row_weights(self, weights: Floats, mass: float, total: float) -> Floats:
        return np.asarray(self.C * total / mass * weights)


class OneSidedLoss(RowCostLoss):
    """Base of losses of margins below one."""

    @staticmethod
    def _conjugate(curvature: Floats, upper: Floats) -> PiecewiseConjugate:
        """Return the conjugate ``-g + curvature g^2 / 2`` on the interval from zero to `upper`."""
        zero = np.broadcast_to(0.0, curvature.shape)
        return PiecewiseConjugate(np.broadcast_to(-1.0, zero.shape), curvature, zero, zero, zero, upper)


class HingeLoss(OneSidedLoss):
    """The hinge loss ``C_i (1 - m)_+``, with conjugate ``-g`` on ``[0, C_i]``."""

    smooth = False

    def value(self, margins: Floats, weights: Floats, mass: float, total: float) -> Floats:
        """See `Loss`."""
        return self._row_weights(weights, mass, total) * np.maximum(1 - margins, 0)

    def conjugate(self, weights: Floats, mass: float, total: float) -> PiecewiseConjugate:
        """See `Loss`."""
        return self._conjugate(np.zeros_like(weights), self._row_weights(weights, mass, total))

    def best_intercept(
        self, decision: Floats, labels: Floats, conjugate: PiecewiseConjugate, pull: float = 0.0
    ) -> float:
        """Return a weighted quantile of ``y_i - f_i``, or the middle of all minimisers."""
        return least_of_hinges(labels - decision, labels, conjugate.upper, pull)


def least_of_hinges(kinks: Floats, labels: Floats, weights: Floats, pull: float = 0.0) -> float:
    """Return the middle of the b at which ``sum_i C_i (y_i (t_i - b))_+ - pull b`` is least, for kinks t and weights C.

    A positive row pulls b up with its weight below its kink, and a negative one pulls it down above.
    """
    goal, slack = float(weights[labels > 0].sum()) + pull, ROUNDING_OF_WEIGHTS * float(weights.sum())
    below, near = _near_quantile(kinks, weights, goal, slack)
    kinks, weights = kinks[near], weights[near]
    order = np.argsort(kinks)
    slope = below + np.cumsum(weights[order]) - goal
    first = int(np.searchsorted(slope, -slack))
    last = int(np.searchsorted(slope, slack, side="right"))
    low, high = (kinks[order[min(k, len(kinks) - 1)]] for k in (first, last))
    return float(low + high) / 2


def _near_quantile(values: Floats, weights: Floats, goal: float, slack: float) -> tuple[float, Indices]:
    """Return the weight of the smallest values, and the indices of those near the quantile `goal`.

    The latter include, sorted by value, all whose cumulative weights are within `slack` of the
    goal, and the next one. A sample locates the quantile, so that few values need be sorted.
    """
    some = np.arange(0, len(values), max(1, len(values) // 512))
    some = some[np.argsort(values[some])]
    sums = np.cumsum(weights[some])
    at = int(np.searchsorted(sums, goal * sums[-1] / max(float(weights.sum()), TINY)))
    first, last = max(0, at - 48), min(len(some) - 1, at + 48)
    smaller = values < values[some[first]] if first else np.zeros(len(values), dtype=bool)
    larger = values > values[some[last]] if last < len(some) - 1 else np.zeros(len(values), dtype=bool)
    below, above = float(weights[smaller].sum()), float(weights[larger].sum())
    misses = (below and below >= goal - slack) or (above and float(weights.sum()) - above <= goal + slack)
    if misses:
        return 0.0, np.arange(len(values))
    return below, np.flatnonzero(~(smaller | larger))


class SquaredHingeLoss(OneSidedLoss):
    """The squared hinge loss ``C_i (1 - m)_+^2``, with conjugate ``-g + g^2 / (4 C_i)``, g >= 0."""

    def value(self, margins: Floats, weights: Floats, mass: float, total: float) -> Floats:
        """See `Loss`."""
        return np.asarray(self._row_weights(weights, mass, total) * np.maximum(1 - margins, 0) ** 2)

    def conjugate(self, weights: Floats, mass: float, total: float) -> PiecewiseConjugate:
        """See `Loss`."""
        curvature = 1 / (2 * self._row_weights(weights, mass, total))
        return self._conjugate(curvature, np.broadcast_to(np.inf, weights.shape))

    def best_intercept(
        self, decision: Floats, labels: Floats, conjugate: PiecewiseConjugate, pull: float = 0.0
    ) -> float:
        """Return the zero of the piecewise linear derivative; see `Loss`."""
        return _zero_of_slopes(labels - decision, labels, 1 / conjugate.curvature_right, pull)


@dataclass(frozen=True)
class HardMarginLoss(SquaredHingeLoss):
    """The squared hinge at an infinite `C`: no loss for margins of at least one, else infinity.

    The conjugate is ``-g`` on ``[0, inf)``; the dual is unbounded unless rows are separable.
    """

    C: float = np.inf
    smooth = False

    def value(self, margins: Floats, weights: Floats, mass: float, total: float) -> Floats:
        """See `Loss`."""
        return np.where(margins >= 1, 0.0, np.inf)


def least_of_squares(kinks: Floats, labels: Floats, stiffness: Floats, pull: float = 0.0) -> float:
    """Return the b at which ``1/2 sum_i k_i (y_i (t_i - b))_+^2 - pull b`` is least, for kinks t and stiffness k.

    It is the middle of the largest positive kink and the smallest negative one if the sum is zero between them.
    """
    low, high = kinks[labels > 0].max(), kinks[labels < 0].min()
    if low <= high and not pull:
        return float(low + high) / 2
    return _zero_of_slopes(kinks, labels, stiffness, pull)


def _zero_of_slopes(kinks: Floats, labels: Floats, stiffness: Floats, pull: float = 0.0) -> float:
    """Return the largest b at which the slope of the sum of `least_of_squares` is not positive."""
    order = np.argsort(kinks)
    t, k = kinks[order], stiffness[order]
    # Positive rows below their kink, and negative ones above, add k_i (b - t_i) to the slope.
    positive = labels[order] > 0
    acts_below = np.where(positive, k, 0.0)
    acts_above = np.where(positive, 0.0, k)
    weight = np.cumsum(acts_above) + acts_below.sum() - np.cumsum(acts_below)
    moment = pull + np.cumsum(acts_above * t) + (acts_below @ t) - np.cumsum(acts_below * t)
    at = int(np.searchsorted(weight * t - moment, 0.0))  # The derivative passes zero here.
    before = (acts_below.sum(), pull + acts_below @ t) if at == 0 else (weight[at - 1], moment[at - 1])
    # If there is only one class, the loss vanishes at its last kink.
    return float(before[1] / before[0] if before[0] > ROUNDING_OF_WEIGHTS * k.sum() else t[min(at, len(t) - 1)])
