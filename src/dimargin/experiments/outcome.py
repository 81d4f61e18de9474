"""Outcome of a cell: its metrics, or why there are none."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

DONE, RAISED, NOT_FINITE, TIME_LIMIT, KILLED = "done", "raised", "not finite", "time limit", "killed"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a cell.

    Attributes
    ----------
    status : {"done", "raised", "not finite", "time limit", "killed"}
    metrics : dict of str to float
        Those that the method has, by the keys of `METRICS`; none unless the cell is done.
    reason : str
        Why a method failed, in a line.
    traceback : str
        Where it failed, if it raised.
    warnings : list of str
        What the fit warned of.
    """

    status: str
    metrics: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    traceback: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Return whether there is no result."""
        return self.status != DONE

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as values that JSON has."""
        return asdict(self)
