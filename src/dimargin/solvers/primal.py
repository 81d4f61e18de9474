"""The primal over shards of rows: what its solvers share.

With the features ``phi_i`` of a row, m of them, and a loss with a derivative, the primal is

    P(w, b) = 1/2 |w|^2 + sum_i loss_i(m_i),   m_i = y_i (w.phi_i + b).

With ``g_i = -loss_i'(m_i)`` its gradient is ``w - sum_i y_i g_i phi_i``, and ``-sum_i y_i g_i`` by the intercept. The
``g_i`` are dual coefficients, and by Fenchel-Young the gap between P and the dual objective is half the squared norm of
the gradient: every iterate is certified for nothing. With an intercept the ``g_i`` of the heavier class are first
shrunk by the factor s that makes ``sum_i y_i g_i = 0``. That costs a row ``(1 - s)^2`` of its loss where its
coefficient is inside the box, since the conjugate is quadratic there, and at most ``1 - s`` of it elsewhere.

Features psi may have a Gram matrix ``R = L L'`` of their own: for coefficients beta the regulariser is
``1/2 beta'R beta``, so that ``w = L'beta`` and ``phi = L^-1 psi``. Sums are taken over the psi, and L is applied to the
sums: the features of all rows times L^-1 would cost twice as much as the Hessian.

All sums over rows are all-reduces over shards (`dimargin.sharding.shards`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dtrcon

from dimargin.problems.losses import PiecewiseConjugate
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import ROUNDINGS, Objectives
from dimargin.problems.solution import History, Status
from dimargin.sharding.shards import Shards, Sums
from dimargin.solvers.loop import Limits, Solver
from dimargin.system.arrays import Floats, Indices

_PROGRESS = 1e-12  # fall of a primal objective that is not rounding
_UNIT, _TINY = float(np.finfo(float).eps) / 2, float(np.finfo(float).tiny)


Parameters = tuple[Floats, Floats]  # coefficients of shape (n_outputs, m) and intercepts of shape (n_outputs,)


class Features(Protocol):
    """Rows of a shard as points in a space of few dimensions."""

    def scores(self, weights: Floats) -> Floats:
        """``w.phi_i`` of all rows for `weights` of shape (n_outputs, m); of shape (n_outputs, n)."""

    def combine(self, coefficients: Floats) -> Floats:
        """``sum_i coefficients[q, i] phi_i``, of shape (n_outputs, m)."""

    def rows(self, index: Indices | slice) -> Floats:
        """Features of some rows, of shape (len(index), m)."""

    def evaluations(self) -> int:
        """Kernel values computed so far."""

    def total_square(self) -> float:
        """Bound the sum of ``|psi_i|^2``."""

    def rounding(self) -> float:
        """Bound the error of a feature, relative to that bound: of kernel values, and zero where rows are features."""


@dataclass(frozen=True)
class Shard:
    """Rows, of which nothing changes during a solve: where it stands is told to every task.

    Attributes
    ----------
    features : Features
        Or what a solver needs beyond.
    losses : MarginLosses
    first : int, default=0
        Index of its first row among all.
    """

    features: Any
    losses: MarginLosses
    first: int = 0


# ---- what shards do ------------------------------------------------------------------------------------------------


def margins_at(shard: Shard, parameters: Parameters) -> Floats:
    """Margins, with the intercept, of shape (n_outputs, n)."""
    weights, intercept = parameters
    margins: Floats = shard.features.scores(weights)
    margins += intercept[:, None]
    margins *= shard.losses.labels
    return margins


def evaluate_at(shard: Shard, parameters: Parameters) -> Sums:
    """Sums at a place: see `sums_of`; kernel values that it took come last."""
    before = shard.features.evaluations()
    nowhere = not (parameters[0].any() or parameters[1].any())  # a solve begins there, and products with zero may cost
    margins = np.zeros(shard.losses.labels.shape) if nowhere else margins_at(shard, parameters)
    sums, _ = sums_of(shard.losses.conjugate, shard.losses, margins, shard.features.combine)
    return *sums, np.array([shard.features.evaluations() - before], dtype=float)


def extent_of(shard: Shard, _: None) -> Sums:
    """Bound ``sum_i loss_i'' |psi_i|^2``, and sum the second derivatives, the rows, and the errors of features."""
    curvature, n_rows = shard.losses.conjugate.largest_curvature, shard.losses.n_rows
    square = float(curvature.max(initial=0.0)) * shard.features.total_square()
    return tuple(np.array([own]) for own in (square, curvature.sum(), n_rows, n_rows * shard.features.rounding()))


def sums_of(
    conjugate: PiecewiseConjugate,
    losses: MarginLosses,
    margins: Floats,
    combine: Callable[[Floats], Floats],
    part: slice = slice(None),
) -> tuple[Sums, Floats]:
    """Of either class: losses of rows inside the box and of others, sums of ``g_i`` and of ``g_i phi_i``.

    Parameters
    ----------
    conjugate : PiecewiseConjugate
        Of the rows.
    losses : MarginLosses
        Of the shard, of which the rows are a `part`.
    margins : ndarray of shape (n_outputs, n)
    combine : callable
        As `Features.combine`, for these rows.
    part : slice

    Returns
    -------
    sums : tuple of ndarray
    curvature : ndarray of shape (n_outputs, n)
        Second derivatives.
    """
    dual, curvature, value = conjugate.response(margins)
    labels, q = losses.labels[:, part], len(dual)
    inside = np.where(curvature > 0, value, 0.0)
    value -= inside
    sums = [some for values in (inside, value, dual) for some in _by_class(values, labels)]
    signed = labels * dual
    if not losses.intercept:  # nobody asks for the classes
        return (*sums, combine(signed), np.zeros(1)), curvature
    moments = combine(np.concatenate([signed, dual]))
    return (*sums, (moments[q:] + moments[:q]) / 2, (moments[q:] - moments[:q]) / 2), curvature


def _by_class(values: Floats, labels: Floats) -> tuple[Floats, Floats]:
    every, signed = values.sum(axis=1), (values * labels).sum(axis=1)  # by pairs, as ROUNDINGS takes for granted
    return (every + signed) / 2, (every - signed) / 2


# ---- the solve -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PrimalSolution:
    """What solvers of the primal return.

    Attributes
    ----------
    weights : ndarray of shape (n_outputs, m)
    objectives : Objectives
        With the intercepts.
    status, reason : str
    passes : int
        Steps, and the look at the start.
    history : list of dict
        As of `dimargin.problems.solution.Solution`, with ``gradient_norm`` (of the worst output) and ``epochs``: how
        often all rows have been looked at so far.
    """

    weights: Floats
    objectives: Objectives
    status: Status
    reason: str
    passes: int
    history: History


@dataclass(kw_only=True)
class PrimalState:
    """Where a solve stands.

    Attributes
    ----------
    limits : Limits
    shards : Shards of Shard
    weights : ndarray of shape (n_outputs, m)
    intercept : ndarray of shape (n_outputs,)
    gradient : ndarray of shape (n_outputs, m + 1)
        The last is that by the intercept; zero without one.
    highest, lower : ndarray of shape (n_outputs,)
        Largest dual objective so far, as it was computed and without what rounding may have added: no primal one is
        below the latter.
    objectives : Objectives or None
        None where they have not been looked at yet.
    epochs : float
        How often all rows have been looked at.
    spent : int
        Kernel values computed so far.
    steps, stale : int
        Steps, and checks since the last progress.
    least : ndarray of shape (n_outputs,)
        Primal objectives then.
    smallest : float
        Gap of the worst output then.
    extent : tuple of float or None
        Sums of `extent_of`, once they are wanted.
    """

    limits: Limits
    shards: Shards[Shard]
    weights: Floats
    intercept: Floats
    gradient: Floats
    highest: Floats
    lower: Floats
    objectives: Objectives | None = None
    steps: int = 0
    stale: int = 0
    epochs: float = 0.0
    spent: int = 0
    least: Floats | float = np.inf
    smallest: float = np.inf
    extent: tuple[float, ...] | None = None

    @property
    def here(self) -> Floats:
        """Weights with the intercepts behind them, of shape (n_outputs, m + 1)."""
        return np.column_stack([self.weights, self.intercept])

    def stand(self, here: Floats) -> None:
        """Go there, where nothing has been looked at yet."""
        self.weights, self.intercept = here[:, :-1], here[:, -1]
        self.objectives = None


State = TypeVar("State", bound=PrimalState)


@dataclass(frozen=True)
class PrimalSolver(Solver[Shards[Shard], State, PrimalSolution], Generic[State]):
    """What solvers of the primal share.

    Parameters
    ----------
    n_features : int
        Numbers of a row, m.
    intercept : bool, default=False
        As of the shards' losses.
    factor : ndarray of shape (m, m), optional
        Lower triangle L of the features' Gram matrix; the identity by default.
    """

    n_features: int
    intercept: bool = False
    factor: Floats | None = None
    patience: ClassVar[int] = 3  # checks without progress, after which rounding is to blame

    def begun(self, shards: Shards[Shard], start: Floats, limits: Limits) -> dict[str, Any]:
        """Fields of the state at weights of shape (n_outputs, m + 1), the last of them the intercept."""
        return {
            "limits": limits,
            "shards": shards,
            "weights": start[:, :-1],
            "intercept": start[:, -1],
            "gradient": np.zeros_like(start),
            "highest": np.zeros(len(start)),
            "lower": np.zeros(len(start)),
        }

    def parameters(self, state: PrimalState) -> Parameters:
        """Where the solve stands, as the shards take it."""
        return self.coefficients(state.weights), state.intercept

    def coefficients(self, weights: Floats) -> Floats:
        """Of the features: ``beta = L^-T w``, of shape (n_outputs, m)."""
        return weights if self.factor is None else self._solved(weights.T, "T").T

    def weights(self, products: Floats) -> Floats:
        """``L^-1 psi`` for points psi among the features, of shape (n_outputs, m)."""
        return products if self.factor is None else self._solved(products.T, "N").T

    def _solved(self, right: Floats, trans: str) -> Floats:
        return np.asarray(solve_triangular(self.factor, right, lower=True, trans=trans, check_finite=False))

    def evaluations(self, state: State) -> int:
        """Kernel values computed by the shards so far."""
        return state.spent

    def facts(self, state: State) -> dict[str, Any]:
        """Gradient norm and epochs."""
        return {"gradient_norm": float(np.linalg.norm(state.gradient, axis=1).max()), "epochs": state.epochs}

    def check(self, state: State) -> Objectives | None:
        """Objective, gradient and gap where the shards are."""
        objectives = self.evaluate(state)
        fell = objectives.primal < (1 - _PROGRESS) * state.least
        if fell.any() or objectives.worst_gap < 0.9 * state.smallest:
            state.least, state.smallest = objectives.primal, objectives.worst_gap
            state.stale = 0
        else:
            state.stale += 1
        return objectives

    def verdict(self, state: State, objectives: Objectives) -> tuple[Status, str] | None:
        """Whether the tolerance is met."""
        tol, gap = state.limits.tol, objectives.worst_gap
        if gap <= tol:
            return "converged", f"relative gap {gap:.2e} <= tol {tol:.2e}"
        if objectives.met(tol).all():
            return "precision", (
                f"the relative gap is {objectives.unrounded.max():.2e}, and up to {objectives.rounding.max():.2e} more "
                f"by rounding: the rows are too large, or lam is, for float64 to certify tol={tol:.2e}"
            )
        if state.stale >= self.patience:
            return "precision", f"the relative gap stays at {gap:.2e}: tol={tol:.2e} is below what float64 can certify"
        if state.steps >= state.limits.max_iter:
            return "max_iter", f"max_iter={state.limits.max_iter} steps were done"
        return None

    def finish(self, state: State, status: Status, reason: str, history: History) -> PrimalSolution:
        """The last iterate: the primal objective never rises."""
        return PrimalSolution(state.weights, self.evaluate(state), status, reason, 1 + state.steps, history)

    def evaluate(self, state: State) -> Objectives:
        """Objectives, and the gradient into the state, if they are not known."""
        return self.measured(state) if state.objectives is None else state.objectives

    def measured(self, state: PrimalState) -> Objectives:
        """The same, without asking whether they are known."""
        return self.certified(state, state.shards.aggregate(evaluate_at, self.parameters(state)))

    def certified(self, state: PrimalState, sums: Sums) -> Objectives:
        """Objectives, and the gradient into the state, from the sums of `evaluate_at`."""
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
        r"""Bound the rounding of the primal objective, and of the gap with it.

        The dual coefficients answer the margins that were computed, so that rounding of these, e_i, costs no more than
        ``loss_i'' e_i^2 / 2``; sums of ``g_i psi_i`` err by a unit for every addition of ``a``, where

            a^2 = 2 sum_i loss_i * sum_i loss_i'' |psi_i|^2 >= (sum_i |g_i| |psi_i|)^2,

        since ``g_i^2 <= 2 loss_i loss_i''`` for a smooth loss that is nowhere negative. With features that are kernel
        values of landmarks their own rounding comes to that, by the inverse of L, and that of ``beta'R beta``.
        """
        if state.extent is None:
            state.extent = tuple(float(s[0]) for s in state.shards.aggregate(extent_of))
        square, curvature, n_rows, errors = state.extent
        feature = errors / max(n_rows, 1.0) + ROUNDINGS
        of_score, of_sum = feature + self.n_features * _UNIT, feature + n_rows * _UNIT
        coefficients = np.linalg.norm(self.coefficients(state.weights), axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            reach, total = np.sqrt(2 * primal * square), np.sqrt(2 * primal * curvature)  # of g_i psi_i, and of g_i
            of_primal = of_score * coefficients * reach + (ROUNDINGS + self.n_features * _UNIT) * primal
            of_primal += 0.5 * (of_score + feature) * self._squares_of_features * coefficients**2
            sums = self._amplification * of_sum * reach
            of_gap = of_primal + np.sqrt(2 * gap) * sums + 0.5 * sums**2  # of half a squared distance
            of_gap += 0.5 * (of_score * coefficients) ** 2 * square  # of answers to margins
            of_gap += np.abs(state.intercept) * (2 * of_sum + _UNIT) * total
        return of_primal, of_gap

    @cached_property
    def _amplification(self) -> float:
        """Norm of the inverse of L, or a bound of it."""
        if self.factor is None or not len(self.factor):
            return 1.0
        reciprocal, _ = dtrcon(self.factor, norm="1", uplo="L")
        size = float(np.abs(self.factor).sum(axis=0).max())
        return float(len(self.factor) ** 0.5 / max(reciprocal * size, _TINY))

    @property
    def _squares_of_features(self) -> float:
        """Trace of the features' Gram matrix, where they have one."""
        return 0.0 if self.factor is None else float((self.factor**2).sum())
