"""The one-class support vector machine as a scikit-learn outlier detector."""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.estimators.detectors import CoreSetDetector, CoreSetFit, Evaluation, RowsToFit, certified
from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_magnitude
from dimargin.problems.objectives import ROUNDINGS
from dimargin.solvers import Limits
from dimargin.system.arrays import Floats


@documented
class OneClassCoreSetSVM(CoreSetDetector):
    r"""One-class support vector machine with squared slack, on a core-set.

    Minimises

    .. math:: \tfrac12 |w|^2 - \rho + \tfrac{C}{2} \sum_i s_i (\rho - w \cdot \varphi(x_i))_+^2

    over :math:`w` and :math:`\rho`, where :math:`s_i` is the weight of row i. The solution is the
    hyperplane farthest from the origin with the inliers on its other side (core-set
    paper, section III-B, with all labels one and no intercept; Schoelkopf et al., "Estimating the
    support of a high-dimensional distribution", Neural Computation 2001, with squared slack). The
    dual is the smallest ball around points with the inner products
    :math:`k(x_i, x_j) + \delta_{ij} / (C s_i)`, treated as if all had the same norm.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the slack; larger leaves fewer rows outside. ``sum_i s_i (rho - w.phi(x_i))_+`` is
        ``1 / C`` at the optimum.
    epsilon : float or None, default=None
        None: the core-set grows until the relative duality gap is within `tol`. A number in (0, 1]:
        the core-set grows until every row is within ``1 + epsilon`` times the radius of its ball.
    kernel : {"linear", "poly", "rbf", "laplacian", "precomputed"} or callable, default="rbf"
    %(gamma, degree, coef0)s
    contamination : "auto" or float, default="auto"
        Share of the training rows to classify as outliers, in (0, 0.5]. "auto": rows whose slack is
        more than twice the mean slack over all rows (``2 / (C sum_i s_i)`` at the optimum), which
        are at most half of the rows.
    %(tol)s
    max_iter : int, default=1000
        Maximum number of rounds; the core-set grows once per round, after a pass over the rows.
    %(max_time, n_jobs, random_state, n_sites, topology, shards)s

    Attributes
    ----------
    %(n_features_in_, feature_names_in_)s
    %(support_, support_vectors_)s
    dual_coef_ : ndarray of shape (1, n_SV)
        Weights with sum one; w is the weighted mean of the core-set.
    offset_ : float
        rho minus a margin that follows from `contamination`; outliers have a lower ``w.phi(x)``.
    objective_, dual_objective_ : float
        Objective of the machine scaled to rho = 1,
        ``1/2 |w|^2 + C/2 sum_i s_i (1 - w.phi(x_i))_+^2``, and a lower bound of its optimum.
    %(duality_gap_, certificate_, status_)s
    n_iter_ : int
        Number of rounds.
    %(history_)s

    See Also
    --------
    CoreSetSVDD : Detector with a ball instead of a hyperplane.

    Examples
    --------
    >>> from dimargin import OneClassCoreSetSVM
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> detector = OneClassCoreSetSVM(gamma=0.2, contamination=0.01, random_state=0).fit(X)
    >>> detector.predict([[0.1, -0.2], [6.0, 6.0]]), int((detector.predict(X) == -1).sum())
    (array([ 1, -1]), 10)
    """

    _machine = "margin"

    def _check_parameters(self) -> None:
        check_magnitude("C", self.C)
        super()._check_parameters()

    def _solve(self, rows: RowsToFit, limits: Limits) -> CoreSetFit:
        return self._homogeneous(rows, limits)

    def _judged(self, rows: RowsToFit, found: CoreSetFit, evaluation: Evaluation) -> dict[str, Any]:
        x, core = found.weights, found.indices
        rho = evaluation.square + float((x**2 / (self.C * rows.weights[core])).sum())
        # Scaling to rho = 1 maximises the dual objective over multiples of x.
        slack = np.maximum(1 - evaluation.products / rho, 0.0)
        primal = 0.5 * evaluation.square / rho**2 + 0.5 * self.C * float(rows.weights @ slack**2)
        square_error = evaluation.square_error(core, x) + ROUNDINGS * rho
        further = np.maximum(1 - (evaluation.products - evaluation.errors[1]) / rho, 0.0) ** 2 - slack**2
        rounding = 0.5 * square_error / rho**2 + 0.5 * self.C * float(rows.weights @ further) + ROUNDINGS * primal
        rounding += 0.5 * square_error / (rho * (rho + square_error))
        return {"offset_": rho, **certified(primal, 0.5 / rho, rounding)}

    @staticmethod
    def _scores(evaluation: Evaluation) -> Floats:
        return evaluation.products

    @staticmethod
    def _score_errors(evaluation: Evaluation, found: CoreSetFit) -> Floats:
        return evaluation.errors[1]

    def _diagonal_of(self, X: Any) -> Floats:
        return np.empty(0)  # Scores do not use it, and it is unknown for precomputed kernel values.
