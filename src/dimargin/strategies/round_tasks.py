"""Tasks of shards in the rounds of an exact solve across them (`dimargin.strategies.rounds`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dimargin.kernels.column_statistics import row_chunks
from dimargin.problems.objectives import Objectives, ObjectiveSums
from dimargin.shards.parts import Part
from dimargin.shards.shards import Sums
from dimargin.solvers import Interrupted, Limits
from dimargin.solvers.neighbours import along_neighbours
from dimargin.solvers.single_precision import Sample, errors_beyond_first_order, importance
from dimargin.system.arrays import TINY, UNIT, Floats, Indices


@dataclass(frozen=True)
class Change:
    """Change of the coefficients of rows of any shard."""

    rows: Part  # The rows have their new coefficients.
    before: Floats  # Their old coefficients, of shape (n_outputs, n).
    n_threads: int
    limits: Limits  # Only cancellation is heeded.


@dataclass(frozen=True)
class Question:
    """Question to every shard about the present coefficients."""

    intercepts: Floats  # Candidates, of shape (n_tries, n_outputs).
    share: float  # Rows of the next round, as a fraction of all rows.


@dataclass(frozen=True)
class Answer:
    """Answer of a shard to a question."""

    intercepts: Floats  # The intercepts of the question, to which the sums belong.
    sums: Floats  # The sums of `ObjectiveSums` for every intercept, of shape (n_tries, 8, n_outputs).
    reach: Floats  # Sums of absolute coefficients times sizes of rows, of shape (n_outputs,).
    evaluations: int  # Kernel values computed since the last answer.
    proposed: Part  # Rows for the next round, with their coefficients.
    margins: Floats  # Margins of the proposed rows.
    directions: Floats  # Signed violations of their optimality conditions, of shape (n,).


@dataclass(frozen=True)
class ShardState:
    """State of a shard after some rounds, without its rows."""

    dual: Floats  # Coefficients of its rows, of shape (n_outputs, n).
    margins: Floats  # Margins of its rows without the intercept, of shape (n_outputs, n).
    travelled: Floats  # Absolute changes of coefficients times sizes of their rows, summed over the changes, by output.
    rounding: float = 0.0  # Largest rounding of a change, relative to its part of `travelled`.
    n_changes: int = 0
    evaluations: int = 0  # Kernel values computed since the last answer.
    answer: Answer | None = None  # Answer to the question sent with the last change.

    def errors(self, part: Part) -> Floats:
        """Return bounds of the rounding of the margins."""
        return (self.rounding + self.n_changes * UNIT) * self.travelled[:, None] * part.problem.kernel.row_sizes


Shard = tuple[Part, ShardState]


@dataclass(frozen=True)
class SampledErrors:
    """Sampled rows of a shard whose margins are compared with float64 ones."""

    sample: Sample
    part: Part  # The rows of the sample.
    margins: Floats
    bounds: Floats  # Bounds of the rounding of the margins.


def prepare_rows(part: Part, double: bool) -> Part:
    """Task that prepares the rows of a shard for rounds: sorted for a local kernel, in float64 if `double`."""
    problem = part.problem
    if problem.kernel.local:
        part = part.take(along_neighbours(problem.kernel), problem.mass)
        problem = part.problem
    if double:
        problem = problem.with_kernel(problem.kernel.in_float64())
    return replace(part, problem=problem, dual=np.zeros(problem.labels.shape))


def zero_state(part: Part, _: None) -> ShardState:
    """Task that returns the state of a shard with zero coefficients."""
    nothing = np.zeros(part.problem.labels.shape)
    return ShardState(nothing, nothing, np.zeros(len(nothing)))


def apply_change(shard: Shard, value: tuple[Change, Question | None]) -> ShardState:
    """Task that updates the margins and coefficients of a shard after a change, and answers a question."""
    (part, state), (change, question) = shard, value
    rows, problem = change.rows, part.problem
    columns, every = np.arange(rows.n_rows), np.arange(part.n_rows)
    kernel = rows.problem.kernel.facing(problem.kernel, change.n_threads)
    by = rows.problem.labels * (rows.coefficients - change.before)
    margins = state.margins.copy()
    for some in row_chunks(part.n_rows, max(512, 10**8 // max(1, rows.n_rows))):
        if change.limits.cancelled.is_set():
            raise Interrupted
        margins[:, some] += problem.labels[:, some] * kernel.multiply(columns, by, every[some])
    dual = state.dual.copy()
    _, own, theirs = np.intersect1d(part.indices, rows.indices, assume_unique=True, return_indices=True)
    dual[:, own] = rows.coefficients[:, theirs]
    after = ShardState(
        dual,
        margins,
        state.travelled + kernel.product_sizes(columns, by),
        max(state.rounding, kernel.rounding(rows.n_rows)),
        state.n_changes + 1,
        kernel.evaluations + (state.evaluations if state.answer is None else 0),
    )
    return with_answer(part, after, question)


def answer_question(shard: Shard, question: Question) -> ShardState:
    """Task that answers another question about the same coefficients."""
    part, state = shard
    return with_answer(part, replace(state, evaluations=0), question)


def with_answer(part: Part, state: ShardState, question: Question | None) -> ShardState:
    """If there is a question, evaluate the objectives and propose rows for the next round."""
    if question is None:
        return state
    problem, dual, margins = part.problem, state.dual, state.margins
    errors = state.errors(part) if problem.kernel.double else None
    sums = np.array([problem.objective_sums(dual, margins, tried, errors) for tried in question.intercepts])
    shifted = problem.shifted(margins, question.intercepts[0])
    violations = problem.labels * problem.conjugate.subgradient_distance(shifted, dual)
    worst = np.abs(violations).argmax(axis=0)
    directions = violations[worst, np.arange(part.n_rows)]
    # Violating rows may be spread unevenly, so a shard proposes a quarter more than its share, plus
    # 32.
    rows = most_violating(directions, int(np.ceil(1.25 * question.share * part.n_rows)) + 32)
    proposed = replace(part, dual=dual).take(rows, problem.mass)
    answer = Answer(
        question.intercepts,
        sums,
        problem.reach(dual),
        state.evaluations,
        proposed,
        np.ascontiguousarray(margins[:, rows]),
        directions[rows],
    )
    return replace(state, answer=answer)


def get_answer(state: ShardState, _: None) -> Answer:
    """Task that returns the answer of a shard."""
    assert state.answer is not None
    return state.answer


def most_violating(directions: Floats, count: int) -> Indices:
    """Return at most `count` rows, ascending, with the largest positive and the largest negative violations.

    There are as many rows of either sign, if possible. Rows that meet their conditions are left
    out.
    """
    order = np.argsort(-np.abs(directions), kind="stable")
    order = order[directions[order] != 0]
    rising, falling = order[directions[order] > 0], order[directions[order] < 0]
    half = min(len(rising), max(count // 2, count - len(falling)))
    return np.sort(np.concatenate([rising[:half], falling[: count - half]]))


def draw_sample(shard: Shard, value: tuple[Objectives, float, int]) -> SampledErrors | None:
    """Task that draws rows on which float32 is compared with float64, if the shard has any."""
    (part, state), (objectives, share, seed) = shard, value
    margins, bounds, part = state.margins, state.errors(part), replace(part, dual=state.dual)
    if not part.n_rows:
        return None
    rng = np.random.default_rng([seed, part.first_index])
    size = max(8, int(np.ceil(share * part.n_rows)))
    matter = importance(part.problem, part.coefficients, margins, objectives, bounds)
    sample = Sample.of(part.problem, part.coefficients, margins, objectives.intercept, matter, rng, size)
    margins, bounds = (np.ascontiguousarray(values[:, sample.rows]) for values in (margins, bounds))
    return SampledErrors(sample, part.take(sample.rows, part.problem.mass), margins, bounds)


def sum_beyond_first_order(shard: Shard, value: tuple[Floats, Floats, float]) -> Sums:
    """Task that sums the effects on the gap of margin errors beyond first order, and of float64 rounding.

    The value holds the intercepts, the largest errors relative to their bounds, and the rounding of
    a sum in float64.
    """
    (part, state), (intercepts, largest, rounding) = shard, value
    problem, bounds, kernel = part.problem, state.errors(part), part.problem.kernel.in_float64()
    left = (rounding + kernel.rounding(1)) * state.travelled[:, None] * kernel.row_sizes
    largest = largest * bounds + TINY
    return (errors_beyond_first_order(problem, state.dual, state.margins, intercepts, largest, left),)


def sum_with_bounds(shard: Shard, intercepts: Floats) -> Sums:
    """Task that sums the objectives with bounds of the rounding of margins, and `DualProblem.reach`."""
    (part, state), problem = shard, shard[0].problem
    sums = problem.objective_sums(state.dual, state.margins, intercepts, state.errors(part))
    return np.array(sums), problem.reach(state.dual)


def itself(sums: Sums, _: None) -> Sums:
    """Task that returns the arrays that are added up over the shards."""
    return sums


def answer_sums(answer: Answer) -> Sums:
    """Return the arrays of an answer that are added up over the shards."""
    return answer.sums, answer.reach, np.array([answer.evaluations], dtype=float)


def objective_sums(sums: Floats, tried: Indices) -> ObjectiveSums:
    """Return the sums of the objectives with one of the intercepts tried, output by output."""
    return ObjectiveSums(*sums[tried, :, np.arange(sums.shape[2])].T)
