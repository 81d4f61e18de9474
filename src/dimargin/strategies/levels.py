"""What every strategy that climbs a tree does at a level, whatever its parts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dimargin.solution import DualProblem, Floats, Objectives, Solution, Status
from dimargin.solvers import Limits, solve
from dimargin.strategies.base import LevelModel, Outcome, Training, TreeShape
from dimargin.strategies.routing import Router
from dimargin.tree import Level, Node

_LEAF_ROWS = 4096  # rows of a leaf that the default depth aims at


def default_depth(n_rows: int, shape: TreeShape) -> int:
    """``ceil(log_p(n / 4096))``, at least 1, unless the shape says otherwise."""
    if shape.n_levels is not None:
        return shape.n_levels
    return max(1, math.ceil(math.log(max(n_rows / _LEAF_ROWS, 1), shape.branching)), shape.stop_level)


def solve_level(training: Training, level: int, nodes: Sequence[Node], tol: float) -> list[Solution]:
    """Solve the local problems of a level side by side, each from its warm start to `tol`, and report it."""
    alone, progress = len(nodes) == 1, training.progress
    progress.level_begin(level, None if alone else len(nodes))
    limits = replace(training.limits, tol=tol)
    if alone:
        limits = replace(limits, stop_requested=progress.check)
    return solve_nodes(training, nodes, limits, level, done=lambda place, solution: progress.task_end(place))


def solve_nodes(
    training: Training,
    nodes: Sequence[Node],
    limits: Limits,
    *place: int,
    done: Callable[[int, Solution], None] = lambda place, solution: None,
) -> list[Solution]:
    """Solve local problems side by side within `limits`; `place` seeds their solvers."""

    def local(task: tuple[int, Node], n_threads: int) -> Solution:
        number, node = task
        problem = training.problem.restrict(node.rows, node.mass, n_threads)
        return solve(problem, training.solver(*place, number, together=len(nodes)), node.start, limits)

    return training.engine.map(local, list(enumerate(nodes)), done)


def average(level: Level[Solution], total: float) -> Objectives:
    """Objectives weighted by mass, which are means where each part represents the whole, and sums over its pieces.

    The gap is the worst local one.
    """
    share = np.array([node.mass / total for node in level.nodes])
    results = [solution.objectives for solution in level.results]
    return Objectives(
        primal=share @ np.array([r.primal for r in results]),
        dual=share @ np.array([r.dual for r in results]),
        relative_gap=np.max([r.relative_gap for r in results], axis=0),
        intercept=share @ np.array([r.intercept for r in results]),
    )


def model(level: Level[Solution], problem: DualProblem, router: Router | None = None) -> LevelModel:
    """``f = sum_k (W_k / W) f_k`` as one set of coefficients: a mean, or a sum where parts are pieces of mass W.

    Intercepts are averaged, by the weight of the rows; with a router each part keeps its own.
    """
    dual = np.zeros(problem.labels.shape)
    for node, solution in level.solved:
        dual[:, node.rows] = (node.mass / problem.total) * solution.dual
    intercepts = np.array([solution.objectives.intercept for solution in level.results])
    if router is not None:
        return LevelModel(dual, np.zeros(len(dual)), replace(router, intercepts=intercepts))
    share = np.array([problem.weights[node.rows].sum() for node in level.nodes]) / problem.total
    return LevelModel(dual, share @ intercepts)


def history_entry(level: Level[Solution], total: float, seconds: float, evaluations: int) -> dict[str, Any]:
    """Entry of ``history_``; `evaluations` are those beside the solves (strata)."""
    objectives = average(level, total)
    return {
        "level": level.level,
        "partitions": len(level.nodes),
        "seconds": seconds,
        "kernel_evaluations": evaluations + sum(s.kernel_evaluations for s in level.results),
        "objective": objectives.primal.tolist(),
        "relative_gap": objectives.worst_gap,
        "passes": max(s.passes for s in level.results),
    }


def seconds_for(evaluations: float, history: list[dict[str, Any]]) -> float:
    """Seconds that so many kernel evaluations take, at the rate of the levels so far."""
    spent, seconds = (sum(entry[key] for entry in history) for key in ("kernel_evaluations", "seconds"))
    return float(evaluations * seconds / max(spent, 1))


def before_a_pass(training: Training, n_vectors: int, history: list[dict[str, Any]]) -> Limits:
    """The limits, with time left for the margins of all rows from so many support vectors."""
    limits = training.limits
    if limits.deadline is None:
        return limits
    return replace(limits, deadline=limits.deadline - seconds_for(training.problem.n_rows * n_vectors, history))


def refined(training: Training, start: Floats, history: list[dict[str, Any]]) -> tuple[Floats, int]:
    """Coefficients that solve the problem of the support vectors alone, and the kernel evaluations it took."""
    problem, support = training.problem, np.flatnonzero(start.any(axis=0))
    limits = before_a_pass(training, len(support), history)
    part = problem.restrict(support, problem.total)
    solution = solve(part, training.solver(0, 0), start[:, support], limits)
    dual = np.zeros_like(start)
    dual[:, support] = solution.dual
    return dual, solution.kernel_evaluations


def last_level(training: Training, level: Level[Solution], requested: bool) -> tuple[Status, str] | None:
    """Status and reason when the level just solved is the one wanted, or a stop was requested."""
    worst = max(level.results, key=lambda s: s.objectives.worst_gap)
    if level.level == training.shape.stop_level:
        return worst.status, worst.reason
    stopped = [s.reason for s in level.results if s.status == "stopped"]
    if requested or stopped:
        return "stopped", stopped[0] if stopped else "a callback asked to stop"
    return None


def out_of_time(
    training: Training, what: str, needed: float, history: list[dict[str, Any]]
) -> tuple[Status, str] | None:
    """Status and reason when `needed` evaluations, before there is another answer, would outlast the deadline."""
    deadline = training.limits.deadline
    if deadline is None or time.perf_counter() + seconds_for(needed, history) <= deadline:
        return None
    return "max_time", f"the time limit allows {what}"


def outcome(
    level: Level[Solution],
    found: LevelModel,
    problem: DualProblem,
    history: list[dict[str, Any]],
    status: Status,
    reason: str,
) -> Outcome:
    """The model of a level and its certificate."""
    return Outcome(
        model=found,
        objectives=average(level, problem.total),
        scope="global" if level.level == 0 else "partitioned",
        status=status,
        reason=reason,
        passes=sum(entry["passes"] for entry in history),
        history=history,
    )
