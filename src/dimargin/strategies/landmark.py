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
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from scipy.linalg import lapack

from dimargin.kernels import Floats, Indices, KernelMatrix
from dimargin.partition import pivoted_cholesky
from dimargin.solution import DualProblem, History
from dimargin.solvers import solve
from dimargin.solvers.newton import Newton, Shard
from dimargin.strategies.base import LevelModel, Outcome, Strategy, Training, TreeShape, each_step

_LANDMARKS = 1000
_CANDIDATES = 4  # rows that landmarks are chosen from by pivoted Cholesky, for each
_RANK_TOLERANCE = 1e-10  # of the largest pivot: landmarks below it add rounding
_SHARDS, _ROWS_OF_SHARD = 32, 2048  # at most, and about: whatever the number of threads, for the same sums
_PART, _PART_TOL = 8, 1e-2  # one row in so many begins, and to which relative gap


def independent(kernel: KernelMatrix, landmarks: Indices) -> tuple[Indices, Floats]:
    """As many of the landmarks as are linearly independent in the kernel's space, and L of their ``k(Z, Z) = L L'``."""
    values = kernel.block(landmarks, landmarks)
    floor = _RANK_TOLERANCE * values.diagonal().max(initial=0.0)
    factor, order, rank, _ = lapack.dpstrf(values, lower=1, tol=floor)
    return landmarks[order[:rank] - 1], np.tril(factor[:rank, :rank])


@dataclass(frozen=True)
class LandmarkFeatures:
    """Kernel values with the landmarks as features: see `dimargin.solvers.newton.Features`.

    Attributes
    ----------
    kernel : KernelMatrix
        Of the landmarks, and behind them the rows.
    n_landmarks : int
    """

    kernel: KernelMatrix
    n_landmarks: int

    def scores(self, weights: Floats) -> Floats:
        """See `Features`."""
        return self.kernel.multiply(np.arange(self.n_landmarks), weights, self._rows)

    def combine(self, coefficients: Floats) -> Floats:
        """See `Features`."""
        return self.kernel.multiply(self._rows, coefficients, np.arange(self.n_landmarks))

    def rows(self, index: Indices) -> Floats:
        """See `Features`."""
        return self.kernel.block(self.n_landmarks + index, np.arange(self.n_landmarks))

    def evaluations(self) -> int:
        """See `Features`."""
        return self.kernel.evaluations

    @property
    def _rows(self) -> Indices:
        return np.arange(self.n_landmarks, self.kernel.shape[0])


class Landmark(Strategy):
    """Newton in the space of landmarks; losses with a derivative only.

    Parameters
    ----------
    landmark_choice : {"uniform", "greedy", "random"}, default="uniform"
        A uniform sample of the rows; or pivoted Cholesky on a sample of four times as many, which takes the largest
        Schur complement or draws in proportion to it, see `dimargin.partition.pivoted_cholesky`.
    """

    uses = frozenset({"n_landmarks"})
    needs_smooth_loss = True

    def __init__(self, landmark_choice: Literal["uniform", "greedy", "random"] = "uniform") -> None:
        self.landmark_choice = landmark_choice

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        self._check_choice("landmark_choice", "uniform", "greedy", "random")

    def n_levels(self, n_rows: int, shape: TreeShape) -> int:
        """One, of a part of the rows, if that is worth it."""
        return int(n_rows // _PART > 2 * (shape.n_landmarks or _LANDMARKS))

    def memory_needed(self, n_rows: int, shape: TreeShape, n_outputs: int = 1, n_threads: int = 1) -> int:
        """Hessians: their sum, parts of every thread, a factor; and features of some rows, scaled, of every thread."""
        m = min(shape.n_landmarks or _LANDMARKS, n_rows)
        return 8 * m * (m * (n_outputs * (2 + n_threads) + 3) + 3 * 1024 * n_threads)

    def train(self, training: Training) -> Outcome:
        """Newton on a part of the rows, then on all; the history has one entry a step."""
        problem, rng, began = training.problem, np.random.default_rng(training.random_state), time.perf_counter()
        kernel = problem.kernel.in_float64()
        landmarks, factor = independent(kernel, self._landmarks(kernel, training.shape, rng))
        newton = Newton(len(landmarks), problem.intercept, factor)
        place = self._start(training, kernel, landmarks, newton)
        prepared = time.perf_counter() - began, kernel.evaluations
        history: History = []
        levels = self.n_levels(problem.n_rows, training.shape) if training.start is None else 0
        for level in range(levels, -1, -1):
            rows = np.arange(problem.n_rows)
            if level:
                rows = np.sort(rng.permutation(problem.n_rows)[: problem.n_rows // _PART])
            training.progress.level_begin(level, None)
            tol = max(training.limits.tol, _PART_TOL) if level else training.limits.tol
            limits = replace(training.limits, tol=tol, stop_requested=training.progress.check)
            shards = training.engine.scatter(list(self._shards(problem, kernel, rows, landmarks)))
            solution = solve(shards, newton, place, limits)
            place = np.column_stack([solution.weights, solution.objectives.intercept])
            dual = np.zeros(problem.labels.shape)
            dual[:, landmarks] = problem.labels[:, landmarks] * newton.coefficients(solution.weights)
            found = LevelModel(dual, solution.objectives.intercept)
            history.extend(each_step(solution.history, {"level": level, "partitions": 1, "rows": len(rows)}))
            training.progress.level_end({**history[-1], **solution.history[-1]}, partial(_given, found))
        passes = len(history)
        history[0]["seconds"] += prepared[0]
        history[0]["kernel_evaluations"] += prepared[1]
        return Outcome(found, solution.objectives, "landmark", solution.status, solution.reason, passes, history)

    def _landmarks(self, kernel: KernelMatrix, shape: TreeShape, rng: np.random.Generator) -> Indices:
        n, wanted = kernel.shape[0], min(shape.n_landmarks or _LANDMARKS, kernel.shape[0])
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
            yield Shard.of(features, problem.of_rows(part, mass))


def _given(found: LevelModel) -> LevelModel:
    return found
