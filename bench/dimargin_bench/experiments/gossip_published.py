"""Figures of the GADGET paper by our names, and where they contradict one another, computed from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dimargin_bench.experiments.declarations import Sample
from dimargin_bench.papers import Figure, Printed, printed, published

Figures = dict[tuple[str, str, str], Figure]

_NAMES = {"adult": "a9a", "covertype": "covtype.libsvm.binary"}
DATA = ("gisette", "sido", "quantum", "protein", "adult", "covertype", "real-sim")
"""The paper's data sets, in its order and spelling."""
METRICS_OF_A_RUN = ("accuracy", "accuracy sd", "seconds", "seconds sd")
"""What the paper prints of a method on a data set, without the speed-up over another."""
_METRICS = {name: (name.replace(" ", "_").replace("-", "_"), 1.0) for name in (*METRICS_OF_A_RUN, "speed-up")}


def our_name(data: str) -> str:
    """Return the catalogue's name of a data set of the paper."""
    return _NAMES.get(data, data)


def samples(**max_rows: int) -> list[Sample]:
    """Return the paper's data sets with as many training rows as it has, or with fewer of those that are named."""
    rows = {one.data: int(one.number or 0) for one in printed("gadget", "Section 5.2") if one.metric == "training rows"}
    return [
        Sample(our_name(data), max_rows.get(data), 1 if data == "covertype" else None, train_rows=rows[data])
        for data in DATA
    ]


def figures(
    table: str, methods: Mapping[str, str], metrics: Iterable[str] = _METRICS, case: Callable[[str], str] | None = None
) -> Figures:
    """Return the figures of a table for methods by their printed names; the one percent among fractions is one, too."""
    found = published("gadget", table, methods, _NAMES, {name: _METRICS[name] for name in metrics}, case)
    return {
        key: value / 100 if key[2] == "accuracy" and isinstance(value, float) and value > 1 else value
        for key, value in found.items()
    }


def number(table: str, metric: str, **names: str) -> float:
    """Return the only number of a table with this metric and these names."""
    (found,) = [one for one in printed("gadget", table) if one.metric == metric and _has(one, names)]
    assert found.number is not None
    return found.number


def _has(one: Printed, names: Mapping[str, str]) -> bool:
    return all(getattr(one, key) == name for key, name in names.items())


def _cells(table: str, metric: str, **names: str) -> dict[str, float]:
    """Return numbers by data set."""
    return {one.data: one.number for one in printed("gadget", table)
            if one.metric == metric and _has(one, names) and one.number is not None}  # fmt: skip


# ---- what the paper says twice, and differently ----------------------------------------------------------------------


def contradictions(table: str) -> str:
    """Return in which way the figures of a table contradict others, or each other; an empty text if in none."""
    found = _below_half(table)
    if table in ("Table 2", "Table 3", "Table 4"):
        found.append(_two_times())
    if table == "Table 2":
        found += [*_equal_rows(), *_no_quotients()]
    if table == "Table 3":
        found.append(_slower_than_said())
    if table == "Table 4":
        found.append(_wins_over_admm())
    return " ".join(["The paper's figures contradict one another:", *found]) if found else ""


def _below_half(table: str) -> list[str]:
    """Say how many accuracies are below that of an answer that is the same for all rows."""
    known = [one.number for one in printed("gadget", table) if one.metric == "accuracy" and one.number is not None]
    n = sum(value < 0.5 for value in known)
    return [f"{n} of this table's {len(known)} accuracies are below 50%, which the more frequent of two classes has "
            "as the answer to everything."] if n else []  # fmt: skip


def _two_times() -> str:
    """Name the data sets for which GADGET with SGD has one time in Table 2 and another one in Tables 3 and 4."""
    first, second = _cells("Table 2", "seconds", method="GADGET", setting="SGD"), _cells("Table 3", "seconds",
                                                                                          method="GADGET")  # fmt: skip
    differ = [f"{data} {first[data]:g} and {second[data]:g} s" for data in DATA
              if data in first and data in second and abs(first[data] / second[data] - 1) > 0.1]  # fmt: skip
    return f"GADGET with SGD has two times, in Table 2 and in Tables 3 and 4: {', '.join(differ)}."


def _equal_rows() -> list[str]:
    """Name rows of Table 2 that have the same figures throughout."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for data in DATA:
        for setting in dict.fromkeys(one.setting for one in printed("gadget", "Table 2") if one.setting):
            values = [one.value for one in printed("gadget", "Table 2") if (one.data, one.setting) == (data, setting)]
            rows.setdefault((data, *values), []).append(setting)
    return [f"Its rows {' and '.join(settings)} of {key[0]} are equal in all figures."
            for key, settings in rows.items() if len(settings) > 1]  # fmt: skip


def _no_quotients() -> list[str]:
    """Name speed-ups of Table 2 that are not the quotients of the two times beside them."""
    found = []
    for one in printed("gadget", "Table 2"):
        ours, theirs = (_cells("Table 2", "seconds", method=method, setting=one.setting).get(one.data)
                        for method in ("GADGET", "Pegasos"))  # fmt: skip
        if one.metric == "speed-up" and one.number and ours and theirs and abs(theirs / ours / one.number - 1) > 0.2:
            found.append(f"The speed-up of {one.setting} on {one.data}, {one.value}, is not the quotient of its times, "
                         f"{theirs / ours:.3g}.")  # fmt: skip
    return found


def _slower_than_said() -> str:
    """Say where GADGET is not faster than a rival, in spite of the conclusion that it is on all data sets."""
    slower = [f"{one.method} on {one.data} ({one.value})" for one in printed("gadget", "Table 3")
              if one.metric == "speed-up" and one.number is not None and one.number < 1]  # fmt: skip
    said = number("Section 7", "speed-up over gossip-based solvers")
    return (f"Section 7 says that GADGET is {said:g} times faster than the others on all data sets; its speed-up is "
            f"below one over {', '.join(slower)}.")  # fmt: skip


def _wins_over_admm() -> str:
    """Compare what the text says of GADGET and Dist-ADMM with the tables; Table 3 repeats GADGET's figures."""
    ours = _cells("Table 3", "accuracy", method="GADGET") | _cells("Table 4", "accuracy", method="GADGET")
    theirs = _cells("Table 4", "accuracy", method="Dist-ADMM")
    both = [data for data in DATA if data in ours and data in theirs]
    wins, ties = sum(ours[data] > theirs[data] for data in both), sum(ours[data] == theirs[data] for data in both)
    said = [number("Section 5.5.3", name) for name in ("data sets more accurate than Dist-ADMM",
                                                       "data sets compared with Dist-ADMM")]  # fmt: skip
    return (f"Section 5.5.3 says that GADGET is more accurate than Dist-ADMM on {said[0]:g} of {said[1]:g} data sets; "
            f"in the table on {wins} of {len(both)} that have both figures, and as accurate on {ties}.")  # fmt: skip
