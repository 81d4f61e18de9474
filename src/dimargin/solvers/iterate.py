"""The iterate of block coordinate descent with its rounding, and the best iterates so far."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.problems.objectives import Objectives
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


@dataclass
class Iterate:
    """Coefficients and margins of the outputs that have not met the tolerance yet."""

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

    @classmethod
    def begin(cls, problem: DualProblem, start: Floats | None) -> Iterate:
        """Return the iterate near a start, or at zero."""
        before = problem.kernel.evaluations
        dual = np.zeros(problem.labels.shape)
        if start is not None or problem.n_sums == 2:  # Zero is not feasible with given sums.
            dual = problem.feasible(np.array(dual if start is None else start, dtype=np.float64, order="C"))
        margins = problem.margins(dual) if dual.any() else np.zeros_like(dual)
        share = problem.best_scale(dual, margins)
        if (share < 1).any():
            # Scaling rounds the coefficients, so that margins of linear machines are recomputed.
            dual = share * dual
            margins = problem.margins(dual) if problem.kernel.has_weights else share * margins
        outputs = np.arange(len(dual))
        return cls(problem, problem, outputs, dual, margins, Best.of(problem, dual, margins), -before)

    def restart(self, whole: DualProblem) -> None:
        """Continue from the best iterate with the kernel of `whole`, and recompute its margins."""
        if whole is not self.whole:
            self.spent += self.whole.kernel.evaluations - whole.kernel.evaluations
        dual = self.best.dual
        self.best = Best.of(whole, dual, whole.margins(dual, self.accurately), self.accurately)
        self.whole = self.problem = whole
        self.outputs = np.arange(len(dual))
        self.move_to(dual.copy(), self.best.margins.copy(), None)

    @property
    def evaluations(self) -> int:
        """Number of kernel values computed so far."""
        return self.spent + self.whole.kernel.evaluations

    def objectives(self) -> Objectives:
        """Return the objectives of the current iterate, for the outputs still solved for."""
        travelled = None if self.travelled is None else self.travelled[self.outputs]
        return self.problem.objectives(self.dual, self.margins, travelled=travelled, accurately=self.accurately)

    def update_best(self, objectives: Objectives) -> None:
        """Compare the current iterate, with its objectives, with the best one of every output."""
        self.best.update(self.outputs, self.dual, self.margins, objectives)

    def move_to(self, dual: Floats, margins: Floats, travelled: Floats | None) -> None:
        """Set the iterate of the current outputs, with the accumulated rounding of its margins."""
        self.dual, self.margins = dual, margins
        if travelled is None:
            self.travelled = None
            return
        if self.travelled is None:
            self.travelled = self.whole.reach(self.best.dual)
        self.travelled[self.outputs] = travelled

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

    def margins_after(self, moved: Indices, change: Floats, rows: Indices) -> Floats:
        """Return the margins of some rows after changes of signed coefficients."""
        products = self.problem.kernel.multiply(moved, change, rows)
        return self.margins[:, rows] + self.problem.labels[:, rows] * products

    def recompute_margins(self) -> None:
        """Compute the margins in one product, without the accumulated rounding of updates."""
        self.move_to(self.dual, self.problem.margins(self.dual, self.accurately), None)

    def make_feasible(self) -> None:
        """Make the iterate feasible: in the box and, with an intercept, of signed sum zero."""
        before = self.dual
        self.dual, self.margins = self.problem.at_feasible(self.dual, self.margins)
        if self.dual is not before:
            self.add_rounding(np.arange(before.shape[1]), self.dual - before)

    def should_recompute_margins(self, tol: float) -> bool:
        """Return whether to recompute margins, because only rounding keeps the gap above `tol`.

        If the kernel can sum in twice the precision, it does so from now on.
        """
        kernel, objectives = self.whole.kernel, self.best.objectives
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
