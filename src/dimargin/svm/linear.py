"""LinearSVC and LinearSVR: subclasses of scikit-learn's, in which this library takes the place of LIBLINEAR."""

from __future__ import annotations

from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
import sklearn.svm
from sklearn.svm._base import _get_liblinear_solver_type
from sklearn.svm._classes import _validate_dual_parameter
from sklearn.utils import compute_class_weight

from dimargin.estimators.linear_svm import LinearSVMClassifier
from dimargin.estimators.linear_svr import LinearSVMRegressor
from dimargin.svm.certified import CERTIFICATE, MORE_PARAMETERS, check_uncertified, warnings_named


class CertifiedLiblinear:
    """Mixin of scikit-learn's classes on LIBLINEAR: training by this library."""

    def _machine_parameters(self: Any) -> dict[str, Any]:
        """Return the parameters of our machines that have those of scikit-learn's classes."""
        scaling = float(self.intercept_scaling) if self.fit_intercept else None
        return {
            "C": float(self.C), "loss": self.loss, "fit_intercept": bool(self.fit_intercept),
            "intercept_scaling": scaling, "tol": float(self.tol), "max_iter": int(self.max_iter),
            "max_time": self.max_time, "n_jobs": self.n_jobs, "random_state": self.random_state,
            "verbose": int(self.verbose),
        }  # fmt: skip

    def _take(self: Any, machine: Any) -> None:
        """Take the attributes from a fitted machine."""
        names = "n_features_in_", "feature_names_in_", "classes_", "coef_", *CERTIFICATE
        for name in names:
            if hasattr(machine, name):
                setattr(self, name, getattr(machine, name))
        self.intercept_ = machine.intercept_ if self.fit_intercept else 0.0
        self.n_iter_ = int(machine.n_iter_)


class LinearSVC(CertifiedLiblinear, sklearn.svm.LinearSVC):
    """Linear support vector classification, with the parameters, attributes and methods of `sklearn.svm.LinearSVC`.

    The machine is that of `dimargin.LinearSVMClassifier` with a regularised intercept. `tol` bounds the relative
    duality gap, and `dual` has no effect but that combinations which LIBLINEAR lacks are refused, as they are there.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
        "l1" is solved by scikit-learn's own class, without a certificate, if `allow_uncertified` permits it.
    loss, dual, tol, C, multi_class, fit_intercept, intercept_scaling, class_weight, verbose, random_state
        As in `sklearn.svm.LinearSVC`.
    max_iter : int, default=1000
        As in `dimargin.LinearSVMClassifier`.
    max_time, n_jobs, allow_uncertified
        As in `SVC`.

    Attributes
    ----------
    objective_, dual_objective_, duality_gap_, certificate_, status_, history_
        As in `dimargin.LinearSVMClassifier`. All other attributes are those of `sklearn.svm.LinearSVC`.

    Examples
    --------
    >>> from dimargin.svm import LinearSVC
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(1000, random_state=0)
    >>> machine = LinearSVC(random_state=0).fit(X, y)
    >>> round(machine.score(X, y), 2), machine.duality_gap_ <= 1e-4
    (0.95, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = sklearn.svm.LinearSVC._parameter_constraints | MORE_PARAMETERS

    def __init__(
        self, penalty: str = "l2", loss: str = "squared_hinge", *, dual: Any = "auto", tol: float = 1e-4,
        C: float = 1.0, multi_class: str = "ovr", fit_intercept: bool = True, intercept_scaling: float = 1,
        class_weight: Any = None, verbose: int = 0, random_state: Any = None, max_iter: int = 1000,
        max_time: float | None = None, n_jobs: int | None = None, allow_uncertified: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            penalty, loss, dual=dual, tol=tol, C=C, multi_class=multi_class, fit_intercept=fit_intercept,
            intercept_scaling=intercept_scaling, class_weight=class_weight, verbose=verbose,
            random_state=random_state, max_iter=max_iter,
        )  # fmt: skip
        self.max_time, self.n_jobs, self.allow_uncertified = max_time, n_jobs, allow_uncertified

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to training rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._validate_params()
        if self.penalty == "l1":
            check_uncertified(self, "penalty='l1' has no solver in this library")
            return super().fit(X, y, sample_weight)  # type: ignore[no-any-return]
        is_joint = self.multi_class == "crammer_singer"
        if not is_joint:  # The loss of Crammer and Singer's machine is the hinge, whatever the parameters say.
            dual = _validate_dual_parameter(self.dual, self.loss, self.penalty, self.multi_class, np.empty((2, 1)))
            _get_liblinear_solver_type(self.multi_class, self.penalty, self.loss, dual)
        own = self._machine_parameters() | ({"loss": "hinge"} if is_joint else {})
        machine = LinearSVMClassifier(
            class_weight=_class_weights(self.class_weight, y, sample_weight),
            multi_class="crammer_singer" if is_joint else "one_vs_rest",
            **own,
        )
        with warnings_named("LinearSVC", "LinearSVMClassifier"):
            self._take(machine.fit(X, y, sample_weight))
        return self


class LinearSVR(CertifiedLiblinear, sklearn.svm.LinearSVR):
    """Linear support vector regression, with the parameters, attributes and methods of `sklearn.svm.LinearSVR`.

    The machine is that of `dimargin.LinearSVMRegressor` with a regularised intercept; see `LinearSVC`.

    Parameters
    ----------
    epsilon, tol, C, loss, fit_intercept, intercept_scaling, dual, verbose, random_state
        As in `sklearn.svm.LinearSVR`.
    max_iter : int, default=1000
        As in `dimargin.LinearSVMRegressor`.
    max_time, n_jobs, allow_uncertified
        As in `SVC`.

    Attributes
    ----------
    objective_, dual_objective_, duality_gap_, certificate_, status_, history_
        As in `dimargin.LinearSVMRegressor`. All other attributes are those of `sklearn.svm.LinearSVR`.

    Examples
    --------
    >>> from dimargin.svm import LinearSVR
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(1000, 5, noise=1.0, random_state=0)
    >>> machine = LinearSVR(C=10.0, random_state=0).fit(X, y)
    >>> machine.score(X, y) > 0.99, machine.duality_gap_ <= 1e-4
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = sklearn.svm.LinearSVR._parameter_constraints | MORE_PARAMETERS

    def __init__(
        self, *, epsilon: float = 0.0, tol: float = 1e-4, C: float = 1.0, loss: str = "epsilon_insensitive",
        fit_intercept: bool = True, intercept_scaling: float = 1.0, dual: Any = "auto", verbose: int = 0,
        random_state: Any = None, max_iter: int = 1000,
        max_time: float | None = None, n_jobs: int | None = None, allow_uncertified: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, tol=tol, C=C, loss=loss, fit_intercept=fit_intercept,
            intercept_scaling=intercept_scaling, dual=dual, verbose=verbose, random_state=random_state,
            max_iter=max_iter,
        )  # fmt: skip
        self.max_time, self.n_jobs, self.allow_uncertified = max_time, n_jobs, allow_uncertified

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to training rows; arguments and result are those of `LinearSVC.fit`, with numbers for y."""
        self._validate_params()
        dual = _validate_dual_parameter(self.dual, self.loss, "l2", "ovr", np.empty((2, 1)))
        _get_liblinear_solver_type("ovr", "l2", self.loss, dual)
        machine = LinearSVMRegressor(epsilon=float(self.epsilon), **self._machine_parameters())
        with warnings_named("LinearSVR", "LinearSVMRegressor"):
            self._take(machine.fit(X, y, sample_weight))
        self.coef_ = machine.coef_.ravel()
        return self


def _class_weights(class_weight: Any, y: Any, sample_weight: Any) -> Any:
    """Return weights of the classes as scikit-learn computes them: from 1.7 on with the weights of the rows."""
    if not isinstance(class_weight, str):
        return class_weight
    counts = (
        {} if "sample_weight" not in signature(compute_class_weight).parameters else {"sample_weight": sample_weight}
    )
    labels = np.asarray(y)
    classes = np.unique(labels)
    return dict(
        zip(classes.tolist(), compute_class_weight(class_weight, classes=classes, y=labels, **counts), strict=True)
    )
