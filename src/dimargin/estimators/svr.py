"""Support vector regression with kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_flag
from dimargin.estimators.kernel_machine import KernelMachine
from dimargin.estimators.margin_regressor import MarginRegressor
from dimargin.kernels.user import KernelFunction
from dimargin.strategies import Strategy


@documented
@dataclass(eq=False, repr=False)
class SVMRegressor(MarginRegressor, KernelMachine):
    r"""Support vector regression with kernels.

    Minimises

    .. math:: \tfrac12 |w|^2 + C \sum_i s_i (|f(x_i) - y_i| - \epsilon)_+

    where :math:`s_i` is the weight of row i. With ``loss="squared_epsilon_insensitive"`` the last
    factor is squared, and with `epsilon` zero besides, the machine is kernel ridge regression with an
    unregularised intercept and the penalty ``1 / (2 C)``. Residuals within `epsilon` cost nothing, so that the
    rows inside the band are not in the model. It is the machine of LIBSVM and of scikit-learn's SVR, and
    every model carries a certificate, the relative duality gap.

    Parameters
    ----------
    %(C, epsilon, loss)s
    fit_intercept : bool, default=True
        Whether the prediction has an unregularised intercept.
    %(kernel, gamma, degree, coef0)s
    %(strategy, branching, n_levels, n_landmarks, stop_level, tol, max_iter, max_time, warm_start)s
    memory_limit : int or None, default=None
        As in `SVMClassifier`.
    %(n_jobs, random_state, verbose)s

    Attributes
    ----------
    %(n_features_in_, feature_names_in_)s
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors in X. Equal rows with the same target may be merged into the first,
        with summed weights and coefficients.
    %(support_vectors_)s
    dual_coef_ : ndarray of shape (1, n_SV)
        Positive for targets above the band.
    intercept_ : ndarray of shape (1,)
        Zero without `fit_intercept`. Models above level 0 have the median target.
    %(coef_)s
    n_support_ : ndarray of shape (1,)
        Number of support vectors.
    objective_, dual_objective_ : float
        Primal (positive) and dual objective of the problem that `certificate_` names, as in `SVMClassifier`.
    duality_gap_ : float
        ``(objective_ - dual_objective_) / objective_``, including rounding, as in `SVMClassifier`.
    %(certificate_, status_)s
    n_iter_ : int
        Passes over the rows, summed over the levels.
    history_ : list of dict
        As in `SVMClassifier`.

    See Also
    --------
    LinearSVMRegressor : The machine with a weight for every feature, for millions of rows or features.

    Notes
    -----
    A problem of at most 512 rows is solved in float64 to rounding error, regardless of `tol`.

    References
    ----------
    A. J. Smola, B. Schoelkopf, "A tutorial on support vector regression", Statistics and Computing 14, 2004.

    Examples
    --------
    >>> from dimargin import SVMRegressor
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(2000, noise=1.0, random_state=0)
    >>> machine = SVMRegressor(C=10.0, gamma=0.5, random_state=0).fit(X[:1500], y[:1500])
    >>> machine.score(X[1500:], y[1500:]) > 0.89, machine.duality_gap_ <= 1e-3, machine.certificate_
    (True, True, 'global')
    """

    C: float = 1.0
    epsilon: float = 0.1
    loss: str = "epsilon_insensitive"
    fit_intercept: bool = True
    kernel: str | KernelFunction = "rbf"
    gamma: str | float = "scale"
    degree: int = 3
    coef0: float = 0.0
    strategy: str | Strategy = "auto"
    branching: int = 4
    n_levels: int | None = None
    n_landmarks: int | None = None
    stop_level: int = 0
    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    warm_start: bool = False
    memory_limit: int | None = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    @property
    def _has_intercept(self) -> bool:
        return bool(self.fit_intercept)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_flag("fit_intercept", self.fit_intercept)
        if getattr(self.strategy, "prediction", None) == "bcm":
            raise ValueError("prediction='bcm' adds log odds of classes; for a regressor use 'early'")
