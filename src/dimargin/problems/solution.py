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
    """Solution of a dual problem, as its solvers return it.

    Attributes
    ----------
    dual : ndarray of shape (n_outputs, n)
        Dual coefficients ``g`` (without labels).
    margins : ndarray of shape (n_outputs, n)
        ``Qg``, without intercept.
    objectives : Objectives
        Objectives at these coefficients, with the intercept that belongs to them.
    status : {"converged", "max_iter", "max_time", "stopped", "precision"}
    reason : str
        The status in words.
    passes : int
        Passes over the rows, at least one.
    kernel_evaluations : int
        Number of kernel values computed, warm start and certificate included.
    history : list of dict
        One entry for each check, with ``kernel_evaluations``, ``seconds``, ``objective`` and ``relative_gap``.
    travelled : ndarray of shape (n_outputs,) or None
        Sums over the updates that led to these margins, see `DualProblem.objectives`.
    """

    dual: Floats
    margins: Floats
    objectives: Objectives
    status: Status
    reason: str
    passes: int
    kernel_evaluations: int
    history: History = field(default_factory=list)
    travelled: Floats | None = None
