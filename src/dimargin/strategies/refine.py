"""Last two steps of divide and conquer: solve the support vectors of the clusters, then the whole problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from dimargin.problems.solution import History
from dimargin.shards.parts import Part, whole_of
from dimargin.shards.shards import Shards
from dimargin.shards.tree import Level
from dimargin.strategies.across import solve_across, stay_in_shards
from dimargin.strategies.levels import Step, before_a_pass, model
from dimargin.strategies.passing import start_of
from dimargin.strategies.solves import Plan, Solved, Summary, solve_part, summarise
from dimargin.strategies.strategy import Training


def last_step(training: Training, rows: Shards[Part], n_support: int, history: History) -> Iterator[Step]:
    """Solve the whole problem from the coefficients of the rows, first for the support vectors if these are few.

    No step is yielded if an interrupt comes before the last solve, whose first pass cannot be
    interrupted. `n_support` is the number of rows with nonzero coefficients; the history is that of
    the levels so far.
    """
    training.progress.level_begin(0, None)
    if stay_in_shards(training):
        step, _ = solve_across(training, whole_of(rows.collect(start_of)))
        yield step
        return
    whole = rows.merge(whole_of, rows.n_shards)
    plan = Plan.of(training, whole, replace(training.limits, stop_requested=training.progress.check), 0)
    first = None
    if 0 < 2 * n_support <= training.facts.n_rows:
        first = replace(plan, limits=before_a_pass(training, n_support, history))
    solved = whole.map(refined_and_solved, (first, plan))
    (summary,) = solved.collect(_summarise, training.facts.total)
    if summary is not None:
        level = Level(0, [summary], solved)
        yield Step(level, partial(model, level, training.facts.total))


def refined_and_solved(part: Part, plans: tuple[Plan | None, Plan]) -> Solved | None:
    """Task that solves a part, first for its support vectors if there is a plan for them; None if interrupted."""
    first, plan = plans
    spent = 0
    if first is not None:
        alone = solve_part(part.take(part.support, part.problem.total), first).solution
        dual = np.zeros_like(part.coefficients)
        dual[:, part.support] = alone.dual
        part, spent = replace(part, dual=dual), alone.kernel_evaluations
    if plan.limits.interrupted.is_set():
        return None
    solution = solve_part(part, plan).solution
    return Solved.of(part, replace(solution, kernel_evaluations=spent + solution.kernel_evaluations))


def _summarise(solved: Solved | None, total: float) -> Summary | None:
    return None if solved is None else summarise(solved, total)
