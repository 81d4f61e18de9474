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
from dimargin.solvers.gram_newton import BYTES, GramNewton
from dimargin.solvers.precision import continue_in_float64, continue_with, float64_in_time
from dimargin.solvers.state import State
from dimargin.system.arrays import TINY


def is_newton_faster(state: State, now: Objectives, memory: int) -> bool:
    """Return whether Newton's method needs far less work than block descent, within `memory` bytes.

    Block descent is projected to converge as it did in the second half of its work: the absolute
    gap falls by equal factors in equal work. Relative gaps say nothing here: they stay near one
    while the primal objective falls by orders of magnitude. Newton's method is projected to take
    ten steps and three factorisations.
    """
    problem = state.problem
    if not memory or state.order is not None or not problem.loss.smooth or state.outgrew_memory:
        return False
    of_value = problem.kernel.numbers_per_row + 9.0
    work = 6.0 * state.operations + of_value * (state.spent + state.whole.kernel.evaluations)
    gap = max(float((now.relative_gap * np.abs(now.primal)).sum()), TINY)
    history = state.gaps_by_work
    history.append((work, min([gap, *(lowest for _, lowest in history[-1:])])))
    if state.visited < 4 * problem.n_rows:  # The convergence rate of fewer passes says too little.
        return False
    lowest = history[-1][1]
    earlier, before = next((pair for pair in reversed(history) if pair[0] <= 0.5 * work), history[0])
    target = state.limits.tol * max(float(np.abs(now.dual).sum()), TINY)
    curvature = problem.conjugate.response(problem.shifted(state.margins, now.intercept))[1]
    rows = (curvature > 0).sum(axis=1).astype(float)
    # The first term is the work of steps on few rows.
    newton = 2e9 + float((rows**3).sum()) + 2 * of_value * 10 * problem.n_rows * float(rows.sum())
    # Block descent may do 0.15 times Newton's work in any case. From then on the solve switches
    # when block descent is projected to cost three times Newton's work.
    is_far = np.log(lowest / target) * (work - earlier) > 3.0 * newton * np.log(before / lowest)
    return bool(is_far and work >= 0.15 * newton and BYTES * rows.max() ** 2 <= memory)


def switch_to_newton(state: State) -> None:
    """Switch to Newton's method in float64, if a time limit leaves the time for its first step."""
    state.is_newton_due, state.block_problem = False, state.whole
    if not float64_in_time(state):
        return
    # Below this gap the current iterate is a better start than the solution for some of the rows.
    is_near = state.best.objectives.worst_gap <= 0.5
    continue_in_float64(state)
    try:
        if is_near:
            state.newton = _newton_from(state)
        else:
            state.newton = GramNewton.begin(state.problem, state.limits, state.outputs, state.rng, state.max_gram_bytes)
            _set_iterate(state)
    except TooManyRowsError as error:
        _return_to_blocks(state, error.factorizations)
    except OutOfTimeError:
        pass
    else:
        state.forget_progress()


def newton_step(state: State) -> None:
    """Take a step of Newton's method, if there is time and memory for it."""
    newton = state.newton
    assert newton is not None
    if not np.isin(state.outputs, newton.outputs).all():  # Recomputed margins missed the tolerance.
        state.newton = newton = _newton_from(state)
    elif len(newton.outputs) > len(state.outputs):
        newton.keep_outputs(state.problem, state.outputs)
    try:
        newton.step()
    except TooManyRowsError as error:
        _return_to_blocks(state, error.factorizations)
        return
    except OutOfTimeError:
        return
    _set_iterate(state)
    state.visited += state.problem.n_rows


def _newton_from(state: State) -> GramNewton:
    """Return Newton's method at the current iterate, whose margins were computed in one product."""
    problem, memory = state.problem, state.max_gram_bytes
    signed, products = problem.labels * state.dual, problem.labels * state.margins
    intercepts = problem.intercepts(state.margins)
    return GramNewton(problem, state.limits, state.outputs, signed, products, intercepts, memory)


def _set_iterate(state: State) -> None:
    """Set the iterate to that of Newton's method, with the rounding of its margins."""
    newton, labels = state.newton, state.problem.labels
    assert newton is not None
    state.dual, state.margins = labels * newton.signed, labels * newton.products
    if newton.travelled is None:
        state.travelled = None
    else:
        if state.travelled is None:
            state.travelled = state.whole.reach(state.best.dual)
        state.travelled[state.outputs] = newton.travelled
    state.unchecked = True


def _return_to_blocks(state: State, factorizations: int) -> None:
    """Return to block descent on its former kernel values, from the best iterate."""
    assert state.block_problem is not None
    state.outgrew_memory, state.newton, state.factorizations = True, None, factorizations
    continue_with(state, state.block_problem)
