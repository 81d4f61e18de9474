"""Plot of the accuracy of gossiping sites during training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils._optional_dependencies import check_matplotlib_support

from dimargin.display.site_accuracies import accuracies_of_sites
from dimargin.display.style import ABOVE, BAND_ALPHA, MARKERS, foreground, panels_on, spans_a_power_of_ten
from dimargin.estimators import GossipSVMClassifier
from dimargin.estimators.fit_progress import observed
from dimargin.system.arrays import Floats

_AXIS_LABELS = {"round": "round", "seconds": "seconds", "bytes": "bytes sent by all sites"}
_REQUIRED_KEYS = (*_AXIS_LABELS, "accuracy_min", "accuracy_mean", "accuracy_max")


@dataclass(kw_only=True, eq=False, repr=False)
class PerformanceProfileDisplay:
    """Accuracy of the sites of a gossip run against rounds, seconds or bytes.

    This is the performance profile of the GADGET paper. The line is the mean over the sites, and
    the band reaches from the worst site to the best. A second panel shows the objective of the
    consensus, with a band up to the worst site. A cost that grows by more than a factor of ten has
    a logarithmic axis, which omits entries with zero cost.

    All parameters are stored as attributes.

    Parameters
    ----------
    round, seconds, bytes : ndarray of shape (n_entries,)
        Cumulative cost at each entry of the history, over all sites.
    accuracy_min, accuracy_mean, accuracy_max : ndarray of shape (n_entries,)
        Smallest, mean and largest accuracy over the sites.
    objective, worst_objective : ndarray of shape (n_entries,), default=None
        Objectives of the consensus and of the worst site, summed over the classes if there are more
        than two. They add the second panel.
    n_sites : int, default=None
    central_accuracy, central_objective : float, default=None
        Accuracy and objective of a centralised machine, drawn as horizontal lines.
    name : str, default=None
        Name of the run in the legend.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (n_panels,)
        Accuracy and, where there is one, objective.
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D of length n_panels
    bands_ : list of matplotlib FillBetweenPolyCollection of length n_panels
    estimator_ : GossipSVMClassifier
        The machine that `from_estimator` has fitted; only that method sets it.

    Examples
    --------
    >>> from dimargin import GossipSVMClassifier, PerformanceProfileDisplay
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, 10, class_sep=2.0, random_state=0)
    >>> machine = GossipSVMClassifier(n_sites=5, topology="ring", alpha=1e-2, shards="sorted", random_state=0)
    >>> display = PerformanceProfileDisplay.from_estimator(machine, X[:1000], y[:1000])
    >>> [axes.get_ylabel() for axes in display.axes_], display.axes_[-1].get_xlabel()
    (['accuracy', 'objective'], 'round')
    """

    round: Floats
    seconds: Floats
    bytes: Floats
    accuracy_min: Floats
    accuracy_mean: Floats
    accuracy_max: Floats
    objective: Floats | None = None
    worst_objective: Floats | None = None
    n_sites: int | None = None
    central_accuracy: float | None = None
    central_objective: float | None = None
    name: str | None = None
    estimator_: GossipSVMClassifier = field(init=False)

    def plot(
        self,
        ax: Any = None,
        *,
        x: Literal["round", "seconds", "bytes"] = "round",
        name: str | None = None,
        curve_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : array-like of matplotlib Axes, default=None
            One for each panel. Pass the ``axes_`` of another display to draw both runs into one
            figure. None makes a new figure.
        x : {"round", "seconds", "bytes"}, default="round"
            Measure of the cost.
        name : str, default=None
            Defaults to the `name` of the display.
        curve_kwargs : dict, default=None
            Keyword arguments of matplotlib's ``plot`` for every line; bands have the line's color.

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
        cost = np.asarray(getattr(self, x), dtype=np.float64)
        wide = bool(cost.max() > 10 * cost[cost > 0].min(initial=np.inf))
        panels = [("accuracy", self.accuracy_mean, self.accuracy_min, self.accuracy_max)]
        if self.objective is not None and self.worst_objective is not None:
            panels.append(("objective", self.objective, self.objective, self.worst_objective))
        self.axes_ = panels_on(ax, [panel[0] for panel in panels], (6.4, 1.2 + 2.2 * len(panels)))
        wide = wide or self.axes_[0].get_xscale() == "log"
        self.figure_, self.lines_, self.bands_ = self.axes_[0].figure, [], []
        shown = (cost > 0) | (not wide)
        runs = sum(line.get_gid() == "run" for line in self.axes_[0].lines)
        style = {"marker": MARKERS[runs % len(MARKERS)], "markersize": 4, "linewidth": 1.5, "gid": "run"}
        style |= normalize_kwargs(curve_kwargs or {}, Line2D)
        for axes, (label, line, low, high) in zip(self.axes_, panels, strict=True):
            self.lines_ += axes.plot(cost[shown], line[shown], **style)
            style.setdefault("color", self.lines_[0].get_color())
            shade = {"color": style["color"], "alpha": BAND_ALPHA, "linewidth": 0, "gid": "band"}
            self.bands_.append(axes.fill_between(cost[shown], low[shown], high[shown], **shade))
            if not (np.diff(cost[shown]).any() and (high[shown] > low[shown]).any()):
                self.bands_[-1].set_gid("empty band")
            axes.set_ylabel(label)
            axes.grid(alpha=0.3)
        self._draw_central()
        self._scale(x, wide)
        self._legends(name or self.name)
        return self

    def _draw_central(self) -> None:
        """Draw lines at the values of a centralised machine, once for all runs."""
        for axes, central, text in (
            (self.axes_[0], self.central_accuracy, "centralised, {:.1%}"),
            (self.axes_[-1], self.central_objective, "centralised, {:.4g}"),
        )[: len(self.axes_)]:
            label = None if central is None else text.format(central)
            if label is not None and label not in [line.get_label() for line in axes.lines]:
                axes.axhline(central, color=foreground(), linestyle="--", linewidth=1, gid="central", label=label)

    def _scale(self, x: str, wide: bool) -> None:
        from matplotlib.ticker import EngFormatter, FuncFormatter, NullFormatter

        for axes in self.axes_:
            if wide:
                axes.set_xscale("log", nonpositive="mask")
                axes.xaxis.set_minor_formatter(NullFormatter())
            axes.xaxis.set_major_formatter(EngFormatter("B") if x == "bytes" else FuncFormatter(lambda v, _: f"{v:g}"))
        self.axes_[-1].set_xlabel(_AXIS_LABELS[x])
        accuracy = self.axes_[0]
        accuracy.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:g}%"))
        accuracy.autoscale(axis="y")  # Earlier runs in the same axes must stay visible.
        accuracy.set_ylim(top=min(accuracy.get_ylim()[1], 1.005))
        if self.objective is not None and spans_a_power_of_ten(self.objective):
            self.axes_[-1].set_yscale("log")

    def _legends(self, name: str | None) -> None:
        """Add legends above the panels, which name the runs and explain the lines and bands."""
        from matplotlib.legend_handler import HandlerTuple

        mean = f"mean of {'all' if self.n_sites is None else self.n_sites} sites"
        self.lines_[0].set_label(f"{name}, {mean}" if name else mean)
        for axes in self.axes_:
            runs = [line for line in axes.lines if line.get_gid() == "run" and np.isfinite(line.get_ydata()).any()]
            bands = tuple(band for band in axes.collections if band.get_gid() == "band")
            central = [line for line in axes.lines if line.get_gid() == "central"]
            entries: list[tuple[Any, str]] = [(line, str(line.get_label())) for line in runs]
            band_label = "worst site to best"
            if axes is not self.axes_[0]:
                entries, band_label = [(tuple(runs), "consensus of all sites")] if runs else [], "up to the worst site"
            entries += [(bands, band_label)] if bands else []
            entries += [(line, str(line.get_label())) for line in central]
            if entries:
                handles, labels = zip(*entries, strict=True)
                side_by_side = {tuple: HandlerTuple(ndivide=None, pad=0.3)}
                columns = 2 if axes is self.axes_[0] else 3
                axes.legend(handles, labels, ncols=columns, handler_map=side_by_side, **ABOVE)

    @classmethod
    def from_history(
        cls,
        history: Sequence[dict[str, Any]],
        *,
        x: Literal["round", "seconds", "bytes"] = "round",
        central_accuracy: float | None = None,
        central_objective: float | None = None,
        name: str | None = None,
        ax: Any = None,
        curve_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the history of a run.

        Parameters
        ----------
        history : list of dict
            Entries with ``round``, ``seconds``, ``bytes``, ``accuracy_min``, ``accuracy_mean`` and
            ``accuracy_max``; if all entries have them, also ``objective`` and ``worst_objective``.
            ``partitions`` is the number of sites.
        x, name, ax, curve_kwargs
            See `plot`.
        central_accuracy, central_objective : float, default=None
            Accuracy and objective of a centralised machine.

        Returns
        -------
        PerformanceProfileDisplay

        Raises
        ------
        ValueError
            If `x` is invalid, or the history is empty or lacks any of the required keys.
        """
        check_matplotlib_support(f"{cls.__name__}.from_history")
        _check_x(x)
        missing = [key for key in _REQUIRED_KEYS if not all(key in entry for entry in history)]
        if not history or missing:
            found = f"entries without {', '.join(missing)}" if missing else "no entries"
            raise ValueError(f"history must have entries with {', '.join(_REQUIRED_KEYS)}; got {found}")
        both = all({"objective", "worst_objective"} <= set(entry) for entry in history)
        known = (*_REQUIRED_KEYS, "objective", "worst_objective") if both else _REQUIRED_KEYS
        columns: dict[str, Any] = {key: np.array([float(np.sum(entry[key])) for entry in history]) for key in known}
        central: dict[str, Any] = {"central_accuracy": central_accuracy, "central_objective": central_objective}
        display = cls(**columns, **central, n_sites=history[-1].get("partitions"), name=name)
        return display.plot(ax, x=x, curve_kwargs=curve_kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: GossipSVMClassifier, X: Any, y: Any, *, X_test: Any = None, y_test: Any = None, **options: Any
    ) -> Self:
        """Fit a clone of an estimator, and draw the accuracy of its sites during the fit.

        Parameters
        ----------
        estimator : GossipSVMClassifier
        X, y
            Training rows and labels, as in `GossipSVMClassifier.fit`.
        X_test, y_test : default=None
            Rows to measure accuracy on; defaults to the training rows.
        **options
            Further arguments of `from_history`.

        Returns
        -------
        PerformanceProfileDisplay
            Its ``estimator_`` is the fitted clone.

        Raises
        ------
        TypeError, ValueError
            If `estimator` is invalid, only one of `X_test`, `y_test` is given, or for unknown
            labels.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        if not isinstance(estimator, GossipSVMClassifier):
            raise TypeError(f"estimator must be a GossipSVMClassifier, got a {type(estimator).__name__}")
        if (X_test is None) != (y_test is None):
            raise ValueError("X_test and y_test must be given together")
        rows, labels = (X, y) if X_test is None else (X_test, y_test)
        machine = clone(estimator)
        evaluate = accuracies_of_sites(check_array(rows, accept_sparse="csr"), labels, np.unique(y))
        with observed(machine, evaluate_sites=evaluate):
            machine.fit(X, y)
        display = cls.from_history(machine.history_, **options)
        display.estimator_ = machine
        return display


def _check_x(x: str) -> None:
    if x not in _AXIS_LABELS:
        raise ValueError(f"x must be {' or '.join(map(repr, _AXIS_LABELS))}, got {x!r}")
