"""Sentences that say what the results of the DC-SVM paper's experiments show, beside what the paper says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from dimargin.display.report.words import number
from dimargin_bench.experiments import dcsvm_methods as methods
from dimargin_bench.experiments.dcsvm_published import claim, claimed, figures, table_5
from dimargin_bench.experiments.experiment_run import PartResults, Record
from dimargin_bench.experiments.metrics import METRICS
from dimargin_bench.experiments.result_tables import middle
from dimargin_bench.papers import Printed, printed

_EQUAL_SECONDS = 0.02  # Seconds whose relative difference is smaller count as equal.
_NEAR_OPTIMUM = 0.01  # Solvers are compared by when they are as near, relatively, to the best objective of a picture.
_NEAR_ACCURACY = 0.002  # Methods are compared by when they are as near to the best accuracy of a picture.
_FOUND_CLAIM = claim("share of support vectors identified", "Section 4")
_FOUND_SHARE = (_FOUND_CLAIM.number or 0.0) / 100  # Support vectors count as found with this precision and recall.
Medians = Mapping[str, float]


def _groups(found: PartResults) -> dict[str, list[Record]]:
    """Return the records of every data set and case."""
    groups: dict[str, list[Record]] = {}
    for record in found.records:
        case = f", {record.cell.case}" if record.cell.case else ""
        groups.setdefault(f"{record.cell.data}{case}", []).append(record)
    return groups


def _medians(records: list[Record], metric: str) -> dict[str, float]:
    """Return the median of every method that has the metric."""
    names = dict.fromkeys(record.cell.method.name for record in records)
    values = {name: middle([one for one in records if one.cell.method.name == name], metric) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _times(values: Medians, method: str, other: str, theirs: Medians) -> str:
    """Say how many times the seconds of another method one took, here and in the paper, or nothing without one."""
    if method not in values or other not in values:
        return ""
    said = f" (the paper: {number(theirs[method] / theirs[other], 2)})" if {method, other} <= theirs.keys() else ""
    return f"{method} took {number(values[method] / values[other], 2)} times the seconds of {other}{said}"


def _best(accuracies: Medians) -> str:
    """Name the most accurate methods, of which several may look the same."""
    shown = {name: METRICS["accuracy"].shown(value) for name, value in accuracies.items()}
    best = shown[max(accuracies, key=accuracies.__getitem__)]
    names = [name for name, text in shown.items() if text == best]
    if len(names) == 1:
        return f"{names[0]} ({best}%) is most accurate"
    *others, last = (f'"{name}"' for name in names)  # Some names have a comma.
    return f"{', '.join(others)} and {last} ({best}%) are most accurate"


def compared(found: PartResults) -> str:
    """Say for every data set which method is most accurate and which fastest, and what divide and conquer costs."""
    lines = []
    early, dc, exact, svc = (one.name for one in (methods.EARLY, methods.DC, methods.EXACT, methods.LIBSVM))
    theirs = figures("Table 2", {"DC-SVM (early)": early, "DC-SVM": dc, "LIBSVM": svc})
    sets = {facts.name: facts.set_name for facts in found.data}
    for name, records in _groups(found).items():
        accuracies, seconds = _medians(records, "accuracy"), _medians(records, "seconds")
        if len(accuracies) < 2:
            continue
        fastest = min(seconds, key=seconds.__getitem__)
        paper = {one: value for (data, one, metric), value in theirs.items()
                 if (data, metric) == (sets[records[0].cell.data], "seconds") and isinstance(value, float)}  # fmt: skip
        costs = [_times(seconds, *pair, paper) for pair in ((early, exact), (dc, exact), (early, svc), (dc, svc))]
        said = "".join(f" {text}." for text in costs if text)
        lines.append(f"{name}: {_best(accuracies)}, {fastest} is fastest "
                     f"({METRICS['seconds'].shown(seconds[fastest])} s).{said}")  # fmt: skip
    return "\n".join(lines)


def which_rule(found: PartResults) -> str:
    """Say which rule of prediction is most accurate and which fastest; the paper's is equation (6) in both."""
    lines = []
    for name, records in _groups(found).items():
        accuracies, times = _medians(records, "accuracy"), _medians(records, "prediction_milliseconds")
        if len(accuracies) > 1:
            lines.append(f"{name}: {_best(accuracies)}, {min(times, key=times.__getitem__)} is fastest. "
                         "The paper has equation (6) first in both.")  # fmt: skip
    return "\n".join(lines)


def is_the_bound_close(found: PartResults) -> str:
    """Say how far Theorem 1's bound is from what it bounds, which the paper calls quite close."""
    name, random = methods.KMEANS_CLUSTERS.name, methods.RANDOM_CLUSTERS.name
    own = [one.outcome.metrics for one in found.records if one.cell.method.name == name and one.outcome.metrics]
    own = [one for one in own if one["difference"] > 0]
    if not own:
        return ""
    low, high = (choose(own, key=lambda one: one["bound_ratio"]) for choose in (min, max))
    optimum = low["difference"] / low["distance"]
    differences = [_medians(records, "difference") for records in _groups(found).values()]
    farther = [one[random] / one[name] for one in differences if {name, random} <= one.keys() and one[name] > 0]
    said = f" Random parts are {number(min(farther), 2)} to {number(max(farther), 2)} times as far from the optimum."
    return (
        "The paper calls the bound quite close to the difference, in an absolute sense: its two curves nearly overlap. "
        f"Here the bound of {name} is {number(low['bound_ratio'], 2)} to {number(high['bound_ratio'], 2)} times the "
        f"difference; with {low['partitions']:g} clusters it is {number(low['bound'] / optimum, 2)} times the optimum, "
        f"and the difference {number(low['distance'], 2)} times.{said if farther else ''}"
    )


def screened(found: PartResults) -> str:
    """Say how many rows Theorem 2 screens, and how much smaller Theorem 3's bound is than Theorem 1's."""
    lines = []
    for facts in found.data:
        own = [record.outcome.metrics for record in found.of(facts.name) if record.outcome.metrics]
        if not own:
            continue
        fewest, most = (choose(one["screened"] for one in own) for choose in (min, max))
        rows = f"{fewest:,.0f} to {most:,.0f}" if most else "none"
        shares = [one["bound_of_support"] / one["bound"] for one in own]
        ratios = [one["bound_of_support"] / one["difference"] for one in own if one["difference"] > 0]
        still = f", and still {number(min(ratios), 2)} to {number(max(ratios), 2)} times the difference"
        lines.append(
            f"{facts.name}: over all k, Theorem 2 screens {rows} of the {own[0]['no_support']:,.0f} rows that are no "
            f"support vectors. Theorem 3's bound is {number(min(shares), 2)} to {number(max(shares), 2)} times Theorem "
            f"1's{still if ratios else ''}."
        )
    return "\n".join(lines)


def who_finds_support_vectors(found: PartResults) -> str:
    """Say what share of the support vectors 256 clusters have, and how soon each way has nine in ten of them."""
    lines = []
    level = methods.N_LEVELS
    for name, records in _groups(found).items():
        recalls, precisions = _medians(records, "support_recall"), _medians(records, "support_precision")
        said = []
        for method, what, theirs in (
            ("dc", "clusters", f" (the paper: {_FOUND_CLAIM.value}%)"),
            ("cascade", "parts", ""),
        ):
            if (full_name := f"{method}, level {level}") in recalls:
                recall, precision = (METRICS["support_recall"].shown(own[full_name]) for own in (recalls, precisions))
                said.append(f"with {methods.K**level} {what}, {method} has {recall}% of the support vectors{theirs}, "
                            f"with a precision of {precision}%")  # fmt: skip
        good = {method for method, recall in recalls.items() if min(recall, precisions[method]) >= _FOUND_SHARE}
        found_all = [one for one in records if one.cell.method.name in good]
        first = [_line(one) for one in found_all]
        without = [line for line in dict.fromkeys(map(_line, records)) if line not in first]
        late = f"; {' and '.join(without)} at no point" if without else ""
        lines.append(f"{name}: {'; '.join(said)}. First to have recall and precision of {100 * _FOUND_SHARE:g}%: "
                     f"{_soonest(found_all) or 'none'}{late}.{_size_of_optimum(found, records)}")  # fmt: skip
    return "\n".join(lines)


def _size_of_optimum(found: PartResults, records: list[Record]) -> str:
    """Say how many rows are support vectors of the optimum without intercept, or nothing if no method tells."""
    n_rows = next(facts.rows for facts in found.data if facts.name == records[0].cell.data)
    for record in records:
        own = record.outcome.metrics
        if not record.cell.method.problem and "support_vectors" in own and own["support_recall"]:
            n_support = own["support_vectors"] * own["support_precision"] / own["support_recall"]
            return f" The optimum has {n_support:,.0f} support vectors among {n_rows:,} rows."
    return ""


def who_is_first(found: PartResults) -> str:
    """Say after how many seconds each solver is near the best objective of its problem, and each method accurate.

    The references, solved to a smaller gap, say what is best and have no place of their own.
    """
    lines = []
    for name, records in _groups(found).items():
        done = [one for one in records if {"seconds", "accuracy"} <= one.outcome.metrics.keys()]
        best: dict[str, float] = {}
        for one in done:
            problem, value = one.cell.method.problem, one.outcome.metrics.get("dual_objective", -math.inf)
            best[problem] = max(value, best.get(problem, value))
        accuracy = max((one.outcome.metrics["accuracy"] for one in done), default=0.0)
        ranked = [one for one in done if one.cell.method.name not in methods.REFERENCES]
        near = [one for one in ranked if one.outcome.metrics.get("dual_objective", -math.inf)
                >= (1 - _NEAR_OPTIMUM) * best[one.cell.method.problem] > -math.inf]  # fmt: skip
        accurate = [one for one in ranked if one.outcome.metrics["accuracy"] >= accuracy - _NEAR_ACCURACY]
        lines += [f"{name}: first within 1% of the best objective of its problem: {_soonest(near)}."] if near else []
        lines += [f"{name}: first within {100 * _NEAR_ACCURACY:g} points of the best accuracy: "
                  f"{_soonest(accurate) or 'none'}."]  # fmt: skip
    return "\n".join(lines)


def _line(record: Record) -> str:
    return record.cell.method.line or record.cell.method.name


def _soonest(records: list[Record]) -> str:
    """Return the lines of a picture with the fewest seconds of any of their records, in this order."""
    seconds: dict[str, float] = {}
    for one in records:
        line, own = _line(one), one.outcome.metrics["seconds"]
        seconds[line] = min(own, seconds.get(line, own))
    order = sorted(seconds, key=seconds.__getitem__)
    return ", ".join(f"{line} {METRICS['seconds'].shown(seconds[line])} s" for line in order)


def totals(found: PartResults) -> str:
    """Say how the sums of the seconds compare, as those of the paper do."""
    early, dc, svc = (one.name for one in (methods.EARLY, methods.DC, methods.LIBSVM))
    theirs = figures(
        "Table 4", {"DC-SVM (early)": early, "DC-SVM": dc, "LIBSVM": svc}, {"total time": ("seconds", 1.0)}
    )
    lines = []
    for facts in found.data:
        cases = [_medians(own, "seconds") for own in _groups(found).values() if own[0].cell.data == facts.name]
        sums = {name: sum(one[name] for one in cases) for name in (early, dc, svc) if all(name in one for one in cases)}
        n_cases = len(found.part.cases)
        paper = {name: value for (data, name, _), value in theirs.items()
                 if data == facts.set_name and isinstance(value, float) and len(cases) == n_cases}  # fmt: skip
        said = [text for name in (early, dc) if (text := _times(sums, name, svc, paper))]
        lines += [f"{facts.name}: over {len(cases)} of {n_cases} pairs, {' and '.join(said)}."] if said else []
    return "\n".join(lines)


def what_clustering_costs(found: PartResults) -> str:
    """Say which share of the seconds the clustering took, and how it and the training change from level to level."""
    paper = {metric: seconds for (_, _, metric), seconds in table_5(methods.DC.name).items()}
    return "\n".join(
        f"{record.cell.data}: clustering took {_share_of_clustering(own):.1f}% of the seconds (the paper: "
        f"{_share_of_clustering(paper):.1f}%). The paper says that the clustering time is almost constant at each "
        "level, while that of training keeps increasing. Here the clustering of a level with clusters took "
        f"{_clustering_seconds(own)} s (the paper: {_clustering_seconds(paper)} s), and training took longer than on "
        f"the level before it on {_longer_trainings(own)} levels (the paper: {_longer_trainings(paper)})."
        for record in found.records
        if record.cell.method.name == methods.DC.name and _share_of_clustering(own := record.outcome.metrics)
    )


def _share_of_clustering(seconds: Medians) -> float:
    """Return which percentage of the seconds of all levels was spent on clustering."""
    clustering, training = (sum(_of_levels(seconds, what)) for what in ("clustering", "training"))
    return 100 * clustering / (clustering + training) if clustering else 0.0


def _of_levels(seconds: Medians, what: str) -> list[float]:
    """Return the seconds of clustering or of training, from the level with the most clusters to the whole problem."""
    return [seconds[f"{what}_{level}"] for level in range(methods.N_LEVELS, -1, -1) if f"{what}_{level}" in seconds]


def _clustering_seconds(seconds: Medians) -> str:
    *own, _ = _of_levels(seconds, "clustering")  # The whole problem has no clusters here.
    return f"{number(min(own), 3)} to {number(max(own), 3)}"


def _longer_trainings(seconds: Medians) -> str:
    pairs = list(itertools.pairwise(_of_levels(seconds, "training")))
    return f"{sum(later > earlier for earlier, later in pairs)} of {len(pairs)}"


def printed_levels() -> str:
    """Say where the seconds of Table 5 contradict those of Table 2."""
    paper = {metric: seconds for (_, _, metric), seconds in table_5(methods.DC.name).items()}
    levels = [sum(pair) for pair in zip(*(_of_levels(paper, what) for what in ("clustering", "training")), strict=True)]
    dc, early = (
        f"{claim('seconds', 'Table 2', data='covtype', method=method).number:,.0f}"
        for method in ("DC-SVM", "DC-SVM (early)")
    )
    return (
        f"The paper's levels sum to {sum(levels):,.1f} seconds, while its Table 2 has {dc} for DC-SVM on covtype. "
        f"Levels 4 and 3, after which DC-SVM (early) ends, sum to {sum(levels[:2]):,.1f} seconds, and Table 2 has "
        f"{early} for it."
    )


def is_early_better_than_bagging(found: PartResults) -> str:
    """Say where clusters predict better than random parts, which is everywhere in the paper."""
    points = {}
    for name, records in _groups(found).items():
        own = _medians(records, "accuracy")
        if methods.EARLY.name in own and methods.BAGGING.name in own:
            points[name] = 100 * (own[methods.EARLY.name] - own[methods.BAGGING.name])
    if not points:
        return ""
    worse = [f"{name} ({number(-value, 2)} points worse)" for name, value in points.items() if value <= 0]
    said = f"; not for {'; '.join(worse)}" if worse else ""
    return (f"DC-SVM (early) is more accurate than bagging in {len(points) - len(worse)} of {len(points)} pairs of "
            f"data and k{said}. In the paper it is in all nine.")  # fmt: skip


def over_the_grid(found: PartResults) -> str:
    """Say for how many pairs of C and gamma divide and conquer is faster than LIBSVM, and the worst accuracies."""
    lines = []
    early, dc, svc = (one.name for one in (methods.EARLY, methods.DC, methods.LIBSVM))
    for facts in found.data:
        groups = [records for records in _groups(found).values() if records[0].cell.data == facts.name]
        seconds = [_medians(records, "seconds") for records in groups]
        both = [one for one in seconds if {early, dc, svc} <= one.keys()]
        if not both:
            continue
        faster = {name: sum(one[name] < (1 - _EQUAL_SECONDS) * one[svc] for one in both) for name in (early, dc)}
        ratios = sorted(one[svc] / one[early] for one in both)
        worst: dict[str, float] = {}
        for records, name in itertools.product(groups, (early, dc, svc)):
            if (value := _medians(records, "accuracy").get(name)) is not None:
                worst[name] = min(value, worst.get(name, value))
        said = ", ".join(f"{name} {METRICS['accuracy'].shown(value)}%" for name, value in worst.items())
        lines.append(
            f"{facts.name}: {dc} is faster than {svc} for {faster[dc]} of {len(both)} pairs, and {early} for "
            f"{faster[early]}; {early} is {number(ratios[0], 2)} to {number(ratios[-1], 2)} times as fast as {svc}. "
            f"The worst accuracies: {said}."
        )
    return "\n".join(lines)


def _by_setting(table: str, metric: str) -> dict[str, dict[str, Printed]]:
    """Return the printed seconds or accuracies of every setting and method of one of Tables 7 to 10."""
    found: dict[str, dict[str, Printed]] = {}
    for one in printed("dcsvm", table):
        if one.metric == metric:
            found.setdefault(one.setting, {})[one.method] = one
    return found


def _ratios(times: Mapping[str, Mapping[str, Printed]], method: str) -> list[float]:
    """Return how many times as fast as LIBSVM a method is, by the printed seconds."""
    return [(one["LIBSVM"].number or 0.0) / (one[method].number or math.inf) for one in times.values()]


def printed_claims_of_caption(table: str, of_accuracy: str, dc_is_faster: str) -> str:
    """Say what a table's own numbers say of its caption, whose words on accuracy and on DC-SVM's speed these are."""
    stated = claim("speed-up over LIBSVM", "Captions", setting=table)
    words = claimed("speed-up over LIBSVM", "Captions", setting=table)
    points = [(one["DC-SVM (early)"].number or 0.0) - (one["LIBSVM"].number or 0.0)
              for one in _by_setting(table, "accuracy").values() if "LIBSVM" in one]  # fmt: skip
    dc = _ratios(_by_setting(table, "seconds"), "DC-SVM")
    ties = f", and exactly as fast for {dc.count(1.0)}" if 1.0 in dc else ""
    return (
        f"The caption says that DC-SVM (early) is always {words} times faster than LIBSVM {of_accuracy}, and that "
        f"DC-SVM is faster than LIBSVM {dc_is_faster}. By the table's own numbers DC-SVM (early) is "
        f"{_printed_speed(table, stated.number or math.nan)}; its accuracy is from {number(-min(points), 3)} points "
        f"below that of LIBSVM to {number(max(points), 3)} above. DC-SVM is faster for "
        f"{sum(ratio > 1 for ratio in dc)} of {len(dc)} pairs{ties}."
    )


def _printed_speed(table: str, claimed_times: float) -> str:
    """Say how many times as fast as LIBSVM a table has DC-SVM (early): exactly, and at least by lower bounds."""
    times, early = _by_setting(table, "seconds"), "DC-SVM (early)"
    bounds = {setting: one for setting, one in times.items() if one["LIBSVM"].mark == ">"}
    exact = _ratios({setting: one for setting, one in times.items() if setting not in bounds}, early)
    fewer = sum(ratio < claimed_times for ratio in exact)
    said = f"{number(min(exact), 2)} to {max(exact):.0f} times as fast"
    if not bounds:
        return f"{said}, for {fewer} of {len(exact)} pairs less than {claimed_times:g} times"
    at_least = " and ".join(f"{ratio:.0f}" for ratio in _ratios(bounds, early))
    return (
        f"{said} for the {len(exact)} pairs with exact seconds, for {fewer} of them less than {claimed_times:g} times; "
        f"for {' and for '.join(bounds)}, whose seconds of LIBSVM are printed as a lower bound, at least {at_least} "
        "times"
    )


def printed_sums() -> str:
    """Say where the printed seconds of Tables 7 to 10 contradict the text and Table 4."""
    tables = {"ijcnn1": "Table 7", "webspam": "Table 8", "covtype": "Table 9", "census": "Table 10"}
    seconds = {data: _by_setting(table, "seconds") for data, table in tables.items()}
    ratios = [ratio for times in seconds.values() for ratio in _ratios(times, "DC-SVM")]
    faster, ties = sum(ratio > 1 for ratio in ratios), ratios.count(1.0)
    wrong = []
    for one in printed("dcsvm", "Table 4"):
        digits, unit = one.value.split()
        total = sum(times[one.method].number or 0.0 for times in seconds[one.data].values())
        own = total * float(digits) / (one.number or math.nan)  # in the printed unit
        if abs(own - float(digits)) >= 0.1:  # The paper rounds some to tenths, and cuts others.
            wrong.append(f"for {one.method} on {one.data}: {tables[one.data]}'s seconds sum to {own:.2f} {unit}, and "
                         f"Table 4 has {digits}")  # fmt: skip
    said = f", except {' and '.join(wrong)}" if wrong else ""
    bounds = {f' {one.method}\'s sum on {data} counts "{one.value}" seconds as {one.number:,.0f}.': None
              for data, times in seconds.items() for own in times.values() for one in own.values()
              if one.mark}  # fmt: skip
    settings, stated = claimed("settings of Tables 7 to 10"), claimed("settings with DC-SVM faster than LIBSVM")
    return (f"The text says that DC-SVM is faster than LIBSVM for {stated} of {settings} pairs; by the printed seconds "
            f"it is for {faster}, and exactly as fast for {ties}. The paper's sums are those of its tables{said}."
            f"{''.join(bounds)}")  # fmt: skip


def printed_claims() -> str:
    """Say what abstract and Section 1 claim on all of covtype, and what Table 2's numbers say of it."""
    early, dc, libsvm = "DC-SVM (early)", "DC-SVM", "LIBSVM"
    own = {(one.method, one.metric): one.number or math.nan for one in printed("dcsvm", "Table 2")
           if one.data == "covtype"}  # fmt: skip
    seconds = {name: own[name, "seconds"] for name in (early, dc, libsvm)}

    def said(metric: str, method: str, section: str = "Abstract") -> str:
        return claimed(metric, section, method=method)

    return (
        f"The paper's abstract says that DC-SVM is {said('speed-up over LIBSVM', dc)} times as fast as LIBSVM, to a "
        f"relative error of {said('relative error of the exact solution', dc)}, and that DC-SVM (early) reaches "
        f"{said('accuracy', early)}% accuracy in {said('minutes', early)} minutes and is "
        f"{said('speed-up over LIBSVM', early)} times as fast. Section 1 says that DC-SVM takes "
        f"{said('hours', dc, 'Section 1')} hours at most, LIBSVM {said('hours', libsvm, 'Section 1')}, and that DC-SVM "
        f"(early) reaches {said('accuracy', early, 'Section 1')}%. By the paper's Table 2, whose tolerance is "
        f"{claimed('tolerance of LIBSVM and DC-SVM')}, DC-SVM takes {number(seconds[dc] / 3600, 3)} hours and LIBSVM "
        f"{number(seconds[libsvm] / 3600, 3)}, {number(seconds[libsvm] / seconds[dc], 2)} times as long; DC-SVM "
        f"(early) takes {number(seconds[early] / 60, 3)} minutes and reaches {own[early, 'accuracy']:g}%, and LIBSVM "
        f"takes {number(seconds[libsvm] / seconds[early], 3)} times as long."
    )


def is_a_start_faster(found: PartResults) -> str:
    """Say how often a start from clusters beat the exact solve, and by how much."""
    starts, exact = (methods.OUR_DC.name, methods.DC_OF_ONE_LEVEL.name), methods.EXACT.name
    ratios: dict[str, float] = {}
    for name, records in _groups(found).items():
        seconds = _medians(records, "seconds")
        times = [seconds[start] for start in starts if start in seconds]
        if times and exact in seconds:
            ratios[name] = min(times) / seconds[exact]
    if not ratios:
        return ""
    faster = sum(ratio < 1 - _EQUAL_SECONDS for ratio in ratios.values())
    said = f"faster in {faster or 'none'} of {len(ratios)} problems"
    least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    return (f"A start from clusters, the better of two, was {said}: it took from {ratios[least]:.2f} times the seconds "
            f"of the exact solve ({least}) to {ratios[most]:.2f} times ({most}).")  # fmt: skip
