"""The logarithmic axis of the relative gap, which ends below the tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.system.arrays import UNIT


def end_of_axis(tol: float | None) -> float:
    """Return the lower end of the axis, a power of ten below the tolerance, if there is one."""
    return float(10.0 ** (np.floor(np.log10(tol) + 1e-9) - 1)) if tol else 2 * UNIT


def set_ticks(axes: Any, ends: list[float], high: float) -> None:
    """Put ticks at powers of ten, marked "at most" where smaller gaps are drawn."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogFormatterSciNotation

    low = round(np.log10(min(ends)))
    powers = np.arange(low, np.log10(high) + 1e-9, max(1, round(np.log10(high) - low) // 5))
    plain = LogFormatterSciNotation()
    plain.set_axis(axes.yaxis)

    def text(value: float, _: int) -> str:
        at_most = np.isclose(ends, value, rtol=1e-6, atol=0).any()
        return ("$\\leq$" if at_most else "") + str(plain(value))

    axes.yaxis.set_major_locator(FixedLocator((10.0**powers).tolist()))
    axes.yaxis.set_major_formatter(FuncFormatter(text))
