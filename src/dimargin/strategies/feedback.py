"""Feedback rounds of a cascade, which add the support vectors to every part and reach the optimum.

Graf et al., NIPS 2004; docs/algorithms.md#cascades. A part is now the dual of the whole problem
with the other rows held at zero, so coefficients are global. A merged part starts from the best of
its children, output by output, so the dual objective never falls. Parts are solved to tol over
their number: every row is in some part, and the primal objective of a part is at most that of the
whole, so the gap of the whole is met when no part can improve.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, SolveResult, Status
from dimargin.shards.parts import Part, whole_of
from dimargin.shards.shards import Shards
from dimargin.shards.tree import Level, climb
from dimargin.solvers import Limits
from dimargin.solvers.loop import ASKED_TO_STOP, INTERRUPTED, converged, entry_of
from dimargin.strategies import levels
from dimargin.strategies.across import solve_across, stay_in_shards, whole_step
from dimargin.strategies.gap import whole_objectives
from dimargin.strategies.passing import best_of, with_support
from dimargin.strategies.solves import Summary, solve_parts, support_of
from dimargin.strategies.strategy import Training
from dimargin.system.arrays import UNIT


def evaluate(training: Training, support: Part, number: int) -> tuple[levels.Step, Part]:
    """Evaluate the whole problem at the support vectors; return the step and its support vectors.

    Status "max_iter" means that the gap is not met.
    Kernel values are float64. A small problem is solved to rounding instead, as by all strategies.
    """
    facts, limits, rows = training.facts, training.limits, training.rows
    if facts.n_rows <= training.solver.small:
        return finish(training, support, limits, number)
    began = time.perf_counter()
    support = replace(support, dual=support.problem.feasible(support.coefficients))
    objectives, evaluations = whole_objectives(rows, support, facts, limits)
    entry = entry_of(objectives, evaluations, began)
    status, reason = _verdict(training, objectives, entry, number)
    result = SolveResult(
        objectives=objectives,
        status=status,
        reason=reason,
        passes=1,
        kernel_evaluations=evaluations,
        history=[entry],
    )
    return whole_step(training, support, result), support


def finish(training: Training, support: Part, limits: Limits, number: int) -> tuple[levels.Step, Part]:
    """Solve the whole problem from the coefficients of the support vectors, within limits.

    Return the step and the new support vectors.
    """
    if stay_in_shards(training):
        return solve_across(replace(training, limits=limits), support)
    rows, limits = training.rows, replace(limits, stop_requested=training.progress.check)
    whole = rows.merge(whole_of, rows.n_shards).map(with_support, support)
    level = solve_parts(training, whole, limits, 0, number, machines=True)
    (support,) = level.parts.collect(support_of)
    return levels.Step(level, partial(levels.model, level, training.facts.total)), support


def _verdict(training: Training, objectives: Objectives, entry: dict[str, Any], number: int) -> tuple[Status, str]:
    gap, tol = entry["relative_gap"], training.limits.tol
    if gap <= tol and tol >= 2 * UNIT:  # Float64 cannot certify a smaller tolerance.
        return converged(gap, tol)
    if objectives.met(tol).all():
        return "precision", f"rounding alone may cause a relative gap of {objectives.rounding.max():.2e}"
    if training.progress.check(entry):
        return ASKED_TO_STOP
    if training.limits.interrupted.is_set():
        return INTERRUPTED
    return "max_iter", f"{number} round{'s' if number > 1 else ''} of the cascade did not meet tol {tol:.2e}"


def again(
    training: Training, leaves: Shards[Part], n_levels: int, support: Part, number: int, history: History
) -> tuple[Part, int]:
    """Run another round; return the support vectors of its last part and the number of kernel values computed."""
    limits = levels.before_a_pass(training, support.n_rows, history)
    limits = replace(limits, tol=training.limits.tol / leaves.n_shards)
    spent = 0

    def solve(level: int, parts: Shards[Part]) -> Level[Summary]:
        return solve_parts(training, parts, limits, level, number)

    fed = leaves.map(with_support, support)
    for level in climb(fed, n_levels, training.shape.branching, solve, best_of):
        spent += sum(part.result.kernel_evaluations for part in level.results)
        if level.level == 0:
            (support,) = level.parts.collect(support_of)
    for handle in (fed, level.parts):
        handle.release()
    return support, spent
