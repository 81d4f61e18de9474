"""Training of machines by core-set consensus of sites on a simulated network."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dimargin.gossip.programs.core_set_settings import CoreSetSettings
from dimargin.gossip.simulation.core_set_run import CoreSetRun
from dimargin.gossip.simulation.gossip_run import deal
from dimargin.gossip.simulation.observed_run import connected_graph, quiet_rounds
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import HardMarginLoss, SquaredHingeLoss
from dimargin.problems.one_vs_rest import codes_of_labels
from dimargin.problems.solution import Status
from dimargin.shards.parts import Part, whole_of
from dimargin.solvers import Limits
from dimargin.strategies import LevelModel, Outcome, Strategy, Training, TreeShape
from dimargin.strategies.hard_margin import separating
from dimargin.strategies.strategy import level_entry
from dimargin.system.arrays import Floats


def agree(
    X: Any,
    signs: Floats,
    masses: Floats,
    settings: CoreSetSettings,
    site: Any,
    n_sites: int,
    topology: Any,
    limits: Limits,
    random_state: int,
) -> CoreSetRun:
    """Run core-set consensus on a static network until all sites have stopped.

    `site` is the number of every row's site, of shape (n,). The settings' `quiet_rounds` are set
    from the diameter. Raises ValueError if some site cannot reach all others.
    """
    graph = connected_graph(topology, n_sites, random_state)
    settings = replace(settings, quiet_rounds=quiet_rounds(graph))
    run = CoreSetRun(X, signs, site, n_sites, settings, graph, random_state=random_state, masses=masses)
    return run.run(limits.max_iter, limits.deadline, limits.interrupted)


def dealt(shards: Any, codes: Any, given: Any, n_sites: int) -> Any:
    """Return the site of every row.

    Rows are in random order; `given` has their indices in the caller's order, that of `shards`.
    """
    if not isinstance(shards, str):
        shards = np.asarray(shards)
        if shards.ndim != 1 or len(shards) <= given.max():
            raise ValueError(f"shards must be the number of every row's site; got an array of shape {shards.shape}")
        shards = shards[given]
    return deal(shards, codes, np.arange(len(given)), n_sites)


class Consensus(Strategy):
    """Strategy in which sites agree on the core-set of an L2-SVM, for one output after the other.

    Its parameters are those of `dimargin.GossipSVMClassifier`.
    """

    needs_rows = True

    def __init__(self, n_sites: int = 10, topology: Any = "complete", shards: str | Sequence[int] = "random") -> None:
        self.n_sites = n_sites
        self.topology = topology
        self.shards = shards

    def n_levels(self, n_rows: int, shape: TreeShape) -> int:
        """Return 0, since there is no tree of partitions."""
        return 0

    def train(self, training: Training) -> Outcome:
        """Train the machines; the history has one entry."""
        began, limits = time.perf_counter(), training.limits
        training.progress.level_begin(0, None)
        (part,) = training.rows.merge(whole_of, training.rows.n_shards).collect(_identity)
        problem, transform, loss = part.problem, part.problem.kernel.transform, training.facts.loss
        assert isinstance(loss, SquaredHingeLoss)
        settings = CoreSetSettings.for_gap("margin", 2 * loss.C, limits.tol, transform.kernel, bool(transform.offset))
        codes = codes_of_labels(problem.labels)
        site = dealt(self.shards, codes, training.given, self.n_sites)
        rows = problem.kernel.rows(np.arange(problem.n_rows))
        network = site, self.n_sites, self.topology
        end = limits, training.random_state
        runs = [agree(rows, signs, problem.weights, settings, *network, *end) for signs in problem.labels]
        return self._outcome(training, part, runs, time.perf_counter() - began)

    def _outcome(self, training: Training, part: Part, runs: list[CoreSetRun], seconds: float) -> Outcome:
        """Return the machines of the core-sets, certified over all rows."""
        problem, limits = part.problem, training.limits
        weights = np.zeros(problem.labels.shape)
        for own, run in zip(weights, runs, strict=True):
            own[run.indices(run.best)] = run.best.weights
        precise = DualProblem.of(problem, problem.kernel.in_float64())
        margins = precise.margins(weights)
        status: Status = next((run.status for run in runs if run.status != "converged"), "converged")
        if isinstance(problem.loss, HardMarginLoss):
            dual = separating(precise, weights, margins, status)
        else:
            rho = (weights * (margins + problem.conjugate.curvature_right * weights)).sum(axis=1, keepdims=True)
            # This is the best multiple of the weights. Sites know it too, but if kernel values are
            # large it is lost to rounding in the common length of all points.
            dual = np.where(rho > 1e-300, 1 / np.maximum(rho, 1e-300), 0.0) * weights
        objectives = precise.certified(dual)
        reason = f"{status}: sites agreed on a core-set"
        if status == "converged" and objectives.worst_gap > limits.tol:
            status = "precision"
        if status != "converged":
            reason = f"{status} after {max(run.history[-1]['round'] for run in runs)} rounds of {self.n_sites} sites"
        rounds = sum(run.history[-1]["round"] for run in runs)
        evaluations = precise.kernel.evaluations
        entry = level_entry(
            objectives,
            seconds,
            evaluations,
            partitions=self.n_sites,
            core_set=int(np.count_nonzero(dual.any(axis=0))),
            rounds=rounds,
            rows_shared=sum(run.rows_shared for run in runs),
            **{name: sum(run.history[-1][name] for run in runs) for name in ("messages", "bytes")},
        )
        found = LevelModel.of(part, dual, objectives.intercept)
        training.progress.level_end(entry, lambda: found)
        return Outcome(
            model=found,
            scope="global",
            objectives=objectives,
            status=status,
            reason=reason,
            passes=max(1, rounds),
            kernel_evaluations=evaluations,
            history=[entry],
        )


def _identity(part: Part, _: None) -> Part:
    return part
