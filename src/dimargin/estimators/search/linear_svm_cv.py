"""LinearSVMClassifierCV, the linear support vector machine with C chosen by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dimargin.estimators import LinearLossClassifier, LinearSVMClassifier
from dimargin.estimators.docstrings import documented
from dimargin.estimators.search.linear_path import LinearPathClassifier
from dimargin.strategies import LinearSolver


@documented
@dataclass(eq=False, repr=False)
class LinearSVMClassifierCV(LinearPathClassifier):
    """Linear support vector machine with C chosen by cross-validation.

    On every fold, machines are trained along the values of C in ascending order, each from the
    solution before it, so that the path takes a small multiple of the time of one fit. Every
    machine has a certificate. The machine is then trained on all rows with the best C: it is that
    of ``LinearSVMClassifier(C=C_)``. `SVMClassifierCV` searches other parameters as well.

    Parameters
    ----------
    Cs : int or array-like of shape (n_values,), default=10
        Values of C, or the number of values from 0.01 to 100 on a logarithmic scale.
    %(cv, scoring)s
    loss : {"hinge", "squared_hinge"}, default="hinge"
    solver : {"auto", "cd", "newton"} or solver object, default="auto"
        Algorithm, see `LinearSVMClassifier`.
    %(fit_intercept, intercept_scaling)s
    tol : float, default=1e-3
        Relative duality gap to reach, also on every fold.
    max_iter : int, default=10000
        Maximum number of passes of "cd", or of Newton steps, of every fit.
    %(max_time, class_weight, store_path, n_jobs, random_state)s
    verbose : int, default=0
        1 logs one line at the end of the path and of the last fit, 2 also one line per check of that.

    Attributes
    ----------
    C_ : float
        The value with the best mean score; the smallest of equals.
    Cs_ : ndarray of shape (n_values,)
        All values in ascending order, each once.
    %(best_score_, scores_, duality_gaps_, path_)s
    %(classes_, n_features_in_, feature_names_in_)s
    %(coef_, intercept_, objective_, duality_gap_)s
    certificate_ : {"global"}
        Problem of the gap: the whole one, with the chosen C.
    %(status_)s
    n_iter_, history_
        Of the last fit, see `LinearSVMClassifier`.

    See Also
    --------
    SVMClassifierCV : Successive halving over several parameters, with any kernel.
    LinearODMClassifierCV : The same for the linear ODM.

    Notes
    -----
    The dual coefficients of a value times a factor are the start for the next: the one with the
    largest dual objective, which lies between one and the ratio of the values of C. The weights
    are another candidate for the primal. On scaling by the ratio, see B.-Y. Chu, C.-H. Ho, C.-H.
    Tsai, C.-Y. Lin, C.-J. Lin, "Warm start for parameter selection of linear classifiers", KDD 2015.

    Examples
    --------
    >>> from dimargin import LinearSVMClassifierCV
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, 10, random_state=0)
    >>> machine = LinearSVMClassifierCV(Cs=[0.01, 0.1, 1, 10], random_state=0).fit(X[:1500], y[:1500])
    >>> machine.C_ in machine.Cs_, machine.score(X[1500:], y[1500:]) > 0.85
    (True, True)
    >>> machine.scores_.shape, bool((machine.duality_gaps_ <= 1e-3).all()), machine.duality_gap_ <= 1e-3
    ((5, 4), True, True)
    """

    Cs: Any = 10
    cv: Any = 5
    scoring: Any = None
    loss: str = "hinge"
    solver: str | LinearSolver = "auto"
    fit_intercept: bool = True
    intercept_scaling: float | None = None
    tol: float = 1e-3
    max_iter: int = 10_000
    max_time: float | None = None
    class_weight: dict[Any, float] | str | None = None
    store_path: bool = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    kind: ClassVar[type[LinearLossClassifier]] = LinearSVMClassifier
    parameter: ClassVar[str] = "C"
    ends: ClassVar[tuple[float, float]] = (1e-2, 1e2)
