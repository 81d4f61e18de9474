"""SVRG with anchors on a core-set (in the spirit of Tan, Zhang and Wang, AAAI 2019).

The rows of every class (gradients contain ``y_i x_i``) are covered by balls of a given radius. The
gradient at an anchor is computed from the balls' centres, each with the weight of the rows in its
ball; its error is at most the radius times the change of a row's gradient per unit of distance.
Inner steps use rows, as in `dimargin.solvers.svrg`. Every few stages the whole problem is
evaluated, for its gap. If its gradient has not halved meanwhile, the error of the cover limits
progress, and the radius is halved. If a cover would need a tenth of the rows, or 1,000, all rows
are used, and the solve continues as SVRG. With radius zero it is SVRG from the start.

The cover chooses farthest points first, ``O(n |C| d)``. How the radius shrinks is a choice of this
library, since the paper does not say. The savings are small: the inner steps of a stage cost more
than the gradient of all rows.
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


def cover(X: Any, classes: Indices, radius: float) -> tuple[Indices, Indices] | None:
    """Cover the rows of every class, dense or CSR, by balls, choosing farthest points first.

    The radius is relative to the largest distance of a row from the row nearest to the mean of its
    class. Returns the centres, of shape (n_centres,), and the index of every row's centre, of shape
    (n,), or None if more than a tenth of the rows, or more than 1,000, would be centres.

    Examples
    --------
    >>> X = np.repeat([[0.0], [1.0], [9.0], [10.0]], 20, axis=0)
    >>> centres, balls = cover(X, np.repeat([0, 1], 40), 0.5)
    >>> X[centres].ravel(), np.bincount(balls)
    (array([ 0.,  1.,  9., 10.]), array([20, 20, 20, 20]))
    """
    max_centres, centres = min(int(0.1 * X.shape[0]), 1000), list[int]()
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
            if len(centres) == max_centres:
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


def _core_set(shard: Shard, radius: float) -> Shard:
    """Return a shard of weighted centres, or the shard itself if there are too many."""
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


@dataclass(kw_only=True)
class CoreSetState(State):
    """State of a solve."""

    radius: float = field(init=False)  # Radius of the balls.
    core_sets: Shards[Shard] = field(init=False)
    n_centres: int = field(init=False)  # Number of centres of all shards, or of rows.
    norm: float = np.inf  # Norm of the gradient at the last evaluation of the whole problem.


@dataclass(frozen=True)
class CoreSetSVRG(SVRG[CoreSetState]):
    """SVRG with gradients at anchors from a core-set.

    Parameters
    ----------
    radius : float, default=0.2
        First radius of the balls, see `cover`.
    """

    radius: float = 0.2
    _state = CoreSetState

    def init(self, problem: Shards[Shard], start: Floats, limits: Limits) -> CoreSetState:
        """Return the state at weights of shape (n_outputs, m + 1), the intercept last."""
        state = super().init(problem, start, limits)
        state.radius = self.radius
        self._cover(state)
        return state

    def _cover(self, state: CoreSetState) -> None:
        state.core_sets = state.shards.map(_core_set, state.radius)
        (count,) = state.core_sets.aggregate(_count)
        state.n_centres = int(count[0])

    def facts(self, state: CoreSetState) -> dict[str, Any]:
        """Return also ``anchor_rows``, the rows with which gradients at anchors are computed: all, if it is SVRG."""
        return super().facts(state) | {"anchor_rows": state.n_centres}

    def check(self, state: CoreSetState) -> Objectives | None:
        """Return the objectives, with a core-set every fourth stage, and adapt its radius."""
        if state.n_centres < state.n_rows and state.steps % 4:
            return None
        known = state.objectives
        objectives = super().check(state)
        if known is None and state.n_centres < state.n_rows:
            norm = float(np.linalg.norm(state.gradient))
            if norm > 0.5 * state.norm:
                state.radius /= 2
                self._cover(state)
            state.norm = norm
        return objectives

    def _discard(self, state: CoreSetState, worse: NDArray[np.bool_], kept: Floats) -> Objectives:
        sizes = state.step_sizes
        objectives = super()._discard(state, worse, kept)
        if state.n_centres < state.n_rows:
            state.step_sizes = sizes  # The error of the cover is the cause.
        return objectives

    def gradient(self, state: CoreSetState) -> Floats:
        """Return the gradient of the core-sets at the anchor."""
        if state.n_centres == state.n_rows:
            self.evaluate(state)  # The last stage may not have been checked.
            return state.gradient.copy()
        core = PrimalState(limits=state.limits, shards=state.core_sets, iterate=state.iterate, extent=state.extent)
        self.measured(core)
        state.epochs += state.n_centres / state.n_rows
        return core.gradient
