"""Sentences that say what the results of the DiODM paper's experiments show, beside what the paper says."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from dimargin.display.report.words import number
from dimargin_bench.experiments import diodm_methods as methods
from dimargin_bench.experiments.experiment_run import PartResults, Record
from dimargin_bench.experiments.replay import REPLAYED, error_band
from dimargin_bench.experiments.result_tables import middle
from dimargin_bench.papers import printed

_SAME = 0.0005  # difference of accuracies that is none
_FIGURES = ("Figure 1", "Figure 2", "Figure 3")
_PRINTED = {"skin_nonskin": "skin-nonskin", "SUSY-30k": "SUSY"}
_TICKS = (("lowest", "accuracy"), ("highest", "accuracy"), ("highest", "seconds"))
Scores = dict[str, dict[str, float]]


def said(section: str, metric: str, method: str = "DiODM", setting: str = "") -> float:
    """Return a number of the paper's text."""
    for one in printed("diodm", section):
        if (one.metric, one.method) == (metric, method) and setting in one.setting and one.number is not None:
            return one.number
    raise KeyError(f"{section} does not say {metric} of {method}")


def _scores(found: PartResults, metric: str) -> Scores:
    """Return the medians of a metric, by data set and method (with its case)."""
    scores: Scores = {}
    for facts in found.data:
        groups: dict[str, list[Record]] = {}
        for record in found.of(facts.name):
            cell = record.cell
            groups.setdefault(f"{cell.method.name}, {cell.case}" if cell.case else cell.method.name, []).append(record)
        own = {name: middle(records, metric) for name, records in groups.items()}
        scores[facts.name] = {name: value for name, value in own.items() if value is not None}
    return scores


def _with(scores: Scores, *names: str) -> Scores:
    """Return the data sets on which all of these methods have a result."""
    return {data: own for data, own in scores.items() if all(name in own for name in names)}


def _range(values: Iterable[float], shown: Callable[[float], str] = lambda value: number(value, 2)) -> str:
    low, *_, high = sorted([*values] * 2)
    return shown(low) if shown(low) == shown(high) else f"{shown(low)} to {shown(high)}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _count(data: Iterable[str], n: int) -> str:
    named = [*data]
    return f"on {len(named)} of {n} data sets" + (f" ({', '.join(named)})" if named else "")


def ticks_below_the_majority(found: PartResults) -> str:
    """Say which highest tick of an axis is below the share of the more frequent class."""
    lines = []
    for data, own in _with(_scores(found, "accuracy"), methods.MAJORITY.name).items():
        share = own[methods.MAJORITY.name]
        for figure in _FIGURES:
            ticks = [one.number for one in printed("diodm", figure) if one.data == _PRINTED.get(data, data)
                     and one.metric == "highest tick of accuracy" and one.number is not None]  # fmt: skip
            lines += [f"On {data}, {_percent(share)} of the test rows are of the more frequent class: {figure}'s axis "
                      f"ends at {tick:g}%." for tick in ticks if tick / 100 < share]  # fmt: skip
    return "\n".join(lines)


def levels(found: PartResults, figure: str, section: str, accuracy: str, speed: str) -> str:
    """Say where DiODM is the best of the trees, as the paper's section counts, and how it is beside other machines."""
    accuracies, seconds = _scores(found, "accuracy"), _scores(found, "seconds")
    return "\n".join(filter(None, [
        _axes(accuracies, seconds, figure),
        _among_trees(accuracies, seconds, section, accuracy, speed),
        _accelerated(accuracies, seconds),
        _beside_exact(seconds),
        _best_of_all(accuracies),
        _beside_svc(accuracies),
    ]))  # fmt: skip


def _axes(accuracies: Scores, seconds: Scores, figure: str) -> str:
    """Say from where to where the axes of the paper's panels go, and from where to where our points."""
    named = []
    for data, own in accuracies.items():
        ticks = {one.metric: one.number for one in printed("diodm", figure) if one.data == _PRINTED.get(data, data)}
        low, high, end = (ticks.get(f"{what} tick of {of}") for what, of in _TICKS)
        if own and low and high:
            times = f" and to {end:g} s" if end else ""
            named.append(f"{data} {low:g} to {high:g}%{times} (here {_range(own.values(), _percent)}, to "
                         f"{number(max(seconds[data].values()), 2)} s)")  # fmt: skip
    return f"Axes of the paper's panels, as far as their ticks can be read: {'; '.join(named)}." if named else ""


def _among_trees(accuracies: Scores, seconds: Scores, section: str, accuracy: str, speed: str) -> str:
    trees = (methods.DIODM, *methods.RIVALS)
    accuracies, seconds = _with(accuracies, *trees), _with(seconds, *trees)
    if not accuracies:
        return ""
    best = [data for data, own in accuracies.items() if own[methods.DIODM] >= max(own[t] for t in trees) - _SAME]
    fastest = [data for data, own in seconds.items() if own[methods.DIODM] == min(own[tree] for tree in trees)]
    n, six = len(accuracies), f"{said(section, speed):g}"
    return (
        f"With 4 parts, the end of the paper's loop, DiODM is the most accurate of the trees, or within "
        f"{100 * _SAME:g} points of it, {_count(best, n)}, and the fastest {_count(fastest, n)}. "
        f"The paper counts {said(section, accuracy):g} and {six} of {six} data sets."
    )


def _accelerated(accuracies: Scores, seconds: Scores) -> str:
    last, rivals = methods.ACC_DIODM[-1].name, (*methods.RIVALS,)
    accuracies, seconds = _with(accuracies, last, *rivals), _with(seconds, last, *rivals)
    if not accuracies:
        return ""
    better = [data for data, own in accuracies.items() if own[last] > max(own[rival] for rival in rivals)]
    faster = [data for data, own in seconds.items() if own[last] < min(own[rival] for rival in rivals)]
    n = len(accuracies)
    return (
        f"acc-DiODM, after all stages, is more accurate than Ca-ODM, DiP-ODM and DC-ODM {_count(better, n)}, and "
        f"faster {_count(faster, n)}. The paper says that it is both."
    )


def _beside_exact(seconds: Scores) -> str:
    names = methods.DIODM, methods.DIODM_WHOLE, methods.EXACT.name
    known = _with(seconds, *names)
    if not known:
        return ""
    part, whole = ({data: own[name] / own[names[2]] for data, own in known.items()} for name in names[:2])
    slower = [data for data, ratio in whole.items() if ratio > 1]
    return (
        f"To the whole problem, DiODM takes {_range(whole.values())} times the seconds of the exact machine, which has "
        f"no tree: it is slower {_count(slower, len(known))}. To its end with 4 parts it takes "
        f"{_range(part.values())} times these seconds."
    )


def _best_of_all(accuracies: Scores) -> str:
    known = _with(accuracies, methods.DIODM)
    named = []
    for data, own in known.items():
        best = max(own, key=own.__getitem__)
        named.append(f"{data} {best} ({_percent(own[best])}; DiODM with 4 parts {_percent(own[methods.DIODM])})")
    return f"The most accurate of all methods: {'; '.join(named)}." if named else ""


def _beside_svc(accuracies: Scores) -> str:
    known = _with(accuracies, methods.LIBSVM.name, methods.EXACT.name)
    if not known:
        return ""
    gains = {data: own[methods.LIBSVM.name] - own[methods.EXACT.name] for data, own in known.items()}
    named = [f"{data} (by {number(100 * gain, 2)} points)" for data, gain in gains.items() if gain > _SAME]
    worse = [f"{data} (by {number(-100 * gain, 2)} points)" for data, gain in gains.items() if gain < -_SAME]
    return (
        f"SVC, tuned by the same search, is more accurate than the exact ODM {_count(named, len(known))}, and less "
        f"accurate {_count(worse, len(known))}."
    )


def gradients(found: PartResults, last: str) -> str:
    """Say how much faster acc-DiODM is than the other gradient methods, and where CSVRG is SVRG."""
    seconds, accuracies, anchors = (_scores(found, name) for name in ("seconds", "accuracy", "anchor_rows"))
    own, svrg, csvrg, newton = (
        f"{name}, {last}" for name in ("acc-DiODM", methods.SVRG, methods.CSVRG, methods.NEWTON.name)
    )
    seconds = _with(seconds, own, svrg, csvrg)
    accuracies = {data: {name: value for name, value in of_data.items() if name.endswith(last)}
                  for data, of_data in _with(accuracies, own).items()}  # fmt: skip
    if not seconds:
        return ""
    rows, n = {facts.name: facts.rows for facts in found.data}, len(seconds)
    times = [_range(of_data[rival] / of_data[own] for of_data in seconds.values()) for rival in (svrg, csvrg)]
    full = [data for data in seconds if anchors[data].get(csvrg) == rows[data]]
    faster = [data for data, of_data in _with(seconds, newton).items() if of_data[newton] < of_data[own]]
    best = {data: max(of_data, key=of_data.__getitem__) for data, of_data in accuracies.items()}
    named = [f"{data} {best[data].removesuffix(f', {last}')} ({_percent(of_data[best[data]])}; acc-DiODM "
             f"{_percent(of_data[own])})" for data, of_data in accuracies.items()]  # fmt: skip
    return "\n".join([
        _axes(accuracies, seconds, "Figure 3"),
        f"All stages of {methods.SVRG} take {times[0]} times the seconds of acc-DiODM's, those of {methods.CSVRG} "
        f"{times[1]} times. The paper says that it is over {said('Section 4.4', 'speed-up', 'acc-DiODM'):g} times as "
        f"fast, on a cluster. Here only the gradients of all rows are computed on several cores; the steps between "
        f"them are not, as Algorithm 2 has it.",
        f"{methods.CSVRG}'s core-set grew too large, so that it ended as {methods.SVRG}, {_count(full, n)}.",
        f"The most accurate after all stages: {'; '.join(named)}.",
        f"Newton's method, which ends at a gap of 0.001, is faster than acc-DiODM {_count(faster, n)}.",
    ])  # fmt: skip


def speed_ups(found: PartResults, section: str) -> str:
    """Say how much faster each method is on the most cores, replayed, and how far replays may be wrong."""
    most, lines = REPLAYED[-1], []
    replayed, errors = _scores(found, f"replayed_{most}"), _scores(found, "replay_error")
    for name in (method.name for method in found.part.methods):
        of_data = {data: (own[name], errors[data][name]) for data, own in _with(replayed, name).items()}
        if not of_data:
            continue
        named = []
        for data, (ratio, error) in of_data.items():
            low, high = error_band(ratio, most, error)
            named.append(f"{data} {number(ratio, 2)} (between {number(low, 2)} and {number(high, 2)})")
        wrong = statistics.median(abs(1 / error - 1) for _, error in of_data.values())
        lines.append(
            f"{name}, times as fast on {most} cores as on one, replayed: {'; '.join(named)}. On two cores, replays and "
            f"measurements differ by {100 * wrong:.0f}% (median); the brackets are what follows if every doubling of "
            f"the cores is as wrong as that."
        )
    method, word = found.part.methods[0].name.split(",")[0], "nearly" if section == "Abstract" else "over"
    return "\n".join([*lines, f"The paper says {word} {said(section, 'speed-up', method):g} times." * bool(lines)])


def literal(found: PartResults) -> str:
    """Say what the printed starts cost, and where the printed algorithms end."""
    lines, trees = [], (methods.PRINTED_WHOLE, methods.MENDED_WHOLE, methods.PLAIN)
    if work := _with(_scores(found, "kernel_evaluations"), *trees):
        concatenated, rescaled, plain = ([own[name] for own in work.values()] for name in trees)
        lines.append(
            f"To the whole problem, concatenated starts take {_times(concatenated, rescaled)} times the kernel values "
            f"of rescaled ones, and {_times(concatenated, plain)} times those of the same coordinate descent without a "
            f"tree; rescaled starts take {_times(rescaled, plain)} times the latter."
        )
    if gaps := _with(_scores(found, "global_gap"), methods.PRINTED_TREE):
        gap = _range(own[methods.PRINTED_TREE] for own in gaps.values())
        lines.append(
            f"What Algorithm 1 returns has a relative gap of {gap} for the whole problem, because the coefficients of "
            f"its last parts stay as they are. Accuracy, which is that of signs, does not show it."
        )
    machines = methods.PRINTED_GRADIENT, methods.NO_INTERCEPT
    if ends := _with(_scores(found, "global_objective"), *machines):
        printed_ends, optima = ([own[name] for own in ends.values()] for name in machines)
        lines.append(f"Algorithm 2 as printed ends at {_times(printed_ends, optima)} times the optimal objective.")
    return "\n".join(lines)


def _times(values: Iterable[float], others: Iterable[float]) -> str:
    return _range(value / other for value, other in zip(values, others, strict=True))
