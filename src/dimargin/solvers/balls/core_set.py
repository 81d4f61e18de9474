"""Core-sets with their certificates, and the base of the solvers that find them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, SolveResult, Status
from dimargin.solvers.balls.spaces import Points
from dimargin.solvers.loop import Limits, Solver
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class CoreSet:
    """Points of a core-set, and the smallest ball around them."""

    indices: Indices  # Points of positive weight, ascending.
    weights: Floats  # Weights of these points, with sum one; their weighted mean is the centre.
    squared_radius: float  # Squared radius of the core-set's ball, a lower bound for all points.
    farthest: float  # Squared distance of the farthest of all points from the centre.
    result: SolveResult  # Its objectives are `farthest` (primal) and `squared_radius` (dual).

    @property
    def ratio(self) -> float:
        """Ratio of the distance of the farthest point and the radius, at least one."""
        return ratio(self.farthest, self.squared_radius)


def ratio(farthest: float, squared_radius: float) -> float:
    """Return the ratio of two lengths, given their squares; one if all points coincide."""
    return float((farthest / squared_radius) ** 0.5) if squared_radius > 0 else (np.inf if farthest > 0 else 1.0)


@dataclass
class CoreSetState:
    """State of a search: the best core-set so far (see `CoreSet`), and that of the last pass."""

    points: Points
    limits: Limits
    core: Indices
    weights: Floats
    squared_radius: float
    farthest: float
    softness: float = 0.0  # Part of the squared radius that is due to softness.
    latest: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # Core-set of the last pass.
    unchecked: bool = True  # Whether there has been a pass since the last check.
    exhausted: bool = False  # Whether the solver finds no better core-set.


class CoreSetSolver(Solver[Points, CoreSetState, CoreSet]):
    """Base of solvers for core-sets, with a pass over all points and a certificate per step."""

    epsilon: float  # Tolerance: every point must be within ``1 + epsilon`` times the radius.

    def check(self, state: CoreSetState) -> Objectives | None:
        """Return the objectives: farthest squared distance (primal), squared radius (dual)."""
        if not state.unchecked:
            return None
        state.unchecked = False
        return self._objectives(state)

    def _objectives(self, state: CoreSetState) -> Objectives:
        farthest, nothing = np.array([state.farthest]), np.zeros(1)
        return Objectives.of(farthest, np.maximum(farthest - state.squared_radius, 0.0), nothing)

    def verdict(self, state: CoreSetState, objectives: Objectives) -> tuple[Status, str] | None:
        """Return status and reason if the ball suffices, or the search must end, else None."""
        reached = ratio(state.farthest, state.squared_radius)
        more = state.points.allowance(self.epsilon, state.squared_radius, state.softness)
        if state.farthest <= state.squared_radius + more + 1e-12 * state.farthest:
            return "converged", f"every point is within {reached:.6g} times the radius"
        if state.exhausted:
            return "precision", f"the farthest point stays at {reached:.9g} times the radius: the rest is rounding"
        if state.points.passes >= state.limits.max_iter:
            return "max_iter", f"max_iter={state.limits.max_iter} passes were made"
        return None

    def finish(self, state: CoreSetState, status: Status, reason: str, history: History) -> CoreSet:
        """Return the best core-set."""
        order = np.argsort(state.core)
        result = SolveResult(
            objectives=self._objectives(state),
            status=status,
            reason=reason,
            passes=state.points.passes,
            kernel_evaluations=self.evaluations(state),
            history=history,
        )
        return CoreSet(state.core[order], state.weights[order], state.squared_radius, state.farthest, result)

    def evaluations(self, state: CoreSetState) -> int:
        """Return the number of kernel values computed so far."""
        return state.points.evaluations

    def facts(self, state: CoreSetState) -> dict[str, int]:
        """Return the size of the core-set and the number of passes."""
        return {"core_set": len(state.latest), "passes": state.points.passes}
