"""Block coordinate descent on the single-variable dual: the exact solver, for every loss.

A block of at most `block_size` rows is solved (nearly) exactly by the compiled core on its own Gram matrix, by sweeps
of coordinate steps and Newton steps on the free coefficients (handbook, sections 2.2 and F5); then the margins of
*all* rows are updated from the rows of the block that changed, in one fused product without storing the kernel:
memory is O(n d). Rows whose coefficient is zero and wants to stay there are left out of a pass, which on Optimal
margin Distribution Machines with large ``lam`` halves the kernel evaluations.

How blocks are chosen is a property of the loss. "permutation": the rows that are nonzero or violated, once a pass, in
random blocks and, every second pass, in blocks of near neighbours, whose strong couplings are settled together: on 18
fits of six data sets, in blocks of 512, this took 0.47 to 1.14 times the kernel evaluations of random blocks alone
(neighbours in all passes but the first: up to 4 times those of every second pass). With several outputs three passes of
four are of neighbours, rows that the same outputs move (usps, ten classes: 5 to 10% fewer evaluations than every second
pass at lam of 1e5 and above, as many at 1e3).

"greedy", for losses whose coefficients are never negative (hinge, squared hinge), of which few move: passes of blocks
of near neighbours over the rows that are inside their box or violated, and between them blocks of the worst violators,
as many whose decision value must rise as must fall, with half of the previous such block (without that balance the
hinge zigzags; without neighbours it took six times the kernel evaluations on covtype, C=32, gamma=32, where nearly all
of 17,000 support vectors are free). A block is solved by pair steps of second order. A quarter of the rows begins alone
(a fifth fewer evaluations on ijcnn1); from the third pass on, rows whose zero coefficient is sure of itself rest, and
kernel rows of the coefficients that move are remembered (`ActiveRows`); all wake before a gap is believed. With an
intercept b every block keeps ``sum_i y_i g_i``, and b is the best for the primal, found exactly.

Precision. Solves run on float32 kernel values. Problems of at most `small` rows are solved on float64 values, in
canonical order, to rounding. A gap that meets `tol` is compared with float64 kernel values on a sample of rows before
it is believed. Where rounding could matter to it, when `tol` is below 1e-4, or when float32 stalls, margins are
recomputed with float64 kernel values and the solve goes on with those; the certificate is then that of the float64
kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin import _core
from dimargin.kernels import Indices
from dimargin.solution import DualProblem, Floats, Objectives, Solution, Status
from dimargin.solvers.active import ActiveRows, RowCache
from dimargin.solvers.loop import Limits, Solver
from dimargin.solvers.neighbours import deal_neighbours

_CHECKS_PER_PASS = 8
_SINGLE_PRECISION_TOL = 1e-4  # below it a certificate needs float64 kernel values
_SAMPLE = 256  # draws of rows on which float32 margins are compared with float64 ones
_COLUMNS_AT_ONCE = 65536
_TRUSTED = 0.03  # relative error of a gap that may come from float32
_TRUSTED_OBJECTIVE = 0.1  # error of an objective, in gaps
_NEGLIGIBLE = 5e-10  # and absolute error of a relative gap
_EPSILON = float(np.finfo(float).eps)
_TINY = float(np.finfo(float).tiny)
_FINISHED, _REFINEMENTS = 1e-12, 3  # gap of a problem of one block, and passes to reach it
# passes without improvement after which precision is to blame; single precision is cheap to leave
_PATIENCE = {np.float32: 4, np.float64: 12}
_SLACK = 1e-3  # of the primal objective, by which a dual one may fall back without alarm
_PROGRESS = 1e-12  # rise of the dual objective, relative, that is not rounding
_PAIR_ROUNDING = {
    np.float32: 1e-5,
    np.float64: 1e-13,
}  # violation inside a block that is rounding, for margins near one
_CHEAP_NUMBERS = 128  # of a row, up to which kernel values are cheap beside factorisations
_PASSES_AWAKE = 2  # before rows may rest
_SURE = 0.2  # margin beyond the kink, in units of the slope there, at which a zero coefficient rests
_WAKE = 0.1  # all rows wake when the gap of the active ones has come down to this part of the last whole gap
_PASSES_ASLEEP = 20  # or after so many passes
_LARGE, _PASSES_ALONE = 4096, 3  # rows from which a quarter of them begins alone, and for how many passes
_GREEDY_BLOCKS = 8  # of the worst violators after a pass of neighbours, at most
CACHE = 2**31  # bytes of remembered kernel rows by default


@dataclass
class _Best:
    """The iterate with the smallest gap, output by output."""

    dual: Floats
    margins: Floats
    primal: Floats
    dual_objective: Floats
    gap: Floats
    intercept: Floats

    @classmethod
    def of(cls, problem: DualProblem, dual: Floats, margins: Floats) -> _Best:
        now = problem.objectives(dual, margins)
        return cls(dual.copy(), margins.copy(), now.primal, now.dual, now.relative_gap, now.intercept)

    def update(self, outputs: Indices, dual: Floats, margins: Floats, objectives: Objectives) -> None:
        better = objectives.relative_gap < self.gap[outputs]
        places = outputs[better]
        self.dual[places], self.margins[places] = dual[better], margins[better]
        self.primal[places] = objectives.primal[better]
        self.dual_objective[places] = objectives.dual[better]
        self.gap[places] = objectives.relative_gap[better]
        self.intercept[places] = objectives.intercept[better]

    @property
    def objectives(self) -> Objectives:
        return Objectives(self.primal.copy(), self.dual_objective.copy(), self.gap.copy(), self.intercept.copy())


@dataclass
class _State:
    whole: DualProblem
    problem: DualProblem  # of the outputs that have not met the tolerance yet
    outputs: Indices  # which those are
    limits: Limits
    rng: np.random.Generator
    dual: Floats
    margins: Floats
    pieces: Floats
    order: Indices | None  # canonical order of a problem of one block
    best: _Best
    block_size: int
    spent: int = 0  # evaluations of kernels left behind
    since_check: int = 0  # rows visited since the last check
    visited: int = 0  # rows visited in all
    passes: int = 0  # begun
    queue: list[Indices | None] = field(default_factory=list)  # blocks of the pass; None: the worst violators then
    active: ActiveRows | None = None  # while others rest
    wake_at: int = 0  # passes after which they wake in any case
    cache: RowCache | None = None  # of the active rows, the last time that others rested
    whole_gap: float = np.inf  # at the last check of all rows
    previous: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    unchecked: bool = True
    improved_at: int = 0  # rows visited at the last improvement
    reached: tuple[float, Floats] = (np.inf, np.empty(0))  # worst gap and dual objectives then

    def focus(self, outputs: Indices) -> None:
        """Go on with some of the present outputs: not from their best iterates, whose dual objective may be lower."""
        kept = np.isin(self.outputs, outputs)
        self.dual, self.margins = self.dual[kept], self.margins[kept]
        self.outputs = outputs
        self.problem = self.whole.select(outputs)


@dataclass(frozen=True)
class BlockCoordinateDescent(Solver[_State]):
    """Block coordinate descent.

    Parameters
    ----------
    block_size : int, optional
        Rows of a block: small blocks leave more work to the kernel, large ones to the factorisations. By default 256,
        whose Gram matrix stays in the second-level cache, and 512 where a row holds more than 128 numbers, so that
        kernel values are dear, or where pairs make a block cheap (of {128, 192, 256, 320, 384} 256 was within 10% of
        the fastest in 10 of 16 fits on eight data sets; on usps, with 256 columns and ten classes, 512 takes 5 to 11%
        less time; the hinge on covtype takes 13, 11 and 8 s with 256, 512 and 1,024 rows on one thread).
    small : int, default=512
        A problem of at most so many rows is a single block, solved to rounding.
    cache : int, default=2 GiB
        Bytes of remembered kernel rows, at most.
    random_state : int or numpy Generator seed, default=0
        Seeds the order of the rows.
    """

    block_size: int | None = None
    small: int = 512
    cache: int = CACHE
    random_state: int = 0

    def init(self, problem: DualProblem, start: Floats | None, limits: Limits) -> _State:
        """Margins of the start cost one pass over its support."""
        order = None
        if problem.n_rows <= self.small:
            order = _canonical_order(problem)
            problem = problem.with_kernel(problem.kernel.in_float64())
        before = problem.kernel.evaluations
        dual = np.zeros(problem.labels.shape)
        if start is not None:
            dual = problem.feasible(np.ascontiguousarray(start, dtype=np.float64))
        margins = problem.margins(dual) if dual.any() else np.zeros_like(dual)
        return _State(
            whole=problem,
            problem=problem,
            outputs=np.arange(len(dual)),
            limits=limits,
            rng=np.random.default_rng(self.random_state),
            dual=dual,
            margins=margins,
            pieces=problem.pieces.stack(),
            order=order,
            best=_Best.of(problem, dual, margins),
            spent=-before,
            reached=(np.inf, np.full(len(dual), -np.inf)),
            block_size=self.block_size or _block_size(problem),
        )

    def evaluations(self, state: _State) -> int:
        """Kernel values computed so far."""
        return state.spent + state.whole.kernel.evaluations

    def check(self, state: _State) -> Objectives | None:
        """Gap, an eighth of a pass after the last check; outputs that meet the tolerance rest from then on."""
        if not state.unchecked:
            return None
        state.unchecked = False
        state.since_check = 0
        if state.active is not None:
            goal = max(state.limits.tol, _WAKE * state.whole_gap)
            if state.passes < state.wake_at and state.active.gap(state.dual, state.margins) > goal:
                return None
            _wake(state)
        objectives = state.problem.objectives(state.dual, state.margins)
        state.whole_gap = objectives.worst_gap
        if _derailed(state, objectives):
            _go_on_in_float64(state)
            objectives = state.best.objectives
        state.best.update(state.outputs, state.dual, state.margins, objectives)
        _note_progress(state, objectives)
        if state.best.gap.max() <= state.limits.tol and not state.whole.kernel.double:
            _certify(state)
        unmet = state.outputs[state.best.gap[state.outputs] > state.limits.tol]
        if state.order is None and 0 < len(unmet) < len(state.outputs):
            state.focus(unmet)
        return state.best.objectives

    def verdict(self, state: _State, objectives: Objectives) -> tuple[Status, str] | None:
        """Whether the tolerance is met, on kernel values precise enough to say so."""
        tol, n = state.limits.tol, state.whole.n_rows
        stalled = state.visited - state.improved_at > _PATIENCE[state.whole.kernel.transform.dtype] * n
        met = objectives.worst_gap <= tol and tol >= _EPSILON  # a smaller one is luck
        if state.order is not None and objectives.worst_gap > (_FINISHED if state.visited else 0.0):
            met &= state.visited >= _REFINEMENTS * n  # a problem of one block is always finished
        if met:
            return "converged", f"relative gap {objectives.worst_gap:.2e} <= tol {tol:.2e}"
        if stalled and not state.whole.kernel.double:
            _go_on_in_float64(state)
            return None
        if stalled:
            return "precision", (
                f"the relative gap stays at {objectives.worst_gap:.2e}: tol={tol:.2e} is below what float64 kernel "
                "values can certify here"
            )
        if state.visited >= state.limits.max_iter * n:
            return "max_iter", f"max_iter={state.limits.max_iter} passes were done"
        return None

    def step(self, state: _State) -> None:
        """Solve one block and update the margins of all rows."""
        problem, n = state.problem, state.problem.n_rows
        block = self._next_block(state)
        one_block, pairs = state.order is not None, problem.loss.selection == "greedy"
        change = np.empty((len(problem.labels), len(block)))
        arguments = block, state.pieces, problem.labels, state.dual
        threads = problem.kernel.n_threads
        margins = state.margins[:, block].copy()
        if pairs and not one_block:
            _core.solve_pairs(
                problem.kernel.values(block, block), *arguments, state.margins, change, problem.intercept,
                tolerance=0.1, absolute=_PAIR_ROUNDING[problem.kernel.transform.dtype],
                max_steps=30, n_threads=threads,
            )  # fmt: skip
        else:
            _core.solve_block(
                problem.kernel.block(block, block), *arguments, state.margins, change, problem.intercept,
                tolerance=0.0 if one_block else 0.1, absolute=0.0, max_steps=200 if one_block else 2,
                n_threads=threads,
            )  # fmt: skip
        state.margins[:, block] = margins
        changed = np.flatnonzero(change.any(axis=0))
        if one_block:
            # margins afresh: accumulated differences would leave their rounding in the certificate
            state.margins = problem.margins(state.dual)
        elif state.active is None:
            state.margins += problem.labels * problem.kernel.multiply(block[changed], change[:, changed])
        else:
            state.active.add(state.margins, block[changed], change[:, changed])
        state.visited += len(block)
        state.since_check += len(block)
        end_of_pass = pairs and not state.queue
        state.unchecked = one_block or end_of_pass or state.since_check * _CHECKS_PER_PASS >= n

    def _next_block(self, state: _State) -> Indices:
        if state.order is not None:
            return state.order
        if not state.queue:
            self._begin_pass(state)
        block = state.queue.pop()
        return self._worst_violators(state) if block is None else block

    def _begin_pass(self, state: _State) -> None:
        """Deal the rows that may move into blocks: at random, and of near neighbours, in turn."""
        problem, rng, greedy = state.problem, state.rng, state.problem.loss.selection == "greedy"
        if greedy and state.active is None:
            self._let_rest(state)
        places, violation = _violations(state, balanced=not state.passes)
        dual = state.dual[:, places]
        resting = (
            (dual == 0)
            if not greedy
            else (dual == problem.pieces.lower[places]) | (dual == problem.pieces.upper[places])
        )
        rows = places[(~resting | (violation != 0)).any(axis=0)]
        if not len(rows):
            rows = places
        # rows left out of the pass count as visited: they were looked at
        state.visited += problem.n_rows - len(rows)
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

    def _let_rest(self, state: _State) -> None:
        """At the beginning all but a few rows of a large problem; later those that are sure of their zero."""
        problem, cache = state.problem, state.cache or self.cache
        if not state.passes and not state.dual.any() and problem.n_rows > _LARGE:
            few = np.sort(state.rng.permutation(problem.n_rows)[: problem.n_rows // 4])
            state.active = ActiveRows.of(problem, state.dual, few, cache)
            state.wake_at = _PASSES_ALONE
        elif state.passes >= _PASSES_AWAKE:
            state.active = ActiveRows.choose(problem, state.dual, state.margins, _SURE, cache)
            state.wake_at = state.passes + _PASSES_ASLEEP

    def _worst_violators(self, state: _State) -> Indices:
        """Half a block of the rows that violate most, as many that must rise as must fall, and half the last one."""
        places, violation = _violations(state, balanced=True)
        direction = state.problem.labels[:, places] * violation
        direction = direction[np.abs(direction).max(axis=1).argmax()]
        half = state.block_size // 4
        fresh = places[np.union1d(_largest(direction, half), _largest(-direction, half))]
        previous = np.setdiff1d(state.previous, fresh)
        if state.active is not None:
            previous = previous[np.isin(previous, places)]
        pieces, dual = state.problem.pieces, state.dual[:, previous]
        free = ((dual != pieces.lower[previous]) & (dual != pieces.upper[previous])).any(axis=0)
        previous = state.rng.permutation(previous[free])[: state.block_size - len(fresh)]
        block = np.union1d(fresh, previous)
        if not len(block):  # nothing left to move, and yet the gap is too large: it is rounding
            block = np.sort(state.rng.choice(places, min(len(places), state.block_size), replace=False))
        state.previous = block
        return block

    def finish(self, state: _State, status: Status, reason: str, history: list[dict[str, Any]]) -> Solution:
        """The iterate with the smallest gap, output by output."""
        return Solution(
            dual=state.best.dual,
            margins=state.best.margins,
            objectives=state.best.objectives,
            status=status,
            reason=reason,
            passes=max(1, -(-state.visited // state.whole.n_rows)),
            kernel_evaluations=self.evaluations(state),
            history=history,
        )


def _block_size(problem: DualProblem) -> int:
    dear = problem.kernel.numbers_per_row > _CHEAP_NUMBERS
    return 512 if dear or problem.loss.selection == "greedy" else 256


def _violations(state: _State, balanced: bool = False) -> tuple[Indices, Floats]:
    """Places of the active rows, and how far and in which direction each is from its optimality condition.

    With an intercept, for the one that is best for the primal or, `balanced`, for the one in the middle between the
    largest score that may rise and the smallest that may fall: there is always one row of each kind then.
    """
    if state.active is None:
        problem, places, dual, margins = state.problem, np.arange(state.problem.n_rows), state.dual, state.margins
    else:
        problem, places = state.active.problem, state.active.rows
        dual, margins = state.dual[:, places], state.margins[:, places]
    intercepts = problem.middle_intercepts(dual, margins) if balanced else problem.intercepts(margins)
    return places, problem.pieces.subgradient_distance(problem.shifted(margins, intercepts), dual)


def _wake(state: _State) -> None:
    if state.active is not None:
        state.active.wake(state.problem, state.dual, state.margins)
        state.cache, state.active = state.active.cache, None


def _note_progress(state: _State, objectives: Objectives) -> None:
    """The dual objective always rises, the gap comes down in leaps; neither any more means rounding."""
    gap, reached = state.best.gap.max(), state.reached[1][state.outputs]
    # float32 values make the dual objective wander, and it is cheap to leave them
    rising = state.whole.kernel.double and (objectives.dual > reached + _PROGRESS * objectives.primal).any()
    if gap < 0.9 * state.reached[0] or rising:
        state.improved_at = state.visited
        state.reached[1][state.outputs] = np.maximum(objectives.dual, reached)
        state.reached = gap, state.reached[1]


def _certify(state: _State) -> None:
    """Whether a gap that meets the tolerance does so for float64 kernel values; if in doubt, go on with those."""
    best, problem = state.best, state.whole
    if state.limits.tol < _SINGLE_PRECISION_TOL:
        return _go_on_in_float64(state)
    n = problem.n_rows
    # any chances will do; the sums below vary least where rows with steep terms come up most
    margins = problem.shifted(best.margins, best.intercept)
    steepness = np.abs(np.stack([problem.pieces.subgradient_distance(margins, best.dual), best.dual]))
    steepness /= steepness.sum(axis=-1, keepdims=True) + _TINY
    chance = steepness.mean(axis=(0, 1)) + 1 / n
    chance /= chance.sum()
    drawn = state.rng.choice(n, _SAMPLE, p=chance)
    extreme = np.argsort(np.abs(best.margins).max(axis=0))[-_SAMPLE // 4 :]  # errors are largest where margins are
    rows, places = np.unique(np.concatenate([drawn, extreme]), return_inverse=True)
    errors = _float64_margins(state, rows) - best.margins[:, rows]
    largest = 2 * np.abs(errors).max(axis=1, keepdims=True) + _TINY
    shares = problem.gaps(best.dual, margins)
    lower, upper = (problem.gaps(best.dual, margins + shift) - shares for shift in (-largest, largest))
    # Terms of the gap are convex in their margins: their bend is counted as if every error were the largest. Their
    # slopes times the errors, of either sign, are summed by the sample: all of them in their worst direction, which
    # never happens, would cost a needless float64 pass, a sixth of a fit.
    bend = np.maximum(upper + lower, 0).sum(axis=1) / 2
    slopes = np.stack([(upper - lower) / (2 * largest), best.dual / 2])  # of the gap, and of the objectives
    terms = slopes[..., drawn] * errors[:, places[:_SAMPLE]] / chance[drawn]
    gap_error, objective_error = np.abs(terms.mean(axis=-1)) + 3 * terms.std(axis=-1) / np.sqrt(_SAMPLE)
    size = np.maximum(np.abs(best.primal), _TINY)
    change = (gap_error + bend) / size
    trusted = change <= np.maximum(_TRUSTED * best.gap, _NEGLIGIBLE)
    trusted &= objective_error / size <= np.maximum(_TRUSTED_OBJECTIVE * best.gap, _NEGLIGIBLE)
    if not (trusted & (best.gap + change <= state.limits.tol)).all():
        _go_on_in_float64(state)


def _float64_margins(state: _State, rows: Indices) -> Floats:
    """Margins of some rows; columns some at a time, for the memory of their float64 copies."""
    problem, dual = state.whole, state.best.dual
    support = np.flatnonzero(dual.any(axis=0))
    values = np.zeros((len(dual), len(rows)))
    for first in range(0, len(support), _COLUMNS_AT_ONCE):
        columns = support[first : first + _COLUMNS_AT_ONCE]
        together, places = np.unique(np.concatenate([rows, columns]), return_inverse=True)
        exact = problem.kernel.take(together).in_float64()
        signed = (problem.labels * dual)[:, columns]
        values += exact.multiply(places[len(rows) :], signed, places[: len(rows)])
        state.spent += exact.evaluations
    return problem.labels[:, rows] * values


def _derailed(state: _State, objectives: Objectives) -> bool:
    """Whether rounding has taken over: the dual objective never falls, and never passes a primal one."""
    best, now = state.best, state.outputs
    slack = _SLACK * np.abs(best.primal[now])
    low, high = best.dual_objective[now] - slack, best.primal[now] + slack
    return not bool(((objectives.dual >= low) & (objectives.dual <= high)).all())


def _go_on_in_float64(state: _State) -> None:
    """From the best iterate, with its margins computed afresh."""
    dual = state.best.dual
    if not state.whole.kernel.double:
        state.spent += state.whole.kernel.evaluations
        state.whole = state.whole.with_kernel(state.whole.kernel.in_float64())
        state.improved_at = state.visited
        state.reached = np.inf, np.full(len(dual), -np.inf)
    state.best = _Best.of(state.whole, dual, state.whole.margins(dual))
    state.dual, state.margins = dual.copy(), state.best.margins.copy()
    state.outputs, state.problem = np.arange(len(dual)), state.whole
    state.queue, state.active, state.cache = [], None, None


def _canonical_order(problem: DualProblem) -> Indices:
    """Rows sorted by their content, so that a small fit does not depend on the order of the rows."""
    rows = problem.kernel.rows(np.arange(problem.n_rows))
    if sp.issparse(rows):
        parts = (rows[[i]] for i in range(problem.n_rows))
        keys = [(part.indices.tobytes(), part.data.tobytes()) for part in parts]
    else:
        keys = [(np.ascontiguousarray(row).tobytes(), b"") for row in rows]
    labelled = [(key, problem.labels[:, i].tobytes(), problem.weights[i]) for i, key in enumerate(keys)]
    return np.array(sorted(range(problem.n_rows), key=labelled.__getitem__), dtype=np.int64)


def _largest(score: Floats, count: int) -> Indices:
    """Places of the largest positive scores, at most `count`."""
    places = np.argpartition(-score, count)[:count] if len(score) > count else np.arange(len(score))
    return places[score[places] > 0]
