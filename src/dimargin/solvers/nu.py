"""Solves of nu problems by block coordinate descent.

Pair steps and Newton steps keep the sums of the coefficients of both sides. A problem of many rows starts at the
solution for a quarter of them: the rows with the smallest values there are at their bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.nu import NuProblem, without_rounding
from dimargin.problems.regression_losses import EpsilonInsensitiveLoss
from dimargin.problems.solution import Solution
from dimargin.solvers.block_coordinate_descent import BlockCoordinateDescent
from dimargin.solvers.loop import Limits, solve
from dimargin.system.arrays import Floats

SAMPLE_ROWS = 4000
"""Problems of more rows start at the solution for a quarter of them."""
ROUGH_TOL = 0.01
"""Gap of the solutions for samples."""


class WithoutMargin:
    """Rule that ends a solve of classes that overlap too much for nu: a margin of zero has no relative gap.

    Zero weights and levels have a primal objective of zero. Problems with a small margin took up to 35 checks until
    their objective was below zero. While it is not, the gap bounds the distance between both classes (between their
    reduced convex hulls). A distance below a thousandth of the length of a row counts as zero.
    """

    checks = 80
    smallest_distance = 1e-3

    def __init__(self, problem: NuProblem) -> None:
        length = float(np.median(problem.kernel.column_sizes))
        # The dual objective is half the square of the distance, times that of the sum of a side's coefficients.
        self._smallest = 0.5 * (self.smallest_distance * problem.masses[0] * length) ** 2
        self._count = 0

    def __call__(self, entry: dict[str, Any]) -> bool:
        """Count checks in turn with a positive objective."""
        objective = entry["objective"][0]
        self._count = self._count + 1 if objective > 0 else 0
        return objective > 0 and (self._count >= self.checks or entry["relative_gap"] * objective <= self._smallest)


def solve_nu(problem: NuProblem, limits: Limits, seed: int = 0) -> Solution:
    """Return the solution; its intercepts are the two levels.

    Parameters
    ----------
    problem : NuProblem
    limits : Limits
    seed : int, default=0
        Seed of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.kernels.functions import Kernel
    >>> from dimargin.kernels.matrix import KernelMatrix
    >>> K = KernelMatrix.of(np.array([[1.0], [2.0], [4.0]]), Kernel("linear"))
    >>> found = solve_nu(NuProblem.of_labels(K, np.ones(3), np.ones(3), 1 / 3), Limits(tol=1e-9))
    >>> found.dual.round(6), found.objectives.intercept[0, 0].round(6)
    (array([[1., 0., 0.]]), np.float64(1.5))
    """
    start, own = _start(problem, limits, seed), limits
    if problem.given is None:
        own = replace(limits, stop_requested=WithoutMargin(problem))
    solution = solve(problem, BlockCoordinateDescent(), start, own)
    if solution.status == "stopped" and not limits.interrupted.is_set():
        reason = "the classes overlap so much that there is no margin, or hardly one"
        solution = replace(solution, status="precision", reason=reason)
    if problem.n_rows > BlockCoordinateDescent.small:
        return solution
    # Users count support vectors and outliers of small problems.
    exact = problem.with_kernel(problem.kernel.in_float64())
    dual = exact.feasible(without_rounding(solution.dual[0], exact.conjugate.upper, exact.labels[0])[None])
    margins = exact.margins(dual)
    levels = exact.levels(dual, margins)
    if not exact.masses[1]:
        levels[:, 0] = _level_of_inliers(exact, dual, margins, float(levels[0, 0]))
    objectives = exact.objectives(dual, margins, levels)
    if objectives.worst_gap > max(limits.tol, solution.objectives.worst_gap):
        return solution
    return replace(solution, dual=dual, margins=margins, objectives=objectives)


def solve_nu_regression(
    kernel: KernelMatrix, targets: Floats, weights: Floats, nu: float, C: float, limits: Limits
) -> Solution:
    """Return the solution of nu-SVR, with one coefficient of either sign for a row and one intercept.

    If nu is larger than the share that coefficients take without a band, the best epsilon is zero. Coefficients of
    the same row on both sides may then rise together without an effect, and Newton steps along them are short, so
    that the machine without a band is solved instead.
    """
    found = solve_nu(NuProblem.of_targets(kernel, targets, weights, nu, C), limits)
    above, below = np.split(found.dual, 2, axis=1)
    levels, signed = found.objectives.intercept, above - below
    found = replace(
        found, dual=signed, objectives=replace(found.objectives, intercept=0.5 * (levels[:, 1] - levels[:, 0]))
    )
    total = float(weights.sum())
    has_slack = float(np.abs(signed).sum()) < (1 - 1e-6) * C * nu * total
    if not has_slack or (found.status == "converged" and len(targets) > BlockCoordinateDescent.small):
        return found
    losses = MarginLosses(np.ones(signed.shape), weights, EpsilonInsensitiveLoss(C, 0.0), total, total, True, targets)
    plain = solve(DualProblem.of(losses, kernel), BlockCoordinateDescent(), signed, limits)
    is_within = float(np.abs(plain.dual).sum()) <= C * nu * total
    # Differences of large coefficients may be nothing but rounding.
    is_better = plain.objectives.worst_gap <= found.objectives.worst_gap
    is_better |= abs(float(signed.sum())) > 1e-9 * float(np.abs(signed).sum())
    return plain if is_within and is_better else found


def _level_of_inliers(problem: NuProblem, dual: Floats, margins: Floats, level: float) -> float:
    """Return the level of one class, lowered by the rounding of margins: rows on the boundary are inliers."""
    is_free = (dual > 0) & (dual < problem.conjugate.upper)
    least = max(float(margins[is_free].min(initial=np.inf)), level - 1e-6 * abs(level))
    return min(least, level) - 4 * float(problem.margin_errors(dual, margins).max()) - 1e-12 * abs(level)


def _start(problem: NuProblem, limits: Limits, seed: int) -> Floats | None:
    n = problem.n_rows
    if n <= SAMPLE_ROWS:
        return None
    index = np.sort(np.random.default_rng(seed).permutation(n)[: n // 4])
    found = solve_nu(problem.sample(index), replace(limits, tol=max(limits.tol, ROUGH_TOL)), seed)
    support = np.flatnonzero(found.dual[0])
    signed = problem.labels[:, index[support]] * found.dual[:, support]
    margins = problem.labels * problem.kernel.multiply(index[support], signed)
    values, start = problem.hinge_values(margins)[0], np.zeros((1, n))
    for rows, mass in problem.parts:
        order = rows[np.argsort(values[rows])]
        upper = problem.conjugate.upper[order]
        start[0, order] = np.where(np.cumsum(upper) <= mass, upper, 0.0)
    return start
