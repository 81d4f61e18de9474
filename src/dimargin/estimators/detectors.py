"""Base class of the outlier detectors on core-sets."""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.exceptions import ConvergenceWarning

from dimargin.estimators.diagram import CertificateDiagram
from dimargin.estimators.fit_progress import interruptible, interruption
from dimargin.estimators.input_checks import (
    check_limits,
    check_number,
    check_objectives,
    check_weights,
    sample_weights,
    seed_of,
)
from dimargin.estimators.kernel_parameters import KernelEstimator, keeps_columns, row_transform_of
from dimargin.estimators.margin_machine import status_of_gap, unchanged_on_failure
from dimargin.estimators.sites import check_consensus
from dimargin.estimators.training_data import rows_of, validated
from dimargin.estimators.wide_attributes import set_attributes
from dimargin.kernels.functions import Kernel
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.user import KernelFunction, Transform, kernel_matrix
from dimargin.kernels.wide_rows import KeptColumns, as_given
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import SquaredHingeLoss
from dimargin.problems.objectives import ROUNDINGS, Objectives
from dimargin.problems.solution import SolveResult
from dimargin.solvers import ExactSolver, GrowingRows, Limits, solve
from dimargin.system.arrays import Floats, Indices
from dimargin.system.plain_numbers import PlainNumbers
from dimargin.system.threads import effective_n_threads, single_threaded_blas


@dataclass(frozen=True)
class RowsToFit:
    """Rows of positive weight, in the order of their keys, to fit a detector to.

    `indices` are those of the rows in the caller's X; `columns` are the columns of the caller's X
    that are kept in X, None if all are.
    """

    X: Any
    weights: Floats
    indices: Indices
    transform: Transform
    n_threads: int
    seed: int
    columns: KeptColumns | None = None


@dataclass(frozen=True)
class CoreSetFit:
    """Indices and weights (with sum one) of a core-set, and the result of its solve."""

    indices: Indices
    weights: Floats
    result: SolveResult


@dataclass(frozen=True)
class Evaluation:
    """Inner products of rows with themselves and with the centre of a core-set.

    Attributes
    ----------
    diagonal : ndarray of shape (n,)
        k(x, x).
    products : ndarray of shape (n,)
        Inner products with the centre.
    square : float
        Inner product of the centre with itself.
    errors : tuple of ndarray of shape (n,)
        Bounds of the rounding of `diagonal` and `products`; unused without a certificate.
    """

    diagonal: Floats
    products: Floats
    square: float
    errors: tuple[Floats, Floats] = (np.empty(0), np.empty(0))

    def square_error(self, core: Indices, weights: Floats) -> float:
        """Bound the rounding error of the centre's square."""
        return float(weights @ self.errors[1][core] + ROUNDINGS * (weights @ np.abs(self.products[core])))


def certified(primal: float, dual: float, rounding: float) -> dict[str, Any]:
    """Return the attributes of a detector's certificate, whose gap includes `rounding`."""
    found = Objectives.of(np.array([primal]), np.array([max(primal - dual, 0.0)]), np.zeros(1), np.array([rounding]))
    objectives = {"objective_": primal, "dual_objective_": float(found.dual[0]), "duality_gap_": found.worst_gap}
    return objectives | {"certificate_": "global"}


@dataclass(eq=False, repr=False)
class CoreSetDetector(PlainNumbers, CertificateDiagram, KernelEstimator, OutlierMixin, BaseEstimator):
    """Base class of the detectors; subclasses define the objective and the scores of rows.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap to reach.
    max_time : float or None, default=None
        Seconds after which the best model so far is returned, with a ConvergenceWarning.
    random_state : int, RandomState or None, default=None
    n_sites : int, default=1
        With more than one, the sites of a simulated network agree on the core-set, as in
        `CoreSetSVMClassifier`.
    topology : str or networkx graph, default="complete"
        As in `CoreSetSVMClassifier`.
    shards : {"random", "unequal", "sorted", "sorted_unequal"} or array-like of shape (n_samples,), default="random"
        As in `CoreSetSVMClassifier`.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had column names.
    support_ : ndarray of shape (n_SV,)
        Indices of the core-set in X.
    support_vectors_ : ndarray or CSR array of shape (n_SV, n_features_in_)
    duality_gap_ : float
        ``(objective_ - dual_objective_) / objective_``, over all rows.
    certificate_ : {"global"}
    status_ : {"converged", "above_tol", "max_iter", "max_time", "interrupted", "precision"}
        "converged": `duality_gap_` is within `tol`. "above_tol": it is not, but every row is within
        ``1 + epsilon`` times the radius, as requested. Other values: why the fit ended.
    history_ : list of dict
    """

    C: float = 1.0
    epsilon: float | None = None
    kernel: str | KernelFunction = "rbf"
    gamma: str | float = "scale"
    degree: int = 3
    coef0: float = 0.0
    contamination: str | float = "auto"
    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    n_jobs: int | None = None
    random_state: Any = None
    n_sites: int = 1
    topology: Any = "complete"
    shards: str | Sequence[int] = "random"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the detector to rows that are mostly inliers.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights; weight two equals giving the row twice, zero equals omitting it.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If a parameter or value is out of range; the message names the parameter, row or column.
        KeyboardInterrupt
            After Ctrl-C, as in `SVMClassifier`: the estimator holds the best core-set so far.

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached; ``status_`` holds the reason.
        """
        began = time.perf_counter()
        with unchanged_on_failure(self), single_threaded_blas():
            self._check_parameters()
            rows, n_given = self._rows(X, sample_weight)
            deadline = None if self.max_time is None else began + self.max_time
            limits = Limits(tol=self.tol, max_iter=int(self.max_iter), deadline=deadline)
            with interruptible(self, limits.interrupted) as interrupted:
                found = self._solve(rows, limits) if self.n_sites == 1 else self._agree(rows, limits)
            attributes = self._attributes(rows, found, n_given)
            if interrupted.is_set() and attributes["status_"] == "stopped":
                attributes["status_"] = "interrupted"
            set_attributes(self, attributes)
        if interrupted.is_set():
            raise interruption(self)
        if self.status_ not in ("converged", "above_tol"):
            reason = (
                found.result.reason
                if self.status_ == found.result.status
                else f"the remaining gap above tol={self.tol:g} is within rounding error"
            )
            warnings.warn(
                f"{type(self).__name__} stopped before the tolerance was reached: {reason}. The model is the "
                f"best so far, with a relative duality gap of {self.duality_gap_:.2e}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _check_parameters(self) -> None:
        self._check_kernel()
        check_number("epsilon", self.epsilon, 0, 1, high_included=True, or_none=True)
        if self.contamination != "auto":
            if isinstance(self.contamination, str):
                raise ValueError(f"contamination must be 'auto' or a number in (0, 0.5], got {self.contamination!r}")
            check_number("contamination", self.contamination, 0, 0.5, high_included=True)
        check_consensus(self, epsilon=self.epsilon is not None)
        check_limits(self)

    def _rows(self, X: Any, sample_weight: Any) -> tuple[RowsToFit, int]:
        X = validated(self, X, ensure_min_samples=2)
        given = sample_weights(sample_weight, X)
        kept = np.flatnonzero(given > 0)
        check_weights(given[kept], kept)
        seed = seed_of(self.random_state)
        order = self._order(X[kept], np.zeros(len(kept), dtype=np.int64), given[kept], seed)
        indices, n_given = kept[order], X.shape[0]
        X, weights = rows_of(self, X, indices), given[indices]
        columns = KeptColumns.of(X) if keeps_columns(X, self.kernel) else None
        X = X if columns is None else columns.narrow(X)
        transform = row_transform_of(self, X, weights, columns)
        return RowsToFit(X, weights, indices, transform, effective_n_threads(self.n_jobs), seed, columns), n_given

    @abstractmethod
    def _solve(self, rows: RowsToFit, limits: Limits) -> CoreSetFit:
        """Find a core-set and its weights."""

    _machine: ClassVar[Literal["ball", "margin"]]  # The kind of core-set that sites agree on.

    def _agree(self, rows: RowsToFit, limits: Limits) -> CoreSetFit:
        """Find the core-set by a consensus of the sites of a simulated network."""
        from dimargin.gossip.programs.core_set_settings import CoreSetSettings
        from dimargin.gossip.simulation.consensus import agree, dealt  # The import needs the extra "peers".

        site = dealt(self.shards, np.zeros(len(rows.indices), dtype=np.int64), rows.indices, int(self.n_sites))
        kernel = rows.transform.kernel
        assert isinstance(kernel, Kernel)  # `check_consensus` has refused other kernels.
        settings = CoreSetSettings.for_gap(self._machine, self.C, self.tol, kernel)
        signs, n_sites = np.ones(len(site)), int(self.n_sites)
        run = agree(rows.X, signs, rows.weights, settings, site, n_sites, self.topology, limits, rows.seed)
        last = run.history[-1]
        reason = f"{run.status} after {last['round']} rounds of {self.n_sites} sites"
        unknown = np.full(1, np.inf)  # Sites do not compute the gap; `_judged` does, over all rows.
        result = SolveResult(
            objectives=Objectives.of(unknown, unknown, np.zeros(1)),
            status=run.status,
            reason=reason,
            passes=last["round"],
            kernel_evaluations=0,
            history=run.history,
        )
        return CoreSetFit(run.indices(run.best), run.best.weights, result)

    @abstractmethod
    def _judged(self, rows: RowsToFit, found: CoreSetFit, evaluation: Evaluation) -> dict[str, Any]:
        """Return the attributes of this kind of detector; the offset bounds the ball."""

    def _homogeneous(self, rows: RowsToFit, limits: Limits) -> CoreSetFit:
        """Minimise ``x'(K + diag(1 / (C s)))x`` over weights with sum one, by the squared hinge."""
        total = float(rows.weights.sum())
        matrix = kernel_matrix(rows.transform, rows.X, n_threads=rows.n_threads)
        problem = DualProblem(
            np.ones((1, len(rows.weights))), rows.weights, SquaredHingeLoss(self.C / 2), total, total, kernel=matrix
        )
        solution = solve(problem, GrowingRows(ExactSolver(random_state=rows.seed), self.epsilon), None, limits)
        indices = np.flatnonzero(solution.dual[0])
        weights = solution.dual[0, indices]
        if not len(indices):
            indices, weights = np.zeros(1, dtype=np.int64), np.ones(1)
        return CoreSetFit(indices, weights / weights.sum(), solution.bare())

    def _attributes(self, rows: RowsToFit, found: CoreSetFit, n_given: int) -> dict[str, Any]:
        transform = rows.transform.in_float64()
        matrix = kernel_matrix(transform, rows.X, n_threads=rows.n_threads)
        products = matrix.multiply(found.indices, found.weights[None])[0]
        errors = matrix.rounding(1) * matrix.row_sizes**2, matrix.product_errors(found.indices, found.weights[None])[0]
        square = max(float(found.weights @ products[found.indices]), 0.0)  # Only rounding can make it negative.
        evaluation = Evaluation(matrix.diagonal(), products, square, errors)
        order = np.argsort(rows.indices[found.indices])
        core = found.indices[order]
        attributes = {
            "support_": rows.indices[core],
            "support_vectors_": as_given(matrix.vectors(core), rows.columns),
            "dual_coef_": found.weights[order][None],
            "n_iter_": found.result.passes,
            "history_": found.result.history,
            "_transform": transform,
            "_square": evaluation.square,
            "_n_given": n_given,
            **self._judged(rows, found, evaluation),
        }
        check_objectives(*(attributes[name] for name in ("objective_", "dual_objective_", "duality_gap_")))
        bounds = self._score_errors(evaluation, found)
        attributes["offset_"] = self._offset_at(attributes["offset_"], self._scores(evaluation), bounds, rows.weights)
        status = status_of_gap(attributes["duality_gap_"], self.tol, found.result.status)
        attributes["status_"] = "precision" if status == "above_tol" and self.epsilon is None else status
        return attributes

    def _offset_at(self, boundary: float, scores: Floats, bounds: Floats, weights: Floats) -> float:
        """Return the score below which rows are outliers, according to `contamination`."""
        if self.contamination == "auto":
            # Slack puts every row of the core-set outside, rows with many duplicates only slightly.
            # Outliers exceed twice the mean excess over all rows, so they are at most half of the
            # rows (Markov).
            offset = boundary - 2.0 * float(weights @ np.maximum(boundary - scores, 0.0)) / float(weights.sum())
        else:
            offset = _quantile(scores, weights, float(self.contamination))
        # Scores at prediction have other rounding, which must not put rows of the boundary outside.
        # The bounds are of first order only, hence the last term.
        return offset - 2 * float(bounds.max()) - 1e-9 * float(np.ptp(scores))

    @staticmethod
    @abstractmethod
    def _scores(evaluation: Evaluation) -> Floats:
        """Return the scores of rows; inliers have larger scores."""

    @staticmethod
    @abstractmethod
    def _score_errors(evaluation: Evaluation, found: CoreSetFit) -> Floats:
        """Bound the rounding of the scores of training rows."""

    def score_samples(self, X: Any) -> Floats:
        """Compute the scores of rows; inliers have larger scores.

        A score is the negative squared distance from the centre of the ball, or ``w.phi(x)``.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        n_rows, batches = self._batches(X)
        scores, threads = np.empty(n_rows), effective_n_threads(self.n_jobs)
        for batch, part in batches:
            matrix = kernel_matrix(self._transform, self.support_vectors_, queries=part, n_threads=threads)
            products = matrix.multiply(np.arange(len(self.support_)), self.dual_coef_)[0]
            scores[batch] = self._scores(Evaluation(self._diagonal_of(part), products, self._square))
        return scores

    def _diagonal_of(self, X: Any) -> Floats:
        """Return k(x, x) of rows at prediction."""
        if isinstance(self._transform, RowTransform):
            return self._transform.kernel.with_itself(X)
        return kernel_matrix(self._transform, X).diagonal()

    def decision_function(self, X: Any) -> Floats:
        """Compute ``score_samples(X) - offset_``, which is negative for outliers."""
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Predict 1 for inliers and -1 for outliers, of shape (n_samples,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    """Return the largest value with at most this share of the weight below it."""
    order = np.argsort(values)
    below = int(np.searchsorted(np.cumsum(weights[order]), share * weights.sum() * (1 + 1e-12), side="right"))
    return float(values[order[below]])
