"""The Optimal margin Distribution Machine as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_magnitude, check_number
from dimargin.estimators.multiclass import MulticlassKernelClassifier
from dimargin.kernels.user import KernelFunction
from dimargin.problems.losses import Loss, ODMLoss
from dimargin.strategies import Strategy


@documented
@dataclass(eq=False, repr=False)
class ODMClassifier(MulticlassKernelClassifier):
    r"""Kernel Optimal margin Distribution Machine.

    Minimises

    .. math::

        \tfrac12 |w|^2 + \frac{\lambda}{2 W (1 - \theta)^2} \sum_i s_i
        \bigl[ (1 - \theta - m_i)_+^2 + \upsilon (m_i - 1 - \theta)_+^2 \bigr]

    over margins :math:`m_i = y_i f(x_i)`, where :math:`\lambda` is `lam`, :math:`s_i` the weight of
    row i, and :math:`W` the sum of the weights. It pulls every margin towards one, instead of
    maximising only the smallest (DiODM paper, section 2). Every model carries a certificate, the
    relative duality gap.

    For K classes, there is ``n_outputs = 1`` binary problem if K = 2. Else there are
    ``K (K - 1) / 2``, one for each pair with its second class as the positive one, or K, one
    against the rest: see `multi_class`.

    Parameters
    ----------
    %(kernel, gamma, degree, coef0)s
    lam : float or "auto", default="auto"
        Weight of the loss; larger is less regularised. This is lambda in the ``lambda/2M``
        convention of the paper, twice that of libodm. It weights the mean loss, so the weight of a
        row falls with the number of rows; "auto" is ``20 W``, which is 20 for each row. On ten data
        sets, "auto" was as accurate as the best constant at 20,000 rows, and more accurate with
        fewer or more rows. The defaults of `lam`, `upsilon` and `theta` came closest to a tuned
        model (docs/defaults.md).
    upsilon : float, default=0.5
        Weight of margins beyond ``1 + theta``, in (0, 1].
    theta : float, default=0.3
        Half width of the band of margins around one without loss, in [0, 1).
    fit_intercept : bool, default=False
        Whether the decision function has an unregularised intercept. The paper's machine has none,
        nor have the models that strategies put together of parts, above level 0
        (docs/guide/trees.md). With the default kernel an intercept changes little: the mean accuracy
        on twenty data sets was 93.85% without one and 93.83% with one. With ``kernel="linear"``,
        whose boundaries go through the origin without one, it was 86.31% and 87.05% on six of them
        (docs/defaults.md).
    %(multi_class, pair_scores)s
    %(strategy, branching, n_levels, n_landmarks, stop_level, tol, max_iter, max_time, class_weight, warm_start)s
    memory_limit : int or None, default=None
        Bytes that the fit may use besides the data; too few raise a MemoryError at the start.
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
    T. Zhang, Z.-H. Zhou, "Optimal margin distribution machine", IEEE TKDE 32, 2019; "Distributed
    optimal margin distribution machine" (the DiODM paper), under review at ICLR 2022.

    Examples
    --------
    >>> from dimargin import ODMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> machine = ODMClassifier(random_state=0).fit(X[:800], y[:800])
    >>> round(machine.score(X[800:], y[800:]), 2)
    0.96
    >>> machine.duality_gap_ <= 1e-3, machine.certificate_
    (True, 'global')
    """

    kernel: str | KernelFunction = "rbf"
    gamma: str | float = "scale"
    degree: int = 3
    coef0: float = 0.0
    lam: str | float = "auto"
    upsilon: float = 0.5
    theta: float = 0.3
    fit_intercept: bool = False
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
        return odm_loss(self)


def odm_loss(estimator: Any) -> ODMLoss:
    """Return the loss of an estimator after validating its parameters."""
    by_row = isinstance(estimator, ODMClassifier) and isinstance(estimator.lam, str)
    if by_row and estimator.lam != "auto":
        raise TypeError(f"lam must be a finite number in (0, inf) or 'auto', got {estimator.lam!r}")
    if not by_row:
        check_magnitude("lam", estimator.lam)
    check_number("upsilon", estimator.upsilon, 0, 1, high_included=True)
    check_magnitude("upsilon", estimator.upsilon)
    check_number("theta", estimator.theta, 0, 1, low_included=True)
    return ODMLoss(None if by_row else float(estimator.lam), float(estimator.upsilon), float(estimator.theta))
