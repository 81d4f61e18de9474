"""Simulated run of sites that agree on a core-set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.gossip.programs.candidates import Named
from dimargin.gossip.programs.core_set_consensus import CoreSetConsensus
from dimargin.gossip.programs.core_set_settings import Chosen
from dimargin.gossip.simulation.observed_run import SimulatedRun, extremes, site_names
from dimargin.solvers.balls.spaces import Points
from dimargin.system.arrays import Floats


@dataclass
class CoreSetRun(SimulatedRun):
    """Run of sites that agree on a core-set.

    An entry of the history also has ``core_sets`` (the number of different ones) and, for balls,
    ``radius_min``, ``radius_mean``, ``radius_max`` (over the sites) and ``farthest`` (largest
    distance of any point from the centre of any site's ball). The settings are `CoreSetSettings`.
    """

    masses: Floats | None = None  # Weights of the rows, of shape (n,); ones by default.

    def _program(self, number: int, name: str) -> CoreSetConsensus:
        own = self.rows_of(number)
        masses = None if self.masses is None else self.masses[own]
        program = CoreSetConsensus(name, self.X[own], self.signs[own], self.settings, masses)
        program.limits = replace(program.limits, deadline=self.deadline)
        return program

    @property
    def chosen(self) -> list[Chosen]:
        """Core-sets of the sites that have one, also of sites that are down."""
        return [program.chosen for program in self.programs if program.chosen is not None]

    @property
    def has_model(self) -> bool:
        """Return whether any site has a core-set; sites have one after their first round."""
        return bool(self.chosen)

    @property
    def best(self) -> Chosen:
        """Best core-set of any site, on which all sites agree in the end."""
        return max(self.chosen, key=lambda one: one.rank)

    @property
    def agreed_after(self) -> int | None:
        """Round from which all sites had the same core-set, or None if they have not agreed."""
        rounds = [entry["round"] for entry in self.history if entry["core_sets"] > 1]
        return None if self.history[-1]["core_sets"] != 1 else max(rounds, default=0) + 1

    @property
    def rows_shared(self) -> int:
        """Number of rows that have left their site."""
        return sum(program.rows_shared for program in self.programs)

    def indices(self, one: Chosen) -> NDArray[np.int64]:
        """Return the indices, among all points, of the points of a core-set."""
        own = {name: self.rows_of(i) for i, name in enumerate(site_names(self.n_sites))}
        return np.array([own[name.site][name.row] for name in one.points.names], dtype=np.int64)

    def _measures(self) -> dict[str, Any]:
        chosen = self.chosen
        distinct = {one.rank: one for one in chosen}
        measures: dict[str, Any] = {"core_sets": len(distinct) + (len(chosen) < self.n_sites)}
        if self.settings.machine == "ball" and chosen:
            measures |= extremes("radius", np.sqrt([max(one.value, 0.0) for one in chosen]))
            measures["farthest"] = max(self._farthest(one) for one in distinct.values())
        return measures

    def _farthest(self, one: Chosen) -> float:
        return float(self._space.distances(self.indices(one), one.weights).max() ** 0.5)

    @cached_property
    def _space(self) -> Points:
        points: Points = self.settings.space(Named.of("", 0, self.X, self.signs, self.masses))
        return points
