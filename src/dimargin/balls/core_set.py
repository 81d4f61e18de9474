"""Core-sets, as all methods return them, with their certificate, and the base of the methods."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from dimargin.balls.spaces import Points
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, Status
from dimargin.solvers.loop import Limits, Solver
from dimargin.system.arrays import Floats, Indices

_ROUNDING = 1e-12  # of squared distances, relative


@dataclass(frozen=True)
class CoreSet:
    """Few points, and the smallest ball around them.

    Attributes
    ----------
    indices : ndarray of shape (n_core,)
        Points of positive weight, ascending.
    weights : ndarray of shape (n_core,)
        Weights of sum one; the centre is the mean of the points with these weights.
    squared_radius : float
        Squared radius of the smallest ball around the core-set; no ball around all points is smaller.
    farthest : float
        Squared distance of the farthest of all points from the centre.
    status : {"converged", "max_iter", "max_time", "stopped", "precision"}
    reason : str
    passes : int
        Number of passes over all points.
    evaluations : int
        Number of kernel values computed.
    history : list of dict
    """

    indices: Indices
    weights: Floats
    squared_radius: float
    farthest: float
    status: Status
    reason: str
    passes: int
    evaluations: int
    history: History

    @property
    def ratio(self) -> float:
        """Distance of the farthest point over the radius, at least one."""
        return ratio(self.farthest, self.squared_radius)


def ratio(farthest: float, squared_radius: float) -> float:
    """Return the ratio of two lengths, given their squares; one where all points are the same."""
    return float((farthest / squared_radius) ** 0.5) if squared_radius > 0 else (np.inf if farthest > 0 else 1.0)


@dataclass
class CoreSetState:
    """State of a search for a core-set.

    Attributes
    ----------
    core, weights, squared_radius, farthest
        Best core-set so far, as in `CoreSet`.
    softness : float
        Part of the squared radius of the best core-set that is due to softness.
    size : int
        Size of the present core-set.
    unchecked : bool
        Whether there has been a pass since the last check.
    exhausted : bool
        Whether the solver finds no better core-set.
    """

    points: Points
    limits: Limits
    core: Indices
    weights: Floats
    squared_radius: float
    farthest: float
    softness: float = 0.0
    size: int = 0
    unchecked: bool = True
    exhausted: bool = False


class CoreSetSolver(Solver[Points, CoreSetState, CoreSet]):
    """Base of solvers for core-sets, in which a step is a pass over all points, and every pass gives a certificate.

    Attributes
    ----------
    epsilon : float
        Tolerance: every point shall be within ``1 + epsilon`` times the radius.
    """

    epsilon: float

    @abstractmethod
    def step(self, state: CoreSetState) -> None:
        """Find a better core-set, and certify it by a pass."""

    def check(self, state: CoreSetState) -> Objectives | None:
        """Certify the ball: the primal is the farthest point's squared distance, the dual the squared radius."""
        if not state.unchecked:
            return None
        state.unchecked = False
        farthest, nothing = np.array([state.farthest]), np.zeros(1)
        return Objectives.of(farthest, np.maximum(farthest - state.squared_radius, 0.0), nothing)

    def verdict(self, state: CoreSetState, objectives: Objectives) -> tuple[Status, str] | None:
        """Return status and reason if all points are inside the larger ball, or the search must end, else None."""
        reached = ratio(state.farthest, state.squared_radius)
        more = state.points.allowance(self.epsilon, state.squared_radius, state.softness)
        if state.farthest <= state.squared_radius + more + _ROUNDING * state.farthest:
            return "converged", f"every point is within {reached:.6g} times the radius"
        if state.exhausted:
            return "precision", f"the farthest point stays at {reached:.9g} times the radius: the rest is rounding"
        if state.points.passes >= state.limits.max_iter:
            return "max_iter", f"max_iter={state.limits.max_iter} passes were made"
        return None

    def finish(self, state: CoreSetState, status: Status, reason: str, history: History) -> CoreSet:
        """Return the best core-set."""
        order, points = np.argsort(state.core), state.points
        return CoreSet(
            state.core[order], state.weights[order], state.squared_radius, state.farthest, status, reason,
            points.passes, points.evaluations, history,
        )  # fmt: skip

    def evaluations(self, state: CoreSetState) -> int:
        """Return the number of kernel values computed so far."""
        return state.points.evaluations

    def facts(self, state: CoreSetState) -> dict[str, int]:
        """Return the size of the core-set and the number of passes."""
        return {"core_set": state.size, "passes": state.points.passes}
