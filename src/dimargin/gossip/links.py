"""Interface of links, which carry bytes between named sites and do nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dimargin.system.printing import PrintableError


class LinkError(PrintableError, RuntimeError):
    """Error for an unusable link; the text says why: a wrong address, a taken name, a refused certificate, ..."""


@dataclass(frozen=True, slots=True)
class Received:
    """Event that bytes of a neighbour have arrived, after `lost` messages of the same neighbour that have not."""

    sender: str
    data: bytes
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Event with the names of all sites that can be reached now."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """Event that the link has ended for good."""

    error: LinkError


@dataclass(frozen=True, slots=True)
class Trouble:
    """Event of trouble with the link, which stays open; an empty `reason` means that the trouble is over."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Event with the connected sites that exchange no messages with this one, and why, after each change."""

    reasons: dict[str, str]


Event = Received | Neighbours | Failed | Trouble | Refused


class Link(ABC):
    """Abstract base class of links, which carry bytes between sites.

    A message may come from a site that is not, or no longer, among the neighbours, since messages
    and changes of the neighbours come in no particular order.
    """

    name: str  # Name of this site.
    largest: int  # Most bytes that a message may have.

    @abstractmethod
    def open(self, deliver: Callable[[Event], None]) -> None:
        """Open the link, or raise LinkError.

        Until `close` returns, `deliver`, which never blocks, may be called from any thread.
        """

    @abstractmethod
    def send(self, to: str, data: bytes) -> None:
        """Queue bytes for a site and return without waiting; they are dropped silently if the site is unknown."""

    @abstractmethod
    def neighbours(self) -> tuple[str, ...]:
        """Return the names of the sites that can be reached now, sorted."""

    @abstractmethod
    def close(self) -> None:
        """Send the waiting messages within a time limit, and close the link."""

    def status(self) -> dict[str, Any]:
        """Return facts that JSON can hold, such as `dropped`: by name, the messages that never left this site."""
        return {}
