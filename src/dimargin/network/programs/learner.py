"""What sites learn by once they have agreed on what their rows are; `agreement.py` starts it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

from numpy.typing import NDArray

from dimargin.network.messages import Message
from dimargin.network.neighbourhood import Neighbourhood
from dimargin.network.program import Action, Report, SiteProgram
from dimargin.network.schema import Schema


class Listener(SiteProgram):
    """A site program that listens no more to a neighbour who has said what no sound site says.

    Attributes
    ----------
    neighbourhood : Neighbourhood
        Whom it hears, and whom it has refused.
    """

    neighbourhood: Neighbourhood

    def hears(self, sender: str) -> bool:
        """Say whether a sender has not been refused."""
        return sender not in self.neighbourhood.refused

    def refuse(self, now: float, sender: str, reason: str) -> Iterator[Action]:
        """Listen to a sender no more, and undo what it has brought as far as `leave` can."""
        self.neighbourhood.refuse(sender, reason)
        self.leave(sender)
        yield Report("refused", {"site": sender, "reason": reason})

    @abstractmethod
    def leave(self, name: str) -> None:
        """Undo what a neighbour has brought, as far as that can be."""


class Learner(Listener):
    """A site program that learns from rows, which may become more, under a schema, which may become wider."""

    @property
    @abstractmethod
    def has_finished(self) -> bool:
        """Whether its rule for stopping has held since its last new row."""

    @abstractmethod
    def append(self, rows: Any) -> None:
        """More rows of this site, as `LearnerFactory.rows` gives them."""

    @abstractmethod
    def inherit(self, state: dict[str, Any], schema: Schema, before: Schema) -> None:
        """Begin with what a learner has learnt under an earlier schema, by its checkpoint."""

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """For a person."""


class LearnerFactory(ABC):
    """What sites learn, and how: all that `Agreement` has to know of it.

    Attributes
    ----------
    shares, messages
        As in `SiteProgram`, of the learner.
    """

    shares: Literal["parameters", "rows"]
    messages: tuple[type[Message], ...]

    @property
    @abstractmethod
    def least_labels(self) -> int:
        """How many labels all sites together must have before it can begin."""

    def message_size(self, schema: Schema) -> int:
        """Bytes of the longest message of sites that learn under a schema, its texts aside."""
        return 16 * schema.n_features  # the card

    @abstractmethod
    def rows(self, X: Any, y: NDArray[Any], schema: Schema) -> Any:
        """Rows of a site as the learner takes them.

        Parameters
        ----------
        X : ndarray or CSR array of shape (n, n_features) or less wide
        y : ndarray of shape (n,)
            Labels, of the schema.
        schema : Schema
        """

    @abstractmethod
    def learner(self, name: str, rows: Any, schema: Schema, n_rows: int, seed: tuple[int, ...]) -> Learner:
        """The program of a site.

        Parameters
        ----------
        name : str
            Of the site.
        rows
            As `rows` gives them.
        schema : Schema
            That was agreed on.
        n_rows : int
            Of all sites that are known.
        seed : sequence of int
        """
