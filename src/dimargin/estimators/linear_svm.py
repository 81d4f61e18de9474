"""The linear support vector machine as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dimargin.estimators.docstrings import documented
from dimargin.estimators.fit_plan import DataSize, FitPlan
from dimargin.estimators.linear_loss_machine import LinearLossClassifier
from dimargin.estimators.svm import svm_loss
from dimargin.problems.losses import Loss
from dimargin.strategies import LinearSolver
from dimargin.strategies.linear_coordinate_descent import LinearCrammerSinger


@documented
@dataclass(eq=False, repr=False)
class LinearSVMClassifier(LinearLossClassifier):
    r"""Linear support vector machine for dense or sparse rows, of millions of features.

    Minimises

    .. math:: \tfrac12 |w|^2 + C \sum_i s_i (1 - m_i)_+

    over margins :math:`m_i = y_i (w \cdot x_i + b)`, where :math:`s_i` is the weight of row i. With
    ``loss="squared_hinge"`` the last factor is :math:`(1 - m_i)_+^2`. It is the machine of
    ``SVMClassifier(kernel="linear")``, with a weight for every feature in place of support vectors.
    The intercept :math:`b` is not regularised, unless `intercept_scaling` is given: with 1 the
    machine is that of LinearSVC and LIBLINEAR with their defaults. Besides the data, the fit needs
    about 15 numbers per feature and output, and for "cd" 30 per row.

    For K classes, there is ``n_outputs = 1`` binary problem if K = 2, else there are K, one against
    the rest. With ``multi_class="crammer_singer"`` there is one problem for all classes, the machine of
    Crammer and Singer:

    .. math:: \tfrac12 \sum_k |w_k|^2 + C \sum_i s_i \max_k (w_k \cdot x_i + [k \ne y_i] - w_{y_i} \cdot x_i).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of each row; larger is less regularised.
    loss : {"hinge", "squared_hinge"}, default="hinge"
    solver : {"auto", "cd", "newton", "dsvrg", "cocoa"} or solver object, default="auto"
        Algorithm. "cd" is dual coordinate descent, fast for sparse rows with many columns. Where it
        would be slow, as with few columns or such of very different scales, steps of a proximal
        Newton method take over. "newton" takes a few
        passes over the rows, for the squared hinge only. "auto" is "newton" for the squared hinge if
        its Hessian is cheap, which takes at most 1,024 features and at most 64 plus ten times the
        average number of stored values of a row; else "cd". "cocoa" (accelerated CoCoA+) and, for the
        squared hinge, "dsvrg" are for rows on Spark that are too many for one task; "auto" is "cocoa"
        there in place of "cd". It is slow where columns have very different scales.
    multi_class : {"one_vs_rest", "crammer_singer"}, default="one_vs_rest"
        Problems of more than two classes. "crammer_singer" needs the hinge, and an intercept that is
        regularised, as in LinearSVC and LIBLINEAR, or none: ``intercept_scaling=1`` or
        ``fit_intercept=False``. It takes "cd", on one thread, and not on Spark, and is slow where columns
        have means far from zero or very different scales.
    %(fit_intercept, intercept_scaling, tol)s
    max_iter : int, default=10000
        Maximum number of passes of "cd", or of Newton steps.
    %(max_time, class_weight, warm_start)s
    %(n_jobs, random_state)s
    verbose : int, default=0
        1 logs one line at the end of a solve, 2 also one line per check, as `SVMClassifier` does.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    %(coef_, intercept_, objective_, duality_gap_)s
    certificate_ : {"global", "before_rounding"}
        Problem of the gap: the whole one. "before_rounding": the gap is that of the machine before
        `to_float32`.
    %(status_)s
    n_iter_ : int
        Number of passes of "cd", or of steps and evaluations of starting points of "newton".
    history_ : list of dict
        One entry per check with ``level`` (1 for an initial solve on some of the rows),
        ``partitions``, ``rows``, ``scope``, ``seconds``, ``epochs`` (passes over all rows so far, of
        which some passes of "cd" leave out many), ``objective``, ``relative_gap``,
        ``kernel_evaluations`` (0) and, of "newton", ``gradient_norm``.

    See Also
    --------
    SVMClassifier : Machine with any kernel.
    LinearODMClassifier : Linear machine whose margins are all close to one.

    References
    ----------
    C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual coordinate descent
    method for large-scale linear SVM", ICML 2008; S. S. Keerthi, D. DeCoste, "A modified finite
    Newton method for fast solution of large scale linear SVMs", JMLR 6, 2005; K. Crammer, Y. Singer,
    "On the algorithmic implementation of multiclass kernel-based vector machines", JMLR 2, 2001.

    Examples
    --------
    >>> from dimargin import LinearSVMClassifier
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(20_000, 10, random_state=0)
    >>> machine = LinearSVMClassifier(random_state=0).fit(X[:15_000], y[:15_000])
    >>> round(machine.score(X[15_000:], y[15_000:]), 2), machine.duality_gap_ <= 1e-3, machine.certificate_
    (0.84, True, 'global')
    """

    C: float = 1.0
    loss: str = "hinge"
    solver: str | LinearSolver = "auto"
    multi_class: str = "one_vs_rest"
    fit_intercept: bool = True
    intercept_scaling: float | None = None
    tol: float = 1e-3
    max_iter: int = 10_000
    max_time: float | None = None
    class_weight: dict[Any, float] | str | None = None
    warm_start: bool = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    solvers: ClassVar[tuple[str, ...]] = ("cd", "newton", "dsvrg", "cocoa")

    def _loss(self) -> Loss:
        return svm_loss(self)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.multi_class not in ("one_vs_rest", "crammer_singer"):
            raise ValueError(f"multi_class must be 'one_vs_rest' or 'crammer_singer', got {self.multi_class!r}")
        if self.multi_class == "one_vs_rest":
            return
        if self.loss != "hinge" or self.solver not in ("auto", "cd"):
            raise ValueError(
                f"multi_class='crammer_singer' needs loss='hinge' and solver='auto' or 'cd', got loss={self.loss!r} "
                f"and solver={self.solver!r}"
            )
        if self.fit_intercept and self.intercept_scaling is None:
            raise ValueError(
                "multi_class='crammer_singer' needs a regularised intercept or none; set intercept_scaling=1, as "
                "LinearSVC does, or fit_intercept=False"
            )

    def _plan(self, size: DataSize) -> FitPlan:
        plan = super()._plan(size)
        if self.multi_class == "one_vs_rest":
            return plan
        return replace(plan, name="cd", strategy=LinearCrammerSinger())
