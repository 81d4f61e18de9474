"""Block coordinate descent on the single-variable dual: the exact solver, for every loss.

A block of rows is solved (nearly) exactly by the compiled core on its Gram matrix, by sweeps of
coordinate steps and Newton steps on the free coefficients, by Newton steps on its primal with an
intercept (docs/algorithms.md#newton-steps), or by second-order pair steps for losses with
nonnegative coefficients. Then one fused product updates the
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

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, Solution, Status
from dimargin.solvers.active import RowCache
from dimargin.solvers.block_solves import BlockSolver
from dimargin.solvers.blocks import Schedule, canonical_order
from dimargin.solvers.dual_solver import DualSolver
from dimargin.solvers.iterate import Iterate
from dimargin.solvers.loop import Limits, Verdict, converged
from dimargin.solvers.neighbours import along_neighbours
from dimargin.solvers.newton_switch import is_newton_faster, newton_step, switch_to_newton
from dimargin.solvers.precision import (
    check_in_float64,
    continue_in_float64,
    count_rounding,
    float64_in_time,
    has_stalled,
    is_derailed,
    note_progress,
)
from dimargin.solvers.progress import rounding_verdict
from dimargin.solvers.shrinking import Shrinking, ShrinkingRule
from dimargin.solvers.state import NewtonSwitch, State
from dimargin.system.arrays import UNIT, Floats


@dataclass(frozen=True)
class BlockCoordinateDescent(DualSolver[State]):
    """Block coordinate descent on the dual problem; parameters are those of `DualSolver`.

    Nothing is cached where kernel values are cheap: for rows of up to some hundred numbers a new
    memory page costs more than computing its values. The kernel matrix is factored by Newton's
    method (`dimargin.solvers.newton_switch`), or cached in full (`dimargin.solvers.active`).

    Attributes
    ----------
    shrinking : ShrinkingRule
    """

    shrinking: ClassVar[ShrinkingRule] = ShrinkingRule()

    def init(self, problem: DualProblem, start: Floats | None, limits: Limits) -> State:
        """Return the state at a start, whose margins take one pass over its support."""
        order = indices = None
        if problem.n_rows <= self.small:
            order = canonical_order(problem)
            problem = problem.with_kernel(problem.kernel.in_float64())
        elif problem.kernel.local:
            indices = along_neighbours(problem.kernel)
            problem = problem.restrict(indices, problem.mass)
            start = None if start is None else start[:, indices]
        iterate = Iterate.begin(problem, start)
        max_cache_bytes = self.cache if problem.kernel.expensive else 0
        whole_rows = None if order is not None else RowCache.of_whole_rows(problem, self.gram)
        return State(
            limits=limits,
            iterate=iterate,
            schedule=Schedule(np.random.default_rng(self.random_state), order),
            shrinking=Shrinking(max_cache_bytes, whole_rows, self.shrinking),
            blocks=BlockSolver(problem.conjugate.stack(), order is not None),
            switch=NewtonSwitch(self.gram),
            indices=indices,
        )

    def evaluations(self, state: State) -> int:
        """Return the number of kernel values computed so far."""
        return state.iterate.evaluations

    def check(self, state: State) -> Objectives | None:
        """Return the objectives every eighth of a pass, and drop outputs that meet `tol`."""
        iterate, schedule, shrinking, tol = state.iterate, state.schedule, state.shrinking, state.limits.tol
        with np.errstate(over="ignore", invalid="ignore"):  # Rounding may let coefficients overflow.
            if not schedule.take_check() or shrinking.may_continue(iterate, schedule.passes, state.limits):
                return None
            shrinking.unshrink(iterate)
            iterate.make_feasible()
            objectives = iterate.objectives()
            shrinking.whole_gap = objectives.worst_gap
            if is_derailed(state, objectives):
                continue_in_float64(state)
                objectives = iterate.best.objectives
            iterate.update_best(objectives)
            note_progress(state, objectives)
            if iterate.best.objectives.worst_gap <= tol and not iterate.whole.kernel.double:
                if self.is_certified:
                    check_in_float64(state)
            elif iterate.should_recompute_margins(tol):
                continue_in_float64(state)
            elif state.switch.newton is None:
                state.switch.is_due = is_newton_faster(state, objectives)
            unmet = iterate.outputs[~iterate.best.objectives.met(tol)[iterate.outputs]]
            if schedule.order is None and 0 < len(unmet) < len(iterate.outputs):
                iterate.keep_outputs(unmet)
            return iterate.best.objectives

    def verdict(self, state: State, objectives: Objectives) -> Verdict:
        """Return status and reason if the solve converged, stalled or used its passes, else None.

        If the kernel values are not precise enough, the solve continues in float64.
        """
        tol, visited, n = state.limits.tol, state.schedule.visited, state.iterate.whole.n_rows
        is_double = state.iterate.whole.kernel.double
        met = bool(objectives.met(tol).all()) and tol >= 2 * UNIT  # A smaller gap is rounding.
        # A problem of one block is solved to a gap of 1e-12, or for three passes.
        if state.blocks.is_one_block and objectives.unrounded.max() > (1e-12 if visited else 0.0):
            met &= visited >= 3 * n
        if met and objectives.worst_gap <= tol and (state.is_float32_trusted or is_double):
            return converged(objectives.worst_gap, tol)
        if met and is_double:
            return rounding_verdict(objectives, tol)
        if has_stalled(state):
            if is_double:
                return rounding_verdict(objectives, tol, has_stalled=True)
            if float64_in_time(state):
                continue_in_float64(state)
                return None
        if visited >= state.limits.max_iter * n:
            return "max_iter", f"max_iter={state.limits.max_iter} passes were done"
        return None

    def step(self, state: State) -> None:
        """Solve one block and update the margins of all rows, or take a step of Newton's method."""
        iterate, schedule, shrinking, blocks = state.iterate, state.schedule, state.shrinking, state.blocks
        with np.errstate(over="ignore", invalid="ignore"):  # Rounding may let coefficients overflow.
            if state.switch.is_due:
                switch_to_newton(state)
            if state.switch.newton is not None:
                newton_step(state, state.switch.newton)
                return
            solving, blocks.upcoming = blocks.upcoming, None
            if solving is None:
                block = schedule.next_block(iterate, shrinking)
                margins = np.ascontiguousarray(iterate.margins[:, block])
                solving = blocks.begin(iterate, block, margins, shrinking.whole_rows)
            moved, change = blocks.finish(solving, iterate)
            schedule.visit(solving.rows, iterate.problem)
            if blocks.is_one_block:
                # Updates would leave their accumulated rounding in the certificate.
                iterate.recompute_margins()
                return
            following = schedule.upcoming_block(iterate.problem)
            if following is not None:
                # One thread solves this block while the others update the margins of all rows.
                margins = iterate.margins_after(moved, change, following)
                blocks.upcoming = blocks.begin(iterate, following, margins, shrinking.whole_rows)
            shrinking.update_margins(iterate, moved, change)

    def facts(self, state: State) -> dict[str, int]:
        """Return the number of factorizations of Newton's method."""
        newton = state.switch.newton
        return {"factorizations": state.switch.factorizations if newton is None else newton.factorizations}

    def finish(self, state: State, status: Status, reason: str, history: History) -> Solution:
        """Return the iterate with the smallest gap of every output."""
        iterate, best, shrinking = state.iterate, state.iterate.best, state.shrinking
        with np.errstate(over="ignore", invalid="ignore"):  # Rounding may let coefficients overflow.
            # The current iterate may be better, if its gap can be known within half a second.
            if shrinking.active is not None and shrinking.seconds_to_unshrink(iterate) < 0.5:
                shrinking.unshrink(iterate)
                iterate.make_feasible()
                iterate.update_best(iterate.objectives())
            if self.is_certified and not iterate.whole.kernel.double and not best.is_counted:
                count_rounding(state)
        dual, margins = best.dual, best.margins
        if state.indices is not None:
            given = np.argsort(state.indices)
            dual, margins = (np.ascontiguousarray(values[:, given]) for values in (dual, margins))
        return Solution(
            dual=dual,
            margins=margins,
            objectives=best.objectives,
            status=status,
            reason=reason,
            passes=max(1, -(-state.schedule.visited // iterate.whole.n_rows)),
            kernel_evaluations=iterate.evaluations,
            history=history,
            travelled=iterate.travelled,
        )
