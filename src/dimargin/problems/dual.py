"""The dual problem, and the result value with its certificate.

For coefficients g that are feasible (inside their box and, with an intercept, of ``sum_i y_i g_i = 0``), and any b,

    gap = P - D = sum_i [ loss_i(m_i + y_i b) + phi_i(g_i) + g_i (m_i + y_i b) ] - b sum_i y_i g_i,

and every term of the first sum is non-negative (Fenchel-Young). Nothing here is taken on trust: coefficients are made
feasible before they are certified (`DualProblem.at_feasible`), what is left of the sum counts at what it costs to make
it zero, and all objectives come with a bound of their rounding (`ObjectiveSums`), which belongs to the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.losses import Loss, Pieces
from dimargin.system.arrays import Floats, Indices

Status = Literal["converged", "max_iter", "max_time", "stopped", "precision"]
History = list[dict[str, Any]]  # an entry a check, or a level

_TINY = float(np.finfo(float).tiny)
_UNIT = float(np.finfo(float).eps) / 2
ROUNDINGS = 64 * _UNIT
"""Rounding of a sum of terms by pairs, as numpy sums, and of the terms, relative to their absolute values."""

_ROUNDING_OF_WEIGHTS = 1e-12
_BALANCED = 1e-13  # sum of signed coefficients, relative to that of absolute ones, that is left as it is
_NEARLY_BALANCED = 1e-6  # likewise, that few coefficients take up; beyond it all of a class shrink


@dataclass(frozen=True)
class MarginLosses:
    """Loss of every row's margin, for every output: the part of a problem that knows no kernel.

    Attributes
    ----------
    labels : ndarray of shape (n_outputs, n)
        Plus or minus one; several outputs are the binary problems of one-vs-rest.
    weights : ndarray of shape (n,)
        Positive row weights ``s_i``.
    loss : Loss
    mass : float
        Weight of the rows that this problem represents (``W_k``), rows filtered out included. One that differs from
        `total` by no more than the rounding of sums is `total`: coefficients of the whole must not be rounded again.
    total : float
        Weight of the rows of the whole problem (``W``).
    intercept : bool, default=False
        Whether the decision function has an unregularised intercept: ``sum_i y_i g_i = 0`` in the dual.
    """

    labels: Floats
    weights: Floats
    loss: Loss
    mass: float
    total: float
    intercept: bool = False

    def __post_init__(self) -> None:
        if abs(self.mass - self.total) <= _ROUNDING_OF_WEIGHTS * self.total:
            object.__setattr__(self, "mass", self.total)

    def __getstate__(self) -> dict[str, Any]:
        """What defines it, without what was computed from that."""
        return {own.name: self.__dict__[own.name] for own in fields(self)}

    @property
    def n_rows(self) -> int:
        """Rows of this problem."""
        return int(self.labels.shape[1])

    @cached_property
    def pieces(self) -> Pieces:
        """Conjugate of the loss on every row."""
        return self.loss.pieces(self.weights, self.mass, self.total)

    def of_rows(self, index: Indices | slice, mass: float) -> MarginLosses:
        """Those of some rows, in a problem of this mass."""
        labels = np.ascontiguousarray(self.labels[:, index])
        return MarginLosses(labels, self.weights[index], self.loss, mass, self.total, self.intercept)

    @staticmethod
    def joined(parts: Sequence[MarginLosses]) -> MarginLosses:
        """Those of the rows of several, one after the other, in a problem of the first one's mass."""
        labels = np.concatenate([part.labels for part in parts], axis=1)
        return replace(parts[0], labels=labels, weights=np.concatenate([part.weights for part in parts]))

    def with_kernel(self, kernel: KernelMatrix) -> DualProblem:
        """The problem with this kernel."""
        return DualProblem(self.labels, self.weights, self.loss, self.mass, self.total, self.intercept, kernel=kernel)

    def feasible(self, dual: Floats) -> Floats:
        """Coefficients near `dual` in the box, and with an intercept of ``sum_i y_i g_i = 0`` up to rounding.

        Where the sum is nearly zero few coefficients change, else all of the heavier class shrink.
        """
        dual = np.clip(dual, self.pieces.lower, self.pieces.upper)
        if not self.intercept:
            return dual
        sums, sizes = (dual * self.labels).sum(axis=1), np.abs(dual).sum(axis=1)
        for q in np.flatnonzero(np.abs(sums) > _NEARLY_BALANCED * sizes):
            heavier = self.labels[q] == np.sign(sums[q])
            dual[q, heavier] *= dual[q, ~heavier].sum() / dual[q, heavier].sum()
        sums = (dual * self.labels).sum(axis=1)
        for q in np.flatnonzero(np.abs(sums) > _BALANCED * sizes):
            self._balance(dual[q], self.labels[q], float(sums[q]))
        return dual

    def _balance(self, dual: Floats, labels: Floats, excess: float) -> None:
        """Take an excess from the sum of signed coefficients: from one or few with room, rather inside their box."""
        lower, upper = (np.broadcast_to(bound, dual.shape) for bound in (self.pieces.lower, self.pieces.upper))
        falls = labels * excess > 0
        room = np.where(falls, dual - lower, upper - dual)
        inside = np.minimum(dual - lower, upper - dual)
        for i in np.lexsort((-room, -inside)):
            step = min(abs(excess), room[i])
            dual[i] += -step if falls[i] else step
            excess -= np.sign(excess) * step
            if not excess:
                break

    def intercepts(self, margins: Floats) -> Floats:
        """Intercepts that minimise the primal for given margins (without one), of shape (n_outputs,)."""
        if not self.intercept:
            return np.zeros(len(margins))
        pairs = zip(self.labels, margins, strict=True)
        return np.array([self.loss.best_intercept(y * m, y, self.pieces) for y, m in pairs])

    def middle_intercepts(self, dual: Floats, margins: Floats) -> Floats:
        """Halfway between the largest score that may rise and the smallest that may fall; they meet at the optimum.

        A score is ``-y`` times the derivative of the dual objective: where signed coefficients ``y g`` want to go.
        """
        if not self.intercept:
            return np.zeros(len(margins))
        pieces, positive = self.pieces, self.labels > 0
        scores = -self.labels * (margins + pieces.slope_right + pieces.curvature_right * dual)
        may_grow, may_shrink = dual < pieces.upper, dual > pieces.lower
        highest = np.where(np.where(positive, may_grow, may_shrink), scores, -np.inf).max(axis=1)
        lowest = np.where(np.where(positive, may_shrink, may_grow), scores, np.inf).min(axis=1)
        middle: Floats = (highest + lowest) / 2
        one_class = ~(np.isfinite(highest) & np.isfinite(lowest))  # all may rise, or fall, and none must
        if one_class.any():
            middle[one_class] = self.intercepts(margins)[one_class]
        return middle

    def shifted(self, margins: Floats, intercepts: Floats) -> Floats:
        """Margins with intercepts."""
        return margins + self.labels * intercepts[:, None] if self.intercept else margins

    def gaps(self, dual: Floats, margins: Floats) -> Floats:
        """Every row's part of the gap, ``loss_i(m_i) + phi_i(g_i) + g_i m_i >= 0`` (Fenchel-Young).

        Margins are those with intercept, which adds nothing to the sum: ``sum_i y_i g_i b = 0``.
        """
        return np.maximum(self.values(margins) + self.pieces.value(dual) + dual * margins, 0.0)

    def values(self, margins: Floats) -> Floats:
        """Loss of every row at margins with intercept."""
        return self.loss.value(margins, self.weights, self.mass, self.total)

    def objective_sums(
        self, dual: Floats, margins: Floats, intercepts: Floats, errors: Floats | None = None
    ) -> ObjectiveSums:
        """Sum what objectives are made of over these rows.

        Parameters
        ----------
        dual, margins : ndarray of shape (n_outputs, n)
            Margins without intercept.
        intercepts : ndarray of shape (n_outputs,)
        errors : ndarray of shape (n_outputs, n), optional
            Bounds of the rounding of the margins; without them no rounding is counted.
        """
        pieces, shifted = self.pieces, self.shifted(margins, intercepts)
        losses, products = self.values(shifted), dual * shifted
        gaps, half = np.maximum(losses + pieces.value(dual) + products, 0.0), 0.5 * (dual * margins)
        nothing = np.zeros(len(dual))
        primal, gap = half.sum(axis=1) + losses.sum(axis=1), gaps.sum(axis=1)
        outside = np.where(((dual < pieces.lower) | (dual > pieces.upper)).any(axis=1), np.inf, 0.0)
        gap_rounding, dual_rounding = nothing, nothing
        if errors is not None:
            reach = errors + _UNIT * np.where(margins != 0, np.abs(shifted), 0.0) if self.intercept else errors
            # terms of the gap are convex in their margins: largest at one of the ends
            ends = (self.values(moved) + dual * moved for moved in (shifted - reach, shifted + reach))
            change = np.maximum(np.maximum(*ends) - (losses + products), 0.0)
            terms = losses + pieces.magnitude(dual) + np.abs(products) + np.abs(half)
            rounded = ROUNDINGS * terms.sum(axis=1)
            gap_rounding = change.sum(axis=1) + rounded
            dual_rounding = 0.5 * (np.abs(dual) * reach).sum(axis=1) + rounded
        classes = [nothing] * 4
        if self.intercept:
            slopes = dual * np.abs(margins + pieces.slopes(dual))
            classes = [(own * (self.labels == sign)).sum(axis=1) for own in (dual, slopes) for sign in (1, -1)]
        return ObjectiveSums(primal, gap + outside, gap_rounding, dual_rounding, *classes)


class ObjectiveSums(NamedTuple):
    """What the objectives of a problem are made of, each of shape (n_outputs,): sums over rows, which shards can add.

    Attributes
    ----------
    primal : ndarray
        ``1/2 g'Qg + sum_i loss_i``.
    gap : ndarray
        Sum of `MarginLosses.gaps`; infinite where a coefficient is outside its box.
    gap_rounding, dual_rounding : ndarray
        Bounds of the rounding of the gap and of the dual objective.
    positive, negative : ndarray
        ``sum_i g_i`` of either class, with an intercept.
    positive_slopes, negative_slopes : ndarray
        ``sum_i g_i |m_i + phi_i'(g_i)|`` likewise: what the dual objective loses, to first order, if a class shrinks.
    """

    primal: Floats
    gap: Floats
    gap_rounding: Floats
    dual_rounding: Floats
    positive: Floats
    negative: Floats
    positive_slopes: Floats
    negative_slopes: Floats

    def objectives(self, intercepts: Floats, reach: Floats | float = 0.0) -> Objectives:
        """Objectives with these intercepts.

        Where ``sum_i y_i g_i = d`` is not zero the coefficients of the heavier class, shrunk by the factor ``1 - s``
        that makes it zero, are the ones that are certified. That takes ``|b d|`` from the first sum of the gap, and at
        most ``s sum_i g_i |m_i + phi_i'(g_i)|`` over that class and ``s^2 / 2`` times the square of `reach` from the
        dual objective.

        Parameters
        ----------
        intercepts : ndarray of shape (n_outputs,)
        reach : ndarray of shape (n_outputs,), optional
            A bound of ``|sum_i g_i phi(x_i)|`` over a class.
        """
        rounding = np.maximum(self.gap_rounding, self.dual_rounding)
        excess = np.abs(self.positive - self.negative)
        if excess.any() or self.positive.any():
            heavier, lighter = np.maximum(self.positive, self.negative), np.minimum(self.positive, self.negative)
            excess = excess + ROUNDINGS * (heavier + lighter)  # the sums are rounded too
            slopes = np.where(self.positive >= self.negative, self.positive_slopes, self.negative_slopes)
            share = excess / np.maximum(heavier, _TINY)
            rounding = rounding + np.abs(intercepts) * excess + share * slopes + 0.5 * (share * reach) ** 2
        return Objectives.of(self.primal, self.gap, intercepts, rounding)


@dataclass(frozen=True)
class DualProblem(MarginLosses):
    """Minimise ``1/2 g'Qg + sum_i phi_i(g_i)`` for every output, over shared rows and kernel.

    Attributes
    ----------
    kernel : KernelMatrix of shape (n, n)
    """

    kernel: KernelMatrix = field(kw_only=True)

    def restrict(self, index: Indices, mass: float, n_threads: int | None = None) -> DualProblem:
        """The local problem of some rows that represent a weight of `mass`."""
        return replace(
            self,
            kernel=self.kernel.take(index, n_threads),
            labels=np.ascontiguousarray(self.labels[:, index]),
            weights=self.weights[index],
            mass=mass,
        )

    def select(self, outputs: Indices) -> DualProblem:
        """The same problem for some of the outputs."""
        return self if len(outputs) == len(self.labels) else replace(self, labels=self.labels[outputs])

    def margins(self, dual: Floats, accurately: bool = False) -> Floats:
        """``m = Qg``, of shape (n_outputs, n), without intercept: one pass over the columns of nonzero coefficients.

        A linear machine's are those of its weights, in float64. Others' can be had `accurately` at a price, where the
        kernel says so.
        """
        columns, signed = self._support(dual)
        if accurately:
            return self.labels * self.kernel.accurate_products(columns, signed)
        if self.kernel.has_weights:
            return self.labels * self.kernel.scores(self.kernel.weights(columns, signed))
        return self.labels * self.kernel.multiply(columns, signed)

    def _support(self, dual: Floats) -> tuple[Indices, Floats]:
        """Rows with a coefficient, and these, signed."""
        columns = np.flatnonzero(dual.any(axis=0))
        return columns, (self.labels * dual)[:, columns]

    def _margin_errors(self, dual: Floats, margins: Floats, travelled: Floats | None, accurately: bool) -> Floats:
        """Bounds of the rounding of margins in float64."""
        kernel, (columns, signed) = self.kernel, self._support(dual)
        if travelled is None and accurately:
            return kernel.accurate_product_errors(columns, signed, margins)
        if travelled is None and kernel.has_weights:
            return kernel.score_errors(kernel.weights(columns, signed), columns, signed)
        reach, n_columns = self.reach(dual), len(columns)
        if travelled is not None:  # also by columns that have no coefficient any more
            reach, n_columns = np.maximum(travelled, reach), kernel.shape[1]
        return np.asarray(kernel.rounding(n_columns) * reach[:, None] * kernel.row_sizes)

    def reach(self, dual: Floats) -> Floats:
        """Sums of absolute coefficients times sizes of rows, (n_outputs,): they bound ``|sum_i g_i phi(x_i)|``."""
        return np.asarray(np.abs(dual) @ self.kernel.column_sizes)

    def at_feasible(self, dual: Floats, margins: Floats) -> tuple[Floats, Floats]:
        """Return the coefficients themselves with their margins if they are feasible, else what is near and feasible.

        Margins change by the columns of the coefficients that do; those of a linear machine are computed afresh.
        """
        near = self.feasible(dual)
        moved = np.flatnonzero((near != dual).any(axis=0))
        if not len(moved):
            return dual, margins
        if self.kernel.has_weights:
            return near, self.margins(near)
        change = (self.labels * (near - dual))[:, moved]
        return near, margins + self.labels * self.kernel.multiply(moved, change)

    def objectives(
        self,
        dual: Floats,
        margins: Floats,
        intercepts: Floats | None = None,
        travelled: Floats | None = None,
        accurately: bool = False,
    ) -> Objectives:
        """Primal and dual objective and their gap, for the best intercepts if none are given.

        On float64 kernel values rounding is bounded, and counts in the gap; on float32 ones it is not: see
        `dimargin.solvers.precision`.

        Parameters
        ----------
        dual : ndarray of shape (n_outputs, n)
        margins : ndarray of shape (n_outputs, n)
            Without intercept.
        intercepts : ndarray of shape (n_outputs,), optional
        travelled : ndarray of shape (n_outputs,), optional
            Sums of absolute changes of coefficients, times the sizes of their rows, by which margins have come to what
            they are (`KernelMatrix.product_sizes`); by default they were computed at once, by `margins`.
        accurately : bool
            Whether `margins` were computed so.
        """
        if intercepts is None:
            intercepts = self.intercepts(margins)
        if not self.kernel.double:
            reach = self.reach(dual) if self.intercept else 0.0
            return self.objective_sums(dual, margins, intercepts).objectives(intercepts, reach)
        errors = self._margin_errors(dual, margins, travelled, accurately)
        return self.objective_sums(dual, margins, intercepts, errors).objectives(intercepts, self.reach(dual))

    def certified(self, dual: Floats, margins: Floats | None = None, intercepts: Floats | None = None) -> Objectives:
        """Objectives at feasible coefficients near `dual`, on float64 kernel values, and rounded as little as can be.

        `margins` are those of `dual`, as `margins` computes them.
        """
        dual, margins = self.at_feasible(dual, self.margins(dual) if margins is None else margins)
        objectives = self.objectives(dual, margins, intercepts)
        if not self.kernel.can_be_accurate or (objectives.rounding <= 0.1 * objectives.relative_gap).all():
            return objectives
        # where rounding may be most of the gap, it is worth another pass
        exact = self.objectives(dual, self.margins(dual, accurately=True), intercepts, accurately=True)
        return exact if exact.worst_gap < objectives.worst_gap else objectives


@dataclass(frozen=True)
class Objectives:
    """What is certain of a problem, each of shape (n_outputs,).

    Attributes
    ----------
    primal : ndarray
        Primal objective.
    dual : ndarray
        A lower bound of the optimum: the dual objective less its rounding.
    relative_gap : ndarray
        ``(primal - dual) / |primal|``, rounding included; infinite where it cannot be computed.
    intercept : ndarray
    rounding : ndarray
        The part of the relative gap that is a bound of rounding; zero where rounding has not been bounded yet.
    """

    primal: Floats
    dual: Floats
    relative_gap: Floats
    intercept: Floats
    rounding: Floats

    @classmethod
    def of(cls, primal: Floats, gap: Floats, intercept: Floats, rounding: Floats | float = 0.0) -> Objectives:
        """Those of a primal objective, a gap and a bound of the rounding of both."""
        scale = np.maximum(np.abs(primal), _TINY)
        with np.errstate(over="ignore", invalid="ignore"):
            whole = gap + rounding
            known = np.isfinite(primal) & np.isfinite(whole)
            relative, part = (np.where(known, value / scale, np.inf) for value in (whole, rounding))
            dual = np.where(known, primal - whole, -np.inf)
        return cls(primal, dual, relative, np.asarray(intercept), np.where(known, part, 0.0))

    @property
    def worst_gap(self) -> float:
        """Relative gap of the output that is furthest from its optimum."""
        return float(self.relative_gap.max())

    @property
    def unrounded(self) -> Floats:
        """Relative gaps without rounding."""
        return np.where(np.isfinite(self.relative_gap), self.relative_gap - self.rounding, np.inf)

    def better(self, other: Objectives) -> Objectives:
        """Output by output those of the smaller gap, of two of the same model."""
        first = self.relative_gap <= other.relative_gap
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Objectives(*(np.where(first, mine, theirs) for mine, theirs in pairs))

    def met(self, tol: float) -> NDArray[np.bool_]:
        """Of which outputs the gap is within a tolerance, or would be but for rounding that alone exceeds it."""
        return (self.relative_gap <= tol) | ((self.unrounded <= tol) & (self.rounding > tol))


@dataclass(frozen=True)
class Solution:
    """What every solver returns.

    Attributes
    ----------
    dual : ndarray of shape (n_outputs, n)
        Dual coefficients ``g`` (without labels).
    margins : ndarray of shape (n_outputs, n)
        ``Qg``, without intercept.
    objectives : Objectives
        With the intercept that belongs to them.
    status : {"converged", "max_iter", "max_time", "stopped", "precision"}
    reason : str
        The status in words.
    passes : int
        Passes over the rows, at least one.
    kernel_evaluations : int
        All of them: warm start and certificate included.
    history : list of dict
        One entry a check: ``kernel_evaluations``, ``seconds``, ``objective``, ``relative_gap``.
    travelled : ndarray of shape (n_outputs,) or None
        By which the margins have come to what they are, as of `DualProblem.objectives`.
    """

    dual: Floats
    margins: Floats
    objectives: Objectives
    status: Status
    reason: str
    passes: int
    kernel_evaluations: int
    history: History = field(default_factory=list)
    travelled: Floats | None = None

    @property
    def converged(self) -> bool:
        """Whether the relative gap of every output is within the tolerance asked for."""
        return self.status == "converged"
