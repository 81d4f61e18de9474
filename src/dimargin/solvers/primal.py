"""Primal problem over shards of rows, and the base of its solvers.

With the features ``phi_i`` of a row, m of them, and a loss with a derivative, the primal is

    P(w, b) = 1/2 |w|^2 + sum_i loss_i(m_i),   m_i = y_i (w.phi_i + b).

With ``g_i = -loss_i'(m_i)`` its gradient is ``w - sum_i y_i g_i phi_i``, and ``-sum_i y_i g_i``
for the intercept. The ``g_i`` are dual coefficients, and by Fenchel-Young the gap between P and the
dual objective is half the squared norm of the gradient: every iterate is certified at no cost. With
an intercept the ``g_i`` of the heavier class are first scaled by the factor s that makes
``sum_i y_i g_i = 0``. That adds ``(1 - s)^2`` of a row's loss to the gap where its coefficient is
inside the box, since the conjugate is quadratic there, and at most ``1 - s`` of it elsewhere.

Features psi may have a Gram matrix ``R = L L'`` of their own: for coefficients beta the regulariser
is ``1/2 beta'R beta``, so that ``w = L'beta`` and ``phi = L^-1 psi``. Sums are taken over the psi,
and L^-1 is applied to the sums: to apply it to the features of all rows would cost twice as much as
the Hessian.

All sums over rows are all-reduces over shards (`dimargin.shards.shards`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dtrtri

from dimargin.problems.losses import PiecewiseConjugate
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import ROUNDINGS, Objectives
from dimargin.problems.solution import History, SolveResult, Status
from dimargin.shards.shards import Shards, Sums
from dimargin.solvers.loop import Limits, Solver, Verdict
from dimargin.solvers.progress import Progress, gap_verdict
from dimargin.system.arrays import UNIT, Floats, Indices

# Coefficients of shape (n_outputs, m) and intercepts of shape (n_outputs,).
Parameters = tuple[Floats, Floats]


class Features(Protocol):
    """Features of the rows of a shard."""

    def scores(self, weights: Floats) -> Floats:
        """Return ``w.phi_i``, of shape (n_outputs, n), for `weights` of shape (n_outputs, m)."""

    def combine(self, coefficients: Floats) -> Floats:
        """Return ``sum_i coefficients[q, i] phi_i``, of shape (n_outputs, m)."""

    def rows(self, index: Indices | slice) -> Floats:
        """Return the features of some rows, of shape (len(index), m)."""

    def evaluations(self) -> int:
        """Return the number of kernel values computed so far."""

    def total_square(self) -> float:
        """Bound the sum of ``|psi_i|^2``."""

    def rounding(self) -> float:
        """Bound the error of features, relative to `total_square`; zero where rows are features."""


@dataclass(frozen=True)
class Shard:
    """Rows of a problem; they do not change during a solve, whose state is sent with every task."""

    features: Any  # `Features` of the rows, which may have further methods that a solver needs.
    losses: MarginLosses
    first: int = 0  # Index of the shard's first row among all.


def margins_at(shard: Shard, parameters: Parameters) -> Floats:
    """Return margins with the intercept, of shape (n_outputs, n)."""
    weights, intercept = parameters
    margins: Floats = shard.features.scores(weights)
    margins += intercept[:, None]
    margins *= shard.losses.labels
    return margins


def evaluate_at(shard: Shard, parameters: Parameters) -> Sums:
    """Return the sums of `sums_of` at some parameters, and the number of kernel values computed."""
    before = shard.features.evaluations()
    # Most solves start at zero, where the product with all features can be saved.
    is_zero = not (parameters[0].any() or parameters[1].any())
    margins = np.zeros(shard.losses.labels.shape) if is_zero else margins_at(shard, parameters)
    sums, _ = sums_of(shard.losses.conjugate, shard.losses, margins, shard.features.combine)
    return *sums, np.array([shard.features.evaluations() - before], dtype=float)


def extent_of(shard: Shard, _: None) -> Sums:
    """Bound ``sum_i loss_i'' |psi_i|^2`` and targets; sum second derivatives, rows, and errors of features."""
    curvature, n_rows, targets = shard.losses.conjugate.largest_curvature, shard.losses.n_rows, shard.losses.targets
    square = float(curvature.max(initial=0.0)) * shard.features.total_square()
    target = 0.0 if targets is None else float(np.abs(targets).max(initial=0.0))
    facts = square, curvature.sum(), n_rows, n_rows * shard.features.rounding(), target
    return tuple(np.array([own]) for own in facts)


def sums_of(
    conjugate: PiecewiseConjugate,
    losses: MarginLosses,
    margins: Floats,
    combine: Callable[[Floats], Floats],
    part: slice = slice(None),
) -> tuple[Sums, Floats]:
    """Return four sums for either side (`MarginLosses.sides`), and the second derivatives of the losses.

    The sums are those of the losses of rows inside the box, of other losses, of ``|g_i|``, and of
    ``|g_i| phi_i``. `losses` are those of the whole shard, of which the rows are a `part`. The
    conjugate, the margins, of shape (n_outputs, n), and `combine` (see `Features`) are of these
    rows alone. The second derivatives have the shape of the margins.
    """
    dual, curvature, value = conjugate.response(margins)
    labels, q = losses.labels[:, part], len(dual)
    signed, sizes = labels * dual, np.abs(dual)
    sides = np.where(dual < 0, -labels, labels)
    inside = np.where(curvature > 0, value, 0.0)
    value -= inside
    sums = [some for values in (inside, value, sizes) for some in _by_side(values, sides)]
    if not losses.intercept:  # Then no sums by side are needed.
        return (*sums, combine(signed), np.zeros(1)), curvature
    moments = combine(np.concatenate([signed, sizes]))
    return (*sums, (moments[q:] + moments[:q]) / 2, (moments[q:] - moments[:q]) / 2), curvature


def _by_side(values: Floats, sides: Floats) -> tuple[Floats, Floats]:
    # NumPy sums by pairs, which ROUNDINGS relies on.
    every, signed = values.sum(axis=1), (values * sides).sum(axis=1)
    return (every + signed) / 2, (every - signed) / 2


@dataclass(frozen=True)
class PrimalSolution(SolveResult):
    """Solution of a primal problem; `passes` is the number of steps, plus one for the evaluation at the start.

    Entries of the history also have ``gradient_norm`` (the largest of all outputs) and ``epochs``,
    the number of passes over all rows so far.
    """

    weights: Floats  # Weights of shape (n_outputs, m).
    dual: Floats | None = None  # Dual coefficients of shape (n_outputs, n), of a solver that has them.

    @property
    def parameters(self) -> Floats:
        """Start of another solve: weights and intercepts, of shape (n_outputs, m + 1)."""
        return np.column_stack([self.weights, self.objectives.intercept])


@dataclass(kw_only=True)
class PrimalState:
    """State of a solve of the primal."""

    limits: Limits
    shards: Shards[Shard]
    iterate: Floats  # Weights followed by the intercepts, of shape (n_outputs, m + 1).
    gradient: Floats = field(init=False)  # The last column is zero without intercept.
    highest: Floats = field(init=False)  # Largest computed dual objectives so far.
    lower: Floats = field(init=False)  # Dual objectives less rounding, the lower bounds.
    objectives: Objectives | None = None  # None if they are unknown at the iterate.
    steps: int = 0
    checks: int = 0
    progress: Progress = field(default_factory=Progress)  # Of checks and primal objectives.
    epochs: float = 0.0  # Number of passes over all rows so far.
    spent: int = 0  # Number of kernel values computed so far.
    extent: tuple[float, ...] | None = None  # Sums of `extent_of`, once they are needed.

    def __post_init__(self) -> None:
        self.gradient = np.zeros_like(self.iterate)
        self.highest, self.lower = np.zeros(len(self.iterate)), np.zeros(len(self.iterate))

    @property
    def weights(self) -> Floats:
        """Weights, of shape (n_outputs, m)."""
        return self.iterate[:, :-1]

    @property
    def intercept(self) -> Floats:
        """Intercepts, of shape (n_outputs,)."""
        return self.iterate[:, -1]

    def move_to(self, iterate: Floats) -> None:
        """Set the iterate, at which the objectives are still unknown."""
        self.iterate, self.objectives = iterate, None


State = TypeVar("State", bound=PrimalState)


@dataclass(frozen=True)
class PrimalSolver(Solver[Shards[Shard], State, PrimalSolution], Generic[State]):
    """Base of the solvers of the primal.

    Parameters
    ----------
    n_features : int
        Number of features of a row, m.
    intercept : bool, default=False
        Whether there is an intercept, as in the shards' losses.
    factor : ndarray of shape (m, m), optional
        Lower triangle L of the features' Gram matrix; the identity by default.
    """

    n_features: int
    intercept: bool = False
    factor: Floats | None = None
    patience: ClassVar[int] = 2  # With more checks without progress rounding prevents it.

    def parameters(self, state: PrimalState) -> Parameters:
        """Return the coefficients and intercepts of a state, as the shards take them."""
        return self.coefficients(state.weights), state.intercept

    def coefficients(self, weights: Floats) -> Floats:
        """Return the coefficients of the features, ``beta = L^-T w``, of shape (n_outputs, m)."""
        return weights if self.factor is None else self._solved(weights.T, "T").T

    def weights(self, products: Floats) -> Floats:
        """Return ``L^-1 psi`` for points psi in feature space, of shape (n_outputs, m)."""
        return products if self.factor is None else self._solved(products.T, "N").T

    def _solved(self, right: Floats, trans: str) -> Floats:
        if not len(right):  # SciPy before version 1.14 does not solve an empty system.
            return right
        return np.asarray(solve_triangular(self.factor, right, lower=True, trans=trans, check_finite=False))

    def evaluations(self, state: State) -> int:
        """Return the number of kernel values that the shards have computed so far."""
        return state.spent

    def facts(self, state: State) -> dict[str, Any]:
        """Return the largest norm of an output's gradient, and the epochs."""
        return {"gradient_norm": float(np.linalg.norm(state.gradient, axis=1).max()), "epochs": state.epochs}

    def check(self, state: State) -> Objectives | None:
        """Return the objectives of the iterate, and record progress since the last check."""
        objectives = self.evaluate(state)
        state.checks += 1
        state.progress.note_objectives(state.checks, objectives)
        return objectives

    def verdict(self, state: State, objectives: Objectives) -> Verdict:
        """Return status and reason if the solve converged, stalled or used its steps, else None."""
        ended = gap_verdict(objectives, state.limits.tol, state.progress.has_stalled(state.checks, self.patience))
        if ended is None and state.steps >= state.limits.max_iter:
            return "max_iter", f"max_iter={state.limits.max_iter} steps were done"
        return ended

    def finish(self, state: State, status: Status, reason: str, history: History) -> PrimalSolution:
        """Return the last iterate, which is the best, because the primal objective never rises."""
        return PrimalSolution(
            weights=state.weights,
            objectives=self.evaluate(state),
            status=status,
            reason=reason,
            passes=1 + state.steps,
            kernel_evaluations=state.spent,
            history=history,
        )

    def evaluate(self, state: State) -> Objectives:
        """Return the objectives; compute them and the gradient unless they are known."""
        return self.measured(state) if state.objectives is None else state.objectives

    def measured(self, state: PrimalState) -> Objectives:
        """Compute the objectives, and set the gradient of the state."""
        return self.certified(state, state.shards.aggregate(evaluate_at, self.parameters(state)))

    def certified(self, state: PrimalState, sums: Sums) -> Objectives:
        """Return the objectives from the sums of `evaluate_at`, and set the gradient."""
        *losses, own, others, positive, negative, evaluations = sums
        state.spent += int(evaluations[0])
        positive = self.weights(positive)
        primal = 0.5 * (state.weights**2).sum(axis=1) + sum(losses)
        if self.intercept:
            negative = self.weights(negative)
            state.gradient[:, :-1] = state.weights - (positive - negative)
            state.gradient[:, -1], least = others - own, np.maximum(np.minimum(own, others), 0.0)
            shares = [np.divide(least, sums, out=np.zeros_like(sums), where=sums > 0) for sums in (own, others)]
            reached = shares[0][:, None] * positive - shares[1][:, None] * negative
            lacking = [1 - share for share in shares]
            inside, elsewhere = losses[:2], losses[2:]
            gap = 0.5 * ((state.weights - reached) ** 2).sum(axis=1)
            gap += sum(part**2 * loss for part, loss in zip(lacking, inside, strict=True))
            gap += sum(part * loss for part, loss in zip(lacking, elsewhere, strict=True))
        else:
            state.gradient[:, :-1] = state.weights - positive
            gap = 0.5 * (state.gradient[:, :-1] ** 2).sum(axis=1)
        state.epochs += 1
        of_primal, of_gap = self._rounding(state, primal, gap)
        state.highest = np.maximum(state.highest, primal - gap)
        state.lower = np.maximum(state.lower, primal - gap - of_gap)
        apart, whole = (np.maximum(primal - dual, 0.0) for dual in (state.highest, state.lower))
        rounding = np.maximum(whole - apart, 0.0) + of_primal
        state.objectives = Objectives.of(primal, apart, state.intercept, rounding)
        return state.objectives

    def _rounding(self, state: PrimalState, primal: Floats, gap: Floats) -> tuple[Floats, Floats]:
        r"""Bound the rounding of the primal objective, and that of the gap together with it.

        The dual coefficients are computed from rounded margins, whose errors e_i add at most
        ``loss_i'' e_i^2 / 2`` to the gap. Sums of ``g_i psi_i`` err by one rounding of ``a`` per
        addition, where

            a^2 = 2 sum_i loss_i * sum_i loss_i'' |psi_i|^2 >= (sum_i |g_i| |psi_i|)^2,

        since ``g_i^2 <= 2 loss_i loss_i''`` for a smooth loss that is nowhere negative. Where
        features are kernel values of landmarks, their own rounding is added, amplified by the
        inverse of L, and the rounding of ``beta'R beta``.
        """
        if state.extent is None:
            state.extent = tuple(float(s[0]) for s in state.shards.aggregate(extent_of))
        square, curvature, n_rows, errors, target = state.extent
        feature = errors / max(n_rows, 1.0) + ROUNDINGS
        of_score, of_sum = feature + self.n_features * UNIT, feature + n_rows * UNIT
        coefficients = np.linalg.norm(self.coefficients(state.weights), axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            # Bounds of the sums of ``|g_i| |psi_i|`` and of ``|g_i|``.
            reach, total = np.sqrt(2 * primal * square), np.sqrt(2 * primal * curvature)
            of_primal = of_score * coefficients * reach + (ROUNDINGS + self.n_features * UNIT) * primal
            of_primal += 0.5 * (of_score + feature) * self._squares_of_features * coefficients**2
            of_primal += UNIT * target * (total + 0.5 * UNIT * target * curvature)  # Of slopes less targets.
            sums = self.amplification * of_sum * reach
            # Rounding of the squared gradient, of the ``g_i`` at rounded margins, and of their sum.
            of_gap = of_primal + np.sqrt(2 * gap) * sums + 0.5 * sums**2
            of_gap += 0.5 * (of_score * coefficients) ** 2 * square
            of_gap += np.abs(state.intercept) * (2 * of_sum + UNIT) * total
        return of_primal, of_gap

    @cached_property
    def amplification(self) -> float:
        """Bound of the norm of the inverse of L, its Frobenius norm; LAPACK's estimate is lower.

        One percent is added for rounding: the condition of landmarks is at most 1e5.
        """
        if self.factor is None or not len(self.factor):
            return 1.0
        inverse, _ = dtrtri(self.factor, lower=1)
        return float(1.01 * np.linalg.norm(inverse))

    @property
    def _squares_of_features(self) -> float:
        """Trace of the Gram matrix of the features, zero where they have none."""
        return 0.0 if self.factor is None else float((self.factor**2).sum())
