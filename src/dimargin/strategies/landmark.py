"""Landmarks: the machine in the space of few rows, by generalised Newton (handbook, section 8; LLSVM, Falkon).

    1  landmarks z_1 .. z_S, a sample of the rows (or by pivoted Cholesky, as for DiODM's strata)
    2  k(Z, Z) = L L' by Cholesky with pivoting: landmarks that add nothing are dropped
    3  Newton on the primal of f(x) = sum_s beta_s k(z_s, x), |f|^2 = beta'k(Z, Z) beta: first on an eighth of the rows,
       then, from there, on all

It is the machine with the Nystrom kernel ``k(x, Z) k(Z, Z)^-1 k(Z, z)``. Kernel values with all rows are never held:
those of 1,024 at a time are computed again where the Hessian changes. The certificate, of scope "landmark", is that of
the machine restricted to this space; `certify` computes the global one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from dimargin.kernels import Floats, Indices, KernelMatrix
from dimargin.partition import LandmarkFeatures, independent_landmarks, pivoted_cholesky
from dimargin.shards import Shards
from dimargin.solution import DualProblem
from dimargin.solvers import Newton, Shard, solve
from dimargin.solvers.primal import Place, margins_at
from dimargin.strategies.base import LevelModel, Outcome, Strategy, Training, TreeShape, each_step
from dimargin.strategies.exact import Exact

_CANDIDATES = 4  # rows that landmarks are chosen from by pivoted Cholesky, for each
_SHARDS, _ROWS_OF_SHARD = 512, 8192  # at most, and about: whatever the number of threads, for the same sums
_PART, _LOOSE = 8, 1e-2  # one row in so many begins; relative gap of what only has to start the next solve


class Landmark(Strategy):
    """Newton in the space of landmarks; losses with a derivative only.

    Parameters
    ----------
    landmark_choice : {"uniform", "greedy", "random"}, default="uniform"
        A uniform sample of the rows; or pivoted Cholesky on a sample of four times as many, which takes the largest
        Schur complement or draws in proportion to it, see `dimargin.partition.pivoted_cholesky`.
    polish : bool, default=False
        Whether an exact solve of the whole problem follows, from the coefficients that answer the margins of the
        landmarks' machine; the certificate is global then. Where few landmarks describe the machine well this saves
        work: 24,000 rows of SUSY, lam=1e5, take 1.0 s with 300 landmarks, 1.5 s without; 20,000 of cod-rna, with a
        local kernel, 0.8 and 0.6 s. Newton's method with conjugate gradients, preconditioned by the landmarks, took 4
        to 57 n^2 kernel values there where this takes 1.5 to 9.

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
    most_landmarks: ClassVar[int] = 1000  # where the estimator says None

    def __init__(
        self, landmark_choice: Literal["uniform", "greedy", "random"] = "uniform", polish: bool = False
    ) -> None:
        self.landmark_choice = landmark_choice
        self.polish = polish

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        self._check_choice("landmark_choice", "uniform", "greedy", "random")

    def n_levels(self, n_rows: int, shape: TreeShape) -> int:
        """One of a part of the rows, if that is worth it, and one of the landmarks before the exact solve."""
        return (n_rows // _PART > 2 * (shape.n_landmarks or self.most_landmarks)) + self.polish

    def memory_needed(self, n_rows: int, shape: TreeShape, n_outputs: int = 1, n_threads: int = 1) -> int:
        """Hessians: their sum, two parts a thread, a factor; and features of some rows, scaled, of every thread."""
        m = min(shape.n_landmarks or self.most_landmarks, n_rows)
        return 8 * m * (m * (n_outputs * (2 + 2 * n_threads) + 3) + 3 * 1024 * n_threads)

    def train(self, training: Training) -> Outcome:
        """Newton on a part of the rows, then on all; the history has one entry a step."""
        problem, rng, began = training.problem, np.random.default_rng(training.random_state), time.perf_counter()
        kernel = problem.kernel.in_float64()
        landmarks, factor = independent_landmarks(kernel, self._landmarks(kernel, training.shape, rng))
        newton = Newton(len(landmarks), problem.intercept, factor)
        place = self._start(training, kernel, landmarks, newton)
        prepared = time.perf_counter() - began, kernel.evaluations
        last, n, history, stopped = int(self.polish), problem.n_rows, list[dict[str, Any]](), False
        stages = [(last, np.arange(n), max(training.limits.tol, _LOOSE) if self.polish else training.limits.tol)]
        if training.start is None and self.n_levels(n, training.shape) > last:
            part = np.sort(rng.permutation(n)[: n // _PART])
            stages.insert(0, (last + 1, part, max(training.limits.tol, _LOOSE)))
        for level, rows, tol in stages:
            training.progress.level_begin(level, None)
            ask = (lambda entry: True) if stopped else training.progress.check  # stopped in part: one look at all
            limits = replace(training.limits, tol=tol, stop_requested=ask)
            shards = training.engine.scatter(list(self._shards(problem, kernel, rows, landmarks)))
            solution = solve(shards, newton, place, limits)
            place = np.column_stack([solution.weights, solution.objectives.intercept])
            dual = np.zeros(problem.labels.shape)
            dual[:, landmarks] = problem.labels[:, landmarks] * newton.coefficients(solution.weights)
            found = LevelModel(dual, solution.objectives.intercept)
            labels = {"level": level, "partitions": 1, "rows": len(rows), "scope": "landmark"}
            history.extend(each_step(solution.history, labels))
            end = training.progress.level_end({**history[-1], **solution.history[-1]}, partial(copy, found))
            stopped |= end or solution.status == "stopped"
        history[0]["seconds"] += prepared[0]
        history[0]["kernel_evaluations"] += prepared[1]
        status, reason = solution.status, solution.reason
        outcome = Outcome(found, solution.objectives, "landmark", status, reason, len(history), history)
        go_on = self.polish and status == "converged" and not stopped
        return (
            self._polished(training, outcome, shards, (newton.coefficients(solution.weights), place[:, -1]))
            if go_on
            else outcome
        )

    def _polished(self, training: Training, coarse: Outcome, shards: Shards[Shard], place: Place) -> Outcome:
        """The exact solve from the answers to the margins; the model with the smaller objective if time runs out."""
        margins = np.concatenate(shards.collect(margins_at, place), axis=1)
        coarse.history[-1]["kernel_evaluations"] += training.problem.n_rows * place[0].shape[1]
        exact = Exact().train(replace(training, start=training.problem.pieces.response(margins)[0]))
        if exact.status != "converged" and (exact.objectives.primal > coarse.objectives.primal).any():
            for cost in ("seconds", "kernel_evaluations"):
                coarse.history[-1][cost] += sum(entry[cost] for entry in exact.history)
            exact = replace(exact, model=coarse.model, objectives=coarse.objectives, scope=coarse.scope, history=[])
        return replace(exact, history=[*coarse.history, *exact.history], passes=coarse.passes + exact.passes)

    def _landmarks(self, kernel: KernelMatrix, shape: TreeShape, rng: np.random.Generator) -> Indices:
        n, wanted = kernel.shape[0], min(shape.n_landmarks or self.most_landmarks, kernel.shape[0])
        if self.landmark_choice == "uniform":
            return np.sort(rng.permutation(n)[:wanted])
        candidates = np.sort(rng.permutation(n)[: _CANDIDATES * wanted])
        return pivoted_cholesky(kernel, candidates, wanted, rng, self.landmark_choice)

    def _start(self, training: Training, kernel: KernelMatrix, landmarks: Indices, newton: Newton) -> Floats:
        """Zero, or the projection of an earlier model; without intercept."""
        place = np.zeros((len(training.problem.labels), len(landmarks) + 1))
        if training.start is not None:
            support = np.flatnonzero(training.start.any(axis=0))
            signed = (training.problem.labels * training.start)[:, support]
            place[:, :-1] = newton.weights(kernel.multiply(support, signed, landmarks))
        return place

    def _shards(self, problem: DualProblem, kernel: KernelMatrix, rows: Indices, landmarks: Indices) -> Iterator[Shard]:
        mass = float(problem.weights[rows].sum())
        for part in np.array_split(rows, min(_SHARDS, -(-len(rows) // _ROWS_OF_SHARD))):
            features = LandmarkFeatures(kernel.take(np.concatenate([landmarks, part]), 1), len(landmarks))
            yield Shard(features, problem.of_rows(part, mass))
