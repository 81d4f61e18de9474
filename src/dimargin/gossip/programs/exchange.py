"""Messages of sites that learn by GADGET, the sums in them, and their validation."""

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
    """Layout of the vectors of Push-Sum: sums over the rows of a site, or shares of the sums of all sites."""

    # Sum of y x over the rows of margin below one, of shape (n_outputs, n_features). With local
    # gradients, the weights times the number of rows.
    pull: Floats
    rows: float  # Number of rows.
    # Curvature, first and second moments, of shape (3, n_features), or (3, 0) if not needed.
    statistics: Floats
    loss: Floats  # Sum of the losses, of shape (n_outputs,).
    active: Floats  # Number of rows of margin below one, of shape (n_outputs,).

    @classmethod
    def of(cls, vector: Floats, shape: tuple[int, int]) -> Self:
        """Return the parts of a vector, as views, for weights of the given shape."""
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
        """Return slices of the parts of a vector, except the number of rows, and of the weights that follow it."""
        k, n_outputs, n_features = shape[0] * shape[1], *shape
        ends = [*range(k + 1, size - 2 * n_outputs, n_features), size - 2 * n_outputs, size - n_outputs, size, size + k]
        return [slice(0, k), *(slice(*pair) for pair in pairwise(ends))]

    @property
    def vector(self) -> Floats:
        """The vector of these parts."""
        parts = self.pull.ravel(), [self.rows], self.statistics.ravel(), self.loss, self.active
        return np.concatenate(parts)

    def may_be_of(self, rows: HingeRows) -> bool:
        """Return whether these can be means over rows with the loss of `rows`, with some tolerance."""
        if rows.loss.smooth:  # The inequality of Cauchy and Schwarz holds.
            plausible = self.active**2 <= 4 * 2 * rows.largest_gain * (np.maximum(self.loss, 0) + 0.25)
        else:
            plausible = np.abs(self.active - 0.5) < 0.75
        return bool((self.loss > -0.25).all() and plausible.all())


@dataclass
class Answer:
    """Means over all rows for the dual objective, averaged over the steps like the dual coefficients."""

    pull: Floats  # Mean of a y x, of shape (n_outputs, n_features).
    activity: Floats  # Mean of the linear terms of the dual objective, of shape (n_outputs,).
    price: Floats  # Mean of its quadratic terms for smooth losses, of shape (n_outputs,).

    @classmethod
    def of(cls, shape: tuple[int, int]) -> Self:
        """Return zeros for weights of the given shape."""
        return cls(np.zeros(shape), np.zeros(shape[0]), np.zeros(shape[0]))

    def add(self, means: Sums, weight: float) -> None:
        """Include the means of a step in the average, with the given weight."""
        self.pull = self.pull + (means.pull - self.pull) * weight
        self.activity = self.activity + (means.active - self.activity) * weight
        self.price = self.price + (means.loss - self.price) * weight


def bounded(weights: Floats, norm_bound: float) -> Floats:
    """Return weights shortened to half of the bound above which sites refuse them; zeros if the norm is not finite.

    Messages of a hostile member, within all bounds, may move an iterate far away for a moment, or
    the schema and the weights with it; other sites would then refuse this one. The other half is
    for the rounding of compression. Without a bound, as in a simulation, weights are not changed,
    so that divergence shows.
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
    steps: Count  # Number of steps of the sender.
    # Weights of the sender, of shape (n_outputs, n_features). Empty before it has learnt any, and
    # with local gradients, whose mass contains them.
    iterate: Annotated[Array, Numbers((2,))]
    schema: Digest = ""  # Digest of the sender's schema; messages about other schemas are ignored.
    is_base: bool = False  # Whether later messages may be differences from this one.

    def fault(
        self, sender: str, push_sum: PushSum, shape: tuple[int, int], norm_bound: float, mass_bound: float
    ) -> str | None:
        """Return why this cannot come from a correct site with the receiver's task; None if it can.

        `push_sum` is the receiver's, and `shape` that of its weights. `norm_bound` limits the norm
        of weights, and `mass_bound` the size of what one message may add to any sum.
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
            return f"its message removes {-rows:.3g} rows; the number of rows cannot fall"
        return None


# Every message repeats the names of its fields, which are therefore short on the wire.
_WIRE_NAMES = {"life": "l", "knows": "k", "number": "q", "heard": "h", "rows": "r", "change": "c", "steps": "t",
               "digest": "d", "is_new": "i"}  # fmt: skip


class Difference(Message, frozen=True, tag="difference", omit_defaults=True, rename=_WIRE_NAMES):
    """Message with the content of `Exchange`, its sums and iterate as differences from those of an earlier message."""

    life: Life  # `life`, `knows`, `number` and `heard` are as in `Mass`, which calls the number `sequence`.
    knows: Life
    number: Count
    heard: Count
    rows: Finite
    change: Change
    steps: Count
    digest: Digest = ""
    is_new: bool = False  # Whether the sender has not learnt an iterate yet.

    @classmethod
    def of(cls, mass: Mass, shape: tuple[int, int], change: Change, steps: int, schema: str, is_new: bool) -> Self:
        """Return the message with these sums; the parameters are as in `Exchange` and `Difference`."""
        rows = float(mass.sent[shape[0] * shape[1]])
        return cls(mass.life, mass.knows, mass.sequence, mass.heard, rows, change, steps, schema, is_new)

    @property
    def schema(self) -> str:
        """The digest of the sender's schema."""
        return self.digest

    def whole(self, known: Incoming, shape: tuple[int, int], size: int) -> Exchange | str | None:
        """Return the whole message, a fault that no correct site can have made, or None if its base is unknown.

        `known` holds the possible base messages; `shape` and `size` are as in `Sums`.
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
