"""The problem of a working set of rows while the coefficients of all other rows are fixed.

Let W be these rows, g0 and m0 their coefficients and margins in the problem of all rows, and D0 its
dual objective there. With ``d = g - g0`` and the margins ``m = m0 + Qd`` of these rows at other
coefficients g, the dual objective of all rows, with an intercept subject to
``sum_W y_i g_i = -s``, is

    D = D0 - 1/2 d'(m0 + m) - sum_W [ phi_i(g_i) - phi_i(g0_i) ],

where ``s = sum y_j g_j`` over the other rows. Their losses are replaced by the tangents that belong
to their coefficients, so that the primal objective is ``D`` plus the gap of the rows in W alone,

    P - D = sum_W [ loss_i(m_i + y_i b) + phi_i(g_i) + g_i (m_i + y_i b) ],

and the intercept minimises ``sum_W loss_i(m_i + y_i b) - b s``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np

from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.margin_losses import BALANCED, MarginLosses
from dimargin.problems.objectives import ObjectiveSums
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class InnerProblem(DualProblem):
    """The dual problem of all rows over the coefficients of some; see the module docstring."""

    start: Floats = field(kw_only=True)  # coefficients at the start, of shape (n_outputs, n)
    start_margins: Floats = field(kw_only=True)  # their margins, by the coefficients of all rows
    start_dual: Floats = field(kw_only=True)  # dual objective of all rows, of shape (n_outputs,)
    positive: Floats = field(kw_only=True)  # sums over the other rows of the positive side
    negative: Floats = field(kw_only=True)  # sums over the other rows of the negative side

    @classmethod
    def within(
        cls, problem: DualProblem, dual: Floats, margins: Floats, sums: tuple[Floats, Floats], objective: Floats
    ) -> InnerProblem:
        """Return the problem of some rows of a larger one, starting at its current coefficients.

        Parameters
        ----------
        problem : DualProblem
            Problem of these rows, with the mass of the larger problem.
        dual, margins : ndarray of shape (n_outputs, n)
            Coefficients and margins of these rows in the larger problem, without intercept.
        sums : pair of ndarray of shape (n_outputs,)
            Sums of the absolute coefficients of the larger problem on either side (`sides`).
        objective : ndarray of shape (n_outputs,)
            Dual objective of the larger problem.
        """
        sides = problem.sides(dual)
        own = [np.where(sides == sign, np.abs(dual), 0.0).sum(axis=1) for sign in (1, -1)]
        if not problem.intercept:
            own = [*sums]
        return cls(
            *(getattr(problem, own.name) for own in fields(MarginLosses)),
            kernel=problem.kernel, start=dual, start_margins=margins, start_dual=objective,
            positive=sums[0] - own[0], negative=sums[1] - own[1],
        )  # fmt: skip

    @property
    def excess(self) -> Floats:
        """Sum of the signed coefficients of the other rows, of shape (n_outputs,)."""
        return self.positive - self.negative

    def with_kernel(self, kernel: KernelMatrix) -> InnerProblem:
        """See `DualProblem.with_kernel`."""
        return replace(self, kernel=kernel)

    def restrict(self, index: Indices, mass: float) -> InnerProblem:
        """Return the problem of some of these rows; its gap and objectives leave out the others."""
        local = super().restrict(index, mass)
        start, margins = (np.ascontiguousarray(values[:, index]) for values in (self.start, self.start_margins))
        own = {name: getattr(local, name) for name in ("labels", "weights", "targets", "kernel")}
        return replace(self, **own, start=start, start_margins=margins)

    def select(self, outputs: Indices) -> InnerProblem:
        """See `DualProblem.select`."""
        if len(outputs) == len(self.labels):
            return self
        names = "labels", "start", "start_margins", "start_dual", "positive", "negative"
        return replace(self, **{name: getattr(self, name)[outputs] for name in names})

    def margins(self, dual: Floats, accurately: bool = False) -> Floats:
        """Return the margins by all coefficients; see `DualProblem.margins`."""
        return self.start_margins + super().margins(dual - self.start, accurately)

    def best_scale(self, dual: Floats, margins: Floats) -> Floats:
        """Return ones: the start is the iterate of the larger problem."""
        return np.ones((len(dual), 1))

    def feasible(self, dual: Floats) -> Floats:
        """Return coefficients near `dual` in the box with a signed sum that cancels the others'."""
        dual = np.clip(dual, self.conjugate.lower, self.conjugate.upper)
        if not self.intercept:
            return dual
        sums = (dual * self.labels).sum(axis=1) + self.excess
        sizes = np.abs(dual).sum(axis=1) + np.abs(self.positive) + np.abs(self.negative)
        for q in np.flatnonzero(np.abs(sums) > BALANCED * sizes):
            self._balance(dual[q], self.labels[q], float(sums[q]))
        return dual

    def intercepts(self, margins: Floats) -> Floats:
        """Return the intercepts that minimise the primal, with ``-b s`` for the other rows."""
        if not self.intercept:
            return np.zeros(len(margins))
        rows = zip(self.labels, self.residuals(margins), self.excess, strict=True)
        return np.array([self.loss.best_intercept(y * m, y, self.conjugate, s) for y, m, s in rows])

    def objective_sums(
        self, dual: Floats, margins: Floats, intercepts: Floats, errors: Floats | None = None
    ) -> ObjectiveSums:
        """Sum the terms of the objectives; the module docstring defines the primal."""
        sums, phi = super().objective_sums(dual, margins, intercepts, errors), self.conjugate.value
        change = 0.5 * (dual - self.start) * (self.start_margins + margins) + phi(dual) - phi(self.start)
        sums = sums._replace(primal=self.start_dual - change.sum(axis=1) + sums.gap)
        if not self.intercept:
            return sums
        return sums._replace(positive=sums.positive + self.positive, negative=sums.negative + self.negative)
