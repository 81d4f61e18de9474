"""Precision of the kernel values on which a solve runs, and detection of too little of it.

Solves run on float32 kernel values. A gap that meets `tol` is believed once the rounding of its margins has been
bounded, or measured (`dimargin.solvers.single_precision`). Where rounding could matter to it, when `tol` is below 1e-4,
or when float32 stalls, margins are recomputed with float64 kernel values and the solve goes on with those; the
certificate is then that of the float64 kernel.
"""

from __future__ import annotations

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.problems.objectives import Objectives
from dimargin.solvers.active import RowCache
from dimargin.solvers.single_precision import FLOAT64_COST, SINGLE_PRECISION_TOL, Rounded, with_rounding
from dimargin.solvers.state import Best, State

# passes without improvement after which precision is to blame; single precision is cheap to leave
_PATIENCE = {np.float32: 4, np.float64: 12}
_SLACK = 1e-3  # of the primal objective, by which a dual one may fall back without alarm
_PROGRESS = 1e-12  # rise of the dual objective, relative, that is not rounding


def certify(state: State) -> None:
    """Check whether a gap that meets the tolerance does so for float64 kernel values; if in doubt, go on with those.

    Where a time limit would come before their margins, the rounding of float32 is counted in the gap, and it goes on.
    """
    in_time = float64_in_time(state)
    if state.limits.tol < SINGLE_PRECISION_TOL and in_time:
        return go_on_in_float64(state)
    rounded = count_rounding(state)
    state.is_sure = rounded.is_trusted(state.limits.tol)
    if in_time and not state.is_sure:
        go_on_in_float64(state)


def count_rounding(state: State) -> Rounded:
    """Count what float32 has done to the objectives of the best iterate in these; past a limit by little work."""
    best, travelled = state.best, state.travelled
    work = (state.spent + state.whole.kernel.evaluations) * (0.1 if state.limits.reached else 1.0)
    rounded = with_rounding(
        state.whole, best.dual, best.margins, best.objectives, travelled, state.rng, state.limits.tol, work
    )
    state.spent += rounded.evaluations
    best.count(rounded.margins, rounded.objectives)
    return rounded


def float64_in_time(state: State) -> bool:
    """Return whether margins on float64 kernel values, with which a solve goes on, would be there before a limit."""
    kernel = state.whole.kernel
    columns = 1 if kernel.could_have_weights else int(np.count_nonzero(state.best.dual.any(axis=0)))
    return state.limits.allow(FLOAT64_COST * state.stopwatch.seconds_for(columns * state.whole.n_rows))


def derailed(state: State, objectives: Objectives) -> bool:
    """Return whether rounding has taken over: without it the dual objective never falls, nor passes a primal one.

    Newton's method lowers the primal objective instead.
    """
    best, lowest = state.best.objectives.take(state.outputs), state.best.lowest_primal[state.outputs]
    size = np.abs(best.primal)
    low, high = best.dual + best.rounding * size - _SLACK * size, lowest + _SLACK * np.abs(lowest)
    if state.newton is not None:
        low = np.full_like(low, -np.inf)
    return not bool(((objectives.reached >= low) & (objectives.reached <= high)).all())


def note_progress(state: State, objectives: Objectives) -> None:
    """Record progress: without rounding the dual objective always rises, and the gap comes down in leaps."""
    gap, now, dual = state.best.objectives.unrounded.max(), state.outputs, objectives.reached
    # float32 values make the dual objective wander, and it is cheap to leave them
    rising = state.whole.kernel.double and (dual > state.highest[now] + _PROGRESS * objectives.primal).any()
    if gap < 0.9 * state.min_gap or (rising if state.newton is None else state.newton.progressed):
        state.improved_at = state.visited
        state.highest[now] = np.maximum(dual, state.highest[now])
        state.min_gap = gap


def stalled(state: State) -> bool:
    """Return whether there has been no progress for so long that only rounding explains it."""
    patience = _PATIENCE[state.whole.kernel.transform.dtype]
    return state.visited - state.improved_at > patience * state.whole.n_rows


def go_on_in_float64(state: State) -> None:
    """Continue with float64 kernel values from the best iterate, whose margins are computed afresh."""
    is_double = state.whole.kernel.double
    go_on_with(state, state.whole if is_double else state.whole.with_kernel(state.whole.kernel.in_float64()))


def go_on_with(state: State, whole: DualProblem) -> None:
    """Continue with the kernel values of this problem from the best iterate, whose margins are computed afresh."""
    dual = state.best.dual
    if whole is not state.whole:
        state.spent += state.whole.kernel.evaluations - whole.kernel.evaluations
        state.whole = whole
        state.whole_rows = RowCache.of_whole_rows(whole, state.memory_of_gram)
        state.forget_progress()
    state.best = Best.of(state.whole, dual, state.whole.margins(dual, state.accurately), state.accurately)
    state.dual, state.margins = dual.copy(), state.best.margins.copy()
    state.travelled = None
    state.outputs, state.problem = np.arange(len(dual)), state.whole
    state.queue, state.active, state.cache = [], None, None
    if state.newton is not None:  # its iterate may be another one
        state.newton.refresh(state.accurately)
