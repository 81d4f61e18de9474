r"""Base class of site programs that advance in common rounds, over a network that loses, repeats and delays messages.

This is a local synchroniser: a site starts the next round when it has this round's message of every
participating neighbour. The message itself is the signal that its sender has finished the round
(alpha-synchroniser: Awerbuch, "Complexity of network synchronization", Journal of the ACM 1985;
there the network loses nothing, and acknowledgements and safety signals are separate messages). Two
neighbours are at most one round apart; sites at the two ends of a network may be as many rounds
apart as the path between them has edges.

* Without faults every edge carries one message per direction and round of the simulator.
* A site that still waits when its timer ends sends its neighbours a short message (`Waiting`) with
  the number up to which it has each neighbour's messages. A neighbour then resends the missing
  ones, so that a lost message costs one more message and one short one; until then the short
  messages show that the site lives.
* A neighbour that is silent for a lease is left out (`left`), and sites continue without it, alone
  if necessary. A neighbour that lives but finishes no turn for three leases, in which it may reopen
  the edge, is left out for two leases, and for twice as long every further time.
* A neighbour that comes late, or returns, takes part immediately: both ends send the
  message of their current round and wait for the other's. This happens in the middle of a round,
  since a message that one end sends only after its round could close a cycle of sites that all wait
  for each other. A site that starts or was alone takes the number of the round from the others,
  because step sizes may depend on it.

Links must carry messages both ways. If a site has lost its memory, the lives of its edges follow
from `LearnerSettings.birth` and its clock, which must run while the site is down, as it does in the
simulator.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Message
from dimargin.gossip.neighbourhood import Neighbourhood, lower_median
from dimargin.gossip.program import Action, Report, Send, Wake
from dimargin.gossip.programs.learner import LearnerSettings, Listener
from dimargin.gossip.rounds.turns import Edge, Step, Turn, Waiting

LONGEST_RUN = 10**7  # A starting site takes at most this number of rounds from its neighbours.


class Synchronous(Listener):
    """Site program of an algorithm in rounds: `begin`, then `outgoing` for every neighbour, then `advance`.

    Subclasses list the messages that they send, subclasses of `Step`, in `kinds`. They list in
    `state` the attributes for a checkpoint: numbers, texts, arrays, and dictionaries or lists of
    these.

    Parameters
    ----------
    settings : LearnerSettings
        Its lease must be finite.
    seed : sequence of int
        Seed of the random numbers.

    Attributes
    ----------
    rounds : int
        Rounds that the site has finished.
    since : int
        Round of the last change of the problem that the site knows, for programs that care.
    edges : dict from neighbour to Edge
    rng : numpy.random.Generator
    """

    shares = "parameters"
    kinds: ClassVar[tuple[type[Message], ...]]
    state: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: LearnerSettings, seed: tuple[int, ...] = (0,)) -> None:
        if not math.isfinite(settings.lease):
            raise ValueError(
                f"lease must be finite, got {settings.lease}: sites that wait for each other need links both ways"
            )
        self.settings = settings
        self.neighbourhood = Neighbourhood(settings.lease, settings.max_messages)
        self.rng = np.random.default_rng(seed)
        self.rounds = self.since = 0
        self.edges: dict[str, Edge] = {}
        self._degree = 0  # The degree announced in this round.
        self._has_begun = self._is_late = False
        self._now = self._told = 0.0  # Time of the last event, and of the last messages that tell what is missing.

    def __init_subclass__(cls) -> None:
        """Add `Waiting` to the messages of a subclass."""
        if "kinds" in cls.__dict__:
            cls.messages = (*cls.kinds, Waiting)

    # ---- methods that subclasses implement -----------------------------------------------------------------------

    def begin(self) -> None:
        """Prepare the messages of a round."""

    @abstractmethod
    def outgoing(self, neighbour: str) -> Step:
        """Return this round's message to a neighbour, with `head`; may be called at any time in the round."""

    @abstractmethod
    def advance(self, messages: Mapping[str, Any]) -> None:
        """Finish a round with the messages of the neighbours; there are none if the site is alone."""

    def fault(self, sender: str, message: Any) -> str | None:
        """Return why no correct site would send a message, or None."""
        return None

    def left(self, name: str) -> None:
        """Undo a neighbour's contributions as far as possible."""

    def shortened(self, neighbour: str, message: Step) -> Message:
        """Return what is sent in place of a message: the same, or a short form that `lengthened` undoes."""
        return message

    def lengthened(self, sender: str, message: Any) -> Any:
        """Return the message that a neighbour has shortened, or None if the edge has another state.

        Then the next long message tells either end about the state of the other.
        """
        return message

    @property
    def rests(self) -> bool:
        """Return whether the site begins no further round at present."""
        return False

    # ---- methods that subclasses may use -------------------------------------------------------------------------

    @property
    def head(self) -> dict[str, Any]:
        """Fields that all messages have; the turn is set when the message is sent."""
        return {"turn": Turn(), "round": self.rounds, "degree": self._degree, "schema": self.settings.schema}

    @property
    def members(self) -> list[str]:
        """Names of the neighbours that take part, sorted."""
        return sorted(name for name, edge in self.edges.items() if edge.is_open)

    def metropolis(self, messages: Mapping[str, Step]) -> dict[str, float]:
        """Return the weight ``1 / (1 + max(deg_i, deg_j))`` of every neighbour, equal at both ends of an edge."""
        return {name: 1 / (1 + max(self._degree, message.degree)) for name, message in messages.items()}

    # ---- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Send the messages of the first round, or resume the round of the checkpoint."""
        self._now = now
        self.neighbourhood.change(neighbours)
        if self._has_begun:
            for name in self.members:
                self.neighbourhood.heard[name] = self.edges[name].waits_since = now
            yield from self._wait()
        else:
            for name in neighbours:
                self._edge(name).open(now)
                self.neighbourhood.heard[name] = now
            yield from self._next_round()
        yield Wake(self.settings.interval)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Start the next round if no message is missing; otherwise tell the neighbours which are."""
        self._now = now
        yield from self._leave_out_silent()
        was_late = self._is_late
        if self._is_complete and not self.rests:
            yield from self._finish()
        else:
            yield from self._wait()
        # A message that is late for the first time may be on its way; half an interval later it is missing.
        yield Wake(self.settings.interval / (1 if was_late or not self._is_late else 2))

    def receive(self, now: float, sender: str, message: Any) -> Iterator[Action]:
        """Take a message, answer it if its sender waits, and start the next round if it was the last missing one."""
        self._now = now
        near = self.neighbourhood
        if sender not in near.names:  # Both sites send each other messages once they can reach each other.
            return
        message, edge = self.lengthened(sender, message), self._edge(sender)
        if message is not None:
            yield from super().receive(now, sender, message)
        elif sender not in near.refused and (fault := near.hear(now, sender)) is not None:
            yield from self.refuse(now, sender, fault)
        if edge.is_open and edge.sent == 0:
            yield Send(sender, self.shortened(sender, edge.add(self.outgoing(sender), now)))
        elif edge.is_open and type(message) is Waiting and edge.fits(message.turn):
            for number in edge.missing(message.turn, now - self.settings.interval):
                yield Send(sender, self.shortened(sender, edge.stamped(number, now)))
        if self._is_late and self._is_complete and not self.rests:
            yield from self._finish()
            yield Wake(self.settings.interval)

    def take(self, sender: str, message: Any) -> str | None:
        """Put a message into the inbox of its edge, which it may open or close."""
        edge = self._edge(sender)
        if edge.hear(message.turn, self._now):
            self.left(sender)
        if edge.may_open(message.turn):
            edge.open(self._now)
        if type(message) is Waiting or not message.turn.number:
            return None
        fits = edge.is_open and edge.fits(message.turn)
        is_new = fits and edge.is_new(message.turn)
        if is_new and (fault := self.fault(sender, message) or edge.take(message)):
            return fault
        return self.neighbourhood.judge(sender, is_new or not fits)

    def leave(self, name: str) -> None:
        """Continue without a neighbour."""
        self.neighbourhood.heard.pop(name, None)
        edge = self._edge(name)
        was_open = edge.is_open
        edge.close()
        edge.excuse()
        if was_open:
            self.left(name)

    # ---- rounds --------------------------------------------------------------------------------------------------

    def _edge(self, name: str) -> Edge:
        if name not in self.edges:
            # With at most 100 lives per second, this life is new even after a loss of memory.
            life = 1 + int(100 * (self.settings.birth + self._now))
            self.edges[name] = Edge(life=min(life, LIMITS.lives // 2))
        return self.edges[name]

    @property
    def _is_complete(self) -> bool:
        return all(edge.is_complete for edge in self.edges.values() if edge.is_open)

    def _finish(self) -> Iterator[Action]:
        """Finish a round with the messages that have come, and start the next."""
        messages = {name: self.edges[name].inbox.pop(self.edges[name].sent) for name in self.members}
        if messages and all(self.edges[name].sent == 1 for name in messages):  # This site has started, or was alone.
            lead = lower_median(message.round for message in messages.values())
            self.rounds = max(self.rounds, min(lead, LONGEST_RUN))
        self.advance(messages)
        self.rounds += 1
        yield from self._next_round()

    def _next_round(self) -> Iterator[Action]:
        """Send the messages of a new round, and a sign of life to neighbours that do not take part."""
        self._has_begun, self._is_late = True, False
        members = self.members
        self._degree = len(members)
        self.begin()
        for name in members:
            yield Send(name, self.shortened(name, self.edges[name].add(self.outgoing(name), self._now)))
        yield from self._send_waiting(closed_only=True)

    def _wait(self) -> Iterator[Action]:
        """Tell neighbours what is missing, except at first; at rest, only show that the site lives."""
        was_late, self._is_late = self._is_late, True
        if was_late and self._now - self._told >= (self.settings.lease / 8 if self.rests else 0.0):
            self._told = self._now
            yield from self._send_waiting()

    def _send_waiting(self, closed_only: bool = False) -> Iterator[Action]:
        """Tell neighbours which of their messages have come."""
        for name in self.neighbourhood.spoken_to:
            edge = self._edge(name)
            if not (closed_only and edge.is_open):
                yield Send(name, Waiting(edge.turn(), self.rounds, self._degree, self.settings.schema, self.since))

    def _leave_out_silent(self) -> Iterator[Action]:
        """Continue without neighbours that are silent, or that send nothing new."""
        lease = self.settings.lease
        patience = 3 * lease  # A neighbour that is heard but finishes no turn for so long is left out.
        for name in self.neighbourhood.gone(self._now):
            if self._edge(name).is_open:
                self.leave(name)
                yield Report("silent", {"site": name, "seconds": lease})
        for name in self.members:
            edge = self.edges[name]
            if self.rests:  # The neighbour rests, too, perhaps one turn behind.
                edge.waits_since = self._now
            elif not edge.is_complete and self._now - edge.waits_since > patience:
                self.leave(name)
                edge.stuck += 1
                edge.closed_until = self._now + lease * 2.0 ** min(edge.stuck, 60)
                yield Report("stuck", {"site": name, "seconds": patience})

    # ---- state ---------------------------------------------------------------------------------------------------

    def checkpoint(self) -> dict[str, Any]:
        """Return the round, the edges with their messages, and the state of the algorithm."""
        return {
            "rounds": self.rounds,
            "degree": self._degree,
            "edges": {name: edge.checkpoint() for name, edge in self.edges.items()},
            "draws": json.dumps(self.rng.bit_generator.state),
            "learnt": {name: getattr(self, name) for name in self.state},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint.

        Raises
        ------
        ValueError
            If an array has NaN or infinite values.
        """
        for name, value in state["learnt"].items():
            if not all(np.isfinite(array).all() for array in _arrays(value)):
                raise ValueError(f"its {name} are NaN or infinite")
            setattr(self, name, value)
        self.rounds, self._degree, self._has_begun = state["rounds"], state["degree"], True
        self.edges = {name: Edge.restore(edge, self.messages) for name, edge in state["edges"].items()}
        self.rng.bit_generator.state = json.loads(state["draws"])


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _arrays(part)
