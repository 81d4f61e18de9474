"""Strategies of one problem, which is solved to the tolerance: exactly, or no more rows than needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral

from dimargin.sharding.parts import whole_of
from dimargin.solvers import GrowingRows, solve
from dimargin.strategies import levels
from dimargin.strategies.base import LevelModel, Outcome, Strategy, Training, TreeShape, end_of_solve
from dimargin.strategies.passing import start_of
from dimargin.strategies.rounds import Rounds
from dimargin.strategies.solves import SolverWrapper, solve_parts
from dimargin.system.threads import effective_n_threads

ROWS_IN_ONE_PLACE = 65_536
"""Rows that a solve on remote shards brings together: of so few it is as fast on one core as rounds are on several."""


class InOnePlace(Strategy):
    """Base of strategies that bring all rows together and solve the whole problem there."""

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
class Exact(InOnePlace):
    """Solve the whole problem by block coordinate descent.

    Parameters
    ----------
    across_shards : bool or None, default=None
        Whether rows stay in their shards, where rounds bring their margins up to date, instead of coming together in
        one place; see `dimargin.strategies.rounds`. None means that they stay if shards are in other processes, as on
        Spark, and have more than 65,536 rows in all. Solves in one process are faster in one place.
    working_set : int, default=16384
        Rows whose coefficients may change in a round of a solve across shards, at first. Rounds are few where these
        are about all support vectors.

    Examples
    --------
    >>> from dimargin import Exact, ODMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> ODMClassifier(strategy=Exact()).fit(X, y).certificate_
    'global'
    """

    across_shards: bool | None = None
    working_set: int = 16_384

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        super().validate()
        if self.across_shards not in (None, True, False):
            raise ValueError(f"Exact: across_shards must be None, True or False, got {self.across_shards!r}")
        if not isinstance(self.working_set, Integral) or self.working_set < 2:
            raise ValueError(f"Exact: working_set must be a whole number of at least 2, got {self.working_set!r}")

    def joins_all_rows(self, n_rows: int, shape: TreeShape) -> bool:
        """Return whether rows would not stay in their shards."""
        return not (self.across_shards or (self.across_shards is None and n_rows > ROWS_IN_ONE_PLACE))

    def train(self, training: Training) -> Outcome:
        """See `InOnePlace`; a solve across shards checks the gap once in every round."""
        rows = training.rows
        are_remote = self.across_shards is None and rows.are_remote
        if self.across_shards or (are_remote and not self.joins_all_rows(training.facts.n_rows, training.shape)):
            return train_across(training, self.working_set)
        return super().train(training)


def train_across(training: Training, working_set: int) -> Outcome:
    """Train without bringing rows together."""
    rows, progress, facts = training.rows, training.progress, training.facts
    progress.level_begin(0, None)
    start = whole_of(rows.collect(start_of)) if training.started else None
    n_threads = effective_n_threads(None) if rows.are_remote else rows.n_threads * rows.n_together
    rounds = Rounds(facts, int(working_set), n_threads, training.cache, training.random_state)
    found = solve(rows, rounds, start, replace(training.limits, stop_requested=progress.check))
    model = LevelModel.of(found.support, found.support.coefficients, found.objectives.intercept)
    labels = {"level": 0, "partitions": rows.n_shards, "scope": "global"}
    history, _ = end_of_solve(progress, found.history, labels, lambda: model)
    return Outcome(model, found.objectives, "global", found.status, found.reason, found.passes, history)


@dataclass(eq=False, repr=False)
class CoreSet(InOnePlace):
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
