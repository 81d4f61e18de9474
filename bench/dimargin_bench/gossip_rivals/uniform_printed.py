r"""Site of GADGET as its paper prints it.

The pseudo-code ("A consensus algorithm for linear support vector machines", Algorithm 3;
an earlier version is H. Dutta, N. Nataraj, arXiv:1812.02261) leaves questions open. Iteration t
with ``eta = 1/(alpha t)``, and the reading that was taken of each line:

    (a)  draw one example                        read as a batch B_i of one or more rows, or of all, which is what
    (b)  for all M_i examples of the site        line (b) wants; the two contradict each other
    (c)  L_i = mean of y x                       over the batch; no row is left out by its margin, so that nothing is
                                                 learnt but the difference of the classes' means
    (e)  w~_i = (1 - alpha eta) w_i + eta L_i    hats and tildes as they make sense
    (f)  w~_i <- w~_i min(1, 1/(sqrt(alpha) |w_i|))     the norm of another vector, taken to be the last iterate
    (g)  Push-Sum with B                         B rounds; a matrix of shares ``1/degree`` would not be doubly
                                                 stochastic, as the paper says that it is. The mass is distributed
                                                 anew in each iteration. Weights by rows are in the appendix alone
                                                 (equation 9), where n_i multiplies w_i but not L_i:
                                                 ``s_i = n_i (1 - alpha eta) w_i + eta L_i``, ``r_i = n_i``
    (h)  project w_i, twice                      once, by its own norm

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
    """Message with half of the sender's mass, as the paper has it."""

    vector: Annotated[Array, Numbers((2,))]  # of shape (n_outputs, n_features)
    weight: Annotated[float, Meta(ge=0, le=LIMITS.count)]


class PrintedSite(UniformSite):
    """Site that does what the paper prints."""

    messages = (Given,)

    def __init__(self, parameters: UniformParameters, problem: Problem, rows: HingeRows, seed: tuple[int, ...]) -> None:
        super().__init__(parameters, problem, rows, seed)
        self._vector, self._weight = np.zeros(self._shape), float(rows.n_rows)

    @property
    def weights(self) -> Floats:
        """Line (h): mass over its weight, projected; the last ones where there is no weight."""
        if self._weight <= MIN_WEIGHT:
            return self._last
        weights = self._vector / self._weight
        return np.asarray(weights * self._shrinkage(weights))

    def _may_step(self, now: float) -> bool:
        return True

    def _step(self, chosen: NDArray[np.intp] | None) -> None:
        """Lines (c) to (f), and the mass of equation 9."""
        X, signs = self.rows.X, self.rows.signs
        if chosen is not None:
            X, signs = X[chosen], signs[:, chosen]
        mean = (X.T @ signs.T).T / max(signs.shape[1], 1)
        weights, n = self.weights, self.rows.n_rows
        vector = n * (1 - 1 / self.steps) * weights + mean / (self.problem.alpha * self.steps)
        self._vector, self._weight = np.asarray(vector * self._shrinkage(weights)), float(n)

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
