"""Solution of a dual problem, with its status and history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from dimargin.problems.objectives import Objectives
from dimargin.system.arrays import Floats

Status = Literal["converged", "max_iter", "max_time", "stopped", "precision"]
History = list[dict[str, Any]]  # one entry per check, or per level


@dataclass(frozen=True)
class Solution:
    """Solution of a dual problem."""

    dual: Floats  # coefficients ``g`` (without labels), of shape (n_outputs, n)
    margins: Floats  # ``Qg``, without intercept, of the same shape
    objectives: Objectives  # objectives and intercept at these coefficients
    status: Status
    reason: str  # the status in words
    passes: int  # number of passes over the rows, at least one
    kernel_evaluations: int  # number of kernel values computed, warm start and certificate included
    # One entry per check, with ``kernel_evaluations``, ``seconds``, ``objective``,
    # ``relative_gap``.
    history: History = field(default_factory=list)
    travelled: Floats | None = None  # summed updates of the margins, see `DualProblem.objectives`
