"""Generalised Newton method on the kernel matrix, where block descent converges slowly.

For a loss whose derivative is piecewise linear the primal over signed coefficients
``b_i = y_i g_i``,

    P(b) = 1/2 b'Kb + sum_i loss_i(m_i),    m_i = y_i (Kb)_i,

is piecewise quadratic (Mangasarian 2002; Chapelle, Neural Computation 2007, for the squared hinge).
At an iterate only the rows A matter whose loss has a second derivative there, ``1 / d_i``. The
minimum of the quadratic piece is zero elsewhere, and on A solves ``(K_AA + D) b_A = -y_A s_A``,
where s is the slope of the conjugate at zero. The number of passes of block descent grows with the
condition of ``K + D``; the number of these steps stays small.

Full steps are taken as long as fewer and fewer rows change pieces, or the objective falls. This is
block principal pivoting (Portugal, Judice and Vicente, Mathematics of Computation 1994), in which
the objective may rise meanwhile by orders of magnitude. After ten full steps without either, a line
search finds the minimum along the direction, which always lowers the objective. A line search in
every step takes more steps, because it stops wherever a row reaches the edge of its piece.

The solve starts on half of the rows, and the solve of that half on half again, down to 1024 rows:
half of the rows give a good start at an eighth of the cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dimargin.problems.dual import DualProblem
from dimargin.solvers.gram_factor import GramFactor, TooManyRowsError
from dimargin.solvers.loop import Limits
from dimargin.system.arrays import Floats, Indices


class _Direction(NamedTuple):
    """Change of the coefficients of one output, of ``Kb``, and of the intercept."""

    signed: Floats
    products: Floats
    intercept: float
    travelled: float  # Accumulated rounding of the products, see `GramNewton.travelled`.


@dataclass
class GramNewton:
    """Newton's method from given coefficients.

    The iterate need not be in the box of the dual; the certificate is that of the nearest point in
    it. Kernel values are float64, since a factor needs double precision where ``d_i`` is small,
    which is where this method pays. Factors in single precision, corrected by conjugate gradients,
    took longer, or rows changed pieces without end; a path from the solution at a smaller `lam`
    took as many steps (bench/targets lists what was tried). With an intercept c, the margins are
    ``y_i ((Kb)_i + c)``, and the signed coefficients of a minimum sum to zero.
    """

    # Bytes per entry of a factor: 8, plus two copies of up to a quarter for changed rows.
    bytes_per_entry: ClassVar[int] = 12
    problem: DualProblem
    limits: Limits
    outputs: Indices  # Indices of these outputs among all of the solve.
    signed: Floats  # Coefficients y_i g_i, of shape (n_outputs, n).
    products: Floats  # K times the signed coefficients, of the same shape.
    intercepts: Floats  # Intercepts, of shape (n_outputs,).
    memory: int  # A factor may take this many bytes.
    travelled: Floats | None = None  # Rounding of the products, see `DualProblem.objectives`.
    fewest: Indices = field(init=False)  # Fewest rows that changed pieces in a full step.
    tries: Indices = field(init=False)  # Full steps that may still raise the objective.
    progressed: bool = True  # Whether the last step lowered the objective or `fewest`.
    factors: dict[int, GramFactor] = field(default_factory=dict)  # The last factor, by its output.
    factorizations: int = 0

    def __post_init__(self) -> None:
        self.fewest = np.full(len(self.signed), self.problem.n_rows + 1)
        self.tries = np.zeros(len(self.signed), dtype=np.int64)

    @classmethod
    def begin(
        cls, problem: DualProblem, limits: Limits, outputs: Indices, rng: np.random.Generator, memory: int
    ) -> GramNewton:
        """Return the method at an approximate minimum for half of the rows, or at zero for few.

        Raises
        ------
        OutOfTimeError
            If a limit is reached first.
        TooManyRowsError
            See `step`.
        """
        shape = problem.labels.shape
        if problem.n_rows <= 1024:
            return cls(problem, limits, outputs, np.zeros(shape), np.zeros(shape), np.zeros(shape[0]), memory)
        half = np.sort(rng.permutation(problem.n_rows)[: problem.n_rows // 2])
        part = problem.restrict(half, float(problem.weights[half].sum()))
        try:
            few = cls.begin(part, limits, outputs, rng, memory)
            for _ in range(20):
                few.step()
                if few.gap() <= 0.05:
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
        """Keep only some of the outputs."""
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
        """Recompute the products, without the accumulated rounding of earlier steps."""
        labels = self.problem.labels
        self.products, self.travelled = labels * self.problem.margins(labels * self.signed, accurately), None

    def step(self) -> None:
        """Take a step for every output.

        Raises
        ------
        OutOfTimeError
            If a limit is reached first; the iterate stays the same.
        TooManyRowsError
            If the factor at this iterate would not fit into `memory`.
        """
        directions = [self._direction(q) for q in range(len(self.signed))]
        self.progressed = False
        travelled = self.problem.reach(self.signed) if self.travelled is None else self.travelled
        for q, direction in enumerate(directions):
            length = self._step_length(q, direction)
            self.signed[q] += length * direction.signed
            self.products[q] += length * direction.products
            self.intercepts[q] += length * direction.intercept
            travelled[q] += length * direction.travelled
        self.travelled = travelled

    def _margins(self, q: int) -> Floats:
        return np.asarray(self.problem.labels[q] * (self.products[q] + self.intercepts[q]))

    def _direction(self, q: int) -> _Direction:
        """Return the direction to the minimum of the current quadratic piece."""
        problem, signed, labels = self.problem, self.signed[q], self.problem.labels[q]
        dual, curvature, _ = problem.conjugate.response(self._margins(q)[None])
        rows, out = np.flatnonzero(curvature[0] > 0), np.flatnonzero((curvature[0] == 0) & (signed != 0))
        direction, products, shift, travelled = np.zeros_like(signed), np.zeros_like(signed), 0.0, 0.0
        if len(out):
            direction[out] = -signed[out]
            products[:] = problem.kernel.multiply(out, direction[None, out])[0]
            travelled = float(problem.kernel.product_sizes(out, direction[None, out])[0])
        if not len(rows):
            return _Direction(direction, products, shift, travelled)
        bend = 1.0 / curvature[0][rows]
        factor = self._factor(q, rows, bend)
        right = bend * (labels * dual[0] - signed)[rows] - products[rows]
        found, images, sizes = self._solve(factor, rows, bend, right)
        if problem.intercept:
            ones, images_of_ones, sizes_of_ones = self._solve(factor, rows, bend, np.ones(len(rows)))
            total = float(ones.sum())
            if total > 0.0:  # Rounding may leave no positive total; the intercept stays then.
                shift = float(found.sum() + signed[rows].sum()) / total
                found, images = found - shift * ones, images - shift * images_of_ones
                sizes += abs(shift) * sizes_of_ones
        direction[rows] = found
        return _Direction(direction, products + images, shift, travelled + sizes)

    def _factor(self, q: int, rows: Indices, bend: Floats) -> GramFactor:
        """Return a prepared factor for some rows: the last one, if few rows have changed."""
        output = int(self.outputs[q])
        factor = self.factors.get(output)
        if factor is None or not factor.is_near(rows, bend):
            if self.bytes_per_entry * len(rows) ** 2 > self.memory:
                raise TooManyRowsError(self.factorizations)
            memory = self.factors.popitem()[1].memory if self.factors else None
            factor = GramFactor(self.problem.kernel, rows, bend, self.limits, memory)
            self.factors[output] = factor
            self.factorizations += 1
        factor.prepare(rows, bend)
        return factor

    def _solve(self, factor: GramFactor, rows: Indices, bend: Floats, right: Floats) -> tuple[Floats, Floats, float]:
        """Solve ``(K_AA + D) x = right``; return x, ``K_A x`` for all rows, and its rounding.

        Conjugate gradients preconditioned by the factor take one or two steps, each at a hundredth
        of the cost of a factor or less, and more steps only where the factor suffers from rounding.
        They end at a relative residual of 1e-10: with a linear kernel of few features, where ``Kb``
        is small compared with ``b``, a direction of residual 2e-8 led uphill.
        """
        found, products, travelled = np.zeros(len(rows)), np.zeros(self.problem.n_rows), 0.0
        residual, along, image, square, goal = right, found, found, 1.0, -1.0
        for _ in range(20):
            solved = factor.solve(residual)
            size = float(solved @ residual)
            goal = 1e-10**2 * size if goal < 0 else goal
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

    def _step_length(self, q: int, direction: _Direction) -> float:
        """Return the length of the step: one, or that to the minimum along the direction."""
        signed, labels, margins = self.signed[q], self.problem.labels[q], self._margins(q)
        linear, quadratic = float(signed @ direction.products), float(direction.signed @ direction.products)
        rates = labels * (direction.products + direction.intercept)

        def evaluate(step: float) -> tuple[float, float, NDArray[np.int8]]:
            """Return the objective up to a constant, its slope, and the pieces of the rows."""
            dual, curvature, value = self.problem.conjugate.response((margins + step * rates)[None])
            objective = step * (linear + 0.5 * step * quadratic) + float(value.sum())
            slope = linear + step * quadratic - float(dual[0] @ rates)
            return objective, slope, np.where(curvature[0] > 0, np.sign(dual[0]), 0).astype(np.int8)

        (value, slope, before), (new_value, new_slope, after) = evaluate(0.0), evaluate(1.0)
        changed = int(np.count_nonzero(before != after))
        if changed < self.fewest[q]:
            self.fewest[q], self.tries[q], self.progressed = changed, 10, True
            return 1.0
        self.progressed |= new_value < value - 1e-9 * abs(value)
        if new_value < value:
            return 1.0
        if self.tries[q]:
            self.tries[q] -= 1
            return 1.0
        if not slope < 0.0 < new_slope:
            return 0.0
        self.progressed = True
        return float(brentq(lambda step: evaluate(step)[1], 0.0, 1.0, xtol=1e-6))
