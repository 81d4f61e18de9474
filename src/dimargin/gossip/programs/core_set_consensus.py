r"""Core-set consensus, in which sites agree on the points that determine a ball or a margin machine.

Site i holds a core-set C_i, receives those of others, and repeats, at any time (core-set paper,
algorithm 1):

    S   <- own points + C_i + the C_j that it has received
    C_0 <- the best of C_i and these C_j:  the largest radius; among equal ones the first by the names of its points
    C_i <- a better core-set of S than C_0, if there is one;  else C_0

so that radii never fall. If the network is strongly connected, at least over time, all sites end
with the same set: a site that has a better one sends it to the others. Sets are ordered by radii
rounded to 12 digits, then by the names of their points (site and row), since sets of equal radius
may differ; docs/algorithms.md#core-set-consensus has the other differences from the paper. A site
with several points always keeps all of them in S.

* Sites that hear each other do not send points that the other has: a message without points says
  "still this core-set", by its digest. A neighbour that does not answer, as on a directed edge, is
  sent the points in every round.
* Termination: the number of rounds since the last known change is gossiped along. When nothing has
  changed for `quiet_rounds`, 2 diameter + 1 on a static network (Notarstefano, Bullo, IEEE TAC
  2011), a site stops. If all neighbours send back, a round counts once they have, since a site that
  is computing a better core-set is silent.

If the size k is given, a better core-set is the result of Badoiu and Clarkson's exchanges
(``ceil(1/epsilon)``; d + 1 points of d numbers give the exact ball, which is the constraints
consensus of the paper's predecessor). Otherwise it is a core-set that grows until its ball,
enlarged by `epsilon`, holds all of S. Sites need not agree on an epsilon for machines:
``epsilon rho / (2 r^2)`` is a function of the core-set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec.structs import asdict

from dimargin.gossip.messages import decoder, encode
from dimargin.gossip.neighbourhood import Neighbourhood
from dimargin.gossip.program import Action, Report, Send, Stop, Wake
from dimargin.gossip.programs.candidates import Candidates, Name, Named, points_of, unsound
from dimargin.gossip.programs.core_set_settings import Chosen, CoreSetSettings, rank
from dimargin.gossip.programs.learner import Listener
from dimargin.gossip.programs.row_signatures import RowSignatures
from dimargin.solvers.loop import Limits
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class Heard:
    """Core-set of a neighbour, and its value according to the neighbour."""

    points: Named
    value: float


@dataclass(frozen=True)
class Spoken:
    """State of the exchange with a neighbour.

    `theirs` is the digest of the neighbour's core-set in round `heard`, and `sent` the digest of
    the last core-set that it was sent, in round `sent_at`.
    """

    theirs: str = ""
    heard: float = -np.inf
    sent: str = ""
    sent_at: float = -np.inf


class CoreSetConsensus(Listener):
    """Program of one site.

    Its points X, if any, must be dense or sparse as at all other sites. Labels are codes for a
    margin machine, otherwise ones. Masses are weights of the rows; ones by default. With
    `signatures`, sites sign their rows.
    """

    shares = "rows"
    messages = (Candidates,)
    settings: CoreSetSettings
    limits = Limits(max_iter=100_000)  # Limits of an improvement, which ends by itself.

    def __init__(
        self,
        name: str,
        X: Any,
        labels: Floats,
        settings: CoreSetSettings,
        masses: Floats | None = None,
        signatures: RowSignatures | None = None,
    ) -> None:
        self.name, self.settings, self._signatures = name, settings, signatures
        self.own = self._named(Named.of(name, 0, X, labels, masses))
        self.chosen: Chosen | None = None  # The core-set; None before there is a point.
        self.rounds = self.changes = 0  # Rounds, and changes of the core-set.
        self.neighbourhood = Neighbourhood(np.inf, settings.max_messages)
        self._received: dict[str, Heard] = {}  # Core-sets received since the last round, by sender.
        self._exchanges: dict[str, Spoken] = {}
        self.quiet = 0  # Rounds since the last change that this site knows of.
        self._counted = -1  # Round in which the last quiet one was counted.
        self.has_finished = False  # Whether no core-set has changed for `quiet_rounds`.
        self.given: set[int] = set()  # Own rows that were sent to others.
        self._round_began = self._longest_round = 0.0  # Start of the last round, and seconds of the longest round.
        self._is_new = True  # Whether own points were not considered yet.

    # ---- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Set the timer of the first round."""
        self.neighbourhood.change(neighbours)
        self._round_began = now
        yield Wake(self.settings.interval)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Run a round: improve the core-set, and send messages to the neighbours."""
        self._longest_round, self._round_began = max(self._longest_round, now - self._round_began), now
        self.rounds += 1
        if self._have_all_answered():
            self.quiet, self._counted = self.quiet + 1, self.rounds
        self._improve()
        yield from self._send_core_set()
        # Counts of neighbours keep lowering this one, so a finished site needs only half as many.
        had_finished, min_quiet = self.has_finished, self.settings.quiet_rounds / (2 if self.has_finished else 1)
        self.has_finished = self.chosen is not None and self.quiet > min_quiet
        if self.has_finished and not had_finished:
            yield Stop("quiet")
        yield Wake(self.settings.interval)

    def take(self, sender: str, message: Candidates) -> str | None:
        """Keep a neighbour's core-set for the next round."""
        fault = self._message_fault(message)
        if fault is not None:
            return fault
        self._exchanges[sender] = replace(self._exchange(sender), theirs=message.digest, heard=self.rounds)
        if message.digest == self._points.digest:
            self.quiet = min(self.quiet, message.quiet)
            return None
        self.quiet = 0
        if message.sites:
            self._received[sender] = Heard(self._points_of(message), message.value)
        return None

    def append(self, X: Any, labels: Floats) -> None:
        """Add points of this site."""
        new = self._named(Named.of(self.name, len(self.own.names), X, labels))
        self.own = Named.joined([self.own, new])
        self._is_new, self.quiet, self.has_finished = True, 0, False

    def leave(self, name: str) -> None:
        """Forget a neighbour's messages; its points in the core-set stay, since others have them too."""
        self._received.pop(name, None)
        self._exchanges.pop(name, None)

    def _have_all_answered(self) -> bool:
        """Return whether all neighbours have sent messages since the last round that was counted.

        A site that has lost all its neighbours waits.
        """
        if np.isinf(self.settings.lease):
            return True
        near = self.neighbourhood.spoken_to
        return bool(near or not self._exchanges) and all(self._exchange(name).heard >= self._counted for name in near)

    # ---- consensus -----------------------------------------------------------------------------------------------

    def _improve(self) -> None:
        """Take the paper's step, by which the core-set never gets worse."""
        before, heard = self.chosen, list(self._received.values())
        if not (heard or self._is_new) or not (heard or before or self.own.names):
            return
        points = self._pooled()
        self._received.clear()
        self._is_new = False
        indices = {name: k for k, name in enumerate(points.names)}
        best = self._best(before, heard)
        start = None if best is None else np.array([indices[name] for name in best.points.names])
        improved = self.settings.improved(self.settings.space(points), start, self.limits)
        better = Chosen.of(points.take(improved), self.settings)
        self.chosen = better if best is None or better.rank > best.rank else best
        if before is None or self.chosen.points.names != before.points.names:
            self.quiet = 0
            self.changes += 1

    def _best(self, before: Chosen | None, heard: list[Heard]) -> Chosen | None:
        """Return the best known core-set.

        The values that neighbours claim only decide which core-sets are evaluated, the best first.
        """
        best = before
        for one in sorted(heard, key=lambda one: rank(one.value, one.points.names), reverse=True):
            if best is not None and rank(one.value, one.points.names) <= best.rank:
                break
            found = Chosen.of(one.points, self.settings)
            best = found if best is None or found.rank > best.rank else best
        return best

    @property
    def _points(self) -> Named:
        """Points of the core-set; empty before there is one."""
        return self.own.take([]) if self.chosen is None else self.chosen.points

    @property
    def core_sets(self) -> list[Named]:
        """Points of every known core-set."""
        return [self._points, *(one.points for one in self._received.values())]

    def _pooled(self) -> Named:
        """Return the other sites' points in core-sets, without repetitions and sorted by name, and all own points."""
        known = Named.united(self.core_sets)
        foreign = known.take([k for k, name in enumerate(known.names) if not self._is_own(name)])
        return Named.joined([foreign, self.own])

    def _is_own(self, name: Name) -> bool:
        """Return whether a name belongs to a point that this site has now."""
        own = self.own.names
        return name.site == self.name and name.row < len(own) and own[name.row] == name

    # ---- messages ------------------------------------------------------------------------------------------------

    def _send_core_set(self) -> Iterator[Action]:
        """Send the core-set to the neighbours that may lack it, and its digest to the others."""
        near, points = self.neighbourhood, self._points
        whole, short = (self.message(some) for some in (points, points.take([])))
        lacking = [name for name in near.spoken_to if self._may_lack(name, points.digest)]
        new = sorted({name.row for name in points.names if self._is_own(name)} - self.given) if lacking else []
        if new:
            self.given.update(new)
            yield Report("rows shared", {"rows": new, "all": len(self.given), "output": self.settings.output})
        for name in near.spoken_to:
            if name in lacking:
                self._exchanges[name] = replace(self._exchange(name), sent=points.digest, sent_at=self.rounds)
            yield Send(name, whole if name in lacking else short)

    def _may_lack(self, name: str, digest: str) -> bool:
        """Return whether to send the core-set to a neighbour, which lacks it as far as this site knows."""
        spoken, settings, patience = self._exchange(name), self.settings, self.settings.answer_rounds
        if np.isfinite(settings.lease):  # Answers come, but late if a round takes the neighbour as long as this site.
            seconds = max(settings.lease / 2, min(2 * self._longest_round, 60.0))
            patience = max(patience, round(seconds / settings.interval))
        elif self.rounds - spoken.heard > patience:
            return True
        is_on_its_way = spoken.sent == digest and self.rounds - spoken.sent_at < patience
        return spoken.theirs != digest and not is_on_its_way

    def _exchange(self, name: str) -> Spoken:
        return self._exchanges.get(name, Spoken())

    def message(self, points: Named) -> Candidates:
        """Return a message about the core-set, with these points: all or none of it."""
        return Candidates(
            **self._fields(points),
            quiet=self.quiet,
            value=0.0 if self.chosen is None else self.chosen.value,
            digest=self._points.digest,
            output=self.settings.output,
            schema=self.settings.schema,
        )

    def _points_of(self, message: Candidates) -> Named:
        return self._named(points_of(asdict(message), self.own.X.shape[1]))

    def _named(self, points: Named) -> Named:
        return points if self._signatures is None else points.by_content()

    def _fields(self, points: Named) -> dict[str, Any]:
        signed = {} if self._signatures is None else self._signatures.fields(points)
        return {**points.fields(), **signed}

    def _message_fault(self, message: Candidates) -> str | None:
        """Return why a message cannot come from a correct site; None if it can."""
        fault = self._unsound_fault(message)
        if fault is not None:
            return fault
        points = self._points_of(message)
        if points.names and points.digest != message.digest:
            return "its core-set does not have the digest that it claims"
        if len(set(points.names)) < len(points.names):
            return "its core-set names a point twice"
        if self._signatures is not None:
            return self._signatures.check(points, message)
        strange = self._differing_own_row(points)
        if strange is not None:
            return f"its row {strange} of this site differs from the row here: another site has the name of this one"
        for known in self.core_sets:
            if (name := known.differing(points)) is not None:
                return f"its row {name.row} of site {name.site!r} differs from the one that other sites sent"
        return None

    def _unsound_fault(self, message: Candidates) -> str | None:
        settings = self.settings
        return unsound(message, self.own, settings.norm_bound, settings.mass_bounds, settings.codes)

    def _differing_own_row(self, points: Named) -> int | None:
        """Return the number of a row that is claimed to be this site's but differs from it, or None."""
        mine = points.take([k for k, name in enumerate(points.names) if name.site == self.name])
        strange = next((name.row for name in mine.names if not self._is_own(name)), None)
        if strange is not None:
            return strange
        differing = self.own.take([name.row for name in mine.names]).differing(mine)
        return None if differing is None else differing.row

    # ---- progress and state --------------------------------------------------------------------------------------

    @property
    def rows_shared(self) -> int:
        """Number of own rows that have been sent to others."""
        return len(self.given)

    def checkpoint(self) -> dict[str, Any]:
        """Return the core-set and the rows that were sent; they are equal as long as nothing changes."""
        return {"changes": self.changes, "given": sorted(self.given), **self._fields(self._points)}

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint; all own points are considered again, since there may be more.

        Raises ValueError if own points that others have have changed, or the checkpoint is invalid.
        """
        self.changes, self.given = state["changes"], set(state["given"])
        message = _message_of(state)
        fault = self._unsound_fault(message)
        if fault is not None:
            raise ValueError(fault)
        points = self._points_of(message)
        strange = self._differing_own_row(points)
        if strange is not None:
            raise ValueError(
                f"row {strange} of this site, which others have, has changed: rows may only be added; "
                "restore the row, or start as a site of another name"
            )
        is_signed = self._signatures is None or self._signatures.check(points, message) is None
        if points.names and is_signed:  # Rows without a valid signature under this authority and schema come again.
            self.chosen = Chosen.of(points, self.settings)


def _message_of(state: dict[str, Any]) -> Candidates:
    """Return the core-set of a checkpoint as a message that passes the checks for messages."""
    fields = {name: value for name, value in state.items() if name in Candidates.__struct_fields__}
    message = Candidates(**fields, quiet=0)
    return decoder((Candidates,))(encode(message))  # type: ignore[return-value]
