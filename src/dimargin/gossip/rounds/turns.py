"""Turns of two neighbours, which exchange numbered messages in step over a link that loses and repeats messages.

Each end of an edge sends its message n + 1 once it has used the other's message n, so that an end
is at most one message ahead of the other. Either end may close the edge because the other is
silent, and reopen it; both then count from one again. Earlier messages are recognised by the `life`
of the sender's end, which grows whenever it closes the edge, and by the life of the receiver's end
that the sender knows. Numbers belong to the edge, and not to the rounds of the sites: a site that
comes late, and groups of sites that were separated, can exchange messages immediately.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Count, Digest, Message, decoder, encode

Life = Annotated[int, Meta(ge=1, le=LIMITS.lives)]


class Turn(msgspec.Struct, frozen=True, array_like=True):
    """Part of every message of two neighbours, by which they keep step."""

    life: Life = 1  # Life of the sender's end of the edge.
    # Life of the receiver's end, as far as the sender knows; 0 before its first message arrives.
    knows: Annotated[int, Meta(ge=0, le=LIMITS.lives)] = 0
    number: Count = 0  # Number of this message; 0 for a mere sign of life.
    acknowledged: Count = 0  # Number up to which the sender has all messages of the receiver.
    is_ready: bool = True  # Whether the sender hears the receiver, and takes part or is ready to.


class Step(Message, frozen=True):
    """Base class of messages of rounds."""

    turn: Turn
    round: Count  # Round of the sender.
    degree: Count  # Number of neighbours with which the sender exchanges messages in rounds.
    schema: Digest  # Digest of the sender's schema.


class Waiting(Step, frozen=True, tag="waiting", omit_defaults=True):
    """Message of a site that lives and waits for the messages after the number that it acknowledges."""

    since: Count = 0  # Round of the last change of the problem that the sender knows.


@dataclass
class Edge:
    """One end of an edge; `life` and `knows` are as in `Turn`.

    While it is open, the site sends messages over it and waits for the other's.
    """

    life: int = 1
    knows: int = 0
    is_met: bool = False  # Whether the other end was heard since this one was closed, and may reopen the edge.
    is_open: bool = False
    sent: int = 0  # Number of the newest message to the other end.
    received: int = 0  # Number up to which all messages of the other end have come.
    kept: dict[int, Step] = field(default_factory=dict)  # The last two messages sent.
    inbox: dict[int, Step] = field(default_factory=dict)  # Messages that the site has not used yet.
    sent_at: dict[int, float] = field(default_factory=dict)  # Time at which each message in `kept` was last sent.
    waits_since: float = 0.0  # Start of the wait for the other end's message; reopening the edge does not change it.
    owes: bool = False  # Whether the other end has sent no message of a turn since then.
    stuck: int = 0  # Number of times the edge was closed because the other end was heard but made no progress.
    closed_until: float = 0.0

    def close(self) -> None:
        """End the exchange at this end; the other end learns it from the life."""
        self._forget()
        self.life, self.is_met = min(self.life + 1, LIMITS.lives), False

    def open(self, now: float) -> None:
        """Open the edge, and number messages from one."""
        self._forget()
        self.is_open = True
        self._wait(now)

    def _wait(self, now: float) -> None:
        """Wait for the other end's message of this turn; reopening the edge repeatedly gains it no time."""
        if not self.owes:
            self.waits_since = now
        self.owes = not self.is_complete

    def excuse(self) -> None:
        """Forget how long the other end has sent nothing, since it is left out for that."""
        self.owes = False

    def _forget(self) -> None:
        self.is_open, self.sent, self.received = False, 0, 0
        self.sent_at.clear()
        self.kept.clear()
        self.inbox.clear()

    def add(self, message: Step, now: float) -> Step:
        """Number the next message, and return it for sending."""
        self.sent += 1
        self.kept = {number: old for number, old in self.kept.items() if number == self.sent - 1}
        self.kept[self.sent] = message
        self._wait(now)
        return self.stamped(self.sent, now)

    def stamped(self, number: int, now: float) -> Step:
        """Return a kept message with the current state of the edge."""
        self.sent_at[number] = now
        return msgspec.structs.replace(self.kept[number], turn=self.turn(number))

    def turn(self, number: int = 0) -> Turn:
        """Return the turn of a message."""
        return Turn(self.life, self.knows, number, self.received, self.is_open or self.is_met)

    def hear(self, turn: Turn, now: float) -> bool:
        """Update this end by the other's turn; return whether either end has closed or forgotten the exchange."""
        if turn.life < self.knows:
            return False
        was_open, ended = self.is_open, False
        if turn.knows > self.life or (turn.knows == self.life and turn.acknowledged > self.sent):
            self.life = min(turn.knows, LIMITS.lives)  # This end has forgotten messages that the other received.
            self.close()
            ended = was_open
        if turn.life > self.knows:
            if self.knows and self.is_open:
                self._forget()
                ended = True
            self.knows = turn.life
        self.is_met = self.is_met or now >= self.closed_until
        return ended

    def may_open(self, turn: Turn) -> bool:
        """Return whether to open the edge: both ends hear each other and are ready."""
        return not self.is_open and self.is_met and turn.is_ready and self.fits(turn)

    def fits(self, turn: Turn) -> bool:
        """Return whether a message belongs to the current exchange.

        A message whose sender had not heard anything yet belongs to the first exchange.
        """
        is_first = turn.knows == 0 and self.life == turn.life == 1 and turn.number <= 1
        return turn.life == self.knows and (turn.knows == self.life or is_first)

    def take(self, message: Step) -> str | None:
        """Put a message that fits into the inbox; return why no correct site would send it, or None."""
        number = message.turn.number
        if number > self.sent + 1:
            return f"it sends message {number} before it can have had message {number - 1} of this site"
        if self.is_new(message.turn):
            self.inbox[number] = message
            while self.received + 1 in self.inbox:
                self.received += 1
            self.owes = self.owes and not self.is_complete
        return None

    def is_new(self, turn: Turn) -> bool:
        """Return whether a message comes for the first time."""
        return turn.number > self.received and turn.number not in self.inbox

    def missing(self, turn: Turn, before: float) -> list[int]:
        """Return the numbers of the messages that the other end lacks, and that were last sent `before` a time.

        Later ones may still be on their way.
        """
        lacks = [number for number in sorted(self.kept) if number > turn.acknowledged]
        return [number for number in lacks if self.sent_at.get(number, before) <= before]

    @property
    def is_complete(self) -> bool:
        """Return whether the other end's message of this turn has come."""
        return self.sent in self.inbox

    def checkpoint(self) -> dict[str, Any]:
        """Return the state, for `restore`; times on the site's clock are left out."""
        inside = {name: [[n, encode(m)] for n, m in getattr(self, name).items()] for name in ("kept", "inbox")}
        plain = ("life", "knows", "is_met", "is_open", "sent", "received", "stuck")
        return {**{name: getattr(self, name) for name in plain}, **inside}

    @classmethod
    def restore(cls, state: dict[str, Any], kinds: tuple[type[Message], ...]) -> Edge:
        """Return the edge whose state `checkpoint` returned, with messages of these kinds."""
        read = decoder(kinds)
        inside = {name: {n: read(data) for n, data in state[name]} for name in ("kept", "inbox")}
        return cls(**{**state, **inside})
