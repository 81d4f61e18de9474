"""Exact solve across shards: rows stay where they are, with their margins and coefficients, and rounds change these.

    1  every shard answers with the sums of its objectives and the rows that violate their optimality conditions most
    2  the caller solves the problem of the worst of these, all other coefficients fixed (`InnerProblem`), to a part of
       the gap of all rows
    3  changed coefficients go, with their rows, to every shard, which brings its margins up to date, and so on

A round is one job. What shards carry from round to round are margins and coefficients; their rows stay as they are. It
is block coordinate descent with very large blocks: with as many rows as there are support vectors it needs about ten
rounds, with few it takes no end, so that blocks double where four rounds do not halve the gap. Nobody holds all rows:
shards have their own, the caller those of a round and of the coefficients so far, which are those of the model. Gaps
are those of the whole problem. What float32 kernel values may have done to them is bounded for every row or, for
kernels whose rows have all the same size, measured on a sample (`dimargin.solvers.single_precision`). Where that is not
small enough, the solve goes on in float64, from margins that are computed again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from dimargin.problems.inner import InnerProblem
from dimargin.problems.objectives import Objectives, ObjectiveSums
from dimargin.problems.solution import History, Status
from dimargin.shards.parts import Part
from dimargin.shards.shards import Node, Shards, tree_sum
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.solvers.loop import Solver, Verdict, converged
from dimargin.solvers.neighbours import along_neighbours
from dimargin.solvers.single_precision import (
    FLOAT64_COST,
    SAMPLE,
    SINGLE_PRECISION_TOL,
    is_trusted,
    is_uneven,
    largest_part,
    rounding_of,
)
from dimargin.solvers.stopwatch import Stopwatch
from dimargin.strategies.gap import evaluate_from
from dimargin.strategies.round_tasks import (
    Answer,
    Change,
    Question,
    SampledErrors,
    Standing,
    answer_of,
    asked,
    begun,
    beyond_first_order,
    bounded,
    changed,
    itself,
    most_violating,
    objective_sums,
    placed,
    sampled,
    sums_of,
)
from dimargin.strategies.strategy import Facts
from dimargin.system.arrays import TINY, UNIT, Floats

_OF_GAP, _OF_TOL = 0.15, 0.3  # part of the gap to which a round is solved, and of the tolerance at least
_TRIES = 2.0 ** -np.arange(7)  # parts of the last move of the intercept by which others are tried
_SLOW, _HALVED = 4, 0.5  # rounds that must bring the gap down to this part of it, or blocks double
_PATIENCE = {False: 6, True: 12}  # rounds without progress after which float32, or float64, is to blame
_PROGRESS = 0.95
_COLUMNS_AT_ONCE = 65_536
_DOUBT = 0.4  # error by float32, in tolerances, with which no further round would help
# Changes after which margins are computed afresh: lost shards are made again of rows and all changes since, and
# tasks take these along.
_LONGEST = 24
_MOVED = 2.0  # times as far as the coefficients are that changes have to be, before margins are computed afresh


@dataclass(frozen=True)
class AcrossShards:
    """The solution of a solve across shards."""

    support: Part  # rows of nonzero coefficients, in the order of their keys
    objectives: Objectives
    status: Status
    reason: str
    passes: int  # rounds
    kernel_evaluations: int
    history: History


@dataclass(frozen=True)
class Best:
    """The coefficients with the smallest gap so far."""

    support: Part | None
    objectives: Objectives
    standings: Shards[Standing]  # with the margins that belong to them
    is_counted: bool = False  # whether errors by float32 are part of the objectives


@dataclass
class State:
    """State of a solve across shards."""

    limits: Limits
    rows: Shards[Part]
    placed: Shards[Part]  # the same, as rounds need them
    standings: Shards[Standing]
    support: Part | None  # rows of the present nonzero coefficients
    intercepts: Floats  # of shape (n_tries, n_outputs)
    size: int  # rows of a round
    double: bool = False  # whether kernel values are in float64
    answers: list[Answer] = field(default_factory=list)
    objectives: Objectives | None = None  # of the present coefficients
    sums: tuple[Floats, Floats] | None = None  # of the present coefficients by class, with an intercept
    reach: Floats | None = None
    travelled: Floats | None = None
    best: Best | None = None
    is_sure: bool = False  # whether its errors by float32 were small enough
    unchecked: bool = True
    refresh: bool = False  # whether margins shall be computed afresh, in float64
    nothing_moves: bool = False  # whether no row violates its optimality condition
    n_changes: int = 0  # from the rows to the present standings
    earlier: list[Shards[Standing]] = field(default_factory=list)  # released once the present ones are made
    rounds: int = 0
    evaluations: int = 0
    stopwatch: Stopwatch = field(default_factory=Stopwatch)  # of jobs that brought margins up to date
    awaited: int = 0  # kernel values of the next one, in all shards
    seconds_in_rounds: float = 0.0  # of these jobs since the first round: earlier ones may have read and stored rows
    gaps: list[float] = field(default_factory=list)  # smallest ones, after every round since blocks were this large
    improved_at: int = 0
    least: float = np.inf

    @property
    def seconds_of_round(self) -> float:
        """Seconds that a round has taken on average."""
        return self.seconds_in_rounds / max(1, self.rounds)


@dataclass(frozen=True)
class Rounds(Solver[Shards[Part], State, AcrossShards]):
    """The exact solver across shards, from a start, whatever coefficients the shards themselves come with.

    Parameters
    ----------
    about : Facts
        All rows together.
    working_set : int
        Rows of a round, at first.
    n_threads : int
        Threads of the caller.
    cache : int
        Bytes of the caller for remembered kernel rows.
    random_state : int
    """

    about: Facts
    working_set: int
    n_threads: int
    cache: int
    random_state: int

    def init(self, problem: Shards[Part], start: Part | None, limits: Limits) -> State:
        """Return the state at a start, the rows of nonzero coefficients, whose margins take a job of their own."""
        here, size = problem.map(placed, False), min(self.working_set, self.about.n_rows)
        intercepts = np.zeros((1, self.about.n_outputs))
        state = State(limits, problem, here, here.map(begun), None, intercepts, size)
        if start is not None and start.n_rows:
            losses = start.problem
            state.support = _supporting(replace(start, dual=losses.feasible(start.coefficients)))
        self._begin_again(state)
        return state

    def evaluations(self, state: State) -> int:
        """Return the number of kernel values computed so far, by shards and caller."""
        return state.evaluations

    def check(self, state: State) -> Objectives | None:
        """Return the objectives of the best coefficients so far, after one job over the shards."""
        if not state.unchecked:
            return None
        state.unchecked = False
        began = time.perf_counter()
        state.answers = state.standings.collect(answer_of)
        self._add_up(state)
        if state.awaited:
            seconds = time.perf_counter() - began
            state.stopwatch.add(seconds, state.awaited)
            state.seconds_in_rounds += seconds if state.rounds else 0.0
            state.awaited = 0
        objectives = state.objectives
        assert objectives is not None
        if state.best is None or objectives.unrounded.max() < state.best.objectives.unrounded.max():
            state.best = Best(state.support, objectives, state.standings)
        self._release_earlier(state)
        self._note_progress(state, state.best.objectives.unrounded.max())
        if state.best.objectives.worst_gap <= state.limits.tol and not state.double:
            self._count_rounding(state)
        return state.best.objectives

    def verdict(self, state: State, objectives: Objectives) -> Verdict:
        """Return status and reason if the tolerance is met, cannot be met, or limits allow no round more, else None."""
        assert state.best is not None
        limits, tol, patience = state.limits, state.limits.tol, _PATIENCE[state.double]
        met = bool(objectives.met(tol).all()) and tol >= 2 * UNIT
        if met and objectives.worst_gap <= tol and (state.double or state.is_sure):
            return converged(objectives.worst_gap, tol)
        if state.rounds >= limits.max_iter:
            return "max_iter", f"max_iter={limits.max_iter} rounds were done"
        if not limits.allow(1.5 * state.seconds_of_round):
            return "max_time", "the time limit allows no further round"
        stalled = state.nothing_moves or state.rounds - state.improved_at > patience
        if not state.double:
            near = tol < SINGLE_PRECISION_TOL and objectives.worst_gap <= SINGLE_PRECISION_TOL
            doubtful = state.best.is_counted and not state.is_sure and objectives.rounding.max() > _DOUBT * tol
            state.refresh = bool(near or doubtful or stalled)
            if state.refresh and not limits.allow(self._seconds_in_float64(state)):
                return "max_time", "the time limit does not allow to compute all margins in float64"
        elif met and self._has_moved(state):
            state.refresh = True
        elif met or stalled:
            return "precision", (
                f"the relative gap is {objectives.unrounded.max():.2e}, and up to {objectives.rounding.max():.2e} more "
                f"by rounding: float64 cannot certify tol={tol:.2e} here"
            )
        return None

    def step(self, state: State) -> None:
        """Solve the problem of the rows of a round and change their coefficients everywhere, or go on in float64."""
        state.unchecked = True
        if state.refresh:
            state.refresh = False
            self._go_on_in_float64(state)
            return
        rows, margins = self._rows_of_round(state)
        state.nothing_moves = rows is None
        if rows is None:
            return
        solution = self._solved(state, rows, margins)
        state.rounds += 1
        moved = np.flatnonzero((solution != rows.coefficients).any(axis=0))
        if len(moved):
            total = self.about.total
            before, after = rows.take(moved, total), replace(rows, dual=solution).take(moved, total)
            self._change(state, after, before.coefficients, self._question(state))
            state.support = _merged(state.support, after)
            if state.n_changes >= _LONGEST and state.support is not None:
                self._begin_again(state)
        else:  # the intercepts may be others
            self._ask(state)

    def finish(self, state: State, status: Status, reason: str, history: History) -> AcrossShards:
        """Return the coefficients of the smallest gap."""
        assert state.best is not None
        if not state.double and not state.best.is_counted:
            self._count_rounding(state)
        support, objectives = state.best.support, state.best.objectives
        for standings in (*state.earlier, state.standings):
            standings.release()
        state.placed.release()
        if support is None:
            support = state.answers[0].proposed.take(np.empty(0, dtype=np.int64), self.about.total)
        return AcrossShards(support, objectives, status, reason, max(1, state.rounds), state.evaluations, history)

    # ---- parts of a round ----------------------------------------------------------------------------------------

    def _add_up(self, state: State) -> None:
        """Add up the answers of the shards to the objectives, with the best of the intercepts tried."""
        intercepts = state.answers[0].intercepts
        nodes = (Node(0, index, sums_of(answer)) for index, answer in enumerate(state.answers))
        sums, reach, evaluations = tree_sum(nodes, len(state.answers)).sums
        tried = np.nanargmin(sums[:, 0], axis=0)
        own = objective_sums(sums, tried)
        state.objectives, state.reach = own.objectives(intercepts[tried, np.arange(len(tried))], reach), reach
        state.sums, state.evaluations = (own.positive, own.negative), state.evaluations + int(evaluations[0])

    def _note_progress(self, state: State, gap: float) -> None:
        state.gaps.append(gap)
        if gap < _PROGRESS * state.least:
            state.least, state.improved_at = gap, state.rounds
        if len(state.gaps) > _SLOW and gap > _HALVED * state.gaps[-1 - _SLOW]:
            state.size, state.gaps = min(2 * state.size, self.about.n_rows), [gap]

    def _rows_of_round(self, state: State) -> tuple[Part | None, Floats]:
        """Return the rows whose coefficients may change next, or None if there is none, and their margins."""
        answers = [answer for answer in state.answers if answer.proposed.n_rows]
        state.answers = []
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

    def _solved(self, state: State, rows: Part, margins: Floats) -> Floats:
        """Return coefficients of the rows that solve their problem to a part of the gap of all rows."""
        objectives, limits = state.objectives, state.limits
        assert objectives is not None and state.sums is not None
        problem, dual = rows.with_threads(self.n_threads).problem, rows.coefficients
        inner = InnerProblem.within(problem, dual, margins, state.sums, objectives.reached)
        seed = np.random.SeedSequence([self.random_state, 0, state.rounds]).generate_state(1)[0]
        tol = max(_OF_GAP * float(objectives.unrounded.max()), _OF_TOL * limits.tol)
        own = replace(limits.earlier(1.5 * state.seconds_of_round), tol=tol, stop_requested=lambda entry: False)
        solution = solve(inner, BlockCoordinateDescent(self.cache, int(seed), 0, False), dual, own)
        state.evaluations += problem.kernel.evaluations + solution.kernel_evaluations
        if self.about.intercept:
            now, last = solution.objectives.intercept, objectives.intercept
            width = np.maximum(2 * np.abs(now - last), 1e-9) * _TRIES[:, None]
            state.intercepts = np.concatenate([now[None], now + width, now - width, last[None]])
        return solution.dual

    def _question(self, state: State) -> Question:
        return Question(state.intercepts, state.size / self.about.n_rows)

    def _ask(self, state: State) -> None:
        """Ask all shards about the present coefficients."""
        self._make(state, state.placed.zip(state.standings, asked, self._question(state)), state.n_changes)

    def _change(self, state: State, after: Part, before: Floats, question: Question | None) -> None:
        """Bring all shards up to date, and ask them."""
        kernel = after.problem.kernel
        if kernel.local:  # as in shards: a product leaves out negligible values by tiles of rows and columns
            order = along_neighbours(kernel)
            after, before = after.take(order, self.about.total), before[:, order]
        change = Change(after, before, state.standings.n_threads, state.limits)
        standings = state.placed.zip(state.standings, changed, (change, question))
        self._make(state, standings, state.n_changes + 1)
        moved = after.problem.kernel.product_sizes(np.arange(after.n_rows), after.coefficients - before)
        state.travelled = moved if state.travelled is None else state.travelled + moved
        state.awaited += after.n_rows * self.about.n_rows

    def _release_earlier(self, state: State) -> None:
        """Release what shards stood at before, but for the best."""
        assert state.best is not None
        for standings in state.earlier:
            if standings is not state.best.standings:
                standings.release()
        state.earlier = [standings for standings in state.earlier if standings is state.best.standings]

    def _go_on_in_float64(self, state: State) -> None:
        """Go on from the best coefficients, with margins that are computed at once on float64 kernel values."""
        assert state.best is not None
        state.double, state.support, state.best = True, state.best.support, None
        state.gaps, state.least, state.improved_at = [], np.inf, state.rounds
        if state.support is not None:
            problem = state.support.problem
            state.support = replace(state.support, problem=problem.with_kernel(problem.kernel.in_float64()))
        state.placed.release()
        state.placed = state.rows.map(placed, True)
        self._begin_again(state)

    def _begin_again(self, state: State) -> None:
        """Let margins be computed from the present coefficients, all at once."""
        state.travelled = None
        self._make(state, state.placed.map(begun), 0)
        if state.support is not None:
            self._add_support(state)
        else:
            self._ask(state)

    def _add_support(self, state: State) -> None:
        """Add the present coefficients to margins that are zero."""
        support = state.support
        assert support is not None
        for first in range(0, support.n_rows, _COLUMNS_AT_ONCE):
            index = np.arange(first, min(first + _COLUMNS_AT_ONCE, support.n_rows))
            piece = support.take(index, self.about.total)
            question = self._question(state) if index[-1] == support.n_rows - 1 else None
            self._change(state, piece, np.zeros_like(piece.coefficients), question)

    def _make(self, state: State, standings: Shards[Standing], n_changes: int) -> None:
        """Let the shards stand elsewhere from now on, so many changes after the rows."""
        state.earlier.append(state.standings)
        state.standings, state.n_changes = standings, n_changes

    def _seconds_in_float64(self, state: State) -> float:
        """Return the seconds, about, until margins on float64 kernel values are there."""
        n_support = 0 if state.support is None else state.support.n_rows
        return FLOAT64_COST * state.stopwatch.seconds_for(self.about.n_rows * n_support) + state.seconds_of_round

    # ---- rounding ------------------------------------------------------------------------------------------------

    def _has_moved(self, state: State) -> bool:
        """Return whether margins have come by changes that are much more than the coefficients."""
        if state.travelled is None or state.reach is None:
            return False
        return bool((state.travelled > _MOVED * state.reach).any())

    def _count_rounding(self, state: State) -> None:
        """Count what float32 does to the best objectives as part of their gap.

        It is measured on a sample of rows or, where a sample does not tell, bounded by sizes of rows (see
        `dimargin.solvers.single_precision`).
        """
        best, tol = state.best, state.limits.tol
        assert best is not None
        if best.is_counted:
            return
        is_stationary = state.support is None or state.support.problem.kernel.transform.kernel.stationary
        errors = self._sampled_errors(state, best) if is_stationary else None
        if errors is None:
            (sums, reach) = state.placed.zip(best.standings, bounded, best.objectives.intercept).aggregate(itself)
            rounded = ObjectiveSums(*sums).objectives(best.objectives.intercept, reach)
            state.is_sure = rounded.raised().worst_gap <= tol and tol >= SINGLE_PRECISION_TOL
            rounded = rounded.raised() if state.is_sure else rounded
        else:
            rounded = best.objectives.rounded(errors)
            # A float64 pass takes as long as several rounds: an estimate is also trusted if twice as much would do.
            enough = (rounded.relative_gap + rounded.rounding <= tol) & (tol >= SINGLE_PRECISION_TOL)
            state.is_sure = bool((enough | is_trusted(rounded, tol)).all())
        state.best = replace(best, objectives=rounded, is_counted=True)

    def _sampled_errors(self, state: State, best: Best) -> Floats | None:
        """Estimate the errors of the objectives by float32, of shape (n_outputs,), in two jobs.

        The estimate is None where the errors of the sample are too uneven.
        """
        support, intercepts = best.support, best.objectives.intercept
        if support is None:
            return np.zeros(len(intercepts))
        share, seed = SAMPLE / self.about.n_rows, self.random_state
        exact = replace(support, problem=support.problem.with_kernel(support.problem.kernel.in_float64()))
        found: list[tuple[SampledErrors, Floats]] = []
        samples = state.placed.zip(best.standings, sampled, (best.objectives, share, seed)).collect()
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
        (rest,) = state.placed.zip(best.standings, beyond_first_order, (intercepts, largest, left)).aggregate(itself)
        return rounding_of(estimates, variances, rest)


def _supporting(part: Part) -> Part | None:
    """Return the rows of nonzero coefficients, in the order of their keys, or None if there is none."""
    support = part.support
    return part.take(support, part.problem.mass).in_order() if len(support) else None


def _merged(support: Part | None, changes: Part) -> Part | None:
    """Return the rows of nonzero coefficients after a change."""
    if support is None:
        return _supporting(changes)
    kept = np.flatnonzero(~np.isin(support.indices, changes.indices, assume_unique=True))
    return _supporting(Part.joined([support.take(kept, support.problem.mass), changes], changes.problem.mass))
