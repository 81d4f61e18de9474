r"""Problems with nu in place of the weight of the loss or the width of the band, and their certificate.

They have the form (Schoelkopf, Smola, Williamson, Bartlett, "New support vector algorithms", Neural Computation
12, 2000; Schoelkopf et al., "Estimating the support of a high-dimensional distribution", Neural Computation 13, 2001)

    minimise over f, t  1/2 |w|^2 + sum_k [ sum_{i in k} u_i (t_k - v_i)_+ - mass_k t_k ],
    maximise over a    -1/2 |sum_i a_i z_i|^2 + sum_i a_i shift_i,   0 <= a_i <= u_i,  sum_{i in k} a_i = mass_k,

with sides k of rows, each with a level t of its own, and values v that are affine in the decision values f:

    one class              v_i = f_i        one side                   t = rho
    classification         v_i = y_i f_i    the two classes            t = rho -/+ b
    regression             v_i = f_i - y_i, y_i - f_i   above, below   t = -epsilon -/+ b

Every row of regression is on both sides. For fixed f the best level is a quantile, so that the gap is
``sum_i u_i (t - v_i)_+ - a_i (t - v_i)``, of which no term is negative. The levels take the place of the intercept:
the losses are those of a hinge of ``v_i - t``, and two sums of coefficients are given instead of one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import HingeLoss, least_of_hinges
from dimargin.problems.margin_losses import BALANCED
from dimargin.problems.objectives import ROUNDINGS, Objectives, ObjectiveSums
from dimargin.system.arrays import UNIT, Floats, Indices


@dataclass(frozen=True)
class NuProblem(DualProblem):
    """A nu problem, of one output; the sides are the rows of either label.

    Its intercepts are the levels of the positive and of the negative side, of shape (1, 2).
    """

    masses: tuple[float, float] = field(kw_only=True)
    given: Indices | None = field(default=None, kw_only=True)  # the given row of every row, if they are there twice

    @classmethod
    def of_labels(cls, kernel: KernelMatrix, labels: Floats, weights: Floats, nu: float) -> NuProblem:
        """Return the problem of two classes, or of one if all labels are one.

        `nu` is at most the share of the smaller class, times two; one class takes all of ``nu W``.
        """
        total, smaller = float(weights.sum()), min(float(weights[labels == sign].sum()) for sign in (1.0, -1.0))
        mass = min(nu * total / 2, smaller) if smaller else nu * total
        return cls._of(kernel, labels, weights, 1.0, -np.ones(len(labels)), (mass, mass if smaller else 0.0))

    @classmethod
    def of_targets(cls, kernel: KernelMatrix, targets: Floats, weights: Floats, nu: float, C: float) -> NuProblem:
        """Return the problem of regression, with every row twice: row ``n + i`` is row i on the negative side."""
        both, labels = np.tile(np.arange(len(targets)), 2), np.repeat([1.0, -1.0], len(targets))
        mass = 0.5 * C * nu * float(weights.sum())
        problem = cls._of(kernel.take(both), labels, weights[both], C, labels * targets[both] - 1.0, (mass, mass))
        return replace(problem, given=both)

    @classmethod
    def _of(
        cls, kernel: KernelMatrix, labels: Floats, weights: Floats, C: float, targets: Floats,
        masses: tuple[float, float],
    ) -> NuProblem:  # fmt: skip
        # The hinge has its kink at one, less the target.
        total = float(weights.sum())
        return cls(labels[None], weights, HingeLoss(C), total, total, True, targets, kernel=kernel, masses=masses)

    @property
    def n_sums(self) -> int:
        """See `MarginLosses`."""
        return 2

    @property
    def parts(self) -> list[tuple[Indices, float]]:
        """The rows of either side, with the sum of their coefficients."""
        return [(np.flatnonzero(self.labels[0] == sign), m) for sign, m in zip((1.0, -1.0), self.masses, strict=True)]

    def with_kernel(self, kernel: KernelMatrix) -> NuProblem:
        """See `DualProblem`."""
        return replace(self, kernel=kernel)

    def restrict(self, index: Indices, mass: float) -> NuProblem:
        """See `DualProblem`; the sums of the coefficients stay."""
        part = replace(self, labels=np.ascontiguousarray(self.labels[:, index]), weights=self.weights[index], mass=mass)
        given = None if self.given is None else self.given[index]
        return replace(part, targets=self._targets[index], kernel=self.kernel.take(index), given=given)

    def of_rows(self, index: Indices | slice, mass: float) -> NuProblem:
        """See `MarginLosses`."""
        return self.restrict(np.arange(self.n_rows)[index], mass)

    def sample(self, index: Indices) -> NuProblem:
        """Return the problem of some rows with the sums that have the same share of their weights."""
        shares = [mass / max(float(self.weights[rows].sum()), 1e-300) for rows, mass in self.parts]
        part = self.restrict(index, self.mass)
        first, second = (s * float(part.weights[rows].sum()) for s, (rows, _) in zip(shares, part.parts, strict=True))
        return replace(part, masses=(first, second))

    @property
    def _targets(self) -> Floats:
        assert self.targets is not None
        return self.targets

    def support(self, dual: Floats) -> tuple[Indices, Floats]:
        """See `DualProblem`; coefficients of the same row on both sides are added up, lest they cancel in products."""
        columns, signed = super().support(dual)
        if self.given is None:
            return columns, signed
        _, first, place = np.unique(self.given[columns], return_index=True, return_inverse=True)
        sums = np.bincount(place, signed[0], len(first))
        kept: Indices = columns[first[sums != 0]]
        return kept, np.asarray(sums[None, sums != 0])

    def reach(self, dual: Floats) -> Floats:
        """See `DualProblem`."""
        columns, signed = self.support(dual)
        return np.asarray(np.abs(signed) @ self.kernel.column_sizes[columns])

    def hinge_values(self, margins: Floats) -> Floats:
        """Return the values v at margins."""
        return margins - (self._targets + 1.0)

    def feasible(self, dual: Floats) -> Floats:
        """Return coefficients near `dual` in the box with the given sums; few of them change, free ones first."""
        upper = self.conjugate.upper
        dual = np.clip(dual, 0.0, upper)
        for rows, mass in self.parts:
            own = dual[0, rows]
            excess = float(own.sum()) - mass
            if abs(excess) <= BALANCED * mass:
                continue
            room = own if excess > 0 else upper[rows] - own
            order = np.lexsort((-room, -np.minimum(own, upper[rows] - own)))
            taken = np.cumsum(room[order])
            steps = np.clip(abs(excess) - (taken - room[order]), 0.0, room[order])
            moved = own[order] - np.sign(excess) * steps
            dual[0, rows[order]] = np.where(steps == room[order], 0.0 if excess > 0 else upper[rows[order]], moved)
        return dual

    def best_scale(self, dual: Floats, margins: Floats) -> Floats:
        """See `DualProblem`; sums that are given leave nothing to scale."""
        return np.ones((1, 1))

    def intercepts(self, margins: Floats) -> Floats:
        """Return the best levels for decision values, of shape (1, 2)."""
        v, upper = self.hinge_values(margins)[0], self.conjugate.upper
        # As a function of -t each row is the hinge of a positive one with its kink at -v.
        return np.array([[
            -least_of_hinges(-v[rows], np.ones(len(rows)), upper[rows], -mass) if len(rows) else 0.0
            for rows, mass in self.parts
        ]])  # fmt: skip

    def middle_intercepts(self, dual: Floats, margins: Floats) -> Floats:
        """Return levels midway between the largest value of rows that may fall and the smallest of those to rise."""
        levels, v, upper = self.intercepts(margins), self.hinge_values(margins)[0], self.conjugate.upper
        for k, (rows, _) in enumerate(self.parts):
            low = v[rows][dual[0, rows] > 2.0**-40 * upper[rows]].max(initial=-np.inf)
            high = v[rows][dual[0, rows] < (1 - 2.0**-40) * upper[rows]].min(initial=np.inf)
            if np.isfinite(high - low):
                levels[0, k] = 0.5 * (low + high)
        return levels

    def levels(self, dual: Floats, margins: Floats) -> Floats:
        """Return the best levels, as LIBSVM's the middle of the interval if no coefficient is free."""
        best, middle, upper = self.intercepts(margins), self.middle_intercepts(dual, margins), self.conjugate.upper
        v = self.hinge_values(margins)[0]
        for k, (rows, _) in enumerate(self.parts):
            bound, at_zero = dual[0, rows] == upper[rows], dual[0, rows] == 0
            if (bound | at_zero).all() and v[rows][bound].max(initial=-np.inf) <= v[rows][at_zero].min(initial=np.inf):
                best[0, k] = middle[0, k]
        return best

    def shifted(self, margins: Floats, intercepts: Floats) -> Floats:
        """Return the margins less the levels."""
        return margins - np.where(self.labels > 0, intercepts[:, :1], intercepts[:, 1:])

    def objective_sums(
        self, dual: Floats, margins: Floats, intercepts: Floats, errors: Floats | None = None
    ) -> ObjectiveSums:
        """See `MarginLosses`; what is wrong with the sums of the coefficients counts as rounding.

        Moving coefficients of a side by so much in all changes the dual objective to first order by at most that times
        the side's largest ``|v|``, to second order by half the square of that times the length of its longest row, and
        the gap by that times the level as well.
        """
        shifted = self.shifted(margins, intercepts)
        primal, gap, of_gap, of_dual = (
            terms.sum(axis=1) for terms in islice(self.objective_terms(dual, margins, shifted, errors), 4)
        )
        values, lengths, reach = np.abs(self.hinge_values(margins)[0]), self.kernel.column_sizes, 0.0
        for k, (rows, mass) in enumerate(self.parts):
            excess = abs(float(dual[0, rows].sum()) - mass) + ROUNDINGS * mass * (errors is not None)
            cost = excess * (abs(intercepts[0, k]) + float(values[rows].max(initial=0.0)))
            reach += excess * float(lengths[rows].max(initial=0.0))
            primal, of_gap, of_dual = primal - mass * intercepts[:, k], of_gap + cost, of_dual + cost
        of_gap, of_dual = of_gap + 0.5 * reach**2, of_dual + 0.5 * reach**2
        nothing = np.zeros(1)
        return ObjectiveSums(primal, gap, of_gap, of_dual, nothing, nothing, nothing, nothing)

    def scaled(self, dual: Floats, objectives: Objectives) -> Objectives:
        """Return objectives that hold after coefficients were divided by a number and rounded once more."""
        changes = 2 * UNIT * float(self.reach(dual)[0]) * self.kernel.row_sizes
        size, added = np.abs(objectives.primal), float((self.conjugate.upper + np.abs(dual[0])) @ changes)
        with np.errstate(invalid="ignore"):  # A gap may be infinite, and the objective zero.
            gap, rounding = objectives.unrounded * size, objectives.rounding * size + added
        return Objectives.of(objectives.primal, gap, objectives.intercept, rounding)


def without_rounding(sizes: Floats, weights: Floats, sides: Floats) -> Floats:
    """Return coefficients without those nearly zero or nearly at their bound: free ones of their side take the rest."""
    near = 1e-8 * weights
    rounded = np.where(sizes < near, 0.0, np.where(sizes > weights - near, weights, sizes))
    for side in np.unique(sides):
        room = np.where(sides == side, np.minimum(rounded, weights - rounded), 0.0)
        left = float((sizes - rounded)[sides == side].sum())
        if abs(left) < float(room.max(initial=0.0)):
            rounded[room.argmax()] += left
        elif abs(left) > ROUNDINGS * float(sizes.sum()):
            rounded[sides == side] = sizes[sides == side]
    return rounded
