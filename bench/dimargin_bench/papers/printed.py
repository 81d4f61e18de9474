"""Reading of the printed numbers, and their form beside ours."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_POWER = re.compile(r"(\d+)\^(-?\d+)")
_TIME = re.compile(r"([\d.]+) (mins|hours|days)")
_SECONDS = {"mins": 60.0, "hours": 3600.0, "days": 86_400.0}
_NO_NUMBER = ("NA", "unreadable")
_MARKS = (">", "nearly ", "about ")


@dataclass(frozen=True)
class Printed:
    """A number as a paper prints it.

    Attributes
    ----------
    table : str
        Such as "Table 2", "Figure 1" or "Section 5".
    data, method, setting : str
        Names as they are printed; empty where there is none.
    metric : str
        What it is, such as "accuracy", of which some papers print percents and others fractions.
    value : str
        As it is printed, without a percent sign or the unit of the metric. "unreadable" is what
        cannot be read in the copy of the text that we have.

    Examples
    --------
    >>> Printed("Table 2", "mnist8m", "", "", "gamma", "2^-21").number
    4.76837158203125e-07
    >>> Printed("Table 4", "ijcnn1", "DC-SVM", "", "total time", "2.3 hours").number
    8280.0
    >>> Printed("Table 9", "covtype", "LIBSVM", "", "seconds", ">300000").number
    300000.0
    >>> Printed("Table 7", "real-sim", "", "", "rho", "NA").number
    """

    table: str
    data: str
    method: str
    setting: str
    metric: str
    value: str

    @property
    def number(self) -> float | None:
        """The value as a number, a time in seconds; of a bound the bound, and None where there is none."""
        if self.value in _NO_NUMBER:
            return None
        if power := _POWER.fullmatch(self.value):
            return float(int(power[1])) ** int(power[2])
        if time := _TIME.fullmatch(self.value):
            return float(time[1]) * _SECONDS[time[2]]
        return float(Fraction(self.value.removeprefix(self.mark)))

    @property
    def mark(self) -> str:
        """What the paper says before the number: ">" for more than it, "nearly ", "about ", or nothing."""
        return next((mark for mark in _MARKS if self.value.startswith(mark)), "")


@dataclass(frozen=True)
class Marked:
    """A number of a paper that is no plain one, as tables have it beside ours.

    Attributes
    ----------
    number : float or None
        In the unit of our metric; None where the paper prints none, or none that can be read.
    mark : str
        That of `Printed`; where there is no number, "NA" as the paper prints it, or "unreadable".
    """

    number: float | None
    mark: str


Figure = float | Marked
"""A number of a paper in the unit of our metric."""


@cache
def _lines(paper: str) -> tuple[Printed, ...]:
    with open(_FOLDER / f"{paper}.csv", encoding="utf-8", newline="") as file:
        return tuple(Printed(**line) for line in csv.DictReader(file))


def printed(paper: str, table: str = "") -> list[Printed]:
    """Return the numbers of a paper, or of one of its tables, in their order.

    Parameters
    ----------
    paper : {"dcsvm", "diodm", "gadget"}
    table : str, optional

    Raises
    ------
    KeyError
        If the paper has no such table, which is a mistake of the caller's.
    """
    found = [one for one in _lines(paper) if table in ("", one.table)]
    if not found:
        raise KeyError(f"{paper} has no number of {table!r}")
    return found


def published(
    paper: str,
    table: str,
    methods: Mapping[str, str | Sequence[str]],
    data: Mapping[str, str] | None = None,
    metrics: Mapping[str, tuple[str, float]] | None = None,
    case: Callable[[str], str] | None = None,
) -> dict[tuple[str, str, str], Figure]:
    """Return the numbers of a table by our names, as tables of experiments have them.

    Parameters
    ----------
    paper, table : str
        As in `printed`.
    methods : mapping of str to str or sequence of str
        Our names of the printed methods; those that are not here are left out.
    data : mapping of str to str, optional
        Our names of the printed data sets, by default the same.
    metrics : mapping of str to (str, float), optional
        Our names of the printed metrics, and the factor from their unit to ours; by default
        seconds as they are, and accuracies from percents.
    case : callable, optional
        Returns our case for a printed setting; by default settings do not matter.

    Returns
    -------
    dict of (data, "METHOD" or "METHOD, CASE", metric) to float or Marked
    """
    names = data or {}
    known = metrics or {"accuracy": ("accuracy", 0.01), "seconds": ("seconds", 1.0)}
    found: dict[tuple[str, str, str], Figure] = {}
    for one in printed(paper, table):
        if one.method not in methods or one.metric not in known:
            continue
        own = methods[one.method]
        suffix = "" if case is None else case(one.setting)
        metric, factor = known[one.metric]
        for method in (own,) if isinstance(own, str) else own:
            name = f"{method}, {suffix}" if suffix else method
            found[names.get(one.data, one.data), name, metric] = _figure(one, factor)
    return found


def _figure(one: Printed, factor: float) -> Figure:
    if one.number is None:
        return Marked(None, one.value)
    return Marked(one.number * factor, one.mark) if one.mark else one.number * factor
