"""NuSVC, NuSVR and OneClassSVM: subclasses of scikit-learn's, solved by this library."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import sklearn.svm

from dimargin.estimators.input_checks import check_number
from dimargin.estimators.kernel_machine import support_attributes
from dimargin.estimators.kernel_parameters import kernel_transform
from dimargin.estimators.margin_machine import warn_unless_converged
from dimargin.estimators.margin_regressor import median_of, rounding_of_sums, targets_of, unit_of
from dimargin.estimators.svm import SVMClassifier
from dimargin.estimators.svr import SVMRegressor
from dimargin.estimators.training_data import Origin
from dimargin.estimators.wide_attributes import set_attributes
from dimargin.kernels.user import kernel_matrix
from dimargin.problems.nu import NuProblem
from dimargin.problems.objectives import Objectives
from dimargin.problems.one_vs_one import pairs_of, slots_of
from dimargin.problems.solution import Solution
from dimargin.solvers import Limits
from dimargin.solvers.nu import solve_nu, solve_nu_regression
from dimargin.solvers.progress import rounding_verdict
from dimargin.svm.certified import MORE_PARAMETERS, warnings_named
from dimargin.svm.libsvm import DEFAULT_PROBABILITY, CertifiedClassifier, CertifiedLibsvm
from dimargin.system.arrays import Floats, Indices
from dimargin.system.threads import effective_n_threads, single_threaded_blas


class NuLibsvm(CertifiedLibsvm):
    """Base class of the nu machines, with the machine that predicts."""

    def _kernel(self: Any, X: Any, weights: Floats) -> tuple[Any, dict[str, Any]]:
        """Return the kernel matrix of rows, and the parameters of machines."""
        check_number("max_time", self.max_time, 0, or_none=True)
        check_number("n_jobs", self.n_jobs, -math.inf, whole=True, or_none=True)
        own = self._machine_parameters(X.shape[0])
        transform = kernel_transform(X, weights, own["kernel"], own["gamma"], own["degree"], own["coef0"])
        return kernel_matrix(transform, X, n_threads=effective_n_threads(self.n_jobs)), own

    def _limits(self: Any, own: dict[str, Any], began: float) -> Limits:
        deadline = None if self.max_time is None else began + self.max_time
        return Limits(own["tol"], own["max_iter"], deadline)

    def _finished(
        self: Any, machine: Any, kernel: Any, kept: Indices, signed: Floats, intercept: Floats,
        found: list[Solution], codes: Indices, classes: Any,
    ) -> Any:  # fmt: skip
        """Return the machine with the attributes of a fit."""
        support = np.flatnonzero(signed.any(axis=0))
        support = support[np.argsort(codes[support], kind="stable")]
        origin = Origin(classes, len(kept), int(kept[-1]) + 1, kernel.transform)
        vectors = kernel.vectors(support)
        attributes = support_attributes(
            origin, kept[support], codes[support], vectors, np.ascontiguousarray(signed[:, support]), intercept
        )
        objectives = Objectives.joined([one.objectives for one in found])
        gap, worst = objectives.worst_gap, max(found, key=lambda one: one.objectives.worst_gap)
        status, reason = ("converged" if gap <= machine.tol else worst.status), worst.reason
        if status == "converged" and gap > machine.tol:  # Rounding was added after the solve.
            status, reason = rounding_verdict(objectives, machine.tol)
        set_attributes(
            machine,
            attributes
            | {
                "objective_": objectives.primal if len(found) > 1 else float(objectives.primal[0]),
                "dual_objective_": objectives.dual if len(found) > 1 else float(objectives.dual[0]),
                "duality_gap_": gap, "certificate_": "global", "history_": [],
                "status_": status,
                "n_iter_": max(one.passes for one in found),
            },
        )  # fmt: skip
        with warnings_named(type(self).__name__, type(machine).__name__):
            warn_unless_converged(machine, reason)
        return machine


class NuSVC(CertifiedClassifier, NuLibsvm, sklearn.svm.NuSVC):
    """Nu-support vector classification, with the parameters, attributes and methods of `sklearn.svm.NuSVC`.

    Parameters
    ----------
    nu, kernel, degree, gamma, coef0, shrinking, probability, tol, cache_size, class_weight, verbose, max_iter
        As in `sklearn.svm.NuSVC`.
    decision_function_shape, break_ties, random_state
        As in `sklearn.svm.NuSVC`.
    max_time, n_jobs, allow_uncertified
        As in `SVC`.

    Attributes
    ----------
    objective_, dual_objective_, duality_gap_, certificate_, status_, history_
        Of the problem of Schoelkopf et al. (2000), ``1/2 |w|^2 - nu W rho + sum_i s_i (rho - m_i)_+`` with the total
        weight W of the rows; for several classes of every pair. All other attributes are those of
        `sklearn.svm.NuSVC`, with coefficients scaled to a margin of one.

    Examples
    --------
    >>> from dimargin.svm import NuSVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = NuSVC(nu=0.3).fit(X, y)
    >>> machine.score(X, y) > 0.95, machine.duality_gap_ <= 1e-3
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = sklearn.svm.NuSVC._parameter_constraints | MORE_PARAMETERS

    def __init__(
        self, *, nu: float = 0.5, kernel: Any = "rbf", degree: int = 3, gamma: str | float = "scale",
        coef0: float = 0.0, shrinking: bool = True, probability: Any = DEFAULT_PROBABILITY, tol: float = 1e-3,
        cache_size: float = 200, class_weight: Any = None, verbose: bool = False, max_iter: int = -1,
        decision_function_shape: str = "ovr", break_ties: bool = False, random_state: Any = None,
        max_time: float | None = None, n_jobs: int | None = None, allow_uncertified: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            nu=nu, kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, shrinking=shrinking,
            probability=probability, tol=tol, cache_size=cache_size, class_weight=class_weight, verbose=verbose,
            max_iter=max_iter, decision_function_shape=decision_function_shape, break_ties=break_ties,
            random_state=random_state,
        )  # fmt: skip
        self.max_time, self.n_jobs, self.allow_uncertified = max_time, n_jobs, allow_uncertified

    def _train(self: Any, X: Any, y: Floats, weights: Floats) -> SVMClassifier:
        # Whether nu is feasible is asked before whether there are two classes.
        counts = np.bincount(y.astype(np.int64), weights * self.class_weight_[y.astype(np.int64)])
        names = self.classes_.tolist()
        for first, second in pairs_of(len(names)).tolist():
            smaller, total = min(counts[first], counts[second]), counts[first] + counts[second]
            if self.nu * total / 2 > smaller * (1 + 1e-12):
                raise ValueError(
                    f"specified nu is infeasible: nu={self.nu:g} must be at most {2 * smaller / total:.4g} for the "
                    f"classes {names[first]!r} and {names[second]!r}"
                )
        return super()._train(X, y, weights)

    def _trained(self: Any, X: Any, codes: Indices, weights: Floats) -> SVMClassifier:
        began, kept = time.perf_counter(), np.flatnonzero(weights > 0)
        X = X[np.ix_(kept, kept)] if self._is_precomputed else X[kept]
        codes, weights = codes[kept], weights[kept]
        kernel, own = self._kernel(X, weights)
        n_classes = int(codes.max()) + 1
        pairs, found, intercepts = pairs_of(n_classes), [], []
        signed, slots = np.zeros((n_classes - 1, len(codes))), slots_of(pairs)
        with single_threaded_blas():
            for (first, second), (slot_first, slot_second) in zip(pairs.tolist(), slots.tolist(), strict=True):
                rows = np.flatnonzero((codes == first) | (codes == second))
                labels = np.where(codes[rows] == second, 1.0, -1.0)
                problem = NuProblem.of_labels(kernel.take(rows), labels, weights[rows], float(self.nu))
                result = solve_nu(problem, self._limits(own, began))
                result = replace(result, objectives=problem.scaled(result.dual, result.objectives))
                positive, negative = result.objectives.intercept[0].tolist()
                rho = 0.5 * (positive + negative)
                if not rho > 0:  # Then w is zero as well, and nothing can be scaled to a margin of one.
                    rho = 1.0
                    if result.status != "max_time":
                        reason = f"the margin is zero for classes that overlap, unless nu={self.nu:g} is raised"
                        result = replace(result, status="precision", reason=reason)
                slot = np.where(labels > 0, slot_second, slot_first)
                signed[slot, rows] = labels * result.dual[0] / rho
                intercepts.append(0.5 * (negative - positive) / rho)
                found.append(result)
        machine = SVMClassifier(C=1.0, multi_class="one_vs_one", pair_scores="votes", **own)
        machine.n_features_in_ = X.shape[1]
        return self._finished(  # type: ignore[no-any-return]
            machine, kernel, kept, signed, np.array(intercepts), found, codes, np.arange(n_classes)
        )


class NuSVR(NuLibsvm, sklearn.svm.NuSVR):
    """Nu-support vector regression, with the parameters, attributes and methods of `sklearn.svm.NuSVR`.

    Parameters
    ----------
    nu, C, kernel, degree, gamma, coef0, shrinking, tol, cache_size, verbose, max_iter
        As in `sklearn.svm.NuSVR`.
    max_time, n_jobs, allow_uncertified
        As in `SVC`.

    Attributes
    ----------
    objective_, dual_objective_, duality_gap_, certificate_, status_, history_
        Of the problem ``1/2 |w|^2 + C (nu W epsilon + sum_i s_i (|f(x_i) - y_i| - epsilon)_+)`` with the total
        weight W of the rows. All other attributes are those of `sklearn.svm.NuSVR`.

    Examples
    --------
    >>> from dimargin.svm import NuSVR
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(500, random_state=0)
    >>> machine = NuSVR(C=100.0, nu=0.2).fit(X, y)
    >>> machine.score(X, y) > 0.99, machine.duality_gap_ <= 1e-3
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = sklearn.svm.NuSVR._parameter_constraints | MORE_PARAMETERS

    def __init__(
        self, *, nu: float = 0.5, C: float = 1.0, kernel: Any = "rbf", degree: int = 3, gamma: str | float = "scale",
        coef0: float = 0.0, shrinking: bool = True, tol: float = 1e-3, cache_size: float = 200, verbose: bool = False,
        max_iter: int = -1,
        max_time: float | None = None, n_jobs: int | None = None, allow_uncertified: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            nu=nu, C=C, kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, shrinking=shrinking, tol=tol,
            cache_size=cache_size, verbose=verbose, max_iter=max_iter,
        )  # fmt: skip
        self.max_time, self.n_jobs, self.allow_uncertified = max_time, n_jobs, allow_uncertified

    def _train(self: Any, X: Any, y: Floats, weights: Floats) -> SVMRegressor:
        began, kept = time.perf_counter(), np.flatnonzero(weights > 0)
        X = X[np.ix_(kept, kept)] if self._is_precomputed else X[kept]
        y, weights = targets_of(y)[kept], weights[kept]
        kernel, own = self._kernel(X, weights)
        centre = median_of(y, weights)
        unit = unit_of(y - centre, weights)
        price, targets = self._price / unit, (y - centre) / unit
        with single_threaded_blas():
            result = solve_nu_regression(kernel, targets, weights, float(self.nu), price, self._limits(own, began))
        machine = SVMRegressor(C=self._price, **own)
        machine.n_features_in_ = X.shape[1]
        found = result.objectives
        shift = unit * found.intercept
        intercept = shift + centre
        # Targets and the intercept are rounded once more; this bounds what that adds to the losses.
        moved = rounding_of_sums(y, -centre).max() + rounding_of_sums(shift, centre)
        size, added = unit**2 * np.abs(found.primal), self._price * float(weights.sum()) * moved
        result = replace(result, objectives=Objectives.of(
            unit**2 * found.primal, found.unrounded * size, intercept, found.rounding * size + added
        ))  # fmt: skip
        signed = unit * result.dual
        none = np.zeros(len(y), dtype=np.int64)
        return self._finished(  # type: ignore[no-any-return]
            machine, kernel, kept, signed, intercept, [result], none, np.empty(0)
        )


class OneClassSVM(NuLibsvm, sklearn.svm.OneClassSVM):
    """Detection of outliers, with the parameters, attributes and methods of `sklearn.svm.OneClassSVM`.

    It is the machine of Schoelkopf et al., "Estimating the support of a high-dimensional distribution", Neural
    Computation 13, 2001: at most a share `nu` of the training rows are outside, and at least as many are support
    vectors.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol, nu, shrinking, cache_size, verbose, max_iter
        As in `sklearn.svm.OneClassSVM`.
    max_time, n_jobs, allow_uncertified
        As in `SVC`.

    Attributes
    ----------
    objective_, dual_objective_, duality_gap_, certificate_, status_, history_
        Of the problem ``1/2 |w|^2 - nu W rho + sum_i s_i (rho - f_i)_+`` with the total weight W of the rows. All other
        attributes are those of `sklearn.svm.OneClassSVM`.

    See Also
    --------
    dimargin.OneClassCoreSetSVM : The machine with squared slack, on a core-set.

    Examples
    --------
    >>> from dimargin.svm import OneClassSVM
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> machine = OneClassSVM(nu=0.05).fit(X)
    >>> machine.predict([[0.1, -0.2], [6.0, 6.0]]), int((machine.predict(X) == -1).sum()) <= 50
    (array([ 1, -1]), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = sklearn.svm.OneClassSVM._parameter_constraints | MORE_PARAMETERS

    def __init__(
        self, *, kernel: Any = "rbf", degree: int = 3, gamma: str | float = "scale", coef0: float = 0.0,
        tol: float = 1e-3, nu: float = 0.5, shrinking: bool = True, cache_size: float = 200, verbose: bool = False,
        max_iter: int = -1,
        max_time: float | None = None, n_jobs: int | None = None, allow_uncertified: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, tol=tol, nu=nu, shrinking=shrinking,
            cache_size=cache_size, verbose=verbose, max_iter=max_iter,
        )  # fmt: skip
        self.max_time, self.n_jobs, self.allow_uncertified = max_time, n_jobs, allow_uncertified

    def _train(self: Any, X: Any, y: Floats, weights: Floats) -> SVMRegressor:
        began, kept = time.perf_counter(), np.flatnonzero(weights > 0)
        X = X[np.ix_(kept, kept)] if self._is_precomputed else X[kept]
        weights = weights[kept]
        kernel, own = self._kernel(X, weights)
        with single_threaded_blas():
            problem = NuProblem.of_labels(kernel, np.ones(len(kept)), weights, float(self.nu))
            result = solve_nu(problem, self._limits(own, began))
        machine = SVMRegressor(**own)
        machine.n_features_in_ = X.shape[1]
        none = np.zeros(len(kept), dtype=np.int64)
        return self._finished(  # type: ignore[no-any-return]
            machine, kernel, kept, result.dual, -result.objectives.intercept[:, 0], [result], none, np.empty(0)
        )

    def _predicted(self: Any, X: Any) -> Floats:
        """Return one for inliers, and minus one for outliers."""
        return np.where(self._values(X)[:, 0] > 0, 1.0, -1.0)
