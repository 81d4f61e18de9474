r"""Solver for the problem of one site in ADMM: hinge losses of its rows, and a weighted distance from a centre.

    minimise  P(w) = sum_j h_j/2 (w_j - v_j)^2 + c sum_i max(0, 1 - y_i w.x_i)

which is a linear support vector machine with its prior at v instead of zero. Its dual, over a in
[0, c],

    maximise  D(a) = sum_i a_i (1 - y_i v.x_i) - 1/2 |sum_i a_i y_i x_i / sqrt(h)|^2,   w = v + sum_i a_i y_i x_i / h

is solved by the method of multipliers (the proximal point method on D),
``a <- clip(a + s (1 - y X w), 0, c)``, where w minimises a piecewise quadratic function, by
Newton's method (semismooth Newton augmented Lagrangian; Li, Sun, Toh, SIAM J. Optimization 2018):
its second derivative is ``h + s sum of x x'`` over the rows whose coefficient is inside the box, a
system with one unknown per feature or per such row, whichever are fewer. It starts from the last
coefficients, since in ADMM the centre moves less and less. Block coordinate descent on the dual
takes hundreds of passes with many more rows than features, since all blocks move the same weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


class LocalSVM:
    """Solver of the problem of one site, warm-started from the last solution.

    Parameters
    ----------
    rows : HingeRows
    loss_weight : float
        Weight c of the losses.
    curvature : ndarray of shape (n_features,)
        Weights h of the distance, positive.
    dual : ndarray of shape (n_outputs, n)
        Coefficients in [0, c] to start from; updated in place.

    Attributes
    ----------
    gap : float
        Largest duality gap of an output in the last solution.

    Examples
    --------
    >>> rows = HingeRows(np.array([[1.0], [-3.0]]), np.array([[1.0, -1.0]]))
    >>> machine = LocalSVM(rows, 0.5, np.ones(1), np.zeros((1, 2)))
    >>> machine.solve(np.array([[0.25]]), 1e-9, 50).round(6)
    array([[0.75]])
    """

    def __init__(self, rows: HingeRows, loss_weight: float, curvature: Floats, dual: Floats) -> None:
        self.rows, self.curvature, self.dual = rows, curvature, dual
        self.gap = 0.0
        self._growth = 3.0  # Factor of the penalty s from one step of the multipliers to the next.
        self._c = loss_weight
        # A larger penalty s would make Newton's system ill-conditioned (above 1e10), or
        # coefficients less precise than the rounding of margins.
        well_conditioned = 1e10 * float(curvature.min()) / max(float((rows.lengths**2).sum()), 1e-300)
        self._max_penalty = min(well_conditioned, 1e6 * loss_weight)
        self._min_start = min(10.0 * loss_weight, self._max_penalty)
        self.starts = np.full(len(dual), self._min_start)  # The penalty at the start, adapted by each solution.

    def solve(self, centre: Floats, tolerance: float, max_steps: int, gap: float = 0.0) -> Floats:
        """Return the minimiser for a centre of shape (n_outputs, n_features).

        For each output, stop when the relative duality gap is at most `tolerance`, when the duality
        gap itself is at most `gap`, or after `max_steps` steps of Newton's method and of the
        multipliers together.
        """
        self.gap = 0.0
        if not self.rows.n_rows:
            return centre.copy()
        return np.array([self._solve_output(q, v, tolerance, max_steps, gap) for q, v in enumerate(centre)])

    def _solve_output(self, q: int, centre: Floats, tolerance: float, max_steps: int, gap: float) -> Floats:
        X, signs, a, s, steps = self.rows.X, self.rows.signs[q], self.dual[q], self.starts[q], 0
        gain = 1 - signs * (X @ centre)
        pull = X.T @ (signs * a)
        weights = centre + pull / self.curvature
        while True:
            short = 1 - signs * (X @ weights)
            primal = float((self.curvature * (weights - centre) ** 2).sum()) / 2
            primal += self._c * float(np.maximum(short, 0).sum())
            dual = float(a @ gain) - float((pull**2 / self.curvature).sum()) / 2
            allowed = max(tolerance, gap / max(primal, 1e-300))
            if primal - dual <= allowed * primal or steps >= max_steps:
                self.gap = float(np.maximum(self.gap, primal - dual))  # NaN stays NaN.
                break
            # A step of the multipliers multiplies the error of the minimiser by s.
            tol = 1e-2 * min(allowed, 1e-4) * primal * min(1.0, self._c / s)
            weights, steps = self._minimise(centre, signs, a, s, weights, tol, steps, max_steps)
            a = np.clip(a + s * (1 - signs * (X @ weights)), 0, self._c)
            pull, s, steps = X.T @ (signs * a), min(s * self._growth, self._max_penalty), steps + 1
        self.dual[q], self.starts[q] = a, max(self._min_start, s / self._growth**3)
        return np.asarray(weights)

    def _minimise(
        self, centre: Floats, signs: Floats, a: Floats, s: float, weights: Floats, tol: float, steps: int, limit: int
    ) -> tuple[Floats, int]:
        """Return the minimiser of the augmented Lagrangian, up to a slope of `tol`, and the number of steps so far."""
        X, h = self.rows.X, self.curvature
        r = a + s * (1 - signs * (X @ weights))
        while steps < limit:
            p = np.clip(r, 0, self._c)
            gradient = h * (weights - centre) - X.T @ (signs * p)
            direction = -newton_direction(X, h, np.where((r > 0) & (r < self._c), s, 0.0), gradient)
            slope = float(gradient @ direction)
            if -slope <= tol:
                break
            steps += 1
            along = -s * signs * (X @ direction)
            here, length = self._lagrangian(weights - centre, r, s), 1.0
            for _ in range(30):
                there = self._lagrangian(weights + length * direction - centre, r + length * along, s)
                if there <= here + 1e-4 * length * slope:  # This is Armijo's condition.
                    break
                length /= 2
            weights, r = weights + length * direction, r + length * along
        return weights, steps

    def _lagrangian(self, difference: Floats, r: Floats, s: float) -> float:
        p = np.clip(r, 0, self._c)
        return float((self.curvature * difference**2).sum()) / 2 + float((p * r - p * p / 2).sum()) / s


def newton_direction(X: Any, h: Floats, curvatures: Floats, right: Floats) -> Floats:
    """Return the solution of ``(h + sum_i c_i x_i x_i') u = right`` for the curvatures c of the rows."""
    inside = curvatures > 0
    X, c = X[inside], curvatures[inside]
    if not X.shape[0]:
        return np.asarray(right / h)
    if X.shape[0] >= len(h):
        weighted = sp.csr_array(X.multiply(c[:, None])) if sp.issparse(X) else X * c[:, None]
        return np.asarray(np.linalg.solve(_dense(X.T @ weighted) + np.diag(h), right))
    small = _dense((X * (1 / h)) @ X.T) + np.diag(1 / c)
    return np.asarray((right - X.T @ np.linalg.solve(small, X @ (right / h))) / h)


def _dense(matrix: Any) -> Floats:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)
