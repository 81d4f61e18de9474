"""Base class of all margin classifiers: limits, certificate, prediction of labels."""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dimargin.estimators.diagram import CertificateDiagram
from dimargin.estimators.fit_progress import CallbackProgress, Monitor
from dimargin.estimators.sklearn_callbacks import CallbackSupportMixin, with_callbacks
from dimargin.estimators.validation import check_number, check_objectives
from dimargin.estimators.wide_attributes import set_attributes
from dimargin.problems.objectives import Objectives
from dimargin.problems.one_vs_rest import codes_of
from dimargin.problems.solution import History
from dimargin.solvers import Limits
from dimargin.strategies import Progress
from dimargin.system.arrays import Floats
from dimargin.system.plain_numbers import PlainNumbers
from dimargin.system.threads import single_threaded_blas

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


@dataclass(frozen=True)
class PreparedFit:
    """Fit whose parameters and data have been checked.

    Attributes
    ----------
    n_levels : int
        Levels that will be reported.
    model_attributes : callable
        Returns the fitted attributes of a model that was found on the way.
    train : callable
        Trains within limits, with reports of progress; returns the fitted attributes, and why training ended.
    """

    n_levels: int
    model_attributes: Callable[[Any], dict[str, Any]]
    train: Callable[[Limits, Progress], tuple[dict[str, Any], str]]


class MarginClassifier(PlainNumbers, CertificateDiagram, CallbackSupportMixin, ClassifierMixin, BaseEstimator, ABC):
    """Base class of all classifiers, with the parameters and attributes that they have.

    Parameters
    ----------
    max_time : float or None, default=None
        Seconds after which the best model so far is returned, with a ConvergenceWarning.
    class_weight : dict, "balanced" or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one for every processor that the process may use, by affinity and by the quota of its
        container, -2 all but one. At most what OpenMP and threadpoolctl allow. The result does not depend on it.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had column names.
    status_ : {"converged", "above_tol", "max_iter", "max_time", "stopped", "precision"}
        Whether `duality_gap_`, that of the problem which `certificate_` names, is within `tol`: "converged". If it is
        not, why the fit ended; "above_tol" if it ended by itself, as landmarks and partitions do whose own gap was
        within `tol`, until `certify` finds that the global one is not.
    """

    tol: float
    max_iter: int
    max_time: float | None
    class_weight: dict[Any, float] | str | None
    warm_start: bool
    n_jobs: int | None
    random_state: Any
    verbose: int

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the machine.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels of any type, two classes or more.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative; a weight of two equals the row given twice, zero equals leaving it out.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter or data out of range; the message names the parameter, row or column.
        MemoryError
            Before the work begins, when the machine's memory, or a kernel machine's `memory_limit`, cannot suffice.

        Warns
        -----
        ConvergenceWarning
            When the tolerance was not reached; ``status_`` says why.
        """
        return self._fit(X, y, sample_weight=sample_weight)

    def _fit(self, X: Any, y: Any, **metadata: Any) -> Self:
        """Train the machine; what differs from class to class is in `_prepare`."""
        began = time.perf_counter()
        with unchanged_on_failure(self), single_threaded_blas():
            self._check_parameters()
            fit = self._prepare(X, y, **metadata)
            monitor: Monitor = self.__dict__.get("_monitor") or Monitor()
            # the levels of a tree count down, and their numbers are the names of their tasks
            context = self._init_callback_context(max_subtasks=fit.n_levels, sequential_subtasks=False)
            hooks = {"X": X, "y": y, "metadata": metadata}
            context.call_on_fit_task_begin(estimator=self, **hooks)
            progress = CallbackProgress(self, context, hooks, fit.model_attributes, monitor)
            deadline = None if self.max_time is None else began + self.max_time
            limits = Limits(self.tol, self.max_iter, deadline, interrupted=monitor.interrupted)
            attributes, reason = fit.train(limits, progress)
            set_attributes(self, attributes)
            context.call_on_fit_task_end(estimator=self, **hooks, reconstruction_attributes=attributes)
        self._warn_unless_converged(reason)
        return self

    @abstractmethod
    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        """Check the data, and that there is memory; return what is left to do."""

    def _check_limits(self) -> None:
        check_number("tol", self.tol, 0)
        check_number("max_iter", self.max_iter, 1, low_included=True, whole=True)
        if self.max_time is not None:
            check_number("max_time", self.max_time, 0)
        if self.n_jobs is not None:
            check_number("n_jobs", self.n_jobs, -math.inf, whole=True)

    def _certificate_attributes(self, objectives: Objectives, scope: str, status: str) -> dict[str, Any]:
        check_objectives(objectives.primal, objectives.dual, objectives.relative_gap)
        # Who sums up the losses of decision values in another order must not find an objective above this one.
        objectives = objectives.raised(self.tol)
        return {
            "objective_": per_class(objectives.primal),
            "dual_objective_": per_class(objectives.dual),
            "duality_gap_": objectives.worst_gap,
            "certificate_": scope,
            "status_": status_of_gap(objectives.worst_gap, self.tol, status),
        }

    def _set_global_certificate(self, objectives: Objectives) -> None:
        """Set the certificate that `certify` has computed, and the status that belongs to it."""
        before = vars(self).get("status_", "above_tol")  # models of other writers may hold none
        status = "converged" if objectives.worst_gap <= self.tol else before
        self.__dict__.update(self._certificate_attributes(objectives, "global", status))

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _warn_unless_converged(self, reason: str) -> None:
        if self.status_ in ("max_iter", "max_time", "precision"):
            warnings.warn(
                f"{type(self).__name__} stopped before the tolerance was reached: {reason}. The model is the "
                f"best so far, with a relative duality gap of {self.duality_gap_:.2e} ({self.certificate_})."
                f"{self._advice()}",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _plan(self, n_rows: int) -> str:
        """Return how a fit of so many rows is done, in a few words."""
        return ""

    def _advice(self) -> str:
        """Return what to do instead, as a sentence behind others, where a fit has ended far from its tolerance."""
        return ""

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

    @property
    def predict_proba(self) -> NoReturn:
        """Absent, for `hasattr` too: machines have no probabilities, and the error says how to get them."""
        raise no_probabilities(self)

    @abstractmethod
    def decision_function(self, X: Any) -> Floats:
        """Return decision values of shape (n_samples,) for two classes, else (n_samples, n_classes)."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels, of shape (n_samples,)."""
        return self._decide(self.decision_function(X))

    def _decide(self, values: Floats) -> NDArray[Any]:
        """Return the class labels that decision values stand for."""
        return np.asarray(self.classes_[codes_of(values)])


def no_probabilities(estimator: Any) -> AttributeError:
    """Return the error for `predict_proba` of a machine, as ``VotingClassifier(voting="soft")`` asks for it."""
    kind = type(estimator).__name__
    return AttributeError(
        f"{kind} has no predict_proba: decision values are no probabilities. CalibratedClassifierCV({kind}(...), "
        "ensemble=False) makes probabilities of them, for soft voting too: see docs/probabilities.md",
        name="predict_proba",
        obj=estimator,
    )


def status_of_gap(gap: float, tol: float, status: str) -> str:
    """Return the status of a model with this gap, of which its fit has said another or the same: see ``status_``."""
    return "above_tol" if status == "converged" and gap > tol else status


def per_class(values: Floats) -> Any:
    """Return the value of the only output as a number, or those of several as an array."""
    return float(values[0]) if len(values) == 1 else values


def history_attribute(history: History) -> History:
    """Return the history with its objectives in the form of the attribute ``objective_``."""
    return [{**entry, "objective": per_class(np.asarray(entry["objective"]))} for entry in history]
