"""Pictures of results, as SVG in the colours of the page."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dimargin.display.report.svg import inline, page_style
from dimargin.display.report.words import number
from dimargin_bench.experiments.declarations import Curves, Figure, Traces
from dimargin_bench.experiments.experiment_run import PartResults, Record
from dimargin_bench.experiments.metrics import METRICS
from dimargin_bench.experiments.replay import error_band
from dimargin_bench.experiments.result_tables import middle, named

ROWS = "rows"  # as x: the training rows of samples of one data set
_SIZE = (4.4, 3.7)  # inches: readable across a phone
# inches of a line of the legend, how many letters fit into one, a marker being six, and lines that
# leave room enough
_LINE_OF_LEGEND, _LETTERS, _MAX_LINES = 0.17, 60, 5
_MARKERS = "osD^vPX*<>d"  # eleven: with the five colors of the page, 55 methods look different
_LOGARITHMIC = (ROWS, "seconds", "prediction_seconds", "kernel_evaluations", "support_vectors", "bytes", "messages",
                "bound", "difference", "partitions", "gap", "rounds", "excess", "worst_excess", "C",
                "gamma")  # fmt: skip
_POWERS_OF_TWO = ("partitions", "C", "gamma")
_EXPONENTS = ("C", "gamma")  # Their ticks are 2^-10 and the like.
_LONG = 10**2.5  # beyond which numbers at 1, 2 and 5 times every power of ten would cover one another
_BOXES = 10  # box plots of a picture at most
_MARKED = 60  # points of a line, beyond which markers would cover it
Points = dict[str, list[tuple[float, float]]]
Errors = dict[str, float]


@dataclass(frozen=True)
class _Axis:
    heading: str
    logarithmic: bool
    base: int = 10
    wide: bool = False  # whether it has numbers at powers of ten only
    exponents: bool = False  # whether its numbers are written as powers of two


def pictures(found: PartResults, data: str, name: str) -> list[tuple[str, str]]:
    """Draw the figures of a data set: captions and SVG elements, whose identifiers begin with `name`.

    Those whose metrics no method has are left out.
    """
    own = found.of(data)
    groups = [
        (figure, data, own)
        for figure in found.part.figures
        if not isinstance(figure, Traces) and not _is_over_rows(figure)
    ]
    traced = [figure for figure in found.part.figures if isinstance(figure, Traces)]
    return _drawn(groups, {}, name) + [
        picture for k, figure in enumerate(traced) for picture in _traced(figure, data, own, f"{name}-trace-{k}")
    ]


def pictures_over_rows(found: PartResults, name: str) -> list[tuple[str, str]]:
    """Draw the figures whose points are samples: one for each data set that has several, and each case."""
    rows_of = {facts.name: facts.rows for facts in found.data}
    samples: dict[str, set[str]] = {}
    for facts in found.data:
        samples.setdefault(facts.set_name, set()).add(facts.name)
    groups = [
        (figure, f"{set_name}, {case}" if case else set_name,
         [one for one in found.records if one.cell.data in names and one.cell.case == case])
        for figure in found.part.figures if not isinstance(figure, Traces) and _is_over_rows(figure)
        for set_name, names in samples.items() if len(names) > 1
        for case in found.part.cases
    ]  # fmt: skip
    return _drawn(groups, rows_of, name)


def _is_over_rows(figure: Figure | Curves) -> bool:
    return isinstance(figure, Figure) and figure.x == ROWS


def _drawn(
    groups: Iterable[tuple[Figure | Curves, str, list[Record]]], rows_of: Mapping[str, int], name: str
) -> list[tuple[str, str]]:
    found = []
    for k, (figure, title, records) in enumerate(groups):
        if points := _points(figure, records, rows_of):
            errors = errors_of(figure, records) if isinstance(figure, Curves) else {}
            with page_style(names=True):
                svg = _plotted(figure, title, points, errors, f"{name}-{k}")
            found.append((f"{figure.title}: {title}. {figure.note}".rstrip(), svg))
    return found


def _points(figure: Figure | Curves, records: Sequence[Record], rows_of: Mapping[str, int]) -> Points:
    return points_along(figure, records) if isinstance(figure, Curves) else points_of(figure, records, rows_of)


def points_of(figure: Figure, records: Sequence[Record], rows_of: Mapping[str, int]) -> Points:
    """Return the points of every line: one for each cell that has both metrics, or medians over the seeds."""
    if figure.cases:
        records = [record for record in records if record.cell.case in figure.cases]
    if figure.beside:
        each = {y: points_of(replace(figure, y=y, beside=()), records, rows_of) for y in (figure.y, *figure.beside)}
        return {f"{line}, {METRICS[y].heading}": pairs for y, own in each.items() for line, pairs in own.items()}
    own_y = _y_of(figure, records)
    lines: dict[str, dict[tuple[str, str, str], list[tuple[float, float]]]] = {}
    for record in records:
        cell, metrics, y = record.cell, record.outcome.metrics, own_y(record)
        x = rows_of.get(cell.data) if figure.x == ROWS else metrics.get(figure.x)
        if x is not None and y is not None:
            pair = (_factor(figure.x) * x, y if figure.relative_to or figure.below_best else _factor(figure.y) * y)
            line = lines.setdefault(cell.method.line or named(cell.method), {})
            line.setdefault((cell.data, cell.method.name, cell.case), []).append(pair)
    over_seeds = figure.joined or figure.x == ROWS
    return {
        line: [pair for pairs in groups.values() for pair in ([_median(pairs)] if over_seeds else pairs)]
        for line, groups in lines.items()
    }


def points_along(curves: Curves, records: Sequence[Record]) -> Points:
    """Return the points of every method's curves, medians over the seeds, and those of the paper."""
    points: Points = {}
    for method, own in _by_method(records).items():
        for name, metrics in curves.curves.items():
            pairs = [(x, y) for x, metric in metrics.items() if (y := middle(own, metric)) is not None]
            if pairs:
                points[f"{method}, {name}"] = pairs
    return {**points, **{name: [point] for name, point in curves.published.items()}} if points else {}


def errors_of(curves: Curves, records: Sequence[Record]) -> Errors:
    """Return the errors on two cores of the curves that are replays."""
    found = {
        f"{method}, {name}": middle(own, metric)
        for method, own in _by_method(records).items()
        for name, metric in curves.errors.items()
    }
    return {line: error for line, error in found.items() if error is not None}


def _by_method(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.cell.method.name, []).append(record)
    return found


def _factor(metric: str) -> float:
    return 1.0 if metric == ROWS else METRICS[metric].factor


def _median(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    x, y = (statistics.median(values) for values in zip(*pairs, strict=True))
    return x, y


def _y_of(figure: Figure, records: Sequence[Record]) -> Callable[[Record], float | None]:
    """Return the function that says a record's y, or None for one that has none."""

    def plain(record: Record) -> float | None:
        return record.outcome.metrics.get(figure.y)

    if figure.relative_to:
        bases = {_place(record): plain(record) for record in records if record.cell.method.name == figure.relative_to}
        return lambda record: _ratio(plain(record), bases.get(_place(record)))
    if figure.below_best:
        best: dict[str, float] = {}
        for record in records:
            problem, value = record.cell.method.problem, plain(record)
            if value is not None:
                best[problem] = max(value, best.get(problem, value))
        return lambda record: _below(plain(record), best.get(record.cell.method.problem))
    return plain


def _place(record: Record) -> tuple[str, str, int]:
    return record.cell.data, record.cell.case, record.cell.seed


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def _below(value: float | None, best: float | None) -> float | None:
    """Return how far below the best a value is, or None for the best itself, which has no place on a logarithm."""
    return None if value is None or best is None or value == best else (best - value) / abs(best)


def _heading(figure: Figure, metric: str) -> str:
    if metric == ROWS:
        return "training rows"
    heading = "bytes sent" if metric == "bytes" else METRICS[metric].heading  # tables have the unit beside the number
    if metric == figure.y and figure.relative_to:
        return f"{heading}, those of {figure.relative_to} = 1"
    if metric == figure.y and figure.below_best:
        return "relative distance from the best"
    return heading


def _axes(figure: Figure | Curves) -> tuple[_Axis, _Axis]:
    if isinstance(figure, Curves):
        return _Axis(figure.x, True, 2), _Axis(figure.y, True, 2)
    is_ratio = bool(figure.relative_to or figure.below_best)
    return (
        _Axis(
            _heading(figure, figure.x),
            figure.x in _LOGARITHMIC,
            2 if figure.x in _POWERS_OF_TWO else 10,
            exponents=figure.x in _EXPONENTS,
        ),
        _Axis(
            "" if figure.beside else _heading(figure, figure.y),
            not figure.linear and (figure.y in _LOGARITHMIC or is_ratio),
            wide=figure.below_best or figure.y == "gap",  # which may have fifteen powers of ten
        ),
    )


def _plotted(figure: Figure | Curves, title: str, points: Points, errors: Errors, name: str) -> str:
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import LogLocator

    columns = min(3, max(1, _LETTERS // (6 + max(map(len, points)))))
    width, height = _SIZE
    further = max(0, math.ceil(len(points) / columns) - _MAX_LINES) * _LINE_OF_LEGEND
    canvas: Any = Canvas(figsize=(width, height + further), layout="constrained")
    ax = canvas.subplots()
    ax.grid(alpha=0.5, linewidth=0.6)
    is_joined = isinstance(figure, Curves) or figure.joined
    for k, (line, pairs) in enumerate(points.items()):
        style = {} if is_joined else {"linestyle": ""}
        (drawn,) = ax.plot(*zip(*sorted(pairs), strict=True), marker=_MARKERS[k % len(_MARKERS)], label=line, **style)
        if line in errors:
            ends = [error_band(y, int(x), errors[line]) for x, y in sorted(pairs)]
            ax.fill_between(
                [x for x, _ in sorted(pairs)], *zip(*ends, strict=True), color=drawn.get_color(), alpha=0.15
            )
    x, y = _axes(figure)
    ax.set(xlabel=x.heading, ylabel=y.heading)
    for axis, own in ((ax.xaxis, x), (ax.yaxis, y)):
        if own.logarithmic:
            getattr(ax, f"set_{axis.axis_name}scale")("log", base=own.base)
            low, high = axis.get_view_interval()
            is_long = high > _LONG * low
            subs = (1.0,) if own.wide or own.base == 2 or is_long else (1, 2, 5)
            axis.set_major_locator(LogLocator(own.base, subs=subs))
            axis.set_major_formatter((lambda x, _: f"2^{math.log2(x):g}") if own.exponents else "{x:g}")
            axis.set_minor_formatter("")
    canvas.legend(loc="outside lower center", ncols=columns, fontsize="small", frameon=False, handletextpad=0.2)
    return inline(canvas, name, f"{figure.title}, {title}, for {', '.join(points)}")


def _traced(figure: Traces, data: str, records: Sequence[Record], name: str) -> list[tuple[str, str]]:
    """Draw the traces of the first record of every method that has them: captions and SVG elements."""
    firsts: dict[str, dict[str, Any]] = {}
    for record in records:
        if trace := record.outcome.traces.get(figure.trace):
            firsts.setdefault(named(record.cell.method), trace)
    drawn = []
    for k, (method, trace) in enumerate(firsts.items()):
        with page_style(names=True):
            svg = _lines_of_sites(figure, f"{data}, {method}", trace, f"{name}-{k}")
        drawn.append((f"{figure.title}: {data}, {method}. {figure.note}".rstrip(), svg))
    return drawn


def _lines_of_sites(figure: Traces, title: str, trace: Mapping[str, Any], name: str) -> str:
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import MaxNLocator

    canvas: Any = Canvas(figsize=_SIZE, layout="constrained")
    ax = canvas.subplots()
    ax.grid(alpha=0.5, linewidth=0.6)
    names = None if figure.boxes else trace.get("names")
    if figure.boxes:
        _draw_boxes(ax, trace)
    elif names:
        _draw_named(ax, figure, trace)
    else:
        for k, line in enumerate(trace["lines"]):
            label = None if k else "a node"
            ax.plot(trace["x"], line, color="C0", linestyle="-", linewidth=0.8, alpha=0.5, label=label)
        ax.axhline(trace["level"], color="C1", linestyle="--", label=figure.level)
    ax.set(xlabel=figure.x, ylabel=figure.y)
    if figure.logarithmic:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
    elif not figure.boxes and max(trace["x"]) == round(max(trace["x"])):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    canvas.legend(loc="outside lower center", ncols=3 if names else 2, fontsize="small", frameon=False)
    lines = ", ".join(names) if names else f"{len(trace['lines'])} nodes"
    return inline(canvas, name, f"{figure.title}, {title}, for {lines}")


def _draw_boxes(ax: Any, trace: Mapping[str, Any]) -> None:
    """Draw box plots of the sites' values at some of the points; the median alone is seen where all are equal."""
    places = np.unique(np.linspace(0, len(trace["x"]) - 1, _BOXES).round().astype(int))
    values = [[line[k] for line in trace["lines"]] for k in places]
    drawn = ax.boxplot(values, whis=(0, 100), showmeans=True, medianprops={"color": "C3"})
    drawn["medians"][0].set_label("median of the sites")
    drawn["means"][0].set_label("mean of the sites")
    ax.set_xticks(range(1, len(places) + 1), [number(trace["x"][k], 2) for k in places], fontsize="small", rotation=40)


def _draw_named(ax: Any, figure: Traces, trace: Mapping[str, Any]) -> None:
    """Draw lines with markers, or pillars side by side up to the points."""
    n, places = len(trace["names"]), np.array(trace["x"])
    for k, (name, line) in enumerate(zip(trace["names"], trace["lines"], strict=True)):
        if figure.pillars:
            ax.bar(places + (k - (n - 1) / 2) * 0.25, line, width=0.2, label=name)
        else:
            marker = _MARKERS[k] if len(places) <= _MARKED else ""
            ax.plot(places, line, marker=marker, markersize=3, linestyle="-", linewidth=1, label=name)
    if figure.pillars:
        low, high = min(map(min, trace["lines"])), max(map(max, trace["lines"]))
        ax.set_ylim(low - 0.3 * (high - low) - 0.5, high + 0.1 * (high - low) + 0.5)
