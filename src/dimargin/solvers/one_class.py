"""The one-class support vector machine with nu.

It maximises ``-1/2 a'Ka`` over ``0 <= a_i <= s_i, sum_i a_i = nu W`` (Schoelkopf et al., "Estimating the support of
a high-dimensional distribution", Neural Computation 13, 2001, problem 3.9 with coefficients ``nu W`` times as large).
This is the dual of a machine with labels of one, the loss ``s_i (-m_i)_+``, an intercept ``b = -rho`` and the term
``nu W b`` (`MarginLosses.balance`), so that block coordinate descent solves it. It starts at the machine of a quarter
of the rows: the rows with the smallest decision values there are at their bound.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import HingeLoss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.nu import Side, without_rounding
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import Solution
from dimargin.solvers.block_coordinate_descent import BlockCoordinateDescent
from dimargin.solvers.loop import Limits, solve
from dimargin.solvers.nu_search import NuResult
from dimargin.system.arrays import Floats

SAMPLE_ROWS = 4000
"""Problems of more rows start at the solution for a quarter of them."""


def solve_one_class(
    kernel: KernelMatrix, weights: Floats, nu: float, limits: Limits, seed: int = 0
) -> tuple[NuResult, float]:
    """Return the coefficients of the machine and rho.

    Parameters
    ----------
    kernel : KernelMatrix
        Square, of shape (n, n).
    weights : ndarray of shape (n,)
        Positive weights of the rows.
    nu : float
        Share of the weight that coefficients have, in (0, 1].
    limits : Limits
    seed : int, default=0
        Seed of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.kernels.functions import Kernel
    >>> X = np.array([[1.0], [2.0], [4.0]])
    >>> K = KernelMatrix.of(X, Kernel("linear"))
    >>> found, rho = solve_one_class(K, np.ones(3), 1 / 3, Limits(tol=1e-9))
    >>> found.coefficients.round(6), round(rho, 6)
    (array([1., 0., 0.]), 1.5)
    """
    problem, total = _problem(kernel, weights, nu), float(weights.sum())
    start, early = None, replace(limits, tol=max(limits.tol, 0.01))
    if len(weights) > SAMPLE_ROWS:
        index = np.sort(np.random.default_rng(seed).permutation(len(weights))[: len(weights) // 4])
        sample, _ = solve_one_class(kernel.take(index), weights[index], nu, early, seed)
        support = np.flatnonzero(sample.coefficients)
        values = kernel.multiply(index[support], sample.coefficients[None, support])[0]
        start = np.zeros((1, len(weights)))
        order = np.argsort(values)
        within = np.cumsum(weights[order]) <= nu * total
        start[0, order[within]] = weights[order[within]]
    solution = solve(problem, BlockCoordinateDescent(), start, limits)
    return _result(problem, solution)


def _problem(kernel: KernelMatrix, weights: Floats, nu: float) -> DualProblem:
    n, total = len(weights), float(weights.sum())
    # The hinge has its kink at one, less the target.
    losses = MarginLosses(np.ones((1, n)), weights, HingeLoss(1.0), total, total, True, -np.ones(n), nu * total)
    return DualProblem.of(losses, kernel)


def _result(problem: DualProblem, solution: Solution) -> tuple[NuResult, float]:
    a, rho, objectives = solution.dual[0], -float(solution.objectives.intercept[0]), solution.objectives
    if problem.n_rows <= BlockCoordinateDescent.small:
        a, objectives, rho = _with_inliers(problem, a)
    own = solution.status, solution.reason, solution.passes, solution.kernel_evaluations
    return NuResult(a, 0.0, objectives, *own), rho


def _with_inliers(problem: DualProblem, a: Floats) -> tuple[Floats, Objectives, float]:
    """Return coefficients without tiny ones, their certificate, and rho.

    It is lowered by the rounding of margins, so that rows on the boundary are inliers.
    """
    exact = problem.with_kernel(problem.kernel.in_float64())
    dual = exact.feasible(without_rounding(a, problem.weights, np.ones(len(a)))[None])
    margins, a = exact.margins(dual), dual[0]
    errors = exact.margin_errors(dual, margins)[0]
    side = Side(margins[0], errors, a, problem.weights, problem.balance)
    level = side.level()
    free = margins[0][(a > 0) & (a < problem.weights)]
    least = max(float(free.min(initial=np.inf)), level - 1e-6 * abs(level))
    rho = min(least, level) - 4 * float(errors.max()) - 1e-12 * abs(level)
    return a, exact.objectives(dual, margins, np.array([-rho])), rho
