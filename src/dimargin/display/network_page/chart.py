"""Line charts as coordinates, which a template draws as SVG without matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_TIME_UNITS = (("seconds", 1.0), ("minutes", 60.0), ("hours", 3600.0), ("days", 86400.0))
_MIN_GAP = 1e-16  # Smaller values are drawn here: zero has no place on a logarithmic axis.


@dataclass(frozen=True)
class Axis:
    """Axis from the first of its ticks to the last one, which are multiples of `step`."""

    low: float
    high: float
    step: float

    @classmethod
    def for_values(cls, values: Sequence[float], min_step: float = 0.0) -> Axis:
        """Return an axis with two to six ticks at round numbers that includes all values."""
        span = max(values) - min(values) or abs(values[0]) or 1.0
        power = 10.0 ** math.floor(math.log10(span / 4))
        step = max(next(m * power for m in (1, 2, 5, 10) if m * power >= span / 4 * (1 - 1e-9)), min_step)
        low, high = math.floor(min(values) / step) * step, math.ceil(max(values) / step) * step
        return cls(low, max(high, low + step), step)

    @property
    def ticks(self) -> list[float]:
        """Values of the ticks."""
        return [self.low + k * self.step for k in range(round((self.high - self.low) / self.step) + 1)]

    def share(self, value: float) -> float:
        """Return how far along the axis a value is, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Chart:
    """Lines over time; positions are shares of the width, and of the height from the bottom."""

    lines: list[list[tuple[float, float]]]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    unit: str  # Unit of time.


def line_chart(seconds: Sequence[float], *lines: Sequence[float]) -> Chart:
    """Return a chart of values over time."""
    axis = Axis.for_values([value for line in lines for value in line])
    return _chart(seconds, lines, axis, [f"{value:.6g}" for value in axis.ticks])


def gap_chart(seconds: Sequence[float], gaps: Sequence[float]) -> Chart:
    """Return a chart of gaps over time, as percentages on a logarithmic axis."""
    powers = [math.log10(max(gap, _MIN_GAP)) for gap in gaps]
    axis = Axis.for_values(powers, min_step=1.0)
    return _chart(seconds, [powers], axis, [f"{100 * 10.0**power:,.6g}%" for power in axis.ticks])


def _chart(seconds: Sequence[float], lines: Sequence[Sequence[float]], axis: Axis, names: list[str]) -> Chart:
    unit, factor = max(
        (one for one in _TIME_UNITS if one[1] * 3 <= max(seconds)), key=lambda one: one[1], default=_TIME_UNITS[0]
    )
    time = Axis.for_values([0.0, max(seconds) / factor])
    return Chart(
        [[(time.share(x / factor), axis.share(y)) for x, y in zip(seconds, line, strict=True)] for line in lines],
        [(time.share(tick), f"{tick:g}") for tick in time.ticks],
        list(zip(map(axis.share, axis.ticks), names, strict=True)),
        unit,
    )
