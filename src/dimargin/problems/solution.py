"""The value that every solver returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from dimargin.problems.objectives import Objectives
from dimargin.system.arrays import Floats

Status = Literal["converged", "max_iter", "max_time", "stopped", "precision"]
History = list[dict[str, Any]]  # an entry a check, or a level


@dataclass(frozen=True)
class Solution:
    """What every solver returns.

    Attributes
    ----------
    dual : ndarray of shape (n_outputs, n)
        Dual coefficients ``g`` (without labels).
    margins : ndarray of shape (n_outputs, n)
        ``Qg``, without intercept.
    objectives : Objectives
        With the intercept that belongs to them.
    status : {"converged", "max_iter", "max_time", "stopped", "precision"}
    reason : str
        The status in words.
    passes : int
        Passes over the rows, at least one.
    kernel_evaluations : int
        All of them: warm start and certificate included.
    history : list of dict
        One entry a check: ``kernel_evaluations``, ``seconds``, ``objective``, ``relative_gap``.
    travelled : ndarray of shape (n_outputs,) or None
        By which the margins have come to what they are, as of `DualProblem.objectives`.
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

    @property
    def converged(self) -> bool:
        """Whether the relative gap of every output is within the tolerance asked for."""
        return self.status == "converged"
