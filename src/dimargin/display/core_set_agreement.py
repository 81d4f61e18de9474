"""Plot of the consensus of sites on a core-set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

from dimargin.display.style import ABOVE, BAND_ALPHA, foreground, panels_on
from dimargin.display.unwrap import innermost
from dimargin.system.arrays import Floats

_REQUIRED_KEYS = ("round", "core_sets", "radius_min", "radius_mean", "radius_max", "farthest")


@dataclass(kw_only=True, eq=False, repr=False)
class CoreSetConsensusDisplay:
    """Radii of the sites' balls and number of different core-sets in each round of a consensus run.

    These are the figures of section V of the core-set paper. The radii rise to that of the smallest
    ball around all points, the farthest point comes within ``1 + epsilon`` times this radius, and
    all sites end with the same core-set.

    All parameters are stored as attributes.

    Parameters
    ----------
    round : ndarray of shape (n_entries,)
    core_sets : ndarray of shape (n_entries,)
        Number of different core-sets.
    radius_min, radius_mean, radius_max : ndarray of shape (n_entries,)
        Smallest, mean and largest radius over the sites.
    farthest : ndarray of shape (n_entries,)
        Largest distance between any point and the centre of any site's ball.
    best : float
        Radius of the smallest ball around all points; radii and distances are divided by it.
    epsilon : float, default=None
        Draws a line at ``1 + epsilon``.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (2,)
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.display import CoreSetConsensusDisplay
    >>> entry = {"round": 1, "core_sets": 3, "radius_min": 0.5, "radius_mean": 0.6, "radius_max": 0.7, "farthest": 2.0}
    >>> last = {"round": 2, "core_sets": 1, "radius_min": 1.0, "radius_mean": 1.0, "radius_max": 1.0, "farthest": 1.0}
    >>> display = CoreSetConsensusDisplay.from_history([entry, last], best=1.0, epsilon=0.1)
    >>> [axes.get_ylabel() for axes in display.axes_]
    ['relative to the smallest ball', 'different core-sets']

    >>> from dimargin import CoreSetSVDD
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = CoreSetSVDD(C=float("inf"), n_sites=5, topology="ring", random_state=0).fit(X)
    >>> display = CoreSetConsensusDisplay.from_estimator(detector)
    >>> int(display.core_sets[-1]), f"{display.radius_mean[-1] / display.best:.3f}"
    (1, '1.000')
    """

    round: Floats
    core_sets: Floats
    radius_min: Floats
    radius_mean: Floats
    radius_max: Floats
    farthest: Floats
    best: float
    epsilon: float | None = None

    def plot(self, ax: Any = None) -> Self:
        """Draw the two panels.

        Parameters
        ----------
        ax : array-like of two matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `ax` is not two axes.
        ImportError
            Without matplotlib.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        from matplotlib.ticker import FuncFormatter, LogFormatter, MaxNLocator

        self.axes_ = panels_on(ax, ["radii", "core-sets"], (6.4, 5.6), height_ratios=(3, 2))
        self.figure_ = self.axes_[0].figure
        above, below = self.axes_
        (line,) = above.plot(self.round, self.radius_mean / self.best, marker="o", markersize=4, label="mean radius")
        band = {"color": line.get_color(), "alpha": BAND_ALPHA, "linewidth": 0, "label": "smallest to largest"}
        above.fill_between(self.round, self.radius_min / self.best, self.radius_max / self.best, **band)
        above.plot(self.round, self.farthest / self.best, marker="s", markersize=4, label="farthest point")
        thin = {"color": foreground(), "linewidth": 1}
        above.axhline(1.0, **thin, label="ball around all points")
        if self.epsilon is not None:
            above.axhline(1 + self.epsilon, **thin, linestyle="--", label=f"1 + epsilon = {1 + self.epsilon:g}")
        above.set_ylabel("relative to the smallest ball")
        below.plot(self.round, self.core_sets, marker="o", markersize=4)
        below.set_yscale("log")
        below.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        below.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.4)))
        below.set_ylabel("different core-sets")
        below.set_xlabel("round")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        for axes in self.axes_:
            axes.grid(alpha=0.3)
        above.legend(ncols=3, **ABOVE)
        return self

    @classmethod
    def from_history(
        cls, history: Sequence[dict[str, Any]], *, best: float, epsilon: float | None = None, ax: Any = None
    ) -> Self:
        """Draw the history of a run.

        Parameters
        ----------
        history : list of dict
            Entries with ``round``, ``core_sets``, ``radius_min``, ``radius_mean``, ``radius_max``
            and ``farthest``, as in `dimargin.gossip.simulation.core_set_run.CoreSetRun`. Entries
            that lack any of them, because no site has a ball yet, are skipped.
        best, epsilon
            See `CoreSetConsensusDisplay`.
        ax
            See `plot`.

        Returns
        -------
        CoreSetConsensusDisplay

        Raises
        ------
        ValueError
            If no entry has all of these keys.
        """
        check_matplotlib_support(f"{cls.__name__}.from_history")
        entries = [entry for entry in history if all(key in entry for key in _REQUIRED_KEYS)]
        if not entries:
            raise ValueError(f"history must have entries with {', '.join(_REQUIRED_KEYS)}; got none")
        columns = {key: np.array([float(entry[key]) for entry in entries]) for key in _REQUIRED_KEYS}
        return cls(**columns, best=best, epsilon=epsilon).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the ``history_`` of a detector that was fitted by several sites.

        Parameters
        ----------
        estimator : fitted CoreSetSVDD with `n_sites` above one
            The detector, or a pipeline or search around one. Radii and distances are those in the
            feature space of its kernel. With a finite `C` they include the slack, and points may
            stay outside all balls.
        ax
            See `plot`.

        Returns
        -------
        CoreSetConsensusDisplay
            Its ``best`` is the square root of the detector's ``dual_objective_``.

        Raises
        ------
        NotFittedError, TypeError
            If `estimator` is not fitted, or its ``history_`` has no radii of several sites.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        inner = innermost(estimator)
        history: Sequence[dict[str, Any]] = getattr(inner, "history_", [])
        if not any("radius_mean" in entry for entry in history):
            name, sites = type(inner).__name__, getattr(inner, "n_sites", None)
            given = f"a {name}" if sites is None else f"a {name} with n_sites={sites}"
            raise TypeError(f"estimator must be a CoreSetSVDD with n_sites above one, got {given}")
        return cls.from_history(history, best=float(inner.dual_objective_) ** 0.5, ax=ax)
