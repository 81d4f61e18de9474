"""The dual problem and its certificate.

For any b and feasible g (inside their box and, with an intercept, ``sum_i y_i g_i = 0``),

    gap = P - D = sum_i [ loss_i(m_i + y_i b) + phi_i(g_i) + g_i (m_i + y_i b) ] - b sum_i y_i g_i,

and every term of the first sum is non-negative (Fenchel-Young). Coefficients are made feasible
before they are certified (`DualProblem.at_feasible`); a remaining signed sum counts with the cost
of making it zero, and the bound of the objectives' rounding (`ObjectiveSums`) is part of the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np

from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.objectives import Objectives
from dimargin.system.arrays import TINY, Floats, Indices


@dataclass(frozen=True)
class DualProblem(MarginLosses):
    """Minimise ``1/2 g'Qg + sum_i phi_i(g_i)`` for every output, over shared rows and kernel."""

    kernel: KernelMatrix = field(kw_only=True)  # square, of shape (n, n)

    @classmethod
    def of(cls, losses: MarginLosses, kernel: KernelMatrix) -> DualProblem:
        """Return the problem of losses with a kernel."""
        return cls(*(getattr(losses, own.name) for own in fields(MarginLosses)), kernel=kernel)

    def with_kernel(self, kernel: KernelMatrix) -> DualProblem:
        """Return the same problem with kernel values in another precision or form."""
        return DualProblem.of(self, kernel)

    def restrict(self, index: Indices, mass: float) -> DualProblem:
        """Return the local problem of some rows that represent a weight of `mass`."""
        return DualProblem.of(self.of_rows(index, mass), self.kernel.take(index))

    def select(self, outputs: Indices) -> DualProblem:
        """Return the same problem for some of the outputs."""
        return self if len(outputs) == len(self.labels) else replace(self, labels=self.labels[outputs])

    def margins(self, dual: Floats, accurately: bool = False) -> Floats:
        """Return margins ``m = Qg``, without intercept, of shape (n_outputs, n).

        Margins of a linear machine in float64 are computed from its weights. Others can be computed
        `accurately`, but slowly, if the kernel allows it (`KernelMatrix.can_be_accurate`).
        """
        columns, signed = self.support(dual)
        if accurately:
            return self.labels * self.kernel.accurate_products(columns, signed)
        if self.kernel.has_weights:
            return self.labels * self.kernel.scores(self.kernel.weights(columns, signed))
        return self.labels * self.kernel.multiply(columns, signed)

    def support(self, dual: Floats) -> tuple[Indices, Floats]:
        """Return the rows with a nonzero coefficient, and these coefficients times their labels."""
        columns = np.flatnonzero(dual.any(axis=0))
        return columns, (self.labels * dual)[:, columns]

    def margin_errors(
        self, dual: Floats, margins: Floats, travelled: Floats | None = None, accurately: bool = False
    ) -> Floats:
        """Bound the rounding of margins in the kernel's precision (parameters: `objectives`)."""
        kernel, (columns, signed) = self.kernel, self.support(dual)
        if travelled is None and accurately:
            return kernel.accurate_product_errors(columns, signed, margins)
        if travelled is None and kernel.has_weights:
            return kernel.score_errors(kernel.weights(columns, signed), columns, signed)
        reach, n_columns = self.reach(dual), len(columns)
        if travelled is not None:  # Columns whose coefficient is zero now may have taken part.
            reach, n_columns = np.maximum(travelled, reach), kernel.shape[1]
        return np.asarray(kernel.rounding(n_columns) * reach[:, None] * kernel.row_sizes)

    def reach(self, dual: Floats) -> Floats:
        """Bound ``|sum_i g_i phi(x_i)|`` by ``|g_i|`` times row sizes, of shape (n_outputs,)."""
        return np.asarray(np.abs(dual) @ self.kernel.column_sizes)

    def best_scale(self, dual: Floats, margins: Floats) -> Floats:
        """Return the best factors in [0, 1] for warm starts, of shape (n_outputs, 1).

        A small error of margins can make the coefficients that answer them many times too large.
        A factor of at least 0.9 counts as one.
        """
        slopes, curvatures = self.conjugate.piece(dual)
        slope = (slopes * dual).sum(axis=1, keepdims=True)
        square = (dual * margins).sum(axis=1, keepdims=True) + (curvatures * dual**2).sum(axis=1, keepdims=True)
        with np.errstate(over="ignore"):  # The division overflows if all margins are zero.
            share = np.clip(-slope / np.maximum(square, TINY), 0.0, 1.0)
        return np.where(share < 0.9, share, 1.0)

    def at_feasible(self, dual: Floats, margins: Floats) -> tuple[Floats, Floats]:
        """Return the given coefficients, or feasible ones near them, and their margins.

        Margins are updated by the columns of the coefficients that change; those of a linear
        machine are recomputed.
        """
        near = self.feasible(dual)
        moved = np.flatnonzero((near != dual).any(axis=0))
        if not len(moved):
            return dual, margins
        if self.kernel.has_weights:
            return near, self.margins(near)
        change = (self.labels * (near - dual))[:, moved]
        return near, margins + self.labels * self.kernel.multiply(moved, change)

    def objectives(
        self,
        dual: Floats,
        margins: Floats,
        intercepts: Floats | None = None,
        travelled: Floats | None = None,
        accurately: bool = False,
    ) -> Objectives:
        """Return primal and dual objective and their gap; the default intercepts are the best ones.

        For float64 kernel values the gap includes a bound of its rounding; for float32 ones it does
        not (see `dimargin.solvers.precision`).

        Parameters
        ----------
        dual : ndarray of shape (n_outputs, n)
        margins : ndarray of shape (n_outputs, n)
            Without intercept.
        intercepts : ndarray of shape (n_outputs,), optional
        travelled : ndarray of shape (n_outputs,), optional
            Sums, over all updates that led to these margins, of absolute changes of coefficients
            times the sizes of their rows (`KernelMatrix.product_sizes`); by default the method
            `margins` computed them in one product.
        accurately : bool
            Whether `margins` were computed accurately.
        """
        if intercepts is None:
            intercepts = self.intercepts(margins)
        errors = self.margin_errors(dual, margins, travelled, accurately) if self.kernel.double else None
        reach = self.reach(dual) if self.intercept else 0.0
        return self.objective_sums(dual, margins, intercepts, errors).objectives(intercepts, reach)

    def certified(self, dual: Floats, margins: Floats | None = None, intercepts: Floats | None = None) -> Objectives:
        """Return objectives with minimal rounding at feasible coefficients near `dual`, in float64.

        The argument `margins` holds the margins of `dual`, as the method `margins` computes them.
        """
        dual, margins = self.at_feasible(dual, self.margins(dual) if margins is None else margins)
        objectives = self.objectives(dual, margins, intercepts)
        if not self.kernel.can_be_accurate or (objectives.rounding <= 0.1 * objectives.relative_gap).all():
            return objectives
        # An accurate pass is worth its time if the gap may be mostly rounding.
        exact = self.objectives(dual, self.margins(dual, accurately=True), intercepts, accurately=True)
        return exact if exact.worst_gap < objectives.worst_gap else objectives
