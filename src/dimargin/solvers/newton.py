"""Generalised Newton on the primal, in a space of few features: the way past a million rows.

With the features ``phi_i`` of a row, m of them, and a loss whose derivative is piecewise linear, the primal

    P(w, b) = 1/2 |w|^2 + sum_i loss_i(m_i),   m_i = y_i (w.phi_i + b),

is piecewise quadratic: with ``g_i = -loss_i'(m_i)`` and ``c_i = loss_i''(m_i)`` its gradient is
``w - sum_i y_i g_i phi_i`` and its generalised Hessian ``I + sum_i c_i phi_i phi_i'`` (Mangasarian 2002; Keerthi and
DeCoste, JMLR 2005, for the squared hinge). A step goes to the minimum along the Newton direction, without which steps
may circle; near the optimum no ``c_i`` changes any more and the next step ends there.

The ``g_i`` are dual coefficients, and by Fenchel-Young the gap between P and the dual objective is half the squared
norm of the gradient: every step is certified for nothing. With an intercept the ``g_i`` of the heavier class are shrunk
until ``sum_i y_i g_i = 0`` first, and the gap is the sum of what that costs the rows and the norm.

Features psi may have a Gram matrix ``R = L L'`` of their own: for coefficients beta the regulariser is
``1/2 beta'R beta``, so that ``w = L'beta`` and ``phi = L^-1 psi``. Sums are taken over the psi, and L is applied to the
sums: the features of all rows times L^-1 would cost twice as much as the Hessian.

All sums over rows are all-reduces over shards (`dimargin.shards`), of m numbers for a gradient and m x m for a Hessian,
to which only the rows add whose ``c_i`` has changed since the last step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from dimargin.kernels import Indices
from dimargin.shards import Shards, Sums
from dimargin.solution import Floats, History, MarginLosses, Objectives, Status
from dimargin.solvers.loop import Limits, Solver

_ROWS_AT_ONCE = 1024  # whose features are held
_STEEP = 1e-2  # part of the first slope along a direction that may be left
_LINE_STEPS = 30
_PATIENCE = 3  # steps without progress, after which rounding is to blame
_ROUNDING, _RIDGE = 1e-14, 1e-10  # of the curvature; a direction need not be exact
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
    losses : MarginLosses
    margins : ndarray
        With the intercept.
    rates : ndarray
        Change of the margins along the direction.
    curvature : ndarray
        Second derivatives that are in the Hessian.
    """

    features: Features
    losses: MarginLosses
    margins: Floats
    rates: Floats
    curvature: Floats

    @classmethod
    def of(cls, features: Features, losses: MarginLosses) -> Shard:
        """At the origin."""
        nothing = np.zeros(losses.labels.shape)
        return cls(features, losses, nothing, nothing, nothing)


# ---- what shards do ------------------------------------------------------------------------------------------------


def _look_along(shard: Shard, direction: tuple[Floats, Floats]) -> Shard:
    weights, intercept = direction
    return replace(shard, rates=shard.losses.labels * (shard.features.scores(weights) + intercept[:, None]))


def _slopes(shard: Shard, steps: Floats) -> Sums:
    """First and second derivative of the losses along the direction."""
    dual, curvature = shard.losses.pieces.response(shard.margins + steps[:, None] * shard.rates)
    return -(dual * shard.rates).sum(axis=1), (curvature * shard.rates**2).sum(axis=1)


def _move(shard: Shard, steps: Floats) -> Shard:
    return replace(shard, margins=shard.margins + steps[:, None] * shard.rates)


def _sums(shard: Shard, _: None) -> Sums:
    """Losses; and of either class the sums of ``g_i phi_i`` and of ``g_i``."""
    losses = shard.losses
    dual = losses.pieces.response(shard.margins)[0]
    positive, negative = (dual * (losses.labels == sign) for sign in (1, -1))
    if losses.intercept:
        moments = [shard.features.combine(positive), shard.features.combine(negative)]
    else:  # nobody asks for the classes
        moments = [shard.features.combine(positive - negative), np.zeros(1)]
    return losses.values(shard.margins).sum(axis=1), *moments, positive.sum(axis=1), negative.sum(axis=1)


def _gaps(shard: Shard, shares: tuple[Floats, Floats]) -> Sums:
    """Rows' parts of the gap when the coefficients of the classes are multiplied by these shares."""
    losses, (positive, negative) = shard.losses, shares
    share = np.where(losses.labels > 0, positive[:, None], negative[:, None])
    dual = share * losses.pieces.response(shard.margins)[0]
    return (losses.gaps(dual, shard.margins).sum(axis=1),)


def _curvature_change(shard: Shard, limits: Limits) -> Sums:
    """What the Hessian, of shape (n_outputs, m + intercept, m + intercept), lacks; and whether that was given up."""
    change = shard.losses.pieces.response(shard.margins)[1] - shard.curvature
    rows = np.flatnonzero(change.any(axis=0))
    width = shard.features.rows(rows[:0]).shape[1] + shard.losses.intercept
    total = np.zeros((len(change), width, width))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        if limits.reached:
            return total, np.ones(1)
        part = rows[first : first + _ROWS_AT_ONCE]
        phi = shard.features.rows(part)
        if shard.losses.intercept:
            phi = np.column_stack([phi, np.ones(len(phi))])
        for sums, weights in zip(total, change[:, part], strict=True):
            for sign in (1.0, -1.0):  # numpy takes half the work for a matrix times its own transpose
                some = sign * weights > 0
                scaled = phi[some] * np.sqrt(np.abs(weights[some]))[:, None]
                sums += sign * (scaled.T @ scaled)
    return total, np.zeros(1)


def _evaluations(shard: Shard, _: None) -> Sums:
    return (np.array([shard.features.evaluations()], dtype=float),)


def _remember_curvature(shard: Shard, _: None) -> Shard:
    return replace(shard, curvature=shard.losses.pieces.response(shard.margins)[1])


# ---- the solve -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PrimalSolution:
    """What Newton returns.

    Attributes
    ----------
    weights : ndarray of shape (n_outputs, m)
    objectives : Objectives
        With the intercepts.
    status, reason : str
    passes : int
        Newton steps, and the look at the start.
    history : list of dict
        As of `dimargin.solution.Solution`.
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


@dataclass
class State:
    """Where a solve stands.

    Attributes
    ----------
    limits : Limits
    shards : Shards of Shard
    weights : ndarray of shape (n_outputs, m)
    intercept : ndarray of shape (n_outputs,)
    curvature : ndarray of shape (n_outputs, m, m), or of m + 1 with an intercept
        ``sum_i c_i psi_i psi_i'``.
    gradient : ndarray of shape (n_outputs, m + 1)
        The last is that by the intercept; zero without one.
    lower : ndarray of shape (n_outputs,)
        Largest dual objective so far: no primal one is below.
    objectives : Objectives or None
        None where they have not been looked at yet.
    steps, improved_at : int
        Newton steps, and how many there were at the last progress.
    least : ndarray of shape (n_outputs,)
        Primal objectives then.
    smallest : float
        Gap of the worst output then.
    """

    limits: Limits
    shards: Shards[Shard]
    weights: Floats
    intercept: Floats
    curvature: Floats
    gradient: Floats
    lower: Floats
    objectives: Objectives | None = None
    steps: int = 0
    improved_at: int = 0
    least: Floats | float = np.inf
    smallest: float = np.inf


@dataclass(frozen=True)
class Newton(Solver[Shards[Shard], State, PrimalSolution]):
    """Generalised Newton over shards.

    Parameters
    ----------
    n_features : int
        Numbers of a row, m.
    intercept : bool, default=False
        As of the shards' losses.
    factor : ndarray of shape (m, m), optional
        Lower triangle L of the features' Gram matrix; the identity by default.

    Examples
    --------
    Ridge regression to one, which is the machine with theta=0 and upsilon=1, takes one step.

    >>> import numpy as np
    >>> from threading import Event
    >>> from dimargin.engines import LocalEngine
    >>> from dimargin.losses import ODMLoss
    >>> from dimargin.solvers import solve
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([[1.0, 1.0, -1.0]])
    >>> losses = MarginLosses(y, np.ones(3), ODMLoss(lam=3.0, upsilon=1.0, theta=0.0), 3.0, 3.0)
    >>> shards = LocalEngine(1, Event()).scatter([Shard.of(DenseFeatures(X), losses)])
    >>> solution = solve(shards, Newton(1), np.zeros((1, 2)), Limits(tol=1e-9))
    >>> solution.passes, solution.weights.round(4), 4 / 7  # X'y / (X'X + 1)
    (2, array([[0.5714]]), 0.5714285714285714)
    """

    n_features: int
    intercept: bool = False
    factor: Floats | None = None

    def init(self, shards: Shards[Shard], start: Floats, limits: Limits) -> State:
        """From weights of shape (n_outputs, m + 1), the last of them the intercept."""
        weights, intercept = start[:, :-1], start[:, -1]
        width = self.n_features + self.intercept
        if start.any():
            shards = shards.map(_look_along, (self.coefficients(weights), intercept)).map(_move, np.ones(len(start)))
        curvature = np.zeros((len(start), width, width))
        return State(limits, shards, weights, intercept, curvature, np.zeros_like(start), np.zeros(len(start)))

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

    def check(self, state: State) -> Objectives:
        """Objective, gradient and gap where the shards are."""
        if state.objectives is None:
            state.objectives = self._look(state)
            fell = state.objectives.primal < (1 - _PROGRESS) * state.least
            if fell.any() or state.objectives.worst_gap < 0.9 * state.smallest:
                state.least, state.smallest = state.objectives.primal, state.objectives.worst_gap
                state.improved_at = state.steps
        return state.objectives

    def verdict(self, state: State, objectives: Objectives) -> tuple[Status, str] | None:
        """Whether the tolerance is met."""
        tol, gap = state.limits.tol, objectives.worst_gap
        if gap <= tol:
            return "converged", f"relative gap {gap:.2e} <= tol {tol:.2e}"
        if state.steps - state.improved_at >= _PATIENCE:
            return "precision", f"the relative gap stays at {gap:.2e}: tol={tol:.2e} is below what float64 can certify"
        if state.steps >= state.limits.max_iter:
            return "max_iter", f"max_iter={state.limits.max_iter} steps were done"
        return None

    def step(self, state: State) -> None:
        """To the minimum along the Newton direction; given up without a trace where a limit is reached meanwhile."""
        change, given_up = state.shards.aggregate(_curvature_change, state.limits)
        if given_up[0]:
            return
        state.shards = state.shards.map(_remember_curvature)
        state.curvature += change
        direction = self._direction(state)
        weights, intercept = direction[:, :-1], direction[:, -1]
        state.shards = state.shards.map(_look_along, (self.coefficients(weights), intercept))
        steps = _line_search(state, weights, np.abs((state.gradient * direction).sum(axis=1)))
        state.shards = state.shards.map(_move, steps)
        state.weights = state.weights + steps[:, None] * weights
        state.intercept = state.intercept + steps * intercept
        state.objectives = None
        state.steps += 1

    def finish(self, state: State, status: Status, reason: str, history: History) -> PrimalSolution:
        """The last iterate: the primal objective never rises."""
        objectives = self.check(state)
        return PrimalSolution(state.weights, objectives, status, reason, 1 + state.steps, history, state.shards)

    def _direction(self, state: State) -> Floats:
        directions, m, width = np.zeros_like(state.gradient), self.n_features, state.curvature.shape[1]
        for q, (curvature, slope) in enumerate(zip(state.curvature, state.gradient, strict=True)):
            hessian = curvature.copy()
            hessian[:m] = self.weights(hessian[:m].T).T
            hessian[:, :m] = self.weights(hessian[:, :m])
            trace = hessian.trace()
            hessian[range(m), range(m)] += 1.0
            hessian[m:, m:] += _RIDGE * (1.0 + trace)  # where no row feels the intercept there is nothing else
            directions[q, :width] = -_solve_positive(hessian, slope[:width], _ROUNDING * trace)
        return directions

    def _look(self, state: State) -> Objectives:
        losses, positive, negative, own, others = state.shards.aggregate(_sums)
        positive = self.weights(positive)
        if self.intercept:
            negative = self.weights(negative)
        primal = 0.5 * (state.weights**2).sum(axis=1) + losses
        state.gradient[:, :-1] = state.weights - (positive - negative)
        gap = 0.5 * (state.gradient[:, :-1] ** 2).sum(axis=1)
        if self.intercept:
            state.gradient[:, -1], least = others - own, np.minimum(own, others)
            shares = tuple(np.divide(least, sums, out=np.ones_like(sums), where=sums > 0) for sums in (own, others))
            (gap,) = state.shards.aggregate(_gaps, shares)
            reached = shares[0][:, None] * positive - shares[1][:, None] * negative
            gap = gap + 0.5 * ((state.weights - reached) ** 2).sum(axis=1)
        state.lower = np.maximum(state.lower, primal - gap)
        gap = np.minimum(gap, primal - state.lower)
        relative = np.maximum(gap, 0.0) / np.maximum(primal, np.finfo(float).tiny)
        return Objectives(primal, primal - gap, relative, state.intercept)


def _solve_positive(matrix: Floats, right: Floats, ridge: float) -> Floats:
    """Solve with a positive definite matrix from which rounding may have taken that: with a ridge, then."""
    for _ in range(20):
        try:
            return np.asarray(cho_solve(cho_factor(matrix, lower=True, check_finite=False), right, check_finite=False))
        except LinAlgError:
            matrix = matrix + np.diag(np.full(len(matrix), ridge))
            ridge *= 10
    raise LinAlgError("the Hessian is not positive definite: are all features finite?")


def _line_search(state: State, direction: Floats, first: Floats) -> Floats:
    """Steps where the slopes along the direction, which rise, are nearly zero: Newton's method within a bracket."""
    steps, low, high = np.ones(len(direction)), np.zeros(len(direction)), np.full(len(direction), np.inf)
    along, square = (state.weights * direction).sum(axis=1), (direction**2).sum(axis=1)
    for _ in range(_LINE_STEPS):
        slopes, curvatures = state.shards.aggregate(_slopes, steps)
        slopes, curvatures = slopes + along + steps * square, curvatures + square
        open_ = np.abs(slopes) > _STEEP * first
        if not open_.any():
            break
        low, high = np.where(slopes < 0, steps, low), np.where(slopes > 0, steps, high)
        tried = steps - slopes / np.maximum(curvatures, np.finfo(float).tiny)
        middle = np.where(np.isfinite(high), (low + high) / 2, 2 * low)
        inside = (tried > low) & (tried < high)
        steps = np.where(open_, np.where(inside, tried, middle), steps)
    return steps


@dataclass(frozen=True)
class DenseFeatures:
    """Rows that are their own features."""

    X: Floats

    def scores(self, weights: Floats) -> Floats:
        """See `Features`."""
        return weights @ self.X.T

    def combine(self, coefficients: Floats) -> Floats:
        """See `Features`."""
        return coefficients @ self.X

    def rows(self, index: Indices) -> Floats:
        """See `Features`."""
        return self.X[index]

    def evaluations(self) -> int:
        """None: there is no kernel."""
        return 0
