"""On which kernel values a solve runs, and when those are too coarse for what is asked.

Solves run on float32 kernel values. A gap that meets `tol` is compared with float64 kernel values on a sample of rows
before it is believed. Where rounding could matter to it, when `tol` is below 1e-4, or when float32 stalls, margins are
recomputed with float64 kernel values and the solve goes on with those; the certificate is then that of the float64
kernel.
"""

from __future__ import annotations

import numpy as np

from dimargin.kernels import Indices
from dimargin.solution import Floats, Objectives
from dimargin.solvers.state import Best, State

_SINGLE_PRECISION_TOL = 1e-4  # below it a certificate needs float64 kernel values
_SAMPLE = 256  # draws of rows on which float32 margins are compared with float64 ones
_COLUMNS_AT_ONCE = 65536
_TRUSTED = 0.03  # relative error of a gap that may come from float32
_TRUSTED_OBJECTIVE = 0.1  # error of an objective, in gaps
_NEGLIGIBLE = 5e-10  # and absolute error of a relative gap
_TINY = float(np.finfo(float).tiny)
# passes without improvement after which precision is to blame; single precision is cheap to leave
_PATIENCE = {np.float32: 4, np.float64: 12}
_SLACK = 1e-3  # of the primal objective, by which a dual one may fall back without alarm
_PROGRESS = 1e-12  # rise of the dual objective, relative, that is not rounding


def certify(state: State) -> None:
    """Ask whether a gap that meets the tolerance does so for float64 kernel values; if in doubt, go on with those."""
    best, problem = state.best, state.whole
    if state.limits.tol < _SINGLE_PRECISION_TOL:
        return go_on_in_float64(state)
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
        go_on_in_float64(state)


def _float64_margins(state: State, rows: Indices) -> Floats:
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


def derailed(state: State, objectives: Objectives) -> bool:
    """Whether rounding has taken over: the dual objective never falls, and never passes a primal one."""
    best, now = state.best, state.outputs
    slack = _SLACK * np.abs(best.primal[now])
    low, high = best.dual_objective[now] - slack, best.primal[now] + slack
    return not bool(((objectives.dual >= low) & (objectives.dual <= high)).all())


def note_progress(state: State, objectives: Objectives) -> None:
    """The dual objective always rises, the gap comes down in leaps; neither any more means rounding."""
    gap, reached = state.best.gap.max(), state.reached[1][state.outputs]
    # float32 values make the dual objective wander, and it is cheap to leave them
    rising = state.whole.kernel.double and (objectives.dual > reached + _PROGRESS * objectives.primal).any()
    if gap < 0.9 * state.reached[0] or rising:
        state.improved_at = state.visited
        state.reached[1][state.outputs] = np.maximum(objectives.dual, reached)
        state.reached = gap, state.reached[1]


def stalled(state: State) -> bool:
    """Whether there has been no progress for so long that only rounding explains it."""
    patience = _PATIENCE[state.whole.kernel.transform.dtype]
    return state.visited - state.improved_at > patience * state.whole.n_rows


def go_on_in_float64(state: State) -> None:
    """From the best iterate, with its margins computed afresh."""
    dual = state.best.dual
    if not state.whole.kernel.double:
        state.spent += state.whole.kernel.evaluations
        state.whole = state.whole.with_kernel(state.whole.kernel.in_float64())
        state.improved_at = state.visited
        state.reached = np.inf, np.full(len(dual), -np.inf)
    state.best = Best.of(state.whole, dual, state.whole.margins(dual))
    state.dual, state.margins = dual.copy(), state.best.margins.copy()
    state.outputs, state.problem = np.arange(len(dual)), state.whole
    state.queue, state.active, state.cache = [], None, None
