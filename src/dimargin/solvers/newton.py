"""Generalised Newton on the primal, in a space of few features: the way past a million rows.

Where the derivative of the loss is piecewise linear the primal (`dimargin.solvers.primal`) is piecewise quadratic:
with ``c_i = loss_i''(m_i)`` its generalised Hessian is ``I + sum_i c_i phi_i phi_i'`` (Mangasarian 2002; Keerthi and
DeCoste, JMLR 2005, for the squared hinge). A step goes to the minimum along the Newton direction, without which steps
may circle; near the optimum no ``c_i`` changes any more and the next step ends there.

Of few features the Hessian is formed, an all-reduce of m x m numbers to which only the rows add whose ``c_i`` has
changed since the last step. Of many, a direction is found by conjugate gradients, preconditioned by the diagonal, an
all-reduce of m numbers each, until a tenth of the gradient is left (truncated Newton: Lin, Weng and Keerthi, JMLR
2008). The diagonal counts a hundredth beside the regulariser: all of it costs a third more steps where features are
scaled, none of it four times as many where they are not (Hsia, Chiang and Lin, ACML 2018).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from dimargin.shards import Shards, Sums
from dimargin.solution import Floats
from dimargin.solvers.loop import Limits
from dimargin.solvers.primal import PrimalSolver, PrimalState, Shard, look_along, move

_ROWS_AT_ONCE, _VALUES_AT_ONCE = 1024, 2**17  # whose features are held: so many rows, or more if they are short
_STEEP = 1e-2  # part of the first slope along a direction that may be left
_LINE_STEPS = 30
_ROUNDING, _RIDGE = 1e-14, 1e-10  # of the curvature; a direction need not be exact
_SCALING = 0.01  # weight of the diagonal beside the regulariser
_INEXACT, _DIRECTION_STEPS = 0.1, 250  # residual of a direction, relative, at most; and conjugate gradients for it


# ---- what shards do ------------------------------------------------------------------------------------------------


def _slopes(shard: Shard, steps: Floats) -> Sums:
    """First and second derivative of the losses along the direction."""
    dual, curvature, _ = shard.losses.pieces.response(shard.margins + steps[:, None] * shard.rates)
    first = -np.einsum("qi,qi->q", dual, shard.rates)
    return first, np.einsum("qi,qi,qi->q", curvature, shard.rates, shard.rates)


def _curvature_change(shard: Shard, limits: Limits) -> Sums:
    """What the Hessian, of shape (n_outputs, m + intercept, m + intercept), lacks; and whether that was given up."""
    change = shard.losses.pieces.response(shard.margins)[1] - shard.curvature
    rows = np.flatnonzero(change.any(axis=0))
    width = shard.features.rows(rows[:0]).shape[1] + shard.losses.intercept
    total, step = np.zeros((len(change), width, width)), max(_ROWS_AT_ONCE, _VALUES_AT_ONCE // width)
    for first in range(0, len(rows), step):
        if limits.reached:
            return total, np.ones(1)
        part = rows[first : first + step]
        phi = shard.features.rows(part)
        if shard.losses.intercept:
            phi = np.column_stack([phi, np.ones(len(phi))])
        for sums, weights in zip(total, change[:, part], strict=True):
            for sign in (1.0, -1.0):  # numpy takes half the work for a matrix times its own transpose
                some = sign * weights > 0
                if some.any():
                    scaled = phi[some] * np.sqrt(np.abs(weights[some]))[:, None]
                    sums += sign * (scaled.T @ scaled)
    return total, np.zeros(1)


def _remember_curvature(shard: Shard, _: None) -> Shard:
    return replace(shard, curvature=shard.losses.pieces.response(shard.margins)[1])


def _diagonal(shard: Shard, _: None) -> Sums:
    """Of the Hessian, without the regulariser, the intercept's last."""
    return shard.features.combine_squares(shard.curvature), shard.curvature.sum(axis=1)


def _curved(shard: Shard, direction: Floats) -> Sums:
    """The Hessian, without the regulariser, times a direction with the intercept behind it."""
    bent = shard.curvature * (shard.features.scores(direction[:, :-1]) + direction[:, -1:])
    return shard.features.combine(bent), bent.sum(axis=1)


# ---- the solve -----------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class State(PrimalState):
    """Where a solve stands.

    Attributes
    ----------
    hessian : ndarray of shape (n_outputs, m, m), or of m + 1 with an intercept
        ``sum_i c_i psi_i psi_i'``; empty where it is not formed.
    """

    hessian: Floats


@dataclass(frozen=True)
class Newton(PrimalSolver[State]):
    """Generalised Newton over shards.

    Parameters
    ----------
    explicit : bool, default=True
        Whether the Hessian is formed; else directions are found by conjugate gradients, without a `factor`.

    Examples
    --------
    Ridge regression to one, which is the machine with theta=0 and upsilon=1, takes one step.

    >>> import numpy as np
    >>> from threading import Event
    >>> from dimargin.engines import LocalEngine
    >>> from dimargin.losses import ODMLoss
    >>> from dimargin.solution import MarginLosses
    >>> from dimargin.rows import StoredRows
    >>> from dimargin.solvers import LinearFeatures, solve
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([[1.0, 1.0, -1.0]])
    >>> losses = MarginLosses(y, np.ones(3), ODMLoss(lam=3.0, upsilon=1.0, theta=0.0), 3.0, 3.0)
    >>> shards = LocalEngine(1, Event()).scatter([Shard.of(LinearFeatures(StoredRows(X)), losses)])
    >>> solution = solve(shards, Newton(1), np.zeros((1, 2)), Limits(tol=1e-9))
    >>> solution.passes, solution.weights.round(4), 4 / 7  # X'y / (X'X + 1)
    (2, array([[0.5714]]), 0.5714285714285714)
    """

    explicit: bool = True

    def init(self, problem: Shards[Shard], start: Floats, limits: Limits) -> State:
        """From weights of shape (n_outputs, m + 1), the last of them the intercept."""
        width = self.n_features + self.intercept if self.explicit else 0
        return State(**self.begun(problem, start, limits), hessian=np.zeros((len(start), width, width)))

    def step(self, state: State) -> None:
        """To the minimum along the Newton direction; given up without a trace where a limit is reached meanwhile."""
        direction = self._by_hessian(state) if self.explicit else self._by_conjugate_gradients(state)
        if direction is None:
            return
        weights, intercept = direction[:, :-1], direction[:, -1]
        state.shards = state.shards.map(look_along, (self.coefficients(weights), intercept))
        steps = _line_search(state, weights, np.abs((state.gradient * direction).sum(axis=1)))
        state.shards = state.shards.map(move, steps)
        state.weights = state.weights + steps[:, None] * weights
        state.intercept = state.intercept + steps * intercept
        state.objectives = None
        state.steps += 1
        state.epochs += 1

    def _by_hessian(self, state: State) -> Floats | None:
        change, given_up = state.shards.aggregate(_curvature_change, state.limits)
        if given_up[0]:
            return None
        state.shards = state.shards.map(_remember_curvature)
        state.hessian += change
        state.epochs += 1
        directions, m, width = np.zeros_like(state.gradient), self.n_features, state.hessian.shape[1]
        for q, (curvature, slope) in enumerate(zip(state.hessian, state.gradient, strict=True)):
            hessian = curvature.copy()
            if self.factor is not None:
                hessian[:m] = self.weights(hessian[:m].T).T
                hessian[:, :m] = self.weights(hessian[:, :m])
            trace = hessian.trace()
            hessian[range(m), range(m)] += 1.0
            hessian[m:, m:] += _RIDGE * (1.0 + trace)  # where no row feels the intercept there is nothing else
            directions[q, :width] = -_solve_positive(hessian, slope[:width], _ROUNDING * trace)
        return directions

    def _by_conjugate_gradients(self, state: State) -> Floats:
        """All outputs as one system; what there is of a direction when a limit is reached still goes down."""
        state.shards = state.shards.map(_remember_curvature)
        shape, slopes = state.gradient.shape, state.gradient.ravel()
        squares, curvature = state.shards.aggregate(_diagonal)
        own = np.ones(shape)
        own[:, -1] = _RIDGE * (1.0 + squares.sum(axis=1)) if self.intercept else 1.0
        scaling = (own + _SCALING * np.column_stack([squares, curvature * self.intercept])).ravel()
        state.epochs += 1

        def multiply(vector: Floats) -> Floats:
            direction = vector.reshape(shape)
            moments, sums = state.shards.aggregate(_curved, direction)
            state.epochs += 1
            return np.asarray((own * direction + np.column_stack([moments, sums * self.intercept])).ravel())

        found = np.zeros_like(slopes)

        def remember(vector: Floats) -> None:
            found[:] = vector
            if state.limits.reached:
                raise _EnoughError

        size = len(slopes)
        with suppress(_EnoughError):
            cg(
                LinearOperator((size, size), matvec=multiply, dtype=float),
                -slopes,
                rtol=_INEXACT,
                maxiter=_DIRECTION_STEPS,
                M=LinearOperator((size, size), matvec=lambda vector: vector / scaling, dtype=float),
                callback=remember,
            )
        return found.reshape(shape)


class _EnoughError(Exception):
    """A limit was reached."""


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
