"""Detection of a solve that has made no progress for so long that rounding must be the cause."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import Status
from dimargin.solvers.loop import Verdict, converged
from dimargin.system.arrays import Floats


@dataclass
class Progress:
    """The last progress of a solve: a clearly smaller gap, or a better objective.

    Examples
    --------
    >>> progress = Progress()
    >>> progress.note(1, 0.5), progress.note(2, 0.46), progress.note(3, 0.46, is_better=True)
    (True, False, True)
    >>> progress.has_stalled(5, patience=2), progress.has_stalled(6, patience=2)
    (False, True)
    """

    done: float = 0  # Work done at the last progress: rows visited, rounds or checks.
    gap: float = np.inf  # Gap of the worst output then.
    objective: Floats = field(default_factory=lambda: np.array(np.inf))  # Objectives then, if it compares them.

    def note(self, work: float, gap: float, is_better: bool = False, gap_factor: float = 0.9) -> bool:
        """Record a check after some work, and return whether it shows progress.

        It does if the objective `is_better`, or if the gap is below `gap_factor` times that of the
        last progress.
        """
        if not (is_better or gap < gap_factor * self.gap):
            return False
        self.done, self.gap = work, gap
        return True

    def note_objectives(self, checks: int, objectives: Objectives) -> None:
        """Record the objectives of a check; a decrease of the primal one that may be rounding is no progress."""
        fell = bool((objectives.primal < (1 - 1e-12) * self.objective).any())
        if self.note(checks, objectives.worst_gap, fell):
            self.objective = objectives.primal

    def has_stalled(self, work: float, patience: float) -> bool:
        """Return whether more than `patience` work was done since the last progress."""
        return work - self.done > patience


def is_near_rounding(objectives: Objectives, tol: float) -> bool:
    """Return whether all gaps meet a tolerance or are so small that rounding may prevent progress."""
    return bool((objectives.met(tol) | (objectives.unrounded < 1e3 * objectives.rounding)).all())


def gap_verdict(objectives: Objectives, tol: float, has_stalled: bool) -> Verdict:
    """Return status and reason of a solve that converged, or that only rounding keeps from its tolerance, else None."""
    if objectives.worst_gap <= tol:
        return converged(objectives.worst_gap, tol)
    if objectives.met(tol).all():
        return rounding_verdict(objectives, tol)
    return rounding_verdict(objectives, tol, has_stalled=True) if has_stalled else None


def rounding_verdict(objectives: Objectives, tol: float, has_stalled: bool = False) -> tuple[Status, str]:
    """Return status and reason of a solve that only rounding keeps from its tolerance."""
    failure = f"float64 cannot certify tol={tol:.2e}"
    gap, rounding = objectives.unrounded.max(), objectives.rounding.max()
    if has_stalled and not is_near_rounding(objectives, tol):
        return "precision", f"the relative gap stays at {gap:.2e}, though rounding adds at most {rounding:.2e}"
    if has_stalled:
        return "precision", f"the relative gap stays at {objectives.worst_gap:.2e}: {failure}"
    reason = f"the relative gap is {gap:.2e}, and up to {rounding:.2e} more by rounding: {failure}"
    return "precision", f"{reason}, because the rows, lam or C are too large"
