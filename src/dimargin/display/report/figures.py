"""Pictures of the page as SVG elements, or empty strings if matplotlib is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.display import ConvergenceDisplay, MarginDistributionDisplay
from dimargin.display.report.curves import ClassCurves, Reliability, thinned
from dimargin.display.report.predictions import Predictions
from dimargin.display.report.residuals import Residuals
from dimargin.display.report.svg import inline, page_style
from dimargin.display.report.words import percent, plain
from dimargin.display.unwrap import innermost
from dimargin.system.arrays import Floats

MAX_CURVES = 5  # More curves in one picture are hard to distinguish.


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def _drawn(draw: Callable[..., str]) -> Callable[..., str]:
    @wraps(draw)
    def drawn(*arguments: Any) -> str:
        return draw(*arguments) if can_draw() else ""

    return drawn


def convergence(model: Any) -> tuple[str, str]:
    """Draw the history of the fit; also return a description of its levels."""
    if not can_draw():
        return "", ""
    with page_style():
        figure, axes = _axes(2, height=4.4)
        display = ConvergenceDisplay.from_estimator(model, ax=axes, name="")
        axes[0].set_xlim(right=1.05 * axes[0].get_xlim()[1])  # The last disc must fit.
        _without_legends(axes)
        svg = inline(figure, "history", "Objective and relative gap against the seconds of the fit")
        return svg, str(display.lines_[0].get_label())


def margins(found: Floats, theta: float | None, multiclass: bool) -> tuple[str, str]:
    """Draw the distribution of margins; also return its statistics as text."""
    if not can_draw():
        return "", ""
    with page_style():
        figure, (ax,) = _axes()
        display = MarginDistributionDisplay(margins=[found], name="", theta=theta, multiclass=multiclass).plot(ax)
        for line in display.lines_:
            line.set_data(*thinned(*line.get_data()))
        summary = str(display.lines_[0].get_label()).removeprefix(": ")
        _without_legends([ax])
        right = ax.get_xlim()[1]  # The axis always shows some negative margins.
        ax.set(xlim=(min(ax.get_xlim()[0], -0.12 * abs(right)), right), ylim=(-0.03, 1.03))
        return inline(figure, "margins", f"Cumulative distribution of the margins: {summary}"), summary


@_drawn
def roc(curves: Sequence[ClassCurves], classes: Sequence[Any]) -> str:
    """Draw ROC curves; if there are many, only those with the smallest areas."""
    with page_style(names=True):
        figure, (ax,) = _axes()
        ax.plot([0, 1], [0, 1], linestyle=":", linewidth=1, color="#808080")
        # With two classes, one curve is the mirror image of the other.
        drawn = curves[-1:] if len(classes) == 2 else worst(curves, [c.area for c in curves])
        areas = _plot_curves(ax, [(classes[c.index], *c.roc, c.area) for c in drawn])
        ax.set(xlabel="false positive rate", ylabel="true positive rate")
        _legend(ax, "ROC area", "lower right")
        return inline(figure, "roc", f"Receiver operating characteristic; areas: {areas}")


@_drawn
def precision_recall(curves: Sequence[ClassCurves], classes: Sequence[Any]) -> str:
    """Draw precision against recall; of many curves, those of the smallest average precision."""
    with page_style(names=True):
        figure, (ax,) = _axes()
        drawn = worst(curves, [c.average_precision for c in curves])
        averages = _plot_curves(ax, [(classes[c.index], *c.precision_recall, c.average_precision) for c in drawn])
        ax.set(xlabel="recall", ylabel="precision")
        _legend(ax, "average precision", "lower left")
        return inline(figure, "precision-recall", f"Precision against recall; average precision: {averages}")


def _plot_curves(ax: Any, curves: Sequence[tuple[Any, Floats, Floats, float]]) -> str:
    """Plot a curve per class in the unit square; return the names of the classes with their measures."""
    measured = [(plain(name, 24), measure) for name, _, _, measure in curves]
    for (name, measure), (_, x, y, _) in zip(measured, curves, strict=True):
        ax.plot(x, y, label=f"{name}: {measure:.3f}")
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    return ", ".join(f"{name} {measure:.3f}" for name, measure in measured)


@_drawn
def calibration(found: Reliability, score: str, outcome: str) -> str:
    """Draw the observed frequency for groups of similar scores."""
    with page_style(names=True):
        figure, (ax,) = _axes()
        if found.is_probability:
            ax.plot([0, 1], [0, 1], linestyle=":", linewidth=1, color="#808080")
        errors = np.abs([found.share - found.low, found.high - found.share])
        ax.errorbar(found.score, found.share, yerr=errors, marker="o", markersize=4, capsize=2, elinewidth=1)
        ax.set(xlabel=plain(score), ylabel=plain(outcome), ylim=(-0.03, 1.03))
        pairs = ", ".join(f"{percent(share)} at {at:.2g}" for at, share in zip(found.score, found.share, strict=True))
        return inline(figure, "calibration", f"Observed frequency by score: {pairs}")


@_drawn
def residuals(found: Residuals, epsilon: float, max_points: int = 1000) -> str:
    """Draw residuals against predictions, of every k-th row by prediction if there are many; shade the band."""
    with page_style():
        figure, (ax,) = _axes()
        order = np.argsort(found.predicted, kind="stable")
        rows = order[np.linspace(0, len(order) - 1, min(len(order), max_points)).astype(int)]
        ax.axhspan(-epsilon, epsilon, color="#808080", alpha=0.2, linewidth=0)
        ax.axhline(0, color="#808080", linewidth=1)
        ax.plot(found.predicted[rows], found.values[rows], linestyle="", marker=".", markersize=4, alpha=0.6)
        ax.set(xlabel="prediction", ylabel="target minus prediction")
        ax.locator_params(axis="x", nbins=5)  # Six digits must fit below the ticks.
        largest = np.abs(found.values).max()
        return inline(figure, "residuals", f"Residuals against predictions; the largest is {largest:.4g}")


@_drawn
def decile_errors(deciles: Sequence[dict[str, float]]) -> str:
    """Draw the mean of absolute errors and their 90% quantile against the targets."""
    with page_style():
        figure, (ax,) = _axes()
        for name, label, style in (("error", "mean", "-"), ("large", "90% quantile", ":")):
            points = [[one["center"] for one in deciles], [one[name] for one in deciles]]
            ax.plot(*points, marker="o", markersize=4, linestyle=style, label=label)
        ax.set(xlabel="target", ylabel="absolute error", ylim=(0, None))
        _legend(ax, "", "best")
        pairs = ", ".join(f"{one['error']:.3g} at {one['center']:.3g}" for one in deciles)
        return inline(figure, "decile-errors", f"Mean absolute error by target: {pairs}")


@_drawn
def histogram(values: Floats, share: float | None = None) -> str:
    """Draw a histogram of the decision values of an outlier detector, with their quantile of a share."""
    with page_style():
        figure, (ax,) = _axes()
        counts, edges = np.histogram(values, bins=40)
        ax.stairs(counts, edges, fill=True, alpha=0.75)
        ax.axvline(0, color="#808080", linewidth=1)
        if share is not None:
            ax.axvline(float(np.quantile(values, share)), linestyle=":", color="#c2500a")
        place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        ax.annotate("outliers", (0, 1), (-4, 0), **place, ha="right", va="top", fontsize="small", color="#808080")
        ax.set(xlabel="decision value", ylabel="rows")
        n_outliers = int((values < 0).sum())
        return inline(
            figure, "histogram", f"Histogram of decision values; {n_outliers} of {len(values)} are below zero"
        )


def theta_of(model: Any, found: Predictions) -> float | None:
    """Return the half width of the band of margins without loss; None without a band."""
    theta = getattr(innermost(model), "theta", None)
    return float(theta) if len(found.classes) == 2 and theta is not None else None


def worst(curves: Sequence[ClassCurves], scores: Sequence[float]) -> list[ClassCurves]:
    """Return the `MAX_CURVES` curves with the smallest scores, in the order of the classes."""
    order: NDArray[np.intp] = np.sort(np.argsort(scores, kind="stable")[:MAX_CURVES])
    return [curves[k] for k in order]


def _axes(n: int = 1, height: float = 3.3) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    # A width of 4.4 inches is readable on the screen of a phone.
    figure = Figure(figsize=(4.4, height), layout="constrained")
    axes = np.ravel(figure.subplots(n, 1, sharex=True))
    for ax in axes:
        ax.grid(alpha=0.5, linewidth=0.6)
    return figure, axes


def _without_legends(axes: Any) -> None:
    """Remove legends, which are too large for small pictures and repeat the captions."""
    for ax in axes:
        if ax.get_legend() is not None:
            ax.get_legend().remove()


def _legend(ax: Any, title: str, place: str) -> None:
    ax.legend(title=title, title_fontsize="small", fontsize="small", loc=place, framealpha=0.85)
