"""Precision of the kernel values on which a solve runs, and detection of too little of it.

Solves run on float32 kernel values. A gap that meets `tol` is compared with float64 kernel values on a sample of rows
before it is believed. Where rounding could matter to it, when `tol` is below 1e-4, or when float32 stalls, margins are
recomputed with float64 kernel values and the solve goes on with those; the certificate is then that of the float64
kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dimargin.problems.dual import DualProblem
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import Objectives
from dimargin.solvers.active import RowCache
from dimargin.solvers.state import Best, State
from dimargin.system.arrays import TINY, Floats, Indices

SINGLE_PRECISION_TOL = 1e-4  # below it a certificate needs float64 kernel values
SAMPLE = 256  # rows drawn, on which float32 margins are compared with float64 ones
_COLUMNS_AT_ONCE = 65536
_TRUSTED = 0.1  # error by float32 of a gap, and of an objective, in gaps; it counts in the gap that is claimed
_DEVIATIONS = 5  # standard deviations of a sum that is estimated from the sample
_NEGLIGIBLE = 5e-10  # and absolute error of a relative gap
_FLOAT64 = 3.0  # times as long as in float32 that a kernel value takes, at most
# passes without improvement after which precision is to blame; single precision is cheap to leave
_PATIENCE = {np.float32: 4, np.float64: 12}
_SLACK = 1e-3  # of the primal objective, by which a dual one may fall back without alarm
_PROGRESS = 1e-12  # rise of the dual objective, relative, that is not rounding


def certify(state: State) -> None:
    """Check whether a gap that meets the tolerance does so for float64 kernel values; if in doubt, go on with those.

    Where a time limit would come before their margins, the errors of float32 are counted in the gap, and it goes on.
    """
    best, in_time = state.best.objectives, float64_in_time(state)
    if state.limits.tol < SINGLE_PRECISION_TOL and in_time:
        return go_on_in_float64(state)
    errors = float32_errors(state)
    state.is_sure = bool(is_trusted(best, errors, state.limits.tol).all())
    if in_time and not state.is_sure:
        go_on_in_float64(state)
    else:
        state.best.round(errors)


def float64_in_time(state: State) -> bool:
    """Return whether margins on float64 kernel values, with which a solve goes on, would be there before a limit."""
    values = int(np.count_nonzero(state.best.dual.any(axis=0))) * state.whole.n_rows
    return state.limits.allow(_FLOAT64 * state.stopwatch.seconds_for(values))


def float32_errors(state: State) -> Floats:
    """Estimate the errors that float32 has caused in the objectives of the best iterate, of shape (n_outputs,)."""
    best = state.best
    errors, evaluations = float32_rounding(state.whole, best.dual, best.margins, best.objectives.intercept, state.rng)
    state.spent += evaluations
    return errors


def float32_rounding(
    problem: DualProblem, dual: Floats, given: Floats, intercepts: Floats, rng: np.random.Generator
) -> tuple[Floats, int]:
    """Estimate from a sample of rows how far objectives, and gaps, are from those in float64; count its kernel values.

    The problem is one on float32 kernel values. They gave the margins, `given`, of shape (n_outputs, n), without
    intercept.
    """
    sample = Sample.of(problem, dual, given, intercepts, rng, SAMPLE)
    exact, evaluations = _float64_margins(problem, dual, sample.rows)
    errors = exact - given[:, sample.rows]
    largest = largest_error(errors)
    rows, among = sample.rows, problem.of_rows(sample.rows, problem.mass)
    slopes = sample.slopes(among, dual[:, rows], given[:, rows], intercepts, errors, largest)
    double = problem.with_kernel(problem.kernel.in_float64())
    left = double.margin_errors(dual, given, travelled=double.reach(dual))
    rest = errors_beyond_first_order(problem, dual, given, intercepts, largest, left)
    return rounding_of(*slopes, rest), evaluations


@dataclass(frozen=True)
class Sample:
    """Sample of the rows of a problem, or of a shard of one, on which margins are compared with those in float64."""

    rows: Indices  # ascending: those drawn, and those of the largest margins
    draws: Indices  # indices into `rows` of those drawn, with repetition
    chances: Floats  # of the draws

    @classmethod
    def of(
        cls, problem: MarginLosses, dual: Floats, given: Floats, intercepts: Floats, rng: np.random.Generator, size: int
    ) -> Sample:
        """Draw so many rows."""
        n = problem.n_rows
        # any chances will do; the sums below vary least where rows with steep terms come up most
        margins = problem.shifted(given, intercepts)
        steepness = np.abs(np.stack([problem.conjugate.subgradient_distance(margins, dual), dual]))
        steepness /= steepness.sum(axis=-1, keepdims=True) + TINY
        chance = steepness.mean(axis=(0, 1)) + 1 / n
        chance /= chance.sum()
        drawn = rng.choice(n, size, p=chance)
        extreme = np.argsort(np.abs(given).max(axis=0))[-size // 4 :]  # errors are largest where margins are
        rows, indices = np.unique(np.concatenate([drawn, extreme]), return_inverse=True)
        return cls(rows, indices[:size], chance[drawn])

    def slopes(
        self, losses: MarginLosses, dual: Floats, given: Floats, intercepts: Floats, errors: Floats, largest: Floats
    ) -> tuple[Floats, Floats]:
        """Estimate what errors of margins do, to first order, to the sum of the gaps and to the objectives of all rows.

        Returns the estimates, of shape (2, n_outputs), and their variances. Losses, coefficients, margins and their
        errors are those of the sample's rows. Slopes times errors, of either sign, are summed by the sample: all of
        them in their worst direction, which never happens, would cost a needless float64 pass, a sixth of a fit.
        """
        lower, upper = _moved_gaps(losses, dual, given, intercepts, largest)
        slopes = np.stack([(upper - lower) / (2 * largest), dual / 2])
        terms = slopes[..., self.draws] * errors[:, self.draws] / self.chances
        return terms.mean(axis=-1), terms.var(axis=-1) / len(self.draws)


def largest_error(errors: Floats) -> Floats:
    """Return twice the largest error of a sample, of shape (n_outputs, 1): no margin is taken to err by more."""
    return np.asarray(2 * np.abs(errors).max(axis=1, keepdims=True) + TINY)


def errors_beyond_first_order(
    losses: MarginLosses, dual: Floats, given: Floats, intercepts: Floats, largest: Floats, left: Floats
) -> Floats:
    """Bound what errors of margins add to the gap beyond first order, and rounding in float64, by output.

    Terms of the gap are convex in their margins: their curvature is counted as if every error were the largest. The
    margins with which those given are compared are rounded, too: `left` bounds by how much, for every row.
    """
    lower, upper = _moved_gaps(losses, dual, given, intercepts, largest)
    curvature = np.maximum(upper + lower, 0).sum(axis=1) / 2
    sums = losses.objective_sums(dual, given, intercepts, left)
    return np.asarray(curvature + np.maximum(sums.gap_rounding, sums.dual_rounding))


def rounding_of(estimates: Floats, variances: Floats, rest: Floats) -> Floats:
    """Return how far objectives, and gaps, may be from those in float64, from what `Sample.slopes` returned."""
    gap_error, objective_error = np.abs(estimates) + _DEVIATIONS * np.sqrt(variances)
    return np.asarray(np.maximum(gap_error, objective_error) + rest)


def is_trusted(objectives: Objectives, errors: Floats, tol: float) -> NDArray[np.bool_]:
    """Return which outputs' gaps on float32 kernel values meet a tolerance beyond doubt, with errors of this size."""
    rounded = objectives.rounded(errors)
    small = rounded.rounding <= np.maximum(_TRUSTED * rounded.unrounded, _NEGLIGIBLE)
    return np.asarray(small & (rounded.relative_gap <= tol) & (tol >= SINGLE_PRECISION_TOL))


def _moved_gaps(
    losses: MarginLosses, dual: Floats, given: Floats, intercepts: Floats, largest: Floats
) -> tuple[Floats, Floats]:
    """Return by how much every row's part of the gap changes if its margin were smaller, or larger, by `largest`."""
    margins = losses.shifted(given, intercepts)
    shares = losses.gaps(dual, margins)
    return losses.gaps(dual, margins - largest) - shares, losses.gaps(dual, margins + largest) - shares


def _float64_margins(problem: DualProblem, dual: Floats, rows: Indices) -> tuple[Floats, int]:
    """Return float64 margins of some rows, and the number of kernel values computed.

    Columns are taken in chunks, which bounds the memory of their float64 copies.
    """
    evaluations = 0
    support = np.flatnonzero(dual.any(axis=0))
    values = np.zeros((len(dual), len(rows)))
    for first in range(0, len(support), _COLUMNS_AT_ONCE):
        columns = support[first : first + _COLUMNS_AT_ONCE]
        together, indices = np.unique(np.concatenate([rows, columns]), return_inverse=True)
        exact = problem.kernel.take(together).in_float64()
        signed = (problem.labels * dual)[:, columns]
        values += exact.multiply(indices[len(rows) :], signed, indices[: len(rows)])
        evaluations += exact.evaluations
    return problem.labels[:, rows] * values, evaluations


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
    if gap < 0.9 * state.least_gap or (rising if state.newton is None else state.newton.progressed):
        state.improved_at = state.visited
        state.highest[now] = np.maximum(dual, state.highest[now])
        state.least_gap = gap


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
