"""Parts that the rivals share: checked rows, two classes as signs, sums of kernel values, uniform samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.utils import gen_batches, get_tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from dimargin.estimators.input_checks import check_finite, columns_named
from dimargin.estimators.kernel_parameters import check_gamma
from dimargin.estimators.training_data import gamma_value
from dimargin.kernels.functions import Kernel
from dimargin.problems.one_vs_rest import codes_of
from dimargin.system.arrays import Floats, Indices
from dimargin.system.threads import single_threaded_blas

ROWS_AT_ONCE = 4096
"""Rows whose features or kernel values are computed together, which bounds the scratch memory."""


def training_rows(estimator: Any, X: Any, y: Any = "no_validation", reset: bool = True) -> Any:
    """Return float64 rows, or rows and class labels, for training: dense, or CSR where the estimator takes sparse rows.

    Raises ValueError or TypeError naming row and column, or what is wrong with the labels.
    """
    with columns_named(X, type(estimator).__name__):
        found = validate_data(estimator, X, y, reset=reset, order="C", **_forms_of(estimator))
    X, *labels = found if isinstance(found, tuple) else (found,)
    check_finite(X, columns=getattr(estimator, "feature_names_in_", None))
    if not labels:
        return X
    check_classification_targets(labels[0])
    return X, labels[0]


def check_two_classes(estimator: Any, classes: NDArray[Any]) -> None:
    """Raise ValueError where there is nothing to separate."""
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs at least two classes; y has one class only: {classes.tolist()}"
        )


def query_rows(estimator: Any, X: Any) -> Any:
    """Return float64 rows for a fitted estimator, as `training_rows` does."""
    check_is_fitted(estimator)
    with columns_named(X, type(estimator).__name__):
        X = validate_data(estimator, X, reset=False, **_forms_of(estimator))
    check_finite(X, columns=getattr(estimator, "feature_names_in_", None))
    return X if sp.issparse(X) else np.asarray(X)


def _forms_of(estimator: Any) -> dict[str, Any]:
    """Return the forms of rows that an estimator takes; what is not finite is found by `check_finite`."""
    sparse = get_tags(estimator).input_tags.sparse
    return {"dtype": np.float64, "accept_sparse": "csr" if sparse else False, "ensure_all_finite": False}


def width(gamma: str | float, X: Floats) -> float:
    """Return the number that a parameter `gamma` stands for on rows of shape (n, n_features)."""
    check_gamma(gamma)
    with single_threaded_blas():
        return gamma_value(gamma, X, np.ones(len(X)))


def kernel_sums(X: Floats, vectors: Floats, coefficients: Floats, kernel: Kernel) -> Floats:
    """Return ``sum_j c_j k(x, v_j)`` for every row x, of shape (n,), for the kernels "rbf" and "poly"."""
    sums, gamma = np.zeros(len(X)), kernel.gamma
    with single_threaded_blas():
        for batch in gen_batches(len(X), ROWS_AT_ONCE) if len(vectors) else ():
            values = (
                rbf_kernel(X[batch], vectors, gamma) if kernel.stationary
                else polynomial_kernel(X[batch], vectors, kernel.degree, gamma, kernel.coef0)
            )  # fmt: skip
            sums[batch] = values @ coefficients
    return sums


def uniform_sample(y: NDArray[Any], size: int, rng: np.random.RandomState) -> Indices:
    """Draw rows uniformly without replacement, and go on beyond `size` until every class has occurred.

    A machine cannot be trained on one class; where classes are frequent, as in all data of the
    papers, the sample is just uniform.

    Examples
    --------
    >>> y = np.array([0] * 99 + [1])
    >>> sample = uniform_sample(y, 10, np.random.RandomState(0))
    >>> bool(len(sample) >= 10 and sample[-1] == 99)
    True
    """
    order = rng.permutation(len(y))
    _, first = np.unique(y[order], return_index=True)
    return np.asarray(order[: max(size, int(first.max()) + 1)])


class Rival(ClassifierMixin, BaseEstimator, ABC):
    """Base class of the rivals: parameters and rows are checked in one way, then the machine is trained.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of a row, positive; larger is less regularised.
    gamma : {"scale", "auto"} or float, default="scale"
        Of the kernel ``exp(-gamma |x - z|^2)``, as in scikit-learn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had column names.
    gamma_ : float
        Number that `gamma` stands for.
    """

    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Sparse rows only where the class says that it takes them.
        y : array-like of shape (n_samples,)
            Class labels; of two classes only where the class says so.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter or data out of range; the message names the parameter, row or column.
        MemoryError
            Before the work begins, where it does not fit into memory.

        Warns
        -----
        ConvergenceWarning
            Where `max_iter` steps did not suffice.
        """
        self._check_parameters()
        X, y = training_rows(self, X, y)
        check_two_classes(self, np.unique(y))
        self._train(X, y)
        return self

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise an error for a parameter out of its range."""

    @abstractmethod
    def _train(self, X: Any, y: NDArray[Any]) -> None:
        """Train on checked rows and labels, and set the attributes, `classes_` among them."""

    @abstractmethod
    def decision_function(self, X: Any) -> Floats:
        """Return decision values of shape (n_samples,) for two classes, else (n_samples, n_classes)."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels, of shape (n_samples,)."""
        values = self.decision_function(X)
        return np.asarray(self.classes_[codes_of(values)])


class BinaryRival(Rival):
    """Base class of the rivals that separate two classes by the sign of a decision value.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _train(self, X: Any, y: NDArray[Any]) -> None:
        check_binary(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._train_on_signs(X, np.where(codes == 1, 1.0, -1.0))

    @abstractmethod
    def _train_on_signs(self, X: Any, signs: Floats) -> None:
        """Train on labels of plus one for the second class and minus one for the first."""


def check_binary(y: NDArray[Any]) -> None:
    """Raise ValueError, in scikit-learn's words, for labels of more than two classes."""
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
