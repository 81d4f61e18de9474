"""State of block coordinate descent: the present iterate, the best one, and the blocks to be visited next."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dimargin import _core
from dimargin.problems.dual import DualProblem
from dimargin.problems.objectives import Objectives
from dimargin.solvers.active import ActiveRows, RowCache
from dimargin.solvers.gram_newton import GramNewton
from dimargin.solvers.loop import Limits
from dimargin.solvers.stopwatch import Stopwatch
from dimargin.system.arrays import Floats, Indices


@dataclass
class Best:
    """The iterate with the smallest gap, output by output."""

    dual: Floats
    margins: Floats
    objectives: Objectives
    lowest_primal: Floats  # of all iterates: no dual objective is above
    is_counted: bool = False  # whether the errors by float32 are counted in all objectives

    @classmethod
    def of(cls, problem: DualProblem, dual: Floats, margins: Floats, accurately: bool = False) -> Best:
        """Return a first iterate as the best one."""
        now = problem.objectives(dual, margins, accurately=accurately)
        return cls(dual.copy(), margins.copy(), now, now.primal.copy())

    def update(self, outputs: Indices, dual: Floats, margins: Floats, objectives: Objectives) -> None:
        """Replace the iterate for those of the given outputs whose gap has become smaller."""
        self.lowest_primal[outputs] = np.fmin(self.lowest_primal[outputs], objectives.primal)
        better = objectives.unrounded < self.objectives.unrounded[outputs]
        indices = outputs[better]
        self.is_counted &= not len(indices)
        self.dual[indices], self.margins[indices] = dual[better], margins[better]
        self.objectives = self.objectives.replaced(indices, objectives.take(better))

    def count(self, margins: Floats, objectives: Objectives) -> None:
        """Replace margins and objectives by those with which the rounding of float32 is counted."""
        self.is_counted, self.margins, self.objectives = True, margins, objectives


@dataclass(frozen=True)
class BlockSolve:
    """Solve of a block, which may have begun while margins of other rows are brought up to date."""

    rows: Indices
    dual: Floats  # coefficients of the rows, of shape (n_outputs, len(rows)): new ones once it has ended
    change: Floats  # of signed coefficients, of the same shape, likewise
    begun: _core.BlockSolve


@dataclass
class State:
    """State of one solve; the fields that do not change come first."""

    limits: Limits
    rng: np.random.Generator
    memory: int  # bytes of remembered kernel rows of active rows, at most
    memory_of_gram: int  # the same of whole ones
    order: Indices | None  # canonical order of a problem of one block
    indices: Indices | None  # of the rows in the problem as given, whose order is another where its kernel is local
    conjugate: Floats  # of the conjugate, as the core takes them

    whole: DualProblem  # of all outputs; its kernel changes when float32 is left
    problem: DualProblem  # of the outputs that have not met the tolerance yet
    outputs: Indices  # which those are
    dual: Floats
    margins: Floats
    best: Best  # of all outputs
    spent: int  # evaluations of kernels left behind
    # Sums, over all updates that led to the margins of all outputs, of absolute changes of coefficients times the sizes
    # of their rows; None where margins were computed in one product.
    travelled: Floats | None = None
    accurately: bool = False  # whether margins that are computed at once are in twice the precision

    stopwatch: Stopwatch = field(default_factory=Stopwatch)  # of updates of the margins, on values as they are now
    queue: list[Indices | None] = field(default_factory=list)  # blocks of the pass; None: the worst violators then
    previous: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # worst violators, the last time
    block_size: int = 0  # in this pass
    passes: int = 0  # begun
    visited: int = 0  # rows visited in all
    operations: float = 0.0  # floating-point operations within blocks, about
    since_check: int = 0  # rows visited since the last check
    unchecked: bool = True

    ahead: BlockSolve | None = None  # of the block that comes next, if it has begun already

    whole_rows: RowCache | None = None  # remembered, where those of all rows would fit: then none rests
    active: ActiveRows | None = None  # while others rest
    wake_at: int = 0  # passes after which they wake in any case
    wake_gap: float = 0.0  # of the active rows, at which they do
    cache: RowCache | None = None  # of the active rows, the last time that others rested
    whole_gap: float = np.inf  # at the last check of all rows

    is_sure: bool = True  # whether a gap on float32 kernel values that meets the tolerance was believed
    is_slow: bool = False  # whether Newton's method shall take over from blocks
    newton: GramNewton | None = None  # once it has
    of_blocks: DualProblem | None = None  # `whole` before it has
    has_outgrown: bool = False  # whether it was given up, because too many rows count for its memory
    factorizations: int = 0  # of it then
    improved_at: int = 0  # rows visited at the last improvement
    min_gap: float = np.inf  # and the worst gap then
    highest: Floats = field(init=False)  # and the dual objectives, of shape (n_outputs,)
    pace: list[tuple[float, float]] = field(default_factory=list)  # work and smallest absolute gap at every check

    def __post_init__(self) -> None:
        self.forget_progress()

    def forget_progress(self) -> None:
        """Begin to measure progress anew, because what is minimised, or its precision, has changed."""
        self.improved_at, self.min_gap = self.visited, np.inf
        self.highest = np.full(len(self.best.dual), -np.inf)

    def as_given(self, values: Floats) -> Floats:
        """Return values of all rows, of shape (n_outputs, n), in the order of the problem as given."""
        return values if self.indices is None else np.ascontiguousarray(values[:, np.argsort(self.indices)])

    def objectives(self) -> Objectives:
        """Return the objectives of the present iterate, for the present outputs."""
        travelled = None if self.travelled is None else self.travelled[self.outputs]
        return self.problem.objectives(self.dual, self.margins, travelled=travelled, accurately=self.accurately)

    def travel(self, columns: Indices, change: Floats) -> None:
        """Count changes of coefficients, by which margins have been brought up to date."""
        if not change.any():
            return
        moved = self.problem.kernel.product_sizes(columns, change)
        if self.travelled is None:  # they were those of coefficients as far from the present ones as they moved
            self.travelled = self.whole.reach(self.best.dual)
            self.travelled[self.outputs] = self.problem.reach(self.dual) + moved
        self.travelled[self.outputs] += moved

    def make_feasible(self) -> None:
        """Move the present iterate into its box and, with an intercept, to signed coefficients of sum zero."""
        before = self.dual
        self.dual, self.margins = self.problem.at_feasible(self.dual, self.margins)
        if self.dual is not before:
            self.travel(np.arange(before.shape[1]), self.dual - before)

    def lessen_rounding(self) -> bool:
        """Return whether margins shall be computed afresh, because rounding alone keeps the gap from the tolerance.

        Where the kernel can compute margins accurately, they are from now on.
        """
        kernel, objectives, tol = self.whole.kernel, self.best.objectives, self.limits.tol
        unmet = (objectives.relative_gap > tol) & (objectives.unrounded <= tol)
        if not kernel.double or not unmet.any():
            return False
        if kernel.can_be_accurate and not self.accurately:
            self.accurately = True
            return True
        if self.travelled is None:
            return False
        far = self.travelled > 2 * self.whole.reach(self.best.dual)
        return bool((unmet & (far | kernel.has_weights | self.accurately)).any())

    def focus(self, outputs: Indices) -> None:
        """Go on with some of the present outputs: not from their best iterates, whose dual objective may be lower."""
        kept = np.isin(self.outputs, outputs)
        self.dual, self.margins = self.dual[kept], self.margins[kept]
        self.outputs = outputs
        self.problem = self.whole.select(outputs)
