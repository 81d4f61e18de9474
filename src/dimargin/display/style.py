"""Look that the displays share."""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.system.arrays import Floats

# a legend above its axes, where it hides nothing
ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "frameon": False, "fontsize": "small"}

MARKERS = "os^Dv"  # of one fit after the other in the same axes, which tell them apart without their colors


def below(ax: Any) -> dict[str, Any]:
    """Return the place of a legend below the label of the x axis, which leaves room for a title above."""
    import matplotlib
    from matplotlib.transforms import ScaledTranslation

    down = ScaledTranslation(0, -(10 + 2.6 * matplotlib.rcParams["font.size"]) / 72, ax.figure.dpi_scale_trans)
    place = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": ax.transAxes + down, "borderaxespad": 0}
    return ABOVE | place


def foreground() -> str:
    """Return the color of text, which stands out in light and dark styles."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def spans_a_power_of_ten(values: Floats) -> bool:
    """Return whether values want a logarithmic axis: all that are finite are positive, and some ten times others."""
    known = values[np.isfinite(values)]
    return bool(0 < 10 * np.min(known, initial=np.inf) < np.max(known, initial=-np.inf))
