"""Linear machines by stochastic variance reduced gradient (docs/algorithms.md#variance-reduced-gradients).

svrg    SVRG on one shard
csvrg   SVRG with the gradients of anchors computed on a core-set
dsvrg   SVRG on stratified partitions: acc-DiODM, the paper's Algorithm 2, corrected
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dimargin import solvers
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform, StoredRows
from dimargin.problems.dual import DualProblem
from dimargin.shards.partition import StratifiedPartition
from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards
from dimargin.solvers import LinearFeatures, PrimalSolution, Shard
from dimargin.solvers.linear_dual import joined_shard
from dimargin.solvers.primal import PrimalSolver
from dimargin.strategies.linear_newton import LinearSolver, LinearTraining


@dataclass(eq=False, repr=False)
class LinearSVRG(LinearSolver):
    """Stochastic variance reduced gradient (Johnson and Zhang, NeurIPS 2013), see `dimargin.solvers.svrg`.

    Parameters
    ----------
    step_size : {"safe", "barzilai_borwein"}, default="safe"
        Step size from the smoothness of the loss, or from the last two stages, which is seldom
        faster here.
    inner_passes : float, default=1.0
        Inner steps of a stage, in passes over the rows.

    Examples
    --------
    >>> from dimargin import LinearODMClassifier, LinearSVRG
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = LinearODMClassifier(10, 0.5, 0.1, solver=LinearSVRG(inner_passes=5)).fit(scale(X), y)
    >>> machine.status_
    'converged'
    """

    deals_rows = True

    step_size: Literal["safe", "barzilai_borwein"] = "safe"
    inner_passes: float = 1.0

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        super().validate()
        self._check_positive("inner_passes")

    def train(self, training: LinearTraining) -> PrimalSolution:
        """Train by stages on all rows."""
        rows = self._rows(training)
        solution = training.run(self._solver(training), rows, training.facts.n_rows)
        rows.release()
        return solution

    def _solver(self, training: LinearTraining) -> PrimalSolver[Any]:
        return solvers.SVRG(**self._settings(training))

    def _settings(self, training: LinearTraining) -> dict[str, Any]:
        return {
            "n_features": training.facts.n_features, "intercept": training.facts.intercept,
            "inner_passes": float(self.inner_passes), "step_size": self.step_size,
            "random_state": training.random_state,
        }  # fmt: skip

    def _rows(self, training: LinearTraining) -> Shards[Shard]:
        return training.rows.merge(joined_shard, training.rows.n_shards)


class LinearCoreSetSVRG(LinearSVRG):
    """SVRG with anchors on a core-set, see `dimargin.solvers.core_set_svrg`: a baseline, slower than "svrg" here.

    Entries of ``history_`` have ``anchor_rows``, the number of rows with which gradients at anchors
    are computed. If it is that of all rows, the core-set would have needed too many, and the solve
    is that of "svrg".

    Parameters
    ----------
    radius : float, default=0.2
        Initial radius of the balls around the core-set, relative to the extent of a class; 0 is
        SVRG.
    inner_passes : float, default=1.0
        Inner steps of a stage, in passes over the rows.
    """

    def __init__(self, radius: float = 0.2, inner_passes: float = 1.0) -> None:
        super().__init__(inner_passes=inner_passes)
        self.radius = radius

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        super().validate()
        if not 0 <= self.radius < math.inf:
            raise ValueError(f"LinearCoreSetSVRG: radius must be a number of at least 0, got {self.radius!r}")

    def _solver(self, training: LinearTraining) -> PrimalSolver[Any]:
        return solvers.CoreSetSVRG(**self._settings(training), radius=float(self.radius))


class LinearDSVRG(LinearSVRG):
    """Distributed SVRG: rows stay in their partition, and the iterate visits the partitions sequentially.

    Only the gradient at the anchor is computed in parallel. Inner steps take one job per partition
    and stage on a cluster.

    Parameters
    ----------
    n_partitions : int, default=8
        Number of stratified partitions of the rows, at most one per row.
    n_landmarks : int, default=50
        Number of landmarks that, combined with the labels, define the strata; at most the rank of
        the rows is used.
    step_size : {"safe", "barzilai_borwein"}, default="safe"
        Step size, see `LinearSVRG`.
    inner_passes : float, default=1.0
        Inner steps of a stage, in passes over the rows.
    """

    def __init__(
        self,
        n_partitions: int = 8,
        n_landmarks: int = 50,
        step_size: Literal["safe", "barzilai_borwein"] = "safe",
        inner_passes: float = 1.0,
    ) -> None:
        super().__init__(step_size, inner_passes)
        self.n_partitions = n_partitions
        self.n_landmarks = n_landmarks

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        super().validate()
        self._check_positive("n_partitions")
        self._check_positive("n_landmarks")

    def _rows(self, training: LinearTraining) -> Shards[Shard]:
        """Return stratified partitions of rows with the linear kernel."""
        facts = training.facts
        n_parts, rng = min(self.n_partitions, facts.n_rows), np.random.default_rng(training.random_state)
        parts = training.rows.map(_part)
        dealt = StratifiedPartition(self.n_landmarks).deal(parts, facts.n_rows, n_parts, rng)
        return dealt.parts.map(_shard, facts.mass)


# ---- what shards do ------------------------------------------------------------------------------------------------


def _part(shard: Shard, _: None) -> Part:
    """Task that returns the rows of a shard as a part of a problem with the linear kernel."""
    X = shard.features.matrix
    kernel = KernelMatrix(RowTransform.fit(X, Kernel("linear")).in_float64(), X)
    return Part(DualProblem.of(shard.losses, kernel), shard.first + np.arange(shard.losses.n_rows))


def _shard(part: Part, mass: float) -> Shard:
    """Task that returns the rows of a part as a shard of a linear problem of a given mass."""
    every = np.arange(part.n_rows)
    return Shard(LinearFeatures(StoredRows(part.problem.kernel.rows(every))), part.problem.of_rows(every, mass))
