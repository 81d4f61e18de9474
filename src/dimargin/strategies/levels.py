"""What every strategy that climbs a tree does at a level, whatever its parts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dimargin.solution import DualProblem, Floats, Objectives, Solution, Status
from dimargin.solvers import solve
from dimargin.strategies.base import Outcome, Training
from dimargin.tree import Level, Node


def solve_level(training: Training, level: int, nodes: Sequence[Node], tol: float) -> list[Solution]:
    """Solve the local problems of a level side by side, each from its warm start to `tol`."""
    alone, progress = len(nodes) == 1, training.progress
    progress.level_begin(level, None if alone else len(nodes))
    limits = replace(training.limits, tol=tol)
    if alone:
        limits = replace(limits, stop_requested=progress.check)

    def local(task: tuple[int, Node], n_threads: int) -> Solution:
        place, node = task
        problem = training.problem.restrict(node.rows, node.mass, n_threads)
        return solve(problem, training.solver(level, place), node.start, limits)

    return training.engine.map(local, list(enumerate(nodes)), lambda place, solution: progress.task_end(place))


def average(level: Level[Solution], total: float) -> Objectives:
    """Weighted means of the local objectives, each of which estimates the whole one; the gap is the worst local one."""
    share = np.array([node.mass / total for node in level.nodes])
    results = [solution.objectives for solution in level.results]
    return Objectives(
        primal=share @ np.array([r.primal for r in results]),
        dual=share @ np.array([r.dual for r in results]),
        relative_gap=np.max([r.relative_gap for r in results], axis=0),
        intercept=share @ np.array([r.intercept for r in results]),
    )


def model(level: Level[Solution], problem: DualProblem) -> tuple[Floats, Floats]:
    """``f = sum_k (W_k / W) f_k`` as one set of coefficients, and its intercepts."""
    dual = np.zeros(problem.labels.shape)
    for node, solution in level.solved:
        dual[:, node.rows] = (node.mass / problem.total) * solution.dual
    return dual, average(level, problem.total).intercept


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


def time_is_short(training: Training, level: int, history: list[dict[str, Any]]) -> bool:
    """Whether the margins of the next level's warm starts, one pass over its kernels, would outlast the deadline."""
    if training.limits.deadline is None:
        return False
    spent, seconds = (sum(entry[key] for entry in history) for key in ("kernel_evaluations", "seconds"))
    needed: float = training.problem.n_rows**2 / training.shape.branching ** (level - 1)
    return bool(time.perf_counter() + needed * seconds / max(spent, 1) > training.limits.deadline)


def outcome(
    level: Level[Solution], problem: DualProblem, history: list[dict[str, Any]], status: Status, reason: str
) -> Outcome:
    """The model of a level and its certificate."""
    return Outcome(
        dual=model(level, problem)[0],
        objectives=average(level, problem.total),
        scope="global" if level.level == 0 else "partitioned",
        status=status,
        reason=reason,
        passes=sum(entry["passes"] for entry in history),
        history=history,
    )
