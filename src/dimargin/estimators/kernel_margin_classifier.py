"""Base class of the kernel margin classifiers: validation, choice of a strategy, certificate."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.certificate import global_objectives, indices_of_vectors, landmark_objectives
from dimargin.estimators.kernel_prediction import KernelPrediction
from dimargin.estimators.linear_kernel import LinearKernelCoefficients
from dimargin.estimators.margin_classifier import HOLDS_ROWS, PreparedFit, history_attribute
from dimargin.estimators.validated_data import (
    THINNED_KERNELS,
    Origin,
    TrainingData,
    merged,
    narrow,
    thinned,
    training_data,
)
from dimargin.estimators.validation import check_number
from dimargin.kernels.functions import KERNEL_NAMES
from dimargin.kernels.user import Transform, kernel_matrix
from dimargin.kernels.wide_rows import as_given
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import Loss
from dimargin.problems.objectives import Objectives
from dimargin.problems.one_vs_rest import codes_of_labels
from dimargin.shards.local_engine import LocalEngine
from dimargin.shards.parts import Part, n_shards_for
from dimargin.solvers import CACHE, Limits
from dimargin.strategies import (
    STRATEGIES,
    Exact,
    Facts,
    LevelModel,
    Outcome,
    Progress,
    Strategy,
    Training,
    TreeShape,
    strategy_of,
)
from dimargin.system.arrays import Floats, Indices
from dimargin.system.memory import check_memory
from dimargin.system.threads import effective_n_threads, single_threaded_blas

_AUTO_EXACT_ROWS = 100_000  # below, an exact solve takes seconds; above, a tree has an early answer at any time limit
_FAR, _MANY_ROWS = 10.0, 20_000  # times the tolerance, and rows, from which landmarks are worth a word
_MAX_LEVELS = 63  # the parts of the leaves, two to this power at least, are counted


class KernelMarginClassifier(LinearKernelCoefficients, KernelPrediction):
    """Base class of the kernel classifiers; subclasses name their loss.

    Parameters
    ----------
    strategy : {"auto", "exact", "diodm", "dc", "cascade", "dip", "landmark"} or strategy object, default="auto"
        "exact" solves the whole problem; "diodm" climbs a tree of stratified partitions; "dc" divides into clusters and
        conquers (DC-SVM, DC-ODM); "cascade" passes support vectors of random partitions on, "dip"
        those of partitions in which every cluster of the features is as frequent as in the whole; "landmark" solves the
        machine in the space of a sample of the rows, the way past a million rows; "auto" takes "exact" up to 100,000
        rows and "dc" above, but "diodm" where `n_levels` or `stop_level` is given, and above with `n_landmarks` or
        `memory_limit`. An object carries options of its own, as in ``DivideAndConquer(prediction="naive")``.
    branching : int, default=4
        Partitions merged at a time ("diodm", "cascade", "dip"), or clusters of level l to the power of l ("dc").
    n_levels : int or None, default=None
        Levels of the tree above the whole problem: ``branching ** n_levels`` leaves. None aims at leaves of 4,096
        rows. Obeyed however few the rows are.
    n_landmarks : int or None, default=None
        Landmarks in the kernel's space: those that define the strata of "diodm" (None: 50), or those whose span is the
        space of "landmark" (None: 1,000).
    stop_level : int, default=0
        Level whose model is returned; 0 is the whole problem. Above it, the mean of the local machines answers
        ("diodm", "cascade", "dip"), or the machine of the nearest cluster ("dc": early prediction, for others see
        `DivideAndConquer`).
    tol : float, default=1e-3
        Relative duality gap to reach. Below 1e-4 the certificate is computed with float64 kernel values.
    max_iter : int, default=1000
        Passes over the rows.
    warm_start : bool, default=False
        Start from the coefficients of the previous fit, which must have had the same rows.
    verbose : int, default=0
        1 prints a line a level, 2 one a check of the gap. Progress bars: scikit-learn's `ProgressBar` callback.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors in X: the union over the outputs. Of many rows that are equal, and have the same
        label, the first may stand for all, with the sum of their weights, and of their coefficients.
    support_vectors_ : ndarray or CSR array of shape (n_SV, n_features_in_)
    dual_coef_ : ndarray of shape (n_outputs, n_SV)
        ``y_i gamma_i``; zero where a support vector belongs to other outputs only.
    coef_ : ndarray of shape (n_outputs, n_features_in_)
        Coefficients of the features, with ``kernel="linear"`` only and then dense: decision values, with "one_vs_one"
        those of pairs, are ``X @ coef_.T + intercept_``. Read-only, as it follows from the support vectors.
    n_support_ : ndarray of shape (n_classes,)
        Support vectors of each class.
    objective_, dual_objective_ : float, or ndarray of shape (n_classes,) for more than two classes
        Primal objective (positive) and the dual one below it, of the problem that `certificate_` names. For
        "partitioned" they are weighted means over partitions that represent the whole ("diodm", "cascade", "dip"), and
        sums over clusters ("dc").
    duality_gap_ : float
        ``(objective_ - dual_objective_) / objective_``, of the worst output and the worst partition, rounding included.
        Rounding is bounded: always for "linear", "poly" and own kernels, with ``tol < 1e-4``, and where that takes no
        more than a tenth of the fit or some milliseconds (up to some thousand rows). Else, for "rbf" and "laplacian",
        it is measured on a sample of rows, plus five standard deviations.
    certificate_ : {"global", "partitioned", "landmark"}
        Problem that the gap belongs to; `certify` computes the global one.
    n_iter_ : int
        Passes over the rows, summed over the levels.
    """

    strategy: str | Strategy
    branching: int
    n_levels: int | None
    n_landmarks: int | None
    stop_level: int
    memory_limit: int | None

    @property
    def _has_intercept(self) -> bool:
        """Return whether the decision function has an unregularised intercept."""
        return False

    @abstractmethod
    def _loss(self) -> Loss:
        """Validate the parameters of the loss, and return it."""

    # ---- training ------------------------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        data = training_data(self, X, y, sample_weight)
        data = narrow(data) if self.kernel in KERNEL_NAMES else data
        strategy = self._check_strategy()
        if self._may_merge and self.memory_limit is None and not (strategy and strategy.is_linear):
            data = merged(data)
        is_exact = type(self._choose(strategy, len(data.y))) is Exact
        if is_exact and self._may_thin:
            thin = thinned(data)
            data = thin if self._is_as_precise(thin, data) else data
        return self._prepare_data(data)

    @property
    def _may_merge(self) -> bool:
        """Return whether equal rows have equal kernel values, which only rows of features are sure to have."""
        return self.kernel in KERNEL_NAMES

    @property
    def _may_thin(self) -> bool:
        """Return whether one-hot rows may be sparse for the kernel, and memory for the copy."""
        return self.kernel in THINNED_KERNELS and self.memory_limit is None

    def _is_as_precise(self, thin: TrainingData, data: TrainingData) -> bool:
        """Return whether single precision does for thinned rows, which are not centred, if it does for dense ones."""
        if not thin.is_thinned:
            return False
        with suppress(ValueError):  # for columns that are too large
            rows, others = (self._row_transform(part.X, part.weights) for part in (thin, data))
            return bool(rows.dtype is others.dtype)
        return False

    def _prepare_data(self, data: TrainingData) -> PreparedFit:
        n_rows, n_outputs, n_threads = len(data.y), len(data.labels), effective_n_threads(self.n_jobs)
        strategy, shape = self._chosen(n_rows)
        needed = self._memory_needed(n_rows, int(data.X.size), n_outputs)
        needed += strategy.memory_needed(n_rows, shape, n_outputs, n_threads)
        needed += strategy.memory_of_columns(n_rows, data.X.shape[1])
        check_memory(needed, self.memory_limit)
        transform = self._row_transform(data.X, data.weights, data.columns)
        problem, seed = self._problem(data, transform, n_threads), self._seed()
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
                shape=shape,
                random_state=seed,
                started=start is not None,
                given=origin.indices,
                cache=CACHE if self.memory_limit is None else min(CACHE, self.memory_limit - needed),
                progress=progress,
            )
            outcome = strategy.train(training)
            return self._attributes(origin, outcome), outcome.reason

        n_levels = strategy.n_levels(n_rows, shape) + 1 - shape.stop_level
        return PreparedFit(n_levels, partial(self._model_attributes, origin), train)

    def _chosen(self, n_rows: int) -> tuple[Strategy, TreeShape]:
        """Return the strategy and the shape of the tree for `n_rows` rows."""
        loss, given = self._loss(), self._check_strategy()
        strategy, shape = self._choose(given, n_rows), self._check_shape(given)
        if strategy.needs_rows and self.kernel == "precomputed":
            raise ValueError(
                f"strategy {self.strategy!r} clusters rows, and kernel='precomputed' has none; choose another "
                "strategy, or give the kernel as a function"
            )
        if strategy.needs_smooth_loss and not loss.smooth:
            raise ValueError(f"strategy {self.strategy!r} needs a loss with a derivative everywhere, not {loss}")
        return strategy, shape

    def _check_parameters(self) -> None:
        """Raise an error for any parameter out of its range."""
        self._loss()
        self._check_shape(self._check_strategy())
        self._check_kernel()
        if self.memory_limit is not None:
            check_number("memory_limit", self.memory_limit, 0, whole=True)
        self._check_limits()

    def _check_strategy(self) -> Strategy | None:
        """Validate the strategy, and return its object, or None for "auto"."""
        return None if isinstance(self.strategy, str) and self.strategy == "auto" else strategy_of(self.strategy)

    def _check_shape(self, strategy: Strategy | None) -> TreeShape:
        """Validate the shape of the tree, and return it; parameters that the strategy does not use are refused."""
        check_number("branching", self.branching, 2, low_included=True, whole=True)
        if self.n_landmarks is not None:
            check_number("n_landmarks", self.n_landmarks, 1, low_included=True, whole=True)
        check_number("stop_level", self.stop_level, 0, low_included=True, whole=True)
        if self.n_levels is not None:
            check_number("n_levels", self.n_levels, 1, _MAX_LEVELS, low_included=True, high_included=True, whole=True)
            if self.stop_level > self.n_levels:
                raise ValueError(
                    f"stop_level must be at most n_levels={self.n_levels} (the leaves), got {self.stop_level}"
                )
        shape = TreeShape(int(self.branching), self.n_levels, self.n_landmarks, int(self.stop_level))
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
        if n_rows <= _AUTO_EXACT_ROWS and not tree:
            return STRATEGIES["exact"]()
        # clusters need fewer kernel values than strata to the gap, and predict better before (docs/guide/trees.md)
        strata = self.kernel == "precomputed" or self.memory_limit is not None or self.n_landmarks is not None
        return STRATEGIES["diodm" if tree or strata else "dc"]()

    def _advice(self) -> str:
        """Return how to use landmarks where many rows have left the gap far from its tolerance."""
        is_far = self.duality_gap_ > _FAR * self.tol and self._n_given >= _MANY_ROWS
        if not is_far or self._is_of_landmarks or self.kernel not in KERNEL_NAMES:
            return ""
        changes: dict[str, Any] = {"loss": "squared_hinge"} if not self._loss().smooth else {}
        changes |= {"fit_intercept": False} if self._has_intercept else {}
        settings = ", ".join(f"{name}={value!r}" for name, value in (changes | {"strategy": "landmark"}).items())
        return f" With {settings} the time is linear in the rows, and prediction faster by far."

    @property
    def _is_of_landmarks(self) -> bool:
        """Return whether the fitted model is one in the space of landmarks, whose coefficients belong to no dual."""
        return any(entry.get("scope") == "landmark" for entry in self.history_[-1:])

    def _plan(self, n_rows: int) -> str:
        """Return the name of the strategy that a fit of so many rows takes."""
        chosen = type(self._choose(self._check_strategy(), n_rows))
        return f"strategy {next((name for name, own in STRATEGIES.items() if own is chosen), chosen.__name__)}"

    def _memory_needed(self, n_rows: int, n_values: int, n_outputs: int) -> int:
        """Return the bytes that a solve of `n_rows` rows with `n_values` stored numbers takes beside the data."""
        rows = n_values * (4 if self.tol >= 1e-4 else 12)
        return rows + 8 * n_rows * (12 + 8 * n_outputs) + 24 * 2**20

    def _problem(self, data: TrainingData, transform: Transform, n_threads: int) -> DualProblem:
        matrix, total = kernel_matrix(transform, data.X, n_threads=n_threads), float(data.weights.sum())
        return DualProblem(data.labels, data.weights, self._loss(), total, total, self._has_intercept, kernel=matrix)

    def _previous_dual(self, data: TrainingData, order: Indices) -> Floats | None:
        if not self.warm_start or not hasattr(self, "dual_coef_"):
            return None
        self._check_same_rows(data)
        return (data.labels * data.sums(self.support_, self.dual_coef_))[:, order]

    def _check_same_rows(self, data: TrainingData) -> None:
        if self._n_given != data.n_given or not np.array_equal(self.classes_, data.classes):
            raise ValueError(
                f"warm_start=True needs the rows and classes of the previous fit ({self._n_given} rows, classes "
                f"{self.classes_!r}), got {data.n_given} rows, classes {data.classes!r}"
            )

    # ---- fitted attributes ---------------------------------------------------------------------------------------

    def _model_attributes(self, origin: Origin, found: LevelModel) -> dict[str, Any]:
        """Return the fitted attributes that prediction needs."""
        indices = found.indices if origin.indices is None else origin.indices[found.indices]
        order = np.argsort(indices)
        labels = found.labels[:, order]
        codes = codes_of_labels(labels)
        transform = replace(origin.transform, offset=0.0)
        vectors = found.vectors if (np.diff(order) == 1).all() else found.vectors[order]
        vectors, router = as_given(vectors, origin.columns), found.router
        return {
            "classes_": origin.classes,
            "support_": indices[order].astype(np.int32 if origin.n_given < 2**31 else np.int64),
            "support_vectors_": vectors.toarray() if origin.is_thinned else vectors,
            "dual_coef_": found.coefficients[:, order],
            "intercept_": found.intercept + self._offset * found.coefficients.sum(axis=1),
            "n_support_": np.bincount(codes, minlength=len(origin.classes)).astype(np.int32),
            # What predicts is what was certified: large coefficients cancel, and float32 would show in decision values.
            "_transform": transform.in_float64(),
            "_router": None if router is None else router.take(order).on_given(origin.columns),
            "_n_given": origin.n_given,
        }

    def _attributes(self, origin: Origin, outcome: Outcome) -> dict[str, Any]:
        own = {"n_iter_": outcome.passes, "history_": history_attribute(outcome.history)}
        certificate = self._certificate_attributes(outcome.objectives, outcome.scope, outcome.status)
        return self._model_attributes(origin, outcome.model) | certificate | own

    def certify(self, X: Any, y: Any, sample_weight: Any = None, max_time: float | None = None) -> Self:
        """Compute the global certificate of the fitted model on its training rows.

        The certificate costs one pass over the kernel, ``n`` times the number of support vectors, in float64, and after
        strategy "landmark" another one, of up to ``n * n`` values; `fit` never pays for it silently. The method sets
        ``objective_``, ``dual_objective_``, ``duality_gap_``, ``certificate_`` and ``status_``. For a model that
        predicts by clusters it certifies the coefficients, all of them together.

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
        data = training_data(checker, X, y, sample_weight)
        if sp.issparse(data.X) != sp.issparse(self.support_vectors_):
            data = replace(data, X=data.X.toarray() if sp.issparse(data.X) else sp.csr_array(data.X))
        if self.certificate_ == "estimated":
            self._find_support_in(data)
        indices = np.searchsorted(data.kept, self.support_[np.isin(self.support_, data.kept)])
        if data.n_given != self._n_given or not self._has_support_vectors(data.X, indices):
            raise ValueError("X, y are not the rows that this model was fitted on: its support vectors differ")
        whole = narrow(merged(data)) if self._may_merge else data
        signed = whole.sums(self.support_, self.dual_coef_)
        support = np.flatnonzero(signed.any(axis=0))
        with single_threaded_blas():
            objectives = self._global_objectives(whole, support, signed[:, support], max_time)
        self._set_global_certificate(objectives)
        return self

    def _global_objectives(
        self, data: TrainingData, support: Indices, signed: Floats, max_time: float | None
    ) -> Objectives:
        """Return the objectives on all rows, of which the support vectors, with these indices, have coefficients."""
        compute = landmark_objectives if self._is_of_landmarks else global_objectives
        transform = replace(self._transform.in_float64(), offset=self._offset)
        problem = self._problem(data, transform, effective_n_threads(self.n_jobs))
        return compute(problem, support, signed, self.intercept_, max_time)

    def _find_support_in(self, data: TrainingData) -> None:
        """Replace support vectors that came from several sites by the equal rows of X, in their order."""
        found = self.dual_coef_
        indices = indices_of_vectors(self.support_vectors_, found, data.X, data.labels)
        order = np.argsort(indices)
        attributes = {
            "support_": data.kept[indices[order]], "support_vectors_": data.X[indices[order]],
            "dual_coef_": np.ascontiguousarray(found[:, order]),
        }  # fmt: skip
        self.__dict__.update(attributes)

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
        if not alike:
            return False
        difference = X[indices] - vectors
        return not np.any(difference.data if sp.issparse(difference) else difference)
