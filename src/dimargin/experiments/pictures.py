"""Pictures of results, as SVG in the colours of the page."""

from __future__ import annotations

from typing import Any

from dimargin.experiments.declarations import Figure
from dimargin.experiments.metrics import METRICS
from dimargin.experiments.run import Results
from dimargin.experiments.tables import named
from dimargin.report.svg import inline, page_style

_SIZE = (4.4, 3.7)  # inches: readable across a phone
_MARKERS = "osD^vPX*<>h"  # eleven: with the five colors of the page, 55 methods look different
_LOGARITHMIC = ("seconds", "prediction_seconds", "kernel_evaluations", "support_vectors", "bytes", "messages")


def pictures(results: Results, data: str) -> list[tuple[str, str]]:
    """Draw the figures of a data set: their captions and SVG elements, but for those whose metrics no method has."""
    place = [facts.name for facts in results.data].index(data)
    found = []
    for k, figure in enumerate(results.experiment.figures):
        if points := _points(figure, results, data):
            with page_style(names=True):
                svg = _scattered(figure, data, points, f"data-{place}-{k}")
            found.append((f"{figure.title}. {figure.note}".rstrip(), svg))
    return found


def _points(figure: Figure, results: Results, data: str) -> dict[str, list[tuple[float, float]]]:
    """Return the points of every method, one for each of its cells that has both metrics."""
    points: dict[str, list[tuple[float, float]]] = {}
    for record in results.records:
        metrics = record.outcome.metrics
        if record.cell.data == data and figure.x in metrics and figure.y in metrics:
            pair = (METRICS[figure.x].factor * metrics[figure.x], METRICS[figure.y].factor * metrics[figure.y])
            points.setdefault(named(record.cell.method), []).append(pair)
    return points


def _scattered(figure: Figure, data: str, points: dict[str, list[tuple[float, float]]], name: str) -> str:
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import LogLocator

    canvas: Any = Canvas(figsize=_SIZE, layout="constrained")
    ax = canvas.subplots()
    ax.grid(alpha=0.5, linewidth=0.6)
    for k, (method, pairs) in enumerate(points.items()):
        ax.plot(*zip(*pairs, strict=True), linestyle="", marker=_MARKERS[k % len(_MARKERS)], label=method)
    ax.set(xlabel=METRICS[figure.x].heading, ylabel=METRICS[figure.y].heading)
    ax.set(**{f"{axis}scale": "log" for axis, metric in (("x", figure.x), ("y", figure.y)) if metric in _LOGARITHMIC})
    for axis, metric in ((ax.xaxis, figure.x), (ax.yaxis, figure.y)):
        if metric in _LOGARITHMIC:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
    canvas.legend(loc="outside lower center", ncols=3, fontsize="small", frameon=False, handletextpad=0.2)
    return inline(canvas, name, f"{figure.title}, {data}, for {', '.join(points)}")
