"""Site program for plain Push-Sum, which computes the weighted mean of all sites' vectors at every site."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from dimargin.gossip.messages import Message
from dimargin.gossip.program import Action, Send, SiteProgram, Wake
from dimargin.gossip.push_sum import Mass, PushSum
from dimargin.system.arrays import Floats


class Share(Message, frozen=True, tag="share"):
    """Message with the share of the mass for a neighbour."""

    mass: Mass


class Average(SiteProgram):
    """Site program for a weighted mean by Push-Sum (Push-Vector, where the value is a vector).

    Parameters
    ----------
    value : ndarray of shape (d,)
    weight : float, default=1.0
        Weight of the value, not negative; the sum over all sites must be positive.

    Examples
    --------
    >>> from dimargin.gossip.simulation.simulator import Simulator
    >>> from dimargin.gossip.topology import make_graph
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

    def __init__(self, value: Floats, weight: float = 1.0) -> None:
        self.push_sum = PushSum(np.append(weight * np.asarray(value, dtype=np.float64), weight))

    @property
    def estimate(self) -> Floats:
        """Estimate of the mean at this site, of shape (d,); NaN while it has no weight."""
        mass = self.push_sum.mass
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(mass[:-1] / mass[-1])

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Set the timer of the first round."""
        self.neighbourhood.change(neighbours)
        yield Wake(1.0)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Run a round: send shares of the mass."""
        for neighbour, mass in self.push_sum.shares(self.neighbourhood.spoken_to).items():
            yield Send(neighbour, Share(mass))
        yield Wake(1.0)

    def receive(self, now: float, sender: str, message: Message) -> Iterator[Action]:
        """Add a neighbour's share."""
        assert isinstance(message, Share)
        self.push_sum.take(sender, message.mass)
        yield from ()

    def checkpoint(self) -> dict[str, Any]:
        """Return the mass and the edges."""
        return {"push_sum": self.push_sum.checkpoint()}

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.push_sum = PushSum.restore(state["push_sum"])
