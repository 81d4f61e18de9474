"""Base classes of learners, which `agreement.py` starts once sites have agreed on a schema of their rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from dimargin.gossip.messages import Message
from dimargin.gossip.program import Action, Report, SiteProgram
from dimargin.gossip.schema import Schema


@dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """Settings of any learner."""

    interval: float = 1.0  # Seconds between rounds.
    # Silence in seconds after which a neighbour counts as gone; infinite if sites need not answer.
    lease: float = math.inf
    norm_bound: float = math.inf  # Largest norm of weights or points; a site that sends longer ones is refused.
    max_messages: float = math.inf  # Messages per second above which a neighbour is refused.
    # Seconds from a common moment to the start of this site's clock, by which a site that has lost its
    # memory numbers its lives; zero if the clock runs while the site is down, as in the simulator.
    birth: float = 0.0
    schema: str = ""  # Digest of the schema of the rows; messages about other schemas are ignored.


class Listener(SiteProgram):
    """Site program that reports refusals."""

    settings: LearnerSettings

    def receive(self, now: float, sender: str, message: Any) -> Iterator[Action]:
        """Learn from a message about the same schema; refuse its sender if no correct site would send it."""
        near = self.neighbourhood
        if sender in near.refused or message.schema != self.settings.schema:
            return
        fault = near.hear(now, sender) or self.take(sender, message)
        if fault is not None:
            yield from self.refuse(now, sender, fault)

    def refuse(self, now: float, sender: str, reason: str) -> Iterator[Action]:
        """Ignore a sender from now on, and undo what it has contributed as far as `leave` can."""
        self.neighbourhood.refuse(sender, reason)
        self.leave(sender)
        yield Report("refused", {"site": sender, "reason": reason})

    @abstractmethod
    def take(self, sender: str, message: Any) -> str | None:
        """Learn from a message; return why no correct site would send it, or None."""

    @abstractmethod
    def leave(self, name: str) -> None:
        """Undo what a neighbour has contributed, as far as possible."""


class Learner(Listener):
    """Site program that learns from a growing set of rows under a schema that may become wider."""

    @property
    @abstractmethod
    def has_finished(self) -> bool:
        """Return whether the stopping rule has held since the last new row."""

    @property
    def trouble(self) -> str:
        """Reason why these rows can never have a model, or an empty text."""
        return ""

    @abstractmethod
    def append(self, rows: Any) -> None:
        """Add rows of this site, in the form that `LearnerFactory.rows` returns."""

    @abstractmethod
    def inherit(self, state: dict[str, Any], schema: Schema, before: Schema) -> None:
        """Start from the checkpoint of a learner under an earlier schema."""

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """Return this site's progress, for display."""


class LearnerFactory(ABC):
    """Abstract base class of factories of learners, by which `Agreement` knows them; attributes as in `SiteProgram`."""

    shares: Literal["parameters", "rows"]
    messages: tuple[type[Message], ...]

    @property
    @abstractmethod
    def min_labels(self) -> int:
        """Number of labels that all sites together must have before a learner can start."""

    def message_size(self, schema: Schema) -> int:
        """Return the bytes of the longest message of sites that learn under a schema, without its texts."""
        return 16 * schema.n_features  # The card has two limits of eight bytes per feature.

    @abstractmethod
    def rows(self, X: Any, y: NDArray[Any], schema: Schema) -> Any:
        """Convert the rows of a site, dense or CSR, to the form that the learner needs.

        X may be less wide than the schema, which has all labels in y.
        """

    @abstractmethod
    def learner(
        self, name: str, rows: Any, schema: Schema, counts: Mapping[str, int], seed: tuple[int, ...]
    ) -> Learner:
        """Return the learner of the site `name`, for rows in the form of `rows` under the agreed schema.

        `counts` are the numbers of rows of all known sites, by name.
        """
