"""Rule for when a site whose descriptors are all taken by strangers reopens its link."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field


@dataclass
class Shortage:
    """Shortage of descriptors at one site.

    While no descriptor is free, nobody can connect, even after strangers have hung up, until the
    link is reopened. Connected neighbours then compete with strangers for descriptors. So the link
    stays open as long as all neighbours are connected. If some are missing, it is reopened after 10
    s, 20 s, 40 s and so on, until all are back.
    """

    lease: float  # Seconds of silence after which the link takes a site as gone.
    min_patience: float = 10.0  # Seconds without a free descriptor after which a lonely site reopens its link.
    max_patience: float = 3600.0  # Seconds without a free descriptor after which any site reopens its link.
    _since: float = math.inf  # Time at which the last free descriptor was taken.
    _last: float = -math.inf  # Last time at which no descriptor was free.
    _patience: float = field(init=False)
    _expected: set[str] = field(default_factory=set)  # Neighbours before or during the shortage.

    def __post_init__(self) -> None:
        self._patience = self.min_patience

    @property
    def is_there(self) -> bool:
        """Return whether no descriptor was free at the last check."""
        return self._since < math.inf

    def is_due(self, now: float, is_free: bool, neighbours: Collection[str], hung_up: Callable[[], float]) -> bool:
        """Return whether to reopen the link.

        Parameters
        ----------
        now : float
            Seconds on a clock that never goes back.
        is_free : bool
            Whether there is a free descriptor.
        neighbours : collection of str
            Names of the sites that are connected.
        hung_up : callable
            Returns the share of descriptors whose connections the other side has ended.
        """
        if is_free:
            self._since = math.inf
            if now - self._last > 10.0:  # A descriptor has been free for ten seconds: the shortage is over.
                self._expected, self._patience = set(neighbours), self.min_patience
            return False
        self._since, self._last = min(self._since, now), now
        self._expected.update(neighbours)
        some_are_missing = bool(neighbours) and len(self._expected) > len(neighbours)
        if now - self._since <= self._max_seconds(neighbours, some_are_missing, hung_up()):
            return False
        if some_are_missing:
            self._patience = min(2 * self._patience, self.max_patience)
        self._since = math.inf
        return True

    def _max_seconds(self, neighbours: Collection[str], some_are_missing: bool, hung_up: float) -> float:
        if hung_up > 0.25:  # Reopening the link frees a quarter of the descriptors.
            return self.lease
        if not neighbours:
            return self.min_patience
        return self._patience if some_are_missing else self.max_patience
