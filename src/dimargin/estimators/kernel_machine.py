"""Training, strategy choice and certificates of the machines with kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.certificate import global_objectives, indices_of_vectors, landmark_objectives
from dimargin.estimators.fit_plan import DataSize, FitPlan
from dimargin.estimators.input_checks import check_number, seed_of
from dimargin.estimators.kernel_parameters import may_merge, row_transform_of, thinned_for
from dimargin.estimators.kernel_prediction import KernelPrediction
from dimargin.estimators.margin_machine import PreparedFit, said_classes
from dimargin.estimators.training_data import Origin, TrainingData, merged, narrow
from dimargin.kernels.functions import KERNEL_NAMES
from dimargin.kernels.user import Transform, kernel_matrix
from dimargin.kernels.wide_rows import as_given
from dimargin.problems.dual import DualProblem
from dimargin.problems.objectives import Objectives
from dimargin.problems.one_vs_rest import codes_of_labels
from dimargin.shards.local_engine import LocalEngine
from dimargin.shards.parts import Part, n_shards_for
from dimargin.solvers import CACHE, Limits
from dimargin.solvers.row_descent import is_faster_by_rows
from dimargin.strategies import (
    STRATEGIES,
    Exact,
    Facts,
    LevelModel,
    Outcome,
    Progress,
    Router,
    Strategy,
    Training,
    TreeShape,
    strategy_of,
)
from dimargin.system.arrays import Floats, Indices
from dimargin.system.memory import check_memory
from dimargin.system.threads import effective_n_threads, single_threaded_blas


class KernelMachine(KernelPrediction):
    """Base class of the machines with kernels; subclasses define the loss.

    Parameters
    ----------
    strategy : {"auto", "exact", "diodm", "dc", "cascade", "dip", "landmark"} or strategy object, default="auto"
        Algorithm. "exact" solves the whole problem. "diodm" merges a tree of stratified partitions.
        "dc" divides the rows into clusters and conquers (DC-SVM, DC-ODM). "cascade" merges the
        support vectors of random partitions, "dip" those of partitions with the same share of every
        cluster. "landmark" solves the machine in the space of a sample of the rows, for more than a
        million rows. "auto" is "diodm" if `n_levels` or `stop_level` is given; else "exact" up to
        100,000 rows, and above "dc", or "diodm" with `n_landmarks` or `memory_limit`. For a linear
        kernel on sparse rows with many columns, or on more than four times as many rows as columns, it
        is ``Exact(by_rows=True)``, the algorithm of the linear machines, for any number of rows. In
        Python, an object has further options,
        as in ``DivideAndConquer(prediction="naive")``.
    branching : int, default=4
        Number of partitions that are merged into one ("diodm", "cascade", "dip"); with "dc", level
        l has ``branching ** l`` clusters.
    n_levels : int or None, default=None
        Levels of the tree above the whole problem: ``branching ** n_levels`` leaves, for any number
        of rows. None aims at leaves of 4,096 rows.
    n_landmarks : int or None, default=None
        Number of landmarks that define the strata of "diodm" (None: 50) or span the space of
        "landmark" (None: 1,000).
    stop_level : int, default=0
        Level whose model is returned; 0 is the whole problem. Models of higher levels predict with
        the mean of the local machines ("diodm", "cascade", "dip") or with the machine of the
        nearest cluster ("dc": early prediction; `DivideAndConquer` has other options).
    tol : float, default=1e-3
        Relative duality gap to reach. Below 1e-4 the certificate is computed with float64 kernel
        values.
    max_iter : int, default=1000
        Maximum number of passes over the rows.
    warm_start : bool, default=False
        Start from the coefficients of the previous fit, which must have used the same rows.
    verbose : int, default=0
        1 logs one line per level, 2 also one line per check of the gap, by the logger "dimargin";
        the lines are printed if no handler is set up. scikit-learn's `ProgressBar` callback shows
        progress bars.

    Attributes
    ----------
    support_vectors_ : ndarray or CSR array of shape (n_SV, n_features_in_)
    coef_ : ndarray of shape (n_outputs, n_features_in_)
        Dense coefficients of the features, only with ``kernel="linear"``: decision values, with
        "one_vs_one" those of pairs, are ``X @ coef_.T + intercept_``. Read-only, because it is
        computed from the support vectors.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    certificate_ : {"global", "partitioned", "landmark"}
        Problem that the gap belongs to; `certify` computes the global certificate.
    """

    strategy: str | Strategy
    branching: int
    n_levels: int | None
    n_landmarks: int | None
    stop_level: int
    memory_limit: int | None

    # ---- training ------------------------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        data = self._compact(self._training_data(X, y, sample_weight))
        plan = self._plan(data.size)
        check_memory(plan.memory, self.memory_limit)
        return self._prepare_data(data, plan)

    def _compact(self, data: TrainingData) -> TrainingData:
        """Return data that take less time: without empty columns, with merged or sparsely stored rows."""
        data = narrow(data) if self.kernel in KERNEL_NAMES else data
        if may_merge(self) and self.memory_limit is None and not self._strategy_for(len(data.y)).is_linear:
            data = merged(data)
        return thinned_for(self, data) if type(self._strategy_for(len(data.y))) is Exact else data

    def _prepare_data(self, data: TrainingData, plan: FitPlan) -> PreparedFit:
        """Return the fit by a strategy, one class against the rest."""
        n_rows, n_threads, seed = len(data.y), effective_n_threads(self.n_jobs), seed_of(self.random_state)
        problem = self._problem(data, row_transform_of(self, data.X, data.weights, data.columns), n_threads)
        order = self._order(data.X, data.y, data.row_weights, seed)
        problem = problem.restrict(order, problem.mass)
        start = self._previous_dual(data, order)
        transform, indices = problem.kernel.transform, data.kept[order]
        origin = Origin(data.classes, n_rows, data.n_given, transform, indices, data.is_thinned, data.columns)

        def train(limits: Limits, progress: Progress) -> tuple[dict[str, Any], str]:
            engine = LocalEngine(n_threads, limits.cancelled)
            training = Training(
                facts=Facts.of(problem),
                rows=engine.scatter(Part.split(problem, n_shards_for(n_rows), start)),
                limits=limits,
                shape=plan.shape or TreeShape(),
                random_state=seed,
                started=start is not None,
                solver=plan.strategy.solver,
                given=origin.indices,
                cache=self._cache(plan),
                progress=self.followed(progress, data),
            )
            outcome = self.in_given_units(plan.strategy.train(training), data)
            return self.fitted_attributes(origin, outcome), outcome.reason

        def model_attributes(found: LevelModel) -> dict[str, Any]:
            return self._model_attributes(origin, self.in_given_units(found, data))

        return PreparedFit(plan.n_levels, model_attributes, train)

    def _cache(self, plan: FitPlan) -> int:
        """Return the number of bytes for cached kernel rows."""
        return CACHE if self.memory_limit is None else min(CACHE, self.memory_limit - plan.memory)

    def _plan(self, size: DataSize) -> FitPlan:
        loss, by_rows = self._loss(), self._descends_by_rows(size)
        strategy = Exact(by_rows=True) if by_rows else self._strategy_for(size.n_rows)
        shape = self._check_shape(self._check_strategy())
        if strategy.needs_rows and self.kernel == "precomputed":
            raise ValueError(
                f"strategy {self.strategy!r} clusters rows of features, which kernel='precomputed' lacks; use another "
                "strategy, or give the kernel as a function"
            )
        if strategy.needs_smooth_loss and not loss.smooth:
            raise ValueError(f"strategy {self.strategy!r} needs a differentiable loss, not {loss}")
        own = strategy.memory_needed(size.n_rows, shape, size.n_outputs, effective_n_threads(self.n_jobs))
        own += strategy.memory_of_columns(size.n_rows, size.n_features)
        of_solve = self._solve_memory(size.n_rows, size.n_values, size.n_outputs)
        if isinstance(strategy, Exact) and strategy.by_rows:
            of_solve += 16 * size.n_values + 8 * size.n_outputs * (15 * size.n_features + 30 * size.n_rows)
        return FitPlan(
            name=next((name for name, known in STRATEGIES.items() if known is type(strategy)), type(strategy).__name__),
            strategy=strategy,
            loss=loss,
            fit_intercept=self._has_intercept,
            memory=of_solve + own,
            solve_memory=of_solve,
            n_levels=strategy.n_levels(size.n_rows, shape) + 1 - shape.stop_level,
            shape=shape,
        )

    def _solve_memory(self, n_rows: int, n_values: int, n_outputs: int) -> int:
        """Return the bytes that a solve needs besides the data."""
        return n_values * (4 if self.tol >= 1e-4 else 12) + 8 * n_rows * (12 + 8 * n_outputs) + 24 * 2**20

    def _check_parameters(self) -> None:
        """Raise an error if a parameter is out of range."""
        self._loss()
        self._check_shape(self._check_strategy())
        self._check_kernel()
        check_number("memory_limit", self.memory_limit, 0, whole=True, or_none=True)
        self._check_limits()

    def _check_strategy(self) -> Strategy | None:
        """Return the validated strategy object, or None for "auto"."""
        return None if isinstance(self.strategy, str) and self.strategy == "auto" else strategy_of(self.strategy)

    def _check_shape(self, strategy: Strategy | None) -> TreeShape:
        """Return the shape of the tree; refuse parameters that the strategy does not use."""
        check_number("branching", self.branching, 2, low_included=True, whole=True)
        check_number("n_landmarks", self.n_landmarks, 1, low_included=True, whole=True, or_none=True)
        check_number("stop_level", self.stop_level, 0, low_included=True, whole=True)
        if self.n_levels is not None:
            # Leaves are counted, and there are at least two to this power.
            check_number("n_levels", self.n_levels, 1, 63, low_included=True, high_included=True, whole=True)
            if self.stop_level > self.n_levels:
                raise ValueError(f"stop_level must be at most n_levels={self.n_levels}, got {self.stop_level}")
        shape = TreeShape(int(self.branching), self.n_levels, self.n_landmarks, int(self.stop_level))
        for name, default in vars(TreeShape()).items():
            if strategy is not None and name not in strategy.uses and getattr(shape, name) != default:
                users = " or ".join(repr(key) for key, other in STRATEGIES.items() if name in other.uses)
                raise ValueError(
                    f"{name}={getattr(shape, name)!r} was set, but strategy {self.strategy!r} does not use {name}; "
                    f"leave it at its default or choose strategy={users}"
                )
        return shape

    def _strategy_for(self, n_rows: int) -> Strategy:
        """Return the given strategy, or the one that "auto" chooses for `n_rows` rows."""
        given = self._check_strategy()
        if given is not None:
            return given
        # A requested tree is built for any number of rows.
        tree = self.n_levels is not None or self.stop_level > 0
        # An exact solve of up to 100,000 rows takes seconds; above, a tree has a usable model
        # early.
        if n_rows <= 100_000 and not tree:
            return STRATEGIES["exact"]()
        # Clusters need fewer kernel values than strata to reach the gap, and their early models
        # predict better (docs/guide/trees.md).
        strata = self.kernel == "precomputed" or self.memory_limit is not None or self.n_landmarks is not None
        return STRATEGIES["diodm" if tree or strata else "dc"]()

    def _descends_by_rows(self, size: DataSize) -> bool:
        """Return whether "auto" starts with steps on the rows of a linear kernel."""
        is_plain = self.kernel == "linear" and self._offset == 0.0 and self.memory_limit is None
        has_shape = self.n_levels is not None or self.n_landmarks is not None or self.stop_level > 0
        if self._check_strategy() is not None or not is_plain or has_shape:
            return False
        return is_faster_by_rows(size.n_rows, size.n_features, size.n_values)

    def advice(self) -> str:
        """Suggest landmarks after a fit to many rows with a gap far above the tolerance.

        Returns
        -------
        str
            A sentence with a space before it, or an empty string.
        """
        is_far = self.duality_gap_ > 10.0 * self.tol and self._n_given >= 20_000
        if not is_far or self._is_of_landmarks or self.kernel not in KERNEL_NAMES:
            return ""
        changes: dict[str, Any] = {} if self._loss().smooth else {"loss": f"squared_{vars(self)['loss']}"}
        changes |= {"fit_intercept": False} if self._has_intercept else {}
        settings = ", ".join(f"{name}={value!r}" for name, value in (changes | {"strategy": "landmark"}).items())
        return f" With {settings}, the training time is linear in the number of rows, and prediction is much faster."

    @property
    def _is_of_landmarks(self) -> bool:
        """Return whether this is a landmark model, whose coefficients are not dual variables."""
        return any(entry.get("scope") == "landmark" for entry in self.history_[-1:])

    def _problem(self, data: TrainingData, transform: Transform, n_threads: int) -> DualProblem:
        return DualProblem.of(self._losses(data), kernel_matrix(transform, data.X, n_threads=n_threads))

    def _previous_dual(self, data: TrainingData, order: Indices) -> Floats | None:
        if not self.warm_start or not hasattr(self, "dual_coef_"):
            return None
        self._check_same_rows(data)
        return (data.labels * data.sums(self.support_, self.dual_coef_))[:, order] / data.unit

    def _check_same_rows(self, data: TrainingData) -> None:
        if self._n_given != data.n_given or not self._has_classes_of(data):
            raise ValueError(
                f"warm_start=True needs the rows and classes of the previous fit ({self._n_given} rows"
                f"{said_classes(vars(self).get('classes_', []))}), got {data.n_given} rows{said_classes(data.classes)}"
            )

    # ---- fitted attributes ---------------------------------------------------------------------------------------

    def _model_attributes(self, origin: Origin, found: LevelModel) -> dict[str, Any]:
        """Return the fitted attributes that prediction needs."""
        indices = found.indices if origin.indices is None else origin.indices[found.indices]
        order = np.argsort(indices)
        vectors = found.vectors if (np.diff(order) == 1).all() else found.vectors[order]
        router = None if found.router is None else found.router.take(order).on_given(origin.columns)
        intercept = found.intercept + self._offset * found.coefficients.sum(axis=1)
        codes = codes_of_labels(found.labels[:, order])
        return support_attributes(
            origin, indices[order], codes, vectors, found.coefficients[:, order], intercept, router
        )

    def fitted_attributes(self, origin: Origin, outcome: Outcome) -> dict[str, Any]:
        """Return the attributes of a machine that a strategy has trained, by their names."""
        return self._model_attributes(origin, outcome.model) | self._result_attributes(outcome, outcome.scope)

    def certify(self, X: Any, y: Any, sample_weight: Any = None, max_time: float | None = None) -> Self:
        """Compute the global certificate of the fitted model on its training rows.

        The certificate takes one pass over the kernel in float64, of ``n`` times the number of
        support vectors, and after strategy "landmark" another one of up to ``n * n`` values. The
        method sets ``objective_``, ``dual_objective_``, ``duality_gap_``, ``certificate_`` and
        ``status_``. For a model that predicts by clusters, it certifies the decision function of
        all coefficients together.

        Parameters
        ----------
        X, y, sample_weight
            The training data of the model.
        max_time : float, optional
            Seconds after which a TimeoutError is raised.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If these are not the training data.
        TimeoutError
            If `max_time` is exceeded; the model keeps its previous certificate.
        """
        check_is_fitted(self)
        checker = type(self)(**self.get_params(deep=False))
        data = checker._training_data(X, y, sample_weight)
        if sp.issparse(data.X) != sp.issparse(self.support_vectors_):
            data = replace(data, X=data.X.toarray() if sp.issparse(data.X) else sp.csr_array(data.X))
        if self.certificate_ == "estimated":
            self._find_support_in(data)
        indices = np.searchsorted(data.kept, self.support_[np.isin(self.support_, data.kept)])
        if data.n_given != self._n_given or not self._has_support_vectors(data.X, indices):
            raise ValueError("X, y are not the rows that this model was fitted on: its support vectors differ")
        whole = narrow(merged(data)) if may_merge(self) else data
        signed = whole.sums(self.support_, self.dual_coef_)
        support = np.flatnonzero(signed.any(axis=0))
        with single_threaded_blas():
            objectives = self._global_objectives(whole, support, signed[:, support] / data.unit, max_time)
        self._set_global_certificate(self._objectives_in_given_units(objectives, data))
        return self

    def _global_objectives(
        self, data: TrainingData, support: Indices, signed: Floats, max_time: float | None
    ) -> Objectives:
        """Return the objectives for given indices and coefficients of support vectors."""
        compute = landmark_objectives if self._is_of_landmarks else global_objectives
        transform = replace(self._transform.in_float64(), offset=self._offset)
        problem = self._problem(data, transform, effective_n_threads(self.n_jobs))
        intercept = (self.intercept_ - data.centre) / data.unit
        return compute(problem, support, signed, intercept, max_time)

    def _find_support_in(self, data: TrainingData) -> None:
        """Replace support vectors from several sites by the equal rows of X, in the order of X."""
        found = self.dual_coef_
        indices = indices_of_vectors(self.support_vectors_, found, data.X, data.labels)
        order = np.argsort(indices)
        self.support_, self.support_vectors_ = data.kept[indices[order]], data.X[indices[order]]
        self.dual_coef_ = np.ascontiguousarray(found[:, order])

    def can_resume_on(self, X: Any) -> bool:
        """Return whether the rows of X are those that the model was trained on, by its support vectors."""
        return bool(X.shape[0] == self._n_given and self._has_support_vectors(X, self.support_))

    def _has_support_vectors(self, X: Any, indices: NDArray[np.intp]) -> bool:
        """Return whether the rows of X at these indices are the support vectors."""
        vectors = self.support_vectors_
        if self.kernel == "precomputed":
            return len(indices) == len(vectors)
        alike = sp.issparse(X) == sp.issparse(vectors) and vectors.shape == (len(indices), X.shape[1])
        if not alike:
            return False
        difference = X[indices] - vectors
        return not np.any(difference.data if sp.issparse(difference) else difference)


def support_attributes(
    origin: Origin,
    indices: Indices,
    codes: Indices,
    vectors: Any,
    coefficients: Floats,
    intercept: Floats,
    router: Router | None = None,
) -> dict[str, Any]:
    """Return the fitted attributes that prediction needs, from support vectors in the order of the model.

    `indices` and `codes` are their indices in the caller's X and the indices of their classes.
    """
    vectors, n_classes = as_given(vectors, origin.columns), len(origin.classes)
    counts = np.bincount(codes, minlength=n_classes) if n_classes else np.array([len(codes)])
    return ({"classes_": origin.classes} if n_classes else {}) | {
        "support_": indices.astype(np.int32 if origin.n_given < 2**31 else np.int64),
        "support_vectors_": vectors.toarray() if origin.is_thinned else vectors,
        "dual_coef_": coefficients,
        "intercept_": intercept,
        "n_support_": counts.astype(np.int32),
        # Predictions use float64 as the certificate does: large coefficients cancel, which would
        # make float32 errors visible in decision values.
        "_transform": replace(origin.transform, offset=0.0).in_float64(),
        "_router": router,
        "_n_given": origin.n_given,
    }
