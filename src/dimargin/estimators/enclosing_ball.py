"""The minimum enclosing ball of points."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from dimargin.estimators.input_checks import check_finite, check_number, largest_magnitude, seed_of
from dimargin.estimators.kernel_parameters import check_kernel, keeps_columns, kernel_transform
from dimargin.estimators.training_data import STORED_DTYPES, canonical
from dimargin.estimators.wide_attributes import combination
from dimargin.kernels.column_statistics import SparseColumns, largest_column
from dimargin.kernels.user import KernelFunction, kernel_matrix
from dimargin.kernels.wide_rows import KeptColumns, as_given
from dimargin.problems.solution import History, Status
from dimargin.solvers import Limits, solve
from dimargin.solvers.balls.core_set import CoreSetSolver
from dimargin.solvers.balls.fixed_size import FixedSizeCoreSet
from dimargin.solvers.balls.growing_core_set import GrowingCoreSet
from dimargin.solvers.balls.spaces import FeatureSpace, KernelSpace, Points
from dimargin.system.arrays import Floats, Indices
from dimargin.system.threads import effective_n_threads, single_threaded_blas


@dataclass(frozen=True)
class EnclosingBall:
    """Ball around a core-set, with certified bounds.

    Attributes
    ----------
    center : ndarray of shape (n_features,) or None
        None with a kernel; it is the mean of the core-set's images weighted by `dual_weights`.
    dual_weights : ndarray of shape (n_core,)
        Positive weights with sum one.
    radius : float
        Lower bound, including rounding, for the radius of any ball around all points: the radius of
        the smallest ball around the core-set.
    core_set_indices : ndarray of shape (n_core,)
        Sorted indices of the points with a positive weight.
    certificate : bool
        Whether every point is known to be within ``(1 + epsilon) * radius`` of the centre.
    farthest : float
        Upper bound, including rounding, for the distance of any point from the centre.
    epsilon : float
        The requested tolerance.
    status : {"converged", "max_iter", "max_time", "precision"}
    reason : str
        Sentence that explains the status.
    n_passes : int
        Number of passes over all points.
    n_kernel_evaluations : int
    history : list of dict
        One entry per pass with ``objective`` (squared distance of the farthest point),
        ``relative_gap`` (of the squared radius to it), ``core_set`` (its size), and the cumulative
        ``passes``, ``kernel_evaluations`` and ``seconds``.
    """

    center: Floats | None
    dual_weights: Floats
    radius: float
    core_set_indices: Indices
    certificate: bool
    farthest: float
    epsilon: float
    status: Status
    reason: str
    n_passes: int
    n_kernel_evaluations: int
    history: History


def minimum_enclosing_ball(
    points: Any,
    epsilon: float = 1e-3,
    kernel: str | KernelFunction = "linear",
    gamma: str | float = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    method: str = "growing",
    max_iter: int = 10_000,
    max_time: float | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> EnclosingBall:
    r"""Find the smallest ball around points, up to a factor, and the few points that determine it.

    Its centre :math:`c = \sum_i x_i \varphi(p_i)` solves the dual (core-set paper, equation 2;
    Tsang, Kwok, Cheung 2005)

    .. math::

        \max_x \; \sum_i x_i k(p_i, p_i) - \sum_{ij} x_i x_j k(p_i, p_j)
        \quad \text{with} \quad x \ge 0, \; \sum_i x_i = 1,

    whose optimum is the squared radius.

    Parameters
    ----------
    points : array-like, sparse matrix or data frame of shape (n, n_features)
        With ``kernel="precomputed"``, kernel values of shape (n, n).
    epsilon : float, default=1e-3
        Tolerance in [0, 1]. Every point must be within ``(1 + epsilon) * radius``, so `radius` is
        at most by this factor smaller than that of the smallest ball. Zero gives the smallest ball,
        to 1e-9 of its radius.
    kernel : {"linear", "poly", "rbf", "laplacian", "precomputed"} or callable, default="linear"
        Kernel whose feature space holds the points; "linear" uses the points as they are. A
        function takes two arrays of rows and returns their kernel values.
    gamma : {"scale", "auto"} or float, default="scale"
        As in scikit-learn: "scale" is ``1 / (n_features * points.var())``, "auto"
        ``1 / n_features``.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly".
    method : {"growing", "fixed"}, default="growing"
        "growing" solves exactly for the core-set and the thousand farthest points in every pass,
        and needs a handful of passes. "fixed" is the algorithm of Badoiu and Clarkson: it has
        ``ceil(1 / epsilon)`` points, and exchanges one in every pass until no exchange helps. If
        `radius` is still too small then, it adds a point.
    max_iter : int, default=10000
        Maximum number of passes over the points.
    max_time : float or None, default=None
        Seconds after which the best ball so far is returned, with a ConvergenceWarning.
    n_jobs : int or None, default=None
        Threads for kernel values; None is one for every processor that the process may use. The
        result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the first centre with a kernel.

    Returns
    -------
    EnclosingBall

    Raises
    ------
    ValueError, TypeError
        If a parameter or point is out of range; the message names the parameter, or row and column.

    Warns
    -----
    ConvergenceWarning
        If a point may be farther than the tolerance allows; ``status`` and ``reason`` explain why.

    Notes
    -----
    Memory is O(n n_features), plus inner products of the core-set with a thousand points. If nearly
    all points are equally far from the centre, the core-set needs about ``1 / epsilon`` points, and
    the time grows with the square of this number.

    References
    ----------
    M. Badoiu, K. L. Clarkson, "Optimal core-sets for balls", Computational Geometry 40, 2008; I. W.
    Tsang, J. T. Kwok, P.-M. Cheung, "Core vector machines: fast SVM training on very large data
    sets", JMLR 6, 2005.

    Examples
    --------
    >>> from dimargin import minimum_enclosing_ball
    >>> import numpy as np
    >>> points = np.random.default_rng(0).normal(size=(100_000, 3))
    >>> ball = minimum_enclosing_ball(points)
    >>> len(ball.core_set_indices), ball.certificate, ball.n_passes
    (4, True, 3)
    >>> distances = np.linalg.norm(points - ball.center, axis=1)
    >>> bool((distances <= 1.001 * ball.radius).all())
    True
    """
    began = time.perf_counter()
    check_number("epsilon", epsilon, 0, 1, low_included=True, high_included=True)
    check_number("max_iter", max_iter, 1, low_included=True, whole=True)
    check_number("max_time", max_time, 0, or_none=True)
    if method not in ("growing", "fixed"):
        raise ValueError(f"method must be 'growing' or 'fixed', got {method!r}")
    if method == "fixed" and epsilon == 0:
        raise ValueError("epsilon must be above 0 for method='fixed', whose core-set has ceil(1 / epsilon) points")
    with single_threaded_blas():
        X = _checked(points, kernel)
        columns = KeptColumns.of(X) if keeps_columns(X, kernel) else None
        narrow = X if columns is None else columns.narrow(X)
        check_kernel(kernel, gamma, degree, coef0)
        space: Points
        if kernel == "linear":
            _check_squares(narrow, columns)
            space = FeatureSpace(narrow, None)
        else:
            # Float64 is needed because the radius may be small compared with the norms of the
            # points.
            ones = np.ones(X.shape[0])
            transform = kernel_transform(narrow, ones, kernel, gamma, degree, coef0, columns).in_float64()
            space = KernelSpace(kernel_matrix(transform, narrow, n_threads=effective_n_threads(n_jobs)), None)
        seed = seed_of(random_state)
        solver: CoreSetSolver = GrowingCoreSet(float(epsilon), seed)
        if method == "fixed":
            solver = FixedSizeCoreSet(math.ceil(1 / epsilon), float(epsilon), seed)
        deadline = None if max_time is None else began + max_time
        found = solve(space, solver, None, Limits(max_iter=int(max_iter), deadline=deadline))
        center = combination(found.weights, X[found.indices]) if isinstance(space, FeatureSpace) else None
        center = center.dense() if isinstance(center, SparseColumns) else center
        lower, upper = space.bounds(found.indices, found.weights, found.farthest)
    radius, farthest = math.nextafter(lower**0.5, 0.0), math.nextafter(upper**0.5, math.inf) if upper > 0 else 0.0
    result = found.result
    status, reason = result.status, result.reason
    if status == "converged" and farthest > (1 + max(epsilon, 1e-9)) * radius:
        status, reason = "precision", f"{reason}, but the rounding error may be larger than that"
    ball = EnclosingBall(
        center, found.weights, radius, found.indices, status == "converged", farthest, float(epsilon), status, reason,
        result.passes, space.evaluations, result.history,
    )  # fmt: skip
    if not ball.certificate:
        warnings.warn(
            f"minimum_enclosing_ball stopped before every point was within 1 + epsilon = {1 + epsilon:g} times the "
            f"radius: {result.reason}. The smallest ball has a radius of {ball.radius:.6g} to {ball.farthest:.6g}.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return ball


def _checked(points: Any, kernel: str | KernelFunction) -> Any:
    X = check_array(
        points, accept_sparse=False if kernel == "precomputed" else "csr", dtype=STORED_DTYPES, order="C",
        ensure_all_finite=False, accept_large_sparse=True, input_name="points",
    )  # fmt: skip
    check_finite(X, "points", getattr(points, "columns", None))
    if kernel == "precomputed" and X.shape[0] != X.shape[1]:
        raise ValueError(f"kernel='precomputed' needs a square matrix of kernel values, got shape {X.shape}")
    return canonical(X)


def _check_squares(X: Any, columns: KeptColumns | None) -> None:
    """Raise ValueError naming the column of a value whose squares, summed over the features, may overflow."""
    if largest_magnitude(X) > 1e150:
        column = largest_column(as_given(X, columns))
        raise ValueError(f"column {column} is too large: squared distances overflow. Scale the column first")
