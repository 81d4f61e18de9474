"""Progress of a site, measured by its estimates of the objective of all rows."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Progress:
    """History of smoothed objectives, recorded each time the number of steps has grown by 2 %."""

    entries: list[tuple[int, float]] = field(default_factory=list)
    smooth: float = 0.0

    def add(self, step: int, objective: float) -> float:
        """Add an objective; return its relative range over the second half of the steps, or infinity if unknown."""
        if not np.isfinite(objective):
            return np.inf
        first = not self.entries
        self.smooth = objective if first else self.smooth + (objective - self.smooth) * min(1.0, 10 / step)
        if first or step >= 1.02 * self.entries[-1][0]:
            self.entries.append((step, self.smooth))
        half = bisect_right(self.entries, (step / 2, np.inf)) - 1
        if step < 20 or half < 0:
            return np.inf
        since = [self.smooth, *(value for _, value in self.entries[half:])]
        return (max(since) - min(since)) / max(abs(self.smooth), 1e-300)
