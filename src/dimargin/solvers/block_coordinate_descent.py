"""Block coordinate descent on the single-variable dual: the exact solver, for every loss.

A block of rows is solved (nearly) exactly by the compiled core on its Gram matrix, by sweeps of
coordinate steps and Newton steps on the free coefficients (docs/algorithms.md#newton-steps), or by
second-order pair steps for losses with nonnegative coefficients. Then one fused product updates the
margins of *all* rows without storing the kernel: memory is O(n d). The module `blocks` chooses the
next rows, `precision` the precision of kernel values. If the next block is known, one thread solves
it while the others update the margins. For a local kernel rows are ordered along their neighbours,
so that values between distant rows are left out (see `KernelMatrix`): three of four on 40,000 rows
of covtype (gamma=32).

Problems of at most `small` rows are one block, solved up to rounding, on float64 values and in
canonical order. With an intercept b every block keeps ``sum_i y_i g_i``, and b is the exact optimum
of the primal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from dimargin import _core
from dimargin.problems.dual import DualProblem
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, Solution, Status
from dimargin.solvers.active import RowCache
from dimargin.solvers.blocks import (
    canonical_order,
    may_stay_shrunk,
    next_block,
    seconds_to_unshrink,
    unshrink,
    upcoming_block,
)
from dimargin.solvers.handover import is_newton_faster, newton_step, switch_to_newton
from dimargin.solvers.loop import Limits, Solver, Verdict, converged
from dimargin.solvers.neighbours import along_neighbours
from dimargin.solvers.precision import (
    certify,
    continue_in_float64,
    count_rounding,
    float64_in_time,
    is_derailed,
    note_progress,
    stalled,
)
from dimargin.solvers.state import Best, BlockSolve, State
from dimargin.system.arrays import UNIT, Floats, Indices

CACHE = 2**31  # Default number of bytes of cached kernel rows.
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _may_overflow(method: _Method) -> _Method:
    """Silence warnings of a method whose coefficients may overflow by rounding.

    With `numpy.errstate` as a decorator all threads would share one state, which NumPy 1 does not
    allow.
    """

    @wraps(method)
    def quiet(*arguments: Any) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            return method(*arguments)

    return cast(_Method, quiet)


@dataclass(frozen=True)
class BlockCoordinateDescent(Solver[DualProblem, State, Solution]):
    """Block coordinate descent on the dual problem.

    Parameters
    ----------
    cache : int, default=2 GiB
        Largest number of bytes of cached kernel rows. Nothing is cached where kernel values are
        cheap: for rows of up to some hundred numbers a new memory page costs more than computing
        its values.
    random_state : int or numpy Generator seed, default=0
        Seed of the order of the rows.
    gram : int, default=2 GiB
        Largest number of bytes of a kernel matrix that is factored (`dimargin.solvers.handover`) or
        cached in full (`dimargin.solvers.active`). It must not depend on the number of threads,
        because the results depend on it.
    is_certified : bool, default=True
        Check a gap on float32 kernel values with float64 ones before it is believed. A solver that
        certifies the result itself may leave this out.

    Attributes
    ----------
    small : int
        Problems of at most this many rows are a single block, solved up to rounding.
    """

    small: ClassVar[int] = 512
    cache: int = CACHE
    random_state: int = 0
    gram: int = CACHE
    is_certified: bool = True

    def init(self, problem: DualProblem, start: Floats | None, limits: Limits) -> State:
        """Return the state at a start, whose margins take one pass over its support."""
        order = indices = None
        if problem.n_rows <= self.small:
            order = canonical_order(problem)
            problem = problem.with_kernel(problem.kernel.in_float64())
        elif problem.kernel.local:
            indices = along_neighbours(problem.kernel)
            problem = problem.restrict(indices, problem.mass)
        before = problem.kernel.evaluations
        dual = np.zeros(problem.labels.shape)
        if start is not None:
            start = start if indices is None else start[:, indices]
            dual = problem.feasible(np.ascontiguousarray(start, dtype=np.float64))
        margins = problem.margins(dual) if dual.any() else np.zeros_like(dual)
        whole_rows = None if order is not None else RowCache.of_whole_rows(problem, self.gram)
        share = problem.best_scale(dual, margins)
        if (share < 1).any():
            # Scaling rounds the coefficients, so that margins of linear machines are recomputed.
            dual = share * dual
            margins = problem.margins(dual) if problem.kernel.has_weights else share * margins
        return State(
            limits=limits,
            rng=np.random.default_rng(self.random_state),
            max_cache_bytes=self.cache if problem.kernel.expensive else 0,
            max_gram_bytes=self.gram,
            order=order,
            indices=indices,
            conjugate=problem.conjugate.stack(),
            whole=problem,
            problem=problem,
            outputs=np.arange(len(dual)),
            dual=dual,
            margins=margins,
            best=Best.of(problem, dual, margins),
            spent=-before,
            whole_rows=whole_rows,
        )

    def evaluations(self, state: State) -> int:
        """Return the number of kernel values computed so far."""
        return state.spent + state.whole.kernel.evaluations

    @_may_overflow
    def check(self, state: State) -> Objectives | None:
        """Return the objectives every eighth of a pass, and drop outputs that meet `tol`."""
        if not state.unchecked:
            return None
        state.unchecked = False
        state.since_check = 0
        if may_stay_shrunk(state):
            return None
        unshrink(state)
        state.make_feasible()
        objectives = state.objectives()
        state.whole_gap = objectives.worst_gap
        if is_derailed(state, objectives):
            continue_in_float64(state)
            objectives = state.best.objectives
        state.best.update(state.outputs, state.dual, state.margins, objectives)
        note_progress(state, objectives)
        if state.best.objectives.worst_gap <= state.limits.tol and not state.whole.kernel.double:
            if self.is_certified:
                certify(state)
        elif state.should_recompute_margins():
            continue_in_float64(state)
        elif state.newton is None:
            state.is_newton_due = is_newton_faster(state, objectives, self.gram)
        unmet = state.outputs[~state.best.objectives.met(state.limits.tol)[state.outputs]]
        if state.order is None and 0 < len(unmet) < len(state.outputs):
            state.keep_outputs(unmet)
        return state.best.objectives

    def verdict(self, state: State, objectives: Objectives) -> Verdict:
        """Return status and reason if the solve converged, stalled or used its passes, else None.

        If the kernel values are not precise enough, the solve continues in float64.
        """
        tol, n, left = state.limits.tol, state.whole.n_rows, float(objectives.unrounded.max())
        met = bool(objectives.met(tol).all()) and tol >= 2 * UNIT  # A smaller gap is rounding.
        # A problem of one block is solved to a gap of 1e-12, or for three passes.
        if state.order is not None and left > (1e-12 if state.visited else 0.0):
            met &= state.visited >= 3 * n
        if met and objectives.worst_gap <= tol and (state.is_float32_trusted or state.whole.kernel.double):
            return converged(objectives.worst_gap, tol)
        if met and state.whole.kernel.double:
            return "precision", (
                f"the relative gap is {left:.2e}, and up to {objectives.rounding.max():.2e} more by rounding: "
                f"float64 cannot certify tol={tol:.2e}, because the rows, lam or C are too large"
            )
        if stalled(state) and not state.whole.kernel.double and float64_in_time(state):
            continue_in_float64(state)
            return None
        if stalled(state) and state.whole.kernel.double:
            return "precision", (
                f"the relative gap stays at {objectives.worst_gap:.2e}: float64 kernel values cannot certify "
                f"tol={tol:.2e}"
            )
        if state.visited >= state.limits.max_iter * n:
            return "max_iter", f"max_iter={state.limits.max_iter} passes were done"
        return None

    @_may_overflow
    def step(self, state: State) -> None:
        """Solve one block and update the margins of all rows, or take a step of Newton's method."""
        if state.is_newton_due:
            switch_to_newton(state)
        if state.newton is not None:
            newton_step(state)
            return
        problem, n = state.problem, state.problem.n_rows
        solving, state.upcoming = state.upcoming, None
        if solving is None:
            block = next_block(state)
            solving = _begin(state, block, np.ascontiguousarray(state.margins[:, block]))
        state.operations += solving.begun.finish()
        block, change = solving.rows, solving.change
        state.dual[:, block] = solving.dual
        state.visited += len(block)
        state.since_check += len(block)
        one_block, end_of_pass = state.order is not None, problem.loss.selection == "greedy" and not state.queue
        state.unchecked = one_block or end_of_pass or state.since_check * 8 >= n
        if one_block:
            # Updates would leave their accumulated rounding in the certificate.
            state.margins = problem.margins(state.dual, state.accurately)
            state.travelled = None
            return
        changed = np.flatnonzero(change.any(axis=0))
        moved, by = block[changed], change[:, changed]
        following = upcoming_block(state)
        if following is not None:
            # One thread solves this block while the others update the margins of all rows.
            margins = state.margins[:, following] + _effect(problem, moved, by, following)
            state.upcoming = _begin(state, following, margins)
        with state.stopwatch.timing(problem.kernel):
            if state.active is not None:
                state.active.add(state.margins, moved, by)
            elif state.whole_rows is not None:
                state.margins += problem.labels * state.whole_rows.multiply(moved, by)
            else:
                state.margins += _effect(problem, moved, by)
        state.add_rounding(moved, by)

    def facts(self, state: State) -> dict[str, int]:
        """Return the number of factorizations of Newton's method."""
        return {"factorizations": state.factorizations if state.newton is None else state.newton.factorizations}

    @_may_overflow
    def finish(self, state: State, status: Status, reason: str, history: History) -> Solution:
        """Return the iterate with the smallest gap of every output."""
        # The current iterate may be better, if its gap can be known within half a second.
        if state.active is not None and seconds_to_unshrink(state) < 0.5:
            unshrink(state)
            state.make_feasible()
            state.best.update(state.outputs, state.dual, state.margins, state.objectives())
        if self.is_certified and not state.whole.kernel.double and not state.best.is_counted:
            count_rounding(state)
        return Solution(
            dual=state.as_given(state.best.dual),
            margins=state.as_given(state.best.margins),
            objectives=state.best.objectives,
            status=status,
            reason=reason,
            passes=max(1, -(-state.visited // state.whole.n_rows)),
            kernel_evaluations=self.evaluations(state),
            history=history,
            travelled=state.travelled,
        )


def _begin(state: State, block: Indices, margins: Floats) -> BlockSolve:
    """Begin to solve a block, given the margins of its rows."""
    problem, kernel, threads = state.problem, state.problem.kernel, state.problem.kernel.n_threads
    labels, dual = np.ascontiguousarray(problem.labels[:, block]), np.ascontiguousarray(state.dual[:, block])
    change, conjugate = np.empty_like(dual), np.ascontiguousarray(state.conjugate[:, block])
    arguments = np.arange(len(block)), conjugate, labels, dual, margins, change, problem.intercept
    one_block = state.order is not None
    if problem.loss.selection == "greedy" and not one_block:
        # Violations below this, of margins near one, are rounding.
        rounding = 1e-13 if kernel.double else 1e-5
        rows = state.whole_rows
        values = kernel.values(block, block) if rows is None else rows.among(block)
        begun = _core.solve_pairs(values, *arguments, 0.1, rounding, 30, threads)
    else:
        tolerance, max_sweeps = (0.0, 200) if one_block else (0.1, 2)
        begun = _core.solve_block(kernel.block(block, block), *arguments, tolerance, 0.0, max_sweeps, threads)
    return BlockSolve(block, dual, change, begun)


def _effect(problem: DualProblem, moved: Indices, change: Floats, rows: Indices | None = None) -> Floats:
    """Return the change of the margins of some rows, or of all, by changed coefficients."""
    labels = problem.labels if rows is None else problem.labels[:, rows]
    return labels * problem.kernel.multiply(moved, change, rows)
