"""Site programs: pure state machines, which run unchanged in a simulator and on a real network.

A program is called at every event (`start`, `wake`, `receive`, `neighbours_changed`), and returns
actions: messages, timers and reports. It never reads a clock, opens nothing, waits for nothing and
draws random numbers from its own generator only, so that the same events give the same actions, bit
for bit, whatever runs it, on processors that use the same instructions
(docs/guide/promises.md#where-bits-are-equal).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, Literal

from dimargin.gossip.messages import Message
from dimargin.gossip.neighbourhood import Neighbourhood


@dataclass(frozen=True, slots=True)
class Send:
    """Action that sends a message to a neighbour; it may arrive late, twice or never."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class Wake:
    """Action that sets a timer, after which `wake` is called; a later timer of the same name replaces it."""

    after: float
    name: str = "round"


@dataclass(frozen=True, slots=True)
class Report:
    """Action that logs what happened, with facts that JSON can hold."""

    what: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stop:
    """Action of a site that has finished but still answers its neighbours.

    A simulated run ends when all its sites have stopped.
    """

    reason: str


Action = Send | Wake | Report | Stop


class SiteProgram(ABC):
    """Abstract base class of the programs of sites.

    The methods for events get the seconds on this site's own clock, which no other site shares.

    Attributes
    ----------
    shares : {"parameters", "rows"}
        What the site sends to others; rows only if its owner has allowed it.
    messages : tuple of subclasses of Message
        All kinds of messages that sites with this program send.
    """

    shares: Literal["parameters", "rows"]
    messages: tuple[type[Message], ...]

    @property
    def needs_durable_state(self) -> bool:
        """Return whether the state must survive a loss of power before anything is sent, as the count of a budget."""
        return False

    @abstractmethod
    def start(self, now: float, neighbours: Collection[str]) -> Iterable[Action]:
        """Start, or resume after `restore`, with these neighbours."""

    @abstractmethod
    def wake(self, now: float, name: str) -> Iterable[Action]:
        """Handle the end of the timer of this name."""

    @abstractmethod
    def receive(self, now: float, sender: str, message: Message) -> Iterable[Action]:
        """Handle a message of one of the kinds of `messages`, which is valid by itself.

        A program compares its content with what this site knows before it changes anything. If it
        fails midway, the sender is refused, and earlier changes stay.
        """

    @cached_property
    def neighbourhood(self) -> Neighbourhood:
        """Neighbours that the site can reach, and those that it has refused."""
        return Neighbourhood(inf)

    def hears(self, sender: str) -> bool:
        """Return whether messages of a sender are read; others are not even decoded."""
        return self.neighbourhood.hears(sender)

    def refuse(self, now: float, sender: str, reason: str) -> Iterable[Action]:
        """Ignore the sender of an invalid message from now on, and undo what it has contributed."""
        self.neighbourhood.refuse(sender, reason)
        return ()

    def neighbours_changed(self, now: float, neighbours: Collection[str]) -> Iterable[Action]:
        """Handle a change of the neighbours; missing ones may return."""
        self.neighbourhood.change(neighbours)
        return ()

    @abstractmethod
    def checkpoint(self) -> dict[str, Any]:
        """Return all that this site has learnt, for `dimargin.gossip.messages.pack`.

        It is written before the messages of the same event are sent, so that a killed site
        remembers what it has sent to others. A checkpoint that equals the last one is not written.
        """

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Restore the state that `checkpoint` returned; called before `start`."""
