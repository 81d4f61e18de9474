"""Tables of a link on the other sites of its swarm: who lives, and how many messages went each way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from dimargin.gossip.limits import LIMITS


@dataclass
class KnownSites:
    """Tables by site name, for at most `LIMITS.sites` names; they must be locked by their user.

    A mark names a session of a site by its start and its id.
    """

    name: str  # Name of this site.
    wanted: frozenset[str] | None  # Sites to exchange messages with; None for all.
    alive: dict[str, set[str]] = field(default_factory=dict)  # Marks of live sessions.
    dropped: Counter[str] = field(default_factory=Counter)  # Messages that were not sent, by receiver.
    _met: dict[str, None] = field(default_factory=dict)  # Marks received in this session, the oldest first.
    _sent: Counter[str] = field(default_factory=Counter)  # Number of the last message, by receiver.
    _received: dict[str, int] = field(default_factory=dict)  # Number of the last message, by sender.

    def names(self) -> tuple[str, ...]:
        """Return the sorted names of the live sites with which this one exchanges messages."""
        return tuple(sorted(name for name, marks in self.alive.items() if marks and self.is_wanted(name)))

    def is_wanted(self, name: str) -> bool:
        """Return whether to exchange messages with a site."""
        return name != self.name and (self.wanted is None or name in self.wanted)

    def has_room_for(self, name: str) -> bool:
        """Return whether the tables have room for a name, after removing sites that have gone if they are full."""
        if name in self.alive or name in self._received:
            return True
        if self.count >= LIMITS.sites:
            for gone in [one for one in {*self.alive, *self._received, *self._sent} if not self.alive.get(one)]:
                for table in (self.alive, self._received, self._sent, self.dropped):
                    table.pop(gone, None)
        return len(name) <= LIMITS.name and self.count < LIMITS.sites

    @property
    def count(self) -> int:
        """Number of sites that have shown a sign of life or sent a message."""
        return len({*self.alive, *self._received})

    def update(self, name: str, mark: str, is_alive: bool) -> None:
        """Record a sign of life of a session, or its end."""
        marks = self.alive.setdefault(name, set())
        if not is_alive:
            marks.discard(mark)
        elif len(marks) < 16:  # A site that succeeds its killed self needs two.
            marks.add(mark)
            self._met[mark] = None
            if len(self._met) > 16 * LIMITS.sites:
                del self._met[next(iter(self._met))]

    def silent(self, connected: Collection[str]) -> set[str]:
        """Return the ids of connected sessions that were alive in this session, and are not now."""
        speaking = {mark.split("-")[1] for marks in self.alive.values() for mark in marks}
        return {mark.split("-")[1] for mark in self._met}.intersection(connected) - speaking

    def next_number(self, to: str) -> int:
        """Return the number of the next message to a site."""
        self._sent[to] += 1
        return self._sent[to]

    def receive(self, sender: str, number: int) -> int:
        """Record a message; return how many messages of its sender before it have been lost."""
        before = self._received.get(sender, number - 1)
        self._received[sender] = number
        return max(0, number - before - 1)

    def end_session(self) -> None:
        """Forget who is alive."""
        self.alive.clear()
        self._met.clear()
