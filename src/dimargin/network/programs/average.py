"""Push-Sum by itself: every site learns the weighted mean of the vectors of all."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from dimargin.network.messages import Message
from dimargin.network.program import Action, Send, SiteProgram, Wake
from dimargin.network.push_sum import Mass, PushSum
from dimargin.system.arrays import Floats


class Share(Message, frozen=True, tag="share"):
    """Mass on its way."""

    mass: Mass


class Average(SiteProgram):
    """Push-Sum (Push-Vector, where the value is one) of a weighted mean.

    Parameters
    ----------
    value : ndarray of shape (d,)
    weight : float, default=1.0
        Not negative; the sum over all sites must be positive.
    one_neighbour : bool, default=False
        Give half of the mass to one neighbour, drawn at random, in place of equal shares to all (uniform gossip).
    seed : sequence of int
        Of the draws.

    Examples
    --------
    >>> from dimargin.simulation.simulator import Simulator
    >>> from dimargin.network.topology import make_graph
    >>> values = {"a": 3.0, "b": 5.0, "c": 10.0}
    >>> sites = {name: lambda v=v: Average(np.array([v])) for name, v in values.items()}
    >>> simulator = Simulator(sites, make_graph("ring", 3))
    >>> simulator.run(until=40)
    'until'
    >>> [round(float(program.estimate[0]), 6) for program in simulator.programs.values()]
    [6.0, 6.0, 6.0]
    """

    shares = "parameters"
    messages = (Share,)

    def __init__(
        self, value: Floats, weight: float = 1.0, one_neighbour: bool = False, seed: tuple[int, ...] = (0,)
    ) -> None:
        self.push_sum = PushSum(np.append(weight * np.asarray(value, dtype=np.float64), weight))
        self._one, self._rng = one_neighbour, np.random.default_rng(seed)
        self._neighbours: tuple[str, ...] = ()

    @property
    def estimate(self) -> Floats:
        """The mean, as far as this site knows it; NaN while it has no weight."""
        mass = self.push_sum.mass
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(mass[:-1] / mass[-1])

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Wait for the first round."""
        self._neighbours = tuple(neighbours)
        yield Wake(1.0)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """A round."""
        chosen: tuple[str, ...] = self._neighbours
        if self._one and chosen:
            chosen = (chosen[self._rng.integers(len(chosen))],)
        for neighbour, mass in self.push_sum.shares(chosen).items():
            yield Send(neighbour, Share(mass))
        yield Wake(1.0)

    def receive(self, now: float, sender: str, message: Message) -> Iterator[Action]:
        """Add what has come."""
        assert isinstance(message, Share)
        self.push_sum.take(sender, message.mass)
        yield from ()

    def neighbours_changed(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Share with others from now on."""
        self._neighbours = tuple(neighbours)
        yield from ()

    def checkpoint(self) -> dict[str, Any]:
        """The mass and the draws."""
        return {"push_sum": self.push_sum.checkpoint(), "draws": json.dumps(self._rng.bit_generator.state)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on."""
        self.push_sum = PushSum.restore(state["push_sum"])
        self._rng.bit_generator.state = json.loads(state["draws"])
