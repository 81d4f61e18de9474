"""State of a site's edges by which GADGET sends and reads messages as differences."""

from __future__ import annotations

import numpy as np

from dimargin.gossip.differences import Change, Incoming, Outgoing
from dimargin.gossip.programs.exchange import Difference, Exchange, Sums
from dimargin.gossip.push_sum import Edge, Mass
from dimargin.system.arrays import Floats


class Differences:
    """Ends of the edges of one site, for weights of the given shape and sums of the given size."""

    def __init__(self, shape: tuple[int, int], size: int) -> None:
        self._shape, self._size, self._rows = shape, size, shape[0] * shape[1]
        self._outgoing: dict[str, tuple[tuple[int, int], Outgoing]] = {}  # With the lives of both ends.
        self._incoming: dict[str, Incoming] = {}

    def forget(self, name: str) -> None:
        """Forget the messages to and from a neighbour."""
        self._outgoing.pop(name, None)
        self._incoming.pop(name, None)

    # ---- what is sent --------------------------------------------------------------------------------------------

    def change(
        self, name: str, edge: Edge, sent: Floats, share: Floats, weights: Floats
    ) -> tuple[Change, Floats] | None:
        """Return the next message to a neighbour as a difference and the sums that it carries, or None if not possible.

        The exact message has the sums `sent`, of which `share` is new, and the weights.
        """
        sizes = np.abs(_joined(share, weights))
        # Steps need few digits of curvatures and moments: only large changes of these are sent.
        sizes[self._rows + 1 : self._size - 2 * len(weights)] *= 32.0
        parts = Sums.parts(self._shape, self._size)
        outgoing = self._outgoing_to(name, edge)
        found = outgoing.change(edge.sequence + 1, edge.acknowledged, _joined(sent, weights), sizes, parts)
        return None if found is None else (found[0], found[1][: self._size])

    def sent_whole(self, name: str, edge: Edge, mass: Mass, weights: Floats) -> None:
        """Remember a message that was sent whole."""
        self._outgoing_to(name, edge).add(mass.sequence, _joined(mass.sent, weights))

    def _outgoing_to(self, name: str, edge: Edge) -> Outgoing:
        """Return the messages sent to a neighbour in the current lives of both ends of the edge."""
        lives = edge.life, edge.knows
        if name not in self._outgoing or self._outgoing[name][0] != lives:
            self._outgoing[name] = lives, Outgoing(self._size + self._rows, self._size, self._rows)
            if edge.sent.any():  # They were sent before this site was restarted, and are not known.
                self._outgoing[name][1].known.clear()
        return self._outgoing[name][1]

    # ---- what is received ----------------------------------------------------------------------------------------

    def read(self, sender: str, message: Exchange | Difference) -> Exchange | str | None:
        """Return the whole message, a fault that no correct site can have made, or None if its base is unknown."""
        if isinstance(message, Exchange):
            return message
        return message.whole(self._incoming_from(sender), self._shape, self._size)

    def keep(self, sender: str, message: Exchange | Difference, whole: Exchange) -> None:
        """Remember a message to which later ones may refer."""
        base = message.change.base if isinstance(message, Difference) else None
        if (base is None and not whole.is_base) or not whole.iterate.size:
            return
        known = self._incoming[sender] = self._incoming_from(sender)
        known.add(whole.mass.sequence, _joined(whole.mass.sent, whole.iterate), base)
        known.drop_before(base or 0)

    def _incoming_from(self, sender: str) -> Incoming:
        return self._incoming.get(sender) or Incoming(self._size + self._rows, self._size, self._rows)


def _joined(sums: Floats, weights: Floats) -> Floats:
    return np.concatenate([sums, weights.ravel()])
