"""Rounding of objectives on float32 kernel values: bounded for every row, or measured on a sample.

A margin that was summed from float32 kernel values errs by at most

    b_i = eta r_i sum_j |c_j| r_j,

where eta bounds the rounding of a kernel value and of a sum, r are the sizes of rows
(`RowTransform.sizes`), and c are all changes of coefficients that led to the margin
(`KernelMatrix.rounding`). Every term of the objectives is convex in its margin, so that these
bounds also bound the rounding of the objectives (`MarginLosses.objective_terms`).

1. The margins of rows whose bound matters are computed in float64, and the errors of the other rows
   count with their bounds. The result is a strict bound. It is used if it takes at most a tenth of
   the work of the solve, or some milliseconds: for up to some thousand rows always.
2. If it would take more and the kernel is stationary, all rows have size one and similar errors.
   The ratio of errors to their bounds is then measured on a sample, which always includes the rows
   with the largest effect according to the bounds. Every row's error is assumed to be at most twice
   the largest ratio, times its bound. A sample in which few rows err far more than the others says
   too little, and is not used.
3. Errors of other kernels, "linear" and "poly", grow with the sizes of rows, and few long rows may
   have nearly all of them. They are never sampled: their bounds count, and where these are too
   large, float64 has to decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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


@dataclass(frozen=True)
class BoundSettings:
    """Costs of a bound by float64 margins."""

    bound_share: float = 0.1  # A bound may cost this fraction of the work so far.
    bound_values: float = 3e7  # It may always cost this many float32 values, some milliseconds.
    spare: float = 0.005
    """Rows left in float32 may change objectives by this fraction of the gap or tolerance."""
    chunk_columns: int = 65536  # Columns copied to float64 at a time.


BOUND_SETTINGS = BoundSettings()


@dataclass(frozen=True)
class Rounded:
    """Objectives that include the rounding of float32."""

    objectives: Objectives
    margins: Floats  # Margins, some of them recomputed in float64, of shape (n_outputs, n).
    evaluations: int
    is_bound: bool  # Whether the rounding is a strict bound, without a sample.


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
    """Return objectives that include the rounding of float32 kernel values.

    `margins` are those of `dual` without intercept, `objectives` those of both without rounding,
    and `travelled` is the accumulated rounding of the margins, see `DualProblem.objectives`. `work`
    is the number of float32 kernel values computed so far, with which the cost of the check is
    compared.
    """
    bounds = problem.margin_errors(dual, margins, travelled)
    matter = importance(problem, dual, margins, objectives, bounds)
    spare = BOUND_SETTINGS.spare * max(tol, float(objectives.unrounded.min()))
    rows, n_columns = np.flatnonzero(matter > spare / problem.n_rows), int(np.count_nonzero(dual.any(axis=0)))
    cost, intercepts, evaluations = FLOAT64_COST * len(rows) * n_columns, objectives.intercept, 0
    is_affordable = cost <= max(BOUND_SETTINGS.bound_share * work, BOUND_SETTINGS.bound_values)
    if not is_affordable and problem.kernel.transform.kernel.stationary:
        # A sample may cost a hundredth of the work so far.
        size = int(np.clip(0.01 * work / (FLOAT64_COST * max(1, n_columns)), SAMPLE, 4096))
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
    """Bound the relative change of the objectives by errors of a row within its bounds.

    The result, of shape (n,), is the maximum over the outputs.
    """
    shifted = losses.shifted(margins, objectives.intercept)
    terms = losses.objective_terms(dual, margins, shifted, bounds)
    _, _, of_gap, of_dual = (next(terms) for _ in range(4))
    size = np.maximum(np.abs(objectives.primal), TINY)[:, None]
    return np.asarray((np.maximum(of_gap, of_dual) / size).max(axis=0))


def float64_margins(problem: DualProblem, dual: Floats, rows: Indices) -> tuple[Floats, Floats, int]:
    """Return float64 margins of some rows, bounds of their rounding, and the kernel evaluations.

    Columns are copied to float64 in chunks, to bound the memory.
    """
    evaluations, rounding = 0, 0.0
    support = np.flatnonzero(dual.any(axis=0))
    values = np.zeros((len(dual), len(rows)))
    chunks = range(0, len(support), BOUND_SETTINGS.chunk_columns)
    for first in chunks:
        columns = support[first : first + BOUND_SETTINGS.chunk_columns]
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
    """Estimate the rounding of objectives and gaps by output, and count the kernel evaluations.

    The estimate is None if the errors of the sample are too uneven.
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
    """Sample of the rows of a problem or shard, to compare their margins with those in float64."""

    rows: Indices  # Ascending: the rows with the largest effect, and rows drawn among the others.
    certain: Indices  # Indices into `rows` of the rows with the largest effect.
    draws: Indices  # Indices into `rows` of the rows drawn, with repetition.
    chances: Floats  # Probabilities of the draws.

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
        """Draw `size` rows, and add a quarter as many that `matter` most (see `importance`)."""
        n = problem.n_rows
        count = min(n, size // 4)
        most = np.argpartition(matter, n - count)[n - count :]
        # All probabilities give unbiased sums; those in proportion to steepness give a small
        # variance.
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
        """Estimate the first-order effect of errors of margins on the gap and on the objectives.

        Returns the estimates for all rows, of shape (2, n_outputs), and their variances. Losses,
        coefficients, margins and their errors are those of the sample's rows. Slopes times errors
        are summed with their signs: to assume the worst sign for all, which never happens, would
        cost a needless float64 pass, a quarter of a fit.
        """
        lower, upper = _moved_gaps(losses, dual, given, intercepts, largest)
        products = np.stack([(upper - lower) / (2 * largest), dual / 2]) * errors
        sums = products[..., self.certain].sum(axis=-1)
        if not len(self.draws):
            return sums, np.zeros_like(sums)
        terms = products[..., self.draws] / self.chances
        return sums + terms.mean(axis=-1), terms.var(axis=-1) / len(self.draws)


def is_trusted(objectives: Objectives, tol: float, is_bound: bool, float64_is_costly: bool = False) -> bool:
    """Return whether float32 objectives, with their rounding, meet a tolerance for all outputs.

    Unless the rounding `is_bound` strictly, it was estimated from a sample. It must then be at most
    a fifth of the gap, or an absolute error of the relative gap of 5e-10; if float64 is costly, it
    suffices that twice the rounding would still meet the tolerance.
    """
    gap, rounding = objectives.relative_gap, objectives.rounding
    is_small = np.full(len(gap), is_bound) | (rounding <= np.maximum(0.2 * objectives.unrounded, 5e-10))
    if float64_is_costly:
        is_small |= gap + rounding <= tol
    return bool((is_small & (gap <= tol)).all()) and tol >= SINGLE_PRECISION_TOL


def is_uneven(parts: Floats) -> bool:
    """Return whether few errors, as fractions of their bounds, are far larger than the others.

    The largest may be 12 root mean squares. For some hundred errors of one distribution it is 3 to
    7, and 12 if one row has half of the sum of squares.
    """
    size = np.sqrt((parts**2).mean(axis=1))
    return bool((parts.max(axis=1, initial=0.0) > 12.0 * size).any())


def largest_part(parts: Floats) -> Floats:
    """Return twice the largest fraction of a bound, of shape (n_outputs, 1)."""
    return np.asarray(2 * parts.max(axis=1, keepdims=True))


def errors_beyond_first_order(
    losses: MarginLosses, dual: Floats, given: Floats, intercepts: Floats, largest: Floats, left: Floats
) -> Floats:
    """Bound the effect of errors on the gap beyond first order, and that of rounding in float64.

    Terms of the gap are convex in their margins, and their curvature is bounded as if every error
    were `largest`. `left` bounds the rounding of the float64 margins with which the `given` ones
    are compared. Both have the shape of the margins. There is one bound for every output.
    """
    lower, upper = _moved_gaps(losses, dual, given, intercepts, largest)
    curvature = np.maximum(upper + lower, 0).sum(axis=1) / 2
    sums = losses.objective_sums(dual, given, intercepts, left)
    return np.asarray(curvature + np.maximum(sums.gap_rounding, sums.dual_rounding))


def rounding_of(estimates: Floats, variances: Floats, rest: Floats) -> Floats:
    """Return the rounding of objectives and gaps: estimates plus five standard deviations."""
    gap_error, objective_error = np.abs(estimates) + 5 * np.sqrt(variances)
    return np.asarray(np.maximum(gap_error, objective_error) + rest)


def _moved_gaps(
    losses: MarginLosses, dual: Floats, given: Floats, intercepts: Floats, largest: Floats
) -> tuple[Floats, Floats]:
    """Return the changes of the rows' gaps if margins were smaller, or larger, by `largest`."""
    margins = losses.shifted(given, intercepts)
    shares = losses.gaps(dual, margins)
    return losses.gaps(dual, margins - largest) - shares, losses.gaps(dual, margins + largest) - shares
