"""Outcome of a cell: its metrics, or why there are none."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

DONE, RAISED, NOT_FINITE, TIME_LIMIT, KILLED = "done", "raised", "not finite", "time limit", "killed"
NOT_INSTALLED = "not installed"  # what a method needs
_STATUSES = (DONE, RAISED, NOT_FINITE, TIME_LIMIT, KILLED, NOT_INSTALLED)


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(isinstance(value, (int, float)) and math.isfinite(value) for value in values)


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
        Numbers of every site of a run against time, as `declarations.Traces` draws them.
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

    def check(self) -> None:
        """Raise ValueError unless the attributes, which may come from a file, are of the documented kinds."""
        texts = (self.status, self.reason, self.traceback, *self.warnings)
        right = (
            self.status in _STATUSES
            and isinstance(self.warnings, list)
            and all(isinstance(text, str) for text in texts)
            and _are_numbers(self.metrics.values())
            and all(
                _are_numbers([trace.get("level", 0.0), *trace["x"]])
                and all(_are_numbers(line) and len(line) == len(trace["x"]) for line in trace["lines"])
                and len(trace.get("names", trace["lines"])) == len(trace["lines"])
                for trace in self.traces.values()
            )
        )
        if not right:
            raise ValueError("a status, metrics, a reason, warnings and traces expected")

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as values that JSON has."""
        return asdict(self)
