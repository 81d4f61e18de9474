"""Conditions of a simulated network: faults of its links and its sites, and speeds of the clocks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LinkFaults:
    """Delays and faults of the messages on a link.

    Attributes
    ----------
    delay : (float, float)
        Smallest and largest number of seconds that a message takes, uniformly distributed; messages
        overtake each other if these differ.
    loss, duplication : float
        Probabilities that a message vanishes, and that it arrives twice.
    """

    delay: tuple[float, float] = (0.5, 0.5)
    loss: float = 0.0
    duplication: float = 0.0

    def __post_init__(self) -> None:
        low, high = self.delay
        if not 0 <= low <= high < math.inf:
            raise ValueError(f"delay must be two finite numbers with 0 <= low <= high, got {self.delay!r}")
        for name, value in (("loss", self.loss), ("duplication", self.duplication)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be a probability in [0, 1], got {value!r}")


@dataclass(frozen=True)
class Outage:
    """Outage of a site from `at` to `until` (forever by default), after which it resumes or has lost its memory."""

    site: str
    at: float
    until: float = math.inf
    loses_memory: bool = False


@dataclass(frozen=True)
class NetworkSplit:
    """Split of the network from `at` to `until` into groups that cannot reach each other.

    Sites that are in no group form another one.
    """

    groups: tuple[frozenset[str], ...]
    at: float
    until: float = math.inf

    def cuts(self, now: float, a: str, b: str) -> bool:
        """Return whether this split separates two sites now."""
        if not self.at <= now < self.until:
            return False
        return [a in group for group in self.groups] != [b in group for group in self.groups]


@dataclass(frozen=True)
class Conditions:
    """Conditions of a simulated network; by default synchronous rounds of one second without faults.

    Attributes
    ----------
    link : LinkFaults
        Faults of all links that `links` does not name.
    links : mapping from (sender, receiver) to LinkFaults
    jitter : float
        Largest share by which timers are late; 0 keeps sites in step.
    speeds : mapping from site to float
        Speeds of the sites' clocks; 1 by default.
    joins : mapping from site to float
        Seconds at which late sites start; 0 by default.
    outages : tuple of Outage
    splits : tuple of NetworkSplit

    Examples
    --------
    >>> Conditions.asynchronous(loss=0.2).link
    LinkFaults(delay=(0.0, 1.0), loss=0.2, duplication=0.0)
    """

    link: LinkFaults = LinkFaults()
    links: Mapping[tuple[str, str], LinkFaults] = field(default_factory=dict)
    jitter: float = 0.0
    speeds: Mapping[str, float] = field(default_factory=dict)
    joins: Mapping[str, float] = field(default_factory=dict)
    outages: tuple[Outage, ...] = ()
    splits: tuple[NetworkSplit, ...] = ()

    @classmethod
    def asynchronous(cls, loss: float = 0.0, duplication: float = 0.0, **others: object) -> Conditions:
        """Return conditions in which messages take up to a second and no two sites are in step."""
        return cls(LinkFaults((0.0, 1.0), loss, duplication), jitter=0.5, **others)  # type: ignore[arg-type]

    def cut(self, now: float, a: str, b: str) -> bool:
        """Return whether any split separates two sites now."""
        return any(split.cuts(now, a, b) for split in self.splits)
