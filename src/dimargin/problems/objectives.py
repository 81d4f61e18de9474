"""Primal and dual objectives of a problem, with a bound of their rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimargin.system.arrays import TINY, UNIT, Floats, Indices

ROUNDINGS = 64 * UNIT
"""Rounding of a sum of terms by pairs, as numpy sums, and of the terms, relative to their absolute values."""


def relative(gap: Floats | float, primal: Floats) -> Floats:
    """Return gaps relative to the absolute primal objectives."""
    return np.asarray(gap / np.maximum(np.abs(primal), TINY))


@dataclass(frozen=True)
class Objectives:
    """Certified objectives of a problem, each of shape (n_outputs,)."""

    primal: Floats
    dual: Floats  # a lower bound of the optimum: the dual objective less its rounding
    relative_gap: Floats  # ``(primal - dual) / |primal|``, rounding included; infinite where it cannot be computed
    intercept: Floats
    rounding: Floats  # the part of the relative gap that bounds rounding; zero where that has not been bounded yet

    @classmethod
    def of(cls, primal: Floats, gap: Floats, intercept: Floats, rounding: Floats | float = 0.0) -> Objectives:
        """Return the objectives for a primal objective, a gap, and a bound of the rounding of both."""
        with np.errstate(over="ignore", invalid="ignore"):
            whole = gap + rounding
            known = np.isfinite(primal) & np.isfinite(whole)
            gaps, part = (np.where(known, relative(value, primal), np.inf) for value in (whole, rounding))
            dual = np.where(known, primal - whole, -np.inf)
        return cls(primal, dual, gaps, np.asarray(intercept), np.where(known, part, 0.0))

    @property
    def worst_gap(self) -> float:
        """Largest relative gap of all outputs."""
        return float(self.relative_gap.max())

    @property
    def unrounded(self) -> Floats:
        """Relative gaps without rounding."""
        with np.errstate(invalid="ignore"):  # both are infinite beside a primal objective of zero
            return np.where(np.isfinite(self.relative_gap), self.relative_gap - self.rounding, np.inf)

    @property
    def reached(self) -> Floats:
        """Dual objectives without rounding, nan where the primal ones are infinite."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.primal - self.unrounded * np.abs(self.primal))

    def rounded(self, errors: Floats) -> Objectives:
        """Return these objectives with errors of either sign that both of them may have, if none were counted yet."""
        return Objectives.of(self.primal, np.maximum(self.primal - self.dual, 0.0), self.intercept, errors).raised()

    def raised(self, tol: float | None = None) -> Objectives:
        """Return these objectives with the primal one raised by its rounding: that of the machine is not above it.

        With a tolerance it is raised by no more than leaves gaps that meet this, and by no more than a tolerance.
        """
        size, share = np.abs(self.primal), self.rounding
        if tol is not None:
            room = np.where(self.relative_gap <= tol, (tol - self.relative_gap) * (1 - 1e-6), tol)
            share = np.minimum(share, room)
        errors = share * size
        return Objectives.of(self.primal + errors, self.unrounded * size, self.intercept, self.rounding * size + errors)

    def take(self, outputs: Indices | NDArray[np.bool_] | slice) -> Objectives:
        """Return the objectives of some outputs."""
        return Objectives(*(values[outputs] for values in vars(self).values()))

    def replaced(self, outputs: Indices, others: Objectives) -> Objectives:
        """Return these objectives, but others for some outputs."""
        copy = Objectives(*(own.copy() for own in vars(self).values()))
        copy.set(outputs, others)
        return copy

    def set(self, outputs: Indices, others: Objectives) -> None:
        """Set, in place, others for some outputs."""
        for own, other in zip(vars(self).values(), vars(others).values(), strict=True):
            own[outputs] = other

    @staticmethod
    def joined(parts: Sequence[Objectives]) -> Objectives:
        """Return the objectives of several problems, one after the other."""
        return Objectives(
            *(np.concatenate(values) for values in zip(*(vars(part).values() for part in parts), strict=True))
        )

    def better(self, other: Objectives) -> Objectives:
        """Return, output by output, those with the smaller gap of two certificates of the same model."""
        first = self.relative_gap <= other.relative_gap
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Objectives(*(np.where(first, mine, theirs) for mine, theirs in pairs))

    def met(self, tol: float) -> NDArray[np.bool_]:
        """Return which outputs' gaps are within a tolerance, or would be but for rounding that alone exceeds it."""
        return (self.relative_gap <= tol) | ((self.unrounded <= tol) & (self.rounding > tol))


class ObjectiveSums(NamedTuple):
    """Sums over rows that make up the objectives of a problem, which shards can add, each of shape (n_outputs,)."""

    primal: Floats  # ``1/2 g'Qg + sum_i loss_i``
    gap: Floats  # sum of `MarginLosses.gaps`; infinite where a coefficient is outside its box
    gap_rounding: Floats  # a bound of the rounding of the gap
    dual_rounding: Floats  # likewise of the dual objective
    positive: Floats  # ``sum_i g_i`` of either class, with an intercept
    negative: Floats
    # ``sum_i g_i |m_i + phi_i'(g_i)|`` likewise: what the dual objective loses, to first order, if a class shrinks
    positive_slopes: Floats
    negative_slopes: Floats

    def objectives(self, intercepts: Floats, reach: Floats | float = 0.0) -> Objectives:
        """Return the objectives with these intercepts.

        Where ``sum_i y_i g_i = d`` is not zero the coefficients of the heavier class, shrunk by the factor ``1 - s``
        that makes it zero, are the ones that are certified. That takes ``|b d|`` from the first sum of the gap, and at
        most ``s sum_i g_i |m_i + phi_i'(g_i)|`` over that class and ``s^2 / 2`` times the square of `reach`, a bound of
        ``|sum_i g_i phi(x_i)|`` over a class, from the dual objective.
        """
        rounding = np.maximum(self.gap_rounding, self.dual_rounding)
        excess = np.abs(self.positive - self.negative)
        if excess.any() or self.positive.any():
            heavier, lighter = np.maximum(self.positive, self.negative), np.minimum(self.positive, self.negative)
            excess = excess + ROUNDINGS * (heavier + lighter)  # the sums are rounded too
            slopes = np.where(self.positive >= self.negative, self.positive_slopes, self.negative_slopes)
            share = excess / np.maximum(heavier, TINY)
            rounding = rounding + np.abs(intercepts) * excess + share * slopes + 0.5 * (share * reach) ** 2
        return Objectives.of(self.primal, self.gap, intercepts, rounding)
