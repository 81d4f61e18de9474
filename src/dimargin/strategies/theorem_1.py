"""Theorem 1 of the DC-SVM paper: how far the solutions of the clusters, put together, can be from the optimum.

Let ``f(a) = 1/2 a'Qa - 1'a`` on the box ``0 <= a_i <= C_i``, ``f_b`` the same without the kernel between clusters,
``a*`` the least point of ``f``, and ``f_b(a)`` at most ``gap`` above the least value of ``f_b``: the sum of the
absolute duality gaps of the clusters (the theorem has exact solutions, ``gap = 0``). Then

    f(a) - f(a*)  =  f_b(a) - f_b(a*) + 1/2 sum_{c(i) != c(j)} (a_i a_j - a*_i a*_j) Q_ij
                 <=  gap + 1/2 sum_{c(i) != c(j)} C_i C_j |K_ij|

since both products lie in ``[0, C_i C_j]``. A pair counts twice, as (i, j) and as (j, i); with equal ``C_i`` this is
the ``C^2 D(pi) / 2`` of the paper. It needs a box (the hinge), and no intercept: with one, ``sum y_i a_i = 0`` in every
cluster, which ``a*`` need not satisfy, so that ``f_b(a*)`` may lie below ``f_b(a)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import t as student

from dimargin.kernels import Floats, Indices
from dimargin.solution import DualProblem, Objectives

_EXACT_ROWS, _SAMPLED_ROWS = 2048, 128
_CONFIDENCE = 0.99
_COLUMNS_AT_ONCE = 16384  # bounds the scratch memory


def bound(problem: DualProblem, clusters: Indices, solved: Objectives, rng: np.random.Generator) -> dict[str, Any]:
    """Entries of ``history_`` of a level; the kernel values that they take are added to the problem's count.

    Parameters
    ----------
    problem : DualProblem
        The whole one.
    clusters : ndarray of shape (n,)
    solved : Objectives
        Sums over the clusters; the worst output counts.
    rng : numpy.random.Generator

    Returns
    -------
    dict
        ``theorem_1_bound``, on the dual objective, and ``theorem_1_bound_sampled``. Up to 2,048 rows the sum is exact
        and the latter False. Beyond it the kernel values would cost as much as the whole solve, so the sums of 128
        rows, drawn in proportion to ``C_i``, estimate it: the bound is then the upper end of a one-sided 99% confidence
        interval (Student's, of the mean of the sampled sums), not a certainty. Empty for a loss without a box, or with
        an intercept.
    """
    boxes = problem.pieces.upper
    if problem.intercept or not np.isfinite(boxes).all():
        return {}
    sampled = problem.n_rows > _EXACT_ROWS
    if sampled:
        rows = rng.choice(problem.n_rows, _SAMPLED_ROWS, p=boxes / boxes.sum())
        sums = boxes.sum() * _outside(problem, clusters, boxes, rows)
        error = student.ppf(_CONFIDENCE, len(rows) - 1) * sums.std(ddof=1) / np.sqrt(len(rows))
        total = float(sums.mean() + error)
    else:
        total = float(boxes @ _outside(problem, clusters, boxes, np.arange(problem.n_rows)))
    gap = float((solved.primal - solved.dual).max())
    return {"theorem_1_bound": gap + total / 2, "theorem_1_bound_sampled": sampled}


def _outside(problem: DualProblem, clusters: Indices, boxes: Floats, rows: Indices) -> Floats:
    """``sum_j C_j |K_ij|`` over the rows of other clusters, of shape (len(rows),)."""
    sums = np.zeros(len(rows))
    for first in range(0, problem.n_rows, _COLUMNS_AT_ONCE):
        columns = np.arange(first, min(first + _COLUMNS_AT_ONCE, problem.n_rows))
        values = np.abs(problem.kernel.block(rows, columns))
        values[clusters[rows][:, None] == clusters[columns]] = 0.0
        sums += values @ boxes[columns]
    return sums
