"""Learner of machines by core-set consensus on every output in parallel."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from dimargin.gossip.identity import Identity
from dimargin.gossip.neighbourhood import Neighbourhood
from dimargin.gossip.program import Action, Report, Stop, Wake
from dimargin.gossip.programs.candidates import Candidates
from dimargin.gossip.programs.core_set_consensus import CoreSetConsensus
from dimargin.gossip.programs.core_set_settings import CoreSetSettings
from dimargin.gossip.programs.learner import Learner
from dimargin.gossip.programs.row_signatures import RowSignatures
from dimargin.gossip.schema import Schema
from dimargin.system.arrays import Floats


class CodedRows(NamedTuple):
    """Rows of a site: X of shape (n, n_features), dense or CSR, and codes of their labels, of shape (n,)."""

    X: Any
    codes: Floats


class CoreSetMachines(Learner):
    """Learner of one site, with a program for every output.

    With more than two `codes` in the settings, it learns one machine of each code against the rest.
    With an `identity`, sites sign their rows.
    """

    shares = "rows"
    messages = (Candidates,)
    settings: CoreSetSettings

    def __init__(self, name: str, rows: CodedRows, settings: CoreSetSettings, identity: Identity | None = None) -> None:
        self.settings = settings
        self._signatures = None if identity is None else RowSignatures(identity, settings.schema)
        self.neighbourhood = Neighbourhood(math.inf, settings.max_messages)
        positives = settings.codes if len(settings.codes) > 2 else settings.codes[-1:]
        self.machines = [
            CoreSetConsensus(
                name, rows.X, rows.codes, replace(settings, positive=code, output=k), signatures=self._signatures
            )
            for k, code in enumerate(positives)
        ]
        for machine in self.machines:
            machine.neighbourhood = self.neighbourhood
        self.rounds = 0

    # ---- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Start the consensus of every output."""
        for machine in self.machines:
            yield from _without(Wake, machine.start(now, neighbours))
        yield Wake(self.settings.interval)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Run a round of every output."""
        self.rounds += 1
        had_finished = self.has_finished
        for machine in self.machines:
            yield from _without((Wake, Stop), machine.wake(now, name))
        if self._signatures is not None:
            known = [points for machine in self.machines for points in machine.core_sets]
            self._signatures.keep({name for points in known for name in points.names})
        if self.has_finished and not had_finished:
            trouble = self.trouble
            yield Report("not separated", {"reason": trouble}) if trouble else Report("converged", self._facts())
            yield Stop("quiet")
        yield Wake(self.settings.interval)

    def take(self, sender: str, message: Candidates) -> str | None:
        """Pass a message on to its output."""
        if message.output >= len(self.machines):
            return f"its message is for machine {message.output}, expected one of {len(self.machines)}"
        return self.machines[message.output].take(sender, message)

    def append(self, rows: CodedRows) -> None:
        """Add rows of this site."""
        for machine in self.machines:
            machine.append(rows.X, rows.codes)

    def leave(self, name: str) -> None:
        """Forget a neighbour's messages; its rows in core-sets stay, since others have them too."""
        self.neighbourhood.heard.pop(name, None)
        for machine in self.machines:
            machine.leave(name)

    # ---- progress and state --------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Number of times that a core-set has changed."""
        return sum(machine.changes for machine in self.machines)

    @property
    def has_finished(self) -> bool:
        """Return whether no core-set has changed for long enough."""
        return all(machine.has_finished for machine in self.machines)

    @property
    def trouble(self) -> str:
        """Reason for having no model, as in `Learner`: with an infinite C, no hyperplane may separate the rows."""
        if all(one.chosen is None or self.settings.is_separated(one.chosen) for one in self.machines):
            return ""
        return (
            "C=inf asks for a hyperplane that separates the rows of different labels, and the rows of these sites have "
            "none in float64; give all sites a finite C, or a kernel that separates the rows (rbf with a larger gamma "
            "separates all but equal rows of different labels)"
        )

    def _facts(self) -> dict[str, Any]:
        chosen = [machine.chosen for machine in self.machines if machine.chosen is not None]
        bounds = [self.settings.bounds(one) for one in chosen]
        return {
            "core_set": len({name for one in chosen for name in one.points.names}),
            "rows_shared": len(set[int]().union(*(machine.given for machine in self.machines))),
            "dual_objective": [_json_number(dual) for dual, _ in bounds],
            "objective": [_json_number(primal) for _, primal in bounds] if self.has_finished else [],
        }

    def status(self) -> dict[str, Any]:
        """Return this site's progress, for display."""
        return {
            "round": self.rounds,
            "steps": self.steps,
            "neighbours": sorted(self.neighbourhood.spoken_to),
            "refused": dict(self.neighbourhood.refused),
            **self._facts(),
        }

    def checkpoint(self) -> dict[str, Any]:
        """Return the checkpoints of all outputs."""
        return {"machines": [machine.checkpoint() for machine in self.machines]}

    def restore(self, state: dict[str, Any]) -> None:
        """Resume every output from its checkpoint."""
        for machine, own in zip(self.machines, state["machines"], strict=True):
            machine.restore(own)

    def inherit(self, state: dict[str, Any], schema: Schema, before: Schema) -> None:
        """Restart, since points differ under a wider schema, but remember the rows that were sent."""
        given = {row for own in state["machines"] for row in own["given"]}
        for machine in self.machines:
            machine.given = set(given)


def _json_number(value: float) -> float | None:
    """Return an objective, or None for an infinite one, which JSON cannot represent."""
    return value if math.isfinite(value) else None


def _without(kinds: Any, actions: Iterable[Action]) -> Iterator[Action]:
    return (action for action in actions if not isinstance(action, kinds))
