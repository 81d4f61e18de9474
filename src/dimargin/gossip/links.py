"""Interface of links, which carry bytes between named sites and do nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dimargin.system.printing import PrintableError


class LinkError(PrintableError, RuntimeError):
    """Error for a link that cannot carry anything; the text says why.

    The reason is, for one, a wrong address, a name that is taken, or a certificate that is refused.
    """


@dataclass(frozen=True, slots=True)
class Received:
    """Event that bytes of a neighbour have come; `lost` messages of the same neighbour before them have not."""

    sender: str
    data: bytes
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Event that gives the names of all sites that can be reached now."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """Event that the link has ended for good."""

    error: LinkError


@dataclass(frozen=True, slots=True)
class Trouble:
    """Event that reports trouble with the link, which stays open; an empty `reason` says that the trouble is over."""

    reason: str


Event = Received | Neighbours | Failed | Trouble


class Link(ABC):
    """Abstract base class of links, which carry bytes between sites.

    A message may come from a site that is not, or no longer, among the neighbours, since messages and
    changes of the neighbours come in no particular order.
    """

    name: str  # of this site
    largest: int  # most bytes that a message may have

    @abstractmethod
    def open(self, deliver: Callable[[Event], None]) -> None:
        """Open the link, or raise LinkError.

        Until `close` returns, `deliver`, which never blocks, may be called from any thread.
        """

    @abstractmethod
    def send(self, to: str, data: bytes) -> None:
        """Send a site the bytes as soon as it takes them; return at once, silently if there is no such site."""

    @abstractmethod
    def neighbours(self) -> tuple[str, ...]:
        """Return the names of the sites that can be reached now, sorted."""

    @abstractmethod
    def close(self) -> None:
        """Send what is still waiting, as far as a time limit allows, and close the link."""

    def status(self) -> dict[str, Any]:
        """Return facts that JSON can hold.

        Among them may be `dropped`, which counts by name the messages that never left this site.
        """
        return {}
