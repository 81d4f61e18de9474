"""Push-Sum of vectors that survives lost, repeated and reordered messages, and neighbours that come and go.

Push-Sum (Kempe, Dobra, Gehrke, FOCS 2003; GADGET paper, section 3): site i holds a mass, at first its contribution
``(n_i q_i, n_i)``. In every round it keeps a share of its mass and gives each neighbour one; what it is given it adds.
The sum of all masses is the sum of all contributions, and everywhere the ratio of both parts tends to the weighted mean
``sum_i n_i q_i / sum_i n_i``, on any connected graph, directed or not.

As in the paper, a lost message is mass lost for ever. Here a message carries the *sum* of all shares that one site ever
gave the other (running sums; Hadjicostis, Vaidya, Dominguez-Garcia, IEEE TAC 2016); the receiver takes the difference
from what it has had. A lost message is made good by the next, a repeated one gives nothing. Both ends of an edge
can undo what went over it (`PushSum.forget`): the mean of those who are left is then exact, which is how a site that
has gone, or a dropped one that told lies, leaves no trace. And a contribution may change at any time: what is new of it
is added to the mass (dynamic average consensus), so that the mean of things that move is followed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from dimargin.network import limits
from dimargin.network.messages import Array, Count, Numbers
from dimargin.system.arrays import Floats

Life = Annotated[int, Meta(ge=0, le=limits.LIVES)]


class Mass(msgspec.Struct, frozen=True):
    """The part of a message that Push-Sum needs.

    Attributes
    ----------
    life : int
        Grows when the sender forgets the edge, which starts it anew.
    knows : int
        Life of the receiver that the sender counts for; 0 where it has not heard from it yet.
    sequence : int
        Of messages over this edge.
    heard : int
        Sequence of the last message that the sender has had from the receiver.
    sent : ndarray of shape (k,)
        Sum of all shares since the edge started.
    """

    life: Life
    knows: Life
    sequence: Count
    heard: Count
    sent: Annotated[Array, Numbers(low=-limits.SUM, high=limits.SUM)]


@dataclass
class Edge:
    """What one end of an edge remembers; `life`, `knows`, `sequence` and `heard` as in `Mass`.

    `acknowledged` is the last of its messages that the other end has had.
    """

    sent: Floats
    received: Floats
    life: int = 1
    knows: int = 0
    sequence: int = 0
    heard: int = 0
    acknowledged: int = 0


class PushSum:
    """The mass of one site.

    Parameters
    ----------
    contribution : ndarray of shape (k,)
        What this site adds to the sum of all.

    Attributes
    ----------
    mass : ndarray of shape (k,)
    edges : dict from neighbour to Edge

    Examples
    --------
    Two sites, of which one is never heard: the first message is lost.

    >>> a, b = PushSum(np.array([6.0, 1.0])), PushSum(np.array([0.0, 2.0]))
    >>> lost = a.shares(["b"])["b"]
    >>> for _ in range(60):
    ...     to_b, to_a = a.shares(["b"])["b"], b.shares(["a"])["a"]
    ...     _ = b.take("a", to_b), a.take("b", to_a)
    >>> [round(float(site.mass[0] / site.mass[1]), 9) for site in (a, b)]
    [2.0, 2.0]
    """

    def __init__(self, contribution: Floats) -> None:
        self.contribution = np.array(contribution, dtype=np.float64)
        self.mass = self.contribution.copy()
        self.edges: dict[str, Edge] = {}

    def contribute(self, contribution: Floats) -> None:
        """Replace this site's contribution."""
        self.mass = self.mass + (contribution - self.contribution)
        self.contribution = np.array(contribution, dtype=np.float64)

    def edge(self, neighbour: str) -> Edge:
        """What is remembered of an edge."""
        if neighbour not in self.edges:
            self.edges[neighbour] = Edge(np.zeros_like(self.mass), np.zeros_like(self.mass))
        return self.edges[neighbour]

    def shares(self, neighbours: Collection[str], keep: float | None = None) -> dict[str, Mass]:
        """Deal the mass evenly to these neighbours and this site itself, or keep so much of it."""
        if not neighbours:
            return {}
        kept = 1 / (len(neighbours) + 1) if keep is None else keep
        share = self.mass * ((1 - kept) / len(neighbours))
        given = {}
        for neighbour in neighbours:
            edge = self.edge(neighbour)
            sent = edge.sent + share
            self.mass = self.mass - (sent - edge.sent)  # not less the share: the sum may be large, and is rounded
            edge.sent = sent
            given[neighbour] = self.sign_of_life(neighbour)
        return given

    def sign_of_life(self, neighbour: str) -> Mass:
        """What has been sent so far, without a new share."""
        edge = self.edge(neighbour)
        edge.sequence += 1
        return Mass(edge.life, edge.knows, edge.sequence, edge.heard, edge.sent)

    def news(self, sender: str, mass: Mass) -> Floats | None:
        """What a message would add to the mass; None where it brings nothing: repeated, or about an older life."""
        edge = self.edge(sender)
        has_begun_anew = mass.life > edge.knows
        if self._has_lost_memory(edge, mass) or mass.life < edge.knows or mass.knows not in (0, edge.life):
            return None
        if mass.sequence <= edge.heard and not has_begun_anew:
            return None
        return mass.sent - (0.0 if has_begun_anew else edge.received)

    def take(self, sender: str, mass: Mass) -> bool:
        """Add what a message brings; False where that is nothing."""
        edge, news = self.edge(sender), self.news(sender, mass)
        if self._has_lost_memory(edge, mass):
            self._undo(edge)
            edge.life = min(mass.knows + 1, limits.LIVES)
            return False
        if mass.life > edge.knows:
            if edge.knows:  # the other end has undone the edge
                self._undo(edge)
            edge.knows, edge.heard = mass.life, 0
        if news is None:
            return False
        self.mass = self.mass + news
        edge.received, edge.heard = mass.sent, mass.sequence
        if mass.knows:
            edge.acknowledged = max(edge.acknowledged, mass.heard)
        return True

    @staticmethod
    def _has_lost_memory(edge: Edge, mass: Mass) -> bool:
        """Whether the sender has had messages that this site does not remember having sent."""
        return (mass.knows, mass.heard) > (edge.life, edge.sequence)

    def has_given(self, neighbour: str) -> bool:
        """Whether any mass has gone to a neighbour since the edge started."""
        return neighbour in self.edges and bool(self.edges[neighbour].sent.any())

    def unanswered(self, neighbour: str) -> int:
        """Messages to a neighbour since the last that it is known to have had."""
        edge = self.edge(neighbour)
        return edge.sequence - edge.acknowledged

    def forget(self, neighbour: str) -> None:
        """Undo all that went over an edge, and have the other end do so when it hears of it."""
        edge = self.edges.get(neighbour)
        if edge is not None:
            self._undo(edge)
            edge.life = min(edge.life + 1, limits.LIVES)

    def _undo(self, edge: Edge) -> None:
        self.mass = self.mass + (edge.sent - edge.received)
        edge.sent, edge.received = np.zeros_like(self.mass), np.zeros_like(self.mass)

    def checkpoint(self) -> dict[str, Any]:
        """For `restore`."""
        edges = {name: asdict(edge) for name, edge in self.edges.items()}
        return {"contribution": self.contribution, "mass": self.mass, "edges": edges}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> PushSum:
        """The mass that `checkpoint` described.

        What went over an edge whose counters no site can have is undone, for nobody would read of it.

        Raises
        ------
        ValueError
            The sums are NaN or infinite, or of different lengths.
        """
        found = cls(state["contribution"])
        found.mass = state["mass"]
        found.edges = {name: Edge(**edge) for name, edge in state["edges"].items()}
        sums = [found.contribution, found.mass, *(x for e in found.edges.values() for x in (e.sent, e.received))]
        if not all(one.shape == found.mass.shape and np.isfinite(one).all() for one in sums):
            raise ValueError("its sums are NaN or infinite, or of different lengths")
        for name, edge in list(found.edges.items()):
            if max(edge.life, edge.knows) > limits.LIVES or max(edge.sequence, edge.heard) > limits.COUNT:
                found._undo(found.edges.pop(name))
        return found
