"""The outer loop, written once: limits, interruption, progress and history for every solver."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Generic, TypeVar

from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, Status

Problem = TypeVar("Problem")
State = TypeVar("State")
Result = TypeVar("Result")


class Interrupted(Exception):
    """Raised inside a worker when the whole fit has been cancelled."""


@dataclass(frozen=True)
class Limits:
    """When to stop.

    Parameters
    ----------
    tol : float
        Relative duality gap wanted of every output.
    max_iter : int
        Passes over the rows.
    deadline : float or None
        `time.perf_counter` value after which the best model so far is returned.
    cancelled : threading.Event
        Set from outside to abandon the solve (Ctrl-C while workers run).
    interrupted : threading.Event
        Set from outside to end the solve with the best model so far.
    stop_requested : callable
        Asked at every check with the history entry; a true answer ends the solve with the model so far.
    """

    tol: float = 1e-3
    max_iter: int = 1000
    deadline: float | None = None
    cancelled: Event = field(default_factory=Event)
    interrupted: Event = field(default_factory=Event)
    stop_requested: Callable[[dict[str, Any]], bool] = lambda entry: False

    def __getstate__(self) -> dict[str, Any]:
        """What another process can go by: tolerance, passes and the seconds that are left."""
        left = None if self.deadline is None else self.deadline - time.perf_counter()
        return {"tol": self.tol, "max_iter": self.max_iter, "left": left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        left = state["left"]
        deadline = None if left is None else time.perf_counter() + left
        self.__dict__.update(vars(Limits(state["tol"], state["max_iter"], deadline)))

    @property
    def reached(self) -> bool:
        """Whether a long pass over the rows shall be given up."""
        return self.out_of_time or self.interrupted.is_set() or self.cancelled.is_set()

    @property
    def out_of_time(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.perf_counter() >= self.deadline


class Solver(ABC, Generic[Problem, State, Result]):
    """A solver is four pure questions; it keeps nothing between solves."""

    @abstractmethod
    def init(self, problem: Problem, start: Any, limits: Limits) -> State:
        """State before the first step, from zero or from a given start."""

    @abstractmethod
    def step(self, state: State) -> None:
        """Go on until the next check of the gap is due, or a limit of time needs looking at."""

    @abstractmethod
    def check(self, state: State) -> Objectives | None:
        """Objectives of the present iterate, or None when no check is due yet."""

    @abstractmethod
    def verdict(self, state: State, objectives: Objectives) -> tuple[Status, str] | None:
        """Status and reason when the solve is over."""

    @abstractmethod
    def finish(self, state: State, status: Status, reason: str, history: History) -> Result:
        """The result value."""

    @abstractmethod
    def evaluations(self, state: State) -> int:
        """Kernel values computed so far."""

    def facts(self, state: State) -> dict[str, Any]:
        """What else belongs into an entry of the history."""
        return {}


def solve(problem: Problem, solver: Solver[Problem, State, Result], start: Any, limits: Limits) -> Result:
    """Run a solver on a problem.

    Parameters
    ----------
    problem : DualProblem, or what the solver takes
    solver : Solver
    start : ndarray or None
        Warm start, as the solver takes it.
    limits : Limits

    Returns
    -------
    Solution, or what the solver gives

    Raises
    ------
    Interrupted
        When ``limits.cancelled`` was set.
    """
    began = time.perf_counter()
    history: History = []
    state = solver.init(problem, start, limits)
    while True:
        objectives = solver.check(state)
        verdict: tuple[Status, str] | None = None
        if objectives is not None:
            entry = {
                "kernel_evaluations": solver.evaluations(state),
                "seconds": time.perf_counter() - began,
                "objective": objectives.primal.tolist(),
                "relative_gap": objectives.worst_gap,
                **solver.facts(state),
            }
            history.append(entry)
            verdict = solver.verdict(state, objectives)
            if verdict is None and limits.stop_requested(entry):
                verdict = "stopped", "a callback asked to stop"
        if limits.cancelled.is_set():
            raise Interrupted
        if verdict is None and limits.interrupted.is_set():
            verdict = "stopped", "it was interrupted"
        if verdict is None and limits.out_of_time:
            verdict = "max_time", "the time limit was reached"
        if verdict is not None:
            return solver.finish(state, *verdict, history)
        solver.step(state)
