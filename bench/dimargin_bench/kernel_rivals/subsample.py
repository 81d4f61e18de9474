"""LIBSVM on a part of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC
from sklearn.utils import check_random_state

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_number
from dimargin.system.arrays import Floats
from dimargin_bench.kernel_rivals.checked_rows import Rival, query_rows, uniform_sample, width


@documented
@dataclass(eq=False, repr=False)
class SubsampledSVM(Rival):
    r"""LIBSVM's machine of a uniform part of the rows, the rival that costs least to try.

    The paper on DC-SVM takes a fifth of the rows (Table 2). LIBSVM is scikit-learn's `SVC`, with an
    intercept and the RBF kernel.

    Parameters
    ----------
    fraction : float, default=0.2
        Part of the rows, in (0, 1], rounded up; rows are drawn beyond it only until every class has
        occurred.
    C : float, default=1.0
        Weight of the loss of a row, positive; larger is less regularised. Not rescaled for the
        smaller number of rows, as the paper does not.
    gamma : {"scale", "auto"} or float, default="scale"
        Of the kernel ``exp(-gamma |x - z|^2)``, as in scikit-learn, "scale" by all rows.
    tol : float, default=1e-3
        Of `SVC`.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    rows_ : ndarray of shape (n_drawn,)
        Indices of the rows that were drawn.
    machine_ : SVC

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "A divide-and-conquer solver for kernel support vector
    machines", ICML 2014.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import SubsampledSVM
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> machine = SubsampledSVM(C=10.0, random_state=0).fit(X[:800], y[:800])
    >>> len(machine.rows_), round(machine.score(X[800:], y[800:]), 2)
    (160, 0.96)
    """

    fraction: float = 0.2
    C: float = 1.0
    gamma: str | float = "scale"
    tol: float = 1e-3
    random_state: Any = None

    def _check_parameters(self) -> None:
        check_number("fraction", self.fraction, 0, 1, high_included=True)

    def _train(self, X: Floats, y: NDArray[Any]) -> None:
        self.classes_ = np.unique(y)
        rng = check_random_state(self.random_state)
        self.rows_ = uniform_sample(y, math.ceil(self.fraction * len(X)), rng)
        machine = SVC(C=self.C, gamma=width(self.gamma, X), tol=self.tol, break_ties=True)
        self.machine_ = machine.fit(X[self.rows_], y[self.rows_])

    def decision_function(self, X: Any) -> Floats:
        """Return decision values of shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        X = query_rows(self, X)
        return np.asarray(self.machine_.decision_function(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels, of shape (n_samples,)."""
        X = query_rows(self, X)
        return np.asarray(self.machine_.predict(X))
