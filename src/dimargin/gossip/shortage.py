"""Decision when a site whose descriptors are all taken by strangers opens its link again."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

_ALONE = 10.0  # Seconds without a free descriptor, after which a site without neighbours has nothing to lose.
_MAX_PATIENCE = 3600.0  # Seconds without a free descriptor, after which the link is opened again in any case.
_MAX_HUNG_UP = 0.25  # Share of descriptors held by strangers who have hung up, above which it is opened at once.
_CALM = 10.0  # Seconds with a free descriptor, after which the shortage is over.


@dataclass
class Shortage:
    """Shortage of descriptors at one site.

    While no descriptor is free, nobody can connect, even after strangers have hung up, until the link is opened again.
    Neighbours that are connected then compete with strangers for descriptors. So the link stays open as long as all
    neighbours are there. If some are missing it is opened again after 10 s, 20 s, 40 s and so on, until all have come.
    """

    lease: float  # of the link
    _since: float = math.inf  # when the last free descriptor was taken
    _last: float = -math.inf  # when no descriptor was free
    _patience: float = _ALONE
    _expected: set[str] = field(default_factory=set)  # neighbours before the shortage, or since

    @property
    def is_there(self) -> bool:
        """Return whether no descriptor was free the last time."""
        return self._since < math.inf

    def is_due(self, now: float, is_free: bool, neighbours: Collection[str], hung_up: Callable[[], float]) -> bool:
        """Return whether to open the link again.

        Parameters
        ----------
        now : float
            Seconds on a clock that never goes back.
        is_free : bool
            Whether there is a free descriptor.
        neighbours : collection of str
            Names of the sites that are connected.
        hung_up : callable
            Returns the share of descriptors that are connections which the other side has ended.
        """
        if is_free:
            self._since = math.inf
            if now - self._last > _CALM:
                self._expected, self._patience = set(neighbours), _ALONE
            return False
        self._since, self._last = min(self._since, now), now
        self._expected.update(neighbours)
        some_are_missing = bool(neighbours) and len(self._expected) > len(neighbours)
        if now - self._since <= self._seconds(neighbours, some_are_missing, hung_up()):
            return False
        if some_are_missing:
            self._patience = min(2 * self._patience, _MAX_PATIENCE)
        self._since = math.inf
        return True

    def _seconds(self, neighbours: Collection[str], some_are_missing: bool, hung_up: float) -> float:
        if hung_up > _MAX_HUNG_UP:
            return self.lease
        if not neighbours:
            return _ALONE
        return self._patience if some_are_missing else _MAX_PATIENCE
