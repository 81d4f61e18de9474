"""Stochastic variance reduced gradient with anchors on a core-set (in the spirit of Tan, Zhang and Wang, AAAI 2019).

The rows of every class (gradients contain ``y_i x_i``) are covered by balls of a radius. The gradient at an anchor is
that of the balls' centres, each with the weight of the rows in its ball: it errs by at most the radius times the change
of a row's gradient along a unit of distance. Inner steps are those on rows of `dimargin.solvers.svrg`. Every few stages
the whole problem is evaluated, for its gap. Where its gradient has not come down by half meanwhile, the error of the
cover limits progress, and the radius is halved. Where a cover would need a tenth of the rows, or 1,000, they all take
part and the solve goes on as SVRG, which a radius of zero is from the start.

The cover is by farthest points first, ``O(n |C| d)``. How the radius shrinks is a choice of this library, for the paper
does not say. Only the smaller part of a stage is saved: its inner steps cost more than the gradient of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.kernels.column_statistics import power_sums
from dimargin.kernels.row_transform import StoredRows
from dimargin.problems.objectives import Objectives
from dimargin.shards.shards import Shards, Sums
from dimargin.solvers.linear_features import LinearFeatures
from dimargin.solvers.loop import Limits
from dimargin.solvers.primal import PrimalState, Shard
from dimargin.solvers.svrg import SVRG, State
from dimargin.system.arrays import Floats, Indices

_STAGES = 4  # between two evaluations of the whole problem
_MOST, _CENTRES = 0.1, 1000  # part of the rows that a cover may have as centres, and how many
_ENOUGH = 0.5  # of the gradient's norm, that may be left after these stages


def cover(X: Any, classes: Indices, radius: float) -> tuple[Indices, Indices] | None:
    """Return balls around rows, dense or CSR, that cover all rows of their class, chosen by farthest points first.

    The radius is relative to the largest distance of a row from the one nearest to its class's mean. The balls are
    their centres, of shape (n_centres,), and for every row the index of its centre, of shape (n,); None where more than
    a tenth of the rows would be centres, or more than 1,000.

    Examples
    --------
    >>> X = np.repeat([[0.0], [1.0], [9.0], [10.0]], 20, axis=0)
    >>> centres, balls = cover(X, np.repeat([0, 1], 40), 0.5)
    >>> X[centres].ravel(), np.bincount(balls)
    (array([ 0.,  1.,  9., 10.]), array([20, 20, 20, 20]))
    """
    most, centres = min(int(_MOST * X.shape[0]), _CENTRES), list[int]()
    balls = np.zeros(X.shape[0], dtype=np.int64)
    for value in np.unique(classes):
        members = np.flatnonzero(classes == value)
        rows = X[members]
        squares = power_sums(rows, 2)
        mean = np.asarray(rows.mean(axis=0), dtype=np.float64)
        nearest = int(np.argmin(squares - 2 * (rows @ mean)))
        distances, own = np.full(len(members), np.inf), np.zeros(len(members), dtype=np.int64)
        extent = None
        while True:
            if len(centres) == most:
                return None
            centre = rows[[nearest]].toarray()[0] if hasattr(rows, "toarray") else rows[nearest]
            found = np.maximum(squares + squares[nearest] - 2 * (rows @ centre.astype(np.float64)), 0.0) ** 0.5
            closer = found < distances
            distances[closer], own[closer] = found[closer], len(centres)
            distances[nearest] = 0.0
            centres.append(int(members[nearest]))
            nearest = int(np.argmax(distances))
            extent = distances[nearest] if extent is None else extent
            if distances[nearest] <= radius * extent:
                break
        balls[members] = own
    return np.array(centres), balls


# ---- what shards do ------------------------------------------------------------------------------------------------


def _core_set(shard: Shard, radius: float) -> Shard:
    """Return a shard of the centres, with the weights of their balls; the shard itself if a cover saves too little."""
    losses, X = shard.losses, shard.features.matrix
    classes = np.unique(losses.labels, axis=1, return_inverse=True)[1]
    found = cover(X, classes, radius) if radius > 0 else None
    if found is None:
        return shard
    centres, balls = found
    labels = np.ascontiguousarray(losses.labels[:, centres])
    losses = replace(losses, labels=labels, weights=np.bincount(balls, losses.weights).astype(float))
    return Shard(LinearFeatures(StoredRows(X[centres])), losses)


def _count(shard: Shard, _: None) -> Sums:
    return (np.array([shard.losses.n_rows], dtype=float),)


# ---- the solve -----------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class CoreSetState(State):
    """State of a solve."""

    radius: float = field(init=False)  # of the balls
    core_sets: Shards[Shard] = field(init=False)
    n_centres: int = field(init=False)  # of all shards; as many as rows where all of them take part
    norm: float = np.inf  # of the gradient at the last evaluation of the whole problem


@dataclass(frozen=True)
class CoreSetSVRG(SVRG[CoreSetState]):
    """SVRG whose anchors' gradients are those of a core-set.

    Parameters
    ----------
    radius : float, default=0.2
        Radius of the balls at first, see `cover`.
    """

    radius: float = 0.2
    _state = CoreSetState

    def init(self, problem: Shards[Shard], start: Floats, limits: Limits) -> CoreSetState:
        """Return the state at weights of shape (n_outputs, m + 1), the last of them the intercept."""
        state = super().init(problem, start, limits)
        state.radius = self.radius
        self._cover(state)
        return state

    def _cover(self, state: CoreSetState) -> None:
        state.core_sets = state.shards.map(_core_set, state.radius)
        (count,) = state.core_sets.aggregate(_count)
        state.n_centres = int(count[0])

    def check(self, state: CoreSetState) -> Objectives | None:
        """Return the objectives, every few stages while there is a core-set; its radius shrinks if it must."""
        if state.n_centres < state.n_rows and state.steps % _STAGES:
            return None
        known = state.objectives
        objectives = super().check(state)
        if known is None and state.n_centres < state.n_rows:
            norm = float(np.linalg.norm(state.gradient))
            if norm > _ENOUGH * state.norm:
                state.radius /= 2
                self._cover(state)
            state.norm = norm
        return objectives

    def _give_up(self, state: CoreSetState, worse: NDArray[np.bool_], kept: Floats) -> Objectives:
        sizes = state.step_sizes
        objectives = super()._give_up(state, worse, kept)
        if state.n_centres < state.n_rows:
            state.step_sizes = sizes  # the cover is to blame
        return objectives

    def gradient(self, state: CoreSetState) -> Floats:
        """Return the gradient at the anchor: that of the core-sets."""
        if state.n_centres == state.n_rows:
            self.evaluate(state)  # after a stage that was not checked
            return state.gradient.copy()
        core = PrimalState(limits=state.limits, shards=state.core_sets, iterate=state.iterate, extent=state.extent)
        self.measured(core)
        state.epochs += state.n_centres / state.n_rows
        return core.gradient
