"""Solution of a dual problem, and the status and history that solutions have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from dimargin.problems.objectives import Objectives
from dimargin.system.arrays import Floats

Status = Literal["converged", "max_iter", "max_time", "stopped", "precision"]
History = list[dict[str, Any]]  # an entry a check, or a level


@dataclass(frozen=True)
class Solution:
    """Solution of a dual problem, as its solvers return it."""

    dual: Floats  # coefficients ``g`` (without labels), of shape (n_outputs, n)
    margins: Floats  # ``Qg``, without intercept, of the same shape
    objectives: Objectives  # at these coefficients, with the intercept that belongs to them
    status: Status
    reason: str  # the status in words
    passes: int  # over the rows, at least one
    kernel_evaluations: int  # number of kernel values computed, warm start and certificate included
    # one entry for each check, with ``kernel_evaluations``, ``seconds``, ``objective`` and ``relative_gap``
    history: History = field(default_factory=list)
    travelled: Floats | None = None  # sums over the updates that led to these margins, see `DualProblem.objectives`
