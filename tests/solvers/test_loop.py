"""The outer loop with a solver that counts down: it must know nothing of what is solved."""

import pickle
import time

import numpy as np
import pytest

from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import Solution
from dimargin.solvers import Interrupted, Limits, solve
from dimargin.solvers.loop import Solver


class Countdown(Solver):
    """Gap 2^-k after k steps; a check is due at every other one."""

    def __init__(self, pause=0.0):
        self.pause = pause

    def init(self, problem, start, limits):
        return {"steps": 0, "start": start, "limits": limits}

    def step(self, state):
        state["steps"] += 1
        time.sleep(self.pause)

    def check(self, state):
        gap = np.array([2.0 ** -state["steps"]])
        return Objectives.of(np.array([1.0]), gap, np.zeros(1)) if state["steps"] % 2 == 0 else None

    def verdict(self, state, objectives):
        return ("converged", "small enough") if objectives.worst_gap <= state["limits"].tol else None

    def finish(self, state, status, reason, history):
        nothing = np.zeros((1, 1))
        objectives = Objectives.of(np.ones(1), np.ones(1), np.zeros(1))
        return Solution(
            nothing,
            nothing,
            objectives=objectives,
            status=status,
            reason=reason,
            passes=state["steps"],
            kernel_evaluations=10 * state["steps"],
            history=history,
        )

    def evaluations(self, state):
        return 10 * state["steps"]


def test_checks_make_the_history():
    solution = solve(None, Countdown(), None, Limits(tol=0.1))
    assert (solution.status, solution.reason, solution.passes) == ("converged", "small enough", 4)
    assert [entry["relative_gap"] for entry in solution.history] == [1.0, 0.25, 0.0625]
    assert [entry["kernel_evaluations"] for entry in solution.history] == [0, 20, 40]
    assert [entry["objective"] for entry in solution.history] == [[1.0]] * 3
    seconds = [entry["seconds"] for entry in solution.history]
    assert 0 <= seconds[0] <= seconds[1] <= seconds[2]


def test_the_deadline_is_seen_between_checks():
    deadline = time.perf_counter() + 0.05
    solution = solve(None, Countdown(pause=0.01), None, Limits(tol=0.0, deadline=deadline))
    assert solution.status == "max_time"
    assert solution.passes <= 5  # steps of 10 ms and more
    assert time.perf_counter() >= deadline


@pytest.mark.parametrize("limit", ["none", "deadline", "interrupt"])
def test_a_start_that_meets_the_tolerance_takes_no_step_whatever_limit_is_reached(limit):
    limits = Limits(tol=1.0, deadline=time.perf_counter() - 1 if limit == "deadline" else None)
    if limit == "interrupt":
        limits.interrupted.set()
    solution = solve(None, Countdown(), None, limits)
    assert (solution.status, solution.passes) == ("converged", 0)


def test_a_callback_is_asked_at_every_check():
    asked = []
    limits = Limits(tol=0.0, stop_requested=lambda entry: asked.append(entry["relative_gap"]) or len(asked) == 3)
    solution = solve(None, Countdown(), None, limits)
    assert solution.status == "stopped"
    assert asked == [1.0, 0.25, 0.0625]


def test_an_interrupt_is_seen_between_checks():
    class Interrupting(Countdown):
        def step(self, state):
            super().step(state)
            if state["steps"] == 3:
                state["limits"].interrupted.set()

    solution = solve(None, Interrupting(), None, Limits(tol=0.0))
    assert (solution.status, solution.reason, solution.passes) == ("stopped", "it was interrupted", 3)
    assert [entry["relative_gap"] for entry in solution.history] == [1.0, 0.25, solution.objectives.worst_gap]
    assert [entry["kernel_evaluations"] for entry in solution.history] == [0, 20, solution.kernel_evaluations]


@pytest.mark.parametrize("tol", [0.0, 1.0])
def test_a_cancelled_solve_is_abandoned(tol):
    limits = Limits(tol=tol)
    limits.cancelled.set()
    with pytest.raises(Interrupted):
        solve(None, Countdown(), None, limits)


def test_limits_travel_with_the_seconds_that_are_left():
    limits = pickle.loads(pickle.dumps(Limits(tol=0.5, max_iter=7, deadline=time.perf_counter() + 100)))
    assert (limits.tol, limits.max_iter) == (0.5, 7)
    assert 90 < limits.deadline - time.perf_counter() <= 100 and not limits.reached
    assert pickle.loads(pickle.dumps(Limits(deadline=time.perf_counter() - 1))).out_of_time
    assert pickle.loads(pickle.dumps(Limits())).deadline is None
