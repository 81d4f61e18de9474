"""Choice of blocks, which is a property of the loss.

"permutation": once a pass the rows that are nonzero or violated, in random blocks or, every second pass, in blocks of
near neighbours, whose strongly coupled coefficients are solved for together. On ten fits of five data sets this took
0.62 to 1.00 times the kernel evaluations of random blocks alone (figures are those of bench/scripts/bench_cited.py);
neighbours in all passes but the first can take many more. With several outputs three passes of four are of neighbours,
rows that the same outputs move. Rows whose coefficient is zero at its optimality condition are left out of a pass,
which saves most on Optimal margin Distribution Machines with large ``lam``.

"greedy", for losses whose coefficients are never negative (hinge, squared hinge), of which few move: passes of blocks
of near neighbours over the rows that are inside their box or violated, and between them blocks of the worst violators,
as many whose decision value must rise as must fall, with half of the previous such block. Without that balance the
hinge zigzags; without neighbours it took five times the kernel evaluations on 20,000 rows of covtype (C=32, gamma=32),
where nearly all support vectors are free. A quarter of the rows begins alone (a fifth fewer evaluations on ijcnn1 and
cod-rna, but a quarter more on covtype). From the third pass on, rows whose zero coefficients are far from moving rest,
and where kernel values are expensive, kernel rows of the coefficients that move are remembered (`ActiveRows`). All rows
wake before a gap is believed. Where values are very expensive, and there is memory for it, whole kernel rows are
remembered, and no row rests: on reuters (7,770 sparse rows of 44 numbers, C=8) 0.31 n^2 values are computed.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dimargin.problems.dual import DualProblem
from dimargin.solvers.active import ActiveRows
from dimargin.solvers.neighbours import deal_neighbours
from dimargin.solvers.state import State
from dimargin.system.arrays import Floats, Indices

_GREEDY_BLOCKS = 6  # of the worst violators after a pass of neighbours, at most
_LARGE, _PASSES_ALONE = 4096, 3  # rows from which a quarter of them begins alone, and for how many passes
_PASSES_AWAKE = 2  # before rows may rest
_PASSES_ASLEEP = 20  # after which they wake in any case
_SURE = 0.1  # margin beyond the kink, in units of the slope there, at which a zero coefficient rests
# All rows wake when the gap of the active ones has come down to this part of the last whole gap. On five data sets 0.4
# took 1.06 to 1.32 times the kernel values, and 0.02 0.97 to 1.10 times (bench/scripts/bench_cited.py).
_WAKE = 0.05


def block_size(problem: DualProblem, n_rows: int) -> int:
    """Return the rows of a block in a pass over `n_rows`: more if kernel values are expensive, or pair steps are taken.

    Small blocks leave more work to the kernel, large ones to the factorisations; the Gram matrix of 256 rows stays in
    the second-level cache. The hinge's grow with the rows, because large ones are worth it where many rows are free.
    """
    if problem.loss.selection == "greedy":
        return min(1024, max(512, n_rows // 12))
    return 512 if problem.kernel.expensive else 256


def canonical_order(problem: DualProblem) -> Indices:
    """Return an order of the rows by their content, so that a small fit does not depend on the order given."""
    rows = problem.kernel.rows(np.arange(problem.n_rows))
    if sp.issparse(rows):
        parts = (rows[[i]] for i in range(problem.n_rows))
        keys = [(part.indices.tobytes(), part.data.tobytes()) for part in parts]
    else:
        keys = [(np.ascontiguousarray(row).tobytes(), b"") for row in rows]
    labelled = [(key, problem.labels[:, i].tobytes(), problem.weights[i]) for i, key in enumerate(keys)]
    return np.array(sorted(range(problem.n_rows), key=labelled.__getitem__), dtype=np.int64)


def next_block(state: State) -> Indices:
    """Return the rows to be solved next; a new pass begins when all blocks of the last one have been visited."""
    if state.order is not None:
        return state.order
    if not state.queue:
        _begin_pass(state)
    block = state.queue.pop()
    return _worst_violators(state) if block is None else block


def upcoming_block(state: State) -> Indices | None:
    """Return the rows to be solved next where they may be begun with before the margins of all rows are up to date.

    They may within a pass, until the gap is due. The hinge's next block is often that of the worst violators, for which
    all margins are needed; and where kernel values are expensive, a block takes little of the time.
    """
    if state.unchecked or not state.queue or state.problem.loss.selection == "greedy" or state.problem.kernel.expensive:
        return None
    return state.queue.pop()


def _begin_pass(state: State) -> None:
    """Deal the rows that may move into blocks: at random, and of near neighbours, in turn."""
    problem, rng, greedy = state.problem, state.rng, state.problem.loss.selection == "greedy"
    if greedy and state.active is None and state.whole_rows is None:
        _let_rest(state)
    indices, violation = _violations(state, balanced=not state.passes)
    dual, lower, upper = state.dual[:, indices], problem.conjugate.lower[indices], problem.conjugate.upper[indices]
    resting = (dual == lower) | (dual == upper) if greedy else dual == 0
    rows = indices[(~resting | (violation != 0)).any(axis=0)]
    if not len(rows):
        rows = indices
    # rows left out of the pass count as visited: their optimality was checked
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
    if greedy:  # popped from the end
        state.queue = [*[None] * min(_GREEDY_BLOCKS, 1 + n_blocks // 2), *state.queue]


def _worst_violators(state: State) -> Indices:
    """Return a block: half of it the worst violators, as many that must rise as must fall, half from the last one."""
    indices, violation = _violations(state, balanced=True)
    direction = state.problem.labels[:, indices] * violation
    direction = direction[np.abs(direction).max(axis=1).argmax()]
    half = state.block_size // 4
    fresh = indices[np.union1d(_largest(direction, half), _largest(-direction, half))]
    awake = np.zeros(state.problem.n_rows, dtype=bool)
    awake[indices], awake[fresh] = True, False
    previous = state.previous[awake[state.previous]]
    conjugate, dual = state.problem.conjugate, state.dual[:, previous]
    free = ((dual != conjugate.lower[previous]) & (dual != conjugate.upper[previous])).any(axis=0)
    previous = state.rng.permutation(previous[free])[: state.block_size - len(fresh)]
    block = np.union1d(fresh, previous)
    if not len(block):  # nothing left to move, and yet the gap is too large: it is rounding
        block = np.sort(state.rng.choice(indices, min(len(indices), state.block_size), replace=False))
    state.previous = block
    return block


def _largest(score: Floats, count: int) -> Indices:
    """Return the indices of the largest positive scores, at most `count`."""
    indices = np.flatnonzero(score > 0)
    return indices[np.argpartition(-score[indices], count)[:count]] if len(indices) > count else indices


def _violations(state: State, balanced: bool = False) -> tuple[Indices, Floats]:
    """Return the indices of the active rows, and the signed distance of each from its optimality condition.

    With an intercept, distances are for the one that is best for the primal or, if `balanced`, for the one halfway
    between the largest score that may rise and the smallest that may fall. There is always one row of each kind then.
    """
    if state.active is None:
        problem, indices, dual, margins = state.problem, np.arange(state.problem.n_rows), state.dual, state.margins
    else:
        problem, indices = state.active.problem, state.active.rows
        dual, margins = state.dual[:, indices], state.margins[:, indices]
    intercepts = problem.middle_intercepts(dual, margins) if balanced else problem.intercepts(margins)
    return indices, problem.conjugate.subgradient_distance(problem.shifted(margins, intercepts), dual)


def _let_rest(state: State) -> None:
    """Let rows rest: at first all but a quarter of a large problem, later those whose coefficients stay at zero."""
    problem, cache = state.problem, state.cache or state.memory
    if not state.passes and not state.dual.any() and problem.n_rows > _LARGE:
        few = np.sort(state.rng.permutation(problem.n_rows)[: problem.n_rows // 4])
        state.active = ActiveRows.of(problem, state.dual, few, cache)
        state.wake_at, state.wake_gap = _PASSES_ALONE, _WAKE * state.whole_gap
    elif state.passes >= _PASSES_AWAKE:
        state.active = ActiveRows.choose(problem, state.dual, state.margins, _SURE, cache)
        state.wake_at, state.wake_gap = state.passes + _PASSES_ASLEEP, _WAKE * state.whole_gap


def may_rest_on(state: State) -> bool:
    """Return whether some rows rest and need not wake yet."""
    if state.active is None or state.passes >= state.wake_at:
        return False
    if state.limits.deadline is not None and not state.limits.allow(2 * seconds_to_wake(state)):
        return False  # the answer at the time limit shall be that of all rows
    return state.active.gap(state.dual, state.margins) > max(state.limits.tol, state.wake_gap)


def seconds_to_wake(state: State) -> float:
    """Return the seconds that `wake` would take, as updates of margins took so far; zero if no row rests."""
    return 0.0 if state.active is None else state.stopwatch.seconds_for(state.active.evaluations_to_wake(state.dual))


def wake(state: State) -> None:
    """Bring the margins of resting rows up to date, if there are any; from now on all rows are active."""
    if state.active is not None:
        with state.stopwatch.timing(state.problem.kernel):
            state.active.wake(state.problem, state.dual, state.margins)
        state.cache, state.active = state.active.cache, None
