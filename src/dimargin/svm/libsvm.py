"""SVC and SVR: subclasses of scikit-learn's, in which this library takes the place of LIBSVM.

They inherit parameters, checks, attributes, signs and methods, and replace only the calls of the compiled
LIBSVM: scikit-learn's ``_dense_fit`` and ``_sparse_fit``, and the decision values. Coefficients are therefore
kept with LIBSVM's signs, where the first class of a pair is the positive one.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import sklearn
import sklearn.svm
from scipy.spatial.distance import cdist
from sklearn.utils import gen_batches

from dimargin.estimators.svm import SVMClassifier
from dimargin.estimators.svr import SVMRegressor
from dimargin.problems.one_vs_one import pairs_of
from dimargin.svm.certified import CERTIFICATE, MORE_PARAMETERS, check_uncertified, warnings_named
from dimargin.svm.platt import Train, pair_sigmoids
from dimargin.system.arrays import Floats, Indices

DEFAULT_PROBABILITY: Any = inspect.signature(sklearn.svm.SVC).parameters["probability"].default
INFINITE_C = 1e10
"""C in place of an infinite one."""

FEW_NUMBERS = 2**18
"""Numbers of support vectors times rows up to which decision values are computed without preparations."""

FEW_ROWS = 2
"""Rows whose decision values are computed without preparations in any case."""

MAX_PASSES = 1000
"""Passes over the rows where ``max_iter=-1`` sets no limit."""


class CertifiedLibsvm:
    """Mixin of scikit-learn's classes on LIBSVM: training and decision values by this library.

    Parameters
    ----------
    max_time : float or None, default=None
        Seconds after which the best model so far is returned, with a ConvergenceWarning.
    n_jobs : int or None, default=None
        Number of threads; None is one for every processor. Results do not depend on it.
    allow_uncertified : bool or None, default=None
        Whether scikit-learn's own class solves what can have no certificate, because the kernel is not positive
        semi-definite: "sigmoid", "poly" with a negative `coef0`. None is False, unless
        `dimargin.patch_sklearn` has put this class in the place of scikit-learn's.
    """

    _sign: ClassVar[float] = 1.0  # That of LIBSVM's coefficients relative to ours.
    _machine: Any

    # ---- training ------------------------------------------------------------------------------------------------

    def _dense_fit(
        self: Any, X: Any, y: Floats, sample_weight: Floats, solver_type: int, kernel: str, random_seed: int
    ) -> None:
        if self._is_left_to_libsvm():
            super()._dense_fit(X, y, sample_weight, solver_type, kernel, random_seed)  # type: ignore[misc]
            return
        if callable(self.kernel):
            # scikit-learn's own methods look for the rows by this name.
            self._BaseLibSVM__Xfit = X
            X = self._compute_kernel(X)
            if X.shape != (len(y), len(y)):
                raise ValueError(f"the kernel must return a square matrix for the {len(y)} rows, got shape {X.shape}")
        self._fit_machine(X, y, sample_weight, random_seed)

    def _sparse_fit(
        self: Any, X: Any, y: Floats, sample_weight: Floats, solver_type: int, kernel: str, random_seed: int
    ) -> None:
        if self._is_left_to_libsvm():
            super()._sparse_fit(X, y, sample_weight, solver_type, kernel, random_seed)  # type: ignore[misc]
            return
        X.sort_indices()
        self._fit_machine(X, y, sample_weight, random_seed)
        self.support_vectors_ = type(X)(self.support_vectors_)
        dual = self.dual_coef_
        columns, ends = np.tile(np.arange(dual.shape[1]), len(dual)), np.arange(len(dual) + 1) * dual.shape[1]
        # Older releases of scikit-learn always have a matrix here, of which coef_ takes slices.
        is_older = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9)
        container = sp.csr_matrix if is_older else type(X)
        self.dual_coef_ = container((dual.ravel(), columns, ends), shape=dual.shape)

    @property
    def _is_precomputed(self: Any) -> bool:
        return callable(self.kernel) or self.kernel == "precomputed"

    def _is_left_to_libsvm(self: Any) -> bool:
        """Return whether LIBSVM solves the problem, without a certificate; ValueError if that is not allowed."""
        reason = self._lacks_certificate()
        if reason is None:
            return False
        check_uncertified(self, reason)
        self._machine = None
        return True

    def _lacks_certificate(self: Any) -> str | None:
        """Return why the problem has no certificate, or None."""
        if self.kernel == "sigmoid":
            return "kernel='sigmoid' is not positive semi-definite"
        if self.kernel == "poly" and self.coef0 < 0:
            return f"kernel='poly' with coef0={self.coef0!r} is not positive semi-definite"
        if self.kernel in ("poly", "rbf") and (self._gamma == 0 or (self.kernel == "poly" and self.degree == 0)):
            return f"kernel={self.kernel!r} with gamma={self._gamma!r} and degree={self.degree!r} is constant"
        return None

    def _fit_machine(self: Any, X: Any, y: Floats, sample_weight: Floats, random_seed: int) -> None:
        weights = np.ones(len(y)) if not len(sample_weight) else np.maximum(sample_weight, 0.0)
        if weights.ndim != 1:
            raise ValueError(f"sample_weight must be a vector, got shape {weights.shape}")
        if not weights.any():
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        machine = self._train(X, y, weights)
        codes = y.astype(np.int64) if hasattr(self, "classes_") else np.zeros(len(y), dtype=np.int64)
        self._take(machine, np.lexsort((machine.support_, codes[machine.support_])), codes[machine.support_])
        self._probA, self._probB = np.empty(0), np.empty(0)
        if getattr(self, "_effective_probability", getattr(self, "probability", False)) is True:
            weights = weights * self.class_weight_[codes]
            self._probA, self._probB = pair_sigmoids(self.trainer_on(X), X, codes, weights, random_seed)

    def _take(self: Any, machine: Any, order: Indices, codes: Indices) -> None:
        """Take the attributes of LIBSVM from a machine, with support vectors in this order."""
        machine.support_ = machine.support_[order]
        machine.dual_coef_ = np.ascontiguousarray(machine.dual_coef_[:, order])
        machine.support_vectors_ = machine.support_vectors_[order]
        self._machine, self.support_ = machine, machine.support_.astype(np.int32)
        self.support_vectors_ = np.empty((0, 0)) if self._is_precomputed else machine.support_vectors_
        n_classes = len(self.classes_) if hasattr(self, "classes_") else 2
        self._n_support = np.bincount(codes, minlength=n_classes).astype(np.int32)
        self.dual_coef_ = self._sign * machine.dual_coef_ + 0.0
        self.intercept_ = self._sign * machine.intercept_ + 0.0
        self.fit_status_ = int(machine.status_ not in ("converged", "above_tol"))
        self._num_iter = np.full(len(machine.intercept_), machine.n_iter_, dtype=np.int32)
        for name in CERTIFICATE:
            setattr(self, name, getattr(machine, name))

    def _warn_from_fit_status(self: Any) -> None:
        if self._machine is None:
            super()._warn_from_fit_status()  # type: ignore[misc]

    def _machine_parameters(self: Any, n_rows: int) -> dict[str, Any]:
        """Return the parameters of our machines that have those of scikit-learn's classes."""
        is_precomputed = self._is_precomputed
        # LIBSVM counts steps in two coefficients.
        passes = MAX_PASSES if self.max_iter < 0 else max(1, math.ceil(2 * self.max_iter / n_rows))
        return {
            "kernel": "precomputed" if is_precomputed else self.kernel,
            "gamma": "scale" if is_precomputed or not self._gamma else float(self._gamma),
            "degree": max(1, int(self.degree)),
            "coef0": float(self.coef0) if self.kernel == "poly" else 0.0,
            "tol": float(self.tol),
            "max_iter": passes,
            "max_time": self.max_time,
            "n_jobs": self.n_jobs,
            "random_state": 0,
            "verbose": int(self.verbose),
        }

    @property
    def _price(self: Any) -> float:
        """C, or for an infinite one a number that no coefficient reaches if the rows are separable."""
        return min(float(self.C), INFINITE_C)

    # ---- prediction ----------------------------------------------------------------------------------------------

    def own_machine(self: Any) -> Any:
        """Return the machine of this library that predicts, or None after a fit by scikit-learn's own class."""
        machine, dual = self._machine, self._dual_coef_
        if machine is None:
            return None
        # Coefficients may have been changed since the fit.
        machine.dual_coef_ = self._sign * (dual.toarray() if sp.issparse(dual) else np.asarray(dual, dtype=float))
        machine.intercept_ = self._sign * self._intercept_
        machine.n_support_, machine.n_jobs = self._n_support, self.n_jobs
        return machine

    def _values(self: Any, X: Any, only_signs: bool = False) -> Floats:
        """Return LIBSVM's decision values, of shape (n_rows, n_outputs)."""
        machine = self.own_machine()
        if machine.kernel == "precomputed" and X.shape[1:] != self.shape_fit_[:1]:
            raise ValueError(
                f"X.shape[1] = {X.shape[1]} should be equal to {self.shape_fit_[0]}, the number of samples at training "
                "time"
            )
        are_few = X.shape[0] <= FEW_ROWS or X.shape[0] * self.support_vectors_.size <= FEW_NUMBERS
        if are_few and not sp.issparse(X) and self.kernel == "rbf":
            return np.asarray(self._sign * self._values_of_few(X).T)
        values = np.zeros((len(self._intercept_), X.shape[0]))
        of_batch = machine._signs_of_batch if only_signs else machine._values_of_batch
        for batch in gen_batches(X.shape[0], 65_536):
            part = X[batch]
            values[:, batch] = of_batch(part[:, self.support_] if machine.kernel == "precomputed" else part)
        return np.asarray(self._sign * values.T)

    def _values_of_few(self: Any, X: Any) -> Floats:
        """Return the machine's decision values of few rows, without the preparations that pay off for many."""
        machine, square = self._machine, cdist(self.support_vectors_, X, "sqeuclidean")
        values = np.exp(-self._gamma * square)
        if len(machine.dual_coef_) == len(machine.intercept_):
            found = machine.dual_coef_ @ values
        else:
            found = machine._sums_of_pairs(len(X), lambda rows, factors: factors @ values[rows])
        return np.asarray(found + machine.intercept_[:, None])

    def _dense_decision_function(self: Any, X: Any) -> Floats:
        if self._machine is None:
            return super()._dense_decision_function(X)  # type: ignore[misc, no-any-return]
        return self._values(X)  # type: ignore[no-any-return]

    def _sparse_decision_function(self: Any, X: Any) -> Floats:
        if self._machine is None:
            return super()._sparse_decision_function(X)  # type: ignore[misc, no-any-return]
        return self._values(sp.csr_array(X))  # type: ignore[no-any-return]

    def _dense_predict(self: Any, X: Any) -> Floats:
        if self._machine is None:
            return super()._dense_predict(X)  # type: ignore[misc, no-any-return]
        return self._predicted(self._compute_kernel(X))  # type: ignore[no-any-return]

    def _sparse_predict(self: Any, X: Any) -> Floats:
        if self._machine is None:
            return super()._sparse_predict(X)  # type: ignore[misc, no-any-return]
        return self._predicted(sp.csr_array(X))  # type: ignore[no-any-return]

    def _predicted(self: Any, X: Any) -> Floats:
        """Return predicted targets."""
        return self._values(X)[:, 0]  # type: ignore[no-any-return]


class CertifiedClassifier(CertifiedLibsvm):
    """Base class of SVC and NuSVC."""

    _sign = -1.0

    def _train(self: Any, X: Any, y: Floats, weights: Floats) -> SVMClassifier:
        codes = y.astype(np.int64)
        weights = weights * self.class_weight_[codes]
        counts = np.bincount(codes, weights > 0, len(self.classes_))
        if (counts == 0).any():
            left = self.classes_[counts > 0].tolist()
            same = "belong to the same class" if len(left) == 1 else f"are of the classes {left} only"
            raise ValueError(f"Invalid input - all samples with positive weights {same}.")
        return self._trained(X, codes, weights)  # type: ignore[no-any-return]

    def trainer_on(self: Any, X: Any) -> Train:
        """Return a function that trains on some of the rows, for `pair_sigmoids`."""

        def train(rows: Indices, codes: Indices, weights: Floats) -> SVMClassifier:
            own = X[np.ix_(rows, rows)] if self._is_precomputed else X[rows]
            found: SVMClassifier = self._trained(own, codes, weights)
            return found

        return train

    def _predicted(self: Any, X: Any) -> Floats:
        """Return the number of the class with the most votes, the first one of several, as LIBSVM does."""
        values, n_classes = self._values(X, only_signs=len(self.classes_) == 2), len(self.classes_)
        votes = np.zeros((X.shape[0], n_classes))
        for (first, second), own in zip(pairs_of(n_classes).tolist(), values.T, strict=True):
            votes[:, first] += own > 0
            votes[:, second] += own <= 0
        return np.asarray(votes.argmax(axis=1), dtype=np.float64)


class SVC(CertifiedClassifier, sklearn.svm.SVC):
    """Support vector classification, with the parameters, attributes and methods of `sklearn.svm.SVC`.

    The machine is that of `dimargin.SVMClassifier` with the hinge loss, one class against another. What differs
    from scikit-learn's class: `tol` bounds the relative duality gap; `shrinking` and `cache_size` have no effect;
    `random_state` only seeds the folds of probabilities, because the solver's choices have a fixed seed.

    Parameters
    ----------
    C, kernel, degree, gamma, coef0, shrinking, probability, tol, cache_size, class_weight, verbose, max_iter
        As in `sklearn.svm.SVC`.
    decision_function_shape, break_ties, random_state
        As in `sklearn.svm.SVC`.
    max_time : float or None, default=None
        Seconds after which the best model so far is returned, with a ConvergenceWarning.
    n_jobs : int or None, default=None
        Number of threads; None is one for every processor. Results do not depend on it.
    allow_uncertified : bool or None, default=None
        Whether scikit-learn's own class solves what can have no certificate (``kernel="sigmoid"``).

    Attributes
    ----------
    objective_, dual_objective_, duality_gap_, certificate_, status_, history_
        As in `dimargin.SVMClassifier`; a number, or an array with an entry for every pair of classes. All other
        attributes are those of `sklearn.svm.SVC`.

    Examples
    --------
    >>> from dimargin.svm import SVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = SVC().fit(X, y)
    >>> round(machine.score(X, y), 3), machine.n_support_.tolist(), machine.duality_gap_ <= 1e-3
    (0.973, [7, 29, 24], True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = sklearn.svm.SVC._parameter_constraints | MORE_PARAMETERS

    def __init__(
        self, *, C: float = 1.0, kernel: Any = "rbf", degree: int = 3, gamma: str | float = "scale",
        coef0: float = 0.0, shrinking: bool = True, probability: Any = DEFAULT_PROBABILITY, tol: float = 1e-3,
        cache_size: float = 200, class_weight: Any = None, verbose: bool = False, max_iter: int = -1,
        decision_function_shape: str = "ovr", break_ties: bool = False, random_state: Any = None,
        max_time: float | None = None, n_jobs: int | None = None, allow_uncertified: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            C=C, kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, shrinking=shrinking, probability=probability,
            tol=tol, cache_size=cache_size, class_weight=class_weight, verbose=verbose, max_iter=max_iter,
            decision_function_shape=decision_function_shape, break_ties=break_ties, random_state=random_state,
        )  # fmt: skip
        self.max_time, self.n_jobs, self.allow_uncertified = max_time, n_jobs, allow_uncertified

    def _trained(self, X: Any, codes: Indices, weights: Floats) -> SVMClassifier:
        own = self._machine_parameters(len(codes))
        machine = SVMClassifier(C=self._price, multi_class="one_vs_one", pair_scores="votes", **own)
        with warnings_named("SVC", "SVMClassifier"):
            machine.fit(X, codes, sample_weight=weights)
        return machine


class SVR(CertifiedLibsvm, sklearn.svm.SVR):
    """Support vector regression, with the parameters, attributes and methods of `sklearn.svm.SVR`.

    The machine is that of `dimargin.SVMRegressor`. `tol` bounds the relative duality gap; `shrinking` and
    `cache_size` have no effect.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol, C, epsilon, shrinking, cache_size, verbose, max_iter
        As in `sklearn.svm.SVR`.
    max_time, n_jobs, allow_uncertified
        As in `SVC`.

    Attributes
    ----------
    objective_, dual_objective_, duality_gap_, certificate_, status_, history_
        As in `dimargin.SVMRegressor`. All other attributes are those of `sklearn.svm.SVR`.

    Examples
    --------
    >>> from dimargin.svm import SVR
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(500, random_state=0)
    >>> machine = SVR(C=100.0).fit(X, y)
    >>> machine.score(X, y) > 0.99, machine.duality_gap_ <= 1e-3
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = sklearn.svm.SVR._parameter_constraints | MORE_PARAMETERS

    def __init__(
        self, *, kernel: Any = "rbf", degree: int = 3, gamma: str | float = "scale", coef0: float = 0.0,
        tol: float = 1e-3, C: float = 1.0, epsilon: float = 0.1, shrinking: bool = True, cache_size: float = 200,
        verbose: bool = False, max_iter: int = -1,
        max_time: float | None = None, n_jobs: int | None = None, allow_uncertified: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, tol=tol, C=C, epsilon=epsilon,
            shrinking=shrinking, cache_size=cache_size, verbose=verbose, max_iter=max_iter,
        )  # fmt: skip
        self.max_time, self.n_jobs, self.allow_uncertified = max_time, n_jobs, allow_uncertified

    def _train(self, X: Any, y: Floats, weights: Floats) -> SVMRegressor:
        machine = SVMRegressor(C=self._price, epsilon=float(self.epsilon), **self._machine_parameters(len(y)))
        with warnings_named("SVR", "SVMRegressor"):
            machine.fit(X, y, sample_weight=weights)
        return machine
