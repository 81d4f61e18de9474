"""Line search on a convex, piecewise quadratic function, by its slopes at several steps at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def step_to_minimum(points: list[tuple[float, float]]) -> float:
    """Return a step near the minimum, given steps and their slopes; nan if these do not suffice.

    A step whose slope is at most a hundredth of the first one is accepted. So is the zero of the
    line through the two slopes of different sign, if the objective falls more before these two
    steps than it can rise between them. The result is zero if rounding makes the direction ascend.
    """
    points = sorted(points)
    if points[0][1] >= 0:
        return 0.0
    step, slope = min(points, key=lambda point: abs(point[1]))
    if abs(slope) <= 0.01 * abs(points[0][1]):
        return step
    above = next((k for k, (_, slope) in enumerate(points) if slope > 0), None)
    if above is None:
        return np.nan
    (low, below), (high, beyond) = points[above - 1 : above + 1]
    middle = low - below * (high - low) / (beyond - below)
    fall = sum((b - a) * -slope for (a, _), (b, slope) in pairwise(points[:above]))
    return middle if fall > (middle - low) * beyond else np.nan


def next_steps(points: list[tuple[float, float]]) -> list[float]:
    """Return steps to try, around the zero of the line through the two slopes of different sign."""
    low, below = max((point for point in points if point[1] <= 0), default=(0.0, 0.0))
    high, above = min((point for point in points if point[1] > 0), default=(np.inf, 0.0))
    if not np.isfinite(high):
        return [low * factor for factor in (2, 4, 8, 16, 32)]
    if (low, high) == (0, 1):
        return [0.05, 0.2, 0.4, 0.6, 0.8]
    middle = low - below * (high - low) / (above - below)
    if low == 0:
        return [middle / factor for factor in (4096, 512, 64, 8, 1)]
    return [(low + middle) / 2, (low + 3 * middle) / 4, middle, (3 * middle + high) / 4, (middle + high) / 2]
