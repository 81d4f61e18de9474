"""Strategies without levels: exact solves of the whole problem, on all rows or on a growing core-set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral

from dimargin.shards.parts import Part, n_shards_for, whole_of
from dimargin.shards.tree import Level
from dimargin.solvers import GrowingRows, RowDescent
from dimargin.strategies import levels
from dimargin.strategies.across import given_start, solve_across, stay_in_shards
from dimargin.strategies.dc import DivideAndConquer
from dimargin.strategies.solves import SolverWrapper, Summary, solve_parts
from dimargin.strategies.strategy import LevelModel, Outcome, Strategy, Training, TreeShape, end_of_solve


class InOnePlace(Strategy):
    """Base class of strategies that bring all rows together and solve the whole problem there."""

    def _wrap_solver(self) -> SolverWrapper | None:
        """Return a function that wraps the exact solver in the one to run, or None to run the exact solver."""
        return None

    def _train_in_shards(self, training: Training) -> Outcome | None:
        """Train without bringing the rows together, or return None to bring them together."""
        return None

    def n_levels(self, n_rows: int, shape: TreeShape) -> int:
        """Return 0, because there is no tree."""
        return 0

    def joins_all_rows(self, n_rows: int, shape: TreeShape) -> bool:
        """Return True, because all rows are brought together."""
        return True

    def train(self, training: Training) -> Outcome:
        """Train; the history has one entry for each check of the gap, with the costs since the one before."""
        in_shards = self._train_in_shards(training)
        if in_shards is not None:
            return in_shards
        progress = training.progress
        progress.level_begin(0, None)
        whole = training.rows.merge(whole_of, training.rows.n_shards)
        limits = replace(training.limits, stop_requested=progress.check)
        level = solve_parts(training, whole, limits, 0, wrap_solver=self._wrap_solver(), machines=True)
        return _outcome(training, level, levels.model(level, training.facts.total))


@dataclass(eq=False, repr=False)
class Exact(InOnePlace):
    """Solve the whole problem by block coordinate descent.

    Parameters
    ----------
    across_shards : bool or None, default=None
        Whether rows stay in their shards, where rounds update their margins, instead of being
        brought together (docs/algorithms.md#exact-across-shards). None means that they stay if
        shards are in other processes, as on Spark, and have more than 65,536 rows in all; within
        one process it is faster to bring them together. If the kernel is so narrow that many of its
        values are negligible, rounds start from kernel clusters (about as many as shards, none with
        more than 1.5 times the rows of a shard), solved in parallel to a gap of 0.01: this is
        `DivideAndConquer` with one level. If `max_time` ends before the first round does, the model
        of the clusters is returned, with the certificate "partitioned".
    working_set : int or None, default=None
        Initial number of rows whose coefficients may change in a round of a solve across shards.
        With about as many as there are support vectors few rounds are needed; with more, rounds
        take long. None means 32,768 for the hinges and 16,384 for the optimal margin distribution
        loss. If given, rounds start from zero for any kernel.
    by_rows : bool, default=False
        Whether a solve with ``kernel="linear"`` starts with dual coordinate descent on the rows, as
        the linear machines do, and continues by block coordinate descent only if that is slow. The
        strategy "auto" sets it where it is faster.

    Examples
    --------
    >>> from dimargin import Exact, ODMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> ODMClassifier(strategy=Exact()).fit(X, y).certificate_
    'global'
    """

    across_shards: bool | None = None
    working_set: int | None = None
    by_rows: bool = False

    def _wrap_solver(self) -> SolverWrapper | None:
        return RowDescent if self.by_rows else None

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        super().validate()
        if self.across_shards not in (None, True, False):
            raise ValueError(f"Exact: across_shards must be None, True or False, got {self.across_shards!r}")
        size = self.working_set
        if size is not None and (not isinstance(size, Integral) or size < 2):
            raise ValueError(f"Exact: working_set must be None or a whole number of at least 2, got {size!r}")

    def n_levels(self, n_rows: int, shape: TreeShape) -> int:
        """Return 1 if rounds may start from clusters, else 0."""
        return int(bool(self.across_shards))

    def memory_needed(self, n_rows: int, shape: TreeShape, n_outputs: int = 1, n_threads: int = 1) -> int:
        """Return the bytes needed to compute the clusters from which rounds may start."""
        if not self.across_shards:
            return super().memory_needed(n_rows, shape, n_outputs, n_threads)
        return DivideAndConquer().memory_needed(n_rows, _clusters(n_shards_for(n_rows)), n_outputs, n_threads)

    def joins_all_rows(self, n_rows: int, shape: TreeShape) -> bool:
        """Return whether remote rows are brought together."""
        if self.across_shards is None:
            return Strategy.joins_all_rows(self, n_rows, shape)
        return not self.across_shards

    def _train_in_shards(self, training: Training) -> Outcome | None:
        """Train across shards, with one check of the gap per round, if rows stay in them."""
        if not (self.across_shards or (self.across_shards is None and stay_in_shards(training))):
            return None
        rows, start = training.rows, given_start(training)
        if start is None and self.working_set is None and rows.n_shards > 1 and any(rows.collect(_is_local, None, 1)):
            # A cluster is one task, and the others wait for the largest. The tolerance is small
            # because the rounds after it would have to reduce the gap that is left within clusters.
            largest = 1 + int(1.5 * training.facts.n_rows / rows.n_shards)
            clusters = DivideAndConquer(max_cluster_size=largest, level_tol=0.01)
            return clusters.train(replace(training, shape=_clusters(rows.n_shards)))
        training.progress.level_begin(0, None)
        step, _ = solve_across(training, start, self.working_set)
        return _outcome(training, step.level, step.found())


@dataclass(eq=False, repr=False)
class CoreSet(InOnePlace):
    """Core-set that grows until its machine is good enough for all rows.

    Parameters
    ----------
    epsilon : float or None, default=None
        If None, the core-set grows until the relative duality gap is within the tolerance, else
        until every row is within ``1 + epsilon`` times the radius of its ball, for the squared
        hinge without an unregularised intercept only.
    """

    epsilon: float | None = None

    def _wrap_solver(self) -> SolverWrapper:
        return partial(GrowingRows, epsilon=self.epsilon)


def _clusters(n_shards: int) -> TreeShape:
    """Return the shape of a tree with one level of as many clusters as shards below the whole problem."""
    return TreeShape(branching=n_shards, n_levels=1)


def _is_local(part: Part, _: None) -> bool:
    """Task that returns whether the kernel is narrow (`KernelMatrix.local`) for the rows of a shard."""
    return part.problem.kernel.local


def _outcome(training: Training, level: Level[Summary], found: LevelModel) -> Outcome:
    """Return the outcome of the only solve of a fit, and report its end."""
    (solved,) = level.results
    labels = {"level": 0, "partitions": level.parts.n_shards, "scope": "global"}
    history, _ = end_of_solve(training.progress, solved.result.history, labels, lambda: found)
    return Outcome.of(solved.result, found, "global", history)
