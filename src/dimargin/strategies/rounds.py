"""Exact solve across shards: rows stay in their shards, and rounds update their margins and coefficients.

    1  every shard answers with the sums of its objectives and the most violating rows
    2  the caller solves the problem of the most violating of these, with all other coefficients fixed
       (`InnerProblem`), to a fraction of the gap of all rows
    3  changed coefficients are sent, with their rows, to every shard, which updates its margins; repeat

A round is one job. Margins and coefficients are the state of a shard; its rows do not change. This
is block coordinate descent with very large blocks: with as many rows as there are support vectors
it needs about ten rounds, with few rows it does not finish, so blocks double if four rounds do not
halve the gap. No process holds all rows: shards have their own, the caller those of a round and the
support vectors, which are those of the model. Gaps are those of the whole problem. Their error by
float32 kernel values is sum_with_bounds for every row or, for kernels whose rows all have the same
size, measured on a sample (`dimargin.solvers.single_precision`). If it is too large, the solve
continues in float64 with recomputed margins.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dimargin.problems.inner import InnerProblem
from dimargin.problems.objectives import Objectives, ObjectiveSums
from dimargin.problems.solution import History, SolveResult, Status
from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards
from dimargin.solvers import DualSolver, ExactSolver, Limits, solve
from dimargin.solvers.loop import Solver, Verdict, converged
from dimargin.solvers.progress import Progress, rounding_verdict
from dimargin.solvers.single_precision import (
    FLOAT64_COST,
    SAMPLE,
    SINGLE_PRECISION_TOL,
    is_trusted,
    is_uneven,
    largest_part,
    rounding_of,
)
from dimargin.strategies.gap import evaluate_from
from dimargin.strategies.round_iterate import Evaluated, ShardedIterate, supporting
from dimargin.strategies.round_tasks import (
    Question,
    SampledErrors,
    ShardState,
    draw_sample,
    get_answer,
    itself,
    most_violating,
    sum_beyond_first_order,
    sum_with_bounds,
)
from dimargin.strategies.strategy import Facts
from dimargin.system.arrays import TINY, UNIT, Floats


@dataclass(frozen=True)
class Best:
    """Coefficients with the smallest gap so far."""

    support: Part | None
    objectives: Objectives
    states: Shards[ShardState]
    is_counted: bool = False  # Whether the objectives include errors by float32.


@dataclass
class State:
    """State of a solve across shards."""

    limits: Limits
    iterate: ShardedIterate
    intercepts: Floats  # Candidates, of shape (n_tries, n_outputs).
    size: int  # Number of rows of a round.
    evaluated: Evaluated | None = None  # Answers about the iterate, None before a check.
    best: Best | None = None
    is_accurate: bool = False  # Whether errors of the best coefficients by float32 were small enough.
    refresh: bool = False  # Whether to recompute margins, in float64.
    nothing_moves: bool = False  # Whether no row violates its optimality condition.
    rounds: int = 0
    evaluations: int = 0
    gaps: list[float] = field(default_factory=list)  # Smallest gaps after every round with the current block size.
    progress: Progress = field(default_factory=Progress)  # Last round that made progress, and its gap.

    @property
    def double(self) -> bool:
        """Return whether kernel values are in float64."""
        return self.iterate.is_double

    @property
    def seconds_of_round(self) -> float:
        """Mean seconds of a round."""
        return self.iterate.times.seconds_in_rounds / max(1, self.rounds)


@dataclass(frozen=True)
class Rounds(Solver[Shards[Part], State, tuple[Part, SolveResult]]):
    """Exact solver across shards, from a given start; coefficients of the shards' rows are ignored.

    Parameters
    ----------
    about : Facts
        Facts about all rows.
    working_set : int
        Initial number of rows of a round.
    n_threads : int
        Number of threads of the caller.
    cache : int
        Bytes of the caller for cached kernel rows.
    random_state : int
    solver : type[DualSolver], default=ExactSolver
        Solver of the rows of a round.
    """

    about: Facts
    working_set: int
    n_threads: int
    cache: int
    random_state: int
    solver: type[DualSolver[Any]] = ExactSolver

    def init(self, problem: Shards[Part], start: Part | None, limits: Limits) -> State:
        """Return the state at a start, given by its support vectors; computing its margins takes a job."""
        iterate = ShardedIterate.at_zero(self.about, limits, problem)
        if start is not None and start.n_rows:
            iterate.support = supporting(replace(start, dual=start.problem.feasible(start.coefficients)))
        intercepts = np.zeros((1, self.about.n_outputs))
        state = State(limits, iterate, intercepts, min(self.working_set, self.about.n_rows))
        iterate.recompute_margins(self._question(state))
        return state

    def evaluations(self, state: State) -> int:
        """Return the number of kernel values computed so far by shards and caller."""
        return state.evaluations

    def check(self, state: State) -> Objectives | None:
        """Return the objectives of the best coefficients so far, after one job on the shards."""
        iterate, began = state.iterate, time.perf_counter()
        answers = iterate.states.collect(get_answer)
        state.evaluated = Evaluated.from_answers(answers)
        state.evaluations += state.evaluated.evaluations
        iterate.times.add(time.perf_counter() - began, is_round=state.rounds > 0)
        objectives = state.evaluated.objectives
        if state.best is None or objectives.unrounded.max() < state.best.objectives.unrounded.max():
            state.best = Best(iterate.support, objectives, iterate.states)
        iterate.release_earlier(state.best.states)
        self._note_progress(state, state.best.objectives.unrounded.max())
        if state.best.objectives.worst_gap <= state.limits.tol and not state.double:
            self._count_rounding(state)
        return state.best.objectives

    def verdict(self, state: State, objectives: Objectives) -> Verdict:
        """Return status and reason if the tolerance is met or cannot be met, or a limit is reached, else None."""
        assert state.best is not None
        limits, tol = state.limits, state.limits.tol
        met = bool(objectives.met(tol).all()) and tol >= 2 * UNIT
        if met and objectives.worst_gap <= tol and (state.double or state.is_accurate):
            return converged(objectives.worst_gap, tol)
        if state.rounds >= limits.max_iter:
            return "max_iter", f"max_iter={limits.max_iter} rounds were done"
        if not limits.allow(1.5 * state.seconds_of_round):
            return "max_time", "the time limit allows no further round"
        stalled = state.nothing_moves or state.progress.has_stalled(state.rounds, 12 if state.double else 6)
        if not state.double:
            near = tol < SINGLE_PRECISION_TOL and objectives.worst_gap <= SINGLE_PRECISION_TOL
            # With an error above 0.4 tol by float32, further rounds would not help.
            inaccurate = state.best.is_counted and not state.is_accurate and objectives.rounding.max() > 0.4 * tol
            state.refresh = bool(near or inaccurate or stalled)
            if state.refresh and not limits.allow(self._seconds_in_float64(state)):
                return "max_time", "the time limit does not allow computing all margins in float64"
        elif met and state.evaluated is not None and state.iterate.updates_are_large(state.evaluated.reach):
            state.refresh = True
        elif met or stalled:
            return rounding_verdict(objectives, tol, has_stalled=not met)
        return None

    def step(self, state: State) -> None:
        """Do a round: solve for its rows and update all shards; or switch to float64."""
        if state.refresh:
            state.refresh = False
            self._switch_to_float64(state)
            return
        rows, margins = self._rows_of_round(state)
        state.nothing_moves = rows is None
        if rows is None:
            return
        solution = self._solve_round(state, rows, margins)
        state.rounds += 1
        moved = np.flatnonzero((solution != rows.coefficients).any(axis=0))
        if len(moved):
            total = self.about.total
            before, after = rows.take(moved, total), replace(rows, dual=solution).take(moved, total)
            state.iterate.change(after, before.coefficients, self._question(state))
        else:  # The intercepts may have changed.
            state.iterate.query(self._question(state))

    def finish(self, state: State, status: Status, reason: str, history: History) -> tuple[Part, SolveResult]:
        """Return the support vectors with the smallest gap, and the result."""
        assert state.best is not None and state.evaluated is not None
        if not state.double and not state.best.is_counted:
            self._count_rounding(state)
        support, objectives = state.best.support, state.best.objectives
        state.iterate.release()
        if support is None:
            support = state.evaluated.answers[0].proposed.take(np.empty(0, dtype=np.int64), self.about.total)
        result = SolveResult(
            objectives=objectives,
            status=status,
            reason=reason,
            passes=max(1, state.rounds),
            kernel_evaluations=state.evaluations,
            history=history,
        )
        return support, result

    # ---- parts of a round ----------------------------------------------------------------------------------------

    def _note_progress(self, state: State, gap: float) -> None:
        state.gaps.append(gap)
        state.progress.note(state.rounds, gap, gap_factor=0.95)
        if len(state.gaps) > 4 and gap > 0.5 * state.gaps[-5]:
            state.size, state.gaps = min(2 * state.size, self.about.n_rows), [gap]

    def _rows_of_round(self, state: State) -> tuple[Part | None, Floats]:
        """Return the rows of the next round and their margins, or None if no row violates its conditions."""
        assert state.evaluated is not None
        answers = [answer for answer in state.evaluated.answers if answer.proposed.n_rows]
        state.evaluated = replace(state.evaluated, answers=[])  # This frees the memory of the proposed rows.
        if not answers:
            return None, np.empty((self.about.n_outputs, 0))
        directions = np.concatenate([answer.directions for answer in answers])
        chosen, first, parts, margins = most_violating(directions, state.size), 0, [], []
        for answer in answers:
            end = first + answer.proposed.n_rows
            own = chosen[(chosen >= first) & (chosen < end)] - first
            first = end
            if len(own):
                parts.append(answer.proposed.take(own, self.about.total))
                margins.append(answer.margins[:, own])
        return Part.joined(parts, self.about.total), np.concatenate(margins, axis=1)

    def _solve_round(self, state: State, rows: Part, margins: Floats) -> Floats:
        """Return the coefficients of the rows of a round, solved to a fraction of the gap of all rows."""
        assert state.evaluated is not None
        objectives, limits = state.evaluated.objectives, state.limits
        problem, dual = rows.with_threads(self.n_threads).problem, rows.coefficients
        inner = InnerProblem.within(problem, dual, margins, state.evaluated.sums, objectives.reached)
        seed = np.random.SeedSequence([self.random_state, 0, state.rounds]).generate_state(1)[0]
        tol = max(0.15 * float(objectives.unrounded.max()), 0.3 * limits.tol)
        own = replace(limits.earlier(1.5 * state.seconds_of_round), tol=tol, stop_requested=lambda entry: False)
        solution = solve(inner, self.solver(self.cache, int(seed), 0, False), dual, own)
        state.evaluations += solution.kernel_evaluations
        if self.about.intercept:
            now, last = solution.objectives.intercept, objectives.intercept
            # The candidates are on either side, at up to twice the last change of the intercept.
            width = np.maximum(2 * np.abs(now - last), 1e-9) * 2.0 ** -np.arange(7)[:, None]
            state.intercepts = np.concatenate([now[None], now + width, now - width, last[None]])
        return solution.dual

    def _question(self, state: State) -> Question:
        return Question(state.intercepts, state.size / self.about.n_rows)

    def _switch_to_float64(self, state: State) -> None:
        """Continue from the best coefficients, with margins recomputed on float64 kernel values."""
        assert state.best is not None
        support, state.best = state.best.support, None
        state.gaps, state.progress = [], Progress(state.rounds)
        state.iterate.switch_to_float64(support, self._question(state))

    def _seconds_in_float64(self, state: State) -> float:
        """Estimate the seconds needed to recompute margins on float64 kernel values."""
        values = self.about.n_rows * state.iterate.n_support
        return FLOAT64_COST * state.iterate.times.stopwatch.seconds_for(values) + state.seconds_of_round

    # ---- rounding ------------------------------------------------------------------------------------------------

    def _count_rounding(self, state: State) -> None:
        """Add the error by float32 to the gap of the best objectives.

        It is measured on a sample of rows or, if a sample is not representative, bounded by sizes
        of rows (`dimargin.solvers.single_precision`).
        """
        best, tol = state.best, state.limits.tol
        assert best is not None
        if best.is_counted:
            return
        support = state.iterate.support
        is_stationary = support is None or support.problem.kernel.transform.kernel.stationary
        errors = self._sampled_errors(state, best) if is_stationary else None
        if errors is None:
            shards = state.iterate.prepared.zip(best.states, sum_with_bounds, best.objectives.intercept)
            sums, reach = shards.aggregate(itself)
            rounded = ObjectiveSums(*sums).objectives(best.objectives.intercept, reach)
            state.is_accurate = is_trusted(rounded.raised(), tol, is_bound=True)
            rounded = rounded.raised() if state.is_accurate else rounded
        else:
            rounded = best.objectives.rounded(errors)
            # A float64 pass takes as long as several rounds.
            state.is_accurate = is_trusted(rounded, tol, is_bound=False, float64_is_costly=True)
        state.best = replace(best, objectives=rounded, is_counted=True)

    def _sampled_errors(self, state: State, best: Best) -> Floats | None:
        """Estimate the errors of the objectives by float32, of shape (n_outputs,), in two jobs.

        Return None if the errors of the sample are too uneven.
        """
        support, intercepts = best.support, best.objectives.intercept
        if support is None:
            return np.zeros(len(intercepts))
        share, seed = SAMPLE / self.about.n_rows, self.random_state
        exact = replace(support, problem=support.problem.with_kernel(support.problem.kernel.in_float64()))
        found: list[tuple[SampledErrors, Floats]] = []
        samples = state.iterate.prepared.zip(best.states, draw_sample, (best.objectives, share, seed)).collect()
        for shard in (sample for sample in samples if sample is not None):
            evaluated = evaluate_from(shard.part, (exact, self.n_threads, state.limits))
            state.evaluations += evaluated.evaluations
            found.append((shard, evaluated.margins - shard.margins))
        parts = np.concatenate([np.abs(errors) / (shard.bounds + TINY) for shard, errors in found], axis=1)
        if is_uneven(parts):
            return None
        largest = largest_part(parts)
        slopes = []
        for shard, errors in found:
            own, size = shard.part, largest * shard.bounds + TINY
            slopes.append(shard.sample.slopes(own.problem, own.coefficients, shard.margins, intercepts, errors, size))
        estimates, variances = (np.sum(values, axis=0) for values in zip(*slopes, strict=True))
        left = exact.problem.kernel.rounding(exact.n_rows)
        shards = state.iterate.prepared.zip(best.states, sum_beyond_first_order, (intercepts, largest, left))
        (rest,) = shards.aggregate(itself)
        return rounding_of(estimates, variances, rest)
