"""Generalised Newton method on the kernel matrix of the rows that count, for problems on which blocks creep.

For a loss whose derivative is piecewise linear the primal over signed coefficients ``b_i = y_i g_i``,

    P(b) = 1/2 b'Kb + sum_i loss_i(m_i),    m_i = y_i (Kb)_i,

is piecewise quadratic (Mangasarian 2002; Chapelle, Neural Computation 2007, for the squared hinge). At an iterate only
the rows A count whose loss has a second derivative there, ``1 / d_i``. The minimum of the quadratic piece has zeros
elsewhere, and on A solves ``(K_AA + D) b_A = -y_A s_A``, s the slope of the conjugate at zero. Blocks of some hundred
rows need as many passes as the condition of ``K + D`` demands; these steps are few, however large it is.

A step is taken whole as long as fewer and fewer rows change pieces in it, or the objective falls. That is block
principal pivoting (Portugal, Judice and Vicente, Mathematics of Computation 1994): the objective may rise meanwhile, by
orders of magnitude. After `_TRIES` whole steps without either a step ends at the minimum along its way, which is sure
to lower the objective. Minima along the way at every step take more steps, because an end lies at every row that comes
to the edge of its piece.

The first steps are taken on half of the rows, and of those on half again, down to `_FEW`: what many rows look like half
of them tell at an eighth of the price.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dimargin.problems.dual import DualProblem
from dimargin.solvers.gram_factor import GramFactor, TooManyRowsError
from dimargin.solvers.loop import Limits
from dimargin.system.arrays import Floats, Indices

BYTES = 12  # of a factor for each entry, with what is kept, twice, of rows that have changed
_FEW = 1024  # rows with which a solve begins
_ROUGH, _STEPS_ON_FEW = 0.05, 20  # relative gap on a part of the rows, and steps to it
_TRIES = 10  # whole steps in a row that neither lower the objective nor let fewer rows change than ever
_MIN_FALL = 1e-9  # of the objective, relative, that is progress
# Residual of a direction, relative, and conjugate gradients for it. With a linear kernel of few features, where ``Kb``
# is small beside ``b``, a direction of residual 2e-8 led uphill. A correction costs a hundredth of a factor, or less.
_INEXACT, _MAX_CORRECTIONS = 1e-10, 20


class _Way(NamedTuple):
    """A way for the coefficients of one output, what it does to ``Kb``, and to the intercept."""

    direction: Floats
    products: Floats
    shift: float
    travelled: float  # sum, over what the products were added up from, of absolute coefficients times sizes of rows


@dataclass
class GramNewton:
    """Newton's method from some coefficients on.

    The iterate need not be inside the box of the dual; what is certified is the nearest point that is. Kernel values
    are float64: single precision is too little for a factor where ``d_i`` is small, which is where this method is good.
    Factors in single precision, made up for by conjugate gradients, took longer, or rows changed pieces without end; to
    come from the solution at a smaller `lam` took as many steps (bench/TARGETS.md says what was tried).
    With an intercept c, the margins are ``y_i ((Kb)_i + c)`` and the coefficients of a minimum sum to zero.
    """

    problem: DualProblem
    limits: Limits
    outputs: Indices  # of all those of the solve, which these are
    signed: Floats  # coefficients y_i g_i, of shape (n_outputs, n)
    products: Floats  # K times them, of the same shape
    intercepts: Floats  # of shape (n_outputs,)
    memory: int  # bytes of a factor, at most
    travelled: Floats | None = None  # of the products, as of margins in `DualProblem.objectives`
    fewest: Indices = field(init=False)  # rows that have changed pieces in a whole step, of shape (n_outputs,)
    tries: Indices = field(init=False)  # whole steps left that need not lower the objective, of the same shape
    progressed: bool = True  # whether the last step lowered the objective, or fewer rows than ever changed pieces
    factors: dict[int, GramFactor] = field(default_factory=dict)  # at most one, by output
    factorizations: int = 0

    def __post_init__(self) -> None:
        self.fewest = np.full(len(self.signed), self.problem.n_rows + 1)
        self.tries = np.zeros(len(self.signed), dtype=np.int64)

    @classmethod
    def begin(
        cls, problem: DualProblem, limits: Limits, outputs: Indices, rng: np.random.Generator, memory: int
    ) -> GramNewton:
        """Return the method at a good start, which is the minimum for a part of the rows.

        Raises
        ------
        OutOfTimeError
            If a limit is reached before there is one.
        TooManyRowsError
            See `step`.
        """
        shape = problem.labels.shape
        if problem.n_rows <= _FEW:
            return cls(problem, limits, outputs, np.zeros(shape), np.zeros(shape), np.zeros(shape[0]), memory)
        half = np.sort(rng.permutation(problem.n_rows)[: problem.n_rows // 2])
        part = problem.restrict(half, float(problem.weights[half].sum()))
        try:
            few = cls.begin(part, limits, outputs, rng, memory)
            for _ in range(_STEPS_ON_FEW):
                few.step()
                if few.gap() <= _ROUGH:
                    break
        finally:
            problem.kernel.evaluations += part.kernel.evaluations
        signed = np.zeros(shape)
        signed[:, half] = few.signed
        columns = np.flatnonzero(signed.any(axis=0))
        products = problem.kernel.multiply(columns, signed[:, columns])
        factorizations = few.factorizations
        return cls(problem, limits, outputs, signed, products, few.intercepts, memory, factorizations=factorizations)

    def keep_outputs(self, problem: DualProblem, outputs: Indices) -> None:
        """Go on with some of the outputs."""
        kept = np.isin(self.outputs, outputs)
        self.signed, self.products, self.intercepts = self.signed[kept], self.products[kept], self.intercepts[kept]
        self.travelled = None if self.travelled is None else self.travelled[kept]
        self.fewest, self.tries = self.fewest[kept], self.tries[kept]
        self.problem, self.outputs = problem, outputs

    def gap(self) -> float:
        """Return the relative gap of the worst output."""
        labels = self.problem.labels
        dual, margins = self.problem.at_feasible(labels * self.signed, labels * self.products)
        return self.problem.objectives(dual, margins).worst_gap

    def refresh(self, accurately: bool = False) -> None:
        """Compute the products at once, free of the rounding of the steps that led to them."""
        labels = self.problem.labels
        self.products, self.travelled = labels * self.problem.margins(labels * self.signed, accurately), None

    def step(self) -> None:
        """Take a step for every output.

        Raises
        ------
        OutOfTimeError
            If a limit is reached before the step is known; the iterate stays where it is.
        TooManyRowsError
            If the factor for the rows that count at this iterate would not fit into `memory`.
        """
        ways = [self._way(q) for q in range(len(self.signed))]
        self.progressed = False
        travelled = self.problem.reach(self.signed) if self.travelled is None else self.travelled
        for q, way in enumerate(ways):
            length = self._length(q, way)
            self.signed[q] += length * way.direction
            self.products[q] += length * way.products
            self.intercepts[q] += length * way.shift
            travelled[q] += length * way.travelled
        self.travelled = travelled

    def _margins(self, q: int) -> Floats:
        return np.asarray(self.problem.labels[q] * (self.products[q] + self.intercepts[q]))

    def _way(self, q: int) -> _Way:
        """Return the way to the minimum of the present quadratic piece."""
        problem, signed, labels = self.problem, self.signed[q], self.problem.labels[q]
        dual, curvature, _ = problem.conjugate.response(self._margins(q)[None])
        rows, out = np.flatnonzero(curvature[0] > 0), np.flatnonzero((curvature[0] == 0) & (signed != 0))
        direction, products, shift, travelled = np.zeros_like(signed), np.zeros_like(signed), 0.0, 0.0
        if len(out):
            direction[out] = -signed[out]
            products[:] = problem.kernel.multiply(out, direction[None, out])[0]
            travelled = float(problem.kernel.product_sizes(out, direction[None, out])[0])
        if not len(rows):
            return _Way(direction, products, shift, travelled)
        bend = 1.0 / curvature[0][rows]
        factor = self._factor(q, rows, bend)
        right = bend * (labels * dual[0] - signed)[rows] - products[rows]
        found, images, sizes = self._solve(factor, rows, bend, right)
        if problem.intercept:
            ones, images_of_ones, sizes_of_ones = self._solve(factor, rows, bend, np.ones(len(rows)))
            total = float(ones.sum())
            if total > 0.0:  # rounding may leave nothing of it, where no shift is known
                shift = float(found.sum() + signed[rows].sum()) / total
                found, images = found - shift * ones, images - shift * images_of_ones
                sizes += abs(shift) * sizes_of_ones
        direction[rows] = found
        return _Way(direction, products + images, shift, travelled + sizes)

    def _factor(self, q: int, rows: Indices, bend: Floats) -> GramFactor:
        """Return the factor for some rows, prepared: the last one of this output, if few have changed."""
        output = int(self.outputs[q])
        factor = self.factors.get(output)
        if factor is None or not factor.is_near(rows, bend):
            if BYTES * len(rows) ** 2 > self.memory:
                raise TooManyRowsError(self.factorizations)
            memory = self.factors.popitem()[1].memory if self.factors else None
            factor = GramFactor(self.problem.kernel, rows, bend, self.limits, memory)
            self.factors[output] = factor
            self.factorizations += 1
        factor.prepare(rows, bend)
        return factor

    def _solve(self, factor: GramFactor, rows: Indices, bend: Floats, right: Floats) -> tuple[Floats, Floats, float]:
        """Return the solution x of ``(K_AA + D) x = right``, ``K_A x`` for all rows, and what that has travelled.

        Conjugate gradients with the factor as preconditioner take a step or two, but where rounding spoils the factor.
        """
        found, products, travelled = np.zeros(len(rows)), np.zeros(self.problem.n_rows), 0.0
        residual, along, image, square, goal = right, found, found, 1.0, -1.0
        for _ in range(_MAX_CORRECTIONS):
            solved = factor.solve(residual)
            size = float(solved @ residual)
            goal = _INEXACT**2 * size if goal < 0 else goal
            if not size > goal:
                break
            along = solved - float(solved @ image) / square * along
            product = self.problem.kernel.multiply(rows, along[None])[0]
            image = product[rows] + bend * along
            square = float(along @ image)
            if not square > 0.0:
                break
            length = float(along @ residual) / square
            found, products = found + length * along, products + length * product
            travelled += abs(length) * float(self.problem.kernel.product_sizes(rows, along[None])[0])
            residual = residual - length * image
        return found, products, travelled

    def _length(self, q: int, way: _Way) -> float:
        """Return how far to go: all the way, or to the minimum along it."""
        signed, labels, margins = self.signed[q], self.problem.labels[q], self._margins(q)
        linear, quadratic = float(signed @ way.products), float(way.direction @ way.products)
        rates = labels * (way.products + way.shift)

        def answer(step: float) -> tuple[float, float, NDArray[np.int8]]:
            """Return the objective, less a constant, its slope, and the piece that every row is on."""
            dual, curvature, value = self.problem.conjugate.response((margins + step * rates)[None])
            objective = step * (linear + 0.5 * step * quadratic) + float(value.sum())
            slope = linear + step * quadratic - float(dual[0] @ rates)
            return objective, slope, np.where(curvature[0] > 0, np.sign(dual[0]), 0).astype(np.int8)

        (here, slope, before), (there, end, after) = answer(0.0), answer(1.0)
        changed = int(np.count_nonzero(before != after))
        if changed < self.fewest[q]:
            self.fewest[q], self.tries[q], self.progressed = changed, _TRIES, True
            return 1.0
        self.progressed |= there < here - _MIN_FALL * abs(here)
        if there < here:
            return 1.0
        if self.tries[q]:
            self.tries[q] -= 1
            return 1.0
        if not slope < 0.0 < end:
            return 0.0
        self.progressed = True
        return float(brentq(lambda step: answer(step)[1], 0.0, 1.0, xtol=1e-6))
