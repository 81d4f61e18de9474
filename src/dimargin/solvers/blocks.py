"""Choice of blocks, which depends on the loss.

"permutation": once per pass all rows that are nonzero or violated, in random blocks or, in every
second pass, in blocks of near neighbours, whose strongly coupled coefficients are solved for
together. On ten fits of five data sets this took 0.63 to 1.00 times the kernel evaluations of
random blocks alone (measured by bench/scripts/bench_cited.py); neighbours in all passes but the
first can take many more. With several outputs three passes of four use neighbours, which the same
outputs move. Rows whose coefficient is zero and optimal are left out of a pass, which saves most on
Optimal margin Distribution Machines with large ``lam``.

"greedy", for losses with nonnegative coefficients (hinge, squared hinge), of which few move: passes
of blocks of near neighbours over the rows that are inside their box or violated. Blocks of the most
violating rows come between these passes, with as many rows whose decision value must rise as must
fall, and with half of the previous such block. Without that balance the hinge zigzags; without
neighbours it took five times the kernel evaluations on 20,000 rows of covtype (C=32, gamma=32),
where nearly all support vectors are free. The solve starts on a quarter of the rows (a fifth fewer
evaluations on ijcnn1 and cod-rna, but a quarter more on covtype). From the third pass on, rows
whose zero coefficients are far from moving are shrunk, and where kernel values are expensive,
kernel rows of the coefficients that move are cached (`ActiveRows`). Shrinking is undone before a
gap is believed. Where values are very expensive and memory suffices, full kernel rows are cached
instead, and no row is shrunk: on reuters (7,770 sparse rows of 44 numbers, C=8) 0.31 n^2 values are
computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from dimargin.problems.dual import DualProblem
from dimargin.solvers.active import ActiveRows
from dimargin.solvers.neighbours import deal_neighbours
from dimargin.solvers.state import State
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class _ShrinkSettings:
    """Settings of shrinking for losses with nonnegative coefficients."""

    large: float = 4096  # Problems of more rows start on a quarter of them.
    passes_on_quarter: int = 3  # The number of passes over that quarter.
    first_pass: int = 2  # The first pass, counted from zero, in which rows may be shrunk.
    max_passes: int = 20  # Shrinking is undone after this many passes.
    distance: float = 0.1  # Distance of a shrunk row's margin from the kink, in slopes there.
    # Shrinking is undone once the active rows' gap is this fraction of the last whole gap. On five
    # data sets 0.4 took 1.06 to 1.32 times the kernel values, 0.02 0.97 to 1.10
    # (bench/scripts/bench_cited.py).
    gap_share: float = 0.05


_SHRINK_SETTINGS = _ShrinkSettings()


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
    labelled = [(key, problem.labels[:, i].tobytes(), problem.weights[i]) for i, key in enumerate(keys)]
    return np.array(sorted(range(problem.n_rows), key=labelled.__getitem__), dtype=np.int64)


def next_block(state: State) -> Indices:
    """Return the next block, from a new pass if all blocks of the last one have been visited."""
    if state.order is not None:
        return state.order
    if not state.queue:
        _begin_pass(state)
    block = state.queue.pop()
    return _most_violating(state) if block is None else block


def upcoming_block(state: State) -> Indices | None:
    """Return the next block if its solve may begin before all margins are updated, else None.

    It may within a pass, unless the gap is to be checked. The hinge's next block often depends on
    all margins, as that of the most violating rows; and where kernel values are expensive, a block
    takes little of the time.
    """
    if state.unchecked or not state.queue or state.problem.loss.selection == "greedy" or state.problem.kernel.expensive:
        return None
    return state.queue.pop()


def _begin_pass(state: State) -> None:
    """Queue the blocks of a pass over the rows that may move: random ones, or near neighbours."""
    problem, rng, greedy = state.problem, state.rng, state.problem.loss.selection == "greedy"
    if greedy and state.active is None and state.whole_rows is None:
        _shrink(state)
    indices, violation = _violations(state, balanced=not state.passes)
    dual, lower, upper = state.dual[:, indices], problem.conjugate.lower[indices], problem.conjugate.upper[indices]
    bound = (dual == lower) | (dual == upper) if greedy else dual == 0
    rows = indices[(~bound | (violation != 0)).any(axis=0)]
    if not len(rows):
        rows = indices
    # Rows left out of the pass count as visited, because their optimality was checked.
    state.visited += problem.n_rows - len(rows)
    state.block_size = block_size(problem, len(rows))
    n_blocks = -(-len(rows) // state.block_size)
    neighbours = greedy or state.passes % (2 if len(state.outputs) == 1 else 4)
    if neighbours and n_blocks > 1:
        blocks = deal_neighbours(problem.kernel, rows, n_blocks, rng)
    else:
        blocks = np.array_split(rng.permutation(rows), n_blocks)
    state.passes += 1
    state.queue = [np.sort(blocks[k]) for k in rng.permutation(n_blocks)]
    if greedy:  # The queue is popped from its end: up to six blocks of violating rows come last.
        state.queue = [*[None] * min(6, 1 + n_blocks // 2), *state.queue]


def _most_violating(state: State) -> Indices:
    """Return a block of the most violating rows, as many rising as falling, and old ones."""
    indices, violation = _violations(state, balanced=True)
    direction = state.problem.labels[:, indices] * violation
    direction = direction[np.abs(direction).max(axis=1).argmax()]
    half = state.block_size // 4
    fresh = indices[np.union1d(_largest(direction, half), _largest(-direction, half))]
    is_active = np.zeros(state.problem.n_rows, dtype=bool)
    is_active[indices], is_active[fresh] = True, False
    previous = state.previous[is_active[state.previous]]
    conjugate, dual = state.problem.conjugate, state.dual[:, previous]
    free = ((dual != conjugate.lower[previous]) & (dual != conjugate.upper[previous])).any(axis=0)
    previous = state.rng.permutation(previous[free])[: state.block_size - len(fresh)]
    block = np.union1d(fresh, previous)
    if not len(block):  # No row is violated, so that the remaining gap is rounding.
        block = np.sort(state.rng.choice(indices, min(len(indices), state.block_size), replace=False))
    state.previous = block
    return block


def _largest(score: Floats, count: int) -> Indices:
    """Return the indices of the largest positive scores, at most `count`."""
    indices = np.flatnonzero(score > 0)
    return indices[np.argpartition(-score[indices], count)[:count]] if len(indices) > count else indices


def _violations(state: State, balanced: bool = False) -> tuple[Indices, Floats]:
    """Return the active rows, and the signed distances from their optimality conditions.

    The distances are those at the intercept that is best for the primal or, if `balanced`, at the
    one halfway between the largest score that may rise and the smallest that may fall. In the
    second case a row of each kind is always violated, unless all are optimal.
    """
    if state.active is None:
        problem, indices, dual, margins = state.problem, np.arange(state.problem.n_rows), state.dual, state.margins
    else:
        problem, indices = state.active.problem, state.active.rows
        dual, margins = state.dual[:, indices], state.margins[:, indices]
    intercepts = problem.middle_intercepts(dual, margins) if balanced else problem.intercepts(margins)
    return indices, problem.conjugate.subgradient_distance(problem.shifted(margins, intercepts), dual)


def _shrink(state: State) -> None:
    """Shrink rows: first three quarters of a large problem, later those likely to stay at zero."""
    problem, cache = state.problem, state.cache or state.max_cache_bytes
    state.unshrink_gap = _SHRINK_SETTINGS.gap_share * state.whole_gap
    if not state.passes and not state.dual.any() and problem.n_rows > _SHRINK_SETTINGS.large:
        few = np.sort(state.rng.permutation(problem.n_rows)[: problem.n_rows // 4])
        state.active = ActiveRows.of(problem, state.dual, few, cache)
        state.unshrink_at = _SHRINK_SETTINGS.passes_on_quarter
    elif state.passes >= _SHRINK_SETTINGS.first_pass:
        state.active = ActiveRows.choose(problem, state.dual, state.margins, _SHRINK_SETTINGS.distance, cache)
        state.unshrink_at = state.passes + _SHRINK_SETTINGS.max_passes


def may_stay_shrunk(state: State) -> bool:
    """Return whether some rows are shrunk and may stay so."""
    if state.active is None or state.passes >= state.unshrink_at:
        return False
    if state.limits.deadline is not None and not state.limits.allow(2 * seconds_to_unshrink(state)):
        return False  # All rows must count in the result at the time limit.
    return state.active.gap(state.dual, state.margins) > max(state.limits.tol, state.unshrink_gap)


def seconds_to_unshrink(state: State) -> float:
    """Estimate the seconds that `unshrink` would take, from past updates of margins."""
    active = state.active
    return 0.0 if active is None else state.stopwatch.seconds_for(active.evaluations_to_unshrink(state.dual))


def unshrink(state: State) -> None:
    """Undo shrinking: bring all margins up to date, and make all rows active."""
    if state.active is not None:
        with state.stopwatch.timing(state.problem.kernel):
            state.active.unshrink(state.problem, state.dual, state.margins)
        state.cache, state.active = state.active.cache, None
