"""Support vector data description as a scikit-learn outlier detector."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from dimargin.estimators.detectors import CoreSetDetector, CoreSetFit, Evaluation, RowsToFit, certified
from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_magnitude
from dimargin.estimators.wide_attributes import WideArray, combination
from dimargin.kernels.user import kernel_matrix
from dimargin.kernels.wide_rows import as_given
from dimargin.problems.losses import MAX_PARAMETER
from dimargin.problems.objectives import ROUNDINGS
from dimargin.solvers import ExactSolver, Limits, solve
from dimargin.solvers.balls.growing_core_set import GrowingCoreSet
from dimargin.solvers.balls.spaces import FeatureSpace, KernelSpace, Points
from dimargin.system.arrays import Floats


@documented
class CoreSetSVDD(CoreSetDetector):
    r"""Support vector data description: the smallest ball around inliers, on a core-set.

    Minimises

    .. math:: R^2 + \tfrac{C}{4} \sum_i s_i \bigl( |\varphi(x_i) - c|^2 - R^2 \bigr)_+^2

    over centre :math:`c` and radius :math:`R`, where :math:`s_i` is the weight of row i. The dual is
    the smallest ball around points with the products
    :math:`k(x_i, x_j) + \delta_{ij} / (C s_i)` (core-set paper, section III-B; Tax, Duin, "Support
    vector data description", Machine Learning 2004, with squared slack). ``C=inf`` has no row
    outside.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the slack; larger leaves fewer rows outside. ``sum_i s_i (distance_i^2 - R^2)_+``
        is ``2 / C`` at the optimum.
    epsilon : float or None, default=None
        None: the core-set grows until the relative duality gap is within `tol`. A number in (0, 1]:
        it grows until all rows are within ``1 + epsilon`` times its ball's radius, slack included.
    kernel : {"linear", "poly", "rbf", "laplacian"} or callable, default="rbf"
        "linear" finds a ball in the space of the features.
    %(gamma, degree, coef0)s
    contamination : "auto" or float, default="auto"
        Share of the training rows to classify as outliers, in (0, 0.5]. "auto": rows whose excess
        over the squared radius is more than twice the mean excess over all rows
        (``4 / (C sum_i s_i)`` at the optimum), which are at most half of the rows.
    %(tol)s
    max_iter : int, default=1000
        Passes over the rows.
    %(max_time, n_jobs, random_state, n_sites, topology, shards)s

    Attributes
    ----------
    %(n_features_in_, feature_names_in_)s
    radius_ : float
        R; zero, with a warning, if C is so small that the optimal radius is zero.
    center_ : ndarray of shape (n_features_in_,) or None
        None unless ``kernel="linear"``.
    %(support_, support_vectors_)s
    dual_coef_ : ndarray of shape (1, n_SV)
        Weights with sum one; the centre is the weighted mean of the core-set.
    offset_ : float
        ``-R^2`` minus a margin that follows from `contamination`; outliers have lower scores.
    objective_, dual_objective_ : float
        The minimised objective, and a lower bound of its optimum.
    %(duality_gap_, certificate_, status_)s
    n_iter_ : int
        Passes over the rows.
    %(history_)s

    See Also
    --------
    OneClassCoreSetSVM : The same detector for kernels whose diagonal is constant, such as "rbf".
    minimum_enclosing_ball : The ball without slack.

    Notes
    -----
    With kernels that depend on the difference of rows ("rbf", "laplacian"), core-sets may be large;
    with others, the time grows with the square of their size.

    Examples
    --------
    >>> from dimargin import CoreSetSVDD
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> detector = CoreSetSVDD(gamma=0.2, C=50.0, random_state=0).fit(X)
    >>> detector.predict([[0.1, -0.2], [6.0, 6.0]])
    array([ 1, -1])
    """

    center_ = WideArray()

    _machine = "ball"

    def _check_parameters(self) -> None:
        if math.inf != self.C:
            check_magnitude("C", self.C)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError("kernel='precomputed' lacks k(x, x) at prediction; give the kernel as a function")
        super()._check_parameters()

    def _solve(self, rows: RowsToFit, limits: Limits) -> CoreSetFit:
        if rows.transform.kernel.stationary and math.inf > self.C:
            return self._homogeneous(rows, limits)  # All points have the same norm.
        softness = None if math.inf == self.C else 1 / (self.C * rows.weights)
        space: Points
        if self.kernel == "linear":
            space = FeatureSpace(rows.X, softness)
        else:
            matrix = kernel_matrix(rows.transform.in_float64(), rows.X, n_threads=rows.n_threads)
            space = KernelSpace(matrix, softness)
        exact = len(rows.weights) <= ExactSolver.small
        # The gap refers to the squared radius, epsilon to the radius.
        epsilon = self.epsilon or (0.0 if exact else self.tol / 2)
        found = solve(space, GrowingCoreSet(epsilon, rows.seed), None, limits)
        return CoreSetFit(found.indices, found.weights, found.result)

    def _judged(self, rows: RowsToFit, found: CoreSetFit, evaluation: Evaluation) -> dict[str, Any]:
        softness = 1 / (self.C * rows.weights)
        x, core = found.weights, found.indices
        slack = float(x**2 @ softness[core])
        distances = -self._scores(evaluation)
        dual = float(x @ distances[core]) - slack
        squared_radius = float(distances.max()) if math.inf == self.C else dual - slack
        excess = np.maximum(distances - squared_radius, 0.0)
        outside = excess > 0
        primal = squared_radius + float((excess[outside] ** 2 / (4 * softness[outside])).sum())
        errors = self._score_errors(evaluation, found)
        rounding = float(x @ errors[core]) + ROUNDINGS * len(x) * (slack + float(x @ evaluation.diagonal[core]))
        if math.inf == self.C:
            rounding += float(errors.max())
        else:
            further = np.maximum(distances + errors - squared_radius, 0.0) ** 2 - excess**2
            rounding += float((further / (4 * softness)).sum()) + ROUNDINGS * abs(primal)
        if squared_radius <= 0 and found.result.status == "converged":
            apart = float(rows.weights @ distances)
            if apart > float(rows.weights @ errors) + 2 / MAX_PARAMETER:
                reason = f"C={self.C:g} is too small; use a C above {2 / apart:.3g} for these rows"
            else:
                reason = f"all rows are equal to kernel={self.kernel!r}"
            if self.epsilon is not None and apart > 2 / self.C:
                reason = f"epsilon={self.epsilon} is too large for C={self.C:g}"
            warnings.warn(f"The radius of the ball is zero: {reason}", stacklevel=4)
        center: Any = None
        if self.kernel == "linear":
            center = combination(x, as_given(rows.X[core], rows.columns))
        ball = {"radius_": max(squared_radius, 0.0) ** 0.5, "center_": center, "offset_": -squared_radius}
        return ball | certified(primal, dual, rounding)

    @staticmethod
    def _scores(evaluation: Evaluation) -> Floats:
        return np.asarray(2 * evaluation.products - evaluation.diagonal - evaluation.square)

    @staticmethod
    def _score_errors(evaluation: Evaluation, found: CoreSetFit) -> Floats:
        errors = evaluation.errors[0] + 2 * evaluation.errors[1]
        errors += evaluation.square_error(found.indices, found.weights)
        errors += ROUNDINGS * (evaluation.diagonal + 2 * np.abs(evaluation.products) + evaluation.square)
        return np.asarray(errors)
