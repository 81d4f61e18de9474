"""Neighbours of a site: those that it can reach, those that it hears, and those that it has refused.

Refusals and their reasons are kept here only: a site's program, its learner and its runner use the
same `Neighbourhood`, or share its refusals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field


@dataclass
class Neighbourhood:
    """Neighbours of one site, by name."""

    # Silence in seconds after which a neighbour counts as gone; infinite if sites need not answer.
    lease: float
    # A neighbour is refused if it sends more messages than this per second of this site's clock. A
    # burst of messages that is read after a pause of up to a minute is allowed.
    max_messages: float = float("inf")
    names: tuple[str, ...] = ()  # Sites that the network can reach.
    heard: dict[str, float] = field(default_factory=dict)  # Time of each neighbour's last message.
    refused: dict[str, str] = field(default_factory=dict)  # Ignored neighbours, with the reason.
    redeemable: set[str] = field(default_factory=set)  # Refused neighbours whose messages may end the refusal.
    old: Counter[str] = field(default_factory=Counter)  # Messages of each neighbour that brought nothing new.
    _new: Counter[str] = field(default_factory=Counter)  # Messages of each neighbour that brought something new.
    _last_message: float = 0.0  # Time of the last message of any neighbour.
    _busy: tuple[float, float] = 0.0, 0.0  # End of the last pause without messages, and its seconds.
    _excess: dict[str, tuple[float, float]] = field(default_factory=dict)  # Messages above the rate, and their time.

    def change(self, names: Collection[str]) -> None:
        """Replace the names of the sites that the network can reach."""
        self.names = tuple(names)

    @property
    def spoken_to(self) -> list[str]:
        """Names of the neighbours that receive messages."""
        return [name for name in self.names if name not in self.refused]

    def gone(self, now: float) -> list[str]:
        """Return the neighbours that have been silent for longer than the lease, and remove them from `heard`."""
        silent = [name for name, heard in self.heard.items() if now - heard > self.lease]
        for name in silent:
            del self.heard[name]
        return silent

    def hear(self, now: float, name: str) -> str | None:
        """Record that a message has come; return why its sender must be refused, or None."""
        self.heard[name] = now
        if math.isinf(self.max_messages):
            return None
        if now - self._last_message > 1.0:
            self._busy = now, min(now - self._last_message, 60.0)
        self._last_message = now
        excess, last = self._excess.get(name, (0.0, 0.0))
        back, seconds = self._busy
        # After a pause, as many messages as could have come meanwhile are allowed.
        min_excess = -self.max_messages * seconds if last < back else min(excess, 0.0)
        excess = max(excess - self.max_messages * (now - last), min_excess) + 1
        self._excess[name] = excess, now
        if excess > self.max_messages:
            return f"it sends more than {self.max_messages:.0f} messages a second"
        return None

    def judge(self, name: str, is_new: bool) -> str | None:
        """Record whether a message brought something new; return why its sender must be refused, or None.

        Networks repeat and reorder some messages, but not most of them.
        """
        (self._new if is_new else self.old)[name] += 1
        if self.old[name] > 100 + 3 * self._new[name]:
            return f"it repeats old messages: {self.old[name]}, with {self._new[name]} new ones"
        return None

    def hears(self, name: str) -> bool:
        """Return whether a neighbour's messages are read at all."""
        return name not in self.refused or name in self.redeemable

    def refuse(self, name: str, reason: str) -> None:
        """Ignore a neighbour from now on."""
        self.refused[name] = reason
        self.redeemable.discard(name)
        self.heard.pop(name, None)

    def readmit(self, name: str) -> None:
        """Undo a refusal."""
        self.redeemable.discard(name)
        del self.refused[name]

    def share_refusals(self, other: Neighbourhood) -> None:
        """Share all refusals, present and future, with another neighbourhood of the same site."""
        self.refused, self.redeemable = other.refused, other.redeemable


def lower_median(progress: Iterable[int]) -> int:
    """Return the lower median of the neighbours' progress, which one liar of two cannot raise, or zero."""
    found = sorted(progress)
    return found[(len(found) - 1) // 2] if found else 0
