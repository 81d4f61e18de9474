"""Several problems whose rows follow one another, certified together: few passes over all rows, however many problems.

Every problem has one output, and is whole: its mass is its total, which is one here. Where the rows of a problem share
the weight of its loss, theirs are divided by its mass, and it has no part in other losses. What is computed of a row is
computed as in a problem alone (`MarginLosses.objective_terms`), and every sum is one over the rows of its own problem.
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

    losses: MarginLosses  # of the rows of all problems, of one output
    rows: Pieces  # of the kernel matrix, a piece for each problem
    slots: Indices  # in which a row has its coefficient among those of all pairs (`dimargin.problems.one_vs_one`)

    @property
    def labels(self) -> Floats:
        """Labels of the rows of all problems."""
        return np.asarray(self.losses.labels[0])

    def coefficients(self, signed: Floats) -> Floats:
        """Return the coefficients of all rows, from those of all pairs times labels."""
        return np.asarray(self.labels * signed[self.slots, self.rows.index] + 0.0)  # no negative zero

    def set_coefficients(self, signed: Floats, dual: Floats) -> None:
        """Set, in place, the coefficients of all pairs times labels that `coefficients` returns."""
        signed[self.slots, self.rows.index] = self.labels * dual + 0.0

    def of(self, number: int) -> slice:
        """Return where the rows of a problem are."""
        return slice(int(self.rows.bounds[number]), int(self.rows.bounds[number + 1]))

    def each(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of the problems, one for each, for all their rows."""
        return np.repeat(values, self.rows.sizes)

    def sums(self, terms: Floats) -> Floats:
        """Return the sums of the terms of every problem's rows, which numpy adds by pairs here as in ``sum``."""
        return np.asarray(np.add.reduceat(terms, self.rows.bounds[:-1]))

    def feasible(self, dual: Floats) -> Floats:
        """Return feasible coefficients near `dual`, as `MarginLosses.feasible` does for one problem."""
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
        """Return margins without intercept, bounds of their rounding, and `DualProblem.reach` of every problem."""
        support, sizes = np.flatnonzero(dual), kernel.row_sizes[self.rows.index]
        columns = Pieces(self.rows.index[support], np.searchsorted(support, self.rows.bounds))
        margins = self.labels * kernel.multiply_parts(columns, (self.labels * dual)[support], self.rows)
        reach = self.sums(np.abs(dual) * sizes)
        return margins, kernel.rounding(int(columns.sizes.max())) * self.each(reach) * sizes, reach

    def intercepts(self, dual: Floats, margins: Floats) -> Floats:
        """Return intercepts as `MarginLosses.middle_intercepts` does for one problem, of feasible coefficients.

        Both classes have rows here, so that a coefficient may rise, and another one fall.
        """
        if not self.losses.intercept:
            return np.zeros(len(self.rows.sizes))
        (rising,), (falling,) = self.losses.scores(dual[None], margins[None])
        starts = self.rows.bounds[:-1]
        return np.asarray((np.maximum.reduceat(rising, starts) + np.minimum.reduceat(falling, starts)) / 2)

    def objectives(
        self, kernel: KernelMatrix, dual: Floats, intercepts: Floats | None = None
    ) -> tuple[Floats, Objectives]:
        """Return margins without intercept, and the objectives of all problems, of feasible coefficients.

        The matrix is square, in float64, and the rounding is bounded, as by `DualProblem.objectives`. Without
        intercepts, of shape (n_problems,), they are those of `intercepts`.
        """
        margins, errors, reach = self.margins(kernel, dual)
        intercepts = self.intercepts(dual, margins) if intercepts is None else intercepts
        shifted = margins + self.labels * self.each(intercepts)
        terms = self.losses.objective_terms(*(rows[None] for rows in (dual, margins, shifted, errors)))
        sums = ObjectiveSums(*(self.sums(own[0]) for own in terms))
        return margins, sums.objectives(intercepts, reach)
