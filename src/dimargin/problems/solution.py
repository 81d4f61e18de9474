"""Results of solves: the certificate, why a solve ended and what it cost, and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from dimargin.problems.objectives import Objectives
from dimargin.system.arrays import Floats

Status = Literal["converged", "max_iter", "max_time", "stopped", "precision"]
History = list[dict[str, Any]]  # one entry per check, or per level


@dataclass(frozen=True, kw_only=True)
class SolveResult:
    """Certificate of a solve, why it ended and what it cost; subclasses add what was found."""

    objectives: Objectives  # Objectives and intercepts at what was found.
    status: Status
    reason: str  # The status in words.
    passes: int  # Number of passes over the rows, at least one.
    kernel_evaluations: int  # Number of kernel values computed, warm start and certificate included.
    # One entry per check, with ``kernel_evaluations``, ``seconds``, ``objective``,
    # ``relative_gap``.
    history: History = field(default_factory=list)

    def bare(self) -> SolveResult:
        """Return the result without what was found."""
        return SolveResult(**{part.name: getattr(self, part.name) for part in fields(SolveResult)})


@dataclass(frozen=True)
class Solution(SolveResult):
    """Solution of a dual problem."""

    dual: Floats  # Coefficients ``g`` (without labels), of shape (n_outputs, n).
    margins: Floats  # ``Qg``, without intercept, of the same shape.
    travelled: Floats | None = None  # Summed updates of the margins, see `DualProblem.objectives`.
