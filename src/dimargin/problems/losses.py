"""Losses: their values on margins, and the piecewise conjugates on which the dual solvers step.

Every loss here gives the dual (``DualProblem``)

    minimise  1/2 g'Qg + sum_i phi_i(g_i),   Q_ij = y_i y_j k(x_i, x_j),   margins m = Qg,

where ``phi_i(g) = loss_i*(-g)`` is piecewise quadratic with at most one kink, at zero, on a box that contains zero.
To add a loss, write one subclass of `Loss`; no solver needs to know its name. Those that are here
stand in docs/algorithms.md#losses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dimargin import _core
from dimargin.system.arrays import TINY, Floats, Indices

MIN_PARAMETER, MAX_PARAMETER = 1e-50, 1e50
"""Smallest and largest magnitude of parameters, weights and features: products of several stay in float64's range."""

ROUNDING_OF_WEIGHTS = 1e-12
"""Rounding of sums of weights, relative."""

_SAMPLE, _AROUND = 512, 48  # values that tell about where a quantile is, and those of them on either side


@dataclass(frozen=True)
class PiecewiseConjugate:
    """The conjugate ``phi`` of a loss, with one entry for each row.

    ``phi(g) = slope_right g + curvature_right g^2 / 2`` for ``g >= 0``, with the ``left`` pair for ``g < 0``, on
    ``[lower, upper]`` with ``lower <= 0 <= upper``.
    """

    slope_right: Floats
    curvature_right: Floats
    slope_left: Floats
    curvature_left: Floats
    lower: Floats
    upper: Floats

    @property
    def rows(self) -> list[Floats]:
        """The six arrays, as compiled passes over rows take them; a stride of zero repeats one number for all rows."""
        return list(vars(self).values())

    def between(self, part: slice) -> PiecewiseConjugate:
        """Return the conjugate of the loss on consecutive rows, without a copy."""
        return PiecewiseConjugate(*(array[part] for array in self.rows))

    @property
    def largest_curvature(self) -> Floats:
        """Largest second derivative of the loss of every row, if the loss is smooth."""
        left = np.where(self.lower < 0, self.curvature_left, np.inf)
        return np.asarray(1 / np.minimum(self.curvature_right, left))

    def stack(self) -> Floats:
        """Return the six arrays as one contiguous (6, n) array, as the compiled block solver takes them."""
        return np.ascontiguousarray(self.rows)

    def piece(self, dual: Floats) -> tuple[Floats, Floats]:
        """Return slope and curvature of the piece of each coefficient of shape (..., n): at the kink the right one."""
        right = dual >= 0
        slope = np.where(right, self.slope_right, self.slope_left)
        return slope, np.where(right, self.curvature_right, self.curvature_left)

    def value(self, dual: Floats) -> Floats:
        """Return ``phi`` at dual coefficients of shape (..., n)."""
        slope, curvature = self.piece(dual)
        return (slope + 0.5 * curvature * dual) * dual

    def slopes(self, dual: Floats) -> Floats:
        """Return ``phi'`` at dual coefficients of shape (..., n), and at the kink the slope to its right."""
        slope, curvature = self.piece(dual)
        return slope + dual * curvature

    def magnitude(self, dual: Floats) -> Floats:
        """Return the sums of the absolute terms of `value`, to which its rounding is relative."""
        (slope, curvature), size = self.piece(dual), np.abs(dual)
        return (np.abs(slope) + 0.5 * size * curvature) * size

    def response(self, margins: Floats) -> tuple[Floats, Floats, Floats]:
        """Return minus the derivative of a smooth loss, its second derivative, and its value at margins (..., n).

        The first is the dual coefficient that answers a margin, the g with ``m + phi'(g) = 0``, at which
        ``loss(m) = max_g -(g m + phi(g))`` is reached.
        """
        margins = np.ascontiguousarray(margins, dtype=np.float64)
        dual, curvature, value = (np.empty(margins.shape) for _ in range(3))
        rows = (-1, margins.shape[-1])
        outputs = (array.reshape(rows) for array in (dual, curvature, value))
        _core.respond(margins.reshape(rows), self.rows, *outputs)
        return dual, curvature, value

    def subgradient_distance(self, gradient: Floats, dual: Floats) -> Floats:
        """Return the signed distance of zero from ``gradient + phi'(dual)``, positive where `dual` must rise.

        It is zero where the optimality condition holds: the objective falls neither to the right nor to the left,
        except beyond a bound.
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
        Rule by which a solver chooses its blocks: all rows in random order where most dual coefficients move (the
        optimal margin distribution loss), the worst violators where few do (the hinge).
    smooth : bool
        Whether the loss has a derivative everywhere, so that Newton's method can minimise the primal.
    is_shared : bool
        Whether the weight of the loss is one of all rows of a problem together, of which every row has a share.
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
            Weight of the rows that this problem represents (``W_k``; the total weight ``W`` for a whole problem).
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
        """Return the ``b`` that minimises ``sum_i loss_i(y_i (f_i + b)) - pull b``; one-sided losses implement this.

        Decision values ``f`` without an intercept and labels are of shape (n,); `conjugate` is that of this loss on
        these rows. Rows that are not among these may pull at the intercept.
        """
        raise NotImplementedError(f"{type(self).__name__} is not solved with an unregularised intercept")


WEIGHT_OF_A_ROW = 20.0
"""Weight of the loss of a row in the ODM where `lam` is not chosen; docs/defaults.md has the measurements."""


@dataclass(frozen=True)
class ODMLoss(Loss):
    r"""The loss of the Optimal margin Distribution Machine.

    ``lam s_i / (2 W (1-theta)^2) [ (1-theta-m)_+^2 + upsilon (m-1-theta)_+^2 ]``: margins are wanted within
    ``theta`` of one, those that fall short weighted 1, those beyond weighted ``upsilon`` (DiODM paper, section 2; its
    text puts ``upsilon`` on the other term, its formula is right). With ``c = (1-theta)^2 / (lam upsilon)`` the
    conjugate is ``(theta-1) g + W c upsilon/(2 s_i) g^2`` for ``g >= 0`` and ``-(theta+1) g + W c/(2 s_i) g^2`` below:
    the pair ``zeta, beta`` of the paper is ``g = zeta - beta``, since ``zeta_i beta_i = 0`` at the optimum.
    """

    lam: float | None  # weight of the loss, positive; larger is less regularised; None: ``WEIGHT_OF_A_ROW W``
    upsilon: float  # weight of margins beyond ``1 + theta``, in (0, 1]
    theta: float  # half width of the band without loss, in [0, 1)
    selection = "permutation"

    @property
    def is_shared(self) -> bool:  # type: ignore[override]
        """Whether `lam` was chosen, the weight of all rows together."""
        return self.lam is not None

    def weight(self, total: float) -> float:
        """Return lam for a problem whose rows weigh so much in all."""
        return WEIGHT_OF_A_ROW * total if self.lam is None else self.lam

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


@dataclass(frozen=True)
class OneSidedLoss(Loss):
    """Base of losses of what a margin lacks to one, with the weight ``C_i = C s_i W / W_k`` of every row."""

    C: float  # weight of the loss, positive; larger is less regularised
    selection = "greedy"

    def _row_weights(self, weights: Floats, mass: float, total: float) -> Floats:
        return np.asarray(self.C * total / mass * weights)

    @staticmethod
    def _conjugate(curvature: Floats, upper: Floats) -> PiecewiseConjugate:
        """Return the conjugate ``-g + curvature g^2 / 2`` on the interval from zero to `upper`."""
        zero = np.broadcast_to(0.0, curvature.shape)
        return PiecewiseConjugate(np.broadcast_to(-1.0, zero.shape), curvature, zero, zero, zero, upper)


class HingeLoss(OneSidedLoss):
    """The hinge loss, ``C_i (1 - m)_+``; its conjugate is ``-g`` on ``[0, C_i]``. See `OneSidedLoss`."""

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
        """Return a weighted quantile of ``y_i - f_i`` or, if a whole interval minimises, its middle; see `Loss`."""
        # row i pulls with C_i: up while b < y_i - f_i if positive, down while b > y_i - f_i if negative
        kinks, weights = labels - decision, conjugate.upper
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
    """Return the weight of the smallest values, and where those are that follow and have `goal` among their sums.

    The values that follow, sorted, include all whose sums of weights, from the smallest value on, are within `slack` of
    the goal, and the next one. A sample tells which those may be, so that few need be sorted.
    """
    some = np.arange(0, len(values), max(1, len(values) // _SAMPLE))
    some = some[np.argsort(values[some])]
    sums = np.cumsum(weights[some])
    at = int(np.searchsorted(sums, goal * sums[-1] / max(float(weights.sum()), TINY)))
    first, last = max(0, at - _AROUND), min(len(some) - 1, at + _AROUND)
    smaller = values < values[some[first]] if first else np.zeros(len(values), dtype=bool)
    larger = values > values[some[last]] if last < len(some) - 1 else np.zeros(len(values), dtype=bool)
    below, above = float(weights[smaller].sum()), float(weights[larger].sum())
    misses = (below and below >= goal - slack) or (above and float(weights.sum()) - above <= goal + slack)
    if misses:
        return 0.0, np.arange(len(values))
    return below, np.flatnonzero(~(smaller | larger))


class SquaredHingeLoss(OneSidedLoss):
    """The squared hinge loss, ``C_i (1 - m)_+^2``, with conjugate ``-g + g^2 / (4 C_i)`` on ``[0, inf)``."""

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
        """Return the zero of a derivative that is piecewise linear; see `Loss`."""
        kinks, stiffness = labels - decision, 1 / conjugate.curvature_right
        order = np.argsort(kinks)
        t, k = kinks[order], stiffness[order]
        # positive rows act below their kink, negative ones above: derivative sum_acting k_i (b - t_i)
        positive = labels[order] > 0
        acts_below = np.where(positive, k, 0.0)
        acts_above = np.where(positive, 0.0, k)
        weight = np.cumsum(acts_above) + acts_below.sum() - np.cumsum(acts_below)
        moment = pull + np.cumsum(acts_above * t) + (acts_below @ t) - np.cumsum(acts_below * t)
        at = int(np.searchsorted(weight * t - moment, 0.0))  # where the derivative, rising, passes zero
        before = (acts_below.sum(), pull + acts_below @ t) if at == 0 else (weight[at - 1], moment[at - 1])
        # one class alone: its last kink ends all loss
        return float(before[1] / before[0] if before[0] > ROUNDING_OF_WEIGHTS * k.sum() else t[min(at, len(t) - 1)])


@dataclass(frozen=True)
class HardMarginLoss(SquaredHingeLoss):
    """No loss where margins are at least one, and an infinite one else: the squared hinge at an infinite `C`.

    The conjugate is ``-g`` on ``[0, inf)``; the dual is unbounded where no hyperplane has all rows on their side.
    """

    C: float = np.inf
    smooth = False

    def value(self, margins: Floats, weights: Floats, mass: float, total: float) -> Floats:
        """See `Loss`."""
        return np.where(margins >= 1, 0.0, np.inf)
