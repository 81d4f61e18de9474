r"""Site of GADGET as its paper prints it, line by line.

The paper ("A consensus algorithm for linear support vector machines"; an earlier version is H.
Dutta, N. Nataraj, arXiv:1812.02261) prints the step of a site three times, and differently. With
``eta = 1/(alpha t)`` in iteration t, and (x, y) the example that is drawn,

    "algorithm 3"   (b) forms the set M+ of the examples with ``y w.x < 1``, which no line uses, and
                    (c) sets ``L = y x``;  (e) ``w <- (1 - alpha eta) w + eta L``
    "equation 4"    the gradient is ``alpha w + [y w.x < 1] y x``, with the sign of its second term
                    wrong, and ``w <- w - eta gradient``
    "equation 5"    ``w <- (1 - 1/t) w + eta [y w.x < 1] y x``, which is Pegasos, and Algorithm 3
                    with L taken from M+

By "algorithm 3" no example is left out by its margin, so that nothing is learnt but the difference
of the classes' means; by "equation 4" sites walk away from their examples. The other lines are the
same in all forms:

    (a)  an example is drawn uniformly at random; or one of the mini-batches into which section 4
         divides the examples of a site, over which L is the mean; or L is the mean over all ("GD")
    (f)  ``w <- w min(1, 1/(sqrt(alpha) |w|))``, which is optional. The line has a tilde on w where
         (e) has a hat: they are taken to be one vector, and the norm to be its own
    (g)  Push-Sum (Algorithm 1) from ``(s, r) = (w, 1)`` in every iteration, for
         `gossip_rounds` rounds, whose number is not printed. In each, half of both goes to one random
         neighbour: the half is our choice, and section 3.2.4 has one neighbour. The ratio s/r is
         the new w
    (h)  the projection again, printed twice and done once; optional, too

Algorithm 3 does not weight the sites by their numbers of examples n_i. Equation 9 of the appendix
does, where L is a sum over the examples; where all n_i are equal, as in the paper's experiments,
both are the same. `gossip_rounds`, the shares, the network and the value of lambda are not printed.

A lost message is mass lost until the next iteration, a repeated one counts twice, and what comes
late counts for the iteration in which it comes. Nothing waits, and nobody notices that a neighbour
has gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Array, Message, Numbers
from dimargin.gossip.program import Action, Send
from dimargin.gossip.programs.algorithm import Problem
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats
from dimargin_bench.gossip_rivals.uniform_site import LARGEST_SUM, MIN_WEIGHT, UniformParameters, UniformSite


class Given(Message, frozen=True, tag="given"):
    """Message with half of the sender's mass."""

    vector: Annotated[Array, Numbers((2,))]  # of shape (n_outputs, n_features)
    weight: Annotated[float, Meta(ge=0, le=LIMITS.count)]


class PrintedSite(UniformSite):
    """Site that does what the paper prints."""

    messages = (Given,)

    def __init__(self, parameters: UniformParameters, problem: Problem, rows: HingeRows, seed: tuple[int, ...]) -> None:
        super().__init__(parameters, problem, rows, seed)
        self._vector, self._weight = np.zeros(self._shape), 1.0
        size, n = parameters.batch_size, rows.n_rows
        order = np.random.default_rng(n).permutation(n)  # the same after a restart
        self._batches = None if size is None or not n else np.array_split(order, max(1, n // size))

    @property
    def weights(self) -> Floats:
        """Line (h): mass over its weight, projected; the last ones where there is no weight."""
        if self._weight <= MIN_WEIGHT:
            return self._last
        weights = self._vector / self._weight
        return np.asarray(weights * self._shrinkage(weights))

    def _batch(self) -> NDArray[np.intp] | None:
        """Line (a): one of the mini-batches into which the rows are divided; None for all rows."""
        return None if self._batches is None else self._batches[int(self._rng.integers(len(self._batches)))]

    def _may_step(self, now: float) -> bool:
        return True

    def _step(self, chosen: NDArray[np.intp] | None) -> None:
        """Lines (b) to (f), and the mass of line (g)."""
        weights = self.weights
        vector = (1 - 1 / self.steps) * weights + self._pull(weights, chosen) / (self.problem.alpha * self.steps)
        self._vector, self._weight = np.asarray(vector * self._shrinkage(vector)), 1.0

    def _pull(self, weights: Floats, chosen: NDArray[np.intp] | None) -> Floats:
        """Return L, the mean over a batch, of shape (n_outputs, n_features)."""
        if self.parameters.form == "algorithm 3":
            X, signs = self.rows.X, self.rows.signs
            if chosen is not None:
                X, signs = X[chosen], signs[:, chosen]
            return np.asarray((X.T @ signs.T).T / max(signs.shape[1], 1))
        found = self.rows.evaluate(weights, chosen)
        pull = found.pull / max(found.dual.shape[1], 1)
        return np.asarray(-pull if self.parameters.form == "equation 4" else pull)

    def _let_go(self, now: float) -> Iterable[Action]:
        return ()

    def _forget(self, name: str) -> None:
        return

    def _tell(self, now: float) -> Iterator[Action]:
        names = self.neighbourhood.spoken_to
        if names:
            self._vector, self._weight = self._vector / 2, self._weight / 2
            yield Send(self._drawn(names), Given(self._vector, self._weight))

    def receive(self, now: float, sender: str, message: Message) -> Iterator[Action]:
        """Add what a neighbour has given."""
        assert isinstance(message, Given)
        if sender in self.neighbourhood.refused:
            return
        if message.vector.shape != self._shape:
            yield from self.refuse(now, sender, f"its vector has shape {message.vector.shape}, expected {self._shape}")
            return
        largest = float(np.abs(message.vector).max(initial=0.0))
        if largest > LARGEST_SUM:
            yield from self.refuse(now, sender, f"it gives {largest:.3g}, expected at most {LARGEST_SUM:g}")
            return
        self._vector, self._weight = self._vector + message.vector, self._weight + message.weight

    def checkpoint(self) -> dict[str, Any]:
        """Return all that was learnt, and the mass."""
        return super().checkpoint() | {"vector": self._vector, "weight": self._weight}

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        super().restore(state)
        self._vector, self._weight = state["vector"], state["weight"]
