"""Precision of the kernel values of a solve: its sufficiency, and the switch to float64.

Solves run on float32 kernel values. A gap that meets `tol` is believed once the rounding of its
margins has been bounded or measured (`dimargin.solvers.single_precision`). If that rounding may
matter, if `tol` is below 1e-4, or if float32 stalls, the margins are recomputed with float64 kernel
values, on which the solve continues. The certificate then holds for the float64 kernel.
"""

from __future__ import annotations

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.problems.objectives import Objectives
from dimargin.solvers.active import RowCache
from dimargin.solvers.single_precision import FLOAT64_COST, SINGLE_PRECISION_TOL, Rounded, with_rounding
from dimargin.solvers.state import Best, State


def certify(state: State) -> None:
    """Check whether the gap meets the tolerance in float64; if in doubt, switch to it.

    If the time limit leaves no time for float64 margins, the rounding of float32 is added to the
    gap, and the solve continues in float32.
    """
    in_time = float64_in_time(state)
    if state.limits.tol < SINGLE_PRECISION_TOL and in_time:
        return continue_in_float64(state)
    rounded = count_rounding(state)
    state.is_float32_trusted = rounded.is_trusted(state.limits.tol)
    if in_time and not state.is_float32_trusted:
        continue_in_float64(state)


def count_rounding(state: State) -> Rounded:
    """Add the rounding of float32 to the best objectives, with less work past a limit."""
    best, travelled = state.best, state.travelled
    work = (state.spent + state.whole.kernel.evaluations) * (0.1 if state.limits.reached else 1.0)
    rounded = with_rounding(
        state.whole, best.dual, best.margins, best.objectives, travelled, state.rng, state.limits.tol, work
    )
    state.spent += rounded.evaluations
    best.count(rounded.margins, rounded.objectives)
    return rounded


def float64_in_time(state: State) -> bool:
    """Return whether there is time to recompute the margins with float64 kernel values."""
    kernel = state.whole.kernel
    columns = 1 if kernel.could_have_weights else int(np.count_nonzero(state.best.dual.any(axis=0)))
    return state.limits.allow(FLOAT64_COST * state.stopwatch.seconds_for(columns * state.whole.n_rows))


def is_derailed(state: State, objectives: Objectives) -> bool:
    """Return whether rounding dominates: else dual objectives neither fall nor exceed a primal one.

    A thousandth of the primal objective is tolerated. Newton's method may lower the dual objective.
    """
    best, lowest = state.best.objectives.take(state.outputs), state.best.lowest_primal[state.outputs]
    size = np.abs(best.primal)
    low, high = best.dual + best.rounding * size - 1e-3 * size, lowest + 1e-3 * np.abs(lowest)
    if state.newton is not None:
        low = np.full_like(low, -np.inf)
    return not bool(((objectives.reached >= low) & (objectives.reached <= high)).all())


def note_progress(state: State, objectives: Objectives) -> None:
    """Record progress, which is a rise of the dual objective, or a smaller gap."""
    gap, now, dual = state.best.objectives.unrounded.max(), state.outputs, objectives.reached
    # A smaller rise may be rounding. In float32 the dual objective fluctuates, so that a rise says
    # nothing.
    rising = state.whole.kernel.double and (dual > state.highest[now] + 1e-12 * objectives.primal).any()
    if gap < 0.9 * state.min_gap or (rising if state.newton is None else state.newton.progressed):
        state.improved_at = state.visited
        state.highest[now] = np.maximum(dual, state.highest[now])
        state.min_gap = gap


def stalled(state: State) -> bool:
    """Return whether the solve has stalled for so many passes that rounding must be the cause.

    Four passes suffice in float32, because the switch to float64 is cheap, and twelve in float64.
    """
    return state.visited - state.improved_at > (12 if state.whole.kernel.double else 4) * state.whole.n_rows


def continue_in_float64(state: State) -> None:
    """Continue with float64 kernel values from the best iterate, whose margins are recomputed."""
    is_double = state.whole.kernel.double
    continue_with(state, state.whole if is_double else state.whole.with_kernel(state.whole.kernel.in_float64()))


def continue_with(state: State, whole: DualProblem) -> None:
    """Continue with the kernel of `whole` from the best iterate, whose margins are recomputed."""
    dual = state.best.dual
    if whole is not state.whole:
        state.spent += state.whole.kernel.evaluations - whole.kernel.evaluations
        state.whole = whole
        state.whole_rows = RowCache.of_whole_rows(whole, state.max_gram_bytes)
        state.forget_progress()
    state.best = Best.of(state.whole, dual, state.whole.margins(dual, state.accurately), state.accurately)
    state.dual, state.margins = dual.copy(), state.best.margins.copy()
    state.travelled = None
    state.outputs, state.problem = np.arange(len(dual)), state.whole
    state.queue, state.active, state.cache = [], None, None
    if state.newton is not None:  # Its iterate may differ from the best one.
        state.newton.refresh(state.accurately)
