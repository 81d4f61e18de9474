"""History of the certificates of a site, for its status."""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.problems.objectives import relative

MAX_ENTRIES = 200
"""Number of entries, which limits the size of a status: a picture shows no more of them."""


class CertificateHistory:
    """Certificates since the site has started, with means over the outputs of the machine.

    If there are too many, every second one is dropped, and later ones are recorded less often, so
    that they stay evenly spread over time.
    """

    def __init__(self) -> None:
        self.entries: list[dict[str, float]] = []
        self._spacing = 0.0  # Seconds between entries.

    def add(self, seconds: float, status: dict[str, Any]) -> None:
        """Record the certificate of a learner's status, if it is new and finite.

        The seconds are those of the site's clock.
        """
        primal, dual = (np.array(status.get(name, ()), dtype=float) for name in ("objective", "dual_objective"))
        if not primal.size or not np.isfinite([primal, dual]).all():  # An objective may be None, which is not finite.
            return
        bounds = {
            "objective": float(primal.mean()),
            "dual_objective": float(dual.mean()),
            "gap": float(relative(primal - dual, primal).max()),
        }
        if self.entries:
            last = self.entries[-1]
            if bounds.items() <= last.items() or seconds < last["seconds"] + self._spacing:
                return
        self.entries.append({"seconds": seconds, "round": status["round"], **bounds})
        if len(self.entries) > MAX_ENTRIES:
            self._spacing = 2 * (seconds - self.entries[0]["seconds"]) / MAX_ENTRIES
            del self.entries[1::2]
