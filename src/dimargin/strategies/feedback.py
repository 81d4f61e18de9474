"""What leads a cascade to the optimum: look at all rows, and give the support vectors back to every part.

Graf et al., NIPS 2004; handbook, section 3.8. A part is now the dual of the whole problem with the other rows held at
zero, so that coefficients are global. A merged part starts from the best of its children, output by output: the dual
objective never falls. Parts are solved to tol over their number: every row is in some part, and the primal objective
of a part is at most the whole one, so that the gap of the whole is met when no part finds anything more to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dimargin.kernels import Indices
from dimargin.solution import Floats, History, Solution
from dimargin.solvers import solve
from dimargin.strategies.base import Training
from dimargin.strategies.levels import before_a_pass, solve_nodes
from dimargin.tree import Level, Node, climb

_SINGLE_PRECISION_TOL = 1e-4  # below it a gap needs float64 kernel values


def look(training: Training, dual: Floats, number: int) -> Level[Solution]:
    """The whole problem at these coefficients; status "max_iter" means that there is more to do.

    The exact solver looks once, with its care for precision; a small problem it solves to rounding, as everywhere.
    """
    problem, limits, solver = training.problem, training.limits, training.solver(0, number)
    if limits.tol < _SINGLE_PRECISION_TOL:
        problem = problem.with_kernel(problem.kernel.in_float64())
    asked = False

    def once(entry: dict[str, Any]) -> bool:
        nonlocal asked
        asked = training.progress.check(entry)
        return asked or problem.n_rows > solver.small

    solution = solve(problem, solver, dual, replace(limits, stop_requested=once))
    if solution.status == "stopped" and not asked and not limits.interrupted.is_set():
        done = f"{number} round{'s' if number > 1 else ''} of the cascade"
        solution = replace(solution, status="max_iter", reason=f"{done} did not meet tol {limits.tol:.2e}")
    return Level(0, [Node(np.arange(problem.n_rows), problem.total)], [solution])


def again(
    training: Training,
    leaves: Sequence[Indices],
    n_levels: int,
    dual: Floats,
    number: int,
    history: History,
) -> tuple[Level[Solution], int]:
    """The last part of another round, and the kernel evaluations of the round."""
    problem, support = training.problem, np.flatnonzero(dual.any(axis=0))
    limits = replace(before_a_pass(training, len(support), history), tol=training.limits.tol / len(leaves))
    parts = [np.union1d(rows, support) for rows in leaves]
    nodes = [Node(rows, problem.total, dual[:, rows]) for rows in parts]

    def solved(level: int, nodes: Sequence[Node]) -> list[Solution]:
        return solve_nodes(training, nodes, limits, level, number)

    levels = list(climb(nodes, n_levels, training.shape.branching, solved, best_of))
    return levels[-1], sum(solution.kernel_evaluations for level in levels for solution in level.results)


def passed_on(solution: Solution) -> Indices:
    """Rows of a part that the next one takes: those with a nonzero coefficient.

    With an intercept a part of one class has none, and passes on all of its rows.
    """
    kept = np.flatnonzero(solution.dual.any(axis=0))
    return kept if len(kept) else np.arange(solution.dual.shape[1])


def best_of(children: Sequence[tuple[Node, Solution]]) -> Node:
    """Support vectors of parts that share some, with the coefficients of the part of the best dual objective."""
    rows = np.unique(np.concatenate([node.rows[passed_on(solution)] for node, solution in children]))
    best = np.argmax([solution.objectives.dual for _, solution in children], axis=0)
    start = np.zeros((len(best), len(rows)))
    for output, child in enumerate(best):
        node, solution = children[child]
        kept = np.flatnonzero(solution.dual[output])
        start[output, np.searchsorted(rows, node.rows[kept])] = solution.dual[output, kept]
    return Node(rows, children[0][0].mass, start)
