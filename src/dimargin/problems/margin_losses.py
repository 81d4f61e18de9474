"""Losses of margins: the part of a problem that does not depend on the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from dimargin.problems.losses import ROUNDING_OF_WEIGHTS, Loss, PiecewiseConjugate
from dimargin.problems.objectives import ROUNDINGS, ObjectiveSums
from dimargin.system.arrays import UNIT, Floats, Indices

BALANCED = 1e-13
"""Largest sum of signed coefficients, relative to that of absolute ones, that counts as zero."""


@dataclass(frozen=True)
class MarginLosses:
    """Losses of all rows' margins, for every output: the part of a problem without the kernel.

    A mass that equals the total up to the rounding of sums is set to the total, so that
    coefficients of the whole problem are not rounded again.
    """

    labels: Floats  # plus or minus one, of shape (n_outputs, n); one-vs-rest has several outputs
    weights: Floats  # positive weights ``s_i`` of the rows, of shape (n,)
    loss: Loss
    mass: float  # weight of the rows that this problem represents (``W_k``), also rows filtered out
    total: float  # weight of the rows of the whole problem (``W``)
    intercept: bool = False  # whether there is an unregularised one: ``sum_i y_i g_i = 0``
    targets: Floats | None = None  # targets of regression, of shape (n,): losses are those of ``m_i - t_i``

    def __post_init__(self) -> None:
        if abs(self.mass - self.total) <= ROUNDING_OF_WEIGHTS * self.total:
            object.__setattr__(self, "mass", self.total)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without what was computed from them."""
        return {own.name: self.__dict__[own.name] for own in fields(self)}

    @property
    def n_rows(self) -> int:
        """Number of rows of this problem."""
        return int(self.labels.shape[1])

    @property
    def n_sums(self) -> int:
        """Number of sums of signed coefficients that are given: one, of zero, with an intercept."""
        return int(self.intercept)

    @cached_property
    def conjugate(self) -> PiecewiseConjugate:
        """Conjugate of the loss on every row."""
        conjugate = self.loss.conjugate(self.weights, self.mass, self.total)
        return conjugate if self.targets is None else conjugate.shifted(self.targets)

    def of_rows(self, index: Indices | slice, mass: float) -> MarginLosses:
        """Return the losses of some rows, in a problem of this mass."""
        labels, targets = np.ascontiguousarray(self.labels[:, index]), self.targets
        targets = None if targets is None else targets[index]
        own = labels, self.weights[index], self.loss, mass, self.total, self.intercept, targets
        return MarginLosses(*own)

    @staticmethod
    def joined(parts: Sequence[MarginLosses]) -> MarginLosses:
        """Concatenate the losses of several problems' rows, with the mass of the first."""
        labels = np.concatenate([part.labels for part in parts], axis=1)
        weights = np.concatenate([part.weights for part in parts])
        known = [part.targets for part in parts if part.targets is not None]
        targets = np.concatenate(known) if known else None
        return replace(parts[0], labels=labels, weights=weights, targets=targets)

    def feasible(self, dual: Floats) -> Floats:
        """Return coefficients near `dual` in the box and, with an intercept, ``sum_i y_i g_i = 0``.

        If the sum is nearly zero, few coefficients change to make it zero up to rounding; otherwise
        all coefficients of the heavier side (`sides`) shrink first.
        """
        dual = np.clip(dual, self.conjugate.lower, self.conjugate.upper)
        if not self.intercept:
            return dual
        sums, sizes = (dual * self.labels).sum(axis=1), np.abs(dual).sum(axis=1)
        for q in np.flatnonzero(np.abs(sums) > 1e-6 * sizes):
            heavier = self.sides(dual)[q] == np.sign(sums[q])
            dual[q, heavier] *= np.abs(dual[q, ~heavier]).sum() / np.abs(dual[q, heavier]).sum()
        sums = (dual * self.labels).sum(axis=1)
        for q in np.flatnonzero(np.abs(sums) > BALANCED * sizes):
            self._balance(dual[q], self.labels[q], float(sums[q]))
        return dual

    def sides(self, dual: Floats) -> Floats:
        """Return the signs of the signed coefficients ``y g``, of zeros the labels.

        These are the labels unless a loss has coefficients below zero.
        """
        return np.where(dual < 0, -self.labels, self.labels)

    def _balance(self, dual: Floats, labels: Floats, excess: float) -> None:
        """Remove an excess of the signed sum in place: few coefficients change, free ones first."""
        lower, upper = (np.broadcast_to(bound, dual.shape) for bound in (self.conjugate.lower, self.conjugate.upper))
        falls = labels * excess > 0
        room = np.where(falls, dual - lower, upper - dual)
        inside = np.minimum(np.minimum(dual - lower, upper - dual), np.abs(dual))  # No coefficient leaves zero first.
        for i in np.lexsort((-room, -inside)):
            step = min(abs(excess), room[i])
            moved = dual[i] - step if falls[i] else dual[i] + step
            dual[i] = min(max(moved, lower[i]), upper[i])  # Rounding may exceed the bounds.
            excess -= np.sign(excess) * step
            if not excess:
                break

    def intercepts(self, margins: Floats) -> Floats:
        """Return the intercepts that minimise the primal, of shape (n_outputs,)."""
        if not self.intercept:
            return np.zeros(len(margins))
        pairs = zip(self.labels, self.residuals(margins), strict=True)
        return np.array([self.loss.best_intercept(y * m, y, self.conjugate) for y, m in pairs])

    def kinks(self, margins: Floats) -> list[tuple[Floats, Floats, Floats]]:
        """Return the rows of `Loss.kinks` for every output, at margins without intercept."""
        rows = zip(self.residuals(margins), self.labels, strict=True)
        return [self.loss.kinks(own, labels, self.weights) for own, labels in rows]

    def residuals(self, margins: Floats) -> Floats:
        """Return the arguments of the losses: margins, less the targets of regression."""
        return margins if self.targets is None else margins - self.targets

    def middle_intercepts(self, dual: Floats, margins: Floats) -> Floats:
        """Return intercepts midway between the largest score to rise and the smallest to fall.

        The two are equal at the optimum. A score is ``-y`` times the derivative of the dual
        objective: the direction in which a signed coefficient ``y g`` improves it.
        """
        if not self.intercept:
            return np.zeros(len(margins))
        rising, falling = self.scores(dual, margins)
        highest, lowest = rising.max(axis=1), falling.min(axis=1)
        middle: Floats = (highest + lowest) / 2
        # None may rise, or none may fall.
        one_class = ~(np.isfinite(highest) & np.isfinite(lowest))
        if one_class.any():
            middle[one_class] = self.intercepts(margins)[one_class]
        return middle

    def scores(self, dual: Floats, margins: Floats) -> tuple[Floats, Floats]:
        """Return the scores of coefficients that may rise (else -inf) and that may fall (else inf).

        See `middle_intercepts`. A coefficient within rounding (2^-40) of its bound counts as bound:
        its score would fix the intercept, which may be anywhere in an interval if all are bound.
        """
        conjugate, positive = self.conjugate, self.labels > 0
        lower, upper = (
            bound + side * 2.0**-40 * np.where(np.isfinite(bound), np.abs(bound), 0.0)
            for bound, side in ((conjugate.lower, 1), (conjugate.upper, -1))
        )
        may_grow, may_shrink = dual < upper, dual > lower
        pieces = [conjugate.piece(dual, left_of_kink) for left_of_kink in (False, True)]
        grow, shrink = (-self.labels * (margins + slope + curvature * dual) for slope, curvature in pieces)
        rising = np.where(np.where(positive, may_grow, may_shrink), np.where(positive, grow, shrink), -np.inf)
        return rising, np.where(np.where(positive, may_shrink, may_grow), np.where(positive, shrink, grow), np.inf)

    def shifted(self, margins: Floats, intercepts: Floats) -> Floats:
        """Return the margins with intercepts."""
        return margins + self.labels * intercepts[:, None] if self.intercept else margins

    def gaps(self, dual: Floats, margins: Floats) -> Floats:
        """Return each row's part of the gap, ``loss_i(m_i) + phi_i(g_i) + g_i m_i >= 0``.

        It is non-negative by Fenchel-Young. The margins include the intercept, which adds nothing
        to the sum: ``sum_i y_i g_i b = 0``.
        """
        return np.maximum(self.values(margins) + self.conjugate.value(dual) + dual * margins, 0.0)

    def values(self, margins: Floats) -> Floats:
        """Return the loss of each row at margins with intercept."""
        return self.loss.value(self.residuals(margins), self.weights, self.mass, self.total)

    def objective_sums(
        self, dual: Floats, margins: Floats, intercepts: Floats, errors: Floats | None = None
    ) -> ObjectiveSums:
        """Sum the terms of the objectives over these rows, for margins without the intercepts.

        The `errors` bound the rounding of the margins; without them no rounding is counted.
        """
        shifted = self.shifted(margins, intercepts)
        return ObjectiveSums(*(terms.sum(axis=1) for terms in self.objective_terms(dual, margins, shifted, errors)))

    def objective_terms(
        self, dual: Floats, margins: Floats, shifted: Floats, errors: Floats | None
    ) -> Iterator[Floats]:
        """Yield the terms of each row in the sums of `ObjectiveSums`, in order.

        Arguments are those of `objective_sums`, and `shifted`, the margins with the intercepts.
        """
        conjugate = self.conjugate
        losses, products = self.values(shifted), dual * shifted
        half = 0.5 * (dual * margins)
        yield half + losses
        outside = (dual < conjugate.lower) | (dual > conjugate.upper)
        yield np.where(outside, np.inf, np.maximum(losses + conjugate.value(dual) + products, 0.0))
        nothing = np.zeros(dual.shape)
        if errors is None:
            yield from (nothing, nothing)
        else:
            reach = errors + UNIT * np.where(margins != 0, np.abs(shifted), 0.0) if self.intercept else errors
            if self.targets is not None:
                reach = reach + UNIT * np.abs(self.residuals(shifted))
            # Terms of the gap are convex in the margins, so they are largest at one of the ends.
            ends = [(self.values(moved), dual * moved) for moved in interval_ends(shifted, reach)]
            change = np.maximum(np.maximum(*(loss + product for loss, product in ends)) - (losses + products), 0.0)
            rounded = ROUNDINGS * (losses + conjugate.magnitude(dual) + np.abs(products) + np.abs(half))
            # Terms at the ends may be far larger, and cancel, so their rounding counts as well.
            yield change + rounded + ROUNDINGS * np.maximum(*(loss + np.abs(product) for loss, product in ends))
            yield (0.5 + ROUNDINGS) * (np.abs(dual) * reach) + rounded
        if not self.intercept:
            yield from [nothing] * 4
            return
        sizes, sides = np.abs(dual), self.sides(dual)
        for own in (sizes, sizes * np.abs(margins + conjugate.slopes(dual))):
            for sign in (1, -1):
                yield own * (sides == sign)


def interval_ends(margins: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Return the ends of intervals around margins, rounded outwards, lest narrow ones vanish."""
    is_exact = reach == 0
    below, above = (np.nextafter(margins + side * reach, side * np.inf) for side in (-1, 1))
    return np.where(is_exact, margins, below), np.where(is_exact, margins, above)
