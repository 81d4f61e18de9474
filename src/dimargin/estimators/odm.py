"""The Optimal margin Distribution Machine as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

from dimargin.estimators.base import KernelMarginClassifier
from dimargin.estimators.validation import check_magnitude, check_number
from dimargin.kernels.user import KernelFunction
from dimargin.problems.losses import Loss, ODMLoss
from dimargin.strategies import Strategy


class ODMClassifier(KernelMarginClassifier):
    r"""Kernel Optimal margin Distribution Machine.

    Minimises ``1/2 |w|^2 + lam/(2 W (1-theta)^2) sum_i s_i [ (1-theta-m_i)_+^2 + upsilon (m_i-1-theta)_+^2 ]`` over
    margins ``m_i = y_i f(x_i)``, ``s_i`` the weight of row i and ``W`` their sum: not the smallest margin but the
    whole distribution of margins is drawn to one (DiODM paper, section 2). Every model carries a certificate, the
    relative duality gap.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "laplacian", "precomputed"} or callable, default="rbf"
        "precomputed": X holds kernel values, of shape (n, n) to fit and (n_queries, n) to predict. A function takes two
        arrays of rows and returns their kernel values. Both are several times slower than a named kernel, and must be
        positive semi-definite.
    gamma : {"scale", "auto"} or float, default="scale"
        As in scikit-learn: "scale" is ``1 / (n_features * X.var())`` (rows weighted by `sample_weight`), "auto"
        ``1 / n_features``.
    degree : int, default=3
        Of "poly".
    coef0 : float, default=0.0
        Of "poly": ``(gamma x.z + coef0) ** degree``.
    lam : float, default=4e5
        Weight of the loss; larger is less regularised. The paper's lambda (its ``lambda/2M`` convention; twice that
        of libodm). The three defaults are those that came closest to a tuned model over ten data sets (docs).
    upsilon : float, default=0.5
        Weight of margins beyond ``1 + theta``, in (0, 1].
    theta : float, default=0.3
        Half width of the band around one in which margins cost nothing, in [0, 1).
    strategy : {"auto", "exact", "diodm", "dc", "cascade", "dip", "landmark"} or strategy object, default="auto"
        "exact" solves the whole problem; "diodm" climbs a tree of stratified partitions; "dc" divides into clusters and
        conquers (DC-ODM); "cascade" passes support vectors of random partitions on, in rounds, "dip"
        those of partitions in which every cluster of the features is as frequent as in the whole; "landmark" solves the
        machine in the space of a sample of the rows, the way past a million rows; "auto" takes "exact" up to 100,000
        rows and "diodm" above, or where `n_levels` or `stop_level` is given. An object carries options of its own, as
        in ``DivideAndConquer(prediction="naive")``.
    branching : int, default=4
        Partitions merged at a time ("diodm", "cascade", "dip"), or clusters of level l to the power of l ("dc").
    n_levels : int or None, default=None
        Levels of the tree above the whole problem: ``branching ** n_levels`` leaves. None aims at leaves of 4,096
        rows. Obeyed however few the rows are.
    n_landmarks : int or None, default=None
        Landmarks in the kernel's space: those that define the strata of "diodm" (None: 50), or those whose span is the
        space of "landmark" (None: 1,000).
    stop_level : int, default=0
        Level whose model is returned; 0 is the whole problem. Above it, the mean of the local machines answers
        ("diodm", "cascade", "dip"), or the machine of the nearest cluster ("dc": early prediction, for others see
        `DivideAndConquer`).
    tol : float, default=1e-3
        Relative duality gap to reach. Below 1e-4 the certificate is computed with float64 kernel values.
    max_iter : int, default=1000
        Passes over the rows.
    max_time : float or None, default=None
        Seconds after which the best model so far is returned, with a ConvergenceWarning.
    class_weight : dict, "balanced" or None, default=None
    warm_start : bool, default=False
        Start from the coefficients of the previous fit, which must have had the same rows.
    memory_limit : int or None, default=None
        Bytes that the fit may need beside the data; it refuses before it begins if they cannot suffice.
    n_jobs : int or None, default=None
        Threads; None is all that OpenMP and threadpoolctl allow. The result does not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 prints a line a level, 2 one a check of the gap. Progress bars: scikit-learn's `ProgressBar` callback.

    Attributes
    ----------
    For K classes there are ``n_outputs = 1`` binary problems if K = 2, else K, one against the rest.

    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had column names.
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors in X: the union over the outputs.
    support_vectors_ : ndarray or CSR array of shape (n_SV, n_features_in_)
    dual_coef_ : ndarray of shape (n_outputs, n_SV)
        ``y_i gamma_i``; zero where a support vector belongs to other outputs only.
    intercept_ : ndarray of shape (n_outputs,)
        Zeros: the machine has no intercept.
    n_support_ : ndarray of shape (n_classes,)
        Support vectors of each class.
    objective_, dual_objective_ : float, or ndarray of shape (n_classes,) for more than two classes
        Primal objective (positive) and the dual one below it, of the problem that `certificate_` names. For
        "partitioned" they are weighted means over partitions that represent the whole ("diodm", "cascade", "dip"), and
        sums over clusters ("dc").
    duality_gap_ : float
        ``(objective_ - dual_objective_) / objective_``, of the worst output and the worst partition, rounding included:
        bounded where kernel values are float64 (up to 512 rows, or ``tol < 1e-4``), else estimated from a sample
        of rows, plus five standard deviations.
    certificate_ : {"global", "partitioned", "landmark"}
        Problem that the gap belongs to; `certify` computes the global one.
    status_ : {"converged", "max_iter", "max_time", "stopped", "precision"}
    n_iter_ : int
        Passes over the rows, summed over the levels.
    history_ : list of dict
        One entry a level (strategy "exact": a check of the gap) with ``level``, ``partitions``, ``seconds``,
        ``kernel_evaluations`` (both of this entry alone), ``objective`` (as `objective_`), ``relative_gap``. Strategy
        "landmark" (one entry a Newton step) adds ``rows``, "cascade" ``round``, "dc" ``clustering_seconds``.

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

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        lam: float = 4e5,
        upsilon: float = 0.5,
        theta: float = 0.3,
        strategy: str | Strategy = "auto",
        branching: int = 4,
        n_levels: int | None = None,
        n_landmarks: int | None = None,
        stop_level: int = 0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.lam = lam
        self.upsilon = upsilon
        self.theta = theta
        self.strategy = strategy
        self.branching = branching
        self.n_levels = n_levels
        self.n_landmarks = n_landmarks
        self.stop_level = stop_level
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _loss(self) -> Loss:
        return odm_loss(self)


def odm_loss(estimator: Any) -> Loss:
    """Validate the parameters of an estimator's loss, and return it."""
    check_number("lam", estimator.lam, 0)
    check_magnitude("lam", estimator.lam)
    check_number("upsilon", estimator.upsilon, 0, 1, high_included=True)
    check_magnitude("upsilon", estimator.upsilon)
    check_number("theta", estimator.theta, 0, 1, low_included=True)
    return ODMLoss(float(estimator.lam), float(estimator.upsilon), float(estimator.theta))
