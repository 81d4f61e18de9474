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
from dimargin.estimators.linear_margin_classifier import LinearMarginClassifier
from dimargin.estimators.margin_classifier import PreparedFit, history_attribute, unchanged_on_failure
from dimargin.estimators.odm import odm_loss
from dimargin.estimators.validated_data import TrainingData, on_stored_columns, training_data
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

_ARRAYS = 15  # numbers for every column and output that a solver has at a time


def _learns_in_parts(estimator: Any) -> bool:
    if estimator.solver in ("auto", "svrg") or type(estimator.solver) is LinearSVRG:
        return True
    raise AttributeError(f"partial_fit needs solver='svrg' or 'auto', got {estimator.solver!r}")


@documented
@dataclass(eq=False, repr=False)
class LinearODMClassifier(LinearMarginClassifier):
    r"""Linear Optimal margin Distribution Machine, of dense or sparse rows; no kernel is ever formed.

    Minimises ``1/2 |w|^2 + lam/(2 W (1-theta)^2) sum_i s_i [ (1-theta-m_i)_+^2 + upsilon (m_i-1-theta)_+^2 ]`` over
    margins ``m_i = y_i (w.x_i + b)``, ``s_i`` the weight of row i and ``W`` their sum (DiODM paper, section 2), and
    certifies the answer: half the squared gradient is the duality gap. The intercept b is not regularised. Memory: the
    data and about ten numbers a row and output.

    For K classes there are ``n_outputs = 1`` binary problems if K = 2, else K, one against the rest.

    Parameters
    ----------
    lam : float, default=1e4
        Weight of the loss; larger is less regularised. The paper's lambda (its ``lambda/2M`` convention; twice that
        of libodm). With these three defaults it is as accurate as LinearSVC with its own (docs).
    upsilon : float, default=0.5
        Weight of margins beyond ``1 + theta``, in (0, 1].
    theta : float, default=0.8
        Half width of the band around one in which margins cost nothing, in [0, 1).
    solver : {"auto", "newton", "svrg", "csvrg", "dsvrg"} or solver object, default="auto"
        "newton" takes a few passes over the rows, whatever the parameters; "svrg", stochastic variance reduced
        gradient, a few more where `lam` is small; "dsvrg" is svrg on stratified partitions, whose rows stay where they
        are (acc-DiODM); "csvrg" svrg with a core-set, a baseline. "auto" is "newton". An object carries options of its
        own, as in ``LinearSVRG(step_size="barzilai_borwein")``.
    fit_intercept : bool, default=True
        Whether the decision function has an intercept.
    tol : float, default=1e-3
        Relative duality gap to reach.
    max_iter : int, default=1000
        Newton steps, or stages of "svrg", "csvrg" and "dsvrg".
    %(max_time, class_weight)s
    warm_start : bool, default=False
        Start from the coefficients of the previous fit, which must have had the same classes and features.
    %(n_jobs, random_state)s
    verbose : int, default=0
        1 prints a line at the end of a solve, 2 one a step.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    coef_ : ndarray of shape (n_outputs, n_features_in_)
        Made when it is asked for, and read-only, where the rows were sparse and had more columns than stored values:
        such a model keeps the coefficients of the columns that occur.
    intercept_ : ndarray of shape (n_outputs,)
    objective_, dual_objective_ : float, or ndarray of shape (n_classes,) for more than two classes
        Primal objective (positive) and the dual one below it.
    duality_gap_ : float
        ``(objective_ - dual_objective_) / objective_``, of the worst output, a bound of the rounding included.
    certificate_ : {"global", "partitioned"}
        Problem that the gap belongs to: the whole one, or after `partial_fit` the last rows.
    %(status_)s
    n_iter_ : int
        Steps, and evaluations of a starting point.
    history_ : list of dict
        One entry a step with ``level`` (1 where a part of the rows was solved first), ``partitions``, ``rows``,
        ``scope``, ``seconds``, ``epochs`` (passes over all rows so far), ``objective``,
        ``gradient_norm``, ``relative_gap`` and ``kernel_evaluations``, which are none.

    See Also
    --------
    ODMClassifier : The same machine with a kernel, ``kernel="linear"`` too, and without intercept.

    Notes
    -----
    With the intercept the machine is invariant to shifts of the features, but not to their scale.

    References
    ----------
    T. Zhang, Z.-H. Zhou, "Optimal margin distribution machine", IEEE TKDE 2019; "Scalable optimal margin distribution
    machine", IJCAI 2023.

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

    _partial: tuple[Floats, float] = field(init=False)  # where partial_fit goes on, and the weight of the rows seen

    # ---- training ------------------------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        solver = self._check_solver()
        data, columns = on_stored_columns(training_data(self, X, y, sample_weight, linear=True))
        check_memory(8 * _ARRAYS * len(data.labels) * data.X.shape[1], None)
        start, seed = self._start(data, columns), self._seed()

        def train(limits: Limits, progress: Progress) -> tuple[dict[str, Any], str]:
            training = self._training(data, start, limits, seed, solver.deals_rows)
            solution = solver.train(replace(training, progress=progress))
            return self._attributes(solution, data.classes, float(data.weights.sum()), columns), solution.reason

        n_levels = solver.n_levels(len(data.y)) + 1
        return PreparedFit(n_levels, partial(self._model_attributes, data.classes, columns=columns), train)

    @available_if(_learns_in_parts)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continue training, after `fit` too, by one stage of "svrg" on more rows of the same kind.

        The model is the mean of the iterates of all calls, the later ones weighing more, in proportion to the rows
        seen until then. A single pass over a stream of samples comes near the optimum of all of them, and calls with
        the same rows approach theirs (in the spirit of streaming SVRG: Frostig et al., COLT 2015).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels there are; needed in the first call.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
            Objectives and gap, of scope "partitioned", are those of the rows just given; `certify` computes them for
            others.

        Raises
        ------
        ValueError, TypeError
            As `fit` raises them, and where `classes` is missing or another than before, or for
            ``class_weight="balanced"``, which needs all rows.
        AttributeError
            For a solver that is not "svrg" or "auto".
        """
        with unchanged_on_failure(self), single_threaded_blas():
            self._check_parameters()
            solver = self.solver if isinstance(self.solver, LinearSVRG) else LinearSVRG()
            if self.class_weight == "balanced":
                raise ValueError("class_weight='balanced' needs all rows; give partial_fit the weights of the classes")
            first = not hasattr(self, "classes_")
            data = training_data(self, X, y, sample_weight, classes=self._known_classes(classes, first), linear=True)
            data, columns = on_stored_columns(data, None if first else self._kept_columns)
            nothing = np.zeros((len(data.labels), data.X.shape[1] + 1)), 0.0
            iterate, seen = nothing if first else (self._on(self._partial[0], columns), self._partial[1])
            calls = 0 if first else self.n_iter_
            seed = self._seed() + calls
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

    # ---- parameters, coefficients and the intercept behind them, of the columns that occur --------------------------

    def _parameters_on(self, columns: Indices | None) -> Floats:
        """Return the parameters of the model for rows of these columns, or of all."""
        return np.column_stack([on(kept_of(self, "coef_"), columns), self.intercept_])

    def _on(self, parameters: Any, columns: Indices | None) -> Floats:
        """Return parameters that `_kept` returned for rows of these columns, or of all."""
        return on(parameters, None if columns is None else np.append(columns, self.n_features_in_))

    def _kept(self, parameters: Floats, columns: Indices | None) -> Any:
        """Return parameters for rows of these columns as they are kept."""
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
        """Compute the certificate of the fitted model on any rows, such as all those that `partial_fit` was given.

        The method sets ``objective_``, ``dual_objective_``, ``duality_gap_``, ``certificate_`` and ``status_``, at the
        price of two passes over the rows, which no `max_time` cuts short.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        max_time : float, optional
            Unused: the kernel machines need it.

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
        """Raise an error for any parameter out of its range."""
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
        facts = LinearFacts(
            n_rows=losses.n_rows, n_features=data.X.shape[1], n_values=data.X.size, n_outputs=len(data.labels),
            mass=total, intercept=losses.intercept,
        )  # fmt: skip
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

    def _attributes(
        self, solution: PrimalSolution, classes: NDArray[Any], total: float, columns: Indices | None = None
    ) -> dict[str, Any]:
        """Return the fitted attributes after a fit on rows of these columns, or all, whose weights sum to `total`."""
        parameters = np.column_stack([solution.weights, solution.objectives.intercept])
        return {
            **self._model_attributes(classes, parameters, columns),
            **self._certificate_attributes(solution.objectives, "global", solution.status),
            "n_iter_": solution.passes,
            "history_": history_attribute(solution.history),
            "_partial": (self._kept(parameters, columns), total),
        }

    def _model_attributes(
        self, classes: NDArray[Any], parameters: Floats, columns: Indices | None = None
    ) -> dict[str, Any]:
        """Return the fitted attributes that prediction needs, from parameters for rows of these columns or all."""
        weights = self._of_columns(parameters[:, :-1].copy(), columns)
        return {"classes_": classes, "coef_": weights, "intercept_": parameters[:, -1].copy()}
