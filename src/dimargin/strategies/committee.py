"""Bayesian committee machine over clusters: sums the calibrated log odds of all local machines.

This is Tresp's committee (Neural Computation, 2000) for classifiers. With members trained on disjoint rows,

    logit P(y|x) = sum_c logit P_c(y|x) - (k - 1) logit P(y)

A member's probabilities are fitted by Platt's maximum likelihood, with his smoothed targets, to its
decision values on held-out rows, three folds of its cluster. There is one difference: a member
without information (f_c = 0) must answer with the prior, so only the slope is fitted, and members
have no intercept:

    logit P_c(y|x) = logit P(y) + a_c f_c(x),   a_c >= 0

Platt's second parameter would make k - 1 members answer with the odds of their own cluster
(docs/algorithms.md#early-prediction).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from dimargin.kernels.matrix import KernelMatrix
from dimargin.shards.shards import Sums
from dimargin.shards.tree import Level
from dimargin.solvers import solve
from dimargin.strategies.routing import Router
from dimargin.strategies.solves import Plan, Solved, Summary
from dimargin.strategies.strategy import Outcome, Training
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class Committee(Router):
    """Committee of the machines of all clusters, which predicts log odds."""

    slopes: Floats  # The slopes ``a_c`` have shape (n_clusters, n_outputs).
    prior: Floats  # Log odds of the positive class among all rows, of shape (n_outputs,).
    max_log_odds: ClassVar[float] = float(logit(1 - 1e-6))  # A member's log odds are clipped to this size.

    def decision_values(self, kernel: KernelMatrix, X: Any, coefficients: Floats) -> Floats:
        """Return log odds, of shape (n_outputs, n_rows); see `Router.decision_values`."""
        prior = self.prior[:, None]
        values = np.repeat(prior, X.shape[0], axis=1)
        for slopes, own in zip(self.slopes, self.members(self.clusters), strict=True):
            log_odds = prior + slopes[:, None] * kernel.multiply(own, coefficients[:, own])
            values += np.clip(log_odds, -self.max_log_odds, self.max_log_odds) - prior
        return values


def calibrated(training: Training, level: Level[Summary], router: Router, tol: float) -> tuple[Committee | None, int]:
    """Return a committee of the machines of a level, and the number of kernel values computed.

    The level has one part per cluster, and folds start from its coefficients. The router knows the
    cluster of every support vector. Folds are solved to the relative gap `tol`, or to that of the
    fit if it is larger. The committee is None if a time limit or an interrupt left it unfinished.
    """
    limits, parts = replace(training.limits, tol=max(training.limits.tol, tol)), level.parts
    (positive,) = parts.aggregate(_positive)
    prior = np.clip(logit(positive / training.facts.total), -Committee.max_log_odds, Committee.max_log_odds)
    members = parts.collect(_member_slopes, (Plan.of(training, parts, limits), prior))
    evaluations = sum(spent for _, spent in members)
    if limits.out_of_time or limits.interrupted.is_set():
        return None, evaluations
    slopes = np.array([slopes for slopes, _ in members])
    return Committee(router.rule, router.clusters, slopes, prior), evaluations


def warn_if_uncalibrated(training: Training, outcome: Outcome) -> Outcome:
    """Return the outcome, with status "stopped" or "max_time" if its committee was left uncalibrated."""
    if outcome.model.router is None or isinstance(outcome.model.router, Committee):
        return outcome
    interrupted = training.limits.interrupted.is_set()
    reason = f"{outcome.reason}; the committee was not calibrated in time, so prediction is 'early' instead"
    return replace(outcome, status="stopped" if interrupted else "max_time", reason=reason)


# ---- what parts do -------------------------------------------------------------------------------------------------


def _positive(solved: Solved, _: None) -> Sums:
    """Return the weight of the positive rows, of shape (n_outputs,)."""
    problem = solved.part.problem
    return ((problem.weights * (problem.labels > 0)).sum(axis=1),)


def _member_slopes(solved: Solved, value: tuple[Plan, Floats]) -> tuple[Floats, int]:
    """Return the slopes of a machine, of shape (n_outputs,), and the number of kernel values computed."""
    plan, prior = value
    part = solved.part.with_threads(plan.n_threads)
    labels, kernel = part.problem.labels, part.problem.kernel
    folds = np.arange(part.n_rows) % 3  # Rows are in the order of their keys, which is random.
    values, evaluations = np.zeros(labels.shape), 0
    for fold in range(3 if part.n_rows > 1 else 0):
        kept, held_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        local = part.take(kept, part.problem.mass)
        problem = replace(local.problem, intercept=False)  # As that of the member itself.
        solution = solve(problem, plan.solver(part.first_index, fold), local.dual, plan.limits)
        values[:, held_out] = kernel.multiply(kept, labels[:, kept] * solution.dual, held_out)
        evaluations += solution.kernel_evaluations
    outputs = zip(values, labels, prior, strict=True)
    slopes = [_slope(own, signs, part.problem.weights, float(odds)) for own, signs, odds in outputs]
    return np.array(slopes), evaluations + kernel.evaluations


def _slope(values: Floats, labels: Floats, weights: Floats, prior: float) -> float:
    """Return the maximum likelihood slope, with Platt's targets ``(N+ + 1)/(N+ + 2)`` and ``1/(N- + 2)``."""
    positive, negative = weights[labels > 0].sum(), weights[labels < 0].sum()
    targets = np.where(labels > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))

    def derivative(slope: float) -> float:
        """Return the derivative of the negative log likelihood, which increases with the slope."""
        return float(weights @ (values * (expit(prior + slope * values) - targets)))

    if derivative(0.0) >= 0:
        return 0.0
    upper = 1 / np.abs(values).max()
    while derivative(upper) < 0:
        upper *= 2
    return float(brentq(derivative, 0.0, upper, xtol=1e-12, rtol=1e-9))
