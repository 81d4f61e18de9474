"""Core-sets of a fixed size, of which one point is exchanged for a better one until none is.

The routine of Badoiu and Clarkson, "Optimal core-sets for balls", Computational Geometry 2008 (core-set paper, section
III), for k points C:

    a = the point farthest from the centre of C's ball,   C_a = C + a,   b = the point without which C_a's is largest
    C <- C_a - b  if r(C_a - b) > r(C), else end

Where this ends with ``k = ceil(1/epsilon)`` points, all are within ``1 + epsilon`` times the radius of the ball around
*all* points, and within ``1 / (1 - epsilon)`` times r(C) (the core-set paper's remark IV.6 prints ``1 - epsilon``): k
corners of a large regular simplex have the others at ``sqrt((k + 1) / (k - 1))`` times their radius. To be within
``1 + epsilon`` of r(C) itself, which can be certified, takes one point more then, which is added.

Dropping a point without weight changes no ball, so that only where all k + 1 have one must k + 1 balls be computed. The
paper's ``>`` is for numbers without rounding: here a radius must grow by more than that, or it might go on for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import Status
from dimargin.solvers.balls.active_set import Weights
from dimargin.solvers.balls.core_set import CoreSetSolver, CoreSetState, ratio
from dimargin.solvers.balls.spaces import Points
from dimargin.solvers.loop import Limits
from dimargin.system.arrays import Indices

_GROWTH = 1e-10  # of a squared radius, relative, that is not rounding

Enclose = Callable[[Indices], Weights]


def exchanged(
    core: Indices, ball: Weights, farthest: int, size: int, enclose: Enclose
) -> tuple[Indices, Weights] | None:
    """Take one step of the routine: return the next core-set and its ball, or None if there is no better one.

    `core` is C, to which the step only adds a point if it has fewer than `size`, which is k. The indices of `ball` are
    positions in `core`. `farthest` is a, and `enclose` gives the exact ball around points.
    """
    least = ball.value * (1 + _GROWTH)
    wider = np.append(core, farthest)
    whole = enclose(wider)
    if whole.value <= least:
        return None
    if len(wider) <= size:
        return wider, whole
    idle = np.setdiff1d(np.arange(len(wider)), whole.indices)
    if len(idle):
        return np.delete(wider, idle[0]), whole.without(int(idle[0]))
    balls = [enclose(np.delete(wider, k)) for k in range(len(core))]
    best = int(np.argmax([one.value for one in balls]))
    return None if balls[best].value <= least else (np.delete(wider, best), balls[best])


@dataclass(kw_only=True)
class _State(CoreSetState):
    ball: Weights  # of the points of `latest`, some of which may have no weight
    size_allowed: int
    outside: int = -1  # the farthest point


@dataclass(frozen=True)
class FixedSizeCoreSet(CoreSetSolver):
    """Find a core-set of a fixed size, with a pass for every exchange.

    Exchanges go on beyond the tolerance, to the last that helps; where that does not reach it, with one point more.
    """

    size: int  # number of points, k
    epsilon: float
    random_state: int = 0  # seed of the first centre in a kernel's space

    def init(self, problem: Points, start: Indices | None, limits: Limits) -> _State:
        """Return the state at the farthest point from a first centre, or at the points to begin with."""
        if start is None:
            start = np.array([problem.first_distances(np.random.default_rng(self.random_state)).argmax()])
        ball = _ball(problem, start)
        state = _State(problem, limits, start, np.ones(1), 0.0, np.inf, latest=start, ball=ball, size_allowed=self.size)
        self._examine(state)
        return state

    @staticmethod
    def _examine(state: _State) -> None:
        """Make a pass with the latest ball."""
        ball, points = state.ball, state.points
        state.core, state.weights = state.latest[ball.indices], ball.weights
        state.squared_radius = max(ball.value, 0.0)
        distances = points.distances(state.core, ball.weights)
        distances[state.latest] = np.minimum(distances[state.latest], ball.value)  # rounding
        state.outside = int(distances.argmax())
        state.farthest = max(float(distances[state.outside]), ball.value)
        state.unchecked = True

    def step(self, state: CoreSetState) -> None:
        """Make an exchange and a pass."""
        assert isinstance(state, _State)
        found = exchanged(
            state.latest, state.ball, state.outside, state.size_allowed, lambda some: _ball(state.points, some)
        )
        if found is None:
            reached = ratio(state.farthest, state.squared_radius) <= 1 + self.epsilon
            state.exhausted = state.unchecked = reached or state.size_allowed > self.size
            state.size_allowed = self.size + 1
        else:
            state.latest, state.ball = found
            self._examine(state)

    def verdict(self, state: CoreSetState, objectives: Objectives) -> tuple[Status, str] | None:
        """Return status and reason as in `CoreSetSolver`, but convergence only after the last exchange that helps."""
        found = super().verdict(state, objectives)
        enclosed = state.farthest <= state.squared_radius * (1 + _GROWTH)
        return None if found and found[0] == "converged" and not (state.exhausted or enclosed) else found


def _ball(points: Points, indices: Indices) -> Weights:
    return points.enclose(indices, np.arange(len(indices)), 0.0)
