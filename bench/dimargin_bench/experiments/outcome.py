"""Outcome of a cell: its metrics, or why there are none."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

DONE, RAISED, NOT_FINITE, TIME_LIMIT, KILLED = "done", "raised", "not finite", "time limit", "killed"
NOT_INSTALLED = "not installed"  # what a method needs


@dataclass(frozen=True)
class Outcome:
    """Outcome of a cell.

    Attributes
    ----------
    status : {"done", "raised", "not finite", "time limit", "killed", "not installed"}
    metrics : dict of str to float
        Those that the method has, by the keys of `METRICS`; none unless the cell is done.
    reason : str
        Why a method failed, in a line, or what it lacks.
    traceback : str
        Where it failed, if it raised.
    warnings : list of str
        What the fit warned of.
    traces : dict of str to dict
        What the sites of a run have come to against time, as `declarations.Traces` draws it.
    """

    status: str
    metrics: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    traceback: str = ""
    warnings: list[str] = field(default_factory=list)
    traces: dict[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Return whether there is no result, though there could have been one."""
        return self.status not in (DONE, NOT_INSTALLED)

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as values that JSON has."""
        return asdict(self)
