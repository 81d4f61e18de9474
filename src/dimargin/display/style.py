"""Shared style of the displays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dimargin.system.arrays import Floats

# Options of a legend above its axes, where it hides no data.
ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "frameon": False, "fontsize": "small"}
MARKERS = "os^Dv"  # They distinguish the fits in the same axes without colors.
GREY = "0.5"  # It marks what belongs to all fits, and is visible in light and dark styles.
BAND_ALPHA = 0.22  # Two overlapping bands, and lines behind them, stay distinguishable.


def panels_on(ax: Any, names: Sequence[str], size: tuple[float, float], **options: Any) -> Any:
    """Return one axes per panel: those given, or those of a new figure of this size if `ax` is None.

    Raises ValueError for another number of axes; `options` are those of matplotlib's ``subplots``.
    """
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(len(names), 1, sharex=True, figsize=size, layout="constrained", **options)
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != len(names):
        raise ValueError(f"ax must be {len(names)} axes ({', '.join(names)}), got {len(axes)}")
    return axes


def below(ax: Any) -> dict[str, Any]:
    """Return options of a legend below the x axis, which leaves room for a title above."""
    import matplotlib
    from matplotlib.transforms import ScaledTranslation

    down = ScaledTranslation(0, -(10 + 2.6 * matplotlib.rcParams["font.size"]) / 72, ax.figure.dpi_scale_trans)
    place = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": ax.transAxes + down, "borderaxespad": 0}
    return ABOVE | place


def foreground() -> str:
    """Return the text color, which is visible in light and dark styles."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def spans_a_power_of_ten(values: Floats) -> bool:
    """Return whether finite values are positive and differ by more than a factor of ten."""
    known = values[np.isfinite(values)]
    return bool(0 < 10 * np.min(known, initial=np.inf) < np.max(known, initial=-np.inf))
