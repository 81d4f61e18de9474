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
    """Return how a table's figures contradict others or each other, and which no classifier should have; or nothing."""
    found = [_two_figures("seconds", "times, in Table 2 and in Tables 3 and 4", " s"),
             _two_figures("accuracy", "accuracies, in Table 2 and in Table 3")]  # fmt: skip
    if table == "Table 2":
        found += [*_equal_rows(), *_no_quotients(table), _sgd_on_protein()]
    elif table == "Table 3":
        found += [*_no_quotients(table), _slower_than_said()]
    elif table == "Table 4":
        found.append(_wins_over_admm())
    else:
        found = []
    return " ".join([*_below_half(table), *["The paper's figures contradict one another:"] * bool(found), *found])


def _below_half(table: str) -> list[str]:
    """Say how many accuracies are below that of an answer that is the same for all rows, and which may be misprints."""
    known = [one for one in printed("gadget", table) if one.metric == "accuracy" and one.number is not None]
    below = [one for one in known if (one.number or 0) < 0.5]
    if not below:
        return []
    tiny = [f"{one.value} of {one.method} on {one.data}{f', {one.setting}' if one.setting else ''}"
            for one in below if (one.number or 0) < 0.1]  # fmt: skip
    return [f"{len(below)} of this table's {len(known)} readable accuracies are below 50%; whoever always answers with "
            "the more frequent of two classes is right on at least 50%.",
            *[f"The accuracy {one} may be misprinted, or damaged in our copy." for one in tiny]]  # fmt: skip


def _two_figures(metric: str, where: str, unit: str = "") -> str:
    """Name the data sets for which GADGET with SGD has one figure in Table 2 and another one in Table 3."""
    first, second = (_cells(table, metric, method="GADGET", **setting)
                     for table, setting in (("Table 2", {"setting": "SGD"}), ("Table 3", {})))  # fmt: skip
    differ = [f"{data} {first[data]:g} and {second[data]:g}{unit}" for data in DATA
              if data in first and data in second and first[data] != second[data]]  # fmt: skip
    return f"GADGET with SGD has two {where}: {', '.join(differ)}."


def _equal_rows() -> list[str]:
    """Name rows of Table 2 that have the same figures throughout."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for data in DATA:
        for setting in dict.fromkeys(one.setting for one in printed("gadget", "Table 2") if one.setting):
            values = [one.value for one in printed("gadget", "Table 2") if (one.data, one.setting) == (data, setting)]
            rows.setdefault((data, *values), []).append(setting)
    return [f"In our copy of the text, the rows {' and '.join(settings)} of {key[0]} are equal in all figures."
            for key, settings in rows.items() if len(settings) > 1]  # fmt: skip


def _no_quotients(table: str) -> list[str]:
    """Describe the speed-ups that are not the quotients of the printed times of the same row."""
    found = []
    for one in printed("gadget", table):
        rival = "Pegasos" if table == "Table 2" else one.method
        ours, theirs = (_cells(table, "seconds", method=method, setting=one.setting).get(one.data)
                        for method in ("GADGET", rival))  # fmt: skip
        if one.metric == "speed-up" and one.number and ours and theirs and abs(theirs / ours / one.number - 1) > 0.2:
            found.append(f"The speed-up {one.value} on {one.data} ({one.setting or rival}) is not the quotient of its "
                         f"times, {theirs / ours:,.2f}{_of_other_times(table, one, theirs)}.")  # fmt: skip
    return found


def _of_other_times(table: str, speed_up: Printed, theirs: float) -> str:
    """Return of which other time of GADGET on the same data a speed-up is the quotient."""
    times = (one for one in printed("gadget", table)
             if (one.data, one.method, one.metric) == (speed_up.data, "GADGET", "seconds") and one.number)  # fmt: skip
    return "".join(f", but that of the rival's time and GADGET's with {one.setting}" for one in times
                   if abs(theirs / (one.number or 1) / (speed_up.number or 1) - 1) < 1e-4)  # fmt: skip


def _sgd_on_protein() -> str:
    """Compare what the text says of GADGET with SGD on protein with Table 2."""
    times, accuracies = (
        {one.setting: one for one in printed("gadget", "Table 2")
         if (one.data, one.method, one.metric) == ("protein", "GADGET", metric)} for metric in ("seconds", "accuracy")
    )  # fmt: skip
    own, right = times.pop("SGD"), accuracies.pop("SGD")
    faster = " and ".join(f"{name} ({one.value} s)" for name, one in times.items()
                          if one.number and one.number < (own.number or 0))  # fmt: skip
    higher = sum((one.number or 0) > (right.number or 0) for one in accuracies.values())
    return ("Section 5.5.1 says that on protein SGD converges the fastest, and that its accuracy is much lower; in the "
            f"table {faster} are faster than SGD ({own.value} s), and {higher or 'none'} of GADGET's "
            f"{len(accuracies)} other accuracies are above SGD's, {right.value}.")  # fmt: skip


def _slower_than_said() -> str:
    """Say where GADGET's speed-up over a rival is below the one that the conclusion has for all data sets."""
    said = number("Section 7", "speed-up over gossip-based solvers")
    slower = [f"{one.method} on {one.data} ({one.value}{_quotient(one, said)})" for one in printed("gadget", "Table 3")
              if one.metric == "speed-up" and one.number is not None and one.number < said]  # fmt: skip
    return (f"The abstract says that GADGET is at least {said:g} times faster than the others, and section 7 that it "
            "is so on all data sets; section 5.5.2 excepts ASG SVM on quantum, and CHOCO-SGD on quantum and covertype. "
            f"In the table its speed-up is below that over {', '.join(slower)}.")  # fmt: skip


def _quotient(speed_up: Printed, said: float) -> str:
    """Return the quotient of the printed times where it is as large as the text says, but the printed one is not."""
    times = (_cells("Table 3", "seconds", method=method)[speed_up.data] for method in (speed_up.method, "GADGET"))
    quotient = round(next(times) / next(times), 9)
    return f"; the printed times have the quotient {quotient:.3g}" if quotient >= said else ""


def _wins_over_admm() -> str:
    """Compare what the text says of GADGET and Dist-ADMM with the tables; Table 3 repeats GADGET's figures."""
    own, repeated = (_cells(table, "accuracy", method="GADGET") for table in ("Table 4", "Table 3"))
    ours, theirs = repeated | own, _cells("Table 4", "accuracy", method="Dist-ADMM")
    both = [data for data in DATA if data in ours and data in theirs]
    wins, ties = sum(ours[data] > theirs[data] for data in both), sum(ours[data] == theirs[data] for data in both)
    borrowed = [data for data in both if data not in own]
    own_times, admm_times = (_cells("Table 4", "seconds", method=method) for method in ("GADGET", "Dist-ADMM"))
    quicker = [f"{data} ({admm_times[data]:g} s, GADGET {own_times[data]:g} s)" for data in DATA
               if data in admm_times and admm_times[data] < own_times[data]]  # fmt: skip
    said = [number("Section 5.5.3", name) for name in ("data sets more accurate than Dist-ADMM",
                                                       "data sets compared with Dist-ADMM")]  # fmt: skip
    return (f"Section 5.5.3 says that GADGET is more accurate than Dist-ADMM on {said[0]:g} of {said[1]:g} data sets; "
            f"in the tables it is on {wins} of {len(both)} that have both figures, and as accurate on {ties} (GADGET's "
            f"accuracies on {' and '.join(borrowed)} are those of Table 3, as Table 4's cannot be read). It says, too, "
            f"that ADMM takes much longer; in the table it takes less time on {', '.join(quicker)}.")  # fmt: skip


def beyond_profiles(mean: float, highest: float) -> str:
    """Say which mean accuracies of Table 2 are not in the range, in percent, that section 5.5.1 has for some data."""
    (said,) = [one for one in printed("gadget", "Section 5.5.1") if one.metric == "highest accuracy of the sites"]
    known = {data: [100 * one.number for one in printed("gadget", "Table 2") if one.number is not None
                    and (one.data, one.method, one.metric) == (data, "GADGET", "accuracy")]
             for data in said.setting.split()}  # fmt: skip
    beyond = {data: own for data, all_of_it in known.items()
              if (own := [value for value in all_of_it if not mean <= value <= highest])}  # fmt: skip
    ranges = [f"{data} {min(own):g}{f' to {max(own):g}' if max(own) > min(own) else ''}%"
              for data, own in beyond.items()]  # fmt: skip
    return (f"In Table 2, {sum(map(len, beyond.values()))} of GADGET's {sum(map(len, known.values()))} mean accuracies "
            f"on these data are above {highest:g}% or below {mean:g}%: {', '.join(ranges)}.")  # fmt: skip
