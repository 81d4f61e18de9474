"""A machine with parameters chosen by cross-validation, whatever it is."""

from __future__ import annotations

import numbers
import time
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils import column_or_1d
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators import (
    LinearLossClassifier,
    MarginClassifier,
    ODMClassifier,
    SVMClassifier,
)
from dimargin.estimators.diagram import CertificateDiagram, visual_block
from dimargin.estimators.fit_progress import Monitor, interruptible, interruption, monitor_of, observed
from dimargin.estimators.input_checks import check_number, seed_of
from dimargin.estimators.margin_classifier import no_probabilities
from dimargin.estimators.margin_machine import unchanged_on_failure
from dimargin.estimators.search.folds import Fold, nested_order
from dimargin.estimators.search.grids import beyond, default_grid, edges, widened
from dimargin.estimators.search.halving import Round, plan, successive_halving
from dimargin.estimators.search.scoring import ORDERED, SHARED, Report, Search, choice, context_of, results
from dimargin.estimators.sklearn_callbacks import CallbackSupportMixin, with_callbacks
from dimargin.estimators.training_data import (
    TrainingData,
    narrow,
    on_stored_columns,
    training_data,
    with_class_weight,
)
from dimargin.kernels.column_statistics import with_constant
from dimargin.shards.local_engine import LocalEngine
from dimargin.system.arrays import Floats
from dimargin.system.plain_numbers import PlainNumbers
from dimargin.system.threads import effective_n_threads, single_threaded_blas


@dataclass(eq=False, repr=False)
class MachineSearch(
    PlainNumbers, CertificateDiagram, CallbackSupportMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator
):
    """Base class of `ODMClassifierCV` and `SVMClassifierCV`, which differ in their default machine.

    Parameters
    ----------
    cv : int or cross-validation splitter, default=3
        Number of folds, which are stratified and shuffled by `random_state`; fewer if all classes
        have fewer rows. With `groups`, each group is in one fold, and the number of folds is at
        most that of the groups. A splitter of scikit-learn defines its own folds.
    factor : float, default=3
        Each round has this many times fewer candidates, on this many times more rows.
    finalists : int, default=2
        Number of candidates in the last round.
    min_rows, max_rows : int, default=1000 and 10000
        Minimum number of training rows of a fold in the first round, and maximum in the last. More
        rows need narrower kernels; raise `min_rows` if the first round chooses too wide ones.
    search_tol : float, default=0.2
        Relative duality gap of candidates, which are solved in at most 30 passes. This
        distinguishes good candidates from bad ones; if the best ones differ by less than 0.05
        percentage points, as on cod-rna, a smaller value may choose better.
    scoring : str, callable or None, default=None
        As in scikit-learn; None is accuracy, weighted by row weights and the estimator's
        `class_weight`.
    max_time : float or None, default=None
        Time limit in seconds, including the last fit. The search takes at most half of it; if it is
        cut short, the best candidate so far is trained.
    max_widenings : int, default=3
        How many times the default grid may be widened. If the best candidate has the smallest or
        largest gamma, lam or C of the grid, a round more tries values beyond it. A given
        `param_grid` is not widened; `edges_` says whether the best candidate is at its edge.
    n_jobs : int or None, default=None
        Number of threads; the result does not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 logs one line per round, as `SVMClassifier` does.

    Attributes
    ----------
    best_estimator_ : classifier
        Trained on all rows with the best parameters.
    best_params_ : dict
    best_score_ : float
        Mean score over the folds in the last complete round, or over the scored folds of the first
        round if none is complete. A fit that was cut off has no score. It is NaN, and
        `best_params_` is empty, if no candidate was scored before a limit or an interruption.
    best_index_ : int or None
        Index of the entry of `cv_results_` by which the best candidate was chosen; None if no
        candidate was scored.
    edges_ : dict of str to {"smallest", "largest"}
        Parameters among gamma, lam and C of which three values or more were scored, and whose best
        value is at the edge of them: a value beyond it may be better.
    cv_results_ : dict of arrays
        One entry per candidate and round, in the order of the rounds: ``params``, ``param_...``,
        ``round``, ``n_rows``, ``split0_test_score`` ... (NaN for folds that a round does not use,
        and for fits that did not begin or were cut off), ``mean_test_score``, ``std_test_score``,
        ``rank_test_score`` (within the round).
    rounds_ : list of dict
        ``round``, ``candidates``, ``rows``, ``seconds``, ``kernel_evaluations``, ``best_score``, and
        ``beyond``, the values beyond the edges of the grid that the round tried, by parameter.
    search_seconds_, refit_seconds_ : float
    n_splits_ : int
    """

    # Groups are routed to the splitter instead.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"groups": UNUSED}

    estimator: MarginClassifier | None = None
    param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    cv: Any = 3
    factor: float = 3.0
    finalists: int = 2
    min_rows: int = 1000
    max_rows: int = 10_000
    search_tol: float = 0.2
    scoring: Any = None
    max_time: float | None = None
    max_widenings: int = 3
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- training ------------------------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Search the parameters, and train the machine on all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels of any type, two classes or more.
        sample_weight : array-like of shape (n_samples,), optional
            As in `fit` of the estimator.
        groups : array-like of shape (n_samples,), optional
            Group of every row, such as a patient. In all rounds, the rows of a group are either
            training or test rows of a fold. A splitter may use the groups differently.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If a parameter, a candidate or a value is out of range; the message names it.
        KeyboardInterrupt
            After Ctrl-C, once the search holds a model. If candidates were still being scored, the
            best one so far is trained first; Ctrl-C during the last fit ends it with the best model
            so far. A second Ctrl-C stops immediately, and the search is as it was before.
        """
        began, monitor = time.perf_counter(), monitor_of(self)
        with unchanged_on_failure(self), interruptible(self, monitor.interrupted) as interrupted:
            self._check_numbers()
            estimator = self._base()
            data = training_data(estimator, X, y, sample_weight)
            if isinstance(estimator, LinearLossClassifier):
                data = on_stored_columns(data)[0]
                data = replace(data, X=with_constant(data.X, estimator.constant_feature))
            elif not callable(estimator.kernel):
                data = narrow(data)
            candidates = self._candidates(estimator, data)
            folds = self._folds(data, X, y, self._groups_for_folds(data.n_given, groups))
            n_rows = min(int(self.max_rows), max(len(fold.train) for fold in folds))
            rungs = plan(
                len(candidates), n_rows, len(folds), float(self.factor), int(self.min_rows), int(self.finalists)
            )
            widenings = int(self.max_widenings) if self.param_grid is None else 0
            context = self._init_callback_context(max_subtasks=len(rungs) + widenings + 1)
            hooks = {"estimator": self, "X": X, "y": y, "metadata": {"sample_weight": sample_weight, "groups": groups}}
            context.call_on_fit_task_begin(**hooks)
            scorer = None if self.scoring is None else check_scoring(estimator, self.scoring)
            engine = LocalEngine(effective_n_threads(self.n_jobs), Event())
            deadline = None if self.max_time is None else began + self.max_time / 2
            report, tol = Report(context, hooks, monitor, bool(self.verbose)), float(self.search_tol)
            search = Search(estimator, data, candidates, folds, scorer, engine, tol, deadline, report)
            with single_threaded_blas():
                rounds = successive_halving(rungs, search.evaluate)
                for _ in range(widenings):
                    if not self._widen(search, rounds):
                        break
            self.n_splits_, self.cv_results_, self.rounds_ = len(folds), results(rounds, candidates), search.rounds
            best, self.best_index_ = choice(rounds)
            scores = self.cv_results_["mean_test_score"]
            self.best_score_ = np.nan if self.best_index_ is None else float(scores[self.best_index_])
            self.best_params_ = {} if best is None else candidates[best]
            scored = {index for found in rounds for index in found.candidates[np.isfinite(found.means)]}
            self.edges_ = edges(self.best_params_, [candidates[index] for index in sorted(scored)])
            if not rounds[-1].complete:
                of_plan = f"after {len(rounds) - 1} of {len(rungs)} rounds"
                done = of_plan if len(rounds) <= len(rungs) else "while the grid was widened"
                trained = (
                    "no candidate was scored, and the machine is trained with its own parameters"
                    if best is None
                    else "the best candidate so far is trained"
                )
                text = f"the search was cut short {done}; {trained}"
                warnings.warn(text, ConvergenceWarning, stacklevel=3)
            self.search_seconds_ = time.perf_counter() - began
            with context_of(context, "refit", hooks):
                self.best_estimator_ = self._refitted(estimator, monitor, X, y, sample_weight)
            self.refit_seconds_ = time.perf_counter() - began - self.search_seconds_
            context.call_on_fit_task_end(**hooks)
        if interrupted.is_set():
            raise interruption(self)
        return self

    def _widen(self, search: Search, rounds: list[Round]) -> bool:
        """Append a round beyond the edges at which the best candidate is, and return whether to go on."""
        best, _ = choice(rounds)
        if best is None or not rounds[-1].complete or search.limits.reached:
            return False
        if not (values := beyond(search.candidates[best], search.candidates)):
            return False
        added = widened(search.candidates[best], values)
        indices = np.array([best, *range(len(search.candidates), len(search.candidates) + len(added))])
        search.add(added)
        rung = replace(rounds[-1].rung, number=rounds[-1].rung.number + 1, n_candidates=len(indices))
        rounds.append(Round(rung, indices, search.evaluate(rung, indices, values)))
        return choice(rounds)[0] != best

    def _check_numbers(self) -> None:
        check_number("factor", self.factor, 1)
        check_number("search_tol", self.search_tol, 0)
        for name in ("finalists", "min_rows", "max_rows"):
            check_number(name, getattr(self, name), 2, low_included=True, whole=True)
        check_number("max_widenings", self.max_widenings, 0, low_included=True, whole=True)
        check_number("max_time", self.max_time, 0, or_none=True)

    def _refitted(self, estimator: Any, monitor: Monitor, X: Any, y: Any, sample_weight: Any) -> Any:
        """Train a machine with the best parameters on all rows."""
        machine = clone(estimator).set_params(**self.best_params_)
        if self.max_time is not None:
            machine.set_params(max_time=max(self.max_time - self.search_seconds_, 1e-3))
        # An interruption of the search must not interrupt the final fit.
        with observed(machine, Monitor() if monitor.interrupted.is_set() else monitor):
            monitor.refit_begin()
            machine.fit(X, y, sample_weight)
        return machine.set_params(max_time=estimator.max_time)

    @abstractmethod
    def _default_machine(self) -> MarginClassifier:
        """Return the machine that is tuned if no other is given."""

    def _base(self) -> Any:
        """Return a checked copy of the estimator."""
        estimator: Any = self._default_machine() if self.estimator is None else clone(self.estimator)
        if not isinstance(estimator, (ODMClassifier, SVMClassifier, LinearLossClassifier)):
            raise TypeError(
                "estimator must be an ODMClassifier, an SVMClassifier, a LinearODMClassifier or a LinearSVMClassifier, "
                f"got {estimator!r}"
            )
        if self.estimator is None:
            estimator.set_params(random_state=self.random_state, n_jobs=self.n_jobs)
        if getattr(estimator, "kernel", None) == "precomputed":
            raise ValueError("kernel='precomputed' cannot be tuned; give the kernel as a function or by name")
        estimator.fit_plan()
        return estimator

    def _candidates(self, estimator: Any, data: TrainingData) -> list[dict[str, Any]]:
        """Return the candidates after validating each of them."""
        grid: Any = self.param_grid
        if grid is None:
            grid = default_grid(estimator, data)
        known = [name for name in (*SHARED, *ORDERED) if name in estimator.get_params(deep=False)]
        candidates = list(ParameterGrid(grid))
        for params in candidates:
            unknown = sorted(set(params) - set(known))
            if unknown:
                raise ValueError(f"param_grid may hold {', '.join(known)}; got {unknown}")
            machine = clone(estimator).set_params(**params)
            machine.fit_plan(len(data.y))
            with_class_weight(data, machine.class_weight)
        return candidates

    @property
    def _has_own_folds(self) -> bool:
        """Return whether `cv` is a number of folds."""
        return isinstance(self.cv, numbers.Integral)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata of `fit`: `sample_weight`, and those of the splitter."""
        splitter = StratifiedGroupKFold() if self._has_own_folds else self.cv
        mapping = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(splitter=splitter, method_mapping=mapping)

    def _groups_for_folds(self, n_rows: int, groups: Any) -> dict[str, Any]:
        """Return the splitter's arguments for groups; raises ValueError if these are invalid."""
        if groups is None:
            return {}
        found = column_or_1d(groups, dtype=None)
        if len(found) != n_rows:
            raise ValueError(f"groups must have an entry for each of the {n_rows} rows, got {len(found)}")
        missing = [row for row, group in enumerate(found.tolist()) if group is None or group != group]
        if missing:
            raise ValueError(f"groups must have a group for every row, got {found[missing[0]]!r} for row {missing[0]}")
        if get_config()["enable_metadata_routing"]:
            return dict(process_routing(self, "fit", groups=found).splitter.split)
        return {"groups": found}

    def _folds(self, data: TrainingData, X: Any, y: Any, grouped: dict[str, Any]) -> list[Fold]:
        """Return folds of the rows with positive weight.

        A splitter of the caller splits all given rows, because its indices refer to these.
        """
        rng = np.random.default_rng(seed_of(self.random_state))
        if self._has_own_folds:
            grouped = {name: values[data.kept] for name, values in grouped.items()}
            splitter, given = self._own_splitter(data, grouped, rng), (np.zeros(len(data.y)), data.y)
            indices = np.arange(len(data.y))
        else:
            splitter, given = check_cv(self.cv, y, classifier=True), (X, y)
            indices = np.full(data.n_given, -1)
            indices[data.kept] = np.arange(len(data.y))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
            splits = list(splitter.split(*given, **grouped))
        folds = []
        for number, split in enumerate(splits):
            train, test = (indices[rows][indices[rows] >= 0] for rows in split)
            for rows, what in ((train, "training"), (test, "test")):
                if not len(rows):
                    raise ValueError(f"fold {number} of cv has no {what} rows with weight")
            train, test = (rows[nested_order(data.y[rows], rng)] for rows in (train, test))
            folds.append(Fold(train, test))
        return folds

    def _own_splitter(self, data: TrainingData, grouped: dict[str, Any], rng: np.random.Generator) -> Any:
        """Return a splitter with `cv` folds, or fewer if classes or groups are too small or few."""
        check_number("cv", self.cv, 2, low_included=True, whole=True)
        largest = int(np.bincount(data.y).max())
        if largest < 2:
            raise ValueError("cross-validation needs a class with two rows or more; every class has only one")
        seed = int(rng.integers(2**31))
        if not grouped:
            return StratifiedKFold(min(int(self.cv), largest), shuffle=True, random_state=seed)
        n_groups = len(np.unique(grouped["groups"]))
        if n_groups < 2:
            raise ValueError("groups must have two groups or more among rows with positive weight, got one")
        return StratifiedGroupKFold(min(int(self.cv), largest, n_groups), shuffle=True, random_state=seed)

    def _sk_visual_block_(self) -> Any:
        """Return the block of scikit-learn's diagram around the best or the given machine."""
        own = vars(self)
        name = "best_estimator_" if "best_estimator_" in own else "estimator"
        machine = own[name]
        if machine is None:
            return super()._sk_visual_block_()
        return visual_block("parallel", [machine], [f"{name}: {type(machine).__name__}"], [str(machine)])

    # ---- the tuned machine ---------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        # Fitted attributes are those of the best estimator.
        if name.endswith("_") and not name.startswith("_") and "best_estimator_" in self.__dict__:
            return getattr(self.best_estimator_, name)
        if name == "predict_proba":
            raise no_probabilities(self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def decision_function(self, X: Any) -> Floats:
        """Compute the decision values of the best estimator."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.decision_function(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels, of shape (n_samples,), with the best estimator."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the score of the best estimator by `scoring`."""
        check_is_fitted(self, "best_estimator_")
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        if self.scoring is None:
            return float(self.best_estimator_.score(X, y, **weights))
        return float(check_scoring(self.best_estimator_, self.scoring)(self.best_estimator_, X, y, **weights))
