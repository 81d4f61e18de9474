"""Simulated run of sites that learn by gossip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dimargin.gossip.programs.algorithm import LinearSite
from dimargin.gossip.programs.local_gadget import gadget_of
from dimargin.gossip.simulation.observed_run import SimulatedRun, extremes
from dimargin.problems.hinge import HINGE, HingeRows
from dimargin.problems.losses import Loss
from dimargin.problems.objectives import relative
from dimargin.system.arrays import Floats

SHARDS = ("random", "unequal", "sorted", "sorted_unequal")


def deal(shards: str | Sequence[int], codes: NDArray[Any], order: NDArray[Any], n_sites: int) -> NDArray[np.int64]:
    """Return the number of the site to which every row is assigned.

    Rows are assigned at random, in equal numbers ("random") or with sizes that grow geometrically,
    the largest 200 times the smallest ("unequal"). They may first be sorted by the codes of their
    labels, so that nearly all sites hold one class only ("sorted", "sorted_unequal"). An array
    gives the numbers of the sites; ValueError is raised if it has another length, or the number of
    a site that does not exist. `order` is a random permutation of the rows.
    """
    n = len(codes)
    if not isinstance(shards, str):
        given = np.asarray(shards)
        if given.shape != (n,) or given.dtype.kind not in "iu":
            raise ValueError(
                f"shards must be the number of every row's site, {n} whole numbers; got an array of shape "
                f"{given.shape} and dtype {given.dtype}"
            )
        if given.min() < 0 or given.max() >= n_sites:
            wrong = given[(given < 0) | (given >= n_sites)][0]
            raise ValueError(f"shards must be numbers in [0, n_sites={n_sites}), got {wrong}")
        return given.astype(np.int64)
    if shards.startswith("sorted"):
        order = order[np.argsort(codes[order], kind="stable")]
    sizes = np.geomspace(1, 200.0, n_sites) if "unequal" in shards else np.ones(n_sites)
    ends = np.round(np.cumsum(sizes) / sizes.sum() * n).astype(np.int64)
    site = np.empty(n, dtype=np.int64)
    site[order] = np.searchsorted(ends, np.arange(n), side="right")
    return site


@dataclass
class GossipRun(SimulatedRun):
    """Run of sites that learn linear machines.

    They run GADGET with `GadgetSettings`, or the program that `make` returns for a site's name,
    rows and seed; the settings are then a `Problem`. For every entry of the history `evaluate`, if
    given, returns the accuracies of all sites, of shape (n_sites,).
    """

    evaluate: Callable[[GossipRun], Floats] | None = None
    make: Callable[[str, HingeRows, tuple[int, ...]], LinearSite] | None = None
    loss: Loss = HINGE

    _first_entry: ClassVar[int] = 1
    _entry_spacing: ClassVar[float] = 1.25

    def _program(self, number: int, name: str) -> Any:
        own = self.rows_of(number)
        rows = HingeRows(self.X[own], self.signs[:, own], self.loss)
        return self._new_program(name, rows, (self.random_state, number))

    @property
    def programs(self) -> list[Any]:
        """Programs of all sites, or the last program of a site that is down."""
        return [site.last or self._empty_program for site in self.simulator.sites.values()]

    @property
    def _empty_program(self) -> LinearSite:
        """Program of a site that has not started yet."""
        return self._new_program("", HingeRows(self.X[:0], self.signs[:, :0], self.loss), (0,))

    def _new_program(self, name: str, rows: HingeRows, seed: tuple[int, ...]) -> LinearSite:
        return gadget_of(rows, self.settings, seed) if self.make is None else self.make(name, rows, seed)

    def weights(self, average: bool = False) -> Floats:
        """Return the last or average weights of all sites, of shape (n_sites, n_outputs, n_features)."""
        return np.array([program.average if average else program.weights for program in self.programs])

    def objectives(self, weights: Floats) -> Floats:
        """Return the objectives over all rows, of shape (n_models, n_outputs), of the weights of several models."""
        n_models, n_outputs, n_features = weights.shape
        values = np.asarray(self.X @ weights.reshape(-1, n_features).T).T.reshape(n_models, n_outputs, -1)
        losses = self.loss.value(self.signs * values, np.ones(self.X.shape[0]), 1.0, 1.0).mean(axis=2)
        return np.asarray(0.5 * self.settings.alpha * (weights**2).sum(axis=2) + losses)

    def dual_objective(self) -> Floats:
        """Return the dual objective of the dual coefficients of all sites together, of shape (n_outputs,).

        It is below every objective, and zero if the sites' programs have no such coefficients.
        """
        programs, n = self.programs, self.X.shape[0]
        if any(program.dual is None for program in programs):
            return np.zeros(len(self.signs))
        gain = np.sum([program.rows.gains(program.dual).sum(axis=1) for program in programs], axis=0) / n
        price = np.sum([program.rows.prices(program.dual).sum(axis=1) for program in programs], axis=0) / n
        pull = sum((program.rows.X.T @ (program.rows.signs * program.dual).T).T for program in programs) / n
        rounding = (1 + len(programs) / n) * sum(program.rows.pull_rounding(program.dual) for program in programs) / n
        rows, alpha = self._empty_program.rows, self.settings.alpha
        return rows.best_dual(gain, price, np.asarray(pull), alpha, np.asarray(rounding))

    def _measures(self) -> dict[str, Any]:
        programs, weights = self.programs, self.weights()
        consensus = weights.mean(axis=0)
        *each, all_of_them, averaged = self.objectives(
            np.concatenate([weights, [consensus], [self.weights(average=True).mean(axis=0)]])
        )
        farthest = float(np.linalg.norm((weights - consensus).reshape(len(weights), -1), axis=1).max())
        measures = {
            "level": 0,
            "partitions": len(weights),
            "scope": "global",
            "objective": all_of_them,
            "average_objective": averaged,
            "worst_objective": np.max(each, axis=0),
            "consensus_spread": farthest / max(float(np.linalg.norm(consensus)), 1e-300 * max(farthest, 1.0)),
            "relative_gap": float(relative(all_of_them - self.dual_objective(), all_of_them).max()),
            "kernel_evaluations": 0,
        }
        if programs[0].shares == "rows":
            measures["rows_shared"] = sum(program.rows_shared for program in programs)
        if self.evaluate is not None:
            measures |= extremes("accuracy", self.evaluate(self))
        return measures
