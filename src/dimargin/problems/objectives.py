"""Primal and dual objectives of a problem, with a bound of their rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimargin.system.arrays import TINY, UNIT, Floats, Indices

ROUNDINGS = 64 * UNIT
"""Rounding of numpy's pairwise sums and of their terms, relative to the terms' absolute values."""


def relative(gap: Floats | float, primal: Floats) -> Floats:
    """Return gaps relative to the absolute primal objectives."""
    return np.asarray(gap / np.maximum(np.abs(primal), TINY))


@dataclass(frozen=True)
class Objectives:
    """Certified objectives of a problem, each of shape (n_outputs,)."""

    primal: Floats
    dual: Floats  # a lower bound of the optimum: the dual objective less its rounding
    relative_gap: Floats  # ``(primal - dual) / |primal|`` with rounding; infinite if not computable
    intercept: Floats
    rounding: Floats  # the part of the relative gap that bounds rounding; zero if not bounded yet

    @classmethod
    def of(cls, primal: Floats, gap: Floats, intercept: Floats, rounding: Floats | float = 0.0) -> Objectives:
        """Return the objectives from a primal objective, a gap and a bound of their rounding."""
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
        with np.errstate(invalid="ignore"):  # Both are infinite if the primal objective is zero.
            return np.where(np.isfinite(self.relative_gap), self.relative_gap - self.rounding, np.inf)

    @property
    def reached(self) -> Floats:
        """Dual objectives without rounding; nan if the primal ones are infinite."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.primal - self.unrounded * np.abs(self.primal))

    def rounded(self, errors: Floats) -> Objectives:
        """Return these objectives, so far without rounding, with errors of either sign in both."""
        return Objectives.of(self.primal, np.maximum(self.primal - self.dual, 0.0), self.intercept, errors).raised()

    def raised(self, tol: float | None = None) -> Objectives:
        """Return these objectives with the primal raised by its rounding, to an upper bound.

        Given a tolerance, it is raised at most by the tolerance, and only so far that gaps within
        the tolerance stay within it.
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
        """Return a copy of these objectives with those of some outputs replaced."""
        copy = Objectives(*(own.copy() for own in vars(self).values()))
        copy.set(outputs, others)
        return copy

    def set(self, outputs: Indices, others: Objectives) -> None:
        """Replace the objectives of some outputs in place."""
        for own, other in zip(vars(self).values(), vars(others).values(), strict=True):
            own[outputs] = other

    @staticmethod
    def joined(parts: Sequence[Objectives]) -> Objectives:
        """Concatenate the objectives of several problems."""
        return Objectives(
            *(np.concatenate(values) for values in zip(*(vars(part).values() for part in parts), strict=True))
        )

    def better(self, other: Objectives) -> Objectives:
        """Return per output the certificate with the smaller gap, of two of the same model."""
        first = self.relative_gap <= other.relative_gap
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Objectives(*(np.where(first, mine, theirs) for mine, theirs in pairs))

    def met(self, tol: float) -> NDArray[np.bool_]:
        """Return which gaps meet a tolerance, ignoring rounding if that alone exceeds it."""
        return (self.relative_gap <= tol) | ((self.unrounded <= tol) & (self.rounding > tol))


class ObjectiveSums(NamedTuple):
    """Sums over rows that make up objectives, additive over shards, of shape (n_outputs,)."""

    primal: Floats  # ``1/2 g'Qg + sum_i loss_i``
    gap: Floats  # sum of `MarginLosses.gaps`; infinite if a coefficient is outside its box
    gap_rounding: Floats  # bound of the rounding of the gap
    dual_rounding: Floats  # bound of the rounding of the dual objective
    positive: Floats  # ``sum_i |g_i|`` of the positive side (`MarginLosses.sides`), with an intercept
    negative: Floats  # ``sum_i |g_i|`` of the negative side, with an intercept
    # ``sum_i |g_i| |m_i + phi_i'(g_i)|`` per side: the dual's first-order loss if the side shrinks.
    positive_slopes: Floats
    negative_slopes: Floats

    def objectives(self, intercepts: Floats, reach: Floats | float = 0.0) -> Objectives:
        """Return the objectives with these intercepts.

        If ``sum_i y_i g_i = d`` is not zero, the certified coefficients are those with the heavier
        side shrunk by the factor ``1 - s`` that makes the sum zero. This takes ``|b d|`` from the
        first sum of the gap. From the dual objective it takes at most
        ``s sum_i |g_i| |m_i + phi_i'(g_i)|`` over that side, plus ``s^2 / 2`` times the square of
        `reach`, a bound of ``|sum_i g_i phi(x_i)|`` over a side.
        """
        rounding = np.maximum(self.gap_rounding, self.dual_rounding)
        excess = np.abs(self.positive - self.negative)
        if excess.any() or self.positive.any():
            heavier, lighter = np.maximum(self.positive, self.negative), np.minimum(self.positive, self.negative)
            excess = excess + ROUNDINGS * (heavier + lighter)  # The sums are rounded, too.
            slopes = np.where(self.positive >= self.negative, self.positive_slopes, self.negative_slopes)
            share = excess / np.maximum(heavier, TINY)
            rounding = rounding + np.abs(intercepts) * excess + share * slopes + 0.5 * (share * reach) ** 2
        return Objectives.of(self.primal, self.gap, intercepts, rounding)
