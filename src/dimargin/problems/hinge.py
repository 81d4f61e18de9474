"""Rows of one site, and the hinge loss with its subgradient on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.kernels.columns import power_sums
from dimargin.problems.objectives import ROUNDINGS
from dimargin.system.arrays import FEW_ROUNDINGS, UNIT, Floats


@dataclass(frozen=True)
class HingeEvaluation:
    """Hinge loss of rows, and its subgradient, at some weights.

    The pull is minus the subgradient of the sum of the losses: ``sum_i y_i x_i`` over the rows of margin below one. The
    GADGET paper's pseudo-code sums over all rows, which learns nothing: the indicator is missing there.
    """

    pull: Floats  # of shape (n_outputs, n_features)
    loss: Floats  # sums of the hinge losses, of shape (n_outputs,)
    active: Floats  # numbers of rows of margin below one, of shape (n_outputs,)
    inside: NDArray[np.bool_]  # whether the margin of a row is below one, of shape (n_outputs, n)


@dataclass(frozen=True)
class HingeRows:
    """Rows and signs of one site; it may have none, or those of one class."""

    X: Any  # an array or CSR array of shape (n, n_features)
    signs: Floats  # plus or minus one, of shape (n_outputs, n)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def with_more(self, rows: HingeRows) -> HingeRows:
        """Return these rows, followed by others."""
        return HingeRows(stacked(self.X, rows.X), np.concatenate([self.signs, rows.signs], axis=1))

    def evaluate(self, weights: Floats, chosen: NDArray[np.intp] | None = None) -> HingeEvaluation:
        """Return pull, loss and active rows at some weights, over all rows or the chosen ones."""
        X, signs = (self.X, self.signs) if chosen is None else (self.X[chosen], self.signs[:, chosen])
        short = 1 - signs * (X @ weights.T).T
        inside = short > 0
        pull = (X.T @ (signs * inside).T).T
        return HingeEvaluation(
            np.ascontiguousarray(pull), np.where(inside, short, 0).sum(axis=1), inside.sum(axis=1, dtype=float), inside
        )

    @cached_property
    def lengths(self) -> Floats:
        """Euclidean lengths of all rows, of shape (n,)."""
        return np.sqrt(power_sums(self.X, 2))

    def loss_rounding(self, weights: Floats) -> Floats:
        """Bound the rounding of the sum of the losses at some weights, of shape (n_outputs,).

        A score errs by a unit in the last place for every feature, of ``|w| |x_i|``; the sum by `ROUNDINGS` of itself.
        """
        scores = np.linalg.norm(weights, axis=1) * self.lengths.sum()
        return np.asarray((self.X.shape[1] + FEW_ROUNDINGS) * UNIT * scores + ROUNDINGS * (self.n_rows + scores))

    def pull_rounding(self, dual: Floats) -> Floats:
        """Bound the norm of the rounding error of ``sum_i a_i y_i x_i``, for `dual` of shape (n_outputs, n)."""
        return np.asarray((self.n_rows + FEW_ROUNDINGS) * UNIT * (np.abs(dual) @ self.lengths))

    def curvature(self, centre: Floats) -> Floats:
        """Return ``sum_i |z_ij| |z_i|_1`` for every feature j, where ``z = x - centre``, of shape (n_features,).

        As a diagonal matrix they are an upper bound of ``sum_i z_i z_i'``, since by Cauchy and Schwarz
        ``(z.v)^2 <= |z|_1 sum_j |z_j| v_j^2``.
        """
        far = np.abs(centre)  # distance of an entry that is zero
        if sp.issparse(self.X):  # by how much stored entries are farther, or nearer
            X = sp.csr_array(self.X)
            more = np.abs(X.data - centre[X.indices]) - far[X.indices]
            sizes, rest = sp.csr_array((more, X.indices, X.indptr), shape=X.shape), far
        else:
            sizes, rest = np.abs(self.X - centre), 0 * far
        norms = np.asarray(sizes.sum(axis=1)).ravel() + rest.sum()
        return np.asarray(sizes.T @ norms + rest * norms.sum(), dtype=np.float64)

    def moments(self) -> tuple[Floats, Floats]:
        """Return ``sum_i x_ij`` and ``sum_i x_ij^2`` for every feature j, of shape (n_features,) each."""
        return np.asarray(self.X.sum(axis=0)).ravel(), np.asarray((self.X * self.X).sum(axis=0)).ravel()


def stacked(above: Any, below: Any) -> Any:
    """Return the rows of both arrays, as wide as the wider one, and sparse if either is."""
    width = max(above.shape[1], below.shape[1])
    if sp.issparse(above) or sp.issparse(below):
        parts = [sp.csr_array(part) for part in (above, below)]
        parts = [sp.csr_array((p.data, p.indices, p.indptr), shape=(p.shape[0], width)) for p in parts]
        return sp.csr_array(sp.vstack(parts))
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in (above, below)])


def hinge_dual(activity: Floats, pull: Floats, alpha: float, rounding: Floats | float = 0.0) -> Floats:
    """Return the dual objective of coefficients in [0, 1] with this mean activity and mean pull, optimally scaled down.

    The objective ``D(a) = mean(a) - |1/N sum a_i y_i x_i|^2 / (2 alpha)`` is that of ``s a``, where the factor s in
    [0, 1] that makes it largest is ``s = min(1, alpha mean(a) / |pull|^2)``. The `rounding`, a bound of the norm of the
    rounding error of `pull`, never raises the objective. Arrays are of shape (n_outputs,), but for `pull` of shape
    (n_outputs, n_features).
    """
    square = (np.linalg.norm(pull, axis=1) + rounding) ** 2
    scale = np.minimum(1, alpha * activity / np.maximum(square, 1e-300))
    gain, price = scale * activity, scale**2 * square / (2 * alpha)
    return np.asarray(gain - price - ROUNDINGS * (gain + price))
