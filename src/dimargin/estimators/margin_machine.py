"""Base class of all machines, classifiers and regressors: their training, its limits, and how it ended."""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from dimargin.estimators.diagram import CertificateDiagram
from dimargin.estimators.fit_plan import DataSize, FitPlan
from dimargin.estimators.fit_progress import CallbackProgress, interruptible, interruption, monitor_of
from dimargin.estimators.input_checks import check_limits, check_number, check_objectives
from dimargin.estimators.sklearn_callbacks import CallbackSupportMixin, with_callbacks
from dimargin.estimators.training_data import TrainingData
from dimargin.estimators.wide_attributes import set_attributes
from dimargin.problems.losses import Loss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, SolveResult
from dimargin.solvers import Limits
from dimargin.strategies import Progress
from dimargin.system.arrays import Floats
from dimargin.system.plain_numbers import PlainNumbers
from dimargin.system.threads import single_threaded_blas


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if the block raises an error."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        # Callbacks need the attributes that they set during the fit for their teardown.
        own = {k: v for k, v in estimator.__dict__.items() if k.startswith(("_skl_callback", "_callback"))}
        estimator.__dict__ = before | own
        raise


@dataclass(frozen=True)
class PreparedFit:
    """Fit with checked parameters and data.

    Attributes
    ----------
    n_levels : int
        Number of levels that will be reported.
    model_attributes : callable
        Returns the fitted attributes for an intermediate model.
    train : callable
        Trains within limits; returns the fitted attributes and why training ended.
    """

    n_levels: int
    model_attributes: Callable[[Any], dict[str, Any]]
    train: Callable[[Limits, Progress], tuple[dict[str, Any], str]]


class MarginMachine(PlainNumbers, CertificateDiagram, CallbackSupportMixin, BaseEstimator, ABC):
    """Base class of all machines, with their common parameters and attributes.

    Parameters
    ----------
    max_time : float or None, default=None
        Seconds after which the best model so far is returned, with a ConvergenceWarning.
    n_jobs : int or None, default=None
        Number of threads. None is one for every processor that the affinity and the container quota
        of the process allow, -2 all but one. OpenMP and threadpoolctl may limit it. Results do not
        depend on it.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had column names.
    status_ : {"converged", "above_tol", "max_iter", "max_time", "stopped", "interrupted", "precision"}
        "converged": `duality_gap_` of the problem that `certificate_` names is within `tol`.
        "above_tol": it is not, although the fit ended by its own rule, for example after `certify`
        has found that the global gap of a model with landmarks or partitions is larger. Other
        values: why the fit ended, "stopped" by a callback, or "interrupted" by Ctrl-C.
    """

    tol: float
    max_iter: int
    max_time: float | None
    warm_start: bool
    n_jobs: int | None
    random_state: Any
    verbose: int

    _is_linear = False  # Whether products of features must not overflow.

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels of any type, two classes or more; of a regressor, numbers.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights; weight two equals giving the row twice, zero equals omitting it.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If a parameter or value is out of range; the message names the parameter, row or column.
        MemoryError
            Before training, if the memory or the `memory_limit` of a kernel machine is too small.
        KeyboardInterrupt
            After Ctrl-C, once the estimator holds the best model so far, with its gap and
            ``status_`` "interrupted". A second Ctrl-C stops immediately, and the estimator is as
            it was before.

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached; ``status_`` holds the reason.
        """
        return self._fit(X, y, sample_weight=sample_weight)

    def _fit(self, X: Any, y: Any, **metadata: Any) -> Self:
        """Train the machine; subclasses implement `_prepare`."""
        began = time.perf_counter()
        with unchanged_on_failure(self), single_threaded_blas():
            self._check_parameters()
            fit = self._prepare(X, y, **metadata)
            monitor = monitor_of(self)
            # Subtasks are not sequential, because ids are level numbers, which count down.
            context = self._init_callback_context(max_subtasks=fit.n_levels, sequential_subtasks=False)
            hooks = {"X": X, "y": y, "metadata": metadata}
            context.call_on_fit_task_begin(estimator=self, **hooks)
            progress = CallbackProgress(self, context, hooks, fit.model_attributes, monitor)
            deadline = None if self.max_time is None else began + self.max_time
            limits = Limits(self.tol, self.max_iter, deadline, interrupted=monitor.interrupted)
            with interruptible(self, monitor.interrupted) as interrupted:
                attributes, reason = fit.train(limits, progress)
            if monitor.interrupted.is_set() and attributes["status_"] == "stopped":
                attributes["status_"] = "interrupted"
            set_attributes(self, attributes)
            context.call_on_fit_task_end(estimator=self, **hooks, reconstruction_attributes=attributes)
        if interrupted.is_set():
            raise interruption(self)
        warn_unless_converged(self, reason, stacklevel=5)
        return self

    def fit_plan(
        self,
        n_rows: int = 1,
        n_features: int = 1,
        n_values: int | None = None,
        class_counts: Sequence[int] | None = None,
    ) -> FitPlan:
        """Check the parameters, and return what `fit` will do with training data of this size.

        Parameters
        ----------
        n_rows : int, default=1
            Number of rows with positive weight.
        n_features : int, default=1
        n_values : int or None, default=None
            Number of stored values. None is that of dense rows.
        class_counts : sequence of int or None, default=None
            Number of rows of each class. None is two classes.

        Returns
        -------
        FitPlan

        Raises
        ------
        ValueError, TypeError
            If a parameter is out of range, or parameters contradict each other.
        """
        self._check_parameters()
        n_values = n_rows * n_features if n_values is None else n_values
        counts = (n_rows, 0) if class_counts is None else class_counts
        return self._plan(DataSize(n_rows, n_features, n_values, tuple(map(int, counts))))

    @abstractmethod
    def _plan(self, size: DataSize) -> FitPlan:
        """Return the plan for checked parameters."""

    @abstractmethod
    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        """Check the data and the available memory, and return the fit to run."""

    def _check_limits(self) -> None:
        check_limits(self)
        check_number("n_jobs", self.n_jobs, -math.inf, whole=True, or_none=True)

    def _certificate_attributes(self, objectives: Objectives, scope: str, status: str) -> dict[str, Any]:
        check_objectives(objectives.primal, objectives.dual, objectives.relative_gap)
        # Summing the losses in another order must not give an objective above this one.
        objectives = objectives.raised(self.tol)
        return {
            "objective_": per_class(objectives.primal),
            "dual_objective_": per_class(objectives.dual),
            "duality_gap_": objectives.worst_gap,
            "certificate_": scope,
            "status_": status_of_gap(objectives.worst_gap, self.tol, status),
        }

    def _result_attributes(self, result: SolveResult, scope: str) -> dict[str, Any]:
        """Return the attributes that say how a solve ended, with its certificate."""
        certificate = self._certificate_attributes(result.objectives, scope, result.status)
        return certificate | {"n_iter_": result.passes, "history_": history_attribute(result.history)}

    def _set_global_certificate(self, objectives: Objectives) -> None:
        """Set the certificate that `certify` has computed, and the corresponding status."""
        before = vars(self).get("status_", "above_tol")  # Models of other writers may have no status.
        status = "converged" if objectives.worst_gap <= self.tol else before
        self.__dict__.update(self._certificate_attributes(objectives, "global", status))

    def advice(self) -> str:
        """Suggest better settings after a fit that is far from its tolerance.

        Returns
        -------
        str
            A sentence with a space before it, or an empty string.
        """
        return ""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise an error if a parameter is out of range."""

    @abstractmethod
    def can_resume_on(self, X: Any) -> bool:
        """Return whether a fit with ``warm_start=True`` can start from this model on validated rows."""

    @abstractmethod
    def _training_data(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Validate the arguments of `fit`."""

    def _has_classes_of(self, data: TrainingData) -> bool:
        """Return whether the fitted model is for the classes of some data."""
        return True

    def in_given_units(self, found: Any, data: TrainingData) -> Any:
        """Return what a strategy has found, for the caller's targets; a classifier's is unchanged."""
        return found

    def _objectives_in_given_units(self, objectives: Objectives, data: TrainingData) -> Objectives:
        """Return objectives for the caller's targets; a classifier's are unchanged."""
        return objectives

    def followed(self, progress: Progress, data: TrainingData) -> Progress:
        """Return a receiver of a strategy's progress that passes it on in the caller's units."""
        return progress

    def _losses(self, data: TrainingData) -> MarginLosses:
        """Return the losses of the whole problem."""
        total, has_intercept = float(data.weights.sum()), self._has_intercept
        return MarginLosses(data.labels, data.weights, self._loss(), total, total, has_intercept)

    @property
    def _has_intercept(self) -> bool:
        """Return whether the decision function has an unregularised intercept."""
        return False

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the loss; raises ValueError or TypeError for a parameter out of range."""

    @abstractmethod
    def _decision_values(self, X: Any) -> Floats:
        """Return the decision values of rows that are not validated yet."""


def warn_unless_converged(machine: MarginMachine, reason: str, stacklevel: int = 2) -> None:
    """Warn if a fit, which ended for this reason, has not reached its tolerance."""
    if machine.status_ in ("max_iter", "max_time", "precision"):
        warnings.warn(
            f"{type(machine).__name__} stopped before the tolerance was reached: {reason}. The model is the "
            f"best so far, with a relative duality gap of {machine.duality_gap_:.2e} ({machine.certificate_})."
            f"{machine.advice()}",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def status_of_gap(gap: float, tol: float, status: str) -> str:
    """Return ``status_`` for the gap of a model and the status of its solver."""
    if status == "precision" and gap <= tol:  # Of a regressor whose objective is zero, and exact.
        return "converged"
    return "above_tol" if status == "converged" and gap > tol else status


def per_class(values: Floats) -> Any:
    """Return the value of a single output as a number, or the array of several values."""
    return float(values[0]) if len(values) == 1 else values


def history_attribute(history: History) -> History:
    """Return the history with objectives in the form of ``objective_``."""
    return [{**entry, "objective": per_class(np.asarray(entry["objective"]))} for entry in history]


def said_classes(classes: Any) -> str:
    """Return the classes of a classifier for a message, after a comma; an empty text for a regressor."""
    return f", classes {classes!r}" if len(classes) else ""
