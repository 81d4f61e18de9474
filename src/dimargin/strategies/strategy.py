"""Interface of strategies: the training that a strategy is given, and the outcome that it returns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator

from dimargin.problems.losses import Loss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, Status
from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards
from dimargin.solvers import CACHE, Limits
from dimargin.strategies.routing import Router
from dimargin.system.arrays import Floats, Indices
from dimargin.system.plain_numbers import PlainNumbers

Scope = Literal["global", "partitioned", "landmark"]

ROWS_IN_ONE_PLACE = 65_536
"""Remote rows that level 0 brings together: of so few a solve on one core is as fast as rounds are on several."""

_LEAF_ROWS = 4096  # rows of a leaf that the default depth aims at


@dataclass(frozen=True)
class LevelModel:
    """Model that predicts: support vectors and their coefficients."""

    indices: Indices  # of the support vectors, ascending, in the order in which the strategy has the rows
    coefficients: Floats  # times labels, of shape (n_outputs, n_vectors); those of averaged models are already weighted
    labels: Floats  # of shape (n_outputs, n_vectors)
    vectors: Any  # dense or CSR rows, of shape (n_vectors, n_features); no features with kernel values computed before
    intercept: Floats  # of shape (n_outputs,)
    router: Router | None = None  # which coefficients answer for a row; None for those of one decision function

    @classmethod
    def of(cls, part: Part, dual: Floats, intercept: Floats) -> LevelModel:
        """Return the model of some coefficients, without labels, of the rows of a part."""
        index = np.flatnonzero(dual.any(axis=0))
        index = index[np.argsort(part.indices[index])]
        labels = part.problem.labels[:, index]
        vectors = part.problem.kernel.vectors(index)
        return cls(part.indices[index], labels * dual[:, index], labels, vectors, intercept)


class Progress:
    """Receiver of a strategy's reports to the user while it works; this base class ignores them.

    ``check`` and ``level_end`` return whether the strategy shall stop.
    """

    def level_begin(self, level: int, n_tasks: int | None) -> None:
        """Report that a level begins: `n_tasks` independent solves or, if None, one with unknown number of checks."""

    def task_end(self, index: int) -> None:
        """Report that one of the independent solves of the level has ended."""

    def check(self, entry: dict[str, Any]) -> bool:
        """Report that the only solve of the level has computed its gap."""
        return False

    def level_end(self, entry: dict[str, Any], found: Callable[[], Any]) -> bool:
        """Report that the level has ended; `found` returns its model."""
        return False


class Resumption:
    """Keeper of what a later caller needs to resume a fit; this base class keeps nothing, and resumes nothing."""

    def is_replaying(self) -> bool:
        """Return whether the next results were computed by an earlier caller, which this one continues."""
        return False

    def save(self, parts: Shards[Any]) -> None:
        """Save the end of a level that is not the last: all that follows depends on the rows and these parts."""


@dataclass(frozen=True)
class TreeShape:
    """The estimator parameters that only some strategies use; defaults are the estimator's."""

    branching: int = 4  # parts merged at a time, ``p``
    n_levels: int | None = None  # above which the leaves lie, ``L``; None for the strategy's own choice
    n_landmarks: int | None = None  # in the kernel's space; None for the strategy's own number
    stop_level: int = 0  # at which training stops, and whose model is returned


@dataclass(frozen=True)
class Facts:
    """Facts about the whole problem that are known without its rows."""

    n_rows: int
    n_outputs: int
    total: float  # weight of all rows
    loss: Loss
    intercept: bool  # whether the decision function has an unregularised one

    @classmethod
    def of(cls, problem: MarginLosses) -> Facts:
        """Return the facts about a whole problem."""
        return cls(problem.n_rows, len(problem.labels), problem.total, problem.loss, problem.intercept)


@dataclass(frozen=True)
class Training:
    """Everything that a strategy needs to train."""

    facts: Facts
    # all of them, with the warm start if there is one; for a strategy that deals rows in the order of their keys, dealt
    # to shards that follow one another
    rows: Shards[Part]
    limits: Limits
    shape: TreeShape
    random_state: int
    started: bool = False  # whether there is a warm start
    progress: Progress = field(default_factory=Progress)
    resumption: Resumption = field(default_factory=Resumption)
    cache: int = CACHE  # bytes of each machine for remembered kernel rows
    given: Indices | None = None  # positions of the rows, in the order of their keys, among the caller's, if ordered


@dataclass(frozen=True)
class Outcome:
    """Trained model and its certificate."""

    model: LevelModel
    objectives: Objectives  # of the problem named by `scope`, with the intercepts of the decision functions
    scope: Scope
    status: Status
    reason: str
    passes: int
    history: History


_COSTS = "seconds", "kernel_evaluations", "factorizations"  # that a check counts from the beginning of its solve


def end_of_solve(
    progress: Progress, checks: History, labels: dict[str, Any], found: Callable[[], Any]
) -> tuple[History, bool]:
    """Report the end of a level that was a single solve, and return its entries, and whether to stop.

    There is an entry for each check, with `labels` and its own costs, not those so far.
    """
    start = dict.fromkeys(_COSTS, 0)
    entries = [
        labels | check | {cost: check[cost] - before[cost] for cost in start if cost in check}
        for before, check in pairwise([start, *checks])
    ]
    return entries, progress.level_end(entries[-1] | checks[-1], found)


class Options(PlainNumbers, BaseEstimator):
    """Options of a way to train: constructor parameters that scikit-learn can get, set and search.

    They are the fields of a dataclass that leaves comparing and printing to scikit-learn, unless their order is another
    than a dataclass would give them.
    """

    def validate(self) -> None:
        """Raise ValueError for an option out of its range; that of a `Literal` is its values."""
        for name, hint in get_type_hints(type(self)).items():
            value, allowed = getattr(self, name, None), get_args(hint)
            if get_origin(hint) is Literal and value not in allowed:
                raise ValueError(
                    f"{type(self).__name__}: {name} must be {' or '.join(map(repr, allowed))}, got {value!r}"
                )

    def _check_count(self, name: str) -> None:
        value = getattr(self, name)
        if value is not None and value < 1:
            raise ValueError(f"{type(self).__name__}: {name} must be None or at least 1, got {value!r}")

    def _check_positive(self, name: str) -> None:
        if not 0 < getattr(self, name) < math.inf:
            raise ValueError(f"{type(self).__name__}: {name} must be a number above 0, got {getattr(self, name)!r}")


class Strategy(Options, ABC):
    """A way to train: choice of parts, merge rule and prediction rule.

    Options that only one strategy understands are its constructor's parameters; being a scikit-learn `BaseEstimator`
    makes ``strategy__option`` work in a grid search.

    Attributes
    ----------
    uses : frozenset of str
        Names of the `TreeShape` parameters that the strategy uses; setting another raises.
    needs_rows : bool
        Whether the strategy uses the features of rows, so that kernel values computed beforehand will not do.
    needs_smooth_loss : bool
        Whether the loss must have a derivative everywhere.
    """

    uses: ClassVar[frozenset[str]] = frozenset()
    needs_rows: ClassVar[bool] = False
    needs_smooth_loss: ClassVar[bool] = False

    def memory_needed(self, n_rows: int, shape: TreeShape, n_outputs: int = 1, n_threads: int = 1) -> int:
        """Return the bytes that are needed beside those of a solve."""
        return 0

    def memory_of_columns(self, n_rows: int, n_features: int) -> int:
        """Return the bytes of arrays with a number for every column, even if rows are sparse."""
        return 0

    def joins_all_rows(self, n_rows: int, shape: TreeShape) -> bool:
        """Return whether all rows, where they are remote, come together in one place: few ones, at level 0."""
        return shape.stop_level == 0 and n_rows <= ROWS_IN_ONE_PLACE

    @property
    def is_linear(self) -> bool:
        """Return whether work grows with the rows, not with their square: to merge equal rows would take as long."""
        return False

    def n_levels(self, n_rows: int, shape: TreeShape) -> int:
        """Return the level of the leaves for so many rows; 0 where there is no tree.

        It is ``ceil(log_p(n / 4096))``, at least 1, unless the shape says otherwise.
        """
        if shape.n_levels is not None:
            return shape.n_levels
        return max(1, math.ceil(math.log(max(n_rows / _LEAF_ROWS, 1), shape.branching)), shape.stop_level)

    @abstractmethod
    def train(self, training: Training) -> Outcome:
        """Train, and return the model with its certificate."""
