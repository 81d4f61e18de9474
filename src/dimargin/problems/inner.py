"""The problem of some rows while the coefficients of all others stay as they are.

Let W be the rows, and m_out their margins by the coefficients of the others alone. The dual of all rows, as a function
of the coefficients of W, is up to a constant

    1/2 g'Qg + g'm_out + sum_W phi_i(g_i),   with an intercept subject to  sum_W y_i g_i = -s,

where ``s = sum y_j g_j`` over the other rows. Their losses are replaced by the tangents that belong to their
coefficients, so that with the margins ``m = Qg + m_out`` primal objective and gap are

    P = 1/2 g'(m - m_out) + sum_W loss_i(m_i + y_i b) - b s + constant
    P - D = sum_W [ loss_i(m_i + y_i b) + phi_i(g_i) + g_i (m_i + y_i b) ].

With the `constant` for which P is the primal objective of all rows at the start, relative gaps of both compare,
and by how much D rises is by how much that of all rows does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.margin_losses import BALANCED
from dimargin.problems.objectives import ObjectiveSums
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class InnerProblem(DualProblem):
    """Minimise the dual objective of all rows over the coefficients of some; see the top of this module."""

    outside_margins: Floats = field(kw_only=True)  # of these rows by the others' coefficients, of shape (n_outputs, n)
    positive: Floats = field(kw_only=True)  # sums of the others' coefficients by class, of shape (n_outputs,)
    negative: Floats = field(kw_only=True)
    constant: Floats = field(kw_only=True)  # of the objectives, of shape (n_outputs,)

    @classmethod
    def within(
        cls, problem: DualProblem, dual: Floats, margins: Floats, sums: tuple[Floats, Floats], primal: Floats
    ) -> InnerProblem:
        """Return the problem of some rows of a larger one, at whose present coefficients it starts.

        Parameters
        ----------
        problem : DualProblem
            Of these rows, with the mass of the larger problem.
        dual, margins : ndarray of shape (n_outputs, n)
            Coefficients and margins of these rows in the larger problem, without intercept.
        sums : pair of ndarray of shape (n_outputs,)
            Sums of the coefficients of all rows of the larger problem, of positive labels and of negative ones.
        primal : ndarray of shape (n_outputs,)
            Primal objective of the larger problem.
        """
        own = [np.where(problem.labels == sign, dual, 0.0).sum(axis=1) for sign in (1, -1)]
        if not problem.intercept:
            own = [*sums]
        inner = cls(
            problem.labels, problem.weights, problem.loss, problem.mass, problem.total, problem.intercept,
            kernel=problem.kernel, outside_margins=margins - problem.margins(dual),
            positive=sums[0] - own[0], negative=sums[1] - own[1], constant=np.zeros(len(dual)),
        )  # fmt: skip
        return replace(inner, constant=primal - inner.objectives(dual, margins).primal)

    @property
    def excess(self) -> Floats:
        """Sum of the signed coefficients of the other rows, of shape (n_outputs,)."""
        return self.positive - self.negative

    def with_kernel(self, kernel: KernelMatrix) -> InnerProblem:
        """See `DualProblem.with_kernel`."""
        return replace(self, kernel=kernel)

    def restrict(self, index: Indices, mass: float) -> InnerProblem:
        """Return the problem of some of these rows, while the coefficients of the rest are zero."""
        local = super().restrict(index, mass)
        margins = np.ascontiguousarray(self.outside_margins[:, index])
        return replace(self, labels=local.labels, weights=local.weights, kernel=local.kernel, outside_margins=margins)

    def select(self, outputs: Indices) -> InnerProblem:
        """See `DualProblem.select`."""
        if len(outputs) == len(self.labels):
            return self
        return replace(
            self, labels=self.labels[outputs], outside_margins=self.outside_margins[outputs],
            positive=self.positive[outputs], negative=self.negative[outputs], constant=self.constant[outputs],
        )  # fmt: skip

    def margins(self, dual: Floats, accurately: bool = False) -> Floats:
        """Return the margins by all coefficients; see `DualProblem.margins`."""
        return super().margins(dual, accurately) + self.outside_margins

    def best_scale(self, dual: Floats, margins: Floats) -> Floats:
        """Return ones: the start is where the larger problem stands."""
        return np.ones((len(dual), 1))

    def feasible(self, dual: Floats) -> Floats:
        """Return coefficients near `dual` in the box whose signed sum makes up for that of the others."""
        dual = np.clip(dual, self.conjugate.lower, self.conjugate.upper)
        if not self.intercept:
            return dual
        sums = (dual * self.labels).sum(axis=1) + self.excess
        sizes = np.abs(dual).sum(axis=1) + np.abs(self.positive) + np.abs(self.negative)
        for q in np.flatnonzero(np.abs(sums) > BALANCED * sizes):
            self._balance(dual[q], self.labels[q], float(sums[q]))
        return dual

    def intercepts(self, margins: Floats) -> Floats:
        """Return the intercepts that minimise the primal, to which the other rows' losses add ``-b s``."""
        if not self.intercept:
            return np.zeros(len(margins))
        rows = zip(self.labels, margins, self.excess, strict=True)
        return np.array([self.loss.best_intercept(y * m, y, self.conjugate, s) for y, m, s in rows])

    def objective_sums(
        self, dual: Floats, margins: Floats, intercepts: Floats, errors: Floats | None = None
    ) -> ObjectiveSums:
        """Sum the terms of the objectives; those of the primal are as at the top of this module."""
        sums = super().objective_sums(dual, margins, intercepts, errors)
        primal = (
            sums.primal - 0.5 * (dual * self.outside_margins).sum(axis=1) - intercepts * self.excess + self.constant
        )
        if not self.intercept:
            return sums._replace(primal=primal)
        return sums._replace(
            primal=primal, positive=sums.positive + self.positive, negative=sums.negative + self.negative
        )
