"""The support vector machine as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_magnitude
from dimargin.estimators.multiclass import MulticlassKernelClassifier
from dimargin.kernels.user import KernelFunction
from dimargin.problems.losses import HingeLoss, Loss, SquaredHingeLoss
from dimargin.strategies import Strategy


@documented
@dataclass(eq=False, repr=False)
class SVMClassifier(MulticlassKernelClassifier):
    r"""Kernel support vector machine.

    Minimises

    .. math:: \tfrac12 |w|^2 + C \sum_i s_i (1 - m_i)_+

    over margins :math:`m_i = y_i f(x_i)`, where :math:`s_i` is the weight of row i. With
    ``loss="squared_hinge"`` the last factor is :math:`(1 - m_i)_+^2`. The decision function has an
    unregularised intercept, as in LIBSVM and scikit-learn's SVC, or none, as in the DC-SVM paper
    (equation 1). Every model carries a certificate, the relative duality gap.

    For K classes, there is ``n_outputs = 1`` binary problem if K = 2. Else there are
    ``K (K - 1) / 2``, one for each pair with its second class as the positive one, or K, one
    against the rest: see `multi_class`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of each row; larger is less regularised.
    loss : {"hinge", "squared_hinge"}, default="hinge"
    fit_intercept : bool, default=True
        Whether the decision function has an unregularised intercept, as in LIBSVM and SVC. The
        papers' machines have none, nor have the models that strategies put together of parts, above
        level 0: far from all support vectors, only the intercept determines the prediction, which
        cost such models up to six percentage points of accuracy (docs/guide/trees.md).
    %(kernel, gamma, degree, coef0)s
    %(multi_class, pair_scores)s
    %(strategy, branching, n_levels, n_landmarks, stop_level, tol, max_iter, max_time, class_weight, warm_start)s
    memory_limit : int or None, default=None
        Bytes that the fit may use besides the data; too few raise a MemoryError at the start.
        Remaining memory caches kernel rows if kernel values are expensive: for rows of more than
        128 numbers, and for Python functions. None means 2 GiB.
    %(n_jobs, random_state, verbose)s

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_, support_, support_vectors_, dual_coef_)s
    intercept_ : ndarray of shape (n_outputs,)
        Zeros without `fit_intercept`, and above level 0.
    %(coef_)s
    %(n_support_, objective_, duality_gap_, certificate_, status_, n_iter_, history_)s

    See Also
    --------
    MarginDistributionDisplay : Plot of the margin distribution.
    ConvergenceDisplay : Plot of objective and gap during the fit.

    Notes
    -----
    A problem of at most 512 rows is solved in float64 to rounding error, regardless of `tol`.

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "A divide-and-conquer solver for kernel support vector
    machines", ICML 2014.

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
    fit_intercept: bool = True
    kernel: str | KernelFunction = "rbf"
    gamma: str | float = "scale"
    degree: int = 3
    coef0: float = 0.0
    multi_class: str = "auto"
    pair_scores: str = "smallest"
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

    def _loss(self) -> Loss:
        return svm_loss(self)


def svm_loss(machine: Any) -> Loss:
    """Return the loss of a support vector machine from its parameters; raises ValueError or TypeError."""
    check_magnitude("C", machine.C)
    if machine.loss not in ("hinge", "squared_hinge"):
        raise ValueError(f"loss must be one of 'hinge', 'squared_hinge', got {machine.loss!r}")
    return HingeLoss(float(machine.C)) if machine.loss == "hinge" else SquaredHingeLoss(float(machine.C))
