"""What float32 kernel values may have done to objectives: bounded for every row, or measured on some of them.

A margin that was summed up on float32 kernel values errs by at most

    b_i = eta r_i sum_j |c_j| r_j,

where eta bounds the rounding of a kernel value and of a sum, r are the sizes of rows (`RowTransform.sizes`), and c are
all changes of coefficients that led to it (`KernelMatrix.rounding`). Every term of the objectives is convex in its
margin, so that these bounds give a bound of what rounding does to the sums (`MarginLosses.objective_terms`).

1. The margins of rows whose bound matters are computed in float64, and the errors of the other rows count at their
   bounds. That is a bound of everything. It is used where it takes no more than a tenth of the work of the solve, or
   some milliseconds: up to some thousand rows always.
2. Where it would take more and the kernel is stationary, all rows have the size one and errors are alike: the part of
   the bounds that errors reach is measured on a sample of rows, which always has the rows that the bounds say matter
   most. No row is taken to err by more than twice the largest part that was seen. A sample in which few rows err far
   more than the others says too little, and is not used.
3. Errors of other kernels, "linear" and "poly", grow with the sizes of rows, and few long rows may have all of them.
   They are never sampled: their bounds count, and where these are too large, float64 has to decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dimargin.problems.dual import DualProblem
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import Objectives
from dimargin.system.arrays import TINY, UNIT, Floats, Indices

SINGLE_PRECISION_TOL = 1e-4
"""Below this tolerance a certificate needs float64 kernel values."""
SAMPLE = 256
"""Smallest number of rows drawn to compare float32 margins with float64 ones."""
FLOAT64_COST = 3.0
"""A float64 kernel value takes at most this many times as long as one in float32."""

_MAX_SAMPLE = 4096
_SAMPLE_SHARE = 0.01  # A sample may cost this part of the work so far.
_BOUND_SHARE = 0.1  # Margins for a bound may cost this part of the work so far,
_BOUND_VALUES = 3e7  # or as much as this many kernel values in float32, which take some milliseconds.
_SPARE = 0.005  # Rows left in float32 may change either objective by this part of the gap, or of the tolerance.
_TRUSTED = 0.2  # Largest accepted errors of both objectives by a sample, as a fraction of the gap.
_NEGLIGIBLE = 5e-10  # Absolute error of a relative gap that is accepted in any case.
_DEVIATIONS = 5  # Standard deviations of a sum that is estimated from a sample.
_MAX_UNEVENNESS = 12.0
"""Largest error of a sample, in root mean squares of its errors, with which the sample is used.

With errors of one distribution it is 3 to 7 for some hundred rows; one row with half of the sum of squares makes it 12.
"""
_COLUMNS_AT_ONCE = 65536


@dataclass(frozen=True)
class Rounded:
    """Objectives with what float32 has done to them."""

    objectives: Objectives
    margins: Floats  # with those that were computed in float64, of shape (n_outputs, n)
    evaluations: int
    is_bound: bool  # whether no sample was used

    def is_trusted(self, tol: float) -> bool:
        """Return whether the gaps of all outputs meet a tolerance."""
        found = self.objectives
        if self.is_bound:
            return found.worst_gap <= tol and tol >= SINGLE_PRECISION_TOL
        return bool(is_trusted(found, tol).all())


def with_rounding(
    problem: DualProblem,
    dual: Floats,
    margins: Floats,
    objectives: Objectives,
    travelled: Floats | None,
    rng: np.random.Generator,
    tol: float,
    work: float,
) -> Rounded:
    """Return objectives on float32 kernel values with their rounding.

    Parameters
    ----------
    problem : DualProblem
        On float32 kernel values.
    dual, margins : ndarray of shape (n_outputs, n)
        Margins without intercept.
    objectives : Objectives
        Those of `dual` and `margins`, without rounding.
    travelled : ndarray of shape (n_outputs,) or None
        As `DualProblem.objectives` takes it.
    rng : numpy.random.Generator
    tol : float
        Tolerance of the solve.
    work : float
        Kernel values in float32 that the solve has computed so far, as a measure of what a check may cost.
    """
    bounds = problem.margin_errors(dual, margins, travelled)
    matter = importance(problem, dual, margins, objectives, bounds)
    spare = _SPARE * max(tol, float(objectives.unrounded.min()))
    rows, n_columns = np.flatnonzero(matter > spare / problem.n_rows), int(np.count_nonzero(dual.any(axis=0)))
    cost, intercepts, evaluations = FLOAT64_COST * len(rows) * n_columns, objectives.intercept, 0
    is_affordable = cost <= max(_BOUND_SHARE * work, _BOUND_VALUES)
    if not is_affordable and problem.kernel.transform.kernel.stationary:
        size = int(np.clip(_SAMPLE_SHARE * work / (FLOAT64_COST * max(1, n_columns)), SAMPLE, _MAX_SAMPLE))
        errors, evaluations = _sampled_rounding(problem, dual, margins, intercepts, bounds, matter, rng, size)
        if errors is not None:
            return Rounded(objectives.rounded(errors), margins, evaluations, False)
    if is_affordable and len(rows):
        exact, rounding, evaluations = float64_margins(problem, dual, rows)
        margins, bounds = margins.copy(), bounds.copy()
        margins[:, rows], bounds[:, rows] = exact, rounding
    sums = problem.objective_sums(dual, margins, intercepts, bounds)
    found = sums.objectives(intercepts, problem.reach(dual) if problem.intercept else 0.0)
    return Rounded(found.raised() if is_affordable else found, margins, evaluations, True)


def importance(losses: MarginLosses, dual: Floats, margins: Floats, objectives: Objectives, bounds: Floats) -> Floats:
    """Bound by how much errors within bounds change a row's terms of the objectives, relative to the objectives.

    The result, of shape (n,), is that of the output where it is largest.
    """
    shifted = losses.shifted(margins, objectives.intercept)
    terms = losses.objective_terms(dual, margins, shifted, bounds)
    _, _, of_gap, of_dual = (next(terms) for _ in range(4))
    size = np.maximum(np.abs(objectives.primal), TINY)[:, None]
    return np.asarray((np.maximum(of_gap, of_dual) / size).max(axis=0))


def float64_margins(problem: DualProblem, dual: Floats, rows: Indices) -> tuple[Floats, Floats, int]:
    """Return float64 margins of some rows, bounds of their rounding, and the number of kernel values computed.

    Columns are taken in chunks, which bounds the memory of their float64 copies.
    """
    evaluations, rounding = 0, 0.0
    support = np.flatnonzero(dual.any(axis=0))
    values = np.zeros((len(dual), len(rows)))
    chunks = range(0, len(support), _COLUMNS_AT_ONCE)
    for first in chunks:
        columns = support[first : first + _COLUMNS_AT_ONCE]
        together, indices = np.unique(np.concatenate([rows, columns]), return_inverse=True)
        exact = problem.kernel.take(together).in_float64()
        signed = (problem.labels * dual)[:, columns]
        values += exact.multiply(indices[len(rows) :], signed, indices[: len(rows)])
        rounding = max(rounding, exact.rounding(len(columns)) + len(chunks) * UNIT)
        evaluations += exact.evaluations
    errors = rounding * problem.reach(dual)[:, None] * problem.kernel.row_sizes[rows]
    return problem.labels[:, rows] * values, errors, evaluations


def _sampled_rounding(
    problem: DualProblem,
    dual: Floats,
    given: Floats,
    intercepts: Floats,
    bounds: Floats,
    matter: Floats,
    rng: np.random.Generator,
    size: int,
) -> tuple[Floats | None, int]:
    """Estimate how far objectives, and gaps, are from those in float64, by output; count its kernel values.

    The estimate is None where the errors of the sample are too uneven.
    """
    sample = Sample.of(problem, dual, given, intercepts, matter, rng, size)
    exact, rounding, evaluations = float64_margins(problem, dual, sample.rows)
    rows, errors = sample.rows, exact - given[:, sample.rows]
    parts = np.abs(errors) / (bounds[:, rows] + TINY)
    if is_uneven(parts):
        return None, evaluations
    largest = largest_part(parts) * bounds + TINY
    among = problem.of_rows(rows, problem.mass)
    slopes = sample.slopes(among, dual[:, rows], given[:, rows], intercepts, errors, largest[:, rows])
    left = np.broadcast_to(rounding.max(axis=1, keepdims=True), given.shape)
    rest = errors_beyond_first_order(problem, dual, given, intercepts, largest, left)
    return rounding_of(*slopes, rest), evaluations


@dataclass(frozen=True)
class Sample:
    """Sample of the rows of a problem, or of a shard of one, on which margins are compared with those in float64."""

    rows: Indices  # ascending: those that matter most, and those drawn among the others
    certain: Indices  # indices into `rows` of those that matter most
    draws: Indices  # indices into `rows` of those drawn, with repetition
    chances: Floats  # of the draws

    @classmethod
    def of(
        cls,
        problem: MarginLosses,
        dual: Floats,
        given: Floats,
        intercepts: Floats,
        matter: Floats,
        rng: np.random.Generator,
        size: int,
    ) -> Sample:
        """Draw `size` rows, and take a quarter as many more, those that `matter` most (see `importance`)."""
        n = problem.n_rows
        count = min(n, size // 4)
        most = np.argpartition(matter, n - count)[n - count :]
        # any chances will do; the sums below vary least where rows with steep terms come up most
        margins = problem.shifted(given, intercepts)
        steepness = np.abs(np.stack([problem.conjugate.subgradient_distance(margins, dual), dual]))
        steepness[..., most] = 0.0
        steepness /= steepness.sum(axis=-1, keepdims=True) + TINY
        chance = steepness.mean(axis=(0, 1)) + 1 / n
        chance[most] = 0.0
        total = chance.sum()
        drawn = rng.choice(n, size, p=chance / total) if total else most[:0]
        rows, indices = np.unique(np.concatenate([drawn, most]), return_inverse=True)
        return cls(rows, indices[len(drawn) :], indices[: len(drawn)], chance[drawn] / (total or 1.0))

    def slopes(
        self, losses: MarginLosses, dual: Floats, given: Floats, intercepts: Floats, errors: Floats, largest: Floats
    ) -> tuple[Floats, Floats]:
        """Estimate what errors of margins do, to first order, to the sum of the gaps and to the objectives of all rows.

        Returns the estimates, of shape (2, n_outputs), and their variances. Losses, coefficients, margins and their
        errors are those of the sample's rows. Slopes times errors, of either sign, are summed by the sample: all of
        them in their worst direction, which never happens, would cost a needless float64 pass, a quarter of a fit.
        """
        lower, upper = _moved_gaps(losses, dual, given, intercepts, largest)
        products = np.stack([(upper - lower) / (2 * largest), dual / 2]) * errors
        sums = products[..., self.certain].sum(axis=-1)
        if not len(self.draws):
            return sums, np.zeros_like(sums)
        terms = products[..., self.draws] / self.chances
        return sums + terms.mean(axis=-1), terms.var(axis=-1) / len(self.draws)


def is_trusted(objectives: Objectives, tol: float) -> NDArray[np.bool_]:
    """Return which outputs' gaps meet a tolerance beyond doubt, with the rounding that a sample suggests."""
    small = objectives.rounding <= np.maximum(_TRUSTED * objectives.unrounded, _NEGLIGIBLE)
    return np.asarray(small & (objectives.relative_gap <= tol) & (tol >= SINGLE_PRECISION_TOL))


def is_uneven(parts: Floats) -> bool:
    """Return whether few of the errors of a sample, as parts of their bounds, are far larger than the others."""
    size = np.sqrt((parts**2).mean(axis=1))
    return bool((parts.max(axis=1, initial=0.0) > _MAX_UNEVENNESS * size).any())


def largest_part(parts: Floats) -> Floats:
    """Return twice the largest error of a sample, as parts of their bounds, of shape (n_outputs, 1)."""
    return np.asarray(2 * parts.max(axis=1, keepdims=True))


def errors_beyond_first_order(
    losses: MarginLosses, dual: Floats, given: Floats, intercepts: Floats, largest: Floats, left: Floats
) -> Floats:
    """Bound what errors of margins add to the gap beyond first order, and rounding in float64, by output.

    Terms of the gap are convex in their margins: their curvature is counted as if every error were as large as
    `largest` says. The margins with which those given are compared are rounded, too: `left` bounds by how much. Both
    are of the shape of the margins.
    """
    lower, upper = _moved_gaps(losses, dual, given, intercepts, largest)
    curvature = np.maximum(upper + lower, 0).sum(axis=1) / 2
    sums = losses.objective_sums(dual, given, intercepts, left)
    return np.asarray(curvature + np.maximum(sums.gap_rounding, sums.dual_rounding))


def rounding_of(estimates: Floats, variances: Floats, rest: Floats) -> Floats:
    """Return how far objectives, and gaps, may be from those in float64, from what `Sample.slopes` returned."""
    gap_error, objective_error = np.abs(estimates) + _DEVIATIONS * np.sqrt(variances)
    return np.asarray(np.maximum(gap_error, objective_error) + rest)


def _moved_gaps(
    losses: MarginLosses, dual: Floats, given: Floats, intercepts: Floats, largest: Floats
) -> tuple[Floats, Floats]:
    """Return by how much every row's part of the gap changes if its margin were smaller, or larger, by `largest`."""
    margins = losses.shifted(given, intercepts)
    shares = losses.gaps(dual, margins)
    return losses.gaps(dual, margins - largest) - shares, losses.gaps(dual, margins + largest) - shares
