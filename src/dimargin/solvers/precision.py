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
from dimargin.solvers.single_precision import FLOAT64_COST, SINGLE_PRECISION_TOL, is_trusted, with_rounding
from dimargin.solvers.state import State


def check_in_float64(state: State) -> None:
    """Check whether the gap meets the tolerance in float64; if in doubt, switch to it.

    If the time limit leaves no time for float64 margins, the rounding of float32 is added to the
    gap, and the solve continues in float32.
    """
    in_time, tol = float64_in_time(state), state.limits.tol
    if tol < SINGLE_PRECISION_TOL and in_time:
        return continue_in_float64(state)
    is_bound = count_rounding(state)
    state.is_float32_trusted = is_trusted(state.iterate.best.objectives, tol, is_bound)
    if in_time and not state.is_float32_trusted:
        continue_in_float64(state)


def count_rounding(state: State) -> bool:
    """Add the rounding of float32 to the best objectives, and return whether it is a strict bound.

    Once a limit is reached, it takes less work.
    """
    iterate, best, limits = state.iterate, state.iterate.best, state.limits
    work = iterate.evaluations * (0.1 if limits.reached else 1.0)
    rounded = with_rounding(
        iterate.whole,
        best.dual,
        best.margins,
        best.objectives,
        iterate.travelled,
        state.schedule.rng,
        limits.tol,
        work,
    )
    iterate.spent += rounded.evaluations
    best.count(rounded.margins, rounded.objectives)
    return rounded.is_bound


def float64_in_time(state: State) -> bool:
    """Return whether there is time to recompute the margins with float64 kernel values."""
    iterate, kernel = state.iterate, state.iterate.whole.kernel
    columns = 1 if kernel.could_have_weights else int(np.count_nonzero(iterate.best.dual.any(axis=0)))
    return state.limits.allow(FLOAT64_COST * iterate.stopwatch.seconds_for(columns * iterate.whole.n_rows))


def is_derailed(state: State, objectives: Objectives) -> bool:
    """Return whether rounding dominates: else dual objectives neither fall nor exceed a primal one.

    A thousandth of the primal objective is tolerated. Newton's method may lower the dual objective.
    """
    outputs, whole_best = state.iterate.outputs, state.iterate.best
    best, lowest = whole_best.objectives.take(outputs), whole_best.lowest_primal[outputs]
    size = np.abs(best.primal)
    low, high = best.dual + best.rounding * size - 1e-3 * size, lowest + 1e-3 * np.abs(lowest)
    if state.switch.newton is not None:
        low = np.full_like(low, -np.inf)
    return not bool(((objectives.reached >= low) & (objectives.reached <= high)).all())


def note_progress(state: State, objectives: Objectives) -> None:
    """Record progress, which is a rise of the dual objective, or a smaller gap."""
    iterate, highest, newton = state.iterate, state.progress.objective, state.switch.newton
    gap, now, dual = iterate.best.objectives.unrounded.max(), iterate.outputs, objectives.reached
    # A smaller rise may be rounding. In float32 the dual objective fluctuates, so that a rise says
    # nothing.
    rising = iterate.whole.kernel.double and bool((dual > highest[now] + 1e-12 * objectives.primal).any())
    if state.progress.note(state.schedule.visited, gap, rising if newton is None else newton.progressed):
        highest[now] = np.maximum(dual, highest[now])


def has_stalled(state: State) -> bool:
    """Return whether the solve has stalled for so many passes that rounding must be the cause.

    Four passes suffice in float32, because the switch to float64 is cheap, and twelve in float64.
    """
    passes = 12 if state.iterate.whole.kernel.double else 4
    return state.progress.has_stalled(state.schedule.visited, passes * state.iterate.whole.n_rows)


def continue_in_float64(state: State) -> None:
    """Continue with float64 kernel values from the best iterate, whose margins are recomputed."""
    whole = state.iterate.whole
    continue_with(state, whole if whole.kernel.double else whole.with_kernel(whole.kernel.in_float64()))


def continue_with(state: State, whole: DualProblem) -> None:
    """Continue with the kernel of `whole` from the best iterate, whose margins are recomputed."""
    if whole is not state.iterate.whole:
        state.shrinking.whole_rows = RowCache.of_whole_rows(whole, state.switch.max_bytes)
        state.restart_progress()
    state.iterate.restart(whole)
    state.schedule.queue = []
    state.shrinking.forget()
    if state.switch.newton is not None:  # Its iterate may differ from the best one.
        state.switch.newton.refresh(state.iterate.accurately)
