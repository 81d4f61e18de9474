"""Messages of sites that learn by GADGET, the sums in them, and the check whether a correct site can have sent one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple, Self

import numpy as np

from dimargin.gossip.differences import Change, Incoming
from dimargin.gossip.messages import Array, Count, Digest, Finite, Message, Numbers, message_fault
from dimargin.gossip.push_sum import Life, Mass, PushSum
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


class Sums(NamedTuple):
    """Sums over the rows of a site, or what Push-Sum makes of those of all sites: the layout of its vectors."""

    # sum of y x over the rows of margin below one, of shape (n_outputs, n_features); with local gradients the weights,
    # times the number of rows
    pull: Floats
    rows: float  # number of rows
    # curvature, first and second moment of the features, of shape (3, n_features); (3, 0) if the step size needs none
    statistics: Floats
    loss: Floats  # of shape (n_outputs,)
    active: Floats  # number of rows of margin below one, of shape (n_outputs,)

    @classmethod
    def of(cls, vector: Floats, shape: tuple[int, int]) -> Self:
        """Return the parts of a vector, as views of it, for weights of a shape."""
        k, n_outputs = shape[0] * shape[1], shape[0]
        statistics = vector[k + 1 : len(vector) - 2 * n_outputs].reshape(3, -1)
        loss, active = vector[len(vector) - 2 * n_outputs :].reshape(2, n_outputs)
        return cls(vector[:k].reshape(shape), float(vector[k]), statistics, loss, active)

    @staticmethod
    def size(shape: tuple[int, int]) -> int:
        """Return the length of a vector with statistics."""
        return (shape[0] + 3) * shape[1] + 1 + 2 * shape[0]

    @staticmethod
    def parts(shape: tuple[int, int], size: int) -> list[slice]:
        """Return the parts of a vector of this size, without the number of rows, and the weights behind it."""
        k, n_outputs, n_features = shape[0] * shape[1], *shape
        ends = [*range(k + 1, size - 2 * n_outputs, n_features), size - 2 * n_outputs, size - n_outputs, size, size + k]
        return [slice(0, k), *(slice(*pair) for pair in pairwise(ends))]

    @property
    def vector(self) -> Floats:
        """The vector of these parts."""
        parts = self.pull.ravel(), [self.rows], self.statistics.ravel(), self.loss, self.active
        return np.concatenate(parts)

    def may_be_of(self, rows: HingeRows) -> bool:
        """Return whether means can be those of rows with such losses."""
        if rows.loss.smooth:  # by Cauchy and Schwarz
            likely = self.active**2 <= 4 * 2 * rows.largest_gain * (np.maximum(self.loss, 0) + 0.25)
        else:
            likely = np.abs(self.active - 0.5) < 0.75
        return bool((self.loss > -0.25).all() and likely.all())


@dataclass
class Answer:
    """Means over all rows of what their dual coefficients make, averaged over the steps as these are."""

    pull: Floats  # of shape (n_outputs, n_features)
    activity: Floats  # of shape (n_outputs,), as the price
    price: Floats

    @classmethod
    def of(cls, shape: tuple[int, int]) -> Self:
        """Return what no step has added to, for weights of a shape."""
        return cls(np.zeros(shape), np.zeros(shape[0]), np.zeros(shape[0]))

    def add(self, means: Sums, weight: float) -> None:
        """Average in the means of a step, with its weight in the average."""
        self.pull = self.pull + (means.pull - self.pull) * weight
        self.activity = self.activity + (means.active - self.activity) * weight
        self.price = self.price + (means.loss - self.price) * weight


def bounded(weights: Floats, norm_bound: float) -> Floats:
    """Return weights that no correct site refuses, shortened to half of that bound; zeros if their norm is not finite.

    What a hostile member has said within all bounds may throw an iterate far off for a moment, or move the schema and
    the weights with it, and its site would be taken for a liar. The other half is for what compression rounds.
    Without a bound, as in a simulation, weights are left as they are, so that steps that diverge show.
    """
    if np.isinf(norm_bound):
        return weights
    with np.errstate(over="ignore", invalid="ignore"):
        norm = float(np.linalg.norm(weights))
    if not np.isfinite(norm):
        return np.zeros_like(weights)
    return weights if norm <= norm_bound / 2 else weights * (norm_bound / 2 / norm)


class Exchange(Message, frozen=True, tag="exchange", omit_defaults=True):
    """Message that a site sends a neighbour in a round."""

    mass: Mass
    steps: Count  # that the sender has taken
    # weights of the sender, of shape (n_outputs, n_features); of no rows while it has none worth sending, or with local
    # gradients, whose mass has them
    iterate: Annotated[Array, Numbers((2,))]
    schema: Digest = ""  # of the sender; messages about other schemas are ignored
    is_base: bool = False  # whether later messages may be differences from this one

    def fault(
        self, sender: str, push_sum: PushSum, shape: tuple[int, int], norm_bound: float, mass_bound: float
    ) -> str | None:
        """Return why this cannot come from a correct site that learns what the receiver does; None if it can.

        `push_sum` is the receiver's, and `shape` that of its weights. `norm_bound` is of the norm of weights, and
        `mass_bound` of what one message may add to any sum.
        """
        sent, iterate = self.mass.sent, self.iterate
        if sent.shape != push_sum.mass.shape or (len(iterate) and iterate.shape != shape):
            wrong = iterate.shape if len(iterate) else sent.shape
            return f"its message has shape {wrong}, expected {shape} for {shape[1]} features"
        if norm_bound < np.inf and np.linalg.norm(iterate) > norm_bound:
            return f"its weights have a norm of {np.linalg.norm(iterate):.3g}, expected at most {norm_bound:.3g}"
        news = push_sum.news(sender, self.mass)
        if news is None:
            return None
        if (added := np.abs(news).max()) > mass_bound:
            return f"its message adds {added:.3g} to a sum, expected at most {mass_bound:.3g}"
        if (rows := Sums.of(news, shape).rows) < 0:
            return f"its message takes {-rows:.3g} rows away, which no site does"
        return None


# names on the wire, for there is one of each in every message
_SHORT = {"life": "l", "knows": "k", "number": "q", "heard": "h", "rows": "r", "change": "c", "steps": "t",
          "digest": "d", "is_new": "i"}  # fmt: skip


class Difference(Message, frozen=True, tag="difference", omit_defaults=True, rename=_SHORT):
    """Message of the same content, the sums and the iterate as differences from those of an earlier one."""

    life: Life  # as in `Mass`, and so on
    knows: Life
    number: Count
    heard: Count
    rows: Finite
    change: Change
    steps: Count
    digest: Digest = ""
    is_new: bool = False  # whether the sender has no iterate worth sending yet

    @classmethod
    def of(cls, mass: Mass, shape: tuple[int, int], change: Change, steps: int, schema: str, is_new: bool) -> Self:
        """Return the message with these sums; the parameters are as in `Exchange` and above."""
        rows = float(mass.sent[shape[0] * shape[1]])
        return cls(mass.life, mass.knows, mass.sequence, mass.heard, rows, change, steps, schema, is_new)

    @property
    def schema(self) -> str:
        """The digest of the sender's schema."""
        return self.digest

    def whole(self, known: Incoming, shape: tuple[int, int], size: int) -> Exchange | str | None:
        """Return the message itself, the fault that no correct site can have made, or None if it cannot be known.

        `known` are the messages that the sender may refer to, `shape` that of the weights and `size` that of the sums.
        """
        try:
            vector = known.vector(self.number, self.change, Sums.parts(shape, size), self.rows)
        except ValueError as error:
            return str(error)
        if vector is None:
            return None
        mass = Mass(self.life, self.knows, self.number, self.heard, vector[:size])
        found = Exchange(mass, self.steps, vector[size:].reshape(shape), self.digest)
        return message_fault(mass) or message_fault(found) or found
