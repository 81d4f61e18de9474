"""Machine in the span of a few landmark rows, by generalised Newton (docs/algorithms.md#landmark-machines).

    1  choose landmarks z_1 .. z_S: a sample of the distinct rows, or by pivoted Cholesky as for DiODM's strata
    2  k(Z, Z) = L L' by Cholesky with pivoting, which drops linearly dependent landmarks
    3  Newton on the primal of f(x) = sum_s beta_s k(z_s, x), |f|^2 = beta'k(Z, Z) beta: first on an
       eighth of the rows, then from there on all

This is the machine with the Nystrom kernel ``k(x, Z) k(Z, Z)^-1 k(Z, z)``. The kernel values of all
rows are never stored: they are recomputed, 1,024 rows at a time, where the Hessian changes. The
certificate, of scope "landmark", is that of the machine restricted to this space; `certify`
computes the global one.
"""

from __future__ import annotations

import time
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from dimargin.kernels.matrix import KernelMatrix
from dimargin.shards.partition import pivoted_cholesky
from dimargin.shards.parts import Part, first_distinct_rows, n_shards_for
from dimargin.shards.shards import Sums
from dimargin.solvers import Newton, Shard, solve
from dimargin.solvers.landmark_features import LandmarkFeatures, independent_landmarks
from dimargin.solvers.primal import Parameters, margins_at
from dimargin.strategies.exact import Exact
from dimargin.strategies.strategy import LevelModel, Outcome, Strategy, Training, TreeShape, end_of_solve
from dimargin.system.arrays import Floats


@dataclass(eq=False, repr=False)
class Landmark(Strategy):
    """Newton's method in the space of landmarks, for losses with a derivative only.

    Parameters
    ----------
    landmark_choice : {"uniform", "greedy", "random"}, default="uniform"
        Choice of the landmarks: "uniform" samples the distinct rows; the others apply pivoted
        Cholesky to a sample of four times as many, and take the row of the largest Schur complement
        or draw in proportion to it, see `dimargin.shards.partition.pivoted_cholesky`.
    polish : bool, default=False
        Whether an exact solve of the whole problem follows, with a global certificate. It starts
        from the coefficients that the margins of the landmarks' machine imply, which may save work
        if few landmarks describe the machine well: on 24,000 rows of SUSY (lam=1e5, gamma=0.5) it
        took 3.6 to 4.5 n^2 kernel values with 300 landmarks, 3.6 without; on 20,000 of cod-rna,
        with a local kernel, 3.8 and 3.1 (bench/scripts/bench_cited.py).

    Examples
    --------
    >>> from dimargin import Landmark, ODMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(3000, noise=0.2, random_state=0)
    >>> ODMClassifier(strategy="landmark", n_landmarks=100, random_state=0).fit(X, y).certificate_
    'landmark'
    >>> ODMClassifier(strategy=Landmark(polish=True), n_landmarks=100, random_state=0).fit(X, y).certificate_
    'global'
    """

    uses = frozenset({"n_landmarks"})
    needs_smooth_loss = True
    max_landmarks: ClassVar[int] = 1000  # The default number of landmarks, if the estimator's is None.
    first_thinning: ClassVar[int] = 8  # The first solve uses one row in so many.
    start_tol: ClassVar[float] = 1e-2  # Relative gap of solves that only provide a start.

    landmark_choice: Literal["uniform", "greedy", "random"] = "uniform"
    polish: bool = False

    @property
    def is_linear(self) -> bool:
        """Return True unless an exact solve follows."""
        return not self.polish

    def n_levels(self, n_rows: int, shape: TreeShape) -> int:
        """Return the number of levels above 0: one on some of the rows if they are many, and one before a polish."""
        return (n_rows // self.first_thinning > 2 * (shape.n_landmarks or self.max_landmarks)) + self.polish

    def joins_all_rows(self, n_rows: int, shape: TreeShape) -> bool:
        """Return whether an exact solve follows that brings all rows together."""
        return self.polish and super().joins_all_rows(n_rows, shape)

    def memory_needed(self, n_rows: int, shape: TreeShape, n_outputs: int = 1, n_threads: int = 1) -> int:
        """Return the bytes of Hessians, as packed triangles and full matrices, and of the rows added to them.

        There are triangles for the last Hessian, for the partial sums of a tree, and two for each
        thread; and full matrices for a linear system, and one per output and two more for each thread.
        """
        m, depth = min(shape.n_landmarks or self.max_landmarks, n_rows), n_shards_for(n_rows).bit_length()
        triangles, whole = n_outputs * (1 + depth + 2 * n_threads), 4 + (n_outputs + 2) * n_threads
        return 8 * m * (m * (-(-triangles // 2) + whole) + 3 * 1024 * n_threads)

    def train(self, training: Training) -> Outcome:
        """Train by Newton's method on some of the rows, then on all; the history has one entry per step."""
        facts, began = training.facts, time.perf_counter()
        landmarks, factor, evaluations = self._landmarks(training)
        newton = Newton(landmarks.n_rows, facts.intercept, factor)
        parameters = np.zeros((facts.n_outputs, landmarks.n_rows + 1))
        if training.started:
            products, counted = training.rows.aggregate(_projected, landmarks)
            parameters[:, :-1], evaluations = newton.weights(products), evaluations + int(counted[0])
        prepared = time.perf_counter() - began, evaluations
        last, history, stopped = int(self.polish), list[dict[str, Any]](), False
        stages = [(last, 1, max(training.limits.tol, self.start_tol) if self.polish else training.limits.tol)]
        if not training.started and self.n_levels(facts.n_rows, training.shape) > last:
            stages.insert(0, (last + 1, self.first_thinning, max(training.limits.tol, self.start_tol)))
        for level, one_in, tol in stages:
            training.progress.level_begin(level, None)
            # After a stop, this stage only evaluates its start.
            ask = (lambda entry: True) if stopped else training.progress.check
            limits = replace(training.limits, tol=tol, stop_requested=ask)
            rows, mass = training.rows, facts.total / one_in
            if one_in > 1:  # Each shard has a Hessian, so the thinned rows are merged into fewer shards.
                rows = rows.map(_thinned, one_in, cheap=True).merge(Part.joined, one_in, mass)
            shards = rows.map(_feature_shard, (landmarks, mass, rows.n_threads), cheap=True)
            solution = solve(shards, replace(newton, explicit=not stopped), parameters, limits)
            parameters = solution.parameters
            dual = landmarks.problem.labels * newton.coefficients(solution.weights)
            found = LevelModel.of(landmarks, dual, solution.objectives.intercept)
            n_rows = -(-facts.n_rows // one_in)
            labels = {"level": level, "partitions": 1, "rows": n_rows, "scope": "landmark"}
            steps, end = end_of_solve(training.progress, solution.history, labels, partial(copy, found))
            history.extend(steps)
            stopped |= end or solution.status == "stopped"
        history[0]["seconds"] += prepared[0]
        history[0]["kernel_evaluations"] += prepared[1]
        outcome = replace(Outcome.of(solution, found, "landmark", history), passes=len(history))
        if not self.polish or solution.status != "converged" or stopped:
            return outcome
        value = landmarks, (newton.coefficients(solution.weights), parameters[:, -1])
        return self._polish(replace(training, rows=training.rows.map(_with_implied_dual, value)), outcome)

    def _polish(self, training: Training, coarse: Outcome) -> Outcome:
        """Solve exactly from a start; if that does not converge, return the model with the lower objective."""
        coarse.history[-1]["kernel_evaluations"] += training.facts.n_rows * len(coarse.model.indices)
        exact = Exact().train(training)
        kept, history = exact, [*coarse.history, *exact.history]
        if exact.status != "converged" and (exact.objectives.primal > coarse.objectives.primal).any():
            for cost in ("seconds", "kernel_evaluations"):
                coarse.history[-1][cost] += sum(entry[cost] for entry in exact.history)
            kept, history = coarse, coarse.history
        ended = replace(exact, objectives=kept.objectives, passes=coarse.passes + exact.passes)
        return Outcome.of(ended, kept.model, kept.scope, history)

    def _landmarks(self, training: Training) -> tuple[Part, Floats, int]:
        """Return linearly independent landmarks, the factor of their Gram matrix, and the evaluations."""
        wanted = min(training.shape.n_landmarks or self.max_landmarks, training.facts.n_rows)
        candidates = wanted * (1 if self.landmark_choice == "uniform" else 4)
        sample = first_distinct_rows(training.rows, candidates, training.facts.n_rows)
        kernel, chosen = sample.problem.kernel.in_float64(), np.arange(min(wanted, sample.n_rows))
        if self.landmark_choice != "uniform":
            rng = np.random.default_rng(training.random_state)
            chosen = pivoted_cholesky(kernel, np.arange(sample.n_rows), wanted, rng, self.landmark_choice)
        chosen, factor = independent_landmarks(kernel, chosen)
        return sample.take(chosen, sample.problem.mass), factor, kernel.evaluations


# ---- what shards do ------------------------------------------------------------------------------------------------


def _kernel(landmarks: Part, rows: KernelMatrix, n_threads: int) -> KernelMatrix:
    """Return the kernel matrix of the rows, with the landmarks as columns, in float64."""
    return landmarks.problem.kernel.in_float64().facing(rows, n_threads)


def _thinned(part: Part, one_in: int) -> Part:
    """Task that keeps one row in `one_in`."""
    return part.take(np.flatnonzero(part.indices % one_in == 0), part.problem.mass)


def _feature_shard(part: Part, value: tuple[Part, float, int]) -> Shard:
    """Task that returns the rows with kernel values as features, in a problem of a given mass."""
    landmarks, mass, n_threads = value
    kernel = _kernel(landmarks, part.problem.kernel, n_threads)
    return Shard(LandmarkFeatures(kernel), part.problem.of_rows(slice(None), mass))


def _projected(part: Part, landmarks: Part) -> Sums:
    """Task that returns the landmarks' decision values by the warm start, and the number of kernel values."""
    own, support = part.problem.kernel, part.support
    kernel = _kernel(landmarks, own, own.n_threads).transposed()
    products = kernel.multiply(support, (part.problem.labels * part.coefficients)[:, support])
    return products, np.array([kernel.evaluations], dtype=float)


def _with_implied_dual(part: Part, value: tuple[Part, Parameters]) -> Part:
    """Task that returns the rows with the dual coefficients that correspond to their margins."""
    landmarks, parameters = value
    shard = _feature_shard(part, (landmarks, part.problem.total, part.problem.kernel.n_threads))
    return replace(part, dual=part.problem.conjugate.response(margins_at(shard, parameters))[0])
