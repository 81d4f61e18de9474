"""LaSVM: a support vector machine that is trained while it reads its rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_number
from dimargin.kernels.functions import Kernel
from dimargin.system.arrays import Floats, Indices
from dimargin.system.threads import single_threaded_blas
from dimargin_bench.kernel_rivals.checked_rows import (
    BinaryRival,
    check_binary,
    check_two_classes,
    kernel_sums,
    query_rows,
    training_rows,
    width,
)
from dimargin_bench.kernel_rivals.support_set import SupportSet

_SEEDS = 5  # rows of each class to begin with, "a few" in the paper


@documented
@dataclass(eq=False, repr=False)
class LaSVM(BinaryRival):
    r"""Online kernel support vector machine with an intercept and the hinge.

    Approaches the minimum of ``1/2 |w|^2 + C sum_i (1 - y_i (w.phi(x_i) + b))_+`` by steps in its
    dual, each of two coefficients that keep ``sum_s a_s = 0`` (Bordes et al. 2005, section 3). Each
    new row k brings two of them:

    - PROCESS adds k, paired with the row that violates optimality most together with it;
    - REPROCESS takes the pair with ``i = argmax {g_s : a_s < B_s}``, ``j = argmin {g_s : a_s > A_s}``, drops rows with
      ``a_s = 0`` that neither end of the gradient calls for, and sets ``b = (g_i + g_j) / 2``.

    A step is ``min{(g_i - g_j) / (k_ii + k_jj - 2 k_ij), B_i - a_i, a_j - A_j}``, made if
    ``g_i - g_j > tol``. FINISHING repeats REPROCESS until there is no such pair: the optimum over
    the rows that are still there, which after one epoch need not be that over all rows.

    Parameters
    ----------
    %(C)s
    gamma : {"scale", "auto"} or float, default="scale"
        Of the kernel, as in scikit-learn; with `partial_fit` that of the first rows.
    tol : float, default=1e-3
        The paper's tau, below which a violation is not stepped on.
    n_epochs : int, default=1
        How often `fit` reads all rows; the paper's choice is once.
    max_iter : int, default=1000000
        Steps of FINISHING at most.
    random_state : int, RandomState or None, default=None
        Order in which `fit` reads rows.
    kernel : {"rbf", "poly"}, default="rbf"
        ``exp(-gamma |x - z|^2)``, or ``(gamma x.z + coef0)^degree``.
    degree : int, default=3
    coef0 : float, default=0.0

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_, gamma_)s
    support_vectors_ : ndarray of shape (n_SV, n_features_in_)
    dual_coef_ : ndarray of shape (1, n_SV)
        Signed coefficients ``a``.
    intercept_ : ndarray of shape (1,)
    n_iter_ : int
        Tries of REPROCESS in FINISHING, of which the last finds no pair.

    Notes
    -----
    Five rows of each class are there before the first step. Rows are dropped after a step only,
    which has raised the dual objective above zero, so that some coefficients are not zero and their
    rows stay.

    References
    ----------
    A. Bordes, S. Ertekin, J. Weston, L. Bottou, "Fast kernel classifiers with online and active
    learning", JMLR 6, 2005.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import LaSVM
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> machine = LaSVM(C=10.0, random_state=0).fit(X[:800], y[:800])
    >>> round(machine.score(X[800:], y[800:]), 2)
    0.95
    """

    C: float = 1.0
    gamma: str | float = "scale"
    tol: float = 1e-3
    n_epochs: int = 1
    max_iter: int = 1_000_000
    random_state: Any = None
    kernel: str = "rbf"
    degree: int = 3
    coef0: float = 0.0

    def _train_on_signs(self, X: Floats, signs: Floats) -> None:
        rng = check_random_state(self.random_state)
        order = rng.permutation(len(X))
        with single_threaded_blas():
            self._begin(X, signs, order)
            for epoch in range(self.n_epochs):
                self._read(X, signs, rng.permutation(len(X)) if epoch else order)
        self.finish()

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Read more rows once, in their order, without finishing.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (2,), optional
            Labels of both classes, for the first call where its rows may have one class only; by
            default those of its rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            As `fit`, and for labels that are not among the classes.
        """
        self._check_parameters()
        first = not hasattr(self, "_set")
        X, y = training_rows(self, X, y, reset=first)
        if first:
            self.classes_ = np.unique(y if classes is None else classes)
            check_binary(self.classes_)
            check_two_classes(self, self.classes_)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels that are not among the classes {self.classes_}: {unknown}")
        signs, order = np.where(y == self.classes_[1], 1.0, -1.0), np.arange(len(X))
        with single_threaded_blas():
            if first:
                self._begin(X, signs, order)
            else:
                self._set.forget_numbers()
            self._read(X, signs, order)
        return self._publish()

    def finish(self) -> Self:
        """Repeat REPROCESS until no pair violates optimality by more than `tol` (FINISHING), and return self."""
        check_is_fitted(self)
        with single_threaded_blas():
            self.n_iter_ = 1
            while (stepped := self._set.reprocess(self.tol)) and self.n_iter_ < self.max_iter:
                self.n_iter_ += 1
        if stepped:
            warnings.warn(
                f"LaSVM stopped after max_iter={self.max_iter} steps of FINISHING, where a pair violates optimality by "
                f"{self._set.gap:.2e}, more than tol={self.tol:g}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self._publish()

    def _check_parameters(self) -> None:
        check_number("C", self.C, 0)
        check_number("tol", self.tol, 0)
        check_number("n_epochs", self.n_epochs, 1, low_included=True, whole=True)
        check_number("max_iter", self.max_iter, 1, low_included=True, whole=True)
        if self.kernel not in ("rbf", "poly"):
            raise ValueError(f"kernel must be 'rbf' or 'poly', got {self.kernel!r}")

    def _begin(self, X: Floats, signs: Floats, order: Indices) -> None:
        """Make a set of the first few rows of each class."""
        self.gamma_ = width(self.gamma, X)
        kernel = Kernel("poly" if self.kernel == "poly" else "rbf", self.gamma_, int(self.degree), float(self.coef0))
        self._set = SupportSet(X.shape[1], float(self.C), kernel)
        for sign in (-1.0, 1.0):
            for row in order[signs[order] == sign][:_SEEDS]:
                self._set.add(X[row], sign, int(row))

    def _read(self, X: Floats, signs: Floats, order: Iterable[int]) -> None:
        """PROCESS and REPROCESS for every row that is not in the set."""
        for row in map(int, order):
            if row not in self._set.numbers:
                self._set.process(X[row], float(signs[row]), row, self.tol)
                self._set.reprocess(self.tol)

    def _publish(self) -> Self:
        """Set the attributes of the model as it is now."""
        counts = self._set.coefficients != 0
        self.support_vectors_ = self._set.rows[counts]
        self.dual_coef_ = self._set.coefficients[counts][None]
        self.intercept_ = np.array([self._set.intercept])
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return decision values of shape (n_samples,), positive for the second class."""
        X = query_rows(self, X)
        return kernel_sums(X, self.support_vectors_, self.dual_coef_[0], self._set.kernel) + float(self.intercept_[0])
