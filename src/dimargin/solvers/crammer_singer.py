"""Dual coordinate descent for the linear machine of Crammer and Singer, which separates all classes together.

With one weight vector per class, it minimises (Crammer, Singer, "On the algorithmic implementation of
multiclass kernel-based vector machines", JMLR 2, 2001)

    1/2 sum_k |w_k|^2 + sum_i C_i ( max_k (w_k.x_i + [k != y_i]) - w_(y_i).x_i ).

Its dual has coefficients a_ik whose sum over the classes is zero, with ``a_ik <= C_i`` for the row's
own class and ``a_ik <= 0`` for the others:

    maximise  -1/2 sum_k |w_k|^2 - sum_i sum_(k != y_i) a_ik,   w_k = sum_i a_ik x_i.

A step minimises in all coefficients of a row: they are ``min(bound_k, (level - slope_k) / |x_i|^2 +
a_ik)`` with the level for which their sum is zero (Keerthi, Sundararajan, Chang, Hsieh, Lin, "A
sequential dual method for large scale multi-class linear SVMs", KDD 2008). The rest is as in
`dimargin.solvers.coordinate_descent`, where a check makes the coefficients feasible, computes the
weights and both objectives again, and bounds their rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dimargin import _core
from dimargin.problems.objectives import ROUNDINGS, Objectives
from dimargin.shards.shards import Shards, Sums
from dimargin.solvers.linear_dual import Best, BestSolver, BestState, facts_of, nonnegative, own_rows
from dimargin.solvers.loop import Limits
from dimargin.solvers.primal import Shard
from dimargin.solvers.progress import is_near_rounding
from dimargin.system.arrays import TINY, UNIT, Floats, Indices


@dataclass(kw_only=True)
class State(BestState):
    """State of a solve."""

    rows: _core.Rows32 | _core.Rows64  # All rows, in the compiled core.
    classes: Indices  # Class of every row, of shape (n,).
    prices: Floats  # C_i, of shape (n,).
    norms: Floats  # Norms of the rows, of shape (n,).
    dual: Floats  # Dual coefficients, of shape (n_classes, n).
    weights: Floats  # Weights by feature, of shape (m, n_classes).
    other: Floats | None  # Initial weights, of shape (n_classes, m), which may have a smaller primal objective.
    active: NDArray[np.uint8]  # One for the rows of the next pass, of shape (n,).
    n_calls: int  # Number of parts of a pass, between which limits are looked at.
    rng: np.random.Generator
    slack: float = np.inf  # Largest violation of the last pass.
    gap: float = np.inf  # Estimate of the relative gap.
    next_check: int = 8  # Number of passes after which a check is due at the latest.


@dataclass(frozen=True)
class CrammerSinger(BestSolver[State]):
    """Dual coordinate descent for the machine of Crammer and Singer.

    The shards' losses are the hinge for one class against the rest, or, of two classes, for the second
    against the first. The weight vectors of two classes are opposite, and the solution has the
    difference of the second and the first.

    Parameters
    ----------
    intercept
        Must be False. An intercept is the coefficient of a constant feature.
    dual : ndarray of shape (n_classes, n), optional
        Initial coefficients; by default zero.
    random_state : int, default=0
        Seed of the orders of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from threading import Event
    >>> from dimargin.kernels.row_transform import StoredRows
    >>> from dimargin.problems.losses import HingeLoss
    >>> from dimargin.problems.margin_losses import MarginLosses
    >>> from dimargin.shards.local_engine import LocalEngine
    >>> from dimargin.solvers import LinearFeatures, solve
    >>> losses = MarginLosses(2 * np.eye(3) - 1, np.ones(3), HingeLoss(10.0), 3.0, 3.0)
    >>> shards = LocalEngine(1, Event()).scatter([Shard(LinearFeatures(StoredRows(np.eye(3))), losses)])
    >>> solution = solve(shards, CrammerSinger(), np.zeros((3, 4)), Limits(tol=1e-9))
    >>> solution.weights.round(3)  # The decision value of the own class is one more than that of any other.
    array([[ 0.667, -0.333, -0.333],
           [-0.333,  0.667, -0.333],
           [-0.333, -0.333,  0.667]])
    """

    dual: Floats | None = None
    random_state: int = 0
    max_wait: ClassVar[int] = 256
    rows_per_block: ClassVar[int] = 8
    values_per_call: ClassVar[int] = 2**24
    margin: ClassVar[float] = 0.8

    def init(self, problem: Shards[Shard], start: Floats, limits: Limits) -> State:
        """Return the state at zero, or at the given coefficients."""
        whole, facts = facts_of(problem, start, limits)
        labels, stored = whole.losses.labels, whole.features.stored
        n_classes, (m, n) = max(len(labels), 2), (stored.X.shape[1], labels.shape[1])
        state = State(
            limits=limits, shards=problem, longest_sum=facts["longest_sum"] + n_classes, rows=stored.core,
            classes=labels.argmax(axis=0) if len(labels) > 1 else (labels[0] > 0).astype(np.int64),
            prices=np.broadcast_to(whole.losses.conjugate.upper, labels.shape)[0].astype(float), norms=facts["norms"],
            dual=np.zeros((n_classes, n)) if self.dual is None else self.dual, weights=np.zeros((m, n_classes)),
            other=_of_classes(start[:, :-1]) if start.any() else None, active=np.ones(n, dtype=np.uint8),
            n_calls=1 + int(stored.X.size) * n_classes // self.values_per_call,
            rng=np.random.default_rng(self.random_state),
        )  # fmt: skip
        if state.dual.any() or state.other is not None:
            self.measure(state)
        return state

    def step(self, state: State) -> None:
        """Make passes until the estimated gap is small, or a check is due."""
        limits, coefficients = state.limits, np.ascontiguousarray(state.dual.T)
        while True:
            self._pass(state, coefficients)
            if limits.reached or state.passes >= min(state.next_check, limits.max_iter):
                break
            if state.gap <= self.margin * limits.tol:
                break
        if state.passes >= state.next_check:
            state.next_check += min(state.next_check, self.max_wait)
        state.dual = np.ascontiguousarray(coefficients.T)

    def _pass(self, state: State, coefficients: Floats) -> None:
        """Visit the active rows, and update coefficients of shape (n, n_classes)."""
        blocks, largest, gap = state.rng.permutation(-(-len(coefficients) // self.rows_per_block)), 0.0, 0.0
        for some in np.array_split(blocks, state.n_calls):
            visited, violation, of_rows = _core.descend_classes(
                state.rows, state.classes, state.prices, state.norms**2, state.slack, some, self.rows_per_block,
                state.weights, coefficients, state.active,
            )  # fmt: skip
            largest, gap = max(largest, violation), gap + of_rows
            state.visits += visited / len(coefficients)
            if state.limits.reached:
                break
        state.passes += 1
        state.slack = largest
        dual = _own(coefficients.T, state.classes).sum() - 0.5 * (state.weights**2).sum()
        state.gap = float(gap / max(dual, 1e-30 * gap + TINY))

    def measure(self, state: State) -> Objectives:
        """Compute feasible coefficients near those of the state, their weights and the objectives; keep the best."""
        others = np.minimum(state.dual, 0.0)
        _set_own(others, state.classes, 0.0)
        sizes = -others.sum(axis=0)
        others *= np.minimum(1.0, np.divide(state.prices, sizes, out=np.ones_like(sizes), where=sizes > 0))
        _set_own(others, state.classes, -others.sum(axis=0))
        state.dual = others
        (weights,) = state.shards.aggregate(_weights_of, state.dual)
        state.weights = np.ascontiguousarray(weights.T)
        # The next pass visits all rows, and leaves out those that stay.
        state.active[:] = 1
        dual, of_dual = self._dual_objective(state, weights)
        for tried in (weights, state.other):
            if tried is None:
                continue
            primal, of_primal = self._primal_objective(state, tried)
            shown = tried if len(tried) > 2 else tried[1:] - tried[:1]
            parameters = np.column_stack([shown, np.zeros(len(shown))])
            state.best = Best(parameters, primal, of_primal, dual, of_dual).better(state.best)
        state.other = None
        assert state.best is not None
        return state.best.objectives

    def _has_stalled(self, state: State) -> bool:
        # Where columns are few, the dual objective rises slowly for thousands of passes.
        return is_near_rounding(self._best(state).objectives, state.limits.tol) and super()._has_stalled(state)

    def _dual_objective(self, state: State, weights: Floats) -> tuple[Floats, Floats]:
        """Return the dual objective and a bound of its rounding, or zero if that is better."""
        linear = _own(state.dual, state.classes).sum()
        lengths, reach = np.sqrt((weights**2).sum(axis=1)), np.abs(state.dual) @ state.norms
        error = state.longest_sum * UNIT * reach
        square = (lengths**2).sum()
        # A row's own coefficient is a sum over its classes, and may exceed its bound by as many roundings.
        of_classes = 3 * UNIT * len(weights)
        rounding = ((lengths + 0.5 * error) * error).sum() + (ROUNDINGS + of_classes) * (square + linear)
        return nonnegative(np.atleast_1d(linear - 0.5 * square), np.atleast_1d(rounding))

    def primal_at(self, problem: Shards[Shard], parameters: Floats, limits: Limits) -> tuple[Floats, Floats]:
        """Return the primal objective at the parameters of a machine, and a bound of its rounding."""
        state = self.init(problem, np.zeros_like(parameters), limits)
        return self._primal_objective(state, _of_classes(parameters[:, :-1]))

    def _primal_objective(self, state: State, weights: Floats) -> tuple[Floats, Floats]:
        scores = np.concatenate(state.shards.collect(_scores, weights), axis=1)
        own = _own(scores, state.classes)
        slopes = scores + 1.0
        _set_own(slopes, state.classes, own)
        highest = slopes.max(axis=0)
        lengths = np.sqrt((weights**2).sum(axis=1))
        of_scores = UNIT * (weights.shape[1] + 2) * lengths.max() * state.norms
        error = 2 * of_scores + 4 * UNIT * (np.abs(scores).max(axis=0) + 1.0)
        # Products of BLAS are not summed pairwise.
        primal = 0.5 * (lengths**2).sum() + (state.prices * (highest - own)).sum()
        return np.atleast_1d(primal), np.atleast_1d(state.prices @ error + ROUNDINGS * primal)


def _own(values: Floats, classes: Indices) -> Floats:
    """Return the values of the rows' own classes, of values of shape (n_classes, n)."""
    return np.asarray(np.take_along_axis(values, classes[None], axis=0)[0])


def _set_own(values: Floats, classes: Indices, to: Floats | float) -> None:
    np.put_along_axis(values, classes[None], to, axis=0)


def _of_classes(weights: Floats) -> Floats:
    """Return the weights of all classes from those of a machine, which has one vector for two classes."""
    return weights if len(weights) > 1 else np.concatenate([-0.5 * weights, 0.5 * weights])


def _weights_of(shard: Shard, dual: Floats) -> Sums:
    return (shard.features.combine(dual[:, own_rows(shard)]),)


def _scores(shard: Shard, weights: Floats) -> Floats:
    return np.asarray(shard.features.scores(weights))
