"""Pictures of results, as SVG in the colours of the page."""

from __future__ import annotations

from typing import Any

from dimargin.experiments.declarations import Figure
from dimargin.experiments.metrics import METRICS
from dimargin.experiments.run import Results
from dimargin.experiments.tables import named
from dimargin.report.figures import can_draw
from dimargin.report.svg import inline, page_style

_SIZE = (4.4, 3.7)  # inches: readable across a phone
_MARKERS = "osD^vPX*<>"
_LOGARITHMIC = ("seconds", "prediction_seconds", "kernel_evaluations", "support_vectors", "bytes", "messages")


def pictures(results: Results, data: str) -> list[tuple[Figure, str]]:
    """Draw the figures of a data set; without matplotlib there is no text in place of an element."""
    number = [facts.name for facts in results.data].index(data)
    return [
        (figure, _drawn(figure, results, data, f"data-{number}-{k}") if can_draw() else "")
        for k, figure in enumerate(results.experiment.figures)
    ]


def _drawn(figure: Figure, results: Results, data: str, name: str) -> str:
    points: dict[str, list[tuple[float, float]]] = {}
    for record in results.records:
        metrics = record.outcome.metrics
        if record.cell.data == data and figure.x in metrics and figure.y in metrics:
            pair = (METRICS[figure.x].factor * metrics[figure.x], METRICS[figure.y].factor * metrics[figure.y])
            points.setdefault(named(record.cell.method), []).append(pair)
    if not points:
        return ""
    with page_style(names=True):
        return _scattered(figure, data, points, name)


def _scattered(figure: Figure, data: str, points: dict[str, list[tuple[float, float]]], name: str) -> str:
    from matplotlib.figure import Figure as Canvas

    canvas: Any = Canvas(figsize=_SIZE, layout="constrained")
    ax = canvas.subplots()
    ax.grid(alpha=0.5, linewidth=0.6)
    for k, (method, pairs) in enumerate(points.items()):
        ax.plot(*zip(*pairs, strict=True), linestyle="", marker=_MARKERS[k % len(_MARKERS)], label=method)
    ax.set(xlabel=METRICS[figure.x].heading, ylabel=METRICS[figure.y].heading)
    ax.set(**{f"{axis}scale": "log" for axis, metric in (("x", figure.x), ("y", figure.y)) if metric in _LOGARITHMIC})
    canvas.legend(loc="outside lower center", ncols=3, fontsize="small", frameon=False, handletextpad=0.2)
    return inline(canvas, name, f"{figure.title}, {data}, for {', '.join(points)}")
