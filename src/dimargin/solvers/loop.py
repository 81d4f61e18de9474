"""Outer loop of all solvers, with limits, interruption and history."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any, Generic, TypeVar

from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, SolveResult, Status

Verdict = tuple[Status, str] | None  # Status and reason of a solve that is over.
ASKED_TO_STOP: tuple[Status, str] = "stopped", "a callback asked to stop"
INTERRUPTED: tuple[Status, str] = "stopped", "it was interrupted"
OUT_OF_TIME: tuple[Status, str] = "max_time", "the time limit was reached"

Problem = TypeVar("Problem")
State = TypeVar("State")
Result = TypeVar("Result")


class Interrupted(Exception):
    """Raised in a worker when the whole fit is cancelled."""


@dataclass(frozen=True)
class Limits:
    """Limits that end a solve; all but `cancelled` leave the best model so far."""

    tol: float = 1e-3  # Relative duality gap that every output must reach.
    max_iter: int = 1000  # Largest number of passes over the rows.
    deadline: float | None = None  # Value of `time.perf_counter` at which the solve ends.
    cancelled: Event = field(default_factory=Event)  # Set from outside to abandon the solve.
    interrupted: Event = field(default_factory=Event)  # Set from outside to end the solve.
    # Called at every check with the history entry; the solve ends if it returns true.
    stop_requested: Callable[[dict[str, Any]], bool] = lambda entry: False

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process: tolerance, passes and seconds left."""
        left = None if self.deadline is None else self.deadline - time.perf_counter()
        return {"tol": self.tol, "max_iter": self.max_iter, "left": left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        left = state["left"]
        deadline = None if left is None else time.perf_counter() + left
        self.__dict__.update(vars(Limits(state["tol"], state["max_iter"], deadline)))

    def earlier(self, seconds: float) -> Limits:
        """Return limits with a deadline that is earlier by some seconds."""
        return self if self.deadline is None else replace(self, deadline=self.deadline - seconds)

    def allow(self, seconds: float) -> bool:
        """Return whether at least this many seconds are left."""
        return self.deadline is None or time.perf_counter() + seconds <= self.deadline

    @property
    def reached(self) -> bool:
        """Return whether to give up a long pass over the rows."""
        return self.out_of_time or self.interrupted.is_set() or self.cancelled.is_set()

    @property
    def out_of_time(self) -> bool:
        """Return whether the deadline has passed."""
        return self.deadline is not None and time.perf_counter() >= self.deadline


class Solver(ABC, Generic[Problem, State, Result]):
    """Base of solvers, which are immutable: all that changes during a solve is in its state."""

    @abstractmethod
    def init(self, problem: Problem, start: Any, limits: Limits) -> State:
        """Return the state before the first step, from zero or from a given start."""

    @abstractmethod
    def step(self, state: State) -> None:
        """Continue until the gap or the limits have to be checked."""

    @abstractmethod
    def check(self, state: State) -> Objectives | None:
        """Return the objectives of the current iterate, or None if no check is due."""

    @abstractmethod
    def verdict(self, state: State, objectives: Objectives) -> Verdict:
        """Return status and reason if the solve is over, else None."""

    @abstractmethod
    def finish(self, state: State, status: Status, reason: str, history: History) -> Result:
        """Return the result of the solve."""

    @abstractmethod
    def evaluations(self, state: State) -> int:
        """Return the number of kernel values computed so far."""

    def facts(self, state: State) -> dict[str, Any]:
        """Return further values for an entry of the history."""
        return {}


def entry_of(objectives: Objectives, evaluations: int, began: float) -> dict[str, Any]:
    """Return the history entry of a check of the gap, for work that began at a given time."""
    return {
        "kernel_evaluations": evaluations,
        "seconds": time.perf_counter() - began,
        "objective": objectives.primal.tolist(),
        "relative_gap": objectives.worst_gap,
    }


def converged(gap: float, tol: float) -> tuple[Status, str]:
    """Return the status and reason of a solve whose relative gap is small enough."""
    return "converged", f"relative gap {gap:.2e} <= tol {tol:.2e}"


def solve(problem: Problem, solver: Solver[Problem, State, Result], start: Any, limits: Limits) -> Result:
    """Run a solver on a problem, from a warm start in the format of the solver, or None.

    Raises
    ------
    Interrupted
        If ``limits.cancelled`` is set.
    """
    began = time.perf_counter()
    history: History = []
    state = solver.init(problem, start, limits)
    while True:
        objectives = solver.check(state)
        verdict: Verdict = None
        if objectives is not None:
            entry = entry_of(objectives, solver.evaluations(state), began) | solver.facts(state)
            history.append(entry)
            verdict = solver.verdict(state, objectives)
            if verdict is None and limits.stop_requested(entry):
                verdict = ASKED_TO_STOP
        if limits.cancelled.is_set():
            raise Interrupted
        if verdict is None and limits.interrupted.is_set():
            verdict = INTERRUPTED
        if verdict is None and limits.out_of_time:
            verdict = OUT_OF_TIME
        if verdict is not None:
            result = solver.finish(state, *verdict, history)
            if objectives is None and isinstance(result, SolveResult):  # Work since the last check is in the result.
                history.append(entry_of(result.objectives, result.kernel_evaluations, began) | solver.facts(state))
            return result
        solver.step(state)
