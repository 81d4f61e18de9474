"""How linear machines are trained, and by generalised Newton: on a part of the rows and then on all (handbook, 2.5).

Linear solvers are written on the verbs of an engine alone (`dimargin.shards`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from dimargin import solvers
from dimargin.engines import LocalEngine
from dimargin.rows import StoredRows
from dimargin.solution import Floats, MarginLosses
from dimargin.solvers import Limits, LinearFeatures, PrimalSolution, Shard, solve
from dimargin.solvers.primal import PrimalSolver
from dimargin.strategies.base import Options, Progress, each_step

_VALUES_OF_SHARD = 2**21  # about, whatever the number of threads, for the same sums
_PART, _ROWS_OF_PART, _WORTH = 32, 2**14, 8  # one row in so many begins, or so many, if all are so many times as many
_MOST, _SHORT, _LONG = 1024, 64, 10  # features for which the Hessian is formed, and of rows so much longer


@dataclass(frozen=True)
class LinearTraining:
    """Everything that a linear solver needs; `start` has shape (n_outputs, n_features + 1), the intercept behind."""

    X: Any
    losses: MarginLosses
    limits: Limits
    engine: LocalEngine
    random_state: int
    start: Floats
    progress: Progress = field(default_factory=Progress)

    def shards(self) -> list[Shard]:
        """Rows that follow one another, without a copy."""
        n, stored = self.losses.n_rows, StoredRows(self.X)
        step = max(1024, _VALUES_OF_SHARD * n // max(self.X.size, 1))
        bounds = [slice(first, min(first + step, n)) for first in range(0, n, step)]
        mass = self.losses.mass
        return [
            Shard(LinearFeatures(stored.between(part.start, part.stop)), self.losses.of_rows(part, mass))
            for part in bounds
        ]

    def run(
        self, solver: PrimalSolver[Any], shards: list[Shard], level: int = 0, stopped: bool = False
    ) -> PrimalSolution:
        """Solve, and label the history; one look, if it was stopped before."""
        self.progress.level_begin(level, None)
        ask = (lambda entry: True) if stopped else self.progress.check
        limits = replace(self.limits, stop_requested=ask)
        solution: PrimalSolution = solve(self.engine.scatter(shards), solver, self.start, limits)
        scope = "partitioned" if level else "global"
        labels = {"level": level, "partitions": 1, "rows": self.losses.n_rows, "scope": scope}
        history = each_step(solution.history, labels)
        found = partial(np.column_stack, [solution.weights, solution.objectives.intercept])
        stop = self.progress.level_end({**history[-1], **solution.history[-1]}, found)
        return replace(solution, history=history, status="stopped" if stop and level else solution.status)


class LinearSolver(Options, ABC):
    """A way to train a linear machine."""

    def n_levels(self, n_rows: int) -> int:
        """Solves of a part of the rows before that of all."""
        return 0

    @abstractmethod
    def train(self, training: LinearTraining) -> PrimalSolution:
        """Train; the history has one entry a step."""


def forms_hessian(X: Any) -> bool:
    """Whether forming the Hessian is cheaper than conjugate gradients."""
    n, width = X.shape
    return bool(width <= min(_MOST, _SHORT + _LONG * X.size / max(n, 1)))


class LinearNewton(LinearSolver):
    """Generalised Newton: few passes over the data, each an all-reduce.

    Parameters
    ----------
    hessian : {"auto", "explicit", "conjugate_gradients"}, default="auto"
        Form the Hessian of ``n_features ** 2`` numbers, or only multiply with it; "auto" forms it up to 1,024 features
        that are not many more than ten times the values of a row.

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

    def __init__(self, hessian: Literal["auto", "explicit", "conjugate_gradients"] = "auto") -> None:
        self.hessian = hessian

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        self._check_choice("hessian", "auto", "explicit", "conjugate_gradients")

    def n_levels(self, n_rows: int) -> int:
        """One, of a sample of many rows."""
        return int(n_rows >= _WORTH * _ROWS_OF_PART)

    def train(self, training: LinearTraining) -> PrimalSolution:
        """On a part of the rows, whose optimum is near, and on all."""
        X, losses, history, stopped = training.X, training.losses, list[dict[str, Any]](), False
        n, width = X.shape
        formed = forms_hessian(X) if self.hessian == "auto" else self.hessian == "explicit"
        newton = solvers.Newton(width, losses.intercept, explicit=formed)
        if self.n_levels(n) and not training.start.any():
            rng, size = np.random.default_rng(training.random_state), max(n // _PART, _ROWS_OF_PART)
            rows = np.sort(rng.choice(n, size, replace=False, shuffle=False))
            part = replace(training, X=X[rows], losses=losses.of_rows(rows, float(losses.weights[rows].sum())))
            coarse = part.run(newton, part.shards(), level=1)
            history = coarse.history
            training = replace(training, start=np.column_stack([coarse.weights, coarse.objectives.intercept]))
            stopped = coarse.status == "stopped"
        solution = training.run(newton, training.shards(), stopped=stopped)
        return replace(solution, history=history + solution.history, passes=len(history) + solution.passes)
