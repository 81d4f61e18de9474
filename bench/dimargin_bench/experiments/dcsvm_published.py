"""Numbers that the DC-SVM paper prints, by our names: parameters of its data sets, and figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dimargin_bench.papers import Figure, Printed, printed, published

COVTYPE = "covtype.libsvm.binary"
DATA = ("ijcnn1", "cifar", "census", COVTYPE, "webspam", "kddcup99", "mnist8m")
"""The paper's data sets, in the order of its Table 2."""
_OURS = {"covtype": COVTYPE}
_UNREADABLE = "scale"  # gamma of cifar, census and webspam, whose column headings are damaged in our copy of Table 2


def _parameters(table: str, setting: str = "") -> dict[str, dict[str, Any]]:
    """Return the printed C and gamma of every data set."""
    found: dict[str, dict[str, Any]] = {}
    for one in printed("dcsvm", table):
        if one.data and one.setting == setting and one.metric in ("C", "gamma"):
            value = _UNREADABLE if one.number is None else one.number
            found.setdefault(_OURS.get(one.data, one.data), {})[one.metric] = value
    return found


PARAMETERS = _parameters("Table 2")
"""C and gamma of the RBF kernel, by data set; gamma is "scale" where the paper's cannot be read."""
POLYNOMIAL = {
    data: {"kernel": "poly", "degree": 3, "coef0": 0.0, **own}
    for data, own in _parameters("Section 5", "polynomial kernel").items()
}
"""Parameters of the polynomial kernel, which the paper has for covtype and webspam."""


def figures(
    table: str,
    methods: Mapping[str, str | Sequence[str]],
    metrics: Mapping[str, tuple[str, float]] | None = None,
    case: Callable[[str], str] | None = None,
) -> dict[tuple[str, str, str], Figure]:
    """Return the figures of a table of the paper as `dimargin_bench.papers.published` does, by our names of data."""
    return published("dcsvm", table, methods, _OURS, metrics, case)


def table_5(method: str) -> dict[tuple[str, str, str], float]:
    """Return the seconds of clustering and of training of every level, which has metrics of its own."""
    found = {}
    for one in printed("dcsvm", "Table 5"):
        if one.number is not None:
            what, level = one.metric.removesuffix(" seconds"), one.setting.removeprefix("level ")
            found[_OURS[one.data], method, f"{what}_{level}"] = one.number
    return found


def claim(metric: str, table: str = "Section 5", **names: str) -> Printed:
    """Return a number of the paper's text: its metric, where it stands, and further names if there are several."""
    (found,) = (
        one
        for one in printed("dcsvm", table)
        if one.metric == metric and all(getattr(one, key) == name for key, name in names.items())
    )
    return found


def claimed(metric: str, table: str = "Section 5", **names: str) -> str:
    """Return a number of the paper's text as it is printed, "more than" before a lower bound."""
    value = claim(metric, table, **names).value
    return f"more than {value[1:]}" if value.startswith(">") else value
