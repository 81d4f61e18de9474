"""State of block coordinate descent: the current iterate, the best one, and the queue of blocks."""

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
    """Iterate with the smallest gap of every output."""

    dual: Floats
    margins: Floats
    objectives: Objectives
    lowest_primal: Floats  # Lowest primal objectives so far: upper bounds of the dual ones.
    is_counted: bool = False  # Whether all objectives include the rounding of float32.

    @classmethod
    def of(cls, problem: DualProblem, dual: Floats, margins: Floats, accurately: bool = False) -> Best:
        """Return the first iterate as the best one."""
        now = problem.objectives(dual, margins, accurately=accurately)
        return cls(dual.copy(), margins.copy(), now, now.primal.copy())

    def update(self, outputs: Indices, dual: Floats, margins: Floats, objectives: Objectives) -> None:
        """Replace the iterates of those of the given outputs whose gap has become smaller."""
        self.lowest_primal[outputs] = np.fmin(self.lowest_primal[outputs], objectives.primal)
        better = objectives.unrounded < self.objectives.unrounded[outputs]
        indices = outputs[better]
        self.is_counted &= not len(indices)
        self.dual[indices], self.margins[indices] = dual[better], margins[better]
        self.objectives = self.objectives.replaced(indices, objectives.take(better))

    def count(self, margins: Floats, objectives: Objectives) -> None:
        """Set margins and objectives that include the rounding of float32."""
        self.is_counted, self.margins, self.objectives = True, margins, objectives


@dataclass(frozen=True)
class BlockSolve:
    """Solve of a block, which may run while the margins of other rows are updated."""

    rows: Indices
    dual: Floats  # Coefficients of shape (n_outputs, len(rows)): the new ones at the end.
    change: Floats  # Changes of the signed coefficients, of the same shape, known at the end.
    begun: _core.BlockSolve


@dataclass
class State:
    """State of one solve; the fields that do not change come first."""

    limits: Limits
    rng: np.random.Generator
    max_cache_bytes: int  # Kernel rows over the active rows may take this many bytes.
    max_gram_bytes: int  # Full kernel rows, or a factor of them, may take this many bytes.
    order: Indices | None  # Canonical order of a problem of one block.
    indices: Indices | None  # Given indices of the rows, if they were reordered for a local kernel.
    conjugate: Floats  # Parameters of the conjugate for the compiled core.

    whole: DualProblem  # Problem of all outputs; its kernel changes when float32 is left.
    problem: DualProblem  # Problem of the outputs that have not met the tolerance yet.
    outputs: Indices  # Indices of these outputs.
    dual: Floats
    margins: Floats
    best: Best  # Best iterates of all outputs.
    spent: int  # Number of kernel values computed by kernels that are no longer used.
    # Accumulated rounding of the margins of all outputs: the sum, over all updates, of absolute
    # changes of coefficients times the sizes of their rows. None if one product computed the
    # margins.
    travelled: Floats | None = None
    accurately: bool = False  # Whether recomputed margins are summed in twice the precision.

    stopwatch: Stopwatch = field(default_factory=Stopwatch)  # Times the updates of the margins.
    queue: list[Indices | None] = field(default_factory=list)  # Blocks; None: most violating rows.
    previous: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # Last block of violators.
    block_size: int = 0  # Rows of a block in this pass.
    passes: int = 0  # Number of passes begun.
    visited: int = 0  # Number of rows visited since the start.
    operations: float = 0.0  # Estimated floating-point operations within blocks.
    since_check: int = 0  # Number of rows visited since the last check.
    unchecked: bool = True

    upcoming: BlockSolve | None = None  # Solve of the next block, if it has begun already.

    whole_rows: RowCache | None = None  # Cache of full kernel rows; with it no row is shrunk.
    active: ActiveRows | None = None  # The active rows while others are shrunk.
    unshrink_at: int = 0  # Shrinking is undone after this pass.
    unshrink_gap: float = 0.0  # Shrinking is undone once the active rows' gap is below this.
    cache: RowCache | None = None  # Cache of the active rows when rows were last shrunk.
    whole_gap: float = np.inf  # Gap at the last check of all rows.

    is_float32_trusted: bool = True  # Whether the last float32 gap below `tol` was believed.
    is_newton_due: bool = False  # Whether the next step switches to Newton's method.
    newton: GramNewton | None = None  # Newton's method, once the solve has switched to it.
    block_problem: DualProblem | None = None  # The value of `whole` before the switch.
    outgrew_memory: bool = False  # Whether Newton's method was abandoned for lack of memory.
    factorizations: int = 0  # Factorizations done before Newton's method was abandoned.
    improved_at: int = 0  # Number of rows visited at the last improvement.
    min_gap: float = np.inf  # Gap of the worst output at the last improvement.
    highest: Floats = field(init=False)  # Dual objectives at the last improvement.
    # Work and smallest absolute gap at every check.
    gaps_by_work: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.forget_progress()

    def forget_progress(self) -> None:
        """Restart the measurement of progress, after the method or the precision has changed."""
        self.improved_at, self.min_gap = self.visited, np.inf
        self.highest = np.full(len(self.best.dual), -np.inf)

    def as_given(self, values: Floats) -> Floats:
        """Return values of all rows, of shape (n_outputs, n), in the order of the given problem."""
        return values if self.indices is None else np.ascontiguousarray(values[:, np.argsort(self.indices)])

    def objectives(self) -> Objectives:
        """Return the objectives of the current iterate, for the outputs still solved for."""
        travelled = None if self.travelled is None else self.travelled[self.outputs]
        return self.problem.objectives(self.dual, self.margins, travelled=travelled, accurately=self.accurately)

    def add_rounding(self, columns: Indices, change: Floats) -> None:
        """Add the rounding of an update of the margins by changes of these coefficients."""
        if not change.any():
            return
        moved = self.problem.kernel.product_sizes(columns, change)
        if self.travelled is None:
            # One product gave the earlier margins. The size of their coefficients is bounded by
            # that of the current ones plus the change.
            self.travelled = self.whole.reach(self.best.dual)
            self.travelled[self.outputs] = self.problem.reach(self.dual) + moved
        self.travelled[self.outputs] += moved

    def make_feasible(self) -> None:
        """Make the iterate feasible: in the box and, with an intercept, of signed sum zero."""
        before = self.dual
        self.dual, self.margins = self.problem.at_feasible(self.dual, self.margins)
        if self.dual is not before:
            self.add_rounding(np.arange(before.shape[1]), self.dual - before)

    def should_recompute_margins(self) -> bool:
        """Return whether to recompute margins, because only rounding keeps the gap above `tol`.

        If the kernel can sum in twice the precision, it does so from now on.
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
        # A product loses less once the accumulated changes exceed twice the coefficients' size.
        far = self.travelled > 2 * self.whole.reach(self.best.dual)
        return bool((unmet & (far | kernel.has_weights | self.accurately)).any())

    def keep_outputs(self, outputs: Indices) -> None:
        """Keep only some of the current outputs.

        They continue from their current iterates, since the best may have a lower dual objective.
        """
        kept = np.isin(self.outputs, outputs)
        self.dual, self.margins = self.dual[kept], self.margins[kept]
        self.outputs = outputs
        self.problem = self.whole.select(outputs)
