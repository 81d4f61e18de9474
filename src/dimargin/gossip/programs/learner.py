"""Base classes of learners, which `agreement.py` starts once sites have agreed on a schema of their rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from dimargin.gossip.messages import Message
from dimargin.gossip.program import Action, Report, SiteProgram
from dimargin.gossip.schema import Schema


@dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """Settings of any learner."""

    interval: float = 1.0  # seconds between rounds
    # seconds of silence after which a neighbour counts as gone; infinite where receivers need not send anything back
    lease: float = math.inf
    norm_bound: float = math.inf  # of what a site sends, its weights or points; one that sends longer ones is refused
    max_messages: float = math.inf  # per second that one neighbour may send before it is refused
    schema: str = ""  # digest of the schema of the rows; messages about other schemas are ignored


class Listener(SiteProgram):
    """Site program that says whom it refuses."""

    settings: LearnerSettings

    def receive(self, now: float, sender: str, message: Any) -> Iterator[Action]:
        """Learn from a message about the same schema; its sender is refused if no correct site would send it."""
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
    """Site program that learns from rows, which may become more, under a schema, which may become wider."""

    @property
    @abstractmethod
    def has_finished(self) -> bool:
        """Return whether the rule for stopping has held since the last new row."""

    @property
    def trouble(self) -> str:
        """Why there is no model of these rows, and never will be; an empty text where all is well."""
        return ""

    @abstractmethod
    def append(self, rows: Any) -> None:
        """Add rows of this site, as `LearnerFactory.rows` gives them."""

    @abstractmethod
    def inherit(self, state: dict[str, Any], schema: Schema, before: Schema) -> None:
        """Begin with the checkpoint of a learner under an earlier schema."""

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """Return how far this site is, for display."""


class LearnerFactory(ABC):
    """Abstract base class of makers of learners, which have all that `Agreement` needs to know of them."""

    shares: Literal["parameters", "rows"]  # by the learner, as in `SiteProgram`
    messages: tuple[type[Message], ...]  # likewise

    @property
    @abstractmethod
    def min_labels(self) -> int:
        """Number of labels that all sites together must have before a learner can begin."""

    def message_size(self, schema: Schema) -> int:
        """Return the bytes of the longest message of sites that learn under a schema, its texts aside."""
        return 16 * schema.n_features  # the card

    @abstractmethod
    def rows(self, X: Any, y: NDArray[Any], schema: Schema) -> Any:
        """Return the rows of a site, dense or CSR, as the learner takes them.

        X may be less wide than the schema, and the schema has all labels in y.
        """

    @abstractmethod
    def learner(self, name: str, rows: Any, schema: Schema, n_rows: int, seed: tuple[int, ...]) -> Learner:
        """Make the learner of the site `name` with rows as `rows` returns them, under the schema that was agreed on.

        All known sites together have `n_rows` rows.
        """
