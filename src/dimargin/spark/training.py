"""Training on a DataFrame: the counterpart of the estimators' `fit` for rows on executors."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from dimargin.estimators.detectors import CoreSetDetector
from dimargin.estimators.fit_plan import FitPlan
from dimargin.estimators.input_checks import seed_of
from dimargin.estimators.linear_loss_machine import LinearLossMachine
from dimargin.estimators.margin_machine import warn_unless_converged
from dimargin.estimators.margin_regressor import MarginRegressor, RegressionData
from dimargin.estimators.training_data import Origin, class_factors, gamma_of
from dimargin.estimators.wide_attributes import set_attributes
from dimargin.kernels.column_statistics import with_constant
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform, StoredRows
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import Loss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.one_vs_rest import labels_of
from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards
from dimargin.solvers import CACHE, Limits, LinearFeatures, Shard
from dimargin.solvers.primal import PrimalSolution
from dimargin.spark.checkpoints import Checkpoints
from dimargin.spark.columns import Columns
from dimargin.spark.engine.spark import SparkEngine
from dimargin.spark.source import KeyedRows, Measures, Source, Survey, extent_of, furthest_column
from dimargin.strategies import (
    Exact,
    Facts,
    LinearCoCoA,
    LinearSolver,
    LinearTraining,
    Progress,
    Resumption,
    Training,
    TreeShape,
)
from dimargin.strategies.linear_newton import LinearFacts
from dimargin.system.arrays import Floats, Indices
from dimargin.system.threads import single_threaded_blas

MAX_VALUES_OF_TASK = 2**24
"""Linear machines on at most this many stored values are trained in one task of one core.

A pass over them takes about as long as a job. They take 12 bytes a value in each of three forms,
600 MB.
"""


class JobProgress(Progress):
    """Progress that describes the jobs of a level in the Spark UI, and saves a checkpoint when one is due.

    It notifies `report` of begins and ends of levels, and of gaps that the driver evaluates.
    """

    def __init__(self, engine: SparkEngine, report: Progress, checkpoints: Checkpoints | None) -> None:
        self._engine, self._report, self._level, self._checkpoints = engine, report, ExitStack(), checkpoints
        self._level.enter_context(engine.describe("before the first level"))

    def level_begin(self, level: int, n_tasks: int | None) -> None:
        """See `Progress`."""
        self._level.close()
        parts = "" if n_tasks is None else f", {n_tasks} partitions"
        self._level.enter_context(self._engine.describe(f"level {level}{parts}"))
        self._report.level_begin(level, n_tasks)

    def check(self, entry: dict[str, Any]) -> bool:
        """See `Progress`."""
        if self._checkpoints is not None:
            self._checkpoints.save_now_and_then()
        return self._report.check(entry)

    def level_end(self, entry: dict[str, Any], found: Callable[[], Any]) -> bool:
        """See `Progress`."""
        return self._report.level_end(entry, found)


def train(
    prototype: BaseEstimator,
    dataset: DataFrame,
    columns: Columns,
    report: Progress | None = None,
    checkpoint_dir: str | None = None,
) -> Any:
    """Train a machine on the rows of a DataFrame; the driver holds samples, sums and the model.

    The result is a fitted clone of the prototype, whose ``support_`` are indices of rows in the
    order of their keys. The caller has checked the columns against the dataset's schema. `report`
    is notified of begins and ends of levels, and of the gaps that the driver evaluates. In the
    folder `checkpoint_dir`, which the session reads and writes, progress is saved after every
    level, and the same fit resumes from the last checkpoint; see `dimargin.spark.checkpoints`. A detector is
    fitted on the driver, without reports and checkpoints.

    Raises
    ------
    ValueError
        For parameters or rows out of range, with a message that names the column; for checkpoints
        that are damaged or belong to another fit.
    MemoryError
        Before the work begins, if a part would not fit in the memory of an executor.

    Warns
    -----
    ConvergenceWarning
        If the tolerance was not reached.
    """
    began, machine = time.perf_counter(), clone(prototype)
    if isinstance(machine, CoreSetDetector):
        return _fitted_detector(machine, dataset, columns, checkpoint_dir)
    machine.fit_plan()
    if getattr(machine, "multi_class", None) == "one_vs_one":
        raise ValueError("multi_class='one_vs_one' is not supported on Spark, only 'one_vs_rest'")
    with SparkEngine(dataset.sparkSession) as engine, single_threaded_blas():
        checkpoints = None if checkpoint_dir is None else Checkpoints(engine, checkpoint_dir)
        seed = seed_of(machine.random_state) if checkpoints is None else checkpoints.seed_for(machine)
        source = Source(engine, columns.select(dataset), columns)
        survey, limits = source.survey(by_label=isinstance(machine, ClassifierMixin)), Limits(
            tol=machine.tol, max_iter=machine.max_iter,
            deadline=None if machine.max_time is None else began + machine.max_time,
        )  # fmt: skip
        data, progress = None, JobProgress(engine, report or Progress(), checkpoints)
        if isinstance(machine, MarginRegressor):
            y, weights = source.targets()
            data = machine.in_units(np.empty((len(y), 0)), y, weights, np.arange(len(y)), len(y))
            bits = int(data.y.view(np.uint64).sum(dtype=np.uint64))
            survey = replace(survey, targets=(data.centre, data.unit), bits=bits)
        how = _LinearRun if isinstance(machine, LinearLossMachine) else _KernelRun
        run = how(machine, survey, seed, limits, machine.followed(progress, data), checkpoints, data)
        attributes, reason = run.trained(source)
        if checkpoints is not None:
            checkpoints.finish()
    set_attributes(machine, attributes | {"n_features_in_": survey.n_features})
    warn_unless_converged(machine, reason, stacklevel=5)
    return machine


def _fitted_detector(
    machine: CoreSetDetector, dataset: DataFrame, columns: Columns, checkpoint_dir: str | None
) -> CoreSetDetector:
    """Fit a detector on the driver; raises ValueError before any work for more values than `MAX_VALUES_OF_TASK`."""
    if checkpoint_dir is not None:
        raise ValueError(f"checkpointDir must not be set: {type(machine).__name__} has no levels to save")
    seed = seed_of(machine.random_state)
    with SparkEngine(dataset.sparkSession) as engine:
        source = Source(engine, columns.select(dataset), columns)
        survey = source.survey(by_label=False)
        if survey.n_values > MAX_VALUES_OF_TASK:
            raise ValueError(
                f"{type(machine).__name__} trains on the driver, on at most {MAX_VALUES_OF_TASK} values, and the "
                f"{survey.n_rows} rows have {survey.n_values}: fit it to a sample of them"
            )
        (rows,) = source.scattered(survey, seed, None, 1)[0].collect()
    return machine.fit(rows.X, sample_weight=rows.weights)


@dataclass(frozen=True)
class _Run(ABC):
    """Base class of the training runs of linear and kernel machines."""

    machine: Any
    survey: Survey
    random_state: int
    limits: Limits
    progress: Progress
    checkpoints: Checkpoints | None
    data: RegressionData | None  # Targets of a regressor in units of their own, without features.

    @abstractmethod
    def trained(self, source: Source) -> tuple[dict[str, Any], str]:
        """Train on a source; return the attributes of the fitted machine, and the reason why training ended."""

    @property
    def n_outputs(self) -> int:
        return 1 if len(self.survey.counts) == 2 else len(self.survey.counts)

    @cached_property
    def plan(self) -> FitPlan:
        """Plan of the fit, one class against the rest."""
        machine, survey = clone(self.machine), self.survey
        if "multi_class" in machine.get_params(deep=False):
            machine.set_params(multi_class="one_vs_rest")
        size = survey.n_rows, survey.n_features, survey.n_values, list(survey.counts.values())
        plan: FitPlan = machine.fit_plan(*size)
        if isinstance(plan.strategy, Exact) and plan.strategy.by_rows and machine.strategy == "auto":
            # Coordinate descent needs all rows in one place, even more of them than a solve by blocks.
            plan = machine.set_params(strategy="exact" if survey.n_rows <= 100_000 else "dc").fit_plan(*size)
        return plan

    def losses(self, measures: Measures) -> _Losses:
        """Return the settings of the losses of rows."""
        if self.data is not None:
            loss, total = self.machine.loss_for(self.data.unit), float(measures.weights.sum())
            return _Losses(loss, total, self.plan.fit_intercept, None, 1)
        factors = class_factors(self.machine.class_weight, self.survey.classes, measures.weights, "classWeight")
        total = float(measures.weights @ factors)
        return _Losses(self.plan.loss, total, self.plan.fit_intercept, factors, self.n_outputs)

    def scattered(
        self, source: Source, kernel: Kernel | None, n_shards: int | None = None
    ) -> tuple[Shards[KeyedRows], Measures]:
        """Scatter the rows, begin the checkpoints, and return the shards and the sums over them."""
        with source.engine.describe("deal rows to shards"):
            rows, measures = source.scattered(self.survey, self.random_state, kernel, n_shards)
        if self.checkpoints is not None:
            self.checkpoints.begin(self.machine, self.random_state, measures.n_rows, measures.fingerprint)
        return rows, measures


class _LinearRun(_Run):
    def trained(self, source: Source) -> tuple[dict[str, Any], str]:
        """See `_Run`."""
        training = self.training(source)  # This holds the only handle on the rows.
        solution = self.train_in_one_task(training) if self.is_of_one_task else self.strategy.train(training)
        solution = self.machine.in_given_units(solution, self.data)
        attributes = self.machine.fitted_attributes(solution, self.survey.classes, training.facts.mass)
        return attributes, solution.reason

    @property
    def is_of_one_task(self) -> bool:
        """Return whether one task trains on all rows, because jobs would take longer than their passes."""
        return self.survey.n_values <= MAX_VALUES_OF_TASK

    @property
    def strategy(self) -> LinearSolver:
        """The solver; "auto" is CoCoA+ if it would be one of one machine that needs too large a task."""
        chosen: LinearSolver = self.plan.strategy
        is_too_large = self.machine.solver == "auto" and not (self.is_of_one_task or chosen.is_distributed)
        return LinearCoCoA() if is_too_large else chosen

    def train_in_one_task(self, training: LinearTraining) -> PrimalSolution:
        """Train on the only shard, in one job; progress is reported at its end."""
        self.progress.level_begin(0, 1)
        value = self.strategy, self.limits, self.random_state, training.rows.n_threads
        solution: PrimalSolution = training.rows.collect(_trained, value)[0]
        self.progress.level_end(solution.history[-1], lambda: solution.parameters)
        return solution

    def training(self, source: Source) -> LinearTraining:
        """Return the training problem, with rows as shards of the primal problem."""
        if not (self.is_of_one_task or self.strategy.is_distributed):
            raise ValueError(
                f"solver={self.plan.name!r} trains in one task, on at most {MAX_VALUES_OF_TASK} values, and the rows "
                f"have {self.survey.n_values}: choose another, such as 'newton'"
            )
        rows, measures = self.scattered(source, None, 1 if self.is_of_one_task else None)
        losses, constant = self.losses(measures), self.machine.constant_feature
        has_constant, n_rows = constant is not None, measures.n_rows
        facts = LinearFacts(
            n_rows=n_rows, n_features=measures.sums.shape[1] + has_constant,
            n_values=self.survey.n_values + n_rows * has_constant,
            n_outputs=self.n_outputs, mass=losses.total, intercept=losses.intercept,
        )  # fmt: skip
        start = np.zeros((self.n_outputs, facts.n_features + 1))
        shards = rows.map(_linear_shard, (losses, constant, measures.sizes), cheap=True)
        return LinearTraining(facts, shards, self.limits, self.random_state, start, self.progress)


class _KernelRun(_Run):
    def trained(self, source: Source) -> tuple[dict[str, Any], str]:
        """See `_Run`."""
        self.check_memory(source)
        training, transform = self.training(source)
        strategy = self.plan.strategy
        outcome = self.machine.in_given_units(strategy.train(replace(training, solver=strategy.solver)), self.data)
        origin = Origin(self.survey.classes, self.survey.n_rows, self.survey.n_given, transform)
        return self.machine.fitted_attributes(origin, outcome), outcome.reason

    def training(self, source: Source) -> tuple[Training, RowTransform]:
        """Return the training problem, with rows as parts with a kernel, and the row transform."""
        machine = self.machine
        kernel = Kernel(machine.kernel, 1.0, int(machine.degree), float(machine.coef0))
        rows, measures = self.scattered(source, kernel)
        losses = self.losses(measures)
        transform = _transform(machine.gamma, kernel, rows, measures, losses)
        return Training(
            facts=Facts(measures.n_rows, self.n_outputs, losses.total, losses.loss, losses.intercept),
            rows=rows.map(_part, (losses, transform, measures.sizes), cheap=True),
            limits=self.limits,
            shape=self.plan.shape or TreeShape(),
            random_state=self.random_state,
            progress=self.progress,
            resumption=self.checkpoints or Resumption(),
            cache=CACHE if machine.memory_limit is None else min(CACHE, machine.memory_limit),
        ), transform

    def check_memory(self, source: Source) -> None:
        """Raise MemoryError if all rows are brought together and would not fit in memory."""
        plan, survey, limit = self.plan, self.survey, self.machine.memory_limit
        if not plan.strategy.joins_all_rows(survey.n_rows, plan.shape):
            return
        # There are copies of the rows as received and as stored, in addition to the memory of the
        # solve.
        needed = 16 * survey.n_values + plan.solve_memory
        worker = source.engine.memory_of_worker
        most, whose = (worker, "an executor has") if limit is None else (limit, "memoryLimit is")
        if needed > most:
            raise MemoryError(
                f"level 0 solves all {survey.n_rows} rows in one place, which needs about {needed} bytes, and {whose} "
                f"{most}. Stop above it (stopLevel=1), or use strategy='landmark' or a linear machine, which never "
                "bring all rows together"
            )


def _transform(
    gamma: str | float, kernel: Kernel, rows: Shards[KeyedRows], measures: Measures, losses: _Losses
) -> RowTransform:
    """Return the transform that prepares rows for the kernel, from sums over the shards."""
    n_features = measures.sums.shape[1]
    factors = np.ones(1) if losses.factors is None else losses.factors
    means = None if measures.sparse else factors @ measures.sums / losses.total
    furthest = partial(furthest_column, rows, means if kernel.stationary else None)
    number = gamma_of(gamma, n_features, measures.variance(factors), furthest)
    scaled = Kernel(kernel.name, number, kernel.degree, kernel.coef0)
    bounds = measures.extents_about(means, kernel)
    agreed = RowTransform.for_bounds(scaled, means, *bounds)
    return agreed or RowTransform.for_extent(scaled, means, extent_of(rows, means, kernel), furthest)


# ---- what shards do ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Losses:
    """Settings of the losses of a shard's rows."""

    loss: Loss
    total: float
    intercept: bool
    factors: Floats | None  # Of the classes; None for targets.
    n_outputs: int

    def of(self, rows: KeyedRows) -> MarginLosses:
        codes = rows.codes
        if self.factors is None:
            own = np.ones((1, len(codes))), rows.weights, self.loss, self.total, self.total, self.intercept
            return MarginLosses(*own, targets=codes.view(np.float64))
        labels = labels_of(codes, max(self.n_outputs, 2))
        weights = rows.weights * self.factors[codes]
        return MarginLosses(labels, weights, self.loss, self.total, self.total, self.intercept)


def _linear_shard(rows: KeyedRows, value: tuple[_Losses, float | None, Indices]) -> Shard:
    losses, constant, sizes = value
    features = LinearFeatures(StoredRows(with_constant(rows.X, constant)))
    return Shard(features, losses.of(rows), rows.first_index(sizes))


def _trained(shard: Shard, value: tuple[LinearSolver, Limits, int, int]) -> PrimalSolution:
    """Task that trains on the rows of the only shard, as on one computer."""
    solver, limits, seed, n_threads = value
    X = shard.features.matrix
    training = LinearTraining.of(X, shard.losses, limits, n_threads=n_threads, seed=seed)
    return replace(solver.train(training), dual=None)


def _part(rows: KeyedRows, value: tuple[_Losses, RowTransform, Indices]) -> Part:
    losses, transform, sizes = value
    own, kernel = losses.of(rows), KernelMatrix(transform, rows.X)
    return Part(DualProblem.of(own, kernel), rows.first_index(sizes) + np.arange(own.n_rows))
