"""Base class of site programs that send neighbours a vector of their own, whole or as changes of a public copy.

Site i has a public copy ``p_i`` of its vector ``v_i``, and its neighbours keep the same copy, bit for bit. In a round
it sends ``q_i = Q(v_i - p_i)``, and all of them set ``p_i <- p_i + q_i``. What the operator Q of compression
(compression.py) leaves out is in the next difference: no error adds up (error feedback). A neighbour that joins later
than in the first round gets the whole copy. Without an operator, whole vectors are sent, and the public copy is the
vector.

Every message of an edge is used once and in order, however the network loses and repeats them (turns.py). Where a site
has lost its memory and its clock, its first message may look like one that it sent before. So a change has a checksum
of the copy that it leads to, and a neighbour whose copy has another one ends the exchange over the edge, which begins
anew with whole copies.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from dimargin.gossip.messages import Array, Numbers
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.compression import Code, Compression
from dimargin.gossip.rounds.linear_rounds import LinearRounds
from dimargin.gossip.rounds.turns import Step
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


class Difference(Step, frozen=True, tag="difference", omit_defaults=True):
    """Message with the compressed change of the sender's public copy, or the whole copy."""

    code: Code | None = None
    check: Annotated[int, Meta(ge=0, lt=2**16)] = 0  # of the copy after the change
    whole: Annotated[Array, Numbers((2,))] | None = None


class PublicCopies(LinearRounds):
    """Site program whose messages are public copies.

    Parameters
    ----------
    rows, problem, seed
        As in `LinearRounds`.
    compression : Compression or None
        Operator by which changes are compressed; None sends whole vectors.

    Attributes
    ----------
    public : ndarray of shape (n_outputs, n_features)
        The site's own public copy.
    copies : dict from neighbour to ndarray of the same shape
        Public copies of the neighbours.
    """

    kinds = (Difference,)
    state: ClassVar[tuple[str, ...]] = (*LinearRounds.state, "public", "copies")

    def __init__(
        self, rows: HingeRows, problem: Problem, seed: tuple[int, ...], compression: Compression | None
    ) -> None:
        super().__init__(rows, problem, seed)
        self.public = self.weights
        self.copies: dict[str, Floats] = {}
        self._compression = compression
        self._code: Code | None = None

    def publish(self, vector: Floats) -> None:
        """Move the public copy to a vector, as far as the operator lets it; called once in a round, by `begin`."""
        if self._compression is None:
            self.public = vector
            return
        self._code = self._compression.compress((vector - self.public).ravel(), self.rng)
        self.public = self._changed(self.public, self._code, self._compression)

    def _changed(self, copy: Floats, code: Code, compression: Compression) -> Floats:
        """Return a copy after a change, the same at both ends of an edge."""
        return self.bounded(copy + compression.restore(code, copy.size).reshape(copy.shape))

    def outgoing(self, neighbour: str) -> Difference:
        """Return the change of the public copy; in the first round of all it is one of zero.

        It is the whole copy for a neighbour that joins later, where nothing is compressed, and in the round in which
        this site goes on after a restart.
        """
        is_first = self.edges[neighbour].sent == 0
        if self._code is None or (is_first and self.rounds > 0):
            return Difference(**self.head, whole=self.public)
        return Difference(**self.head, code=self._code, check=_checksum(self.public))

    def fault(self, sender: str, message: Difference) -> str | None:
        """Return what is wrong with a neighbour's message."""
        if message.whole is not None:
            return self.shape_fault(message.whole)
        if message.code is None or self._compression is None:
            return "its message has neither a change nor a whole copy"
        return self._compression.fault(message.code, self.weights.size)

    def update_copies(self, messages: Mapping[str, Difference]) -> dict[str, Floats]:
        """Return the public copies of the neighbours that have sent these messages, after them.

        The exchange with a neighbour whose copy is not the one that it has is ended, and its copy is left out.
        """
        for name, message in messages.items():
            if message.whole is not None:
                self.copies[name] = self.bounded(message.whole)
                continue
            assert message.code is not None and self._compression is not None  # `fault` has seen to it
            before = self.copies[name] if name in self.copies else np.zeros(self.weights.shape)
            self.copies[name] = self._changed(before, message.code, self._compression)
            if _checksum(self.copies[name]) != message.check:
                self.leave(name)
        return {name: self.copies[name] for name in messages if name in self.copies}

    def left(self, name: str) -> None:
        """Forget the copy of a neighbour."""
        self.copies.pop(name, None)


def _checksum(copy: Floats) -> int:
    """Return 16 bits of the CRC-32 of a copy: another copy that has the same ones is found in a later round."""
    return zlib.crc32(copy.tobytes()) & 0xFFFF
