"""Base class of site programs that tell neighbours their vectors, whole or as compressed changes of public copies.

Site i keeps a public copy ``p_i`` of its vector ``v_i``, and all its neighbours keep the same copy, bit for bit. In a
round it sends ``q_i = Q(v_i - p_i)``, and all of them set ``p_i <- p_i + q_i``. What the operator Q of compression
(compression.py) leaves out is in the next difference: no error adds up (error feedback). A neighbour that joins gets
the whole copy once. Every message of an edge is used once and in order, however the network loses and repeats them
(turns.py). Without an operator, whole vectors are sent, and the public copy is the vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np

from dimargin.network.messages import Array, Numbers
from dimargin.network.programs.algorithm import Problem
from dimargin.network.rivals.compression import Code, Compression
from dimargin.network.rivals.linear_rounds import LinearRounds
from dimargin.network.rivals.turns import Step
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


class Difference(Step, frozen=True, tag="difference"):
    """Message with the compressed change of the sender's public copy, or the whole copy."""

    code: Code | None = None
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
        self.public = self.public + self._compression.restore(self._code, vector.size).reshape(vector.shape)

    def outgoing(self, neighbour: str) -> Difference:
        """Return the change of the public copy; all of it to a neighbour that has none, or does not know the last."""
        is_first = self.edges[neighbour].sent == 0
        if self._code is None or (is_first and self.rounds > 0):  # there is no code after a restart
            return Difference(**self.head, whole=self.public)
        return Difference(**self.head, code=self._code)

    def fault(self, sender: str, message: Difference) -> str | None:
        """Return what is wrong with a neighbour's message."""
        if message.whole is not None:
            return self.shape_fault(message.whole)
        if message.code is None or self._compression is None:
            return "its message has neither a change nor a whole copy"
        return self._compression.fault(message.code, self.weights.size)

    def update_copies(self, messages: Mapping[str, Difference]) -> dict[str, Floats]:
        """Return the public copies of the neighbours that have sent these messages, after them."""
        for name, message in messages.items():
            copy = message.whole
            if copy is None:
                assert message.code is not None and self._compression is not None  # `fault` has seen to it
                change = self._compression.restore(message.code, self.weights.size)
                before = self.copies[name] if name in self.copies else np.zeros(self.weights.shape)
                copy = before + change.reshape(self.weights.shape)
            self.copies[name] = self.bounded(copy)
        return {name: self.copies[name] for name in messages}

    def left(self, name: str) -> None:
        """Forget the copy of a neighbour."""
        self.copies.pop(name, None)
