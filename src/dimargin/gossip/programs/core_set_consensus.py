r"""Core-set consensus, in which sites agree on the few points that determine a ball or a margin machine.

Site i holds a core-set C_i, hears those of others, and does, whenever it likes (core-set paper, algorithm 2):

    S   <- own points + C_i + the C_j that it heard of
    C_0 <- the best of C_i and these C_j:  the largest radius, and of equal ones the first by the names of its points
    C_i <- a better core-set of S than C_0, if there is one;  else C_0

so that radii never fall, and where the network is strongly connected, if only over time, all sites end with the same
set: a site that has a better one sends it to the others. Corrections of the paper
(docs/algorithms.md#core-set-consensus):

* The paper assumes that sets of one radius are one set. They are not, at the beginning (all radii are zero) or where
  points have no weight: hence the total order, of radii rounded to 12 digits.
* Points travel with their names (site and row), as they were and not as they lie in a space that has a coordinate for
  each: equal points of different names are two points, and one name stands for one point.
* A site with several points keeps all of them in S, always; with the random few of the paper's first step alone,
  consensus would be on the core-set of those.
* Sites that hear one another do not send what the other has: a message without a point says "still this core-set", by
  its digest. A neighbour that is not heard from, as on a directed edge, is sent the points in every round.
* Termination: the number of rounds since the last known change is gossiped along. When nothing has changed for
  `quiet_rounds`, 2 diameter + 1 where the network is static (Notarstefano, Bullo, IEEE TAC 2011), a site stops. Where
  all neighbours send back, a round counts once they have, since one that is busy with a better core-set is silent.

A better core-set is the end of Badoiu and Clarkson's exchanges where the size k is given (``ceil(1/epsilon)``; d + 1
points of d numbers give the exact ball, which is the constraints consensus of the paper's predecessor), and else a
core-set that grows until its ball, with `epsilon`, holds all of S. Sites need not agree on an epsilon for machines:
``epsilon rho / (2 r^2)`` is a function of the core-set, so that sites with the same set have the same.
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
from dimargin.gossip.programs.core_set_settings import LIMITS, Chosen, CoreSetSettings, rank
from dimargin.gossip.programs.learner import Listener
from dimargin.gossip.programs.row_signatures import RowSignatures
from dimargin.system.arrays import Floats

_BUSY = 60.0  # seconds that a neighbour may be thought to be busy
_PATIENCE = 4  # rounds in which a neighbour's answer may come before it is sent the points again


@dataclass(frozen=True)
class Heard:
    """Core-set of a neighbour, and the value that the neighbour claims it to have."""

    points: Named
    value: float


@dataclass(frozen=True)
class Spoken:
    """State of the exchange with a neighbour.

    `theirs` is the digest of the core-set that it had in round `heard`, and `sent` of the last that it was sent, in
    round `sent_at`.
    """

    theirs: str = ""
    heard: int = -_PATIENCE - 1
    sent: str = ""
    sent_at: int = -_PATIENCE - 1


class CoreSetConsensus(Listener):
    """Program of one site.

    Its points X, if any, are stored (dense or sparse) as at all other sites. Labels are codes, for a margin machine, or
    ones. Masses are weights of the rows; ones by default. With `signatures`, rows are signed by their sites.
    """

    shares = "rows"
    messages = (Candidates,)
    settings: CoreSetSettings
    limits = LIMITS  # of a round's improvement

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
        self.chosen: Chosen | None = None  # the core-set; None before there is a point
        self.rounds = self.changes = 0  # and how often the core-set has changed
        self.neighbourhood = Neighbourhood(np.inf, settings.max_messages)
        self._heard: dict[str, Heard] = {}  # since the last round, by sender
        self._spoken: dict[str, Spoken] = {}
        self._quiet, self._counted = 0, -1  # quiet rounds, and when the last was counted
        self.has_finished = False  # whether no core-set has changed for long enough
        self.given: set[int] = set()  # rows that have left
        self._woken = self._longest = 0.0  # when the last round began, and seconds that any has taken
        self._is_new = True  # whether there are points that were not considered yet

    # ---- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Set the timer of the first round."""
        self.neighbourhood.change(neighbours)
        self._woken = now
        yield Wake(self.settings.interval)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Run a round: improve the core-set, and send messages to the neighbours."""
        self._longest, self._woken = max(self._longest, now - self._woken), now
        self.rounds += 1
        if self._have_all_spoken():
            self._quiet, self._counted = self._quiet + 1, self.rounds
        self._improve()
        yield from self._tell()
        # what others know of sends it back a little all the time
        had_finished, least = self.has_finished, self.settings.quiet_rounds / (2 if self.has_finished else 1)
        self.has_finished = self.chosen is not None and self._quiet > least
        if self.has_finished and not had_finished:
            yield Stop("quiet")
        yield Wake(self.settings.interval)

    def take(self, sender: str, message: Candidates) -> str | None:
        """Keep a neighbour's core-set for the next round."""
        fault = self._fault(message)
        if fault is not None:
            return fault
        self._spoken[sender] = replace(self._known(sender), theirs=message.digest, heard=self.rounds)
        if message.digest == self._points.digest:
            self._quiet = min(self._quiet, message.quiet)
            return None
        self._quiet = 0
        if message.sites:
            self._heard[sender] = Heard(self._points_of(message), message.value)
        return None

    def append(self, X: Any, labels: Floats) -> None:
        """Add points of this site."""
        new = self._named(Named.of(self.name, len(self.own.names), X, labels))
        self.own = Named.joined([self.own, new])
        self._is_new, self._quiet, self.has_finished = True, 0, False

    def leave(self, name: str) -> None:
        """Forget what a neighbour has sent; its points in the core-set stay, for others have them too."""
        self._heard.pop(name, None)
        self._spoken.pop(name, None)

    def _have_all_spoken(self) -> bool:
        """Return whether all neighbours have sent messages since the last round that was counted.

        A site that has lost all its neighbours waits.
        """
        if np.isinf(self.settings.lease):
            return True
        near = self.neighbourhood.spoken_to
        return bool(near or not self._spoken) and all(self._known(name).heard >= self._counted for name in near)

    # ---- consensus -----------------------------------------------------------------------------------------------

    def _improve(self) -> None:
        """Take the step of the paper, by which the core-set never gets worse."""
        before, heard = self.chosen, list(self._heard.values())
        if not (heard or self._is_new) or not (heard or before or self.own.names):
            return
        points = self._pooled()
        self._heard.clear()
        self._is_new = False
        indices = {name: k for k, name in enumerate(points.names)}
        best = self._best(before, heard)
        start = None if best is None else np.array([indices[name] for name in best.points.names])
        improved = self.settings.improved(self.settings.space(points), start, self.limits)
        better = Chosen.of(points.take(improved), self.settings)
        self.chosen = better if best is None or better.rank > best.rank else best
        if before is None or self.chosen.points.names != before.points.names:
            self._quiet = 0
            self.changes += 1

    def _best(self, before: Chosen | None, heard: list[Heard]) -> Chosen | None:
        """Return the best of the known core-sets.

        The values that neighbours claim decide only which core-sets are evaluated, the best first.
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
        """Points of the core-set; none before there is one."""
        return self.own.take([]) if self.chosen is None else self.chosen.points

    @property
    def core_sets(self) -> list[Named]:
        """Points of every known core-set."""
        return [self._points, *(one.points for one in self._heard.values())]

    def _pooled(self) -> Named:
        """Return the points of others in a core-set, each once and in the order of names, and all own points."""
        known = Named.united(self.core_sets)
        foreign = known.take([k for k, name in enumerate(known.names) if not self._is_own(name)])
        return Named.joined([foreign, self.own])

    def _is_own(self, name: Name) -> bool:
        """Return whether a name is of a point that this site has, and not of one that it had before."""
        own = self.own.names
        return name.site == self.name and name.row < len(own) and own[name.row] == name

    # ---- messages ------------------------------------------------------------------------------------------------

    def _tell(self) -> Iterator[Action]:
        """Send the core-set to the neighbours that may lack it, and to the others its digest."""
        near, points = self.neighbourhood, self._points
        whole, short = (self._message(some) for some in (points, points.take([])))
        lacking = [name for name in near.spoken_to if self._may_lack(name, points.digest)]
        new = sorted({name.row for name in points.names if self._is_own(name)} - self.given) if lacking else []
        if new:
            self.given.update(new)
            yield Report("rows shared", {"rows": new, "all": len(self.given), "output": self.settings.output})
        for name in near.spoken_to:
            if name in lacking:
                self._spoken[name] = replace(self._known(name), sent=points.digest, sent_at=self.rounds)
            yield Send(name, whole if name in lacking else short)

    def _may_lack(self, name: str, digest: str) -> bool:
        """Return whether to send a neighbour the core-set, which it lacks as far as can be known."""
        spoken, settings, patience = self._known(name), self.settings, _PATIENCE
        if np.isfinite(settings.lease):  # answers come, if late: a site may be busy for as long as this one was
            seconds = max(settings.lease / 2, min(2 * self._longest, _BUSY))
            patience = max(patience, round(seconds / settings.interval))
        elif self.rounds - spoken.heard > patience:
            return True
        is_on_its_way = spoken.sent == digest and self.rounds - spoken.sent_at < patience
        return spoken.theirs != digest and not is_on_its_way

    def _known(self, name: str) -> Spoken:
        return self._spoken.get(name, Spoken())

    def _message(self, points: Named) -> Candidates:
        """Return the message that this is the core-set, with its points or without any."""
        return Candidates(
            **self._fields(points), quiet=self._quiet, value=0.0 if self.chosen is None else self.chosen.value,
            digest=self._points.digest, output=self.settings.output, schema=self.settings.schema,
        )  # fmt: skip

    def _points_of(self, message: Candidates) -> Named:
        return self._named(points_of(asdict(message), self.own.X.shape[1]))

    def _named(self, points: Named) -> Named:
        return points if self._signatures is None else points.by_content()

    def _fields(self, points: Named) -> dict[str, Any]:
        signed = {} if self._signatures is None else self._signatures.fields(points)
        return {**points.fields(), **signed}

    def _fault(self, message: Candidates) -> str | None:
        """Return why a message cannot come from a correct site; None if it can."""
        fault = self._unsound(message)
        if fault is not None:
            return fault
        points = self._points_of(message)
        if points.names and points.digest != message.digest:
            return "its core-set has another digest than it says"
        if len(set(points.names)) < len(points.names):
            return "its core-set names a point twice"
        if self._signatures is not None:
            return self._signatures.check(points, message)
        strange = self._not_mine(points)
        if strange is not None:
            return f"it says that row {strange} of this site is a point which it is not: another site has its name"
        for known in self.core_sets:
            if (name := known.differing(points)) is not None:
                return f"row {name.row} of site {name.site!r} is another point than others say"
        return None

    def _unsound(self, message: Candidates) -> str | None:
        settings = self.settings
        return unsound(message, self.own, settings.norm_bound, settings.mass_bounds, settings.codes)

    def _not_mine(self, points: Named) -> int | None:
        """Return a row that is claimed to be of this site, and differs here; None if there is none."""
        mine = points.take([k for k, name in enumerate(points.names) if name.site == self.name])
        strange = next((name.row for name in mine.names if not self._is_own(name)), None)
        if strange is not None:
            return strange
        differing = self.own.take([name.row for name in mine.names]).differing(mine)
        return None if differing is None else differing.row

    # ---- what it has come to -------------------------------------------------------------------------------------

    @property
    def rows_shared(self) -> int:
        """Number of own rows that have been sent to others."""
        return len(self.given)

    def checkpoint(self) -> dict[str, Any]:
        """Return the core-set and the rows that were sent, which stay the same where nothing is new."""
        return {"changes": self.changes, "given": sorted(self.given), **self._fields(self._points)}

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint; all own points are considered again, for there may be more.

        Raises ValueError where own points that others have are not what they were, or the checkpoint is invalid.
        """
        self.changes, self.given = state["changes"], set(state["given"])
        message = _message_of(state)
        fault = self._unsound(message)
        if fault is not None:
            raise ValueError(fault)
        points = self._points_of(message)
        strange = self._not_mine(points)
        if strange is not None:
            raise ValueError(
                f"row {strange} of this site, which others have, is not what it was: its rows may only become more; "
                "restore them, or begin as a site of another name"
            )
        is_signed = self._signatures is None or self._signatures.check(points, message) is None
        if points.names and is_signed:  # rows that this site's authority, or its schema, does not vouch for come again
            self.chosen = Chosen.of(points, self.settings)


def _message_of(state: dict[str, Any]) -> Candidates:
    """Return the core-set of a checkpoint as a message, checked by the rules for messages."""
    fields = {name: value for name, value in state.items() if name in Candidates.__struct_fields__}
    message = Candidates(**fields, quiet=0)
    return decoder((Candidates,))(encode(message))  # type: ignore[return-value]
