"""SVMPerf: a linear support vector machine by cutting planes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_number
from dimargin.problems.hinge import HingeRows
from dimargin.solvers.balls.active_set import enclose
from dimargin.system.arrays import Floats
from dimargin_bench.kernel_rivals.linear_rival import LinearRival


@documented
@dataclass(eq=False, repr=False)
class SVMPerf(LinearRival):
    r"""Linear support vector machine by cutting planes, with one slack variable (Joachims 2006).

    The mean hinge loss is the largest of ``2^n`` linear functions, one for every subset of the rows,

        ``1/n sum_i max(0, 1 - y_i w.x_i) = max over c in {0, 1}^n of  b_c - w.g_c,``
        ``b_c = 1/n sum_i c_i,   g_c = 1/n sum_i c_i y_i x_i.``

    Of these a working set is kept, at first that of no rows. In turn the best w for the working set is found, and the
    plane that is largest there, of the rows with ``y_i w.x_i < 1``, is added, until it is larger than those in the set
    by no more than `tol`. With the weights ``a >= 0`` of the planes, of sum one, ``w = 1/alpha sum_j a_j g_j`` and

        ``max over a:  sum_j a_j b_j - 1/(2 alpha) |sum_j a_j g_j|^2,``

    which an exact active set solver finds. That dual objective is below the optimum, so that the
    answer's objective is within `tol` of it, whatever the number of rows. By Joachims' theorem
    there are at most ``max(2 / tol, 8 R^2 / (alpha tol^2))`` planes, where R is the longest row's
    length; there are far fewer: 476 of a9a for alpha=1e-4, whose bound is above 1e12.

    Parameters
    ----------
    alpha : float, default=1e-4
        Weight of the regulariser, ``1 / C`` where C is SVMPerf's, which multiplies the mean of the
        losses, and ``1 / (C n_samples)`` of other support vector machines.
    tol : float, default=1e-3
        The paper's epsilon: by how much a new plane is larger at the end. Absolute, in units of the
        mean loss.
    max_iter : int, default=1000
        Planes at most, for each output.
    %(fit_intercept)s

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_, coef_, intercept_, objective_)s
    dual_objective_ : float, or ndarray of shape (n_classes,) for more than two classes
        Of the last working set: a lower bound of the optimum, but for rounding.
    n_iter_ : int
        Planes of the output that has most.

    References
    ----------
    T. Joachims, "Training linear SVMs in linear time", KDD 2006.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import SVMPerf
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, 10, class_sep=2.0, random_state=0)
    >>> machine = SVMPerf(alpha=1e-2).fit(X[:1000], y[:1000])
    >>> machine.score(X[1000:], y[1000:]) > 0.9, machine.objective_ - machine.dual_objective_ <= 1e-3
    (True, True)
    """

    alpha: float = 1e-4
    tol: float = 1e-3
    max_iter: int = 1000
    fit_intercept: bool = False

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("tol", self.tol, 0)
        check_number("max_iter", self.max_iter, 1, low_included=True, whole=True)

    def _learn(self, rows: HingeRows) -> Floats:
        found = [self._cut(HingeRows(rows.X, signs[None])) for signs in rows.signs]
        weights, bounds, planes, slacks = (np.array(values) for values in zip(*found, strict=True))
        if (slacks > self.tol).any():
            warnings.warn(
                f"SVMPerf has max_iter={self.max_iter} planes; the next is larger by {slacks.max():.3g}, "
                f"tol={self.tol:g}",
                ConvergenceWarning, stacklevel=4,
            )  # fmt: skip
        self.n_iter_ = int(planes.max())
        self.dual_objective_ = float(bounds[0]) if len(bounds) == 1 else bounds
        return np.asarray(weights)

    def _cut(self, rows: HingeRows) -> tuple[Floats, float, int, float]:
        """Return the weights of one output, its dual objective, planes, and by how much the next plane is larger."""
        alpha, w = float(self.alpha), np.zeros(rows.X.shape[1])
        planes, offsets = np.zeros((1, len(w))), np.zeros(1)
        products, used, bound = np.zeros((1, 1)), np.array([0]), 0.0
        while True:
            found = rows.evaluate(w[None])
            plane, offset = found.pull[0] / rows.n_rows, float(found.active[0]) / rows.n_rows
            excess = offset - plane @ w - float((offsets - planes @ w).max())
            if excess <= self.tol or len(offsets) > self.max_iter:
                return w, bound, len(offsets) - 1, excess
            row = planes @ plane / (2 * alpha)
            own = np.array([plane @ plane / (2 * alpha)])
            products = np.block([[products, row[:, None]], [row[None], own[None]]])
            planes, offsets = np.vstack([planes, plane]), np.append(offsets, offset)
            best = enclose(products.__getitem__, offsets, used)
            used, bound = best.indices, best.value
            w = best.weights @ planes[used] / alpha
