"""The support vector machine as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dimargin.estimators.docstrings import documented
from dimargin.estimators.multiclass import MulticlassKernelClassifier
from dimargin.estimators.validation import check_magnitude, check_number
from dimargin.kernels.user import KernelFunction
from dimargin.problems.losses import HingeLoss, Loss, SquaredHingeLoss
from dimargin.strategies import Strategy

_LOSSES = {"hinge": HingeLoss, "squared_hinge": SquaredHingeLoss}


@documented
@dataclass(eq=False, repr=False)
class SVMClassifier(MulticlassKernelClassifier):
    r"""Kernel support vector machine.

    Minimises ``1/2 |w|^2 + C sum_i s_i (1 - m_i)_+`` (``loss="squared_hinge"``: ``(1 - m_i)_+^2``) over margins
    ``m_i = y_i f(x_i)``, ``s_i`` the weight of row i: without an intercept, as in the DC-SVM paper (equation 1), or
    with one that is not regularised, as in LIBSVM and scikit-learn's SVC. Every model carries a certificate, the
    relative duality gap.

    For K classes there are ``n_outputs = 1`` binary problems if K = 2, else ``K (K - 1) / 2``, one for each pair, whose
    second class is the positive one, or K, one against the rest: see `multi_class`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of each row; larger is less regularised.
    loss : {"hinge", "squared_hinge"}, default="hinge"
    fit_intercept : bool, default=False
        Whether the decision function has an unregularised intercept; True gives the model of LIBSVM and SVC (for two
        classes: theirs are one against one). Far from all support vectors the intercept decides alone, which costs
        accuracy where partitions are models of their own.
    %(kernel, gamma, degree, coef0)s
    %(multi_class)s
    %(strategy, branching, n_levels, n_landmarks, stop_level, tol, max_iter, max_time, class_weight, warm_start)s
    memory_limit : int or None, default=None
        Bytes that the fit may need beside the data; it refuses before it begins if they cannot suffice, and remembers
        kernel rows in what is left, where kernel values are expensive: of rows of more than 128 numbers, and of Python
        functions. None means 2 GiB.
    %(n_jobs, random_state, verbose)s

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_, support_, support_vectors_, dual_coef_)s
    intercept_ : ndarray of shape (n_outputs,)
        Zeros without `fit_intercept`.
    %(coef_)s
    %(n_support_, objective_, duality_gap_, certificate_, status_, n_iter_)s
    history_ : list of dict
        One entry a level (strategy "exact": a check of the gap; pairs of classes: one in all) with ``level``,
        ``partitions``, ``seconds``, ``kernel_evaluations`` (both of this entry alone), ``objective`` (as
        `objective_`), ``relative_gap``. Strategy "exact" adds ``factorizations``, of large kernel matrices (also of
        this entry alone; not for pairs of classes), "landmark" (one entry a
        Newton step) ``rows``, "cascade" ``round``; "dc" adds ``clustering_seconds`` and,
        with ``DivideAndConquer(theorem_1=True)``, the hinge and no intercept, ``theorem_1_bound``: how far the dual
        objective of the level's coefficients can be from the optimum of the whole problem. Then
        ``theorem_1_bound_sampled`` says whether that is the upper end of a 99% confidence interval, as beyond 2,048
        rows, or exact.

    See Also
    --------
    MarginDistributionDisplay : Picture of what the machine does to the margins.
    ConvergenceDisplay : Picture of how objective and gap fell.

    Notes
    -----
    A small problem (at most 512 rows) is solved in float64 to rounding, whatever `tol` is.

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "A divide-and-conquer solver for kernel support vector machines", ICML 2014.

    Examples
    --------
    >>> from dimargin import SVMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> machine = SVMClassifier(gamma=2.0, random_state=0).fit(X[:800], y[:800])
    >>> machine.score(X[800:], y[800:]) > 0.94
    True
    >>> machine.duality_gap_ <= 1e-3, machine.certificate_
    (True, 'global')
    """

    C: float = 1.0
    loss: str = "hinge"
    fit_intercept: bool = False
    kernel: str | KernelFunction = "rbf"
    gamma: str | float = "scale"
    degree: int = 3
    coef0: float = 0.0
    multi_class: str = "auto"
    strategy: str | Strategy = "auto"
    branching: int = 4
    n_levels: int | None = None
    n_landmarks: int | None = None
    stop_level: int = 0
    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    class_weight: dict[Any, float] | str | None = None
    warm_start: bool = False
    memory_limit: int | None = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    @property
    def _has_intercept(self) -> bool:
        return bool(self.fit_intercept)

    def _loss(self) -> Loss:
        check_number("C", self.C, 0)
        check_magnitude("C", self.C)
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise TypeError(f"fit_intercept must be True or False, got {self.fit_intercept!r}")
        if self.loss not in _LOSSES:
            raise ValueError(f"loss must be one of {', '.join(map(repr, _LOSSES))}, got {self.loss!r}")
        return _LOSSES[self.loss](float(self.C))
