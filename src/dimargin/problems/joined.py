"""Several problems with concatenated rows, certified together in few passes over all rows.

Every problem has one output, and is whole: its mass equals its total, which is one here. If the
rows of a problem share the weight of its loss, their weights are divided by its mass; other losses
do not depend on the mass. The terms of a row are those of a single problem
(`MarginLosses.objective_terms`), and every sum is over the rows of one problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.pieces import Pieces
from dimargin.problems.margin_losses import BALANCED, MarginLosses
from dimargin.problems.objectives import Objectives, ObjectiveSums
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class JoinedProblems:
    """Problems over rows of the same kernel matrix; a row may be in several of them."""

    losses: MarginLosses  # losses of the rows of all problems, with one output
    rows: Pieces  # rows in the kernel matrix, one piece per problem
    slots: Indices  # slot of each row's coefficient among those of all pairs (see one_vs_one.py)

    @property
    def labels(self) -> Floats:
        """Labels of the rows of all problems."""
        return np.asarray(self.losses.labels[0])

    def coefficients(self, signed: Floats) -> Floats:
        """Return the coefficients of all rows, without -0.0, from the signed ones of all pairs."""
        return np.asarray(self.labels * signed[self.slots, self.rows.index] + 0.0)

    def of(self, number: int) -> slice:
        """Return the slice of the rows of a problem."""
        return slice(int(self.rows.bounds[number]), int(self.rows.bounds[number + 1]))

    def each(self, values: NDArray[Any]) -> NDArray[Any]:
        """Repeat one value per problem for all rows of the problem."""
        return np.repeat(values, self.rows.sizes)

    def sums(self, terms: Floats) -> Floats:
        """Sum the terms of each problem's rows; numpy adds pairwise here as in ``sum``."""
        return np.asarray(np.add.reduceat(terms, self.rows.bounds[:-1]))

    def feasible(self, dual: Floats) -> Floats:
        """Return feasible coefficients near `dual`; see `MarginLosses.feasible`."""
        conjugate = self.losses.conjugate
        dual = np.clip(dual, conjugate.lower, conjugate.upper)
        if not self.losses.intercept:
            return dual
        unbalanced = np.abs(self.sums(self.labels * dual)) > BALANCED * self.sums(np.abs(dual))
        for number in np.flatnonzero(unbalanced).tolist():
            own = self.of(number)
            dual[own] = self.losses.of_rows(own, self.losses.mass).feasible(dual[None, own])[0]
        return dual

    def margins(self, kernel: KernelMatrix, dual: Floats) -> tuple[Floats, Floats, Floats]:
        """Return margins without intercept, bounds of their rounding, and `DualProblem.reach`."""
        support, sizes = np.flatnonzero(dual), kernel.row_sizes[self.rows.index]
        columns = Pieces(self.rows.index[support], np.searchsorted(support, self.rows.bounds))
        margins = self.labels * kernel.multiply_parts(columns, (self.labels * dual)[support], self.rows)
        reach = self.sums(np.abs(dual) * sizes)
        return margins, kernel.rounding(int(columns.sizes.max())) * self.each(reach) * sizes, reach

    def intercepts(self, dual: Floats, margins: Floats) -> Floats:
        """Return the intercepts of `MarginLosses.middle_intercepts` for feasible coefficients.

        Every problem has rows of both classes, so one coefficient can rise and another can fall.
        """
        if not self.losses.intercept:
            return np.zeros(len(self.rows.sizes))
        (rising,), (falling,) = self.losses.scores(dual[None], margins[None])
        starts = self.rows.bounds[:-1]
        return np.asarray((np.maximum.reduceat(rising, starts) + np.minimum.reduceat(falling, starts)) / 2)

    def objectives(
        self, kernel: KernelMatrix, dual: Floats, intercepts: Floats | None = None
    ) -> tuple[Floats, Objectives]:
        """Return margins without intercept, and the objectives of all problems; `dual` is feasible.

        The matrix must be square, in float64; rounding is bounded as in `DualProblem.objectives`.
        The intercepts, of shape (n_problems,), are by default those of the method `intercepts`.
        """
        margins, errors, reach = self.margins(kernel, dual)
        intercepts = self.intercepts(dual, margins) if intercepts is None else intercepts
        shifted = margins + self.labels * self.each(intercepts)
        terms = self.losses.objective_terms(*(rows[None] for rows in (dual, margins, shifted, errors)))
        sums = ObjectiveSums(*(self.sums(own[0]) for own in terms))
        return margins, sums.objectives(intercepts, reach)
