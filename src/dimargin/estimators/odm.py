"""The Optimal margin Distribution Machine as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dimargin.estimators.docstrings import documented
from dimargin.estimators.multiclass import MulticlassKernelClassifier
from dimargin.estimators.validation import check_magnitude, check_number
from dimargin.kernels.user import KernelFunction
from dimargin.problems.losses import Loss, ODMLoss
from dimargin.strategies import Strategy


@documented
@dataclass(eq=False, repr=False)
class ODMClassifier(MulticlassKernelClassifier):
    r"""Kernel Optimal margin Distribution Machine.

    Minimises ``1/2 |w|^2 + lam/(2 W (1-theta)^2) sum_i s_i [ (1-theta-m_i)_+^2 + upsilon (m_i-1-theta)_+^2 ]`` over
    margins ``m_i = y_i f(x_i)``, ``s_i`` the weight of row i and ``W`` their sum: not the smallest margin but the
    whole distribution of margins is drawn to one (DiODM paper, section 2). Every model carries a certificate, the
    relative duality gap.

    For K classes there are ``n_outputs = 1`` binary problems if K = 2, else ``K (K - 1) / 2``, one for each pair, whose
    second class is the positive one, or K, one against the rest: see `multi_class`.

    Parameters
    ----------
    %(kernel, gamma, degree, coef0)s
    lam : float or "auto", default="auto"
        Weight of the loss; larger is less regularised. The paper's lambda (its ``lambda/2M`` convention; twice that
        of libodm). It weighs the mean loss, so that a row weighs less where there are more; "auto" is ``20 W``, for 20
        a row, which over ten data sets did as well as any number at 20,000 rows, and better at fewer and at more. The
        three defaults are those that came closest to a tuned model (docs).
    upsilon : float, default=0.5
        Weight of margins beyond ``1 + theta``, in (0, 1].
    theta : float, default=0.3
        Half width of the band around one in which margins cost nothing, in [0, 1).
    %(multi_class)s
    %(strategy, branching, n_levels, n_landmarks, stop_level, tol, max_iter, max_time, class_weight, warm_start)s
    memory_limit : int or None, default=None
        Bytes that the fit may need beside the data; it refuses before it begins if they cannot suffice.
    %(n_jobs, random_state, verbose)s

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_, support_, support_vectors_, dual_coef_)s
    intercept_ : ndarray of shape (n_outputs,)
        Zeros: the machine has no intercept.
    %(coef_)s
    %(n_support_, objective_, duality_gap_, certificate_, status_, n_iter_)s
    history_ : list of dict
        One entry a level (strategy "exact": a check of the gap; pairs of classes: one in all) with ``level``,
        ``partitions``, ``seconds``, ``kernel_evaluations`` (both of this entry alone), ``objective`` (as
        `objective_`), ``relative_gap``. Strategy "exact" adds ``factorizations``, of large kernel matrices (also of
        this entry alone; not for pairs of classes), "landmark" (one entry a
        Newton step) ``rows``, "cascade" ``round``, "dc" ``clustering_seconds``.

    See Also
    --------
    MarginDistributionDisplay : Picture of what the machine does to the margins.
    ConvergenceDisplay : Picture of how objective and gap fell.

    Notes
    -----
    A small problem (at most 512 rows) is solved in float64 to rounding, whatever `tol` is.

    References
    ----------
    T. Zhang, Z.-H. Zhou, "Optimal margin distribution machine", IEEE TKDE 2019; "Scalable optimal margin distribution
    machine", IJCAI 2023.

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

    def _loss(self) -> Loss:
        return odm_loss(self)


def odm_loss(estimator: Any) -> ODMLoss:
    """Validate the parameters of an estimator's loss, and return it."""
    by_row = isinstance(estimator, ODMClassifier) and isinstance(estimator.lam, str)
    if by_row and estimator.lam != "auto":
        raise TypeError(f"lam must be a finite number in (0, inf) or 'auto', got {estimator.lam!r}")
    if not by_row:
        check_number("lam", estimator.lam, 0)
        check_magnitude("lam", estimator.lam)
    check_number("upsilon", estimator.upsilon, 0, 1, high_included=True)
    check_magnitude("upsilon", estimator.upsilon)
    check_number("theta", estimator.theta, 0, 1, low_included=True)
    return ODMLoss(None if by_row else float(estimator.lam), float(estimator.upsilon), float(estimator.theta))
