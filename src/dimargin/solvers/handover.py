"""When blocks creep, Newton's method takes over: the measured pace of the gap decides.

Work is counted, not timed, so that the choice depends neither on the machine nor on its threads. Its unit is an
operation of a large factorisation. An operation within a block weighs six, and a kernel value the numbers of a row and
nine more, which is how long they took on two cores with AVX-512. On the 75 problems of
`bench/scripts/bench_ill_conditioned.py` with ``lam`` of 1e4 and more the rule below takes Newton's method in 18.
"""

from __future__ import annotations

import numpy as np

from dimargin.problems.objectives import Objectives
from dimargin.solvers.gram_factor import OutOfTimeError, TooManyRowsError
from dimargin.solvers.gram_newton import BYTES, GramNewton
from dimargin.solvers.precision import float64_in_time, go_on_in_float64, go_on_with
from dimargin.solvers.state import State
from dimargin.system.arrays import TINY

_OF_BLOCKS, _OF_VALUES = 6.0, 9.0
_PASSES = 4  # of blocks, before their pace is believed
_SPENT, _AHEAD = 0.15, 3.0  # part of Newton's work that blocks get in any case, and how much more they must need
_BEGIN = 2e9  # work that steps take in any case, however few the rows
_STEPS = 10  # of Newton's method, which need about three new factors
_NEAR = 0.5  # gap from which the coefficients of blocks are a better start than none


def is_slow(state: State, now: Objectives, memory: int) -> bool:
    """Return whether Newton's method would reach the tolerance long before blocks do, and fits into `memory` bytes.

    Blocks are taken to go on as since half of their work was done: the absolute gap falls by equal factors in equal
    work. Relative gaps tell nothing here, they stay near one while the primal objective falls by orders of magnitude.
    """
    problem = state.problem
    if not memory or state.order is not None or not problem.loss.smooth or state.has_outgrown:
        return False
    of_value = problem.kernel.numbers_per_row + _OF_VALUES
    work = _OF_BLOCKS * state.operations + of_value * (state.spent + state.whole.kernel.evaluations)
    gap = max(float((now.relative_gap * np.abs(now.primal)).sum()), TINY)
    state.pace.append((work, min([gap, *(least for _, least in state.pace[-1:])])))
    if state.visited < _PASSES * problem.n_rows:
        return False
    least = state.pace[-1][1]
    earlier, before = next((pair for pair in reversed(state.pace) if pair[0] <= 0.5 * work), state.pace[0])
    target = state.limits.tol * max(float(np.abs(now.dual).sum()), TINY)
    curvature = problem.conjugate.response(problem.shifted(state.margins, now.intercept))[1]
    rows = (curvature > 0).sum(axis=1).astype(float)
    newton = _BEGIN + float((rows**3).sum()) + 2 * of_value * _STEPS * problem.n_rows * float(rows.sum())
    is_far = np.log(least / target) * (work - earlier) > _AHEAD * newton * np.log(before / least)
    return bool(is_far and work >= _SPENT * newton and BYTES * rows.max() ** 2 <= memory)


def hand_over(state: State) -> None:
    """Let Newton's method take over, in float64, if a limit leaves it the time to begin."""
    state.is_slow, state.of_blocks = False, state.whole
    if not float64_in_time(state):
        return
    is_near = state.best.objectives.worst_gap <= _NEAR
    go_on_in_float64(state)
    try:
        if is_near:
            state.newton = _newton_from(state)
        else:
            state.newton = GramNewton.begin(state.problem, state.limits, state.outputs, state.rng, state.memory_of_gram)
            _stand(state)
    except TooManyRowsError as error:
        _give_back(state, error.factorizations)
    except OutOfTimeError:
        pass
    else:
        state.forget_progress()


def newton_step(state: State) -> None:
    """Take a step of Newton's method, if a limit leaves the time and the memory for it."""
    newton = state.newton
    assert newton is not None
    if not np.isin(state.outputs, newton.outputs).all():  # with margins afresh some do not meet the tolerance any more
        state.newton = newton = _newton_from(state)
    elif len(newton.outputs) > len(state.outputs):
        newton.focus(state.problem, state.outputs)
    try:
        newton.step()
    except TooManyRowsError as error:
        _give_back(state, error.factorizations)
        return
    except OutOfTimeError:
        return
    _stand(state)
    state.visited += state.problem.n_rows


def _newton_from(state: State) -> GramNewton:
    """Return Newton's method from the present iterate on, whose margins were computed at once."""
    problem, memory = state.problem, state.memory_of_gram
    signed, products = problem.labels * state.dual, problem.labels * state.margins
    intercepts = problem.intercepts(state.margins)
    return GramNewton(problem, state.limits, state.outputs, signed, products, intercepts, memory)


def _stand(state: State) -> None:
    """Set the present iterate to that of Newton's method, whose margins have rounding of their own."""
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


def _give_back(state: State, factorizations: int) -> None:
    """Let blocks go on from the best iterate, on kernel values as before: more rows count than there is memory for."""
    assert state.of_blocks is not None
    state.has_outgrown, state.newton, state.factorizations = True, None, factorizations
    go_on_with(state, state.of_blocks)
