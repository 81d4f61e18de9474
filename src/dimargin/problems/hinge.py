"""Rows of one site, and the loss of their margins with its (sub)gradient and its dual coefficients.

The loss is the hinge, the squared hinge, or that of the optimal margin distribution machine
(losses.py); the latter two are smooth. For weights w and a row of margin ``m_i = y_i w.x_i``, the
dual coefficient that answers the margin is ``g_i = -loss'(m_i)``: for the hinge, one if the margin
is below one and zero otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.kernels.column_statistics import power_sums
from dimargin.problems.losses import HingeLoss, Loss, ODMLoss, PiecewiseConjugate, SquaredHingeLoss
from dimargin.problems.objectives import ROUNDINGS
from dimargin.system.arrays import FEW_ROUNDINGS, UNIT, Floats

LOSSES = ("hinge", "squared_hinge", "odm")
HINGE = HingeLoss(1.0)


def loss_of(name: str, theta: float = 0.8, upsilon: float = 0.5) -> Loss:
    """Return the loss of this name, with weight one for every row; objectives take its mean.

    The losses are ``(1 - m)_+``, ``(1 - m)_+^2``, and
    ``[(1 - theta - m)_+^2 + upsilon (m - 1 - theta)_+^2] / (2 (1 - theta)^2)``.
    """
    return {"hinge": HINGE, "squared_hinge": SquaredHingeLoss(1.0), "odm": ODMLoss(1.0, upsilon, theta)}[name]


def shrinkage_into_ball(weights: Floats, alpha: float) -> Floats:
    """Return factors, of shape (n_outputs, 1), that project weights onto a ball with the optimum.

    Its radius is ``alpha**-0.5`` (Shalev-Shwartz et al., Pegasos, Math. Program. 2011, section
    2.2).
    """
    norms = np.linalg.norm(weights, axis=1, keepdims=True)
    return np.asarray(np.minimum(1, alpha**-0.5 / np.maximum(norms, 1e-300)))


@dataclass(frozen=True)
class HingeEvaluation:
    """Loss of rows, and its subgradient, at some weights.

    The pull is minus the subgradient of the sum of the losses: ``sum_i g_i y_i x_i``, for the hinge
    the sum of ``y_i x_i`` over the rows of margin below one. The GADGET paper's pseudo-code omits
    the indicator and sums over all rows, which learns nothing.
    """

    pull: Floats  # minus the subgradients, of shape (n_outputs, n_features)
    loss: Floats  # sums of the losses, of shape (n_outputs,)
    active: Floats  # sums of `HingeRows.gains`: for the hinge, numbers of rows of margin below one
    dual: Floats  # coefficients that answer the margins, of shape (n_outputs, n)


@dataclass(frozen=True)
class HingeRows:
    """Rows and signs of one site, possibly none or of one class, with the loss of their margins."""

    X: Any  # an array or CSR array of shape (n, n_features)
    signs: Floats  # plus or minus one, of shape (n_outputs, n)
    loss: Loss = HINGE

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @cached_property
    def _conjugate(self) -> PiecewiseConjugate:
        """Conjugate of the loss of any row."""
        return self.loss.conjugate(np.ones(1), 1.0, 1.0)

    @property
    def steepness(self) -> float:
        """Largest second derivative of a smooth loss; one for the hinge."""
        return float(self._conjugate.largest_curvature[0]) if self.loss.smooth else 1.0

    @property
    def largest_gain(self) -> float:
        """Largest ``(sum of gains)^2 / (2 n sum of losses)`` of n rows with a smooth loss."""
        one = self._conjugate
        sides = (one.slope_right, one.curvature_right), (one.slope_left, one.curvature_left)
        return max(float((slope**2 / curvature)[0]) for slope, curvature in sides if curvature.any())

    def with_more(self, rows: HingeRows) -> HingeRows:
        """Return these rows, followed by others."""
        return HingeRows(stacked(self.X, rows.X), np.concatenate([self.signs, rows.signs], axis=1), self.loss)

    def of_output(self, q: int) -> HingeRows:
        """Return the rows with the signs of one output."""
        return HingeRows(self.X, self.signs[q : q + 1], self.loss)

    def evaluate(self, weights: Floats, chosen: NDArray[np.intp] | None = None) -> HingeEvaluation:
        """Return pull, loss and active rows at some weights, over all rows or the chosen ones."""
        X, signs = (self.X, self.signs) if chosen is None else (self.X[chosen], self.signs[:, chosen])
        margins = signs * (X @ weights.T).T
        dual, loss = self._answers(margins)
        pull = (X.T @ (signs * dual).T).T
        return HingeEvaluation(np.ascontiguousarray(pull), loss.sum(axis=1), self.gains(dual).sum(axis=1), dual)

    def _answers(self, margins: Floats) -> tuple[Floats, Floats]:
        """Return dual coefficients that answer margins, and losses, all of shape (n_outputs, n)."""
        if not self.loss.smooth:
            short = 1 - margins
            return (short > 0).astype(np.float64), np.maximum(short, 0)
        if not margins.size:
            return margins, margins
        alike = (np.broadcast_to(value, margins.shape[1:]) for value in self._conjugate.rows)
        dual, _, loss = PiecewiseConjugate(*alike).response(margins)
        return dual, loss

    def gains(self, dual: Floats) -> Floats:
        """Return the linear terms of the dual objective, of shape (n_outputs, n).

        The objective is the mean of ``gain(g_i) - c g_i^2 / 2``, less
        ``|1/N sum_i g_i y_i x_i|^2 / (2 alpha)``. Its quadratic terms (`prices`) are the losses if
        the coefficients answer the margins.
        """
        return np.asarray(-self._conjugate.piece(dual)[0] * dual)

    def prices(self, dual: Floats) -> Floats:
        """Return the quadratic terms of the dual objective, of shape (n_outputs, n)."""
        return np.asarray(0.5 * self._conjugate.piece(dual)[1] * dual**2)

    def second_derivatives(self, dual: Floats) -> Floats:
        """Return the second derivatives of a smooth loss at the margins that the coefficients answer."""
        return np.divide(1.0, self._conjugate.piece(dual)[1], out=np.zeros(dual.shape), where=dual != 0)

    def dual_objective(self, dual: Floats, alpha: float) -> Floats:
        """Return a lower bound of the optimum, of shape (n_outputs,); see `best_dual`."""
        pull = np.asarray((self.X.T @ (self.signs * dual).T).T) / self.n_rows
        gains, price = self.gains(dual), self.prices(dual).mean(axis=1)
        best = self.best_dual(gains.mean(axis=1), price, pull, alpha, self.pull_rounding(dual) / self.n_rows)
        return np.asarray(best - ROUNDINGS * np.abs(gains).mean(axis=1))

    def best_dual(
        self, gain: Floats, price: Floats, pull: Floats, alpha: float, rounding: Floats | float = 0.0
    ) -> Floats:
        """Return the dual objective of optimally scaled coefficients: `hinge_dual` for any loss."""
        if self.loss.smooth:
            return hinge_dual(gain, pull, alpha, rounding, price)
        return hinge_dual(gain, pull, alpha, rounding)

    @cached_property
    def lengths(self) -> Floats:
        """Euclidean lengths of all rows, of shape (n,)."""
        return np.sqrt(power_sums(self.X, 2))

    def loss_rounding(self, weights: Floats) -> Floats:
        """Bound the rounding of the sum of the losses at some weights, of shape (n_outputs,).

        A score errs by `UNIT` of ``|w| |x_i|`` per feature, and the sum by `ROUNDINGS` of itself.
        """
        norms = np.linalg.norm(weights, axis=1)
        scores, unit = norms * self.lengths.sum(), (self.X.shape[1] + FEW_ROUNDINGS) * UNIT
        if not self.loss.smooth:
            return np.asarray(unit * scores + ROUNDINGS * (self.n_rows + scores))
        errors = unit * norms[:, None] * self.lengths
        margins = self.signs * (self.X @ weights.T).T
        low, loss, high = (self._answers(m)[1] for m in (margins - errors, margins, margins + errors))
        return np.asarray(np.maximum(low - loss, high - loss).sum(axis=1) + ROUNDINGS * loss.sum(axis=1))

    def pull_rounding(self, dual: Floats) -> Floats:
        """Bound the norm of the rounding error of ``sum_i a_i y_i x_i`` for coefficients `dual`."""
        return np.asarray((self.n_rows + FEW_ROUNDINGS) * UNIT * (np.abs(dual) @ self.lengths))

    def curvature(self, centre: Floats) -> Floats:
        """Return ``sum_i |z_ij| |z_i|_1`` of each feature j, where ``z = x - centre``.

        As a diagonal matrix these sums bound ``sum_i z_i z_i'`` from above, since by Cauchy-Schwarz
        ``(z.v)^2 <= |z|_1 sum_j |z_j| v_j^2``.
        """
        of_zeros = np.abs(centre)
        if sp.issparse(self.X):  # Stored entries correct the distances |z_ij| of zeros.
            X = sp.csr_array(self.X)
            corrections = np.abs(X.data - centre[X.indices]) - of_zeros[X.indices]
            sizes, rest = sp.csr_array((corrections, X.indices, X.indptr), shape=X.shape), of_zeros
        else:
            sizes, rest = np.abs(self.X - centre), 0 * of_zeros
        norms = np.asarray(sizes.sum(axis=1)).ravel() + rest.sum()
        return np.asarray(sizes.T @ norms + rest * norms.sum(), dtype=np.float64)

    def moments(self) -> tuple[Floats, Floats]:
        """Return ``sum_i x_ij`` and ``sum_i x_ij^2`` of each feature j."""
        return np.asarray(self.X.sum(axis=0)).ravel(), np.asarray((self.X * self.X).sum(axis=0)).ravel()


def stacked(above: Any, below: Any) -> Any:
    """Stack the rows of two arrays: as wide as the wider one, and sparse if either is."""
    width = max(above.shape[1], below.shape[1])
    if sp.issparse(above) or sp.issparse(below):
        parts = [sp.csr_array(part) for part in (above, below)]
        parts = [sp.csr_array((p.data, p.indices, p.indptr), shape=(p.shape[0], width)) for p in parts]
        return sp.csr_array(sp.vstack(parts))
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in (above, below)])


def hinge_dual(
    activity: Floats, pull: Floats, alpha: float, rounding: Floats | float = 0.0, price: Floats | None = None
) -> Floats:
    """Return the dual objective of optimally scaled coefficients with this mean activity and pull.

    For coefficients a in [0, 1] of the hinge, it is ``D(s a)`` with
    ``D(a) = mean(a) - |1/N sum a_i y_i x_i|^2 / (2 alpha)`` and the best factor in [0, 1],
    ``s = min(1, alpha mean(a) / |pull|^2)``. For a smooth loss, whose coefficients are restricted
    in sign only, the activity is the mean of `HingeRows.gains`, the mean `price` of quadratic terms
    is subtracted, and s may be any positive number. The `rounding`, a bound of the norm of the
    rounding error of `pull`, never raises the objective. Arrays have shape (n_outputs,), and `pull`
    has shape (n_outputs, n_features).
    """
    square = (np.linalg.norm(pull, axis=1) + rounding) ** 2
    if price is not None:
        square = square + 2 * alpha * np.maximum(price, 0.0)
    scale = np.maximum(alpha * activity / np.maximum(square, 1e-300), 0.0)
    # If rounding leaves no price in sums from other sites, nothing limits the coefficients.
    scale = np.minimum(1, scale) if price is None else np.where(square > 1e-300, scale, 0.0)
    gain, cost = scale * activity, scale * (scale * square) / (2 * alpha)  # scale**2 may overflow
    return np.asarray(gain - cost - ROUNDINGS * (np.abs(gain) + cost))
