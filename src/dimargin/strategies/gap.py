"""Evaluation of the whole problem at given support vectors: margins, intercept and gap, across shards.

The support vectors are sent to every shard, in float64, and sums are returned. With an intercept b
the primal is minimised over it. Losses that allow an intercept are one-sided, or the sum of two
that are (`Loss.kinks`), and in proportion to a row's weight. A positive row has a loss where
``b < t_i``, a negative one where ``b > t_i``, with a kink t_i and a slope that is constant or
linear in ``b - t_i``. So for every b outside an interval, only the number and the mean of the
``t_i`` of a class in it are needed: shards send sums over narrow intervals, and then over narrower
ones around the best b.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dimargin.kernels.column_statistics import row_chunks
from dimargin.problems.dual import DualProblem
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import Objectives, ObjectiveSums
from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards, Sums
from dimargin.solvers import Limits
from dimargin.solvers.loop import Interrupted
from dimargin.strategies.strategy import Facts
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class Evaluation:
    """Losses and margins of the rows of a shard at some coefficients, in arrays of shape (n_outputs, n)."""

    losses: MarginLosses
    dual: Floats
    margins: Floats  # Margins do not include the intercept.
    errors: Floats  # Bounds of the rounding of the margins.
    evaluations: int
    max_values_at_once: ClassVar[int] = 10**8  # Cancellation is checked after every so many kernel values.

    def kinks(self) -> list[tuple[Floats, Floats, Floats]]:
        """Return the rows of `Loss.kinks` for every output."""
        return self.losses.kinks(self.margins)


@dataclass(frozen=True)
class InterceptSearch:
    """Settings of the search for the best intercept."""

    n_intervals: int = 2048
    """Number of intervals for which the shards send sums."""
    n_zooms: int = 3
    """Number of searches, each in three intervals of the last one: finally in 2e-10 of the range."""


def whole_objectives(rows: Shards[Part], support: Part, facts: Facts, limits: Limits) -> tuple[Objectives, int]:
    """Return the objectives of the whole problem, and the number of kernel values computed.

    `support` has the rows with nonzero coefficients, in the order of their keys. Only
    `limits.cancelled` has an effect.
    """
    exact = DualProblem.of(support.problem, support.problem.kernel.in_float64())
    evaluated = rows.map(evaluate_from, (replace(support, problem=exact), rows.n_threads, limits))
    intercepts = np.zeros(len(support.problem.labels))
    if facts.intercept:
        intercepts = _best_intercepts(evaluated, facts)
    *sums, evaluations = evaluated.aggregate(_sums, intercepts)
    evaluated.release()
    return ObjectiveSums(*sums).objectives(intercepts, exact.reach(support.coefficients)), int(evaluations[0])


def evaluate_from(part: Part, value: tuple[Part, int, Limits]) -> Evaluation:
    """Task that computes the margins of the rows of a shard."""
    support, n_threads, limits = value
    kernel, labels = support.problem.kernel.facing(part.problem.kernel, n_threads), part.problem.labels
    rows, columns, margins = np.arange(part.n_rows), np.arange(support.n_rows), np.zeros(labels.shape)
    signed = support.problem.labels * support.coefficients
    if kernel.has_weights:
        weights = kernel.weights(columns, signed)
        margins, errors = labels * kernel.scores(weights), kernel.score_errors(weights, columns, signed)
    else:
        for some in row_chunks(part.n_rows, max(512, Evaluation.max_values_at_once // max(1, support.n_rows))):
            if limits.cancelled.is_set():
                raise Interrupted
            margins[:, some] = labels[:, some] * kernel.multiply(columns, signed, rows[some])
        errors = kernel.product_errors(columns, signed)
    losses = part.problem.of_rows(rows, support.problem.total)
    return Evaluation(losses, coefficients_of(part, support), margins, errors, kernel.evaluations)


def coefficients_of(part: Part, support: Part) -> Floats:
    """Return the coefficients of the rows of a part, zero for rows that are not support vectors."""
    dual = np.zeros(part.problem.labels.shape)
    _, own, theirs = np.intersect1d(part.indices, support.indices, assume_unique=True, return_indices=True)
    dual[:, own] = support.coefficients[:, theirs]
    return dual


def _sums(evaluated: Evaluation, intercepts: Floats) -> Sums:
    sums = evaluated.losses.objective_sums(evaluated.dual, evaluated.margins, intercepts, evaluated.errors)
    return *sums, np.array([evaluated.evaluations], dtype=float)


def _best_intercepts(evaluated: Shards[Evaluation], facts: Facts) -> Floats:
    ends = np.array(evaluated.collect(_kink_range))
    low, high = ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
    best: Floats = (low + high) / 2
    for _ in range(InterceptSearch.n_zooms):
        width = (high - low) / InterceptSearch.n_intervals
        weights, moments = evaluated.aggregate(_binned, (low, width), wide=True)
        for output in range(len(best)):
            b = _best_of_means(weights[output], moments[output], facts)
            best[output] = min(max(b, low[output]), high[output])
        index = np.floor((best - low) / np.where(width > 0, width, 1.0))
        # Keep one more interval on either side, because rounding may have moved a row there.
        low, high = low + (index - 1) * width, low + (index + 2) * width
    return best


def _kink_range(evaluated: Evaluation, _: None) -> tuple[Floats, Floats]:
    kinks = np.array([kinks for kinks, _, _ in evaluated.kinks()])
    return kinks.min(axis=1), kinks.max(axis=1)


def _binned(evaluated: Evaluation, value: tuple[Floats, Floats]) -> Sums:
    """Return weights and moments of rows by class and interval, of shape (n_outputs, 2, n_intervals + 2)."""
    n_intervals = InterceptSearch.n_intervals
    size = n_intervals + 2
    sums: list[list[Floats]] = [[], []]
    for (kinks, labels, weights), low, width in zip(evaluated.kinks(), *value, strict=True):
        interval = np.clip(np.floor((kinks - low) / (width or 1.0)), -1, n_intervals).astype(np.int64) + 1
        bins = interval + size * (labels > 0)
        for own, terms in zip(sums, (weights, weights * kinks), strict=True):
            own.append(np.bincount(bins, terms, 2 * size).reshape(2, size).astype(float))
    return np.array(sums[0]), np.array(sums[1])


def _best_of_means(weights: Floats, moments: Floats, facts: Facts) -> float:
    """Return the best intercept if all rows of a class in an interval are replaced by one row at their mean."""
    rows, loss = np.nonzero(weights), facts.loss.one_sided
    labels, own = np.where(rows[0] > 0, 1.0, -1.0), np.asarray(weights[rows])
    conjugate = loss.conjugate(own, facts.total, facts.total)
    return loss.best_intercept(labels - moments[rows] / own, labels, conjugate)
