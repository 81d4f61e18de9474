r"""Consensus filter, by which sites average their values without giving them weights: the gossip of Dist-Eval.

Site i holds a vector v_i and, in every round, moves it towards those of its neighbours,

    v_i <- v_i + beta sum_j w_ij (v_j - v_i),   w_ij = 1 / (1 + max(deg_i, deg_j))

(Olfati-Saber, Murray, "Consensus problems in networks of agents", IEEE TAC 2004, with Metropolis
weights). In rounds in which all sites hear all their neighbours the sum of all v_i stays what it
was, so that they tend to the mean, if and only if ``0 < beta < 2 / lambda_max``, where lambda_max
is the largest eigenvalue of ``L = I - W`` (`largest_step`). It is less than two, so that
``beta = 1`` will do on every network.

A neighbour's vector is the newest that has come of it, by the number in its message: late and
repeated ones do nothing, and where a message is lost the one before counts again. Sites then still
agree, for ``beta`` of at most one, but on *a* weighted mean and not on the mean: the sum is not
kept, as Push-Sum with running sums keeps it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np

from dimargin.gossip.messages import Array, Count, Message, Numbers
from dimargin.gossip.neighbourhood import Neighbourhood
from dimargin.gossip.program import Action, Report, Send, SiteProgram, Stop, Wake
from dimargin.gossip.topology import metropolis_weights, mixing_rounds
from dimargin.system.arrays import Floats

_LATE = 16  # rounds by which a message may be late; one that is more so comes from a site that has begun anew


class FilterValues(Message, frozen=True, tag="filter values"):
    """Message with the present vector of a site."""

    sequence: Count  # number of the message among those of its sender
    degree: Count  # neighbours of the sender
    values: Annotated[Array, Numbers()]


class _Heard(NamedTuple):
    sequence: int
    degree: int
    values: Floats


class ConsensusFilter(SiteProgram):
    """Program of one site of a consensus filter.

    Parameters
    ----------
    value : ndarray of shape (d,)
    rounds : int
        Rounds after which the site stops, though it goes on for others.
    beta : float, default=1.0
        Length of a step, positive; see `largest_step`.
    lease : float, default=20.0
        Seconds of silence after which a neighbour is left out.

    Attributes
    ----------
    value : ndarray of shape (d,)
    rounds : int
        That the site has run.

    Examples
    --------
    >>> from dimargin.gossip.simulation.simulator import Simulator
    >>> from dimargin.gossip.topology import make_graph
    >>> values = {"a": 3.0, "b": 5.0, "c": 10.0, "d": 0.0}
    >>> sites = {name: lambda v=v: ConsensusFilter(np.array([v]), 30) for name, v in values.items()}
    >>> simulator = Simulator(sites, make_graph("ring", 4))
    >>> simulator.run()
    'stopped'
    >>> [round(float(program.value[0]), 6) for program in simulator.programs.values()]
    [4.5, 4.5, 4.5, 4.5]
    """

    shares = "parameters"
    messages = (FilterValues,)

    def __init__(self, value: Floats, rounds: int, beta: float = 1.0, lease: float = 20.0) -> None:
        if not 0 < beta < np.inf:
            raise ValueError(f"beta must be a positive number, got {beta!r}")
        if rounds < 1:
            raise ValueError(f"rounds must be a whole number of 1 or more, got {rounds!r}")
        self.value = np.array(value, dtype=np.float64)
        self.rounds = 0
        self._most, self._beta, self._sequence = rounds, beta, 0
        self.neighbourhood = Neighbourhood(lease)
        self._heard: dict[str, _Heard] = {}

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Tell the neighbours the value, and set the timer of the first round."""
        self.neighbourhood.change(neighbours)
        yield from self._tell()
        yield Wake(1.0)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Run a round: move towards the neighbours, and tell them the new value."""
        for silent in self.neighbourhood.gone(now):
            self._heard.pop(silent, None)
            yield Report("silent", {"site": silent, "seconds": self.neighbourhood.lease})
        degree = self._degree
        pull = np.zeros_like(self.value)
        for other in self._heard.values():
            pull += (other.values - self.value) / (1 + max(degree, other.degree))
        self.value = self.value + self._beta * pull
        self.rounds += 1
        yield from self._tell()
        if self.rounds == self._most:
            yield Stop("rounds")
        yield Wake(1.0)

    def receive(self, now: float, sender: str, message: Message) -> Iterator[Action]:
        """Keep a neighbour's vector, unless a newer one is here."""
        assert isinstance(message, FilterValues)
        if sender in self.neighbourhood.refused:
            return
        fault = self.neighbourhood.hear(now, sender)
        if fault is None and message.values.shape != self.value.shape:
            fault = f"its values have shape {message.values.shape}, expected {self.value.shape}"
        if fault is not None:
            yield from self.refuse(now, sender, fault)
            return
        newest = self._heard[sender].sequence if sender in self._heard else -1
        if message.sequence > newest or newest - message.sequence > _LATE:
            self._heard[sender] = _Heard(message.sequence, message.degree, message.values)

    def refuse(self, now: float, sender: str, reason: str) -> Iterator[Action]:
        """Ignore a sender from now on; what it has moved this site by is not undone."""
        self.neighbourhood.refuse(sender, reason)
        self._heard.pop(sender, None)
        yield Report("refused", {"site": sender, "reason": reason})

    @property
    def _degree(self) -> int:
        """Number of neighbours; those that have never been heard count, as a first message may be lost."""
        return len(self.neighbourhood.spoken_to)

    def _tell(self) -> Iterator[Action]:
        self._sequence += 1
        message = FilterValues(self._sequence, self._degree, self.value)
        for name in self.neighbourhood.spoken_to:
            yield Send(name, message)

    def checkpoint(self) -> dict[str, Any]:
        """Return the value, and how many rounds and messages it took."""
        return {"value": self.value, "rounds": self.rounds, "sequence": self._sequence}

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.value, self.rounds, self._sequence = state["value"], state["rounds"], state["sequence"]


def largest_step(graph: Any) -> float:
    """Return the bound below which a step `beta` leads to the mean: ``2 / lambda_max`` of an undirected graph.

    Examples
    --------
    >>> from dimargin.gossip.topology import make_graph
    >>> round(largest_step(make_graph("ring", 10)), 3)  # of eigenvalues (2 - 2 cos(2 pi k / 10)) / 3
    1.5
    """
    largest = float(_eigenvalues(graph)[-1])
    return 2 / largest if largest > 0 else np.inf


def filter_rounds(graph: Any, beta: float, tolerance: float) -> int:
    """Return the rounds in which differences between sites shrink by a factor of `tolerance`."""
    return int(np.ceil(mixing_rounds(np.diag(1 - beta * _eigenvalues(graph)), tolerance) - 1e-9))


def _eigenvalues(graph: Any) -> Floats:
    """Return the eigenvalues of ``I - W``, ascending; the first is zero."""
    return np.asarray(np.linalg.eigvalsh(np.eye(len(graph)) - metropolis_weights(graph)), dtype=np.float64)
