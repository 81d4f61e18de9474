"""Simulated run of sites that agree on a core-set, observed as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.balls.spaces import Points
from dimargin.network.programs.candidates import Named
from dimargin.network.programs.core_set_consensus import CoreSetConsensus
from dimargin.network.programs.core_set_settings import Chosen, CoreSetSettings
from dimargin.problems.solution import Status
from dimargin.simulation.conditions import Conditions
from dimargin.simulation.gossip_run import site_names, watched
from dimargin.simulation.simulator import Simulator
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class CoreSetRun:
    """Points assigned to sites, settings of the consensus, and the network between the sites.

    Attributes
    ----------
    X : ndarray or CSR array of shape (n, n_features)
    signs, masses : ndarray of shape (n,)
        Labels, plus or minus one, and weights; ones where there are none.
    site : ndarray of shape (n,)
        Number of every point's site.
    n_sites : int
    settings : CoreSetSettings
    graph : networkx graph, or function from seconds to one
    conditions : Conditions
    random_state : int
    """

    X: Any
    signs: Floats
    masses: Floats
    site: NDArray[np.int64]
    n_sites: int
    settings: CoreSetSettings
    graph: Any
    conditions: Conditions = field(default_factory=Conditions)
    random_state: int = 0

    def run(
        self,
        max_rounds: int,
        deadline: float | None = None,
        interrupted: Event | None = None,
        watch: Callable[[dict[str, Any]], bool] | None = None,
    ) -> Agreed:
        """Let the sites agree, until they stop by themselves.

        Parameters
        ----------
        max_rounds : int
        deadline : float, optional
            Time on the clock of `time.perf_counter` at which the run ends.
        interrupted : threading.Event, optional
            Event that ends the run once it is set.
        watch : callable, optional
            Called with every entry of the history, one a round; True ends the run.
        """
        began = time.perf_counter()
        simulator = Simulator(self._programs(), self.graph, self.conditions, self.random_state)
        agreed = Agreed(self, simulator)

        def check() -> bool:
            entry = agreed.check(time.perf_counter() - began)
            return watch is not None and watch(entry)

        agreed.status = watched(simulator, max_rounds, check, deadline, interrupted)
        agreed.check(time.perf_counter() - began)
        return agreed

    def _programs(self) -> dict[str, Callable[[], CoreSetConsensus]]:
        indices = [np.flatnonzero(self.site == i) for i in range(self.n_sites)]
        return {
            name: lambda name=name, own=own: CoreSetConsensus(  # type: ignore[misc]
                name, self.X[own], self.signs[own], self.settings, self.masses[own]
            )
            for name, own in zip(site_names(self.n_sites), indices, strict=True)
        }


class Agreed:
    """Result of a run so far.

    Attributes
    ----------
    history : list of dict
        An entry a round: ``round``, ``seconds``, ``core_sets`` (how many different ones there are), ``radius_min``,
        ``radius_mean``, ``radius_max`` (over the sites), ``farthest`` (largest distance of any point from the centre of
        any site's ball), ``messages`` and ``bytes`` (sent so far). Radii are of balls; a margin machine has none.
    status : {"converged", "max_iter", "max_time", "stopped"}
    """

    def __init__(self, run: CoreSetRun, simulator: Simulator) -> None:
        self.run, self.simulator = run, simulator
        self.history: list[dict[str, Any]] = []
        self.status: Status = "stopped"

    @property
    def chosen(self) -> list[Chosen]:
        """Core-sets of the sites that have one; for a site that is down, the one that it had."""
        return [program.chosen for program in self._programs if program.chosen is not None]

    @property
    def _programs(self) -> list[CoreSetConsensus]:
        last = [site.last for site in self.simulator.sites.values()]
        return [program for program in last if isinstance(program, CoreSetConsensus)]

    @property
    def best(self) -> Chosen:
        """Best core-set of any site, on which all sites agree in the end."""
        return max(self.chosen, key=lambda one: one.rank)

    @property
    def agreed_after(self) -> int | None:
        """Round from which on all sites had the same core-set; None if they do not have it."""
        rounds = [entry["round"] for entry in self.history if entry["core_sets"] > 1]
        last = self.history[-1]
        return None if last["core_sets"] != 1 else max(rounds, default=0) + 1

    @property
    def rows_shared(self) -> int:
        """Number of rows that have left their site."""
        return sum(program.rows_shared for program in self._programs)

    def indices(self, one: Chosen) -> NDArray[np.int64]:
        """Return the indices, among all points, of the points of a core-set."""
        run, index = self.run, {name: i for i, name in enumerate(site_names(self.run.n_sites))}
        own = [np.flatnonzero(run.site == i) for i in range(run.n_sites)]
        return np.array([own[index[site]][row] for site, row in one.points.names], dtype=np.int64)

    def check(self, seconds: float) -> dict[str, Any]:
        """Add an entry about the present to the history, at most one a round, and return the last entry."""
        rounds = max((program.rounds for program in self._programs), default=0)
        if self.history and self.history[-1]["round"] == rounds:
            return self.history[-1]
        chosen, counts = self.chosen, self.simulator.counts
        distinct = {one.rank: one for one in chosen}
        entry: dict[str, Any] = {
            "round": rounds, "seconds": seconds,
            "core_sets": len(distinct) + (len(chosen) < self.run.n_sites), "messages": counts["messages"],
            "bytes": counts["bytes"],
        }  # fmt: skip
        if self.run.settings.machine == "ball" and chosen:
            radii = np.sqrt([max(one.value, 0.0) for one in chosen])
            entry |= {f"radius_{name}": float(getattr(np, name)(radii)) for name in ("min", "mean", "max")}
            entry["farthest"] = max(self._farthest(one) for one in distinct.values())
        self.history.append(entry)
        return entry

    def _farthest(self, one: Chosen) -> float:
        """Return the distance of the farthest of all points from the centre of a ball."""
        return float(self._space.distances(self.indices(one), one.weights).max() ** 0.5)

    @cached_property
    def _space(self) -> Points:
        """All points, in the space of the machine."""
        run = self.run
        return run.settings.space(Named.of("", 0, run.X, run.signs, run.masses))
