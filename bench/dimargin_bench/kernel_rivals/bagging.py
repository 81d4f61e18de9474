"""Bagging of kernel SVMs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_number
from dimargin.estimators.svm import SVMClassifier
from dimargin.system.arrays import Floats
from dimargin_bench.kernel_rivals.checked_rows import BinaryRival, query_rows, uniform_sample, width


@documented
@dataclass(eq=False, repr=False)
class BaggedSVM(BinaryRival):
    r"""Majority vote of kernel SVMs, each of a uniform sample of the rows.

    The paper on DC-SVM compares with k machines of n/k rows each (Table 6), which have no
    intercept; with one they are less accurate: on ijcnn1 with k = 16 by 1.1 points. With ``f_t``
    their decision values it predicts the sign of ``v + s / (3 (|s| + 1))``, votes
    ``v = sum_t sign f_t`` and their sum ``s = sum_t f_t``: the second term is less than a third,
    and decides ties alone, as in scikit-learn's `OneVsOneClassifier`. (Its `BaggingClassifier`
    would decide them for the first class.)

    Parameters
    ----------
    n_estimators : int, default=16
        The paper's k, of 16, 64 and 256 the one that predicts best. Each machine has
        ``ceil(n / k)`` rows, drawn without replacement from all; more are drawn only until both
        classes have occurred.
    C : float, default=1.0
        Weight of the loss of a row, positive; larger is less regularised. Not rescaled for the
        smaller number of rows, as the paper does not.
    gamma : {"scale", "auto"} or float, default="scale"
        Of the kernel ``exp(-gamma |x - z|^2)``, as in scikit-learn, "scale" by all rows.
    fit_intercept : bool, default=False
        Whether machines have an intercept, as LIBSVM's do.
    tol : float, default=1e-3
        Relative duality gap of each machine.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    machines_ : list of SVMClassifier
    samples_ : list of ndarray
        Indices of the rows of each machine.

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "A divide-and-conquer solver for kernel support vector
    machines", ICML 2014.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import BaggedSVM
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> machine = BaggedSVM(n_estimators=8, C=10.0, random_state=0).fit(X[:800], y[:800])
    >>> round(machine.score(X[800:], y[800:]), 2)
    0.96
    """

    n_estimators: int = 16
    C: float = 1.0
    gamma: str | float = "scale"
    fit_intercept: bool = False
    tol: float = 1e-3
    random_state: Any = None

    def _check_parameters(self) -> None:
        check_number("n_estimators", self.n_estimators, 1, low_included=True, whole=True)

    def _train_on_signs(self, X: Floats, signs: Floats) -> None:
        rng = check_random_state(self.random_state)
        size = math.ceil(len(X) / self.n_estimators)
        machine = SVMClassifier(
            C=self.C, gamma=width(self.gamma, X), fit_intercept=self.fit_intercept, strategy="exact", tol=self.tol,
            random_state=rng.randint(2**31 - 1),
        )  # fmt: skip
        self.samples_ = [uniform_sample(signs, size, rng) for _ in range(self.n_estimators)]
        self.machines_ = [clone(machine).fit(X[rows], signs[rows]) for rows in self.samples_]

    def decision_function(self, X: Any) -> Floats:
        """Return votes and, as a fraction, what decides ties, of shape (n_samples,), positive for the second class."""
        X = query_rows(self, X)
        votes, sums = np.zeros(len(X)), np.zeros(len(X))
        for machine in self.machines_:
            values = machine.decision_function(X)
            votes += np.sign(values)
            sums += values
        return np.asarray(votes + sums / (3 * (np.abs(sums) + 1)))
