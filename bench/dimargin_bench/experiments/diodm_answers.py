"""Sentences that say what the results of the DiODM paper's experiments show, beside what the paper says."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from dimargin.display.report.words import number
from dimargin.estimators import LinearODMClassifier
from dimargin_bench.experiments import diodm_methods as methods
from dimargin_bench.experiments.experiment_run import DataFacts, PartResults, Record
from dimargin_bench.experiments.replay import REPLAYED, error_band
from dimargin_bench.experiments.result_tables import middle
from dimargin_bench.papers import Printed, printed

_SAME = 0.0005  # difference of accuracies that is none
_FIGURES = ("Figure 1", "Figure 2", "Figure 3")
_PRINTED = {"skin_nonskin": "skin-nonskin", "SUSY-30k": "SUSY"}
_TICKS = (("lowest", "accuracy"), ("highest", "accuracy"), ("highest", "seconds"))
_MARK_WORDS = {">": "more than "}
Scores = dict[str, dict[str, float]]


def said(section: str, metric: str, method: str = "DiODM") -> Printed:
    """Return a number of the paper's text."""
    for one in printed("diodm", section):
        if (one.metric, one.method) == (metric, method):
            return one
    raise KeyError(f"{section} does not say {metric} of {method}")


def value(one: Printed) -> float:
    """Return a number that can be read."""
    assert one.number is not None
    return one.number


def in_words(one: Printed) -> str:
    """Return a number as the text has it, such as "more than 9"."""
    return f"{_MARK_WORDS.get(one.mark, one.mark)}{value(one):g}"


def _counted(found: PartResults) -> list[DataFacts]:
    """Return the data sets, without the one that stands in for SUSY if SUSY is there."""
    has_susy = any(facts.set_name == "SUSY" for facts in found.data)
    return [facts for facts in found.data if not (has_susy and facts.set_name == "SUSY-30k")]


def _scores(found: PartResults, metric: str) -> Scores:
    """Return the medians of a metric, by data set and method."""
    scores: Scores = {}
    for facts in _counted(found):
        groups: dict[str, list[Record]] = {}
        for record in found.of(facts.name):
            groups.setdefault(record.cell.method.name, []).append(record)
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


def _points(difference: float) -> str:
    return f"{100 * difference:.2f}"


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
            lines += [f"On {data}, {_percent(share)} of the test rows are of the more frequent class. In {figure}, "
                      f"the highest tick of {data}'s axis of accuracy is {tick:g}%; how far the axis reaches above it "
                      "cannot be read."
                      for tick in ticks if tick / 100 < share]  # fmt: skip
    return "\n".join(lines)


def levels(found: PartResults, figure: str, section: str, accuracy: str, speed: str) -> str:
    """Say where DiODM is the best of the trees, as the paper's section counts, and how it is beside other machines."""
    accuracies, seconds = _scores(found, "accuracy"), _scores(found, "seconds")
    return "\n".join(filter(None, [
        _axes(found, figure),
        _among_trees(accuracies, seconds, section, accuracy, speed),
        _accelerated(accuracies, seconds),
        _beside_exact(accuracies, seconds),
        _best_of_all(accuracies),
        _beside_svc(accuracies),
    ]))  # fmt: skip


def _axes(found: PartResults, figure: str) -> str:
    """Say from where to where the axes of the paper's panels go, and from where to where points of its methods here."""
    accuracies, seconds = (
        {data: {name: value for name, value in own.items() if name in methods.OF_THE_PAPER}
         for data, own in _scores(found, metric).items()} for metric in ("accuracy", "seconds")
    )  # fmt: skip
    named = []
    for facts in _counted(found):
        data, panel = facts.name, _PRINTED.get(facts.set_name, facts.set_name)
        ticks = {one.metric: one.number for one in printed("diodm", figure) if one.data == panel}
        low, high, end = (ticks.get(f"{what} tick of {of}") for what, of in _TICKS)
        if accuracies[data] and low and high:
            times = f" and to {end:g} s" if end else ""
            named.append(f"{data} {low:g} to {high:g}%{times} ({_range(accuracies[data].values(), _percent)}, to "
                         f"{number(max(seconds[data].values()), 2)} s)")  # fmt: skip
    if not named:
        return ""
    return (
        "These are the outermost ticks of the axes of the paper's panels, as far as they can be read, and in brackets "
        f"the range of the points of the paper's methods here: {'; '.join(named)}."
    )


def _among_trees(accuracies: Scores, seconds: Scores, section: str, accuracy: str, speed: str) -> str:
    lines = [_best_tree(_with(accuracies, *trees), _with(seconds, *trees), end) for end, trees in methods.ENDS.items()]
    if not any(lines):
        return ""
    rest, six = said(section, "data sets slightly worse than DC-ODM"), f"{value(said(section, speed)):g}"
    return "\n".join(filter(None, [
        *lines,
        f"The paper counts {value(said(section, accuracy)):g} and {six} of {six} data sets, and has DiODM just "
        f"slightly worse than DC-ODM on {rest.data or f'the other {value(rest):g}'}. It does not say at which level: "
        f'the loop of its Algorithm 1 ends with p parts, and p = 4 is chosen here; its text continues "until the '
        f'solution converges or all the partitions are merged together".',
    ]))  # fmt: skip


def _best_tree(accuracies: Scores, seconds: Scores, end: str) -> str:
    if not accuracies:
        return ""
    trees = methods.ENDS[end]
    diodm, *rivals = trees
    best = [data for data, own in accuracies.items() if own[diodm] >= max(own[t] for t in trees) - _SAME]
    fastest = [data for data, own in seconds.items() if own[diodm] == min(own[tree] for tree in trees)]
    ahead = [f"{data} {_lead(own, diodm, rivals)}" for data, own in accuracies.items() if data not in best]
    rest = f" Where DiODM is not the best, DC-ODM's accuracy less DiODM's is, in points: {', '.join(ahead)}."
    n = len(accuracies)
    return (
        f"With {end}, DiODM is the most accurate of the four trees, or within {100 * _SAME:g} points of it, "
        f"{_count(best, n)}, and the fastest {_count(fastest, n)}." + rest * bool(ahead)
    )


def _lead(own: dict[str, float], diodm: str, rivals: Sequence[str]) -> str:
    """Return how many points the last rival, DC-ODM, is ahead of DiODM, and another one if it is the best."""
    dc, best = rivals[-1], max(rivals, key=own.__getitem__)
    other = f" (the best is {best.split(',')[0]}, {_points(own[best] - own[diodm])} ahead)" * (own[best] > own[dc])
    return _points(own[dc] - own[diodm]) + other


def _accelerated(accuracies: Scores, seconds: Scores) -> str:
    last, lines = methods.ACC_DIODM[-1].name, []
    for end, (_, *rivals) in methods.ENDS.items():
        known, times = _with(accuracies, last, *rivals), _with(seconds, last, *rivals)
        if known:
            better = [data for data, own in known.items() if own[last] > max(own[rival] for rival in rivals)]
            faster = [data for data, own in times.items() if own[last] < min(own[rival] for rival in rivals)]
            lines.append(
                f"Compared with Ca-ODM, DiP-ODM and DC-ODM with {end}, acc-DiODM after all stages is more accurate "
                f"{_count(better, len(known))}, and faster {_count(faster, len(known))}."
            )
    return " ".join([*lines, "The paper says that it is both."]) if lines else ""


def _beside_exact(accuracies: Scores, seconds: Scores) -> str:
    names = methods.DIODM, methods.DIODM_WHOLE, methods.EXACT.name
    known = _with(seconds, *names)
    if not known:
        return ""
    part, whole = ({data: own[name] / own[names[2]] for data, own in known.items()} for name in names[:2])
    slower = [data for data, ratio in whole.items() if ratio > 1]
    gains = [own[names[0]] - own[names[2]] for own in _with(accuracies, *names).values()]
    return (
        f"With 4 parts, DiODM takes {_range(part.values())} times the seconds of the exact machine, which has no tree, "
        f"and its accuracy less the exact machine's is {_range(gains, _points)} points. To the whole problem it takes "
        f"{_range(whole.values())} times these seconds: it is slower {_count(slower, len(known))}."
    )


def _best_of_all(accuracies: Scores) -> str:
    known = _with(accuracies, methods.DIODM)
    named = []
    for data, own in known.items():
        highest = _percent(max(own.values()))
        best = " and ".join(name for name, value in own.items() if _percent(value) == highest)
        named.append(f"on {data} {best} ({highest}; DiODM with 4 parts {_percent(own[methods.DIODM])})")
    return f"The most accurate of all methods are: {'; '.join(named)}." if named else ""


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


def gradients(found: PartResults) -> str:
    """Say how much faster acc-DiODM is than the other gradient methods, and where CSVRG is SVRG."""
    seconds, accuracies, anchors = (_scores(found, name) for name in ("seconds", "accuracy", "anchor_rows"))
    own, svrg, csvrg = (thirds[-1].name for thirds in (methods.ACC_DIODM, methods.SVRG, methods.CSVRG))
    newton, gap = methods.NO_INTERCEPT, LinearODMClassifier().tol
    seconds = _with(seconds, own, svrg, csvrg)
    if not seconds:
        return ""
    rows, n = {facts.name: facts.rows for facts in found.data}, len(seconds)
    times = [_range(of_data[rival] / of_data[own] for of_data in seconds.values()) for rival in (svrg, csvrg)]
    full = [data for data in seconds if anchors[data].get(csvrg) == rows[data]]
    faster = [data for data, of_data in _with(seconds, newton).items() if of_data[newton] < of_data[own]]
    gains = [f"{data} {_points(of_data[own] - max(of_data[svrg], of_data[csvrg]))}"
             for data, of_data in _with(accuracies, own, svrg, csvrg).items()]  # fmt: skip
    return "\n".join([
        _axes(found, "Figure 3"),
        f"All stages of ODM_svrg take {times[0]} times the seconds of acc-DiODM's, those of ODM_csvrg {times[1]} "
        f"times. The paper says that acc-DiODM is {in_words(said('Section 4.4', 'speed-up', 'acc-DiODM'))} times as "
        f"fast, on a cluster. Here only the gradients of all rows are computed on several cores; for the steps "
        f"between them the parts take turns, as nodes do in Algorithm 2.",
        f"acc-DiODM's accuracy after all stages less that of the better one of ODM_svrg and ODM_csvrg is, in points: "
        f"{', '.join(gains)}. The paper calls it competitive.",
        f"The core-set of ODM_csvrg grew too large, so that it ended as ODM_svrg, {_count(full, n)}.",
        f"Newton's method, which ends at a gap of {gap:g}, is faster than acc-DiODM {_count(faster, n)}.",
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
            named.append(f"{number(ratio, 2)} on {data} (between {number(low, 2)} and {number(high, 2)})")
        wrong = statistics.median(abs(1 / error - 1) for _, error in of_data.values())
        lines.append(
            f"The speed-up of {name}, on {most} cores, replayed, is {', '.join(named)}. On two cores, replays and "
            f"measurements differ by {100 * wrong:.0f}% (median). Each bracket is what follows if every doubling of "
            f"the cores is as wrong as the first one was on that data set; its upper end is at most {most}, the number "
            "of cores."
        )
    theirs = said(section, "speed-up", found.part.methods[0].name.split(",")[0])
    return "\n".join([*lines, f"The paper says {in_words(theirs)} times." * bool(lines)])


def literal(found: PartResults) -> str:
    """Say what the printed starts cost, and where the printed algorithms end."""
    lines, trees = [], (methods.PRINTED_WHOLE, methods.MENDED_WHOLE, methods.PLAIN)
    if work := _with(_scores(found, "kernel_evaluations"), *trees):
        concatenated, rescaled, plain = ([own[name] for own in work.values()] for name in trees)
        lines.append(
            f"To the whole problem, concatenated starts take {_times(concatenated, rescaled)} times the kernel values "
            f"of rescaled ones, and {_times(concatenated, plain)} times those of the same coordinate descent without a "
            f"tree; rescaled ones take {_times(rescaled, plain)} times those without a tree."
        )
    if gaps := _with(_scores(found, "global_gap"), methods.PRINTED_TREE):
        gap = _range(own[methods.PRINTED_TREE] for own in gaps.values())
        lines.append(
            f"What Algorithm 1 returns has a relative gap of {gap} for the whole problem, because the coefficients of "
            f"its last parts stay as they are. The accuracy hardly shows it: all coefficients are too large by about "
            f"the same factor, and the signs of decision values stay."
        )
    machines = methods.PRINTED_GRADIENT, methods.NO_INTERCEPT
    if ends := _with(_scores(found, "global_objective"), *machines):
        printed_ends, optima = ([own[name] for own in ends.values()] for name in machines)
        lines.append(f"Algorithm 2 as printed ends at {_times(printed_ends, optima)} times the optimal objective.")
    return "\n".join(lines)


def _times(values: Iterable[float], others: Iterable[float]) -> str:
    return _range(value / other for value, other in zip(values, others, strict=True))
