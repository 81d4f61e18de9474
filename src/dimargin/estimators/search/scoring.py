"""Scores of the candidates of a round, computed in parallel over kernels and folds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone

from dimargin.estimators import LinearLossClassifier
from dimargin.estimators.fit_plan import FitPlan
from dimargin.estimators.fit_progress import Monitor
from dimargin.estimators.kernel_parameters import may_merge, row_transform_of, thinned_for
from dimargin.estimators.search.folds import (
    ExactTrainer,
    Fold,
    LinearTrainer,
    PairTrainer,
    Sample,
    SpaceTrainer,
    Trainer,
)
from dimargin.estimators.search.halving import Round, Rung
from dimargin.estimators.training_data import TrainingData, gamma_value, thinned, with_class_weight
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import Limits
from dimargin.solvers.newton import forms_hessian
from dimargin.strategies import Landmark, LinearCoordinateDescent
from dimargin.system.arrays import Floats, Indices
from dimargin.system.progress_lines import log_progress

KERNEL = ("kernel", "gamma", "degree", "coef0")
SHARED = (*KERNEL, "class_weight", "loss", "fit_intercept")
"""Parameters that candidates must share to be solved in one sequence."""
ORDERED = ("upsilon", "theta", "lam", "C")
"""Parameters that order the candidates of a sequence of warm starts."""


def round_text(entry: Mapping[str, Any]) -> str:
    """Return what is said of a round: its candidates, its rows, values beyond the grid, and its best score."""
    beyond = ", ".join(f"{name} {value:.3g}" for name, value in entry["beyond"].items())
    widened = f", beyond the grid ({beyond})" if beyond else ""
    is_scored = np.isfinite(entry["best_score"])
    score = f"best score {entry['best_score']:.4f}" if is_scored else "no candidate was scored"
    return f"round {entry['round']}: {entry['candidates']} candidates on {entry['rows']} rows{widened}, {score}"


@dataclass
class Report:
    """Progress reports of a search to scikit-learn's callbacks, to a front end and by logging."""

    context: Any
    hooks: dict[str, Any]
    monitor: Monitor
    verbose: bool

    def begin(self, rung: Rung, n_units: int) -> None:
        """Report the begin of a round with `n_units` independent units."""
        self.monitor.level_begin(rung.number, n_units)
        self._round = self.context.subcontext(
            task_name=f"round {rung.number}", max_subtasks=n_units, sequential_subtasks=False
        )
        self._round.call_on_fit_task_begin(**self.hooks)

    def unit_end(self, index: int, result: Any) -> None:
        """Report that the candidates with one kernel have been scored on one fold."""
        self.monitor.task_end(index)
        task = self._round.subcontext(task_name="kernel and fold", task_id=index)
        task.call_on_fit_task_begin(**self.hooks)
        task.call_on_fit_task_end(**self.hooks)

    def end(self, entry: dict[str, Any]) -> None:
        """Report the end of the round, and interrupt the search if a listener requests it."""
        if self.verbose:
            log_progress(f"{round_text(entry)}, {entry['seconds']:.2f} s")
        stop = self._round.call_on_fit_task_end(**self.hooks)
        if stop | self.monitor.level_end(entry, lambda: None):
            self.monitor.interrupted.set()


@contextmanager
def context_of(context: Any, name: str, hooks: dict[str, Any]) -> Iterator[None]:
    """Report the begin and end of the block to callbacks as a subtask of the fit."""
    task = context.subcontext(task_name=name)
    task.call_on_fit_task_begin(**hooks)
    yield
    task.call_on_fit_task_end(**hooks)


@dataclass
class Search:
    """Search that scores candidates and records the rounds."""

    estimator: Any
    data: TrainingData
    candidates: list[dict[str, Any]]
    folds: list[Fold]
    scorer: Any
    engine: LocalEngine
    tol: float
    deadline: float | None
    report: Report
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        interrupted = self.report.monitor.interrupted
        self.limits = Limits(self.tol, 30, self.deadline, self.engine.cancelled, interrupted)
        self.linear = isinstance(self.estimator, LinearLossClassifier)
        self._data_by_kernel: dict[str, TrainingData] = {}
        self._lock = Lock()

    def add(self, candidates: list[dict[str, Any]]) -> None:
        """Append candidates, which have the next numbers."""
        self._machines.extend(clone(self.estimator).set_params(**params) for params in candidates)
        self.candidates.extend(candidates)

    def evaluate(self, rung: Rung, candidates: Indices, beyond: Mapping[str, float] | None = None) -> Floats:
        """Compute scores of shape (n_candidates, n_folds), with NaN for those without time.

        A round that widens the grid has the values `beyond` its edges.
        """
        began = time.perf_counter()
        units = [(group, fold) for group in self._groups(candidates) for fold in range(rung.n_folds)]
        self.report.begin(rung, len(units))
        results = self.engine.map(lambda unit, n_threads: self._unit(rung, *unit), units, self.report.unit_end)
        found = np.full((len(candidates), rung.n_folds), np.nan)
        for (group, fold), (values, _) in zip(units, results, strict=True):
            found[np.searchsorted(candidates, group), fold] = values
        self.rounds.append(
            {
                "round": rung.number,
                "candidates": len(candidates),
                "rows": rung.n_rows,
                "seconds": time.perf_counter() - began,
                "kernel_evaluations": sum(spent for _, spent in results),
                "best_score": float(Round(rung, candidates, found).means.max()),
                "beyond": dict(beyond or {}),
            }
        )
        self.report.end(self.rounds[-1])
        return found

    def _groups(self, candidates: Indices) -> list[Indices]:
        """Group candidates by `SHARED` parameters, and sort each group by `ORDERED` ones."""
        groups: dict[str, list[int]] = {}
        for index in candidates:
            shared = [getattr(self._machines[index], name, None) for name in SHARED]
            groups.setdefault(str(shared), []).append(int(index))
        return [np.array(sorted(group, key=self._path)) for group in groups.values()]

    @cached_property
    def _machines(self) -> list[Any]:
        """Unfitted machines for all candidates."""
        return [clone(self.estimator).set_params(**params) for params in self.candidates]

    def _path(self, index: int) -> tuple[float, ...]:
        values = [getattr(self._machines[index], name, 0.0) for name in ORDERED]
        return tuple(0.0 if isinstance(value, str) else value for value in values)

    def _unit(self, rung: Rung, group: Indices, fold: int) -> tuple[list[float], int]:
        """Score a group on a fold, and count kernel evaluations.

        The score is NaN for candidates whose fit did not begin, or may have been cut off, when a limit was reached.
        """
        if self.limits.reached:
            return [np.nan] * len(group), 0
        machine = clone(self._machines[group[0]])
        X, counts = self.data.X, np.bincount(self.data.y).tolist()
        sizes = (X.shape[1], int(X.size)) if self.linear else ()
        plan = machine.fit_plan(len(self.data.y), *sizes, class_counts=counts)
        strategy = plan.strategy
        data = with_class_weight(self._data_for(machine, strategy), machine.class_weight)
        merges = not self.linear and may_merge(machine) and not strategy.is_linear
        sample = Sample.of(data, self.folds[fold], rung.n_rows, merges)
        found = list[float]()
        trainer = self._trainer(machine, sample, plan)
        for index in group:
            if not self.limits.reached:
                values = trainer.values(self._machines[index].fit_plan().loss, self.limits)
            is_unfinished = self.limits.reached
            found.append(np.nan if is_unfinished else sample.score(values, self.scorer, self.data.weights))
        return found, trainer.evaluations

    def _data_for(self, machine: Any, strategy: Any) -> TrainingData:
        """Return the data, with sparse copies of one-hot rows if the kernel allows it."""
        if self.linear or isinstance(strategy, Landmark):
            return self.data
        kernel = str([getattr(machine, name) for name in KERNEL])
        with self._lock:
            if kernel not in self._data_by_kernel:
                self._data_by_kernel[kernel] = thinned_for(machine, self.data, lambda data: self._thinned)
        return self._data_by_kernel[kernel]

    @cached_property
    def _thinned(self) -> TrainingData:
        return thinned(self.data)

    def _trainer(self, machine: Any, sample: Sample, plan: FitPlan) -> Trainer:
        intercept = plan.fit_intercept
        if isinstance(plan.strategy, LinearCoordinateDescent):
            return LinearTrainer(sample, intercept)
        if self.linear:
            explicit = forms_hessian(len(self.data.y), self.data.X.shape[1], self.data.X.size)
            return SpaceTrainer(sample, sample.rows, sample.queries, None, explicit, intercept)
        machine.gamma = gamma_value(machine.gamma, self.data.X, sample.data.weights, self.data.columns)
        transform = row_transform_of(machine, sample.rows, sample.training.weights)
        if plan.one_vs_one:
            return PairTrainer(sample, transform, intercept, machine.pair_scores)
        if isinstance(plan.strategy, Landmark):
            n_landmarks = machine.n_landmarks or Landmark.max_landmarks
            if sample.rows.shape[0] > 2 * n_landmarks:
                return SpaceTrainer.of_landmarks(sample, transform, n_landmarks, intercept)
        return ExactTrainer(sample, transform, intercept)


def choice(rounds: list[Round]) -> tuple[int | None, int | None]:
    """Return the best candidate of the last complete round, and its index in `results`.

    If no round is complete, it is the best of the candidates scored in the first round. Both are
    None if no candidate was scored.
    """
    number = max((k for k, found in enumerate(rounds) if found.complete), default=0)
    last = rounds[number]
    if not np.isfinite(last.means).any():
        return None, None
    best = int(last.ranked[0])
    n_earlier = sum(len(found.candidates) for found in rounds[:number])
    return best, n_earlier + int(np.searchsorted(last.candidates, best))


def results(rounds: list[Round], candidates: list[dict[str, Any]]) -> dict[str, Any]:
    """Return ``cv_results_`` as in GridSearchCV, with one entry per candidate and round."""
    tried = [(found, index) for found in rounds for index in range(len(found.candidates))]
    params = [candidates[found.candidates[index]] for found, index in tried]
    n_folds = max(found.rung.n_folds for found in rounds)
    splits = np.full((len(tried), n_folds), np.nan)
    for row, (found, index) in zip(splits, tried, strict=True):
        row[: found.rung.n_folds] = found.scores[index]
    means = np.concatenate([np.where(np.isfinite(found.means), found.means, np.nan) for found in rounds])
    deviations = [np.nanstd(row) if np.isfinite(row).any() else np.nan for row in splits]
    ranks = [rankdata(-found.means, method="min").astype(np.int32) for found in rounds]
    results: dict[str, Any] = {"params": params}
    for name in dict.fromkeys(name for given in params for name in given):
        results[f"param_{name}"] = np.ma.masked_array(
            [given.get(name) for given in params], [name not in given for given in params], dtype=object
        )
    for name, attribute in (("round", "number"), ("n_rows", "n_rows")):
        results[name] = np.array([getattr(found.rung, attribute) for found, _ in tried])
    results |= {f"split{k}_test_score": splits[:, k] for k in range(splits.shape[1])}
    results |= {"mean_test_score": means, "std_test_score": np.array(deviations)}
    return results | {"rank_test_score": np.concatenate(ranks)}


def counted_entries(search: Any) -> list[int]:
    """Return the indices of the entries of ``cv_results_`` that have a score and that the choice took into account.

    The choice is by the last complete round, so a later round that was cut short does not count.
    """
    found = search.cv_results_
    last = -1 if search.best_index_ is None else found["round"][search.best_index_]
    is_counted = np.isfinite(found["mean_test_score"]) & (found["round"] <= last)
    return [int(index) for index in np.flatnonzero(is_counted)]
