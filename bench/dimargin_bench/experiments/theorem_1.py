"""Theorem 1 of the DC-SVM paper: a bound on the difference of the joined solutions of clusters to the optimum.

Let ``f(a) = 1/2 a'Qa - 1'a`` on the box ``0 <= a_i <= C_i``, ``f_b`` the same function with zero
kernel values between clusters, ``a*`` the minimiser of ``f``, and ``f_b(a)`` at most ``gap`` above
the minimum of ``f_b``, where ``gap`` is the sum of the absolute duality gaps of the clusters (the
theorem has exact solutions, ``gap = 0``). Then

    f(a) - f(a*)  =  f_b(a) - f_b(a*) + 1/2 sum_{c(i) != c(j)} (a_i a_j - a*_i a*_j) Q_ij
                 <=  gap + 1/2 sum_{c(i) != c(j)} C_i C_j |K_ij|

since both products lie in ``[0, C_i C_j]``. A pair counts twice, as (i, j) and as (j, i); with
equal ``C_i`` this is the ``C^2 D(pi) / 2`` of the paper. It needs a box (the hinge), and no
intercept: with one, ``sum y_i a_i = 0`` in every cluster, which ``a*`` need not satisfy, so that
``f_b(a*)`` may lie below ``f_b(a)``.

The paper's Figure 1 says that the bound is quite close to the difference. It is not: on 10,000 rows
of covtype it is thousands of times larger (``dimargin bench dcsvm --part figure-1``). See
docs/algorithms.md#theorem-1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import t as student

from dimargin.kernels.column_statistics import row_chunks
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History
from dimargin.shards.parts import Part
from dimargin.shards.shards import Sums
from dimargin.shards.tree import Level
from dimargin.strategies.dc import DivideAndConquer
from dimargin.strategies.levels import Step, average
from dimargin.strategies.solves import Solved, Summary
from dimargin.strategies.strategy import Facts, Training
from dimargin.system.arrays import Floats, Indices

_MAX_EXACT_ROWS = 10_000  # Those of the paper's Figure 1. With more rows, the bound is estimated from a sample.


class BoundedDivideAndConquer(DivideAndConquer):
    """Divide and conquer with Theorem 1's bound in ``history_`` for every level above 0.

    The bound takes up to ``n^2`` kernel values for n <= 10,000 rows, and 128 n for more, which are
    counted.
    """

    def _levels(self, training: Training, history: History) -> Iterator[Step]:
        facts = training.facts
        for step in super()._levels(training, history):
            level = step.level
            if level.level == 0:
                yield step
                continue
            rng = np.random.default_rng([training.random_state, level.level])
            entries, evaluations = bound(facts, level, average(level, facts.total), rng)
            yield replace(step, evaluations=step.evaluations + evaluations, about=step.about | entries)


def bound(
    facts: Facts, level: Level[Summary], solved: Objectives, rng: np.random.Generator
) -> tuple[dict[str, Any], int]:
    """Return entries for ``history_`` of a level, and the number of kernel values computed for them.

    The level has one part per cluster. `solved` are the sums of the objectives over the clusters;
    the worst output counts. The entries are ``theorem_1_bound``, on the dual objective, and
    ``theorem_1_bound_sampled``. For up to 10,000 rows the sum is exact and the latter False. For
    more rows the kernel values would cost as much as the whole solve, so the sum is estimated from
    128 rows drawn in proportion to ``C_i``: the bound is then the upper end of a one-sided 99%
    confidence interval (Student's, of the mean of the sampled sums). There are no entries for a
    loss without a box, or with an intercept.
    """
    box = facts.loss.conjugate(np.ones(1), facts.total, facts.total).upper[0]
    if facts.intercept or not np.isfinite(box):
        return {}, 0
    keys = {part.first_index: number for number, part in enumerate(level.results)}
    total = box * facts.total  # Boxes are in proportion to weights.
    sampled = facts.n_rows > _MAX_EXACT_ROWS
    draws = _draws(level, rng) if sampled else None
    found = level.parts.collect(_drawn_rows, draws)
    rows = Part.joined(found, facts.total)
    clusters = np.repeat(np.arange(len(found)), [part.n_rows for part in found])
    sums, evaluations = level.parts.aggregate(_outside, (rows, clusters, keys, level.parts.n_threads))
    if sampled:
        sums *= total
        error = student.ppf(0.99, len(sums) - 1) * sums.std(ddof=1) / np.sqrt(len(sums))
        outside = float(sums.mean() + error)
    else:
        outside = float(rows.problem.conjugate.upper @ sums)
    gap = float((solved.primal - solved.dual).max())
    entries = {"theorem_1_bound": gap + outside / 2, "theorem_1_bound_sampled": sampled}
    return entries, int(evaluations[0])


def _draws(level: Level[Summary], rng: np.random.Generator) -> dict[int, Floats]:
    """Return, for every part, the positions in its cumulative weight at which rows are drawn."""
    weights = np.array([part.weight for part in level.results])
    ends = np.cumsum(weights)
    drawn = np.sort(rng.random(128)) * ends[-1]
    parts = np.minimum(np.searchsorted(ends, drawn, side="right"), len(ends) - 1)
    inside = drawn - (ends - weights)[parts]
    return {part.first_index: inside[parts == number] for number, part in enumerate(level.results)}


def _drawn_rows(solved: Solved, draws: dict[int, Floats] | None) -> Part:
    """Task that returns rows drawn with replacement in proportion to their weights, or all rows without draws."""
    part, mass = solved.part, solved.part.problem.total
    if draws is None:
        return part.take(np.arange(part.n_rows), mass)
    ends = np.cumsum(part.problem.weights)
    rows = np.searchsorted(ends, draws[part.first_index], side="right")
    return part.take(np.minimum(rows, part.n_rows - 1), mass)


def _outside(solved: Solved, value: tuple[Part, Indices, dict[int, int], int]) -> Sums:
    """Task that sums ``C_j |K_ij|`` over its rows j, for rows i of other clusters, and counts the kernel values."""
    rows, clusters, keys, n_threads = value
    part, sums = solved.part, np.zeros(rows.n_rows)
    elsewhere = np.flatnonzero(clusters != keys[part.first_index])
    kernel = rows.problem.kernel.facing(part.problem.kernel, n_threads)
    for some in row_chunks(part.n_rows):
        asked = np.arange(part.n_rows)[some]
        sums[elsewhere] += part.problem.conjugate.upper[some] @ np.abs(kernel.block(asked, elsewhere))
    return sums, np.array([kernel.evaluations], dtype=float)
