"""Base class of all margin classifiers: limits, certificate, prediction of labels."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dimargin.estimators.validation import check_number, check_objectives
from dimargin.problems.objectives import Objectives
from dimargin.problems.one_vs_rest import codes_of
from dimargin.problems.solution import History
from dimargin.system.arrays import Floats

HOLDS_ROWS = "support vectors are training rows: whoever has the model has them"


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if the block raises an error."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        # the callback machinery tears down by attributes of its own, set during the fit
        own = {k: v for k, v in estimator.__dict__.items() if k.startswith(("_skl_callback", "_callback"))}
        estimator.__dict__ = before | own
        raise


class MarginClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator, ABC):
    """Base class of all classifiers."""

    # parameters every subclass has
    tol: float
    max_iter: int
    max_time: float | None
    class_weight: dict[Any, float] | str | None
    warm_start: bool
    n_jobs: int | None
    random_state: Any
    verbose: int

    def _check_limits(self) -> None:
        check_number("tol", self.tol, 0)
        check_number("max_iter", self.max_iter, 1, low_included=True, whole=True)
        if self.max_time is not None:
            check_number("max_time", self.max_time, 0)
        if self.n_jobs is not None:
            check_number("n_jobs", self.n_jobs, -math.inf, whole=True)

    def _certificate_attributes(self, objectives: Objectives, scope: str) -> dict[str, Any]:
        check_objectives(objectives.primal, objectives.dual, objectives.relative_gap)
        return {
            "objective_": per_class(objectives.primal),
            "dual_objective_": per_class(objectives.dual),
            "duality_gap_": objectives.worst_gap,
            "certificate_": scope,
        }

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _warn_unless_converged(self, reason: str) -> None:
        if self.status_ in ("max_iter", "max_time", "precision"):
            warnings.warn(
                f"{type(self).__name__} stopped before the tolerance was reached: {reason}. The model is the "
                f"best so far, with a relative duality gap of {self.duality_gap_:.2e} ({self.certificate_}).",
                ConvergenceWarning,
                stacklevel=4,
            )

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise an error for any parameter out of its range."""

    @abstractmethod
    def _can_resume_on(self, X: Any) -> bool:
        """Return whether a warm start on these rows makes sense."""

    @property
    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """Facts about the model in numbers, and in words (``privacy``) what it holds of its training rows."""

    @abstractmethod
    def decision_function(self, X: Any) -> Floats:
        """Return decision values of shape (n_samples,) for two classes, else (n_samples, n_classes)."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels, of shape (n_samples,)."""
        return self._decide(self.decision_function(X))

    def _decide(self, values: Floats) -> NDArray[Any]:
        """Return the class labels that decision values stand for."""
        return np.asarray(self.classes_[codes_of(values)])


def per_class(values: Floats) -> Any:
    """Return the value of the only output as a number, or those of several as an array."""
    return float(values[0]) if len(values) == 1 else values


def history_attribute(history: History) -> History:
    """Return the history with its objectives in the form of the attribute ``objective_``."""
    return [{**entry, "objective": per_class(np.asarray(entry["objective"]))} for entry in history]
