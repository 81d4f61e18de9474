"""Push-Sum of vectors that survives lost, repeated and reordered messages, and neighbours that come and go.

Push-Sum (Kempe, Dobra, Gehrke, FOCS 2003; GADGET paper, section 3): site i holds a mass, at first
its contribution ``(n_i q_i, n_i)``. In every round it keeps one share of its mass, sends one to
each neighbour, and adds the shares that it receives. The sum of all masses stays the sum of all
contributions, and at every site the ratio of both parts tends to the weighted mean
``sum_i n_i q_i / sum_i n_i``, on any connected graph, directed or not.

A message carries the *sum* of all shares that one site ever sent the other (running sums;
Hadjicostis, Vaidya, Dominguez-Garcia, IEEE TAC 2016), and the receiver adds the difference from the
sum that it received before: the next message makes up for a lost one, and a repeated one adds
nothing. Both ends of an edge can undo what went over it (`PushSum.forget`), so that a site that has
gone, or was dropped for false messages, leaves no trace in the mean. A change of a contribution is
added to the mass (dynamic average consensus). See docs/algorithms.md#push-sum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Array, Count, Numbers
from dimargin.system.arrays import Floats

Life = Annotated[int, Meta(ge=0, le=LIMITS.lives)]


class Mass(msgspec.Struct, frozen=True):
    """Part of a message that Push-Sum needs."""

    life: Life  # Grows when the sender forgets the edge, which restarts it.
    knows: Life  # Life of the receiver's end, as far as the sender knows; 0 before its first message arrives.
    sequence: Count  # Number of the message on this edge.
    heard: Count  # Sequence of the last message that the sender has received from the receiver.
    sent: Annotated[Array, Numbers(low=-LIMITS.sum, high=LIMITS.sum)]  # Sum of all shares since the edge started.


@dataclass
class Edge:
    """State of one end of an edge; `life`, `knows`, `sequence` and `heard` are as in `Mass`."""

    sent: Floats
    received: Floats
    life: int = 1
    knows: int = 0
    sequence: int = 0
    heard: int = 0
    newest: int = 0  # Highest sequence in the other end's current life, including messages that could not be used.
    acknowledged: int = 0  # Sequence of the last message of this end that the other end has received.


class PushSum:
    """Push-Sum at one site: its mass, and its ends of the edges to neighbours.

    Parameters
    ----------
    contribution : ndarray of shape (k,)
        Vector that this site adds to the sum over all sites.

    Attributes
    ----------
    mass : ndarray of shape (k,)
    edges : dict from neighbour to Edge

    Examples
    --------
    Two sites agree on the mean although the first message is lost.

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
        """Return the state of the edge to a neighbour, creating it if needed."""
        if neighbour not in self.edges:
            self.edges[neighbour] = Edge(np.zeros_like(self.mass), np.zeros_like(self.mass))
        return self.edges[neighbour]

    def shares(
        self, neighbours: Collection[str], rounded: Callable[[str, Floats, Floats], Floats] | None = None
    ) -> dict[str, Mass]:
        """Split the mass evenly among these neighbours and this site.

        `rounded`, if given, is called with a neighbour, the exact sum of its shares, and the latest
        share. It returns the sum that the message will carry; the difference stays here.
        """
        if not neighbours:
            return {}
        kept = 1 / (len(neighbours) + 1)
        share = self.mass * ((1 - kept) / len(neighbours))
        given = {}
        for neighbour in neighbours:
            edge = self.edge(neighbour)
            sent = edge.sent + share
            if rounded is not None:
                sent = rounded(neighbour, sent, share)
            self.mass = self.mass - (sent - edge.sent)  # This may differ from the share, since large sums are rounded.
            edge.sent = sent
            given[neighbour] = self.sign_of_life(neighbour)
        return given

    def sign_of_life(self, neighbour: str) -> Mass:
        """Return a message that repeats the sum of the shares sent so far."""
        edge = self.edge(neighbour)
        edge.sequence += 1
        return Mass(edge.life, edge.knows, edge.sequence, edge.heard, edge.sent)

    def news(self, sender: str, mass: Mass) -> Floats | None:
        """Return what a message would add to the mass, or None if it is repeated or of an earlier life of the edge."""
        edge = self.edge(sender)
        is_restarted = mass.life > edge.knows
        if self._has_lost_memory(edge, mass) or mass.life < edge.knows or mass.knows not in (0, edge.life):
            return None
        if mass.sequence <= edge.heard and not is_restarted:
            return None
        return mass.sent - (0.0 if is_restarted else edge.received)

    def take(self, sender: str, mass: Mass) -> bool:
        """Add a message's new shares to the mass; return False if it was repeated or overtaken.

        A message adds nothing if its sender does not know yet that this end has undone the edge,
        but it does not count as repeated.
        """
        edge, news = self.edge(sender), self.news(sender, mass)
        if self._has_lost_memory(edge, mass):
            self._undo(edge)
            edge.life = min(mass.knows + 1, LIMITS.lives)
            return False
        if mass.life > edge.knows:
            if edge.knows:  # The other end has undone the edge.
                self._undo(edge)
            edge.knows, edge.heard, edge.newest = mass.life, 0, 0
        is_newest = mass.life == edge.knows and mass.sequence > edge.newest
        edge.newest = mass.sequence if is_newest else edge.newest
        if news is None:
            return is_newest
        self.mass = self.mass + news
        edge.received, edge.heard = mass.sent, mass.sequence
        if mass.knows:
            edge.acknowledged = max(edge.acknowledged, mass.heard)
        return True

    @staticmethod
    def _has_lost_memory(edge: Edge, mass: Mass) -> bool:
        """Return whether the sender has received messages that this site does not remember to have sent."""
        return (mass.knows, mass.heard) > (edge.life, edge.sequence)

    def has_given(self, neighbour: str) -> bool:
        """Return whether a neighbour was sent any mass since the edge started."""
        return neighbour in self.edges and bool(self.edges[neighbour].sent.any())

    def unanswered(self, neighbour: str) -> int:
        """Return the number of messages to a neighbour since the last one that it acknowledged."""
        edge = self.edge(neighbour)
        return edge.sequence - edge.acknowledged

    def forget(self, neighbour: str) -> None:
        """Undo all that went over an edge; the other end does so when it receives the next message."""
        edge = self.edges.get(neighbour)
        if edge is not None:
            self._undo(edge)
            edge.life = min(edge.life + 1, LIMITS.lives)

    def _undo(self, edge: Edge) -> None:
        self.mass = self.mass + (edge.sent - edge.received)
        edge.sent, edge.received = np.zeros_like(self.mass), np.zeros_like(self.mass)

    def checkpoint(self) -> dict[str, Any]:
        """Return the state, for `restore`."""
        edges = {name: asdict(edge) for name, edge in self.edges.items()}
        return {"contribution": self.contribution, "mass": self.mass, "edges": edges}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> PushSum:
        """Return a `PushSum` with the state that `checkpoint` returned.

        An edge whose counters are out of range is undone, since other sites would refuse them.

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
            if max(edge.life, edge.knows) > LIMITS.lives or max(edge.sequence, edge.heard) > LIMITS.count:
                found._undo(found.edges.pop(name))
        return found
