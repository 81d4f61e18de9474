"""One-against-rest and one-against-one classification with kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from dimargin.estimators.certificate import pair_objectives
from dimargin.estimators.fit_plan import DataSize, FitPlan
from dimargin.estimators.input_checks import check_flag, seed_of
from dimargin.estimators.kernel_machine import support_attributes
from dimargin.estimators.kernel_margin_classifier import KernelMarginClassifier
from dimargin.estimators.kernel_parameters import row_transform_of
from dimargin.estimators.margin_machine import PreparedFit
from dimargin.estimators.training_data import Origin, TrainingData
from dimargin.kernels.user import Transform, kernel_matrix
from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.objectives import Objectives
from dimargin.problems.one_vs_one import PAIR_SCORES, pair_numbers, score_gradients, sums_of_pairs
from dimargin.problems.solution import SolveResult
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import Limits
from dimargin.solvers.row_descent import is_faster_by_rows
from dimargin.strategies import Exact, Progress, TreeShape
from dimargin.strategies.pair_training import train_pairs
from dimargin.system.arrays import Floats, Indices
from dimargin.system.threads import effective_n_threads


class MulticlassKernelClassifier(KernelMarginClassifier):
    """Base class of the one-against-rest and one-against-one kernel classifiers.

    Parameters
    ----------
    multi_class : {"auto", "one_vs_rest", "one_vs_one"}, default="auto"
        For more than two classes, "one_vs_rest" separates each class from all others. "one_vs_one"
        separates every pair of classes on their own rows, as LIBSVM and SVC do, and solves each
        pair exactly (`strategy` "auto" or "exact"); with `lam`, the mean loss of a pair is over its
        rows, and "balanced" class weights are computed from all rows. "auto" is "one_vs_one" if
        pairs have at most 100,000 rows and the strategy is exact, else "one_vs_rest".
    pair_scores : {"smallest", "votes"}, default="smallest"
        With one against one, the decision value of a class: its smallest value against another
        class, or the number of classes it wins against plus less than half for the sum of its
        values, as in SVC. Votes jump from one whole number to the next, so that probabilities
        calibrated on them are worse (docs/probabilities.md). The predicted class differs only where
        no class wins against all others.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors in X: the union over the outputs, with "one_vs_one" by class.
        Equal rows of a class may be merged into the first, with summed weights and coefficients.
    dual_coef_ : ndarray of shape (n_outputs, n_SV), or (n_classes - 1, n_SV) with "one_vs_one"
        ``y_i gamma_i``; zero for outputs that a support vector does not belong to. With
        "one_vs_one", the layout is that of SVC: a support vector has one coefficient against each
        other class, in their order. The positive class of a pair is the second, in SVC the first.
    objective_, dual_objective_ : float, or ndarray of shape (n_outputs,) for more than two classes
        Primal (positive) and dual objective of the problem that `certificate_` names. For
        "partitioned", they are weighted means over partitions ("diodm", "cascade", "dip") or sums
        over clusters ("dc"). With "one_vs_one", pairs are in the order of `itertools.combinations`.
    duality_gap_ : float
        ``(objective_ - dual_objective_) / objective_`` of the worst output and the worst partition,
        including rounding. Rounding is bounded for "linear", "poly" and user-defined kernels, with
        ``tol < 1e-4``, for pairs of up to 4,096 rows with the hinge or its square, and if the bound
        takes at most a tenth of the fit or a few milliseconds (up to a few thousand rows). Else,
        for "rbf" and "laplacian", it is measured on a sample of rows, plus five standard
        deviations.
    n_iter_ : int
        Passes over the rows, summed over the levels; with "one_vs_one", maximum over the pairs.
    history_ : list of dict
        One entry per level (strategy "exact": per check of the gap; "landmark": per Newton step;
        pairs of classes: one in total) with ``level``, ``partitions``, ``seconds`` and
        ``kernel_evaluations`` of this entry, ``objective`` (as `objective_`) and ``relative_gap``.
        Strategy "exact" adds ``factorizations`` of large kernel matrices in this entry (not for
        pairs of classes), "landmark" ``rows``, "cascade" ``round``, "dc" ``clustering_seconds``.
    """

    multi_class: str
    pair_scores: str
    fit_intercept: bool

    @property
    def _has_intercept(self) -> bool:
        return bool(self.fit_intercept)

    @property
    def _is_one_vs_one(self) -> bool:
        """Return whether the model has a decision function for each pair of three or more classes."""
        return len(self.dual_coef_) < len(self.classes_) and len(self.classes_) > 2

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_flag("fit_intercept", self.fit_intercept)
        ways = "auto", "one_vs_rest", "one_vs_one"
        if self.pair_scores not in PAIR_SCORES:
            rules = " or ".join(map(repr, PAIR_SCORES))
            raise ValueError(f"pair_scores must be {rules}, got {self.pair_scores!r}")
        if self.multi_class not in ways:
            raise ValueError(f"multi_class must be one of {', '.join(map(repr, ways))}, got {self.multi_class!r}")
        if self.multi_class != "one_vs_one":
            return
        strategy = self._check_strategy()
        if strategy is not None and type(strategy) is not Exact:
            raise ValueError(
                f"multi_class='one_vs_one' needs strategy 'auto' or 'exact', got {self.strategy!r}; change it, or "
                "set multi_class='one_vs_rest'"
            )
        for name in ("n_levels", "stop_level"):
            if getattr(self, name) != getattr(TreeShape(), name):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} was set, but multi_class='one_vs_one' does not use it; leave it "
                    "at its default, or set multi_class='one_vs_rest'"
                )

    # ---- training ------------------------------------------------------------------------------------------------

    def _plan(self, size: DataSize) -> FitPlan:
        plan = super()._plan(size)
        n_classes, largest_pair = len(size.class_counts), sum(sorted(size.class_counts)[-2:])
        if n_classes <= 2 or not self._takes_pairs(largest_pair):
            return plan
        of_solve = self._solve_memory(largest_pair, size.n_values, 1)
        memory = of_solve + 16 * size.n_rows * n_classes
        name, strategy = "exact", self._check_strategy() or Exact(by_rows=self._descends_by_rows(size))
        return replace(
            plan, name=name, strategy=strategy, memory=memory, solve_memory=of_solve, n_levels=1, one_vs_one=True
        )

    def _takes_pairs(self, largest_pair: int) -> bool:
        """Return whether to separate more than two classes one against one."""
        if self.multi_class != "auto":
            return self.multi_class == "one_vs_one"
        if self.warm_start and hasattr(self, "dual_coef_"):
            return self._is_one_vs_one
        return type(self._strategy_for(largest_pair)) is Exact

    def _prepare_data(self, data: TrainingData, plan: FitPlan) -> PreparedFit:
        if not plan.one_vs_one:
            return super()._prepare_data(data, plan)
        n_threads, seed = effective_n_threads(self.n_jobs), seed_of(self.random_state)
        order = self._order(data.X, data.y, data.row_weights, seed)
        order = order[np.argsort(data.y[order], kind="stable")]
        pairs = self._pairs(data, order, row_transform_of(self, data.X, data.weights, data.columns), n_threads)
        memory = max(0, self._cache(plan) - 16 * int(data.X.size))
        start = self._previous_signed(data, order)

        def is_by_rows(n: int) -> bool:
            n_values = int(data.X.size * n / len(data.y))
            return plan.strategy.by_rows and is_faster_by_rows(n, data.X.shape[1], n_values)

        def train(limits: Limits, progress: Progress) -> tuple[dict[str, Any], str]:
            engine = LocalEngine(n_threads, limits.cancelled)
            progress.level_begin(0, len(pairs.pairs))
            found = train_pairs(pairs, start, limits, engine, seed, memory, progress.task_end, is_by_rows)
            _, result = found
            (entry,) = result.history
            progress.level_end(entry | {"pairs": entry["partitions"]}, lambda: found)
            return model_attributes(found) | self._result_attributes(result, "global"), result.reason

        model_attributes = partial(self._pair_attributes, data, order, pairs)
        return PreparedFit(plan.n_levels, model_attributes, train)

    def _pairs(self, data: TrainingData, order: Indices, transform: Transform, n_threads: int) -> ClassPairs:
        """Return the problems of all pairs, for rows sorted by class in this order."""
        bounds = np.searchsorted(data.y[order], np.arange(len(data.classes) + 1))
        kernel = kernel_matrix(transform, data.X, n_threads=n_threads).take(order)
        return ClassPairs(data.weights[order], bounds, self._loss(), self._has_intercept, kernel)

    def _previous_dual(self, data: TrainingData, order: Indices) -> Floats | None:
        if self.warm_start and hasattr(self, "dual_coef_") and self._is_one_vs_one:
            self._refuse_other_start("one_vs_one")
        return super()._previous_dual(data, order)

    def _previous_signed(self, data: TrainingData, order: Indices) -> Floats | None:
        """Return coefficients times labels of the previous fit, for rows in this order."""
        if not self.warm_start or not hasattr(self, "dual_coef_"):
            return None
        self._check_same_rows(data)
        if not self._is_one_vs_one:
            self._refuse_other_start("one_vs_rest")
        return data.sums(self.support_, self.dual_coef_)[:, order]

    def _refuse_other_start(self, before: str) -> None:
        now = next(way for way in ("one_vs_one", "one_vs_rest") if way != before)
        raise ValueError(f"warm_start=True needs a previous fit with {now!r}, but it was with {before!r}")

    # ---- fitted attributes ---------------------------------------------------------------------------------------

    def _pair_attributes(
        self, data: TrainingData, order: Indices, pairs: ClassPairs, found: tuple[Floats, SolveResult]
    ) -> dict[str, Any]:
        """Return the fitted attributes that prediction needs."""
        signed, result = found
        support = np.flatnonzero(signed.any(axis=0))
        given, codes = data.kept[order[support]], data.y[order[support]]
        by_class = np.lexsort((given, codes))
        support = support[by_class]
        transform = pairs.kernel.transform
        origin = Origin(data.classes, len(order), data.n_given, transform, None, data.is_thinned, data.columns)
        signed = np.ascontiguousarray(signed[:, support])
        vectors, intercept = pairs.kernel.vectors(support), result.objectives.intercept
        return support_attributes(origin, given[by_class], codes, vectors, signed, intercept)

    def _global_objectives(
        self, data: TrainingData, support: Indices, signed: Floats, max_time: float | None
    ) -> Objectives:
        if not self._is_one_vs_one:
            return super()._global_objectives(data, support, signed, max_time)
        order = np.argsort(data.y, kind="stable")
        pairs = self._pairs(data, order, self._transform.in_float64(), effective_n_threads(self.n_jobs))
        every = np.zeros((len(signed), len(order)))
        every[:, support] = signed
        return pair_objectives(pairs, every[:, order], self.intercept_, float(self.tol), max_time)

    # ---- prediction ----------------------------------------------------------------------------------------------

    def _decision_values(self, X: Any) -> Floats:
        if not hasattr(self, "dual_coef_") or not self._is_one_vs_one:
            return super()._decision_values(X)
        n_rows, batches = self._batches(X)
        values, numbers = np.empty((n_rows, len(self.classes_))), pair_numbers(len(self.classes_))
        scores = PAIR_SCORES[self.pair_scores]
        for batch, part in batches:
            of_batch = values[batch]
            # A piece has 16 MiB of decision values of pairs, but at least 32 rows.
            for piece in gen_batches(part.shape[0], max(32, 2**21 // len(self.intercept_))):
                of_batch[piece] = scores(self._values_of_batch(part[piece]), numbers)
        return values

    def _values(self, part: Any) -> Floats:
        if not self._is_one_vs_one:
            return super()._values(part)
        matrix = self._kernel_with(part)
        return self._sums_of_pairs(part.shape[0], lambda rows, factors: matrix.multiply(rows, factors))

    def _gradients(self, part: Any) -> Any:
        if not self._is_one_vs_one:
            return super()._gradients(part)
        width, vectors = part.shape[0] * part.shape[1], self.support_vectors_
        pairs = self._sums_of_pairs(
            width, lambda own, factors: self._sum_gradients(vectors[own], factors, part).reshape(-1, width)
        ).reshape(-1, *part.shape)
        return score_gradients(self.pair_scores, self._values_of_batch(part), pairs, pair_numbers(len(self.classes_)))

    def _weights(self) -> Floats:
        if not self._is_one_vs_one:
            return super()._weights()
        return self._sums_of_pairs(self.n_features_in_, lambda rows, factors: factors @ self.support_vectors_[rows])

    def _sums_of_pairs(self, width: int, sums: Callable[[Indices, Floats], Floats]) -> Floats:
        """Compute sums over the support vectors of each pair, see `sums_of_pairs`."""
        of_class = np.split(np.arange(len(self.support_)), np.cumsum(self.n_support_)[:-1])
        return sums_of_pairs(self.dual_coef_, of_class, width, sums)
