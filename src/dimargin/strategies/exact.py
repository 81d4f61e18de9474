"""Strategies of one partition, which is solved to the tolerance: exactly, or no more rows than needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from dimargin.sharding.parts import whole_of
from dimargin.solvers import GrowingRows
from dimargin.strategies import levels
from dimargin.strategies.base import Outcome, Strategy, Training, TreeShape, end_of_solve
from dimargin.strategies.solves import SolverWrapper, solve_parts


class Exact(Strategy):
    """Solve the whole problem by block coordinate descent.

    Examples
    --------
    >>> from dimargin import Exact, ODMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> ODMClassifier(strategy=Exact()).fit(X, y).certificate_
    'global'
    """

    def _wrap_solver(self) -> SolverWrapper | None:
        """Return a function from the exact solver to one that uses it and is run in its place, or None."""
        return None

    def n_levels(self, n_rows: int, shape: TreeShape) -> int:
        """Return 0: there is no tree."""
        return 0

    def train(self, training: Training) -> Outcome:
        """Train; the history has one entry for each check of the gap, with its own evaluations and seconds."""
        progress = training.progress
        progress.level_begin(0, None)
        whole = training.rows.merge(whole_of, training.rows.n_shards)
        limits = replace(training.limits, stop_requested=progress.check)
        level = solve_parts(training, whole, limits, 0, wrap_solver=self._wrap_solver())
        (solution,) = level.results
        found = levels.model(level, training.facts.total)
        labels = {"level": 0, "partitions": 1, "scope": "global"}
        history, _ = end_of_solve(progress, solution.history, labels, lambda: found)
        return Outcome(found, solution.objectives, "global", solution.status, solution.reason, solution.passes, history)


@dataclass(eq=False, repr=False)
class CoreSet(Exact):
    """Let a core-set grow until its machine is good enough for all rows.

    Parameters
    ----------
    epsilon : float or None, default=None
        If None, the core-set grows until the relative duality gap is within the tolerance, else until every row is
        within ``1 + epsilon`` times the radius of its ball. The latter is for the squared hinge without an
        unregularised intercept only.
    """

    epsilon: float | None = None

    def _wrap_solver(self) -> SolverWrapper:
        return partial(GrowingRows, epsilon=self.epsilon)
