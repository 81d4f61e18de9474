r"""Solver for the problem of one site in ADMM: smooth losses of its rows, and a weighted distance from a centre.

    minimise  F(w) = sum_j h_j/2 (w_j - v_j)^2 + c sum_i loss(y_i w.x_i)

for a loss whose derivative is piecewise linear (squared hinge, optimal margin distribution), by
Newton's method with a line search: the second derivative is ``h + c sum_i loss''(m_i) x_i x_i'``
wherever it exists (Mangasarian, "A finite Newton method for classification", Optimization Methods
and Software 2002). Since F is strongly convex, a gradient g bounds the distance from the optimum:
``F(w) - F* <= sum_j g_j^2 / (2 h_j)``.
"""

from __future__ import annotations

import numpy as np

from dimargin.gossip.rounds.local_svm import newton_direction
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


def solve_smooth(
    rows: HingeRows, c: float, h: Floats, centre: Floats, start: Floats, tolerance: float, max_steps: int
) -> tuple[Floats, Floats]:
    """Return the minimisers and the dual coefficients of the rows, for a centre of shape (n_outputs, n_features).

    For each output, start at `start`, of the shape of the centre, and stop when the objective is at
    most the share `tolerance` above its minimum, or after `max_steps` steps.

    Examples
    --------
    >>> from dimargin.problems.losses import SquaredHingeLoss
    >>> rows = HingeRows(np.array([[1.0], [-3.0]]), np.array([[1.0, -1.0]]), SquaredHingeLoss(1.0))
    >>> weights, dual = solve_smooth(rows, 1.0, np.ones(1), np.array([[0.25]]), np.zeros((1, 1)), 1e-9, 50)
    >>> weights.round(6), dual.round(6)
    (array([[0.75]]), array([[0.5, 0. ]]))
    """
    if not rows.n_rows:
        return centre.copy(), np.zeros(rows.signs.shape)
    weights = np.array([
        _solve_output(rows.of_output(q), c, h, v, w, tolerance, max_steps)
        for q, (v, w) in enumerate(zip(centre, start, strict=True))
    ])  # fmt: skip
    return weights, rows.evaluate(weights).dual


def _solve_output(
    rows: HingeRows, c: float, h: Floats, v: Floats, w: Floats, tolerance: float, max_steps: int
) -> Floats:
    def objective(weights: Floats) -> float:
        return float((h * (weights - v) ** 2).sum()) / 2 + c * float(rows.evaluate(weights[None]).loss[0])

    here = objective(w)
    for _ in range(max_steps):
        found = rows.evaluate(w[None])
        gradient = h * (w - v) - c * found.pull[0]
        if float((gradient**2 / h).sum()) <= 2 * tolerance * here:
            break
        direction = -newton_direction(rows.X, h, c * rows.second_derivatives(found.dual)[0], gradient)
        slope, length = float(gradient @ direction), 1.0
        for _ in range(30):
            there = objective(w + length * direction)
            if there <= here + 1e-4 * length * slope:  # This is Armijo's condition.
                break
            length /= 2
        else:  # Rounding hides the decrease.
            break
        w, here = w + length * direction, there
    return w
