"""Base class of the kernel margin classifiers: validation, choice of a strategy, certificate, prediction."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.callback import with_callbacks
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from dimargin.engines import LocalEngine
from dimargin.estimators.certificate import global_objectives, indices_of_vectors, landmark_objectives
from dimargin.estimators.common import HOLDS_ROWS, MarginClassifier, history_attribute, unchanged_on_failure
from dimargin.estimators.data import STORED_DTYPES, Origin, TrainingData, canonical, training_data
from dimargin.estimators.kernel_parameters import check_kernel, kernel_transform
from dimargin.estimators.progress import CallbackProgress, Monitor
from dimargin.estimators.validation import check_finite, check_number
from dimargin.kernels.user import KernelFunction, Transform, kernel_matrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import Loss
from dimargin.problems.one_vs_rest import codes_of_labels
from dimargin.sharding.keys import order_of_keys
from dimargin.sharding.parts import Part, n_shards_for
from dimargin.sharding.shards import Shards
from dimargin.solvers import CACHE, BlockCoordinateDescent, Limits
from dimargin.strategies import STRATEGIES, Facts, LevelModel, Outcome, Router, Strategy, Training, TreeShape
from dimargin.system.arrays import Floats, Indices
from dimargin.system.memory import check_memory
from dimargin.system.threads import effective_n_threads, single_threaded_blas

_AUTO_EXACT_ROWS = 100_000  # below, an exact solve takes seconds; above, a tree has an early answer at any time limit
_MOST_LEVELS = 63  # the parts of the leaves, two to this power at least, are counted
_ROWS_AT_ONCE = 65_536  # bounds the scratch memory


class KernelMarginClassifier(MarginClassifier):
    """Base class of the kernel classifiers; subclasses name their loss."""

    # parameters every subclass has
    kernel: str | KernelFunction
    gamma: str | float
    degree: int
    coef0: float
    strategy: str | Strategy
    branching: int
    n_levels: int | None
    n_landmarks: int | None
    stop_level: int
    memory_limit: int | None

    _offset = 0.0  # on every kernel value: one is an intercept that the regulariser counts
    _router: Router | None = None  # of a model whose coefficients are not those of one decision function

    @property
    def _has_intercept(self) -> bool:
        """Return whether the decision function has an unregularised intercept."""
        return False

    @abstractmethod
    def _loss(self) -> Loss:
        """Validate the parameters of the loss, and return it."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags

    # ---- training ------------------------------------------------------------------------------------------------

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
            Before the work begins, when `memory_limit` or the machine's memory cannot suffice.

        Warns
        -----
        ConvergenceWarning
            When the tolerance was not reached; ``status_`` says why.
        """
        began = time.perf_counter()
        with unchanged_on_failure(self), single_threaded_blas():
            self._check_parameters()
            n_threads = effective_n_threads(self.n_jobs)
            data = training_data(self, X, y, sample_weight, self.kernel == "precomputed")
            loss, strategy, shape = self._chosen(len(data.y))
            n_rows, n_outputs, n_values = len(data.y), len(data.labels), int(data.X.size)
            needed = self._memory_needed(n_rows, n_values, n_outputs)
            needed += strategy.memory_needed(n_rows, shape, n_outputs, n_threads)
            needed += strategy.memory_of_columns(n_rows, data.X.shape[1])
            check_memory(needed, self.memory_limit)
            problem, seed = self._problem(data, loss, n_threads), self._seed()
            order = self._order(data, seed)
            problem = problem.restrict(order, problem.mass)
            cancelled = Event()
            monitor: Monitor = self.__dict__.get("_monitor") or Monitor()
            n_levels = strategy.n_levels(problem.n_rows, shape)
            context = self._init_callback_context(
                max_subtasks=n_levels + 1 - shape.stop_level, sequential_subtasks=False
            )
            hooks = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
            context.call_on_fit_task_begin(estimator=self, **hooks)
            engine, start = LocalEngine(n_threads, cancelled), self._previous_dual(data, order)
            origin = Origin(data.classes, problem.n_rows, data.n_given, problem.kernel.transform, data.kept[order])
            training = Training(
                facts=Facts.of(problem),
                rows=self._scattered(Part.split(problem, n_shards_for(problem.n_rows), start), engine),
                limits=Limits(
                    tol=self.tol,
                    max_iter=self.max_iter,
                    deadline=None if self.max_time is None else began + self.max_time,
                    cancelled=cancelled,
                    interrupted=monitor.interrupted,
                ),
                shape=shape,
                random_state=seed,
                started=start is not None,
                given=data.kept[order],
                cache=CACHE if self.memory_limit is None else min(CACHE, self.memory_limit - needed),
                progress=CallbackProgress(self, context, hooks, partial(self._model_attributes, origin), monitor),
            )
            outcome = strategy.train(training)
            attributes = self._attributes(origin, outcome)
            for name, value in attributes.items():
                setattr(self, name, value)
            context.call_on_fit_task_end(estimator=self, **hooks, reconstruction_attributes=attributes)
        self._warn_unless_converged(outcome.reason)
        return self

    def _chosen(self, n_rows: int) -> tuple[Loss, Strategy, TreeShape]:
        """Return the loss, the strategy and the shape of the tree for `n_rows` rows."""
        loss, strategy = self._loss(), self._choose(self._check_strategy(), n_rows)
        if strategy.needs_rows and self.kernel == "precomputed":
            raise ValueError(
                f"strategy {self.strategy!r} clusters rows, and kernel='precomputed' has none; choose another "
                "strategy, or give the kernel as a function"
            )
        if strategy.needs_smooth_loss and not loss.smooth:
            raise ValueError(f"strategy {self.strategy!r} needs a loss with a derivative everywhere, not {loss}")
        return loss, strategy, self._check_shape()

    def _order(self, data: TrainingData, seed: int) -> Indices:
        """Return the order of the rows by their keys.

        Samples, parts and blocks depend on this order, and so not on that in which the rows are given.
        """
        if self.kernel == "precomputed":  # such values change with the order of the rows, and so would their keys
            return np.random.default_rng(seed).permutation(len(data.y))
        return order_of_keys(data.X, data.y, data.row_weights, seed)

    def _scattered(self, parts: list[Part], engine: LocalEngine) -> Shards[Part]:
        """Hand the parts, which are all rows, to the engine that keeps them."""
        return engine.scatter(parts)

    def _check_parameters(self) -> None:
        """Raise an error for any parameter out of its range."""
        self._loss()
        self._check_strategy()
        self._check_shape()
        self._check_numbers()

    def _check_strategy(self) -> Strategy | None:
        """Validate the strategy, and return its object, or None for "auto"."""
        if isinstance(self.strategy, Strategy):
            self.strategy.validate()
            return self.strategy
        if self.strategy == "auto":
            return None
        if not isinstance(self.strategy, str) or self.strategy not in STRATEGIES:
            raise ValueError(
                f"strategy must be 'auto', {', '.join(map(repr, STRATEGIES))} or a strategy object, "
                f"got {self.strategy!r}"
            )
        return STRATEGIES[self.strategy]()

    def _check_shape(self) -> TreeShape:
        check_number("branching", self.branching, 2, low_included=True, whole=True)
        if self.n_landmarks is not None:
            check_number("n_landmarks", self.n_landmarks, 1, low_included=True, whole=True)
        check_number("stop_level", self.stop_level, 0, low_included=True, whole=True)
        if self.n_levels is not None:
            check_number("n_levels", self.n_levels, 1, _MOST_LEVELS, low_included=True, high_included=True, whole=True)
            if self.stop_level > self.n_levels:
                raise ValueError(
                    f"stop_level must be at most n_levels={self.n_levels} (the leaves), got {self.stop_level}"
                )
        shape = TreeShape(int(self.branching), self.n_levels, self.n_landmarks, int(self.stop_level))
        strategy = self._check_strategy()
        for name, default in vars(TreeShape()).items():
            if strategy is not None and name not in strategy.uses and getattr(shape, name) != default:
                users = " or ".join(repr(key) for key, other in STRATEGIES.items() if name in other.uses)
                raise ValueError(
                    f"{name}={getattr(shape, name)!r} was set, but strategy {self.strategy!r} does not use {name}; "
                    f"leave it at its default or choose strategy={users}"
                )
        return shape

    def _choose(self, strategy: Strategy | None, n_rows: int) -> Strategy:
        if strategy is not None:
            return strategy
        # a tree that was asked for is built, however few the rows
        tree = self.n_levels is not None or self.stop_level > 0
        return STRATEGIES["diodm" if tree or n_rows > _AUTO_EXACT_ROWS else "exact"]()

    def _check_numbers(self) -> None:
        check_kernel(self.kernel, self.gamma, self.degree, self.coef0)
        if self.memory_limit is not None:
            check_number("memory_limit", self.memory_limit, 0, whole=True)
        self._check_limits()

    def _memory_needed(self, n_rows: int, n_values: int, n_outputs: int) -> int:
        """Return the bytes that a solve of `n_rows` rows with `n_values` stored numbers takes beside the data."""
        rows = n_values * (4 if self.tol >= 1e-4 else 12)
        return rows + 8 * n_rows * (12 + 8 * n_outputs) + 24 * 2**20

    def _row_transform(self, data: TrainingData) -> Transform:
        own = kernel_transform(data.X, data.weights, self.kernel, self.gamma, self.degree, self.coef0)
        return replace(own, offset=self._offset)

    def _problem(self, data: TrainingData, loss: Loss, n_threads: int) -> DualProblem:
        matrix = kernel_matrix(self._row_transform(data), data.X, n_threads=n_threads)
        total = float(data.weights.sum())
        return DualProblem(data.labels, data.weights, loss, total, total, self._has_intercept, kernel=matrix)

    def _previous_dual(self, data: TrainingData, order: Indices) -> Floats | None:
        if not self.warm_start or not hasattr(self, "dual_coef_"):
            return None
        known = self._n_given == data.n_given and np.array_equal(self.classes_, data.classes)
        if not known:
            raise ValueError(
                f"warm_start=True needs the rows and classes of the previous fit ({self._n_given} rows, classes "
                f"{self.classes_!r}), got {data.n_given} rows, classes {data.classes!r}"
            )
        signed = np.zeros((len(self.dual_coef_), data.n_given))
        signed[:, self.support_] = self.dual_coef_
        return (data.labels * signed[:, data.kept])[:, order]

    # ---- fitted attributes ---------------------------------------------------------------------------------------

    def _model_attributes(self, origin: Origin, found: LevelModel) -> dict[str, Any]:
        """Return the fitted attributes that prediction needs."""
        indices = found.indices if origin.indices is None else origin.indices[found.indices]
        order = np.argsort(indices)
        labels = found.labels[:, order]
        codes = codes_of_labels(labels)
        transform = replace(origin.transform, offset=0.0)
        precise = origin.n_rows <= BlockCoordinateDescent.small or self.tol < 1e-4
        return {
            "classes_": origin.classes,
            "support_": indices[order].astype(np.int32 if origin.n_given < 2**31 else np.int64),
            "support_vectors_": found.vectors if (np.diff(order) == 1).all() else found.vectors[order],
            "dual_coef_": found.coefficients[:, order],
            "intercept_": found.intercept + self._offset * found.coefficients.sum(axis=1),
            "n_support_": np.bincount(codes, minlength=len(origin.classes)).astype(np.int32),
            "_transform": transform.in_float64() if precise else transform,
            "_router": None if found.router is None else found.router.take(order),
            "_n_given": origin.n_given,
        }

    def _attributes(self, origin: Origin, outcome: Outcome) -> dict[str, Any]:
        own = {"status_": outcome.status, "n_iter_": outcome.passes, "history_": history_attribute(outcome.history)}
        certificate = self._certificate_attributes(outcome.objectives, outcome.scope)
        return self._model_attributes(origin, outcome.model) | certificate | own

    def certify(self, X: Any, y: Any, sample_weight: Any = None, max_time: float | None = None) -> Self:
        """Compute the global certificate of the fitted model on its training rows.

        The certificate costs one pass over the kernel, ``n`` times the number of support vectors, in float64, and after
        strategy "landmark" another one, of up to ``n * n`` values; `fit` never pays for it silently. The method sets
        ``objective_``, ``dual_objective_``, ``duality_gap_`` and ``certificate_``. For a model that predicts by
        clusters it certifies the coefficients, all of them together.

        Parameters
        ----------
        X, y, sample_weight
            The data that the model was fitted on.
        max_time : float, optional
            Seconds after which a TimeoutError is raised.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If these are not the training rows.
        TimeoutError
            If the pass did not end in `max_time`; the model keeps the certificate that it had.
        """
        check_is_fitted(self)
        checker = type(self)(**self.get_params(deep=False))
        data = training_data(checker, X, y, sample_weight, self.kernel == "precomputed")
        if sp.issparse(data.X) != sp.issparse(self.support_vectors_):
            data = replace(data, X=data.X.toarray() if sp.issparse(data.X) else sp.csr_array(data.X))
        if self.certificate_ == "estimated":
            self._find_support_in(data)
        indices = np.flatnonzero(np.isin(data.kept, self.support_))
        if data.n_given != self._n_given or not self._has_support_vectors(data.X, indices):
            raise ValueError("X, y are not the rows that this model was fitted on: its support vectors differ")
        total = float(data.weights.sum())
        in_space_of_landmarks = any(entry.get("scope") == "landmark" for entry in self.history_[-1:])
        compute = landmark_objectives if in_space_of_landmarks else global_objectives
        with single_threaded_blas():
            transform = replace(self._transform.in_float64(), offset=self._offset)
            matrix = kernel_matrix(transform, data.X, n_threads=effective_n_threads(self.n_jobs))
            problem = DualProblem(
                data.labels, data.weights, self._loss(), total, total, self._has_intercept, kernel=matrix
            )
            objectives = compute(problem, indices, self.dual_coef_, self.intercept_, max_time)
        for name, value in self._certificate_attributes(objectives, "global").items():
            setattr(self, name, value)
        return self

    def _find_support_in(self, data: TrainingData) -> None:
        """Replace support vectors that came from several sites by the equal rows of X, in their order."""
        found = self.dual_coef_
        indices = indices_of_vectors(self.support_vectors_, found, data.X, data.labels)
        order = np.argsort(indices)
        attributes = {
            "support_": data.kept[indices[order]], "support_vectors_": data.X[indices[order]],
            "dual_coef_": np.ascontiguousarray(found[:, order]),
        }  # fmt: skip
        for name, value in attributes.items():
            setattr(self, name, value)

    def _can_resume_on(self, X: Any) -> bool:
        return X.shape[0] == self._n_given and self._has_support_vectors(X, self.support_)

    @property
    def _facts(self) -> dict[str, Any]:
        return {"support_vectors": len(self.support_), "privacy": HOLDS_ROWS}

    def _has_support_vectors(self, X: Any, indices: NDArray[np.intp]) -> bool:
        """Return whether the rows of X at these indices are the support vectors."""
        vectors = self.support_vectors_
        if self.kernel == "precomputed":
            return len(indices) == len(vectors)
        alike = sp.issparse(X) == sp.issparse(vectors) and vectors.shape == (len(indices), X.shape[1])
        return alike and not abs(X[indices] - vectors).sum()

    # ---- prediction ----------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Floats:
        """Return the decision values of rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Positive means ``classes_[1]``; with more classes, one against the rest each.
        """
        check_is_fitted(self)
        X = validate_data(
            self, X, reset=False, accept_sparse="csr", dtype=STORED_DTYPES, order="C", ensure_all_finite=False
        )
        check_finite(X, columns=getattr(self, "feature_names_in_", None))
        vectors = self.support_vectors_
        # centring would fill sparse rows: the model's storage decides
        X = canonical(sp.csr_array(X) if sp.issparse(vectors) else X)
        values = np.zeros((len(self.dual_coef_), X.shape[0]))
        if vectors.shape[0] or self._router is not None:
            for batch in gen_batches(X.shape[0], _ROWS_AT_ONCE):
                part = X[batch, self.support_] if self.kernel == "precomputed" else X[batch]
                if sp.issparse(part) and not sp.issparse(vectors):
                    part = part.toarray()
                outgrown = self._transform.outgrown(part)
                # apart, so that no row's value depends on the rows that it comes with
                for rows in (~outgrown, outgrown) if outgrown.any() else (slice(None),):
                    if part[rows].shape[0]:
                        values[:, np.arange(X.shape[0])[batch][rows]] = self._values(part[rows])
        values += self.intercept_[:, None]
        return values[0] if len(values) == 1 else values.T

    def _values(self, part: Any) -> Floats:
        """Return decision values without intercept, of shape (n_outputs, n_rows)."""
        threads = effective_n_threads(self.n_jobs)
        matrix = kernel_matrix(self._transform, self.support_vectors_, queries=part, n_threads=threads)
        if self._router is not None:
            return self._router.decision_values(matrix, part, self.dual_coef_)
        return matrix.multiply(np.arange(len(self.support_)), self.dual_coef_)
