"""Iterate of an exact solve across shards: coefficients, with the margins that the shards keep for them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from dimargin.problems.objectives import Objectives
from dimargin.shards.parts import Part
from dimargin.shards.shards import Node, Shards, tree_sum
from dimargin.solvers import Limits
from dimargin.solvers.neighbours import along_neighbours
from dimargin.solvers.stopwatch import Stopwatch
from dimargin.strategies.round_tasks import (
    Answer,
    Change,
    Question,
    ShardState,
    answer_question,
    answer_sums,
    apply_change,
    objective_sums,
    prepare_rows,
    zero_state,
)
from dimargin.strategies.strategy import Facts
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class Evaluated:
    """Sum of the answers of all shards about the current coefficients."""

    answers: list[Answer]
    objectives: Objectives  # Objectives with the best of the candidate intercepts.
    sums: tuple[Floats, Floats]  # Sums of the coefficients by class.
    reach: Floats
    evaluations: int  # Kernel values computed for the answers.

    @classmethod
    def from_answers(cls, answers: list[Answer]) -> Evaluated:
        """Add up the answers of all shards."""
        intercepts = answers[0].intercepts
        nodes = (Node(0, index, answer_sums(answer)) for index, answer in enumerate(answers))
        sums, reach, evaluations = tree_sum(nodes, len(answers)).sums
        tried = np.nanargmin(sums[:, 0], axis=0)
        own = objective_sums(sums, tried)
        objectives = own.objectives(intercepts[tried, np.arange(len(tried))], reach)
        return cls(answers, objectives, (own.positive, own.negative), reach, int(evaluations[0]))


@dataclass
class RoundTimes:
    """Time of the jobs that update margins."""

    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    pending_values: int = 0  # Kernel values that the next of these jobs computes, in all shards.
    seconds_in_rounds: float = 0.0  # Time of these jobs, without those before the first round, which may read rows.

    def add(self, seconds: float, is_round: bool) -> None:
        """Add the seconds of a job, if it computed kernel values."""
        if self.pending_values:
            self.stopwatch.add(seconds, self.pending_values)
            self.seconds_in_rounds += seconds if is_round else 0.0
            self.pending_values = 0


@dataclass
class ShardedIterate:
    """Current coefficients, and the shards with the margins at them."""

    about: Facts
    limits: Limits
    rows: Shards[Part]
    prepared: Shards[Part]  # Rows prepared for rounds.
    states: Shards[ShardState]
    support: Part | None = None  # Rows with nonzero coefficients, in the order of their keys.
    is_double: bool = False  # Whether kernel values are in float64.
    n_changes: int = 0  # Number of changes since margins were computed from scratch.
    travelled: Floats | None = None  # Sizes of these changes, summed, of shape (n_outputs,).
    earlier: list[Shards[ShardState]] = field(default_factory=list)  # Released once the current ones are computed.
    times: RoundTimes = field(default_factory=RoundTimes)

    max_columns_at_once: ClassVar[int] = 65_536
    """Most support vectors that one job adds to margins."""
    max_changes: ClassVar[int] = 24
    """Margins are recomputed after this many changes.

    Lost shards are rebuilt from their rows and all changes since, which every task carries.
    """

    @classmethod
    def at_zero(cls, about: Facts, limits: Limits, rows: Shards[Part]) -> ShardedIterate:
        """Return the iterate with zero coefficients."""
        here = rows.map(prepare_rows, False)
        return cls(about, limits, rows, here, here.map(zero_state))

    @property
    def n_support(self) -> int:
        """Number of rows with nonzero coefficients."""
        return 0 if self.support is None else self.support.n_rows

    def query(self, question: Question) -> None:
        """Send all shards a question about the current coefficients."""
        self._set_states(self.prepared.zip(self.states, answer_question, question), self.n_changes)

    def change(self, after: Part, before: Floats, question: Question) -> None:
        """Set the coefficients of some rows, update all margins, and send the shards a question."""
        self._apply_change(after, before, question)
        self.support = _merged(self.support, after)
        if self.n_changes >= self.max_changes and self.support is not None:
            self.recompute_margins(question)

    def recompute_margins(self, question: Question) -> None:
        """Compute margins from scratch at the current coefficients, and send the shards a question."""
        self.travelled = None
        self._set_states(self.prepared.map(zero_state), 0)
        support = self.support
        if support is None:
            self.query(question)
            return
        for first in range(0, support.n_rows, self.max_columns_at_once):
            index = np.arange(first, min(first + self.max_columns_at_once, support.n_rows))
            piece = support.take(index, self.about.total)
            is_last = index[-1] == support.n_rows - 1
            self._apply_change(piece, np.zeros_like(piece.coefficients), question if is_last else None)

    def switch_to_float64(self, support: Part | None, question: Question) -> None:
        """Continue from the coefficients of the support vectors, with margins recomputed on float64 kernel values."""
        self.is_double, self.support = True, support
        if support is not None:
            problem = support.problem
            self.support = replace(support, problem=problem.with_kernel(problem.kernel.in_float64()))
        self.prepared.release()
        self.prepared = self.rows.map(prepare_rows, True)
        self.recompute_margins(question)

    def updates_are_large(self, reach: Floats) -> bool:
        """Return whether the summed updates of margins exceed twice the size of the coefficients."""
        return self.travelled is not None and bool((self.travelled > 2 * reach).any())

    def release_earlier(self, kept: Shards[ShardState]) -> None:
        """Release the earlier states of the shards except those that are kept."""
        for states in self.earlier:
            if states is not kept:
                states.release()
        self.earlier = [states for states in self.earlier if states is kept]

    def release(self) -> None:
        """Release all shards that were made from the rows."""
        for states in (*self.earlier, self.states):
            states.release()
        self.prepared.release()

    def _apply_change(self, after: Part, before: Floats, question: Question | None) -> None:
        """Update all shards after a change of coefficients, and send them a question if there is one."""
        kernel = after.problem.kernel
        if kernel.local:  # Neighbouring rows side by side let products skip tiles of negligible values.
            order = along_neighbours(kernel)
            after, before = after.take(order, self.about.total), before[:, order]
        change = Change(after, before, self.states.n_threads, self.limits)
        states = self.prepared.zip(self.states, apply_change, (change, question))
        self._set_states(states, self.n_changes + 1)
        moved = after.problem.kernel.product_sizes(np.arange(after.n_rows), after.coefficients - before)
        self.travelled = moved if self.travelled is None else self.travelled + moved
        self.times.pending_values += after.n_rows * self.about.n_rows

    def _set_states(self, states: Shards[ShardState], n_changes: int) -> None:
        """Set the current states of the shards, `n_changes` changes after margins were zero."""
        self.earlier.append(self.states)
        self.states, self.n_changes = states, n_changes


def supporting(part: Part) -> Part | None:
    """Return the rows with nonzero coefficients, in the order of their keys, or None without any."""
    support = part.support
    return part.take(support, part.problem.mass).in_order() if len(support) else None


def _merged(support: Part | None, changes: Part) -> Part | None:
    """Return the rows with nonzero coefficients after a change."""
    if support is None:
        return supporting(changes)
    kept = np.flatnonzero(~np.isin(support.indices, changes.indices, assume_unique=True))
    return supporting(Part.joined([support.take(kept, support.problem.mass), changes], changes.problem.mass))
