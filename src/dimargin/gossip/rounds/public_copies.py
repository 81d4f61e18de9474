"""Base class of site programs that send a vector to neighbours, whole or as changes of a public copy.

Site i has a public copy ``p_i`` of its vector ``v_i``, and its neighbours keep the same copy, bit
for bit. In a round it sends ``q_i = Q(v_i - p_i)``, and all of them set ``p_i <- p_i + q_i``. The
error of the compression operator Q (compression.py) is part of the next difference, and does not
add up (error feedback). A neighbour that joins after the first round gets the whole copy. Without
an operator, whole vectors are sent, and the public copy is the vector.

Between two ends that know each other a change is sent in its short form (`Change`), whose header
has a third of the bytes: the edge's state says the rest.

Every message of an edge is used once and in order, however the network loses and repeats messages
(turns.py). If a site has lost its memory and its clock, its first message may look like one that it
sent before. So each change has a checksum of the resulting copy, and a neighbour whose copy has
another checksum ends the exchange over the edge, which restarts with whole copies.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from msgspec import Meta

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Array, Message, Numbers
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.compression import Code, Compression
from dimargin.gossip.rounds.linear_rounds import LinearRounds
from dimargin.gossip.rounds.turns import Edge, Step, Turn
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats

_PREFIX = struct.Struct("<fH")


class Difference(Step, frozen=True, tag="difference", omit_defaults=True):
    """Message with the compressed change of the sender's public copy, or the whole copy."""

    code: Code | None = None
    check: Annotated[int, Meta(ge=0, lt=2**16)] = 0  # Checksum of the copy after the change.
    whole: Annotated[Array, Numbers((2,))] | None = None
    # As in `ConsensusSite`; None: as before.
    penalty: Annotated[float, Meta(ge=0, le=LIMITS.number)] | None = None
    largest_pull: Annotated[float, Meta(ge=0, le=LIMITS.number)] | None = None

    def agrees_with(self, other: Difference) -> bool:
        """Return whether penalty and largest pull are those of another message."""
        return self.penalty == other.penalty and self.largest_pull == other.largest_pull


class Change(Message, frozen=True, tag="c", rename={"session": "s", "number": "n", "data": "d"}):
    """Short form of a `Difference` whose code has bits only, between two ends that know each other."""

    session: Annotated[int, Meta(ge=0, lt=2**32)]  # Checksum of both lives of the edge and of the schema.
    number: Annotated[int, Meta(ge=2, le=LIMITS.count)]  # Number of the message on the edge.
    # Scale of the code in single precision, checksum of the copy, and bits of the code.
    data: Annotated[bytes, Meta(min_length=_PREFIX.size + 1)]

    @classmethod
    def of(cls, message: Difference, before: Step | None, schema: str) -> Self | None:
        """Return the short form of a message that follows the message `before`, or None if it has none."""
        code, turn = message.code, message.turn
        is_plain = code is not None and code.bits is not None and code.values is None
        if not (is_plain and turn.knows and isinstance(before, Difference) and message.agrees_with(before)):
            return None
        assert code is not None and code.bits is not None
        data = _PREFIX.pack(code.scale, message.check) + code.bits.tobytes()
        return cls(_session(turn.life, turn.knows, schema), turn.number, data)

    def whole(self, edge: Edge, schema: str, round: int) -> Difference | None:
        """Return the long form for the receiver's end of the edge, or None if the sender's end has another state."""
        if not edge.is_open or self.session != _session(edge.knows, edge.life, schema):
            return None
        scale, check = _PREFIX.unpack_from(self.data)
        code = Code(bits=np.frombuffer(self.data, np.uint8, offset=_PREFIX.size), scale=scale)
        # Whoever sends message n has used message n - 1 of the other end.
        return Difference(Turn(edge.knows, edge.life, self.number, self.number - 1), round, 0, schema, code, check)

    def contradiction(self) -> str | None:
        """Return that the scale is no scale, or None."""
        scale, _ = _PREFIX.unpack_from(self.data)
        return None if 0 <= scale < math.inf else f"its scale is {scale}, expected a finite number not below 0"


def _session(life: int, knows: int, schema: str) -> int:
    """Return the checksum of an edge's state, by the lives of the sender's end and of the receiver's."""
    return zlib.crc32(f"{life} {knows} {schema}".encode())


class PublicCopies(LinearRounds):
    """Site program whose messages are public copies, compressed by an operator or, without one, whole."""

    kinds: ClassVar[tuple[type[Message], ...]] = (Difference, Change)
    state: ClassVar[tuple[str, ...]] = (*LinearRounds.state, "public", "copies")

    def __init__(
        self, rows: HingeRows, problem: Problem, seed: tuple[int, ...], compression: Compression | None
    ) -> None:
        super().__init__(rows, problem, seed)
        self.public = self.weights  # The site's own public copy, of shape (n_outputs, n_features).
        self.copies: dict[str, Floats] = {}  # Public copies of the neighbours, of the same shape.
        self._compression = compression
        self._code: Code | None = None

    def publish(self, vector: Floats) -> None:
        """Move the public copy towards a vector by a compressed change; called once in a round, by `begin`."""
        if self._compression is None:
            self.public = vector
            return
        self._code = self._compression.compress((vector - self.public).ravel(), self.rng)
        self.public = self._apply_change(self.public, self._code, self._compression)

    def _apply_change(self, copy: Floats, code: Code, compression: Compression) -> Floats:
        """Return a copy after a change; both ends of an edge compute the same."""
        return self.bounded(copy + compression.restore(code, copy.size).reshape(copy.shape))

    def outgoing(self, neighbour: str) -> Difference:
        """Return the change of the public copy, which is zero before the first round.

        Without compression, for a neighbour that joins later, and in the first round after a
        restart of this site, return the whole copy instead.
        """
        is_first = self.edges[neighbour].sent == 0
        if self._code is None or (is_first and self.rounds > 0):
            return Difference(**self.head, whole=self.public)
        return Difference(**self.head, code=self._code, check=_checksum(self.public))

    def shortened(self, neighbour: str, message: Step) -> Message:
        """Return the short form of a change, if it has one."""
        assert isinstance(message, Difference)
        before = self.edges[neighbour].kept.get(message.turn.number - 1)
        return Change.of(message, before, self.settings.schema) or message

    def lengthened(self, sender: str, message: Any) -> Any:
        """Return the long form of a change, or None if its sender has another state of the edge."""
        if type(message) is not Change:
            return message
        return message.whole(self._edge(sender), self.settings.schema, self.rounds)

    def fault(self, sender: str, message: Difference) -> str | None:
        """Return why a neighbour's message is invalid, or None."""
        if message.whole is not None:
            return self.shape_fault(message.whole)
        if message.code is None or self._compression is None:
            return "its message has neither a change nor a whole copy"
        return self._compression.fault(message.code, self.weights.size)

    def update_copies(self, messages: Mapping[str, Difference]) -> dict[str, Floats]:
        """Update the public copies of neighbours by their messages, and return them.

        If the checksum shows that a neighbour has another copy, end the exchange and omit its copy.
        """
        for name, message in messages.items():
            if message.whole is not None:
                self.copies[name] = self.bounded(message.whole)
                continue
            assert message.code is not None and self._compression is not None  # Checked by `fault`.
            before = self.copies[name] if name in self.copies else np.zeros(self.weights.shape)
            self.copies[name] = self._apply_change(before, message.code, self._compression)
            if _checksum(self.copies[name]) != message.check:
                self.leave(name)
        return {name: self.copies[name] for name in messages if name in self.copies}

    def left(self, name: str) -> None:
        """Forget the copy of a neighbour."""
        self.copies.pop(name, None)


def _checksum(copy: Floats) -> int:
    """Return 16 bits of the CRC-32 of a copy; a wrong copy that has the same bits is found in a later round."""
    return zlib.crc32(copy.tobytes()) & 0xFFFF
