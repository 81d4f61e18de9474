"""Progress of a site: its rounds between steps, and its estimates of the objective of all rows."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from dimargin.system.arrays import Floats


@dataclass
class Progress:
    """History of smoothed objectives, recorded each time the number of steps has grown by 2 %."""

    entries: list[tuple[int, float]] = field(default_factory=list)
    smooth: float = 0.0
    quiet: int = 0  # Number of steps in a row in which the stopping rule has held.
    rounds: int = 0  # Rounds since the last step.
    estimate: Floats | None = None  # Gossiped estimate in the last round, if steps wait until it settles.

    def is_step_due(self, gossip_rounds: float, estimate: Floats | None) -> bool:
        """Count a round; return whether a step is due.

        With `gossip_rounds` below one, it is due when the estimate changes by less than this share
        in a round.
        """
        self.rounds += 1
        if estimate is None:
            return self.rounds >= gossip_rounds
        before, self.estimate = (0.0 if self.estimate is None else self.estimate), estimate
        change = float(np.linalg.norm(estimate - before))
        return change <= gossip_rounds * max(float(np.linalg.norm(estimate)), 1e-300)

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
