"""Core-sets of a fixed size, improved by exchanging one point at a time.

The routine of Badoiu and Clarkson, "Optimal core-sets for balls", Computational Geometry 2008
(core-set paper, section IV-A), for k points C:

    a = the point farthest from the centre of C's ball,  C_a = C + a
    b = the point without which the ball of C_a is largest
    C <- C_a - b  if r(C_a - b) > r(C), else end

At the end, with ``k = ceil(1/epsilon)`` points, all points are within ``1 + epsilon`` times the
radius of the ball around *all* points, and within ``1 / (1 - epsilon)`` times r(C) (the core-set
paper's remark IV.6 prints ``1 - epsilon``): from k corners of a large regular simplex the others
are at ``sqrt((k + 1) / (k - 1))`` times their radius. If points are not within ``1 + epsilon``
times r(C) itself, which can be certified, one more point is added.

To drop a point of weight zero changes no ball, so that k + 1 balls are computed only if all k + 1
points have a weight. The paper's ``>`` assumes exact numbers: here a radius must grow by more than
rounding, or the exchanges might never end.
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

_MIN_GROWTH = 1e-10  # A smaller relative growth of a squared radius may be rounding.

Enclose = Callable[[Indices], Weights]


def exchanged(
    core: Indices, ball: Weights, farthest: int, size: int, enclose: Enclose
) -> tuple[Indices, Weights] | None:
    """Return the core-set after one step of the routine, and its ball, or None if none is better.

    `core` is C, and `size` is k; a smaller core-set grows by a point. The indices of `ball` are
    positions in `core`. `farthest` is a, and `enclose` returns the exact ball around points.
    """
    threshold = ball.value * (1 + _MIN_GROWTH)
    wider = np.append(core, farthest)
    whole = enclose(wider)
    if whole.value <= threshold:
        return None
    if len(wider) <= size:
        return wider, whole
    idle = np.setdiff1d(np.arange(len(wider)), whole.indices)
    if len(idle):
        return np.delete(wider, idle[0]), whole.without(int(idle[0]))
    balls = [enclose(np.delete(wider, k)) for k in range(len(core))]
    best = int(np.argmax([one.value for one in balls]))
    return None if balls[best].value <= threshold else (np.delete(wider, best), balls[best])


@dataclass(kw_only=True)
class _State(CoreSetState):
    ball: Weights  # Ball around the points of `latest`, some of which may have no weight.
    max_size: int
    outside: int = -1  # The farthest point.


@dataclass(frozen=True)
class FixedSizeCoreSet(CoreSetSolver):
    """Solver for core-sets of a fixed size, with a pass for every exchange.

    Exchanges continue beyond the tolerance while they help. If they do not reach it, one point is
    added.
    """

    size: int  # Number of points, k.
    epsilon: float
    random_state: int = 0  # Seed of the first centre in a kernel's space.

    def init(self, problem: Points, start: Indices | None, limits: Limits) -> _State:
        """Return the state at the farthest point from a first centre, or at given points."""
        if start is None:
            start = np.array([problem.first_distances(np.random.default_rng(self.random_state)).argmax()])
        ball = _ball(problem, start)
        state = _State(problem, limits, start, np.ones(1), 0.0, np.inf, latest=start, ball=ball, max_size=self.size)
        self._examine(state)
        return state

    @staticmethod
    def _examine(state: _State) -> None:
        """Make a pass with the latest ball."""
        ball, points = state.ball, state.points
        state.core, state.weights = state.latest[ball.indices], ball.weights
        state.squared_radius = max(ball.value, 0.0)
        distances = points.distances(state.core, ball.weights)
        # Points of the core-set are outside the ball only by rounding.
        distances[state.latest] = np.minimum(distances[state.latest], ball.value)
        state.outside = int(distances.argmax())
        state.farthest = max(float(distances[state.outside]), ball.value)
        state.unchecked = True

    def step(self, state: CoreSetState) -> None:
        """Make an exchange and a pass."""
        assert isinstance(state, _State)
        found = exchanged(
            state.latest, state.ball, state.outside, state.max_size, lambda some: _ball(state.points, some)
        )
        if found is None:
            reached = ratio(state.farthest, state.squared_radius) <= 1 + self.epsilon
            state.exhausted = state.unchecked = reached or state.max_size > self.size
            state.max_size = self.size + 1
        else:
            state.latest, state.ball = found
            self._examine(state)

    def verdict(self, state: CoreSetState, objectives: Objectives) -> tuple[Status, str] | None:
        """See `CoreSetSolver`; the search converges only after the last exchange that helps."""
        found = super().verdict(state, objectives)
        enclosed = state.farthest <= state.squared_radius * (1 + _MIN_GROWTH)
        return None if found and found[0] == "converged" and not (state.exhausted or enclosed) else found


def _ball(points: Points, indices: Indices) -> Weights:
    return points.enclose(indices, np.arange(len(indices)), 0.0)
