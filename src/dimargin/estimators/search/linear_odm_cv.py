"""LinearODMClassifierCV, the linear ODM with lam chosen by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dimargin.estimators import LinearLossClassifier, LinearODMClassifier
from dimargin.estimators.docstrings import documented
from dimargin.estimators.search.linear_path import LinearPathClassifier
from dimargin.strategies import LinearSolver


@documented
@dataclass(eq=False, repr=False)
class LinearODMClassifierCV(LinearPathClassifier):
    """Linear Optimal margin Distribution Machine with lam chosen by cross-validation.

    It is trained like `LinearSVMClassifierCV`, along the values of lam, and is then the machine of
    ``LinearODMClassifier(lam=lam_)``. `ODMClassifierCV` searches other parameters as well.

    Parameters
    ----------
    lams : int or array-like of shape (n_values,), default=10
        Values of lam, or the number of values from 10 to 1e6 on a logarithmic scale.
    upsilon : float, default=0.5
        Weight of margins beyond ``1 + theta``, in (0, 1].
    theta : float, default=0.8
        Half width of the band of margins around one without loss, in [0, 1).
    %(cv, scoring)s
    solver : {"auto", "newton", "cd", "svrg", "csvrg", "dsvrg"} or solver object, default="auto"
        Algorithm, see `LinearODMClassifier`.
    %(fit_intercept, intercept_scaling)s
    tol : float, default=1e-3
        Relative duality gap to reach, also on every fold.
    max_iter : int, default=1000
        Maximum number of Newton steps, of passes of "cd", or of stages, of every fit.
    %(max_time, class_weight, store_path, n_jobs, random_state)s
    verbose : int, default=0
        1 logs one line at the end of the path and of the last fit, 2 also one line per check of that.

    Attributes
    ----------
    lam_ : float
        The value with the best mean score; the smallest of equals.
    lams_ : ndarray of shape (n_values,)
        All values in ascending order, each once.
    %(best_score_, scores_, duality_gaps_, path_)s
    %(classes_, n_features_in_, feature_names_in_)s
    %(coef_, intercept_, objective_, duality_gap_)s
    certificate_ : {"global"}
        Problem of the gap: the whole one, with the chosen lam.
    %(status_)s
    n_iter_, history_
        Of the last fit, see `LinearODMClassifier`.

    See Also
    --------
    ODMClassifierCV : Successive halving over several parameters, with any kernel.

    Examples
    --------
    >>> from dimargin import LinearODMClassifierCV
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, 10, random_state=0)
    >>> machine = LinearODMClassifierCV(lams=5, random_state=0).fit(X[:1500], y[:1500])
    >>> machine.lams_.round(1).tolist(), machine.score(X[1500:], y[1500:]) > 0.85
    ([10.0, 177.8, 3162.3, 56234.1, 1000000.0], True)
    """

    lams: Any = 10
    upsilon: float = 0.5
    theta: float = 0.8
    cv: Any = 5
    scoring: Any = None
    solver: str | LinearSolver = "auto"
    fit_intercept: bool = True
    intercept_scaling: float | None = None
    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    class_weight: dict[Any, float] | str | None = None
    store_path: bool = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    kind: ClassVar[type[LinearLossClassifier]] = LinearODMClassifier
    parameter: ClassVar[str] = "lam"
    ends: ClassVar[tuple[float, float]] = (1e1, 1e6)
