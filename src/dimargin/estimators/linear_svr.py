"""Linear support vector regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dimargin.estimators.docstrings import documented
from dimargin.estimators.linear_loss_machine import LinearLossMachine
from dimargin.estimators.margin_regressor import MarginRegressor
from dimargin.strategies import LinearSolver


@documented
@dataclass(eq=False, repr=False)
class LinearSVMRegressor(MarginRegressor, LinearLossMachine):
    r"""Linear support vector regression for dense or sparse rows, of millions of features.

    Minimises

    .. math:: \tfrac12 |w|^2 + C \sum_i s_i (|w \cdot x_i + b - y_i| - \epsilon)_+

    where :math:`s_i` is the weight of row i. With ``loss="squared_epsilon_insensitive"`` the last
    factor is squared, and with `epsilon` zero besides, the machine is ridge regression with the penalty
    ``1 / (2 C)``. It is the machine of ``SVMRegressor(kernel="linear")``, with a weight for every feature
    in place of support vectors. The intercept :math:`b` is not regularised, unless `intercept_scaling` is
    given: with 1 the machine is that of LinearSVR and LIBLINEAR.

    Parameters
    ----------
    %(C, epsilon, loss)s
    solver : {"auto", "cd", "newton", "dsvrg", "cocoa"} or solver object, default="auto"
        Algorithm, as in `LinearSVMClassifier`; "newton" and "dsvrg" take the squared loss only.
    %(fit_intercept, intercept_scaling, tol)s
    max_iter : int, default=10000
        Maximum number of passes of "cd", or of Newton steps.
    %(max_time, warm_start, n_jobs, random_state)s
    verbose : int, default=0
        1 logs one line at the end of a solve, 2 also one line per check, as `SVMClassifier` does.

    Attributes
    ----------
    %(n_features_in_, feature_names_in_)s
    %(coef_, intercept_)s
    objective_, dual_objective_ : float
        Primal (positive) and dual objective.
    %(duality_gap_)s
    certificate_ : {"global", "before_rounding"}
        Problem of the gap: the whole one. "before_rounding": the gap is that of the machine before
        `to_float32`.
    %(status_)s
    n_iter_ : int
        Number of passes of "cd", or of steps and evaluations of starting points of "newton".
    history_ : list of dict
        As in `LinearSVMClassifier`.

    See Also
    --------
    SVMRegressor : Machine with any kernel.

    References
    ----------
    C.-H. Ho, C.-J. Lin, "Large-scale linear support vector regression", JMLR 13, 2012.

    Examples
    --------
    >>> from dimargin import LinearSVMRegressor
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(20_000, 10, noise=5.0, random_state=0)
    >>> machine = LinearSVMRegressor(random_state=0).fit(X[:15_000], y[:15_000])
    >>> round(machine.score(X[15_000:], y[15_000:]), 3), machine.duality_gap_ <= 1e-3, machine.certificate_
    (0.999, True, 'global')
    """

    C: float = 1.0
    epsilon: float = 0.1
    loss: str = "epsilon_insensitive"
    solver: str | LinearSolver = "auto"
    fit_intercept: bool = True
    intercept_scaling: float | None = None
    tol: float = 1e-3
    max_iter: int = 10_000
    max_time: float | None = None
    warm_start: bool = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    solvers: ClassVar[tuple[str, ...]] = ("cd", "newton", "dsvrg", "cocoa")
