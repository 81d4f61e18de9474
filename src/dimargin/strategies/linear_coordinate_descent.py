"""Linear machines by dual coordinate descent, and their certificates on given rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from dimargin import solvers
from dimargin.problems.objectives import Objectives
from dimargin.solvers import Limits, PrimalSolution, solve
from dimargin.solvers.linear_dual import facts_of, gathered, joined_shard, primal_at
from dimargin.strategies.linear_newton import LinearNewton, LinearSolver, LinearTraining


@dataclass(eq=False, repr=False)
class LinearCoordinateDescent(LinearSolver):
    """Dual coordinate descent on one machine, see `dimargin.solvers.coordinate_descent`.

    Every step changes the coefficients of the columns of one row. It is the fastest for sparse rows
    with many columns, and the only one for the hinge.

    Examples
    --------
    >>> from dimargin import LinearCoordinateDescent, LinearODMClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = LinearODMClassifier(lam=100, solver=LinearCoordinateDescent()).fit(scale(X), y)
    >>> machine.status_
    'converged'
    """

    needs_smooth_loss = False
    is_distributed = False
    numbers_per_row = 30  # With the temporary arrays of a check.

    def train(self, training: LinearTraining) -> PrimalSolution:
        """Train on all rows."""
        return training.run(_solver_of(training), training.rows, training.facts.n_rows)

    def certificate(self, training: LinearTraining, limits: Limits) -> Objectives:
        """Return the objectives of the machine whose parameters are the start, with the best dual bound."""
        found: Objectives = solve(training.rows, _solver_of(training), training.start, limits).objectives
        whole, facts = facts_of(training.rows, training.start, limits)
        scores = gathered(training.rows, training.start[:, :-1])
        primal, rounding = primal_at(whole.losses, facts["norms"], scores, training.start)
        return Objectives.of(primal, np.maximum(primal - found.dual, 0.0), training.start[:, -1], rounding)


@dataclass(eq=False, repr=False)
class LinearCrammerSinger(LinearCoordinateDescent):
    """Dual coordinate descent for all classes together, see `dimargin.solvers.crammer_singer`."""

    def train(self, training: LinearTraining) -> PrimalSolution:
        """Train on all rows."""
        return training.run(
            solvers.CrammerSinger(False, training.dual, training.random_state), training.rows, training.facts.n_rows
        )

    def certificate(self, training: LinearTraining, limits: Limits) -> Objectives:
        """See `LinearCoordinateDescent`."""
        solver = solvers.CrammerSinger()
        dual = solve(training.rows, solver, np.zeros_like(training.start), limits).objectives.dual
        primal, rounding = solver.primal_at(training.rows, training.start, limits)
        return Objectives.of(primal, np.maximum(primal - dual, 0.0), training.start[:, -1], rounding)


@dataclass(eq=False, repr=False)
class LinearCoCoA(LinearSolver):
    """Dual coordinate descent in partitions whose changes are added up (CoCoA+), see `dimargin.solvers.cocoa`.

    Dual coefficients stay with their rows, and a round is one job on a cluster, for any loss. It
    takes many rounds if rows are dense with few columns. On one machine, partitions copy the rows,
    and "cd" is faster.

    Parameters
    ----------
    n_partitions : int, default=8
        Largest number of partitions; more have smaller memory and need more rounds.
    n_passes : int, default=3
        Passes over the rows of a partition in a round.

    Examples
    --------
    >>> from dimargin import LinearCoCoA, LinearSVMClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = LinearSVMClassifier(solver=LinearCoCoA(), random_state=0).fit(scale(X), y)
    >>> machine.status_
    'converged'
    """

    deals_rows = True
    needs_smooth_loss = False

    n_partitions: int = 8
    n_passes: int = 3

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        super().validate()
        self._check_positive("n_partitions")
        self._check_positive("n_passes")

    def train(self, training: LinearTraining) -> PrimalSolution:
        """Train on all rows."""
        rows, facts = training.rows, training.facts
        rows = rows.merge(joined_shard, -(-rows.n_shards // self.n_partitions))
        return training.run(solvers.CoCoA(facts.intercept, self.n_passes, training.random_state), rows, facts.n_rows)


def _solver_of(training: LinearTraining) -> solvers.CoordinateDescent:
    facts, n_threads = training.facts, training.rows.n_threads * training.rows.n_together
    descent = solvers.CoordinateDescent(facts.intercept, training.dual, n_threads, training.random_state)
    smooth = training.rows.collect(n_shards=1)[0].losses.loss.smooth
    return descent.helped_by_newton(facts.n_rows, facts.n_features, facts.n_values, smooth)


def certificate(training: LinearTraining, solver: LinearSolver, max_time: float | None = None) -> Objectives:
    """Return the objectives of the machine whose parameters are the start of a training problem.

    A dual objective follows from the parameters if the loss has a derivative. A machine that dual
    coordinate descent has trained has a better one, which is computed as it was, to a tenth of the
    tolerance or the time limit.
    """
    if solver.needs_smooth_loss:
        looking = replace(training, limits=replace(training.limits, max_iter=0))
        return LinearNewton("conjugate_gradients").train(looking).objectives
    deadline = None if max_time is None else time.perf_counter() + max_time
    descent = solver if isinstance(solver, LinearCoordinateDescent) else LinearCoordinateDescent()
    return descent.certificate(training, Limits(0.1 * training.limits.tol, training.limits.max_iter, deadline))
