"""The dual problem, and the result value with its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dimargin.kernels import Indices, KernelMatrix
from dimargin.losses import Loss, Pieces

Floats = NDArray[np.float64]
Status = Literal["converged", "max_iter", "max_time", "stopped", "precision"]
History = list[dict[str, Any]]  # an entry a check, or a level


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
        Weight of the rows that this problem represents (``W_k``), rows filtered out included.
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
        """Coefficients near `dual` in the box, and with an intercept of sum zero: the heavier class shrinks."""
        dual = np.clip(dual, self.pieces.lower, self.pieces.upper)
        if self.intercept:
            positive, negative = ((dual * (self.labels == sign)).sum(axis=1, keepdims=True) for sign in (1, -1))
            least = np.minimum(positive, negative)
            with np.errstate(invalid="ignore", divide="ignore"):
                shrink = np.nan_to_num(least / np.where(self.labels > 0, positive, negative))
            dual = dual * shrink
        return dual

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
        return self._gaps(self.values(margins), dual, dual * margins)

    def values(self, margins: Floats) -> Floats:
        """Loss of every row at margins with intercept."""
        return self.loss.value(margins, self.weights, self.mass, self.total)

    def _gaps(self, losses: Floats, dual: Floats, products: Floats) -> Floats:
        return np.maximum(losses + self.pieces.value(dual) + products, 0.0)


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

    def margins(self, dual: Floats) -> Floats:
        """``m = Qg``, of shape (n_outputs, n), without intercept: one pass over the columns of nonzero coefficients."""
        support = np.flatnonzero(dual.any(axis=0))
        return self.labels * self.kernel.multiply(support, (self.labels * dual)[:, support])

    def objectives(self, dual: Floats, margins: Floats, intercepts: Floats | None = None) -> Objectives:
        """Primal and dual objective and their gap, for the best intercepts if none are given.

        The gap is the sum of `gaps`, so that it is never negative and does not cancel.
        """
        if intercepts is None:
            intercepts = self.intercepts(margins)
        shifted = self.shifted(margins, intercepts)
        losses = self.values(shifted)
        primal = 0.5 * (dual * margins).sum(axis=1) + losses.sum(axis=1)
        gap = self._gaps(losses, dual, dual * shifted).sum(axis=1)
        relative = gap / np.maximum(np.abs(primal), np.finfo(float).tiny)
        return Objectives(primal, primal - gap, relative, intercepts)


@dataclass(frozen=True)
class Objectives:
    """Primal objective, dual objective (below it), relative gap and intercept, each of shape (n_outputs,)."""

    primal: Floats
    dual: Floats
    relative_gap: Floats
    intercept: Floats

    @property
    def worst_gap(self) -> float:
        """Relative gap of the output that is furthest from its optimum."""
        return float(self.relative_gap.max())


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
    """

    dual: Floats
    margins: Floats
    objectives: Objectives
    status: Status
    reason: str
    passes: int
    kernel_evaluations: int
    history: History = field(default_factory=list)

    @property
    def converged(self) -> bool:
        """Whether the relative gap of every output is within the tolerance asked for."""
        return self.status == "converged"
