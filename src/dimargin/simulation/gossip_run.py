"""Simulated run of sites that learn by gossip, with measures of all sites together that no site could take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.network.programs.gadget import Gadget
from dimargin.network.programs.gadget_settings import GadgetSettings
from dimargin.problems.hinge import HingeRows, hinge_dual
from dimargin.problems.objectives import relative
from dimargin.problems.solution import Status
from dimargin.simulation.conditions import Conditions
from dimargin.simulation.simulator import Simulator
from dimargin.system.arrays import Floats

SHARDS = ("random", "unequal", "sorted", "sorted_unequal")
_LARGEST_TO_SMALLEST = 200.0  # rows of the sites of an unequal deal
_BETWEEN_LOOKS = 1.25  # factor by which rounds grow from one entry of the history to the next


def site_names(n_sites: int) -> list[str]:
    """Return the names of the sites of a simulation."""
    return [f"site{i}" for i in range(n_sites)]


def deal(shards: str | Sequence[int], codes: NDArray[Any], order: NDArray[Any], n_sites: int) -> NDArray[np.int64]:
    """Return the number of the site that every row goes to.

    Parameters
    ----------
    shards : {"random", "unequal", "sorted", "sorted_unequal"} or array-like of shape (n,)
        Rows go to the sites at random, in equal numbers ("random") or with sizes that grow geometrically, the largest
        200 times the smallest ("unequal"). They may be sorted by label before, so that nearly all sites hold one class
        only ("sorted", "sorted_unequal"). An array has the numbers of the sites.
    codes : ndarray of shape (n,)
        Codes of the labels.
    order : ndarray of shape (n,)
        Random permutation of the rows.
    n_sites : int

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    ValueError
        For an array of another length, or with the number of a site that does not exist.
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
    sizes = np.geomspace(1, _LARGEST_TO_SMALLEST, n_sites) if "unequal" in shards else np.ones(n_sites)
    ends = np.round(np.cumsum(sizes) / sizes.sum() * n).astype(np.int64)
    site = np.empty(n, dtype=np.int64)
    site[order] = np.searchsorted(ends, np.arange(n), side="right")
    return site


def watched(
    simulator: Simulator,
    max_rounds: int,
    check: Callable[[], bool],
    deadline: float | None = None,
    interrupted: Event | None = None,
) -> Status:
    """Run sites until all have stopped by themselves or something else ends the run; return which.

    Parameters
    ----------
    simulator : Simulator
        Simulator of sites with a round a second.
    max_rounds : int
    check : callable
        Called after every second of the simulation; True ends the run.
    deadline : float, optional
        Time on the clock of `time.perf_counter` at which the run ends.
    interrupted : threading.Event, optional
        Event that ends the run once it is set.
    """
    early: Status = "max_iter"

    def is_enough(_: Simulator) -> bool:
        nonlocal early
        if check() or (interrupted is not None and interrupted.is_set()):
            early = "stopped"
        if deadline is not None and time.perf_counter() > deadline:
            early = "max_time"
        return early != "max_iter"

    return "converged" if simulator.run(until=max_rounds + 0.75, watch=is_enough) == "stopped" else early


@dataclass(frozen=True)
class Learning:
    """Rows assigned to sites, settings of the sites, and the network between them.

    Attributes
    ----------
    X : ndarray or CSR array of shape (n, n_features)
    signs : ndarray of shape (n_outputs, n)
    site : ndarray of shape (n,)
        Number of every row's site.
    n_sites : int
    settings : GadgetSettings
    graph : networkx graph
    conditions : Conditions
    random_state : int
    """

    X: Any
    signs: Floats
    site: NDArray[np.int64]
    n_sites: int
    settings: GadgetSettings
    graph: Any
    conditions: Conditions = field(default_factory=Conditions)
    random_state: int = 0

    def run(
        self,
        max_rounds: int,
        deadline: float | None = None,
        interrupted: Event | None = None,
        watch: Callable[[dict[str, Any]], bool] | None = None,
        evaluate: Callable[[Learnt], Floats] | None = None,
    ) -> Learnt:
        """Let the sites learn.

        Parameters
        ----------
        max_rounds : int
        deadline : float, optional
            Time on the clock of `time.perf_counter` at which the run ends.
        interrupted : threading.Event, optional
            Event that ends the run once it is set.
        watch : callable, optional
            Called with every entry of the history; True ends the run.
        evaluate : callable, optional
            Returns the accuracies of all sites, of shape (n_sites,), for every entry of the history.
        """
        began = time.perf_counter()
        simulator = Simulator(self._programs(), self.graph, self.conditions, self.random_state)
        learnt = Learnt(self, simulator, evaluate)
        next_look = 1.0

        def check() -> bool:
            nonlocal next_look
            rounds = learnt.n_rounds
            if rounds < next_look:
                return False
            next_look = max(rounds + 1, rounds * _BETWEEN_LOOKS)
            entry = learnt.check(time.perf_counter() - began)
            return watch is not None and watch(entry)

        learnt.status = watched(simulator, max_rounds, check, deadline, interrupted)
        learnt.check(time.perf_counter() - began)
        return learnt

    def _programs(self) -> dict[str, Callable[[], Gadget]]:
        indices = [np.flatnonzero(self.site == i) for i in range(self.n_sites)]
        rows = [HingeRows(self.X[index], self.signs[:, index]) for index in indices]
        return {
            name: lambda i=i: Gadget(rows[i], self.settings, (self.random_state, i))  # type: ignore[misc]
            for i, name in enumerate(site_names(self.n_sites))
        }


class Learnt:
    """Result of a run so far.

    Attributes
    ----------
    history : list of dict
    status : {"converged", "max_iter", "max_time", "stopped"}
    """

    def __init__(
        self, learning: Learning, simulator: Simulator, evaluate: Callable[[Learnt], Floats] | None = None
    ) -> None:
        self.learning, self.simulator, self._evaluate = learning, simulator, evaluate
        self.history: list[dict[str, Any]] = []
        self.status: Status = "stopped"

    @property
    def programs(self) -> list[Gadget]:
        """Programs of all sites; for a site that is down, the one that ran last."""
        last = [site.last for site in self.simulator.sites.values()]
        return [program if isinstance(program, Gadget) else self._nothing for program in last]

    @property
    def _nothing(self) -> Gadget:
        """Program of a site that has not started yet."""
        signs = self.learning.signs[:, :0]
        return Gadget(HingeRows(self.learning.X[:0], signs), self.learning.settings)

    def weights(self, average: bool = False) -> Floats:
        """Return the weights of all sites, of shape (n_sites, n_outputs, n_features).

        They are the last iterates, or the averages.
        """
        return np.array([program.average if average else program.weights for program in self.programs])

    @property
    def n_rounds(self) -> int:
        """Largest number of rounds that any site has run."""
        return max(program.rounds for program in self.programs)

    def objectives(self, weights: Floats) -> Floats:
        """Return the objectives over all rows.

        Parameters
        ----------
        weights : ndarray of shape (n_models, n_outputs, n_features)

        Returns
        -------
        ndarray of shape (n_models, n_outputs)
        """
        learning, (n_models, n_outputs, n_features) = self.learning, weights.shape
        values = np.asarray(learning.X @ weights.reshape(-1, n_features).T).T.reshape(n_models, n_outputs, -1)
        losses = np.maximum(1 - learning.signs * values, 0).mean(axis=2)
        return np.asarray(0.5 * learning.settings.alpha * (weights**2).sum(axis=2) + losses)

    def dual_objective(self) -> Floats:
        """Return the dual objective of the dual coefficients of all sites together, of shape (n_outputs,).

        It is below every objective.
        """
        programs, n = self.programs, self.learning.X.shape[0]
        activity = np.sum([program.dual.sum(axis=1) for program in programs], axis=0) / n
        pull = sum((program.rows.X.T @ (program.rows.signs * program.dual).T).T for program in programs) / n
        rounding = (1 + len(programs) / n) * sum(program.rows.pull_rounding(program.dual) for program in programs) / n
        return hinge_dual(activity, np.asarray(pull), self.learning.settings.alpha, np.asarray(rounding))

    def check(self, seconds: float) -> dict[str, Any]:
        """Add an entry about the present to the history, at most one a round, and return the last entry."""
        rounds = self.n_rounds
        if self.history and self.history[-1]["round"] == rounds:
            return self.history[-1]
        weights = self.weights()
        consensus = weights.mean(axis=0)
        *each, all_of_them, averaged = self.objectives(
            np.concatenate([weights, [consensus], [self.weights(average=True).mean(axis=0)]])
        )
        dual, counts = self.dual_objective(), self.simulator.counts
        distances = np.linalg.norm((weights - consensus).reshape(len(weights), -1), axis=1)
        gap = float(relative(all_of_them - dual, all_of_them).max())
        entry = {
            "level": 0, "partitions": len(weights), "scope": "global", "round": rounds, "seconds": seconds,
            "objective": all_of_them, "average_objective": averaged, "worst_objective": np.max(each, axis=0),
            "consensus_spread": float(distances.max() / max(float(np.linalg.norm(consensus)), 1e-300)),
            "relative_gap": gap, "messages": counts["messages"], "bytes": counts["bytes"],
            "kernel_evaluations": 0,
        }  # fmt: skip
        if self._evaluate is not None:
            accuracies = self._evaluate(self)
            entry |= {f"accuracy_{name}": float(getattr(np, name)(accuracies)) for name in ("min", "mean", "max")}
        self.history.append(entry)
        return entry
