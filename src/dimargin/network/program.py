"""A site program: a pure state machine, written once, that a simulator or a real network runs.

It is told what happens (`start`, `wake`, `receive`, `neighbours_changed`) and answers with actions: messages, timers,
reports. It never asks for the time, opens nothing, waits for nothing and draws random numbers from its own generator
only, so that the same events give the same actions, bit for bit, whatever carries them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from dimargin.network.messages import Message


@dataclass(frozen=True, slots=True)
class Send:
    """Give a neighbour a message; it may arrive late, twice or never."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class Wake:
    """Call `wake` with this name in so many seconds; a later one of the same name replaces it."""

    after: float
    name: str = "round"


@dataclass(frozen=True, slots=True)
class Report:
    """A line for whoever watches this site: what happened, and facts that JSON can hold."""

    what: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stop:
    """The site has finished; it goes on answering its neighbours, but a run of which all sites have stopped ends."""

    reason: str


Action = Send | Wake | Report | Stop


class SiteProgram(ABC):
    """What a site does.

    Every method gets the seconds that have passed on this site's own clock, which agrees with no other's.

    Attributes
    ----------
    shares : {"parameters", "rows"}
        What leaves the site. Rows do only where its owner has allowed it.
    messages : tuple of subclasses of Message
        All kinds that its sites send.
    """

    shares: Literal["parameters", "rows"]
    messages: tuple[type[Message], ...]

    @abstractmethod
    def start(self, now: float, neighbours: Collection[str]) -> Iterable[Action]:
        """Begin, or go on after `restore`, beside these neighbours."""

    @abstractmethod
    def wake(self, now: float, name: str) -> Iterable[Action]:
        """A timer of this name has ended."""

    @abstractmethod
    def receive(self, now: float, sender: str, message: Message) -> Iterable[Action]:
        """A message has come, of one of the kinds of `messages`; what can be wrong with it by itself is not.

        What it says is compared with what this site knows before anything is changed: where a program fails midway, its
        sender is refused, and what was changed before stays.
        """

    def hears(self, sender: str) -> bool:
        """Whether it would look at what this sender says; what it would not is not even decoded."""
        return True

    def refuse(self, now: float, sender: str, reason: str) -> Iterable[Action]:
        """Listen to a sender no more, who has said what no sound site says, and undo what it has brought."""
        return ()

    @abstractmethod
    def neighbours_changed(self, now: float, neighbours: Collection[str]) -> Iterable[Action]:
        """The network knows other neighbours than before; those that are missing may return."""

    @abstractmethod
    def checkpoint(self) -> dict[str, Any]:
        """All that this site has learnt, for `dimargin.network.messages.pack`.

        It is written before the messages of the same event leave: a site that is killed remembers at least what it
        has told others. One that is as the last was is not written.
        """

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Take the place of the site that `checkpoint` described; called before `start`."""
