"""The linear Optimal margin Distribution Machine as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.docstrings import documented
from dimargin.estimators.fit_plan import DataSize, FitPlan
from dimargin.estimators.input_checks import seed_of
from dimargin.estimators.linear_margin_classifier import LinearMarginClassifier
from dimargin.estimators.margin_classifier import PreparedFit, history_attribute, unchanged_on_failure
from dimargin.estimators.odm import odm_loss
from dimargin.estimators.training_data import TrainingData, on_stored_columns, training_data
from dimargin.estimators.wide_attributes import kept_of, on, set_attributes
from dimargin.kernels.column_statistics import SparseColumns
from dimargin.problems.losses import ODMLoss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.shards.keys import order_of_keys
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import Limits, PrimalSolution
from dimargin.strategies import LINEAR_SOLVERS, LinearNewton, LinearSolver, LinearSVRG, LinearTraining, Progress
from dimargin.strategies.linear_newton import LinearFacts, linear_shards
from dimargin.system.arrays import Floats, Indices
from dimargin.system.memory import check_memory
from dimargin.system.threads import effective_n_threads, single_threaded_blas


def _has_partial_fit(estimator: Any) -> bool:
    if estimator.solver in ("auto", "svrg") or type(estimator.solver) is LinearSVRG:
        return True
    raise AttributeError(f"partial_fit needs solver='svrg' or 'auto', got {estimator.solver!r}")


@documented
@dataclass(eq=False, repr=False)
class LinearODMClassifier(LinearMarginClassifier):
    r"""Linear Optimal margin Distribution Machine for dense or sparse rows.

    Minimises

    .. math::

        \tfrac12 |w|^2 + \frac{\lambda}{2 W (1 - \theta)^2} \sum_i s_i
        \bigl[ (1 - \theta - m_i)_+^2 + \upsilon (m_i - 1 - \theta)_+^2 \bigr]

    over margins :math:`m_i = y_i (w \cdot x_i + b)`, where :math:`\lambda` is `lam`, :math:`s_i` the
    weight of row i, and :math:`W` the sum of the weights (DiODM paper, section 2). The certificate
    is that half the squared gradient is the duality gap. The intercept :math:`b` is not
    regularised. Besides the data, the fit needs about ten numbers per row and output.

    For K classes, there is ``n_outputs = 1`` binary problem if K = 2, else there are K, one against
    the rest.

    Parameters
    ----------
    lam : float, default=1e4
        Weight of the loss; larger is less regularised. This is lambda in the ``lambda/2M``
        convention of the paper, twice that of libodm. With the defaults of `lam`, `upsilon` and
        `theta`, the accuracy equals that of LinearSVC with its defaults (docs/defaults.md).
    upsilon : float, default=0.5
        Weight of margins beyond ``1 + theta``, in (0, 1].
    theta : float, default=0.8
        Half width of the band of margins around one without loss, in [0, 1).
    solver : {"auto", "newton", "svrg", "csvrg", "dsvrg"} or solver object, default="auto"
        Algorithm. "newton" takes a few passes over the rows for any parameters. "svrg" (stochastic
        variance reduced gradient) takes a few more for small `lam`. "dsvrg" is svrg on stratified
        partitions without moving rows (acc-DiODM). "csvrg" is svrg with a core-set, a baseline.
        "auto" is "newton". In Python, an object has further options, as in
        ``LinearSVRG(step_size="barzilai_borwein")``.
    fit_intercept : bool, default=True
        Whether the decision function has an intercept.
    tol : float, default=1e-3
        Relative duality gap to reach.
    max_iter : int, default=1000
        Maximum number of Newton steps, or of stages of "svrg", "csvrg" and "dsvrg".
    %(max_time, class_weight)s
    warm_start : bool, default=False
        Start from the previous coefficients; classes and features must be those of that fit.
    %(n_jobs, random_state)s
    verbose : int, default=0
        1 logs one line at the end of a solve, 2 also one line per step, as `SVMClassifier` does.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    coef_ : ndarray of shape (n_outputs, n_features_in_)
        If the training rows were sparse with more columns than stored values, the model keeps
        coefficients only for columns that occur, and this array is created on access and read-only.
    intercept_ : ndarray of shape (n_outputs,)
    objective_, dual_objective_ : float, or ndarray of shape (n_classes,) for more than two classes
        Primal (positive) and dual objective.
    duality_gap_ : float
        ``(objective_ - dual_objective_) / objective_`` of the worst output, including rounding.
    certificate_ : {"global", "partitioned"}
        Problem of the gap: the whole one or, after `partial_fit`, that of the last rows.
    %(status_)s
    n_iter_ : int
        Number of steps and evaluations of starting points.
    history_ : list of dict
        One entry per step with ``level`` (1 for an initial solve on some of the rows),
        ``partitions``, ``rows``, ``scope``, ``seconds``, ``epochs`` (passes over all rows so far),
        ``objective``, ``gradient_norm``, ``relative_gap`` and ``kernel_evaluations`` (0).

    See Also
    --------
    ODMClassifier : Machine with any kernel, also ``kernel="linear"``, and without intercept.

    Notes
    -----
    With an intercept, the machine is invariant to shifts of the features, but not to their scale.

    References
    ----------
    T. Zhang, Z.-H. Zhou, "Optimal margin distribution machine", IEEE TKDE 32, 2019; "Distributed
    optimal margin distribution machine" (the DiODM paper), under review at ICLR 2022.

    Examples
    --------
    >>> from dimargin import LinearODMClassifier
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(20_000, 10, random_state=0)
    >>> machine = LinearODMClassifier(random_state=0).fit(X[:15_000], y[:15_000])
    >>> round(machine.score(X[15_000:], y[15_000:]), 2), machine.duality_gap_ <= 1e-3, machine.certificate_
    (0.84, True, 'global')
    """

    lam: float = 1e4
    upsilon: float = 0.5
    theta: float = 0.8
    solver: str | LinearSolver = "auto"
    fit_intercept: bool = True
    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    class_weight: dict[Any, float] | str | None = None
    warm_start: bool = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    # State of partial_fit: the last iterate, and the total weight of the rows seen.
    _partial: tuple[Floats, float] = field(init=False)

    # ---- training ------------------------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        data, columns = on_stored_columns(training_data(self, X, y, sample_weight, linear=True))
        counts = tuple(np.bincount(data.y, minlength=len(data.classes)).tolist())
        plan = self._plan(DataSize(len(data.y), data.X.shape[1], int(data.X.size), counts))
        check_memory(plan.memory, None)
        solver, start, seed = plan.strategy, self._start(data, columns), seed_of(self.random_state)

        def train(limits: Limits, progress: Progress) -> tuple[dict[str, Any], str]:
            training = self._training(data, start, limits, seed, solver.deals_rows)
            solution = solver.train(replace(training, progress=progress))
            return self.fitted_attributes(solution, data.classes, float(data.weights.sum()), columns), solution.reason

        return PreparedFit(plan.n_levels, partial(self._model_attributes, data.classes, columns=columns), train)

    def _plan(self, size: DataSize) -> FitPlan:
        solver = self._check_solver()
        name = next((name for name, known in LINEAR_SOLVERS.items() if known is type(solver)), type(solver).__name__)
        memory = 8 * 15 * size.n_outputs * size.n_features  # A solver holds 15 numbers per column and output.
        n_levels = solver.n_levels(size.n_rows) + 1
        return FitPlan(name, solver, self._loss(), bool(self.fit_intercept), memory, memory, n_levels)

    @available_if(_has_partial_fit)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continue training, also after `fit`, with one stage of "svrg" on further rows.

        The model is a weighted mean of the iterates of all calls; the weight of an iterate is
        proportional to the number of rows seen until then. A single pass over a stream of samples
        comes near the optimum of all of them, and repeated calls with the same rows approach theirs
        (similar to streaming SVRG: Frostig et al., COLT 2015).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels; required in the first call.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
            Objectives and gap, with scope "partitioned", belong to the rows of this call; `certify`
            computes them for other rows.

        Raises
        ------
        ValueError, TypeError
            As in `fit`; if `classes` is missing in the first call or has changed; for
            ``class_weight="balanced"``, which needs all rows.
        AttributeError
            If the solver is not "svrg" or "auto".
        """
        with unchanged_on_failure(self), single_threaded_blas():
            self._check_parameters()
            solver = self.solver if isinstance(self.solver, LinearSVRG) else LinearSVRG()
            if self.class_weight == "balanced":
                raise ValueError("class_weight='balanced' needs all rows; use partial_fit with a dict of class weights")
            first = not hasattr(self, "classes_")
            data = training_data(self, X, y, sample_weight, classes=self._known_classes(classes, first), linear=True)
            data, columns = on_stored_columns(data, None if first else self._kept_columns)
            nothing = np.zeros((len(data.labels), data.X.shape[1] + 1)), 0.0
            iterate, seen = nothing if first else (self._on(self._partial[0], columns), self._partial[1])
            calls = 0 if first else self.n_iter_
            seed = seed_of(self.random_state) + calls
            stage = self._training(data, iterate, Limits(tol=0.0, max_iter=1), seed)
            solution = solver.train(stage)
            iterate = np.column_stack([solution.weights, solution.objectives.intercept])
            weight = float(data.weights.sum())
            mean = iterate if first else self._parameters_on(columns)
            mean = mean + 2 * weight / (seen + 2 * weight) * (iterate - mean)
            looked = solver.train(self._training(data, mean, Limits(tol=self.tol, max_iter=0)))
            entry = {**looked.history[-1], "scope": "partitioned"}
            attributes = {
                **self._model_attributes(data.classes, mean, columns),
                **self._certificate_attributes(
                    looked.objectives, "partitioned", "converged" if looked.status == "converged" else "stopped"
                ),
                "n_iter_": calls + 1,
                "history_": ([] if first else self.history_) + history_attribute([entry]),
                "_partial": (self._kept(iterate, columns), seen + weight),
            }
            set_attributes(self, attributes)
        return self

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

    def _known_classes(self, classes: Any, first: bool) -> NDArray[Any]:
        if classes is not None:
            classes = np.unique(classes)
        if first:
            if classes is None:
                raise ValueError("classes must be given in the first call of partial_fit")
            return np.asarray(classes)
        if classes is not None and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}, got {classes.tolist()}"
            )
        return np.asarray(self.classes_)

    def certify(self, X: Any, y: Any, sample_weight: Any = None, max_time: float | None = None) -> Self:
        """Compute the certificate of the fitted model on given rows, for example of `partial_fit`.

        The method sets ``objective_``, ``dual_objective_``, ``duality_gap_``, ``certificate_`` and
        ``status_``. It takes two passes over the rows.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        max_time : float, optional
            Ignored; it exists for compatibility with the kernel machines.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        data = training_data(self, X, y, sample_weight, classes=self.classes_, linear=True)
        columns = None
        if self._kept_columns is not None:
            data, columns = on_stored_columns(data, self._kept_columns)
        parameters = self._parameters_on(columns)
        with single_threaded_blas():
            training = self._training(data, parameters, Limits(tol=self.tol, max_iter=0))
            objectives = LinearNewton("conjugate_gradients").train(training).objectives
        self._set_global_certificate(objectives)
        return self

    def _check_parameters(self) -> None:
        """Raise an error if a parameter is out of range."""
        self._loss()
        self._check_solver()
        self._check_limits()

    def _loss(self) -> ODMLoss:
        return odm_loss(self)

    def _check_solver(self) -> LinearSolver:
        if isinstance(self.solver, LinearSolver):
            self.solver.validate()
            return self.solver
        if not isinstance(self.solver, str) or self.solver not in ("auto", *LINEAR_SOLVERS):
            raise ValueError(
                f"solver must be 'auto', {', '.join(map(repr, LINEAR_SOLVERS))} or a solver object, got {self.solver!r}"
            )
        return LINEAR_SOLVERS["newton" if self.solver == "auto" else self.solver]()

    def _training(
        self, data: TrainingData, start: Floats, limits: Limits, seed: int = 0, deals_rows: bool = False
    ) -> LinearTraining:
        """Return the training problem of a solver."""
        total = float(data.weights.sum())
        losses = MarginLosses(data.labels, data.weights, self._loss(), total, total, bool(self.fit_intercept))
        sizes = {"n_rows": losses.n_rows, "n_features": data.X.shape[1], "n_outputs": len(data.labels)}
        facts = LinearFacts(**sizes, n_values=data.X.size, mass=total, intercept=losses.intercept)
        order = order_of_keys(data.X, data.y, data.row_weights, seed) if deals_rows else None
        engine = LocalEngine(effective_n_threads(self.n_jobs), limits.cancelled)
        return LinearTraining(facts, engine.scatter(linear_shards(data.X, losses, order)), limits, seed, start)

    def _start(self, data: TrainingData, columns: Indices | None) -> Floats:
        if not self.warm_start or not hasattr(self, "classes_"):
            return np.zeros((len(data.labels), data.X.shape[1] + 1))
        before, width = kept_of(self, "coef_").shape[1], self.n_features_in_
        if not np.array_equal(self.classes_, data.classes) or before != width:
            raise ValueError(
                f"warm_start=True needs the classes and features of the previous fit ({before} features, "
                f"classes {self.classes_!r}), got {width} features, classes {data.classes!r}"
            )
        start = self._parameters_on(columns)
        start[:, -1] *= bool(self.fit_intercept)
        return start

    def fitted_attributes(
        self, solution: PrimalSolution, classes: NDArray[Any], total: float, columns: Indices | None = None
    ) -> dict[str, Any]:
        """Return the fitted attributes for these columns (None: all) and rows of weight `total`."""
        parameters = np.column_stack([solution.weights, solution.objectives.intercept])
        model = self._model_attributes(classes, parameters, columns) | self._result_attributes(solution, "global")
        return model | {"_partial": (self._kept(parameters, columns), total)}

    def _model_attributes(
        self, classes: NDArray[Any], parameters: Floats, columns: Indices | None = None
    ) -> dict[str, Any]:
        """Return the attributes for prediction from parameters for these columns (None: all)."""
        weights = self._of_columns(parameters[:, :-1].copy(), columns)
        return {"classes_": classes, "coef_": weights, "intercept_": parameters[:, -1].copy()}
