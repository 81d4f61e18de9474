"""Switch from block descent to Newton's method when the gap converges too slowly.

Work is counted, not timed, so that the choice depends neither on the machine nor on its threads.
Its unit is one operation of a large factorisation. An operation within a block counts six, and a
kernel value nine plus the numbers of a row, which is how long they took on two cores with AVX-512.
On the 75 problems of `bench/scripts/bench_ill_conditioned.py` with ``lam`` of 1e4 and more the rule
below chooses Newton's method in 18.
"""

from __future__ import annotations

import numpy as np

from dimargin.problems.objectives import Objectives
from dimargin.solvers.gram_factor import OutOfTimeError, TooManyRowsError
from dimargin.solvers.gram_newton import GramNewton
from dimargin.solvers.precision import continue_in_float64, continue_with, float64_in_time
from dimargin.solvers.state import State
from dimargin.system.arrays import TINY


def is_newton_faster(state: State, now: Objectives) -> bool:
    """Return whether Newton's method needs far less work than block descent, within its memory.

    Block descent is projected to converge as it did in the second half of its work: the absolute
    gap falls by equal factors in equal work. Relative gaps say nothing here: they stay near one
    while the primal objective falls by orders of magnitude. Newton's method is projected to take
    ten steps and three factorisations.
    """
    problem, switch = state.iterate.problem, state.switch
    if not switch.max_bytes or state.blocks.is_one_block or not problem.loss.smooth or switch.outgrew_memory:
        return False
    of_value = problem.kernel.numbers_per_row + 9.0
    work = 6.0 * state.blocks.operations + of_value * state.iterate.evaluations
    gap = max(float((now.relative_gap * np.abs(now.primal)).sum()), TINY)
    history = switch.gaps_by_work
    history.append((work, min([gap, *(lowest for _, lowest in history[-1:])])))
    if state.schedule.visited < 4 * problem.n_rows:  # The convergence rate of fewer passes says too little.
        return False
    lowest = history[-1][1]
    earlier, before = next((pair for pair in reversed(history) if pair[0] <= 0.5 * work), history[0])
    target = state.limits.tol * max(float(np.abs(now.dual).sum()), TINY)
    curvature = problem.conjugate.response(problem.shifted(state.iterate.margins, now.intercept))[1]
    rows = (curvature > 0).sum(axis=1).astype(float)
    # The first term is the work of steps on few rows.
    newton = 2e9 + float((rows**3).sum()) + 2 * of_value * 10 * problem.n_rows * float(rows.sum())
    # Block descent may do 0.15 times Newton's work in any case. From then on the solve switches
    # when block descent is projected to cost three times Newton's work.
    is_far = np.log(lowest / target) * (work - earlier) > 3.0 * newton * np.log(before / lowest)
    return bool(is_far and work >= 0.15 * newton and GramNewton.bytes_per_entry * rows.max() ** 2 <= switch.max_bytes)


def switch_to_newton(state: State) -> None:
    """Switch to Newton's method in float64, if a time limit leaves the time for its first step."""
    iterate, switch = state.iterate, state.switch
    switch.is_due, switch.block_problem = False, iterate.whole
    if not float64_in_time(state):
        return
    # Below this gap the current iterate is a better start than the solution for some of the rows.
    is_near = iterate.best.objectives.worst_gap <= 0.5
    continue_in_float64(state)
    try:
        if is_near:
            switch.newton = _newton_from(state)
        else:
            rng, memory = state.schedule.rng, switch.max_bytes
            switch.newton = GramNewton.begin(iterate.problem, state.limits, iterate.outputs, rng, memory)
            _set_iterate(state, switch.newton)
    except TooManyRowsError as error:
        _return_to_blocks(state, error.factorizations)
    except OutOfTimeError:
        pass
    else:
        state.restart_progress()


def newton_step(state: State, newton: GramNewton) -> None:
    """Take a step of Newton's method, if there is time and memory for it."""
    iterate = state.iterate
    if not np.isin(iterate.outputs, newton.outputs).all():  # Recomputed margins missed the tolerance.
        state.switch.newton = newton = _newton_from(state)
    elif len(newton.outputs) > len(iterate.outputs):
        newton.keep_outputs(iterate.problem, iterate.outputs)
    try:
        newton.step()
    except TooManyRowsError as error:
        _return_to_blocks(state, error.factorizations)
        return
    except OutOfTimeError:
        return
    _set_iterate(state, newton)
    state.schedule.visited += iterate.problem.n_rows


def _newton_from(state: State) -> GramNewton:
    """Return Newton's method at the current iterate, whose margins were computed in one product."""
    iterate, problem = state.iterate, state.iterate.problem
    signed, products = problem.labels * iterate.dual, problem.labels * iterate.margins
    intercepts, memory = problem.intercepts(iterate.margins), state.switch.max_bytes
    return GramNewton(problem, state.limits, iterate.outputs, signed, products, intercepts, memory)


def _set_iterate(state: State, newton: GramNewton) -> None:
    """Set the iterate to that of Newton's method, with the rounding of its margins."""
    labels = state.iterate.problem.labels
    state.iterate.move_to(labels * newton.signed, labels * newton.products, newton.travelled)
    state.schedule.unchecked = True


def _return_to_blocks(state: State, factorizations: int) -> None:
    """Return to block descent on its former kernel values, from the best iterate."""
    switch = state.switch
    assert switch.block_problem is not None
    switch.outgrew_memory, switch.newton, switch.factorizations = True, None, factorizations
    continue_with(state, switch.block_problem)
