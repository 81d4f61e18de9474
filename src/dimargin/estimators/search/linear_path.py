"""Linear classifiers with the weight of the loss chosen by cross-validation, along a path of warm starts."""

from __future__ import annotations

import numbers
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from dimargin.estimators import LinearLossClassifier
from dimargin.estimators.fit_plan import DataSize, FitPlan
from dimargin.estimators.input_checks import check_magnitude, check_number, seed_of
from dimargin.estimators.margin_machine import PreparedFit
from dimargin.estimators.search.folds import DecisionValueClassifier, decision_values
from dimargin.estimators.training_data import TrainingData, on_stored_columns, training_data, with_class_weight
from dimargin.estimators.wide_attributes import WideArray
from dimargin.problems.losses import Loss
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import Limits
from dimargin.strategies import LinearSolver, Progress
from dimargin.system.arrays import Floats, Indices
from dimargin.system.memory import check_memory
from dimargin.system.progress_lines import log_progress
from dimargin.system.threads import effective_n_threads

Fold = tuple[Indices, Indices]
"""Indices of the training and test rows of a fold, among the rows with weight."""


@dataclass(frozen=True)
class _FoldPath:
    """Scores and gaps of a fold, of shape (n_values,), NaN where a limit was reached before."""

    scores: Floats
    gaps: Floats
    parameters: Floats | None  # Of shape (n_values, n_outputs, m + 1), if they are kept.


class LinearPathClassifier(LinearLossClassifier):
    """Base class of `LinearSVMClassifierCV` and `LinearODMClassifierCV`, which differ in their machine.

    Parameters
    ----------
    cv : int, splitter or iterable of splits, default=5
        As in scikit-learn: a number of stratified folds that are not shuffled, a splitter, or pairs
        of indices of training and test rows.
    scoring : str, callable or None, default=None
        As in scikit-learn, by labels or decision values; None is accuracy. Scores are weighted by
        `sample_weight`, if that is given.
    max_time : float or None, default=None
        Time limit in seconds, including the last fit. The folds take at most half of it; if they are
        cut short, the value with the best mean score is chosen among those scored on most folds.
    store_path : bool, default=False
        Whether to keep the coefficients of all fits of the folds in `path_`.
    n_jobs : int or None, default=None
        Number of threads, of which every fold has one first; see `SVMClassifier`. Results do not
        depend on it.

    Attributes
    ----------
    best_score_ : float
        Mean score over the folds of the chosen value; NaN if no fit was scored before the time limit
        or an interruption, when the value in the middle is chosen.
    scores_ : ndarray of shape (n_folds, n_values)
        NaN for fits that did not begin or were cut off.
    duality_gaps_ : ndarray of shape (n_folds, n_values)
        Relative duality gap of every fit on its training rows; NaN as in `scores_`.
    path_ : ndarray of shape (n_folds, n_values, n_outputs, n_features_in_ + 1)
        Coefficients of all fits, the intercept last; only with ``store_path=True``.
    """

    cv: Any
    scoring: Any
    store_path: bool
    warm_start: ClassVar[bool] = False  # type: ignore[misc]  # A fit starts its own path.
    kind: ClassVar[type[LinearLossClassifier]]  # Machine whose parameter is chosen.
    parameter: ClassVar[str]  # Name of the parameter; that of its values ends in "s".
    ends: ClassVar[tuple[float, float]]  # Smallest and largest value, if only their number is given.

    path_ = WideArray()

    def _values(self) -> list[float]:
        """Return the values of the parameter in ascending order; raises ValueError or TypeError for invalid ones."""
        name = f"{self.parameter}s"
        given = getattr(self, name)
        if isinstance(given, numbers.Integral):
            check_number(name, given, 1, low_included=True, whole=True)
            return [float(value) for value in np.geomspace(*self.ends, int(given))]
        if isinstance(given, str) or np.ndim(given) != 1 or not len(given):
            raise ValueError(f"{name} must be a whole number or a sequence of positive numbers, got {given!r}")
        values = np.asarray(given).tolist()
        for index, value in enumerate(values):
            check_magnitude(f"{name}[{index}]", value)
        return sorted({float(value) for value in values})

    def _machine(self, value: float | None = None, **others: Any) -> Any:
        """Return the machine for a value of the parameter, by default the chosen one, or the first before a fit."""
        if value is None:
            value = vars(self).get(f"{self.parameter}_") or self._values()[0]
        known = self.kind().get_params(deep=False)
        own = {name: given for name, given in self.get_params(deep=False).items() if name in known}
        return self.kind(**own | {self.parameter: value} | others)

    def _loss(self) -> Loss:
        return self._machine()._loss()  # type: ignore[no-any-return]

    def _auto_solver(self, size: DataSize) -> str:
        return self._machine()._auto_solver(size)  # type: ignore[no-any-return]

    def _plan(self, size: DataSize) -> FitPlan:
        return self._machine()._plan(size)  # type: ignore[no-any-return]

    def _check_parameters(self) -> None:
        for value in self._values():
            self._machine(value)._check_parameters()

    # ---- training ------------------------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        data, columns = on_stored_columns(training_data(self, X, y, sample_weight, linear=True))
        values, folds, seed = self._values(), self._folds(data, X, y), seed_of(self.random_state)
        scorer = check_scoring(DecisionValueClassifier(data.classes), self.scoring)
        score = partial(_score, scorer, data, sample_weight is not None)
        counts = tuple(np.bincount(data.y, minlength=len(data.classes)).tolist())
        plan = self._machine(values[0])._plan(DataSize(len(data.y), data.X.shape[1], int(data.X.size), counts))
        engine = LocalEngine(effective_n_threads(self.n_jobs), Event())
        together, of_path = min(engine.n_threads, len(folds)), len(data.labels) * (data.X.shape[1] + 1)
        of_path *= 8 * len(folds) * len(values) * bool(self.store_path)
        check_memory(together * (plan.memory + _size_of(data.X)) + of_path, None)

        def train(limits: Limits, progress: Progress) -> tuple[dict[str, Any], str]:
            began, of_folds = time.perf_counter(), replace(limits, cancelled=engine.cancelled)
            if limits.deadline is not None:
                of_folds = replace(of_folds, deadline=(began + limits.deadline) / 2)
            one = partial(self._fold_path, data, values, plan.strategy, of_folds, seed, score)
            paths = engine.map(one, folds)
            found = self._path_attributes(values, paths, columns)
            self._report(found, time.perf_counter() - began)
            # An interruption of the folds must not interrupt the last fit.
            limits = replace(limits, interrupted=Event()) if limits.interrupted.is_set() else limits
            machine, start = self._machine(found[f"{self.parameter}_"]), self._start(data, columns)
            training = machine._training(data, start, limits, seed, plan.strategy.deals_rows)
            solution = plan.strategy.train(replace(training, progress=progress))
            own = self.fitted_attributes(solution, data.classes, float(data.weights.sum()), columns)
            return own | found, solution.reason

        def model_attributes(found: Floats) -> dict[str, Any]:
            return self._model_attributes(data.classes, self._with_intercept(found), columns)

        return PreparedFit(plan.n_levels, model_attributes, train)

    def _folds(self, data: TrainingData, X: Any, y: Any) -> list[Fold]:
        """Return the folds of scikit-learn's splitter, which splits all given rows, without rows of no weight."""
        indices = np.full(data.n_given, -1)
        indices[data.kept] = np.arange(len(data.y))
        try:
            splits = list(check_cv(self.cv, y, classifier=True).split(X, y))
        except ValueError as error:
            raise ValueError(f"cv={self.cv!r} cannot split the rows: {error}") from error
        folds = []
        for number, split in enumerate(splits):
            train, test = (indices[rows][indices[rows] >= 0] for rows in split)
            if len(np.unique(data.y[train])) < len(data.classes) or not len(test):
                raise ValueError(
                    f"fold {number} of cv={self.cv!r} needs training rows of every class and a test row with weight; "
                    "use fewer folds, or stratified ones"
                )
            folds.append((train, test))
        return folds

    def _fold_path(
        self, data: TrainingData, values: Sequence[float], solver: LinearSolver, limits: Limits, seed: int,
        score: Any, fold: Fold, n_threads: int,
    ) -> _FoldPath:  # fmt: skip
        """Train along the values on a fold, each fit from the solution before it."""
        train, test = fold
        rows, queries = with_class_weight(data.take(train), self.class_weight), data.X[test]
        start, dual = self._start(rows, None), None
        scores, gaps = np.full((2, len(values)), np.nan)
        kept = np.full((len(values), *start.shape), np.nan) if self.store_path else None
        for index, value in enumerate(values):
            if limits.reached:
                break
            machine = self._machine(value, n_jobs=n_threads)
            training = machine._training(rows, start, limits, seed, solver.deals_rows)
            solution = solver.train(replace(training, dual=dual))
            if solution.status in ("max_time", "stopped"):
                break
            start, dual = machine._with_intercept(solution.parameters), solution.dual
            gaps[index], scores[index] = solution.objectives.worst_gap, score(test, decision_values(queries, start))
            if kept is not None:
                kept[index] = start
        return _FoldPath(scores, gaps, kept)

    def _path_attributes(
        self, values: Sequence[float], paths: Sequence[_FoldPath], columns: Indices | None
    ) -> dict[str, Any]:
        """Return the chosen value and what the folds say of all values."""
        scores = np.array([path.scores for path in paths])
        best, mean = best_value(scores)
        found = {
            f"{self.parameter}_": values[best], f"{self.parameter}s_": np.array(values), "best_score_": mean,
            "scores_": scores, "duality_gaps_": np.array([path.gaps for path in paths]),
        }  # fmt: skip
        if self.store_path:
            found["path_"] = self._kept(np.array([path.parameters for path in paths]), columns)
        return found

    def _report(self, found: dict[str, Any], seconds: float) -> None:
        """Log a line if the machine is verbose, and warn of fits that were cut off or have not converged."""
        gaps, name, value = found["duality_gaps_"], self.parameter, found[f"{self.parameter}_"]
        if self.verbose:
            log_progress(
                f"path: {gaps.shape[1]} values of {name} on {gaps.shape[0]} folds, {seconds:.2f} s, "
                f"best score {found['best_score_']:.4f} with {name}={value:.3g}"
            )
        n_absent, n_above = int(np.isnan(gaps).sum()), int((gaps > self.tol).sum())
        if n_absent:
            chosen = "the best value so far is" if np.isfinite(found["best_score_"]) else "no fit was scored, and it is"
            warnings.warn(
                f"the path was cut short after {gaps.size - n_absent} of {gaps.size} fits; {chosen} {name}={value:.3g}",
                ConvergenceWarning,
                stacklevel=6,
            )
        elif n_above:
            warnings.warn(
                f"{n_above} of {gaps.size} fits of the path have a duality gap above tol={self.tol:g}, up to "
                f"{gaps.max():.2e}; see duality_gaps_",
                ConvergenceWarning,
                stacklevel=6,
            )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the score by `scoring`."""
        if self.scoring is None:
            return float(super().score(X, y, sample_weight))
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(check_scoring(self, self.scoring)(self, X, y, **weights))


def best_value(scores: Floats) -> tuple[int, float]:
    """Return the first value with the largest mean score, among those scored on most folds, and this mean.

    Without any score, it is the value in the middle, and NaN.

    Examples
    --------
    >>> best_value(np.array([[0.5, 0.9, 0.9], [0.7, 0.7, np.nan]]))
    (1, 0.8)
    """
    counts = np.isfinite(scores).sum(axis=0)
    if not counts.any():
        return scores.shape[1] // 2, float("nan")
    means = np.where(counts == counts.max(), np.nansum(scores, axis=0) / np.maximum(counts, 1), -np.inf)
    best = int(means.argmax())
    return best, float(means[best])


def _score(scorer: Any, data: TrainingData, is_weighted: bool, test: Indices, values: Floats) -> float:
    """Return the score of decision values, of shape (n_outputs, n), for test rows."""
    weights = {"sample_weight": data.row_weights[test]} if is_weighted else {}
    given, truth = values[0] if len(values) == 1 else values.T, data.classes[data.y[test]]
    return float(scorer(DecisionValueClassifier(data.classes), given, truth, **weights))


def _size_of(X: Any) -> int:
    """Return the bytes of dense or CSR rows."""
    arrays: list[NDArray[Any]] = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    return sum(array.nbytes for array in arrays)
