"""The support vector machine as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.estimators.base import KernelMarginClassifier
from dimargin.estimators.validation import check_magnitude, check_number
from dimargin.kernels.user import KernelFunction
from dimargin.problems.losses import HingeLoss, Loss, SquaredHingeLoss
from dimargin.strategies import Strategy

_LOSSES = {"hinge": HingeLoss, "squared_hinge": SquaredHingeLoss}


class SVMClassifier(KernelMarginClassifier):
    r"""Kernel support vector machine.

    Minimises ``1/2 |w|^2 + C sum_i s_i (1 - m_i)_+`` (``loss="squared_hinge"``: ``(1 - m_i)_+^2``) over margins
    ``m_i = y_i f(x_i)``, ``s_i`` the weight of row i: without an intercept, as in the DC-SVM paper (equation 1), or
    with one that is not regularised, as in LIBSVM and scikit-learn's SVC. Every model carries a certificate, the
    relative duality gap.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of each row; larger is less regularised.
    loss : {"hinge", "squared_hinge"}, default="hinge"
    fit_intercept : bool, default=False
        Whether the decision function has an unregularised intercept; True gives the model of LIBSVM and SVC (for two
        classes: theirs are one against one). Far from all support vectors the intercept decides alone, which costs
        accuracy where partitions are models of their own.
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
    strategy : {"auto", "exact", "diodm", "dc", "cascade", "dip", "landmark"} or strategy object, default="auto"
        "exact" solves the whole problem; "diodm" climbs a tree of stratified partitions; "dc" divides into clusters and
        conquers (DC-SVM); "cascade" passes support vectors of random partitions on, in rounds, "dip"
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
        Bytes that the fit may need beside the data; it refuses before it begins if they cannot suffice, and remembers
        kernel rows in what is left, where kernel values are expensive: of rows of more than 128 numbers, and of Python
        functions. None means 2 GiB.
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
        Zeros without `fit_intercept`.
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
        "landmark" (one entry a Newton step) adds ``rows``, "cascade" ``round``; "dc" adds ``clustering_seconds`` and,
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

    def __init__(
        self,
        C: float = 1.0,
        loss: str = "hinge",
        fit_intercept: bool = False,
        kernel: str | KernelFunction = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
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
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
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
