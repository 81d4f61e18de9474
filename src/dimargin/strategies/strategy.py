"""Interface of strategies: the training problem that a strategy receives, and the outcome that it returns."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator

from dimargin.problems.losses import Loss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, SolveResult
from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards
from dimargin.solvers import CACHE, DualSolver, ExactSolver, Limits
from dimargin.strategies.routing import Router
from dimargin.system.arrays import Floats, Indices
from dimargin.system.plain_numbers import PlainNumbers

Scope = Literal["global", "partitioned", "landmark"]
MovedOptions = Mapping[str, tuple[object, str]]

ROWS_IN_ONE_PLACE = 65_536
"""Most remote rows that level 0 brings together: a solve of these on one core is as fast as rounds on several."""


@dataclass(frozen=True)
class LevelModel:
    """Model that predicts: support vectors and their coefficients."""

    indices: Indices  # Ascending positions of the support vectors among the strategy's rows.
    coefficients: Floats  # Coefficients times labels (in averaged models weighted), of shape (n_outputs, n_vectors).
    labels: Floats  # Labels, of shape (n_outputs, n_vectors).
    vectors: Any  # Dense or CSR rows, of shape (n_vectors, n_features), without features for a precomputed kernel.
    intercept: Floats  # Intercepts, of shape (n_outputs,).
    router: Router | None = None  # Selects the coefficients that decide for a row; None if all do.

    @classmethod
    def of(cls, part: Part, dual: Floats, intercept: Floats) -> LevelModel:
        """Return the model with the given dual coefficients of the rows of a part."""
        index = np.flatnonzero(dual.any(axis=0))
        index = index[np.argsort(part.indices[index])]
        labels = part.problem.labels[:, index]
        vectors = part.problem.kernel.vectors(index)
        return cls(part.indices[index], labels * dual[:, index], labels, vectors, intercept)


class Progress:
    """Receiver of a strategy's progress reports; this base class ignores them.

    ``check`` and ``level_end`` return whether the strategy must stop.
    """

    def level_begin(self, level: int, n_tasks: int | None) -> None:
        """Report the begin of a level of `n_tasks` independent solves or, if None, of one with repeated checks."""

    def task_end(self, index: int) -> None:
        """Report that one of the independent solves of the level has ended."""

    def check(self, entry: dict[str, Any]) -> bool:
        """Report that the only solve of the level has computed its gap."""
        return False

    def level_end(self, entry: dict[str, Any], found: Callable[[], Any]) -> bool:
        """Report that the level has ended; `found` returns its model."""
        return False


class Resumption:
    """Interface for saving and resuming a fit; this base class does neither."""

    def is_replaying(self) -> bool:
        """Return whether the next results were computed by the fit that is resumed."""
        return False

    def save(self, parts: Shards[Any]) -> None:
        """Save the state after a level that is not the last: the rest depends only on the rows and these parts."""


@dataclass(frozen=True)
class TreeShape:
    """Estimator parameters that only some strategies use, with the estimator's defaults."""

    branching: int = 4  # Number of parts merged at a time, ``p``.
    n_levels: int | None = None  # Number of levels above the leaves, ``L``; None for the strategy's default.
    n_landmarks: int | None = None  # Number of landmarks; None for the strategy's default.
    stop_level: int = 0  # Last level, whose model is returned.


@dataclass(frozen=True)
class Facts:
    """Facts about the whole problem that are known without its rows."""

    n_rows: int
    n_outputs: int
    total: float  # Weight of all rows.
    loss: Loss
    intercept: bool  # Whether the decision function has an unregularised intercept.

    @classmethod
    def of(cls, problem: MarginLosses) -> Facts:
        """Return the facts about a whole problem."""
        return cls(problem.n_rows, len(problem.labels), problem.total, problem.loss, problem.intercept)


@dataclass(frozen=True)
class Training:
    """Everything that a strategy needs to train."""

    facts: Facts
    rows: Shards[Part]  # All rows with the warm start; in the order of their keys for a strategy that deals them.
    limits: Limits
    shape: TreeShape
    random_state: int
    started: bool = False  # Whether there is a warm start.
    progress: Progress = field(default_factory=Progress)
    resumption: Resumption = field(default_factory=Resumption)
    solver: type[DualSolver[Any]] = ExactSolver  # Solver of the problems of parts.
    cache: int = CACHE  # Bytes of each machine for cached kernel rows.
    given: Indices | None = None  # Positions of the rows in the caller's data, if rows are in the order of their keys.


@dataclass(frozen=True)
class Outcome(SolveResult):
    """Trained model and its certificate."""

    model: LevelModel
    scope: Scope  # Problem that the objectives refer to.

    @classmethod
    def of(cls, result: SolveResult, model: LevelModel, scope: Scope, history: History) -> Outcome:
        """Return the outcome of a fit of which the last solve had this result."""
        evaluations = sum(entry["kernel_evaluations"] for entry in history)
        own = vars(result.bare()) | {"history": history, "kernel_evaluations": evaluations}
        return cls(model, scope, **own)


def level_entry(
    objectives: Objectives,
    seconds: float,
    evaluations: int,
    *,
    level: int = 0,
    partitions: int = 1,
    scope: Scope = "global",
    **others: Any,
) -> dict[str, Any]:
    """Return the entry of ``history_`` for a level that is reported at its end."""
    return {
        "level": level,
        "partitions": partitions,
        "scope": scope,
        "seconds": seconds,
        "kernel_evaluations": evaluations,
        "objective": objectives.primal.tolist(),
        "relative_gap": objectives.worst_gap,
        **others,
    }


def end_of_solve(
    progress: Progress, checks: History, labels: dict[str, Any], found: Callable[[], Any]
) -> tuple[History, bool]:
    """Report the end of a level that was a single solve; return its history entries and whether to stop.

    There is one entry per check, with `labels` and the costs since the previous check. The costs in
    `checks` are those since the beginning of the solve.
    """
    start = dict.fromkeys(("seconds", "kernel_evaluations", "factorizations"), 0)
    entries = [
        labels | check | {cost: check[cost] - before[cost] for cost in start if cost in check}
        for before, check in pairwise([start, *checks])
    ]
    return entries, progress.level_end(entries[-1] | checks[-1], found)


class Options(PlainNumbers, BaseEstimator):
    """Base class of training options: constructor parameters that scikit-learn can get, set and search.

    Subclasses are dataclasses without generated comparison and repr, which scikit-learn provides,
    unless the parameters are in an order that a dataclass cannot give.

    Attributes
    ----------
    moved_options : dict
        Options of earlier versions that saved models may hold, with their default and the class
        that has them now.
    """

    moved_options: ClassVar[MovedOptions] = {}

    @classmethod
    def from_saved(cls, parameters: Mapping[str, Any]) -> Self:
        """Return the options of a saved model, without those that have moved; warn if these were in use."""
        known = dict(parameters)
        for name, (default, home) in cls.moved_options.items():
            value = known.pop(name, default)
            if value != default:
                warnings.warn(f"{home} has {cls.__name__}({name}={value!r}) now; loaded without it", stacklevel=2)
        return cls(**known)

    def validate(self) -> None:
        """Raise ValueError for an option out of its range, or not among the values of its `Literal`."""
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
    """Base class of strategies: choice of parts, merge rule and prediction rule.

    Options of a single strategy are its constructor's parameters; since it is a scikit-learn
    `BaseEstimator`, ``strategy__option`` works in a grid search.

    Attributes
    ----------
    uses : frozenset of str
        Names of the `TreeShape` parameters that the strategy uses; setting another raises.
    needs_rows : bool
        Whether the strategy uses the features of rows, so that it cannot use a precomputed kernel.
    needs_smooth_loss : bool
        Whether the loss must have a derivative everywhere.
    solver : type[DualSolver]
        Solver of the problems of parts.
    """

    uses: ClassVar[frozenset[str]] = frozenset()
    needs_rows: ClassVar[bool] = False
    needs_smooth_loss: ClassVar[bool] = False
    solver: ClassVar[type[DualSolver[Any]]] = ExactSolver

    def memory_needed(self, n_rows: int, shape: TreeShape, n_outputs: int = 1, n_threads: int = 1) -> int:
        """Return the bytes that are needed in addition to those of a solve."""
        return 0

    def memory_of_columns(self, n_rows: int, n_features: int) -> int:
        """Return the bytes of arrays with one number per column, even if rows are sparse."""
        return 0

    def joins_all_rows(self, n_rows: int, shape: TreeShape) -> bool:
        """Return whether remote rows are all brought together: by default at level 0, if they are few."""
        return shape.stop_level == 0 and n_rows <= ROWS_IN_ONE_PLACE

    @property
    def is_linear(self) -> bool:
        """Return whether work is linear in the number of rows, so that merging equal rows does not pay."""
        return False

    def n_levels(self, n_rows: int, shape: TreeShape) -> int:
        """Return the level of the leaves for `n_rows` rows; 0 without a tree.

        It is ``ceil(log_p(n / 4096))``, at least 1, for leaves of about 4,096 rows, unless the
        shape sets it.
        """
        if shape.n_levels is not None:
            return shape.n_levels
        return max(1, math.ceil(math.log(max(n_rows / 4096, 1), shape.branching)), shape.stop_level)

    @abstractmethod
    def train(self, training: Training) -> Outcome:
        """Train, and return the model with its certificate."""
