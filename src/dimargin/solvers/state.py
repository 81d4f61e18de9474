"""State of block coordinate descent, whose values each belong to one module."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.solvers.block_solves import BlockSolver
from dimargin.solvers.blocks import Schedule
from dimargin.solvers.gram_newton import GramNewton
from dimargin.solvers.iterate import Iterate
from dimargin.solvers.loop import Limits
from dimargin.solvers.progress import Progress
from dimargin.solvers.shrinking import Shrinking
from dimargin.system.arrays import Indices


@dataclass
class NewtonSwitch:
    """Newton's method, and whether the solve switches to it (`dimargin.solvers.newton_switch`)."""

    max_bytes: int  # Full kernel rows, or a factor of them, may take this many bytes.
    is_due: bool = False  # Whether the next step switches to Newton's method.
    newton: GramNewton | None = None  # Newton's method, once the solve has switched to it.
    block_problem: DualProblem | None = None  # The whole problem before the switch.
    outgrew_memory: bool = False  # Whether Newton's method was abandoned for lack of memory.
    factorizations: int = 0  # Factorizations done before Newton's method was abandoned.
    # Work and smallest absolute gap at every check.
    gaps_by_work: list[tuple[float, float]] = field(default_factory=list)


@dataclass
class State:
    """State of one solve."""

    limits: Limits
    iterate: Iterate
    schedule: Schedule
    shrinking: Shrinking
    blocks: BlockSolver
    switch: NewtonSwitch
    indices: Indices | None  # Given indices of the rows, if they were reordered for a local kernel.
    is_float32_trusted: bool = True  # Whether the last float32 gap below `tol` was believed.
    progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        self.restart_progress()

    def restart_progress(self) -> None:
        """Restart the measurement of progress, after the method or the precision has changed."""
        no_objectives = np.full(len(self.iterate.best.dual), -np.inf)
        self.progress = Progress(self.schedule.visited, objective=no_objectives)
