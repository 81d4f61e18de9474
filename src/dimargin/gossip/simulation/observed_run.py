"""Simulated run of sites, with measures of all sites together that no site could take itself."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any, ClassVar, Self

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from dimargin.gossip.program import SiteProgram
from dimargin.gossip.simulation.conditions import Conditions
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import check_reachable, make_graph
from dimargin.problems.solution import Status
from dimargin.system.arrays import Floats


def site_names(n_sites: int) -> list[str]:
    """Return the names of the sites of a simulation."""
    return [f"site{i}" for i in range(n_sites)]


def connected_graph(topology: Any, n_sites: int, random_state: int) -> Any:
    """Return the graph of a topology, as `make_graph`; raise ValueError if some site cannot reach all others."""
    graph = make_graph(topology, n_sites, random_state)
    check_reachable(graph, site_names(n_sites))
    return graph


def quiet_rounds(graph: Any) -> int:
    """Return the number of rounds without changes after which a static network has no more changes."""
    return 2 * nx.diameter(graph) + 1 if len(graph) > 1 else 1


def extremes(name: str, values: Floats) -> dict[str, float]:
    """Return the smallest, mean and largest value over the sites, for an entry of the history."""
    return {f"{name}_{which}": float(getattr(np, which)(values)) for which in ("min", "mean", "max")}


@dataclass
class SimulatedRun(ABC):
    """Simulated run: rows assigned to sites, settings of their programs, the network, and the results.

    Entries of the history have ``round``, ``seconds``, ``messages`` and ``bytes`` (sent so far),
    and the measures of the kind of run.
    """

    X: Any  # Array or CSR array of shape (n, n_features).
    signs: Floats  # Signs of the labels, plus or minus one, of shape (n,) or (n_outputs, n); ones without labels.
    site: NDArray[np.int64]  # Number of every row's site, of shape (n,).
    n_sites: int
    settings: Any  # Settings of the programs.
    graph: Any  # Networkx graph, or a function from seconds to one.
    conditions: Conditions = field(default_factory=Conditions)
    random_state: int = 0
    history: list[dict[str, Any]] = field(default_factory=list, init=False)
    status: Status = field(default="stopped", init=False)  # Otherwise "converged", "max_iter" or "max_time".
    simulator: Simulator = field(init=False)  # Set when the run starts.
    deadline: float | None = field(default=None, init=False)  # Deadline as in `run`.

    _first_entry: ClassVar[int] = 0  # Round of the first entry of the history.
    _entry_spacing: ClassVar[float] = 1.0  # Factor by which rounds grow from one entry of the history to the next.

    def run(
        self,
        max_rounds: int,
        deadline: float | None = None,
        interrupted: Event | None = None,
        watch: Callable[[dict[str, Any]], bool] | None = None,
    ) -> Self:
        """Run the sites until all have stopped by themselves; may be called only once.

        The run ends earlier after `max_rounds`, at a `deadline` on the clock of
        `time.perf_counter`, when the event `interrupted` is set, or when `watch`, which is called
        with every entry of the history, returns True.
        """
        self.deadline = deadline
        began, early, next_entry = time.perf_counter(), "max_iter", float(self._first_entry)
        programs = {name: partial(self._program, i, name) for i, name in enumerate(site_names(self.n_sites))}
        self.simulator = Simulator(programs, self.graph, self.conditions, self.random_state)

        def is_enough(_: Simulator) -> bool:
            nonlocal early, next_entry
            is_seen = False
            if (rounds := self.n_rounds) >= next_entry:
                next_entry = max(rounds + 1, rounds * self._entry_spacing)
                entry = self._add_entry(began)
                is_seen = watch is not None and watch(entry)
            if is_seen or (interrupted is not None and interrupted.is_set()):
                early = "stopped"
            if deadline is not None and time.perf_counter() > deadline:
                early = "max_time"
            return early != "max_iter" and self.has_model

        ended = self.simulator.run(until=max_rounds + 0.75, watch=is_enough)
        self.status = "converged" if ended == "stopped" else early  # type: ignore[assignment]
        self._add_entry(began)
        return self

    @property
    def programs(self) -> list[Any]:
        """Programs of the sites that have started, or the last program of a site that is down."""
        return [site.last for site in self.simulator.sites.values() if site.last is not None]

    @property
    def n_rounds(self) -> int:
        """Largest number of rounds that any site has run."""
        return max((program.rounds for program in self.programs), default=0)

    def rows_of(self, number: int) -> NDArray[np.intp]:
        """Return the indices of the rows of a site."""
        return np.flatnonzero(self.site == number)

    @property
    def has_model(self) -> bool:
        """Return whether any site has a model; before that, only the limit of rounds ends a run."""
        return True

    @abstractmethod
    def _program(self, number: int, name: str) -> SiteProgram:
        """Return a new program for a site."""

    @abstractmethod
    def _measures(self) -> dict[str, Any]:
        """Return the current measures for the history."""

    def _add_entry(self, began: float) -> dict[str, Any]:
        """Add a current entry to the history, at most one per round, and return the last entry."""
        rounds, counts = self.n_rounds, self.simulator.counts
        if not self.history or self.history[-1]["round"] != rounds:
            entry = {"round": rounds, "seconds": time.perf_counter() - began}
            entry |= {"messages": counts["messages"], "bytes": counts["bytes"]}
            self.history.append(entry | self._measures())
        return self.history[-1]
