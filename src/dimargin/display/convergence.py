"""Plot of the convergence of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

from dimargin.display.gap_axis import end_of_axis, set_ticks
from dimargin.display.style import ABOVE, GREY, MARKERS, panels_on, spans_a_power_of_ten
from dimargin.display.unwrap import innermost, uncalibrated
from dimargin.estimators.callbacks import LevelScores
from dimargin.system.arrays import Floats

_LEVELS_NOTE = "each level is a different problem: a part has fewer rows and a lower objective"


@dataclass(kw_only=True, eq=False, repr=False)
class ConvergenceDisplay:
    """Score, objective and relative duality gap of a fit against its cost, level by level.

    A numbered disc marks the last entry of each level; dots mark the checks of the gap within a
    level. The disc is hollow above level 0, where the objective is the weighted mean over the
    partitions (with strategy "dc" the sum) and the gap is that of the worst partition. It is filled
    at level 0, where both belong to the whole problem. With strategy "landmark" they belong to the
    problem in the space of the landmarks, which is solved for some of the rows above level 0.

    The objective may rise from level to level, because each level is a different problem: a part
    fits only its own rows, so the mean objective of the parts is at most that of one machine for
    all rows. A note above the panel says so.

    Use `from_estimator`; all parameters are stored as attributes.

    Parameters
    ----------
    level, partitions : ndarray of int of shape (n_entries,)
        Level and number of partitions of each entry of the history.
    seconds, kernel_evaluations : ndarray of shape (n_entries,)
        Cumulative cost at the end of each entry.
    objective, relative_gap : ndarray of shape (n_entries,)
        With more than two classes, the sum of the objectives and the gap of the worst class. The
        logarithmic axis of the gap ends a power of ten below `tol` (without a `tol` at 2.2e-16),
        and smaller gaps are drawn at its end, because gaps below the tolerance are not meaningful.
    scores : dict of int to float, default=None
        Score of the model of each level.
    score_name : str, default="score"
    n_samples : int, default=None
        Number of rows; if given, kernel evaluations are drawn in units of its square.
    tol : float, default=None
        Tolerance of the relative gap, drawn as a line.
    name : str, default=None
        Name of the fit in the legend.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (n_panels,)
        Score (if there are scores), objective, relative gap.
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D of length n_panels
        One line per panel, through all its entries.

    Examples
    --------
    >>> from dimargin import ConvergenceDisplay, LevelScores, ODMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(800, noise=0.2, random_state=0)
    >>> scores = LevelScores(X[600:], y[600:])
    >>> machine = ODMClassifier(strategy="diodm", n_levels=2, random_state=0).set_callbacks(scores)
    >>> display = ConvergenceDisplay.from_estimator(machine.fit(X[:600], y[:600]), scores=scores)
    >>> [axes.get_ylabel() for axes in display.axes_]
    ['accuracy', 'objective', 'relative gap']
    """

    level: NDArray[np.int64]
    partitions: NDArray[np.int64]
    seconds: Floats
    kernel_evaluations: Floats
    objective: Floats
    relative_gap: Floats
    scores: dict[int, float] | None = None
    score_name: str = "score"
    n_samples: int | None = None
    tol: float | None = None
    name: str | None = None

    def plot(
        self,
        ax: Any = None,
        *,
        x: Literal["seconds", "kernel_evaluations"] = "seconds",
        name: str | None = None,
        curve_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : array-like of matplotlib Axes, default=None
            One for each panel: two, or three with scores. Pass the ``axes_`` of another display to
            draw both fits into one figure. None makes a new figure.
        x : {"seconds", "kernel_evaluations"}, default="seconds"
            Measure of the cost.
        name : str, default=None
            Defaults to the `name` of the display.
        curve_kwargs : dict, default=None
            Keyword arguments of matplotlib's ``plot`` for every curve.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `x` is invalid, or the number of axes differs from the number of panels.
        ImportError
            Without matplotlib.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        _check_x(x)
        ends = np.flatnonzero(np.r_[np.diff(self.level) != 0, True])
        every = np.arange(len(self.level))
        gap = np.maximum(self.relative_gap, end_of_axis(self.tol))
        panels = [("objective", every, self.objective), ("relative gap", every, gap)]
        if self.scores is not None:
            values = np.array([self.scores[int(level)] for level in self.level[ends]])
            panels.insert(0, (self.score_name, ends, values))
        self.axes_ = panels_on(ax, [label for label, _, _ in panels], (6.4, 1 + 2.2 * len(panels)))
        self.figure_, self.lines_ = self.axes_[0].figure, []
        squares = x == "kernel_evaluations" and self.n_samples is not None
        cost = getattr(self, x) / (self.n_samples**2 if squares and self.n_samples else 1)
        fits = len(_fits(self.axes_[0]))
        # Lines are dotted if they connect levels, because these are different problems.
        style = {"marker": MARKERS[fits % len(MARKERS)], "markersize": 3, "linewidth": 1, "gid": "fit"}
        style |= {"linestyle": ":" if len(ends) > 1 else "-"} | normalize_kwargs(curve_kwargs or {}, Line2D)
        for axes, (label, indices, values) in zip(self.axes_, panels, strict=True):
            self.lines_ += axes.plot(cost[indices], values, **style)
            style.setdefault("color", self.lines_[0].get_color())
            for index, value in zip(indices, values, strict=True):
                if index in ends:
                    _numbered_disc(axes, cost[index], value, int(self.level[index]), style["color"])
            axes.set_ylabel(label)
            axes.grid(alpha=0.3)
            axes.margins(y=0.2)
            axes.autoscale(axis="x")
            right = axes.get_xlim()[1]
            axes.set_xlim(-0.03 * right, right)
        if spans_a_power_of_ten(self.objective):
            self.axes_[-2].set_yscale("log")
        unit = {"seconds": "seconds", "kernel_evaluations": f"kernel evaluations{' / n²' if squares else ''}"}
        self.axes_[-1].set(xlabel=unit[x], yscale="log")
        self._draw_tolerance()
        self._legends(ends, name or self.name)
        return self

    def _draw_tolerance(self) -> None:
        """Draw the tolerance, and end the axis of the gap below those of all fits in it."""
        axes = self.axes_[-1]
        gid = f"tol {self.tol:g}" if self.tol else None
        if gid and gid not in [line.get_gid() for line in axes.lines]:
            axes.axhline(self.tol, color=GREY, linestyle="--", linewidth=1, gid=gid, label=gid)
        ends = [end_of_axis(line.get_ydata()[0]) for line in axes.lines if str(line.get_gid()).startswith("tol")]
        drawn = np.concatenate([line.get_ydata() for line in _fits(axes)])
        drawn = drawn[np.isfinite(drawn)]
        if self.tol and len(drawn):
            low, high = min(*ends, drawn.min()), max(self.tol, drawn.max())
            room = 0.12 * np.log10(high / low)  # The discs need some space at both ends.
            axes.set_ylim(low / 10**room, high * 10**room)
            set_ticks(axes, ends, high)

    def _legends(self, ends: NDArray[np.intp], name: str | None) -> None:
        """Add legends above the panels, which list the levels and explain the discs."""
        from matplotlib.lines import Line2D

        count = [f"{self.level[i]}: {self.partitions[i]}" if self.level[i] else "0: whole problem" for i in ends]
        above = self.level > 0
        # Strategy "landmark" solves a part of the rows first, without other partitions.
        in_part = bool(above.any() and (self.partitions == 1).all())
        if above.any():
            count[0] = f"{self.level[ends[0]]}: part of the rows" if in_part else f"{count[0]} partitions"
        self.lines_[0].set_label(f"{name + ', ' if name else ''}level {', '.join(count)}")
        self.axes_[0].legend(handles=_fits(self.axes_[0]), **ABOVE)
        rises = bool((np.diff(self.objective[ends]) > 0).any())
        # Proxies represent the discs of all fits in the axes.
        for index, partitioned in (-2, "of the partitions"), (-1, "worst partition"):
            axes = self.axes_[index]
            gids = {line.get_gid() for line in axes.lines}
            texts = {"partitioned": "part of the rows" if in_part else partitioned, "global": "whole problem"}
            proxies = [
                Line2D([], [], label=text, **_disc(gid, GREY, axes) | {"markersize": 8})
                for gid, text in texts.items()
                if gid in gids and "partitioned" in gids
            ]
            lines = [line for line in axes.lines if str(line.get_gid()).startswith("tol")]
            note = axes.get_gid() == _LEVELS_NOTE or (index == -2 and rises)
            axes.set_gid(_LEVELS_NOTE if note else None)
            title = {"title": _LEVELS_NOTE, "title_fontsize": "small", "alignment": "left"} if note else {}
            fits = _fits(axes) if axes is self.axes_[0] else []
            handles = fits + proxies + lines
            if handles:
                axes.legend(handles=handles, ncols=1 if fits else len(handles), **ABOVE | title)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        x: Literal["seconds", "kernel_evaluations"] = "seconds",
        scores: LevelScores | None = None,
        name: str | None = None,
        ax: Any = None,
        curve_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the ``history_`` of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier of this package
            The classifier, or a pipeline or search around one.
        x, ax, curve_kwargs
            See `plot`.
        scores : LevelScores, default=None
            The callback of this fit; adds a panel.
        name : str, default=None
            Defaults to the name of the class.

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        NotFittedError, TypeError
            If `estimator` is not fitted, or has no ``history_``.
        ValueError
            If `x` is invalid, or `scores` belongs to another fit.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        _check_x(x)
        check_is_fitted(estimator)
        inner = innermost(uncalibrated(estimator))
        history: list[dict[str, Any]] | None = getattr(inner, "history_", None)
        if history is None:
            raise TypeError(f"estimator must have a history_; {type(inner).__name__} has none")
        level = np.array([entry["level"] for entry in history])
        by_level = None
        if scores is not None:
            by_level = {entry["level"]: entry["score"] for entry in getattr(scores, "scores_", [])}
            levels = list(dict.fromkeys(level.tolist()))
            if list(by_level) != levels:
                raise ValueError(
                    f"scores must belong to this fit with levels {levels}, got scores of levels {list(by_level)}"
                )
        scoring = scores.scoring if scores is not None else None
        display = cls(
            level=level,
            partitions=np.array([entry["partitions"] for entry in history]),
            seconds=np.cumsum([entry["seconds"] for entry in history]),
            kernel_evaluations=np.cumsum([float(entry["kernel_evaluations"]) for entry in history]),
            objective=np.array([float(np.sum(entry["objective"])) for entry in history]),
            relative_gap=np.array([entry["relative_gap"] for entry in history]),
            scores=by_level,
            score_name="accuracy" if scoring is None else scoring if isinstance(scoring, str) else "score",
            n_samples=getattr(inner, "_n_given", None),
            tol=getattr(inner, "tol", None),
            name=type(inner).__name__ if name is None else name,
        )
        return display.plot(ax, x=x, curve_kwargs=curve_kwargs)


def _check_x(x: str) -> None:
    if x not in ("seconds", "kernel_evaluations"):
        raise ValueError(f"x must be 'seconds' or 'kernel_evaluations', got {x!r}")


def _fits(axes: Any) -> list[Any]:
    return [line for line in axes.lines if line.get_gid() == "fit"]


def _disc(gid: str, color: Any, axes: Any) -> dict[str, Any]:
    face = color if gid == "global" else axes.get_facecolor()
    return {"gid": gid, "marker": "o", "markersize": 12, "linestyle": "", "color": color, "markerfacecolor": face}


def _numbered_disc(axes: Any, x: float, y: float, level: int, color: Any) -> None:
    axes.plot(x, y, **_disc("partitioned" if level else "global", color, axes))
    number = color if level else axes.get_facecolor()
    axes.annotate(str(level), (x, y), ha="center", va="center_baseline", fontsize=8, color=number)
