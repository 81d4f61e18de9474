"""Neighbours of a site: those that it can reach, those that it hears, and those that it has refused.

Whom a site refuses, and why, stands here alone: its program, what the program learns by, and what runs it ask and tell
the same `Neighbourhood`, or share its refusals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

_BUSY = 60.0  # seconds of messages that may be read at once


@dataclass
class Neighbourhood:
    """Neighbours of one site, by name."""

    # seconds of silence after which a neighbour counts as gone; infinite where receivers need not send anything back
    lease: float
    # per second that one neighbour may send, by this site's own clock, before it is refused; those that came while the
    # site was busy for up to a minute, and are read all at once, do no harm
    max_messages: float = float("inf")
    names: tuple[str, ...] = ()  # of the sites that the network can reach
    heard: dict[str, float] = field(default_factory=dict)  # when each neighbour was heard last
    refused: dict[str, str] = field(default_factory=dict)  # neighbours that are ignored, with the reason
    redeemable: set[str] = field(default_factory=set)  # refused ones that are heard, as they may be taken in again
    old: Counter[str] = field(default_factory=Counter)  # messages of each neighbour that brought nothing new
    _new: Counter[str] = field(default_factory=Counter)
    _awake: float = 0.0  # when any message was heard last
    _busy: tuple[float, float] = 0.0, 0.0  # when the site came back from not hearing any for so many seconds
    _excess: dict[str, tuple[float, float]] = field(default_factory=dict)  # messages beyond the rate, and when

    def change(self, names: Collection[str]) -> None:
        """Replace the names of the sites that the network can reach."""
        self.names = tuple(names)

    @property
    def spoken_to(self) -> list[str]:
        """Names of the neighbours that are sent messages."""
        return [name for name in self.names if name not in self.refused]

    def gone(self, now: float) -> list[str]:
        """Return the neighbours that have been silent for longer than the lease, and count them as heard no more."""
        silent = [name for name, heard in self.heard.items() if now - heard > self.lease]
        for name in silent:
            del self.heard[name]
        return silent

    def hear(self, now: float, name: str) -> str | None:
        """Record that a message has come; return why its sender is to be refused, or None."""
        self.heard[name] = now
        if math.isinf(self.max_messages):
            return None
        if now - self._awake > 1.0:
            self._busy = now, min(now - self._awake, _BUSY)
        self._awake = now
        excess, last = self._excess.get(name, (0.0, 0.0))
        back, seconds = self._busy
        least = -self.max_messages * seconds if last < back else min(excess, 0.0)  # what came meanwhile may be read
        excess = max(excess - self.max_messages * (now - last), least) + 1
        self._excess[name] = excess, now
        if excess > self.max_messages:
            return f"it sends more than {self.max_messages:.0f} messages a second"
        return None

    def judge(self, name: str, is_new: bool) -> str | None:
        """Record whether a message brought something new; return why its sender is to be refused, or None.

        Networks repeat messages and let them overtake one another, but not most of them.
        """
        (self._new if is_new else self.old)[name] += 1
        if self.old[name] > 100 + 3 * self._new[name]:
            return f"it repeats old messages: {self.old[name]}, with {self._new[name]} new ones"
        return None

    def hears(self, name: str) -> bool:
        """Return whether what a neighbour sends is read at all."""
        return name not in self.refused or name in self.redeemable

    def refuse(self, name: str, reason: str) -> None:
        """Ignore a neighbour from now on."""
        self.refused[name] = reason
        self.redeemable.discard(name)
        self.heard.pop(name, None)

    def take_in(self, name: str) -> None:
        """Undo a refusal."""
        self.redeemable.discard(name)
        del self.refused[name]

    def share_refusals(self, other: Neighbourhood) -> None:
        """Refuse whom another neighbourhood of the same site refuses, from now on too, and the other way round."""
        self.refused, self.redeemable = other.refused, other.redeemable
