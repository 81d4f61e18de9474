"""Interface of linear solvers, and generalised Newton on a sample of the rows and then on all.

The end of docs/algorithms.md#variance-reduced-gradients describes the method. Linear solvers use
only the operations of an engine (`dimargin.shards.shards`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from dimargin import solvers
from dimargin.kernels.row_transform import StoredRows
from dimargin.problems.margin_losses import MarginLosses
from dimargin.shards.local_engine import LocalEngine
from dimargin.shards.shards import Shards
from dimargin.solvers import Limits, LinearFeatures, PrimalSolution, Shard, solve
from dimargin.solvers.loop import Solver
from dimargin.solvers.newton import forms_hessian
from dimargin.strategies.strategy import Options, Progress, end_of_solve
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class LinearFacts:
    """Facts about all rows together."""

    n_rows: int
    n_features: int
    n_values: int  # Number of stored values: for sparse rows those that are not zero.
    n_outputs: int
    mass: float  # Weight of the rows.
    intercept: bool


@dataclass(frozen=True)
class LinearTraining:
    """Everything that a linear solver needs."""

    facts: LinearFacts
    rows: Shards[Shard]  # Consecutive rows per shard; in the order of their keys if the solver `deals_rows`.
    limits: Limits
    random_state: int
    start: Floats  # Initial weights, of shape (n_outputs, n_features + 1), with the intercept last.
    progress: Progress = field(default_factory=Progress)
    dual: Floats | None = None  # Initial dual coefficients, of shape (n_outputs, n_rows), if they are known.

    @classmethod
    def of(
        cls, X: Any, losses: MarginLosses, limits: Limits, *, n_threads: int = 1, seed: int = 0,
        start: Floats | None = None, dual: Floats | None = None, order: Indices | None = None,
    ) -> LinearTraining:  # fmt: skip
        """Return the problem of rows in this process, which are left as stored or taken in an order."""
        q, width = len(losses.labels), X.shape[1]
        facts = LinearFacts(losses.n_rows, width, int(X.size), q, losses.mass, losses.intercept)
        rows = LocalEngine(n_threads, limits.cancelled).scatter(linear_shards(X, losses, order))
        return cls(facts, rows, limits, seed, np.zeros((q, width + 1)) if start is None else start, dual=dual)

    def run(
        self, solver: Solver[Shards[Shard], Any, PrimalSolution], rows: Shards[Shard], n_rows: int, level: int = 0,
        stopped: bool = False,
    ) -> PrimalSolution:  # fmt: skip
        """Solve, and label the history; if training was stopped before, only evaluate the start."""
        self.progress.level_begin(level, None)
        ask = (lambda entry: True) if stopped else self.progress.check
        limits = replace(self.limits, stop_requested=ask)
        solution: PrimalSolution = solve(rows, solver, self.start, limits)
        scope = "partitioned" if level else "global"
        labels = {"level": level, "partitions": 1, "rows": n_rows, "scope": scope}
        history, stop = end_of_solve(self.progress, solution.history, labels, lambda: solution.parameters)
        return replace(solution, history=history, status="stopped" if stop and level else solution.status)


def linear_shards(X: Any, losses: MarginLosses, order: Indices | None = None) -> list[Shard]:
    """Return rows, dense or CSR, as shards of about the same size, without a copy.

    Rows are in the `order`, or as stored.
    """
    n, stored = losses.n_rows, StoredRows(X)
    # Shards have about 2^21 values for any number of threads, so that sums do not depend on it.
    step = max(1024, 2**21 * n // max(X.size, 1))
    shards = []
    for first in range(0, n, step):
        last = min(first + step, n)
        rows: Any = slice(first, last) if order is None else order[first:last]
        features = LinearFeatures(stored.between(first, last)) if order is None else LinearFeatures(stored, rows)
        shards.append(Shard(features, losses.of_rows(rows, losses.mass), first))
    return shards


class LinearSolver(Options, ABC):
    """Base class of the solvers of linear machines.

    Attributes
    ----------
    deals_rows : bool
        Whether the solver samples rows or assigns them to parts, and therefore needs them in the
        order of their keys (`dimargin.shards.keys`).
    needs_smooth_loss : bool
        Whether the loss must have a derivative everywhere.
    is_distributed : bool
        Whether the solver leaves rows in their shards, and can therefore train on Spark.
    numbers_per_row : int
        Number of float64 numbers that the solver holds for each row and output.
    """

    deals_rows: ClassVar[bool] = False
    needs_smooth_loss: ClassVar[bool] = True
    is_distributed: ClassVar[bool] = True
    numbers_per_row: ClassVar[int] = 0

    def n_levels(self, n_rows: int) -> int:
        """Return the number of solves on some of the rows before that of all."""
        return 0

    @abstractmethod
    def train(self, training: LinearTraining) -> PrimalSolution:
        """Train; the history has one entry per step."""


@dataclass(eq=False, repr=False)
class LinearNewton(LinearSolver):
    """Generalised Newton: few passes over the data, each an all-reduce.

    Parameters
    ----------
    hessian : {"auto", "explicit", "conjugate_gradients"}, default="auto"
        Whether to form the Hessian of ``n_features ** 2`` numbers, or only to multiply with it;
        "auto" forms it for at most 1,024 features, and at most 64 plus ten times the average number
        of stored values of a row.

    Examples
    --------
    >>> from dimargin import LinearNewton, LinearODMClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = LinearODMClassifier(solver=LinearNewton(hessian="conjugate_gradients")).fit(scale(X), y)
    >>> round(machine.score(scale(X), y), 2)
    0.99
    """

    hessian: Literal["auto", "explicit", "conjugate_gradients"] = "auto"
    # The first solve uses at least this many rows, and is left out below eight times as many.
    min_sample_rows: ClassVar[int] = 2**14

    def n_levels(self, n_rows: int) -> int:
        """Return 1 if there are enough rows to solve for a sample first, else 0."""
        return int(n_rows >= 8 * self.min_sample_rows)

    def train(self, training: LinearTraining) -> PrimalSolution:
        """Train on a sample of the rows, whose optimum is near, and then on all."""
        facts, history, stopped = training.facts, list[dict[str, Any]](), False
        cheap = forms_hessian(facts.n_rows, facts.n_features, facts.n_values)
        formed = cheap if self.hessian == "auto" else self.hessian == "explicit"
        is_warm = bool(training.start.any())
        newton = solvers.Newton(facts.n_features, facts.intercept, explicit=formed, start_may_suffice=is_warm)
        if self.n_levels(facts.n_rows) and not is_warm:
            share = max(1 / 32, self.min_sample_rows / facts.n_rows)
            rows = training.rows.map(_sampled, (training.random_state, share, share * facts.mass))
            coarse = training.run(newton, rows, round(share * facts.n_rows), level=1)
            rows.release()
            history = coarse.history
            training = replace(training, start=coarse.parameters)
            stopped = coarse.status == "stopped"
        newton = replace(newton, explicit=formed and not stopped)  # After a stop, the start is only evaluated.
        solution = training.run(newton, training.rows, facts.n_rows, stopped=stopped)
        return replace(solution, history=history + solution.history, passes=len(history) + solution.passes)


def _sampled(shard: Shard, value: tuple[int, float, float]) -> Shard:
    """Task that samples rows, in a problem of a given mass."""
    seed, share, mass = value
    n = shard.losses.n_rows
    rng, size = np.random.default_rng([seed, shard.first]), max(1, round(share * n))
    rows = np.sort(rng.choice(n, size, replace=False, shuffle=False))
    features = LinearFeatures(StoredRows(shard.features.take(rows).matrix))
    return Shard(features, shard.losses.of_rows(rows, mass), shard.first)
