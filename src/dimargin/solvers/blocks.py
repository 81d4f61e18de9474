"""Choice of blocks, which depends on the loss.

"permutation": a pass takes every row that is nonzero or violated once, in random blocks. Every
second pass has blocks of near neighbours instead, because their coefficients depend on each other
most. On ten fits of five data sets this took 0.63 to 1.00 times the kernel evaluations of random
blocks alone (measured by bench/scripts/bench_cited.py); neighbours in all passes but the first can
take many more. With several outputs three passes of four use neighbours, because the same outputs
change near rows. Rows whose coefficient is zero and optimal are left out of a pass, which saves
most on Optimal margin Distribution Machines with large ``lam``.

"greedy", for losses of which few coefficients move (hinge, squared hinge, those of regression):
passes of blocks of near neighbours over the rows that are inside their box or violated.
Blocks of the most violating rows come between these passes: a quarter of the rows have a decision
value that must rise, a quarter one that must fall, and half are of the previous such block. Without
that balance the hinge zigzags; without neighbours it took five times the kernel evaluations on
20,000 rows of covtype (C=32, gamma=32), where nearly all support vectors are free. The solve starts
on a quarter of the rows (a fifth fewer evaluations on ijcnn1 and cod-rna, but a quarter more on
covtype). From the third pass on, rows whose zero coefficients are far from moving are shrunk, and
where kernel values are expensive, kernel rows of the coefficients that move are cached
(`dimargin.solvers.shrinking`). Shrinking is undone before a gap is believed. Where values are very
expensive and memory suffices, full kernel rows are cached instead, and no row is shrunk: on reuters
(7,770 sparse rows of 44 numbers, C=8) 0.31 n^2 values are computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from dimargin.problems.dual import DualProblem
from dimargin.solvers.iterate import Iterate
from dimargin.solvers.neighbours import deal_neighbours
from dimargin.solvers.shrinking import Shrinking
from dimargin.system.arrays import Floats, Indices


@dataclass
class Schedule:
    """Blocks of the current pass, and the numbers of rows visited."""

    rng: np.random.Generator
    order: Indices | None  # Canonical order of a problem of one block.
    queue: list[Indices | None] = field(default_factory=list)  # Blocks; None: most violating rows.
    previous: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # Last block of violators.
    block_size: int = 0  # Rows of a block in this pass.
    passes: int = 0  # Number of passes begun.
    visited: int = 0  # Number of rows visited since the start.
    since_check: int = 0  # Number of rows visited since the last check.
    unchecked: bool = True

    def next_block(self, iterate: Iterate, shrinking: Shrinking) -> Indices:
        """Return the next block, from a new pass if all blocks of the last one have been visited."""
        if self.order is not None:
            return self.order
        if not self.queue:
            self._begin_pass(iterate, shrinking)
        block = self.queue.pop()
        return self._most_violating(iterate, shrinking) if block is None else block

    def upcoming_block(self, problem: DualProblem) -> Indices | None:
        """Return the next block if its solve may begin before all margins are updated, else None.

        It may within a pass, unless the gap is to be checked. The hinge's next block often depends
        on all margins, as that of the most violating rows; and where kernel values are expensive, a
        block takes little of the time.
        """
        if self.unchecked or not self.queue or problem.loss.selection == "greedy" or problem.kernel.expensive:
            return None
        return self.queue.pop()

    def visit(self, block: Indices, problem: DualProblem) -> None:
        """Count the rows of a block; a check is due every eighth of a pass, or after greedy passes."""
        self.visited += len(block)
        self.since_check += len(block)
        is_end_of_pass = problem.loss.selection == "greedy" and not self.queue
        self.unchecked = self.order is not None or is_end_of_pass or self.since_check * 8 >= problem.n_rows

    def take_check(self) -> bool:
        """Return whether a check is due, which the caller does."""
        is_due, self.unchecked = self.unchecked, False
        if is_due:
            self.since_check = 0
        return is_due

    def _begin_pass(self, iterate: Iterate, shrinking: Shrinking) -> None:
        """Queue the blocks of a pass over the rows that may move: random ones, or near neighbours."""
        problem, rng, greedy = iterate.problem, self.rng, iterate.problem.loss.selection == "greedy"
        if greedy:
            shrinking.shrink(iterate, self.passes, rng)
        indices, violation = _violations(iterate, shrinking, balanced=not self.passes)
        dual = iterate.dual[:, indices]
        lower, upper = problem.conjugate.lower[indices], problem.conjugate.upper[indices]
        bound = (dual == lower) | (dual == upper) | (dual == 0) if greedy else dual == 0
        rows = indices[(~bound | (violation != 0)).any(axis=0)]
        if not len(rows):
            rows = indices
        # Rows left out of the pass count as visited, because their optimality was checked.
        self.visited += problem.n_rows - len(rows)
        self.block_size = block_size(problem, len(rows))
        n_blocks = -(-len(rows) // self.block_size)
        neighbours = greedy or self.passes % (2 if len(iterate.outputs) == 1 else 4)
        if neighbours and n_blocks > 1:
            blocks = deal_neighbours(problem.kernel, rows, n_blocks, rng)
        else:
            blocks = np.array_split(rng.permutation(rows), n_blocks)
        self.passes += 1
        self.queue = [np.sort(blocks[k]) for k in rng.permutation(n_blocks)]
        if greedy:  # The queue is popped from its end: up to six blocks of violating rows come last.
            self.queue = [*[None] * min(6, 1 + n_blocks // 2), *self.queue]

    def _most_violating(self, iterate: Iterate, shrinking: Shrinking) -> Indices:
        """Return a block of the most violating rows, as many rising as falling, and old ones."""
        problem, rng = iterate.problem, self.rng
        indices, violation = _violations(iterate, shrinking, balanced=True)
        direction = problem.labels[:, indices] * violation
        direction = direction[np.abs(direction).max(axis=1).argmax()]
        # Of every sum that is given, as many coefficients rise as fall.
        labels = problem.labels[0, indices]
        groups = [labels > 0, labels < 0] if problem.n_sums == 2 else [np.ones(len(labels), dtype=bool)]
        few = self.block_size // (4 * len(groups))
        ends = [_largest(np.where(own, sign * direction, 0.0), few) for own in groups for sign in (1, -1)]
        fresh = indices[np.unique(np.concatenate(ends))]
        is_active = np.zeros(problem.n_rows, dtype=bool)
        is_active[indices], is_active[fresh] = True, False
        previous = self.previous[is_active[self.previous]]
        conjugate, dual = problem.conjugate, iterate.dual[:, previous]
        free = ((dual != conjugate.lower[previous]) & (dual != conjugate.upper[previous])).any(axis=0)
        previous = rng.permutation(previous[free])[: self.block_size - len(fresh)]
        block = np.union1d(fresh, previous)
        if not len(block):  # No row is violated, so that the remaining gap is rounding.
            block = np.sort(rng.choice(indices, min(len(indices), self.block_size), replace=False))
        self.previous = block
        return block


def block_size(problem: DualProblem, n_rows: int) -> int:
    """Return the number of rows of a block in a pass over `n_rows`.

    Small blocks leave more work to the kernel, large ones to the factorisations; the Gram matrix of
    256 rows stays in the second-level cache. Blocks are larger where kernel values are expensive.
    Those of pair steps (hinge) grow with the rows, because large ones pay where many rows are free.
    """
    if problem.loss.selection == "greedy":
        return min(1024, max(512, n_rows // 12))
    return 512 if problem.kernel.expensive else 256


def canonical_order(problem: DualProblem) -> Indices:
    """Return an order of rows by content, so that small fits do not depend on their order."""
    rows = problem.kernel.rows(np.arange(problem.n_rows))
    if sp.issparse(rows):
        parts = (rows[[i]] for i in range(problem.n_rows))
        keys = [(part.indices.tobytes(), part.data.tobytes()) for part in parts]
    else:
        keys = [(np.ascontiguousarray(row).tobytes(), b"") for row in rows]
    targets = np.zeros(len(keys)) if problem.targets is None else problem.targets
    labelled = [(key, problem.labels[:, i].tobytes(), problem.weights[i], targets[i]) for i, key in enumerate(keys)]
    return np.array(sorted(range(problem.n_rows), key=labelled.__getitem__), dtype=np.int64)


def _violations(iterate: Iterate, shrinking: Shrinking, balanced: bool) -> tuple[Indices, Floats]:
    """Return the active rows, and the signed distances from their optimality conditions.

    The distances are those at the intercept that is best for the primal or, if `balanced`, at the
    one halfway between the largest score that may rise and the smallest that may fall. In the
    second case a row of each kind is always violated, unless all are optimal.
    """
    problem, indices, dual, margins = shrinking.active_part(iterate)
    intercepts = problem.middle_intercepts(dual, margins) if balanced else problem.intercepts(margins)
    return indices, problem.conjugate.subgradient_distance(problem.shifted(margins, intercepts), dual)


def _largest(score: Floats, count: int) -> Indices:
    """Return the indices of the largest positive scores, at most `count`."""
    indices = np.flatnonzero(score > 0)
    return indices[np.argpartition(-score[indices], count)[:count]] if len(indices) > count else indices
