"""What carries bytes between named sites, and nothing else; a real network is one class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class LinkError(RuntimeError):
    """A link cannot carry anything: a wrong address, a taken name, a refused certificate; the text says which."""


@dataclass(frozen=True, slots=True)
class Received:
    """A neighbour's bytes have come; `lost` messages of the same neighbour before them have not."""

    sender: str
    data: bytes
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The names of all sites that can be reached now."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The link has ended for good."""

    error: LinkError


Event = Received | Neighbours | Failed


class Link(ABC):
    """What carries bytes between sites.

    A message may come from a site that is not, or no longer, among the neighbours: nothing orders the two.

    Attributes
    ----------
    name : str
        Of this site.
    largest : int
        Bytes that a message may have.
    """

    name: str
    largest: int

    @abstractmethod
    def open(self, deliver: Callable[[Event], None]) -> None:
        """Begin; `deliver`, which never blocks, may be called from any thread until `close` returns.

        Raises
        ------
        LinkError
        """

    @abstractmethod
    def send(self, to: str, data: bytes) -> None:
        """Give a site the bytes as soon as it takes them; returns at once, silently if there is no such site."""

    @abstractmethod
    def neighbours(self) -> tuple[str, ...]:
        """Names of the sites that can be reached now, sorted."""

    @abstractmethod
    def close(self) -> None:
        """Hand over what was sent, within bounds, and end."""

    def status(self) -> dict[str, Any]:
        """Facts that JSON can hold; `dropped`, if there, counts by name the messages that were never handed over."""
        return {}
