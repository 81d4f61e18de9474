"""Base classes of the linear machines that minimise a loss over all rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.fit_plan import DataSize, FitPlan
from dimargin.estimators.input_checks import check_magnitude, seed_of
from dimargin.estimators.linear_machine import LinearMachine, LinearMarginClassifier
from dimargin.estimators.margin_machine import PreparedFit, said_classes
from dimargin.estimators.training_data import TrainingData, on_stored_columns, training_data
from dimargin.estimators.wide_attributes import kept_of, on
from dimargin.kernels.column_statistics import SparseColumns, with_constant
from dimargin.shards.keys import order_of_keys
from dimargin.solvers import Limits, PrimalSolution
from dimargin.solvers.newton import forms_hessian
from dimargin.strategies import LINEAR_SOLVERS, LinearSolver, LinearTraining, Progress
from dimargin.strategies.linear_coordinate_descent import certificate
from dimargin.system.arrays import Floats, Indices
from dimargin.system.memory import check_memory
from dimargin.system.threads import effective_n_threads, single_threaded_blas


class LinearLossMachine(LinearMachine):
    """Base class of the linear machines that minimise a loss over all rows.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether the decision function has an intercept.
    intercept_scaling : float or None, default=None
        None does not regularise the intercept, so that features may have any mean. A number
        regularises it as LinearSVC and LIBLINEAR do: this number is appended to every row as a
        feature, and `intercept_` is the number times the coefficient of that feature. With a larger
        number the intercept is less regularised. It needs a copy of the rows.
    tol : float, default=1e-3
        Relative duality gap to reach.
    warm_start : bool, default=False
        Start from the previous coefficients; classes and features must be those of that fit.

    Attributes
    ----------
    coef_ : ndarray of shape (n_outputs, n_features_in_)
        If the training rows were sparse with more columns than stored values, the model keeps
        coefficients only for columns that occur, and this array is created on access and read-only.
    intercept_ : ndarray of shape (n_outputs,)
    objective_, dual_objective_ : float, or ndarray of shape (n_classes,) for more than two classes
        Primal (positive) and dual objective.
    duality_gap_ : float
        ``(objective_ - dual_objective_) / objective_`` of the worst output, including rounding.
    """

    solver: str | LinearSolver
    fit_intercept: bool
    intercept_scaling: float | None
    solvers: ClassVar[tuple[str, ...]]  # Names of the solvers that can minimise the loss.

    # ---- training ------------------------------------------------------------------------------------------------

    def _auto_solver(self, size: DataSize) -> str:
        """Return the name of the solver for data of this size."""
        is_cheap = forms_hessian(size.n_rows, size.n_features, size.n_values)
        return "newton" if self._loss().smooth and is_cheap else "cd"

    def _check_parameters(self) -> None:
        """Raise an error if a parameter is out of range."""
        self._loss()
        self._check_solver()
        self._check_limits()
        if self.intercept_scaling is None:
            return
        check_magnitude("intercept_scaling", self.intercept_scaling)
        if not self.fit_intercept:
            raise ValueError(
                f"intercept_scaling={self.intercept_scaling!r} regularises the intercept, which fit_intercept=False "
                "omits; leave it at None, or set fit_intercept=True"
            )

    @property
    def _has_intercept(self) -> bool:
        return bool(self.fit_intercept) and self.constant_feature is None

    @property
    def constant_feature(self) -> float | None:
        """Value of the feature whose coefficient is a regularised intercept; None without such a feature."""
        return None if self.intercept_scaling is None else float(self.intercept_scaling)

    def _check_solver(self) -> None:
        if isinstance(self.solver, LinearSolver):
            self.solver.validate()
        elif not isinstance(self.solver, str) or self.solver not in ("auto", *self.solvers):
            raise ValueError(
                f"solver must be 'auto', {', '.join(map(repr, self.solvers))} or a solver object, got {self.solver!r}"
            )
        loss, chosen = self._loss(), self.solver
        if chosen != "auto" and not loss.smooth and self._made(str(chosen)).needs_smooth_loss:
            raise ValueError(f"solver={chosen!r} needs a loss with a derivative, not {loss}; use 'cd'")

    def _made(self, name: str) -> LinearSolver:
        """Return the solver object, which the parameter is, or which has this name."""
        return self.solver if isinstance(self.solver, LinearSolver) else LINEAR_SOLVERS[name]()

    def _plan(self, size: DataSize) -> FitPlan:
        given = str(self.solver) if self.solver != "auto" else self._auto_solver(size)
        solver = self._made(given)
        name = next((name for name, known in LINEAR_SOLVERS.items() if known is type(solver)), type(solver).__name__)
        memory = 8 * size.n_outputs * (15 * size.n_features + solver.numbers_per_row * size.n_rows)
        if self.constant_feature is not None:  # A value and a column index take at most 16 bytes in the copy.
            memory += 16 * (size.n_values + size.n_rows)
        n_levels = solver.n_levels(size.n_rows) + 1
        return FitPlan(name, solver, self._loss(), self._has_intercept, memory, memory, n_levels)

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        data, columns = on_stored_columns(self._training_data(X, y, sample_weight))
        plan = self._plan(data.size)
        check_memory(plan.memory, None)
        return self._prepare_data(data, plan, columns)

    def _prepare_data(self, data: TrainingData, plan: FitPlan, columns: Indices | None) -> PreparedFit:
        """Return the fit of data on these columns (None: all)."""
        solver, start, seed = plan.strategy, self._start(data, columns), seed_of(self.random_state)

        def train(limits: Limits, progress: Progress) -> tuple[dict[str, Any], str]:
            training = self._training(data, start, limits, seed, solver.deals_rows)
            progress = self.followed(progress, data)
            solution = solver.train(replace(training, progress=progress, dual=self._known_dual(data)))
            solution = self.in_given_units(solution, data)
            return self.fitted_attributes(solution, data.classes, float(data.weights.sum()), columns), solution.reason

        def model_attributes(found: Floats) -> dict[str, Any]:
            found = self.in_given_units(self._with_intercept(found), data)
            return self._model_attributes(data.classes, found, columns)

        return PreparedFit(plan.n_levels, model_attributes, train)

    def _training(
        self, data: TrainingData, start: Floats, limits: Limits, seed: int = 0, deals_rows: bool = False
    ) -> LinearTraining:
        """Return the training problem of a solver, which starts from these coefficients and intercepts."""
        losses, constant = self._losses(data), self.constant_feature
        order = order_of_keys(data.X, data.y, data.row_weights, seed) if deals_rows else None
        n_threads, X = effective_n_threads(self.n_jobs), with_constant(data.X, constant)
        if constant is not None:
            start = np.column_stack([start[:, :-1], start[:, -1] / constant, np.zeros(len(start))])
        return LinearTraining.of(X, losses, limits, n_threads=n_threads, seed=seed, start=start, order=order)

    def _with_intercept(self, found: Floats) -> Floats:
        """Return coefficients and intercepts from the parameters that a solver has found."""
        if self.constant_feature is None:
            return found
        return np.column_stack([found[:, :-2], self.constant_feature * found[:, -2]])

    def _start(self, data: TrainingData, columns: Indices | None) -> Floats:
        if not self.warm_start or not hasattr(self, "intercept_"):
            return np.zeros((len(data.labels), data.X.shape[1] + 1))
        before, width = kept_of(self, "coef_").shape[1], self.n_features_in_
        if not self._has_classes_of(data) or before != width:
            raise ValueError(
                f"warm_start=True needs the classes and features of the previous fit ({before} features"
                f"{said_classes(vars(self).get('classes_', []))}), got {width} features{said_classes(data.classes)}"
            )
        start = self._parameters_on(columns)
        start[:, -1] *= bool(self.fit_intercept)
        return data.in_own_units(start)

    def _known_dual(self, data: TrainingData) -> Floats | None:
        """Return the dual coefficients of the previous fit, if a warm start can use them."""
        known: Floats | None = vars(self).get("_dual") if self.warm_start else None
        return known / data.unit if known is not None and known.shape == data.labels.shape else None

    # ---- parameters: coefficients of the columns that occur, then the intercept ----------------------------------

    def _parameters_on(self, columns: Indices | None) -> Floats:
        """Return the parameters of the model for these columns (None: all)."""
        return np.column_stack([on(kept_of(self, "coef_"), columns), self.intercept_])

    def _on(self, parameters: Any, columns: Indices | None) -> Floats:
        """Return parameters from `_kept` for these columns (None: all)."""
        return on(parameters, None if columns is None else np.append(columns, self.n_features_in_))

    def _kept(self, parameters: Floats, columns: Indices | None) -> Any:
        """Return parameters for these columns (None: all) in the form that the model keeps."""
        if columns is None:
            return parameters
        width = self.n_features_in_
        return SparseColumns(parameters, np.append(columns, width), width + 1)

    def fitted_attributes(
        self, solution: PrimalSolution, classes: NDArray[Any], total: float, columns: Indices | None = None
    ) -> dict[str, Any]:
        """Return the fitted attributes for these columns (None: all) and rows of weight `total`."""
        parameters = self._with_intercept(solution.parameters)
        # Dual coefficients take memory for every row, so that only machines for warm starts keep them.
        model: dict[str, Any] = {"_dual": solution.dual if self.warm_start else None}
        model |= self._model_attributes(classes, parameters, columns)
        return model | self._result_attributes(solution, "global")

    def _model_attributes(
        self, classes: NDArray[Any], parameters: Floats, columns: Indices | None = None
    ) -> dict[str, Any]:
        """Return the attributes for prediction from parameters for these columns (None: all)."""
        weights = self._of_columns(parameters[:, :-1].copy(), columns)
        known = {"classes_": classes} if len(classes) else {}
        return known | {"coef_": weights, "intercept_": parameters[:, -1].copy()}

    # ---- certificates --------------------------------------------------------------------------------------------

    @abstractmethod
    def _data_to_certify(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Return validated data with the classes and features of the fitted model."""

    def certify(self, X: Any, y: Any, sample_weight: Any = None, max_time: float | None = None) -> Self:
        """Compute the certificate of the fitted model on given rows, for example of other ones than those of `fit`.

        The method sets ``objective_``, ``dual_objective_``, ``duality_gap_``, ``certificate_`` and
        ``status_``. It takes two passes over the rows. For the solver "cd" it takes as many as a fit,
        because the best dual bound does not follow from the coefficients.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        max_time : float, optional
            Seconds after which the dual bound is the best so far, for the solver "cd".

        Returns
        -------
        self
        """
        check_is_fitted(self)
        data, columns = self._data_to_certify(X, y, sample_weight), None
        if self._kept_columns is not None:
            data, columns = on_stored_columns(data, self._kept_columns)
        with single_threaded_blas():
            start = data.in_own_units(self._parameters_on(columns))
            training = self._training(data, start, Limits(tol=self.tol))
            objectives = certificate(training, self._plan(data.size).strategy, max_time)
        self._set_global_certificate(self._objectives_in_given_units(objectives, data))
        return self


class LinearLossClassifier(LinearMarginClassifier, LinearLossMachine):
    """Base class of the linear classifiers that minimise a loss of margins over all rows."""

    def _data_to_certify(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        return training_data(self, X, y, sample_weight, classes=self.classes_, linear=True)
