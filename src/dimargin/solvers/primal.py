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

All sums over rows are all-reduces over shards (`dimargin.shards`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from scipy.linalg import solve_triangular

from dimargin.kernels import Indices
from dimargin.shards import Shards, Sums
from dimargin.solution import Floats, History, MarginLosses, Objectives, Status
from dimargin.solvers.loop import Limits, Solver

_PROGRESS = 1e-12  # fall of a primal objective that is not rounding


class Features(Protocol):
    """Rows of a shard as points in a space of few dimensions."""

    def scores(self, weights: Floats) -> Floats:
        """``w.phi_i`` of all rows for `weights` of shape (n_outputs, m); of shape (n_outputs, n)."""

    def combine(self, coefficients: Floats) -> Floats:
        """``sum_i coefficients[q, i] phi_i``, of shape (n_outputs, m)."""

    def rows(self, index: Indices) -> Floats:
        """Features of some rows, of shape (len(index), m)."""

    def evaluations(self) -> int:
        """Kernel values computed so far."""


@dataclass(frozen=True)
class Shard:
    """Rows, and where the solve stands on them; arrays of shape (n_outputs, n).

    Attributes
    ----------
    features : Features
        Or what a solver needs beyond.
    losses : MarginLosses
    margins : ndarray
        With the intercept.
    rates : ndarray
        Change of the margins along the direction.
    curvature : ndarray
        Second derivatives that are in the Hessian.
    """

    features: Any
    losses: MarginLosses
    margins: Floats
    rates: Floats
    curvature: Floats

    @classmethod
    def of(cls, features: Any, losses: MarginLosses) -> Shard:
        """At the origin."""
        nothing = np.broadcast_to(0.0, losses.labels.shape)
        return cls(features, losses, nothing, nothing, nothing)


# ---- what shards do ------------------------------------------------------------------------------------------------


def _scores(shard: Shard, place: tuple[Floats, Floats]) -> Floats:
    weights, intercept = place
    scores: Floats = shard.features.scores(weights)
    scores += intercept[:, None]
    scores *= shard.losses.labels
    return scores


def look_along(shard: Shard, direction: tuple[Floats, Floats]) -> Shard:
    """Remember how margins change along a direction."""
    return replace(shard, rates=_scores(shard, direction))


def stand_at(shard: Shard, place: tuple[Floats, Floats]) -> Shard:
    """Margins at given weights."""
    return replace(shard, margins=_scores(shard, place))


def move(shard: Shard, steps: Floats) -> Shard:
    """Margins after a step along the direction."""
    return replace(shard, margins=shard.margins + steps[:, None] * shard.rates)


def _sums(shard: Shard, _: None) -> Sums:
    """Of either class: losses of rows inside the box and of others, sums of ``g_i`` and of ``g_i phi_i``."""
    dual, curvature, value = shard.losses.pieces.response(shard.margins)
    labels, q = shard.losses.labels, len(dual)
    inside = np.where(curvature > 0, value, 0.0)
    value -= inside
    sums = [part for values in (inside, value, dual) for part in _by_class(values, labels)]
    signed = labels * dual
    if not shard.losses.intercept:  # nobody asks for the classes
        return *sums, shard.features.combine(signed), np.zeros(1)
    moments = shard.features.combine(np.concatenate([signed, dual]))
    return *sums, (moments[q:] + moments[:q]) / 2, (moments[q:] - moments[:q]) / 2


def _by_class(values: Floats, labels: Floats) -> tuple[Floats, Floats]:
    every, signed = values.sum(axis=1), np.einsum("qi,qi->q", values, labels)
    return (every + signed) / 2, (every - signed) / 2


def _evaluations(shard: Shard, _: None) -> Sums:
    return (np.array([shard.features.evaluations()], dtype=float),)


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
        As of `dimargin.solution.Solution`, with ``gradient_norm`` (of the worst output) and ``epochs``: how often all
        rows have been looked at so far.
    shards : Shards of Shard
        With the margins.
    """

    weights: Floats
    objectives: Objectives
    status: Status
    reason: str
    passes: int
    history: History
    shards: Shards[Shard]


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
    lower : ndarray of shape (n_outputs,)
        Largest dual objective so far: no primal one is below.
    objectives : Objectives or None
        None where they have not been looked at yet.
    epochs : float
        How often all rows have been looked at.
    steps, stale : int
        Steps, and checks since the last progress.
    least : ndarray of shape (n_outputs,)
        Primal objectives then.
    smallest : float
        Gap of the worst output then.
    """

    limits: Limits
    shards: Shards[Shard]
    weights: Floats
    intercept: Floats
    gradient: Floats
    lower: Floats
    objectives: Objectives | None = None
    steps: int = 0
    stale: int = 0
    epochs: float = 0.0
    least: Floats | float = np.inf
    smallest: float = np.inf


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
        weights, intercept = start[:, :-1], start[:, -1]
        if start.any():
            shards = shards.map(stand_at, (self.coefficients(weights), intercept))
        return {
            "limits": limits,
            "shards": shards,
            "weights": weights,
            "intercept": intercept,
            "gradient": np.zeros_like(start),
            "lower": np.zeros(len(start)),
        }

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
        (count,) = state.shards.aggregate(_evaluations)
        return int(count[0])

    def facts(self, state: State) -> dict[str, Any]:
        """Gradient norm and epochs."""
        return {"gradient_norm": float(np.linalg.norm(state.gradient, axis=1).max()), "epochs": state.epochs}

    def check(self, state: State) -> Objectives | None:
        """Objective, gradient and gap where the shards are."""
        if state.objectives is not None:
            return state.objectives
        objectives = self.look(state)
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
        if state.stale >= self.patience:
            return "precision", f"the relative gap stays at {gap:.2e}: tol={tol:.2e} is below what float64 can certify"
        if state.steps >= state.limits.max_iter:
            return "max_iter", f"max_iter={state.limits.max_iter} steps were done"
        return None

    def finish(self, state: State, status: Status, reason: str, history: History) -> PrimalSolution:
        """The last iterate: the primal objective never rises."""
        objectives = self.look(state)
        return PrimalSolution(state.weights, objectives, status, reason, 1 + state.steps, history, state.shards)

    def look(self, state: State) -> Objectives:
        """Objectives, and the gradient into the state, if they are not known."""
        return self.measured(state) if state.objectives is None else state.objectives

    def measured(self, state: PrimalState) -> Objectives:
        """The same, without asking whether they are known."""
        *losses, own, others, positive, negative = state.shards.aggregate(_sums)
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
        state.lower = np.maximum(state.lower, primal - gap)
        gap = np.minimum(gap, primal - state.lower)
        relative = np.maximum(gap, 0.0) / np.maximum(primal, np.finfo(float).tiny)
        state.objectives = Objectives(primal, primal - gap, relative, state.intercept)
        return state.objectives
