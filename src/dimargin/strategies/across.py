"""Solve of the whole problem (level 0) across shards, without moving their rows."""

from __future__ import annotations

from dataclasses import replace

from dimargin.problems.solution import SolveResult
from dimargin.shards.parts import Part, whole_of
from dimargin.shards.tree import Level
from dimargin.solvers import solve
from dimargin.strategies.levels import Step
from dimargin.strategies.passing import start_of
from dimargin.strategies.rounds import Rounds
from dimargin.strategies.solves import Summary
from dimargin.strategies.strategy import ROWS_IN_ONE_PLACE, LevelModel, Training
from dimargin.system.threads import effective_n_threads


def stay_in_shards(training: Training) -> bool:
    """Return whether level 0 is solved without bringing the rows together."""
    return training.rows.are_remote and training.facts.n_rows > ROWS_IN_ONE_PLACE


def given_start(training: Training) -> Part | None:
    """Return the rows of the warm start of a training problem, or None without a warm start."""
    return whole_of(training.rows.collect(start_of)) if training.started else None


def solve_across(training: Training, start: Part | None, working_set: int | None = None) -> tuple[Step, Part]:
    """Solve the whole problem across its shards, from the coefficients of some rows; each check is reported.

    Return the step and the support vectors with their coefficients.
    """
    if working_set is None:
        # More rows for the hinges, because few of them keep a nonzero coefficient. On 50,000 rows
        # of covtype (hinge, 18,600 support vectors) a gap of 1e-2 takes 12 rounds and 0.65 n^2
        # kernel values with 16,384 rows, but 7 and 0.50 with 32,768. On 59,535 rows of cod-rna
        # (ODM, lam=1e3, half of them support vectors) these figures are 10 and 4.2, and 6 and 7.4.
        working_set = 32_768 if training.facts.loss.selection == "greedy" else 16_384
    rows = training.rows
    n_threads = effective_n_threads(None) if rows.are_remote else rows.n_threads * rows.n_together
    solver, seed = training.solver, training.random_state
    rounds = Rounds(training.facts, int(working_set), n_threads, training.cache, seed, solver)
    limits = replace(training.limits, stop_requested=training.progress.check)
    support, result = solve(rows, rounds, start, limits)
    return whole_step(training, support, result), support


def whole_step(training: Training, support: Part, result: SolveResult) -> Step:
    """Return the step of level 0 at given support vectors with their coefficients."""
    total = training.facts.total
    summary = Summary(0, total, total, support.n_rows, result)
    found = LevelModel.of(support, support.coefficients, result.objectives.intercept)
    return Step(Level(0, [summary], training.rows), lambda: found)
