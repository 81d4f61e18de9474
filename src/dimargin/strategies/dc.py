"""DC-SVM: divide and conquer (Algorithm 1 of the paper, corrected); DC-ODM with the ODM loss.

    in: branching k, levels L, sample size m, tolerances eps_l
    1  for l = L, L-1, ..., 1:
    2      sample m rows, of all or of the support vectors of level l+1
    3      k^l clusters by two-step kernel k-means on the sample (dimargin.shards.partition.clusters)
    4      solve every cluster, as a piece of the whole problem, from the coefficients of level l+1 to eps_l
    5      if l = stop_level: return the machines of the clusters
    6  refine: solve the support vectors of level 1 alone
    7  solve the whole problem from there

Clusters are parts of the whole: local problems have the global coefficients (C; with the ODM loss W
c), and the concatenated local solutions solve the problem whose kernel is zero between clusters
(Lemma 1). So nothing is rescaled, unlike in DiODM. Step 6 is left out if most rows are support
vectors, because it would cost as much as step 7. See docs/algorithms.md#divide-and-conquer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar, Literal

import numpy as np

from dimargin.problems.solution import History
from dimargin.shards.partition import KernelClusters, cluster_rows, largest_sample
from dimargin.shards.tree import Level
from dimargin.solvers.loop import Verdict
from dimargin.strategies import levels
from dimargin.strategies.committee import calibrated, warn_if_uncalibrated
from dimargin.strategies.refine import last_step
from dimargin.strategies.solves import Summary, first_support, part_of
from dimargin.strategies.strategy import LevelModel, MovedOptions, Outcome, Strategy, Training, TreeShape


@dataclass(eq=False, repr=False)
class DivideAndConquer(Strategy):
    """Divide and conquer: clusters in the kernel's feature space, level by level, then the whole problem.

    Parameters
    ----------
    sample_size : int, default=1000
        Number of rows from which the clusters of a level are computed, as in the paper, but at
        least ten per cluster.
    prediction : {"early", "naive", "bcm"}, default="early"
        Prediction rule of a model of a level above 0: the machine of the nearest cluster, the sum
        of all machines (equation 5), or their Bayesian committee in log odds, which costs three
        more fits of each cluster.
    clustering_kernel : {"wide", "same"}, default="wide"
        Whether the kernels "rbf" and "laplacian" are widened for clustering, or used unchanged as
        in the paper.
    max_cluster_size : int or None, default=None
        Larger clusters are split by kernel k-means of their own rows; unseen rows follow the same
        splits.
    level_tol : float, default=0.1
        Relative gap to which levels above `stop_level` are solved: they only provide the start of
        the next level.

    Examples
    --------
    >>> from dimargin import DivideAndConquer, SVMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(800, noise=0.1, random_state=0)
    >>> machine = SVMClassifier(strategy=DivideAndConquer(), n_levels=2, random_state=0).fit(X, y)
    >>> [(entry["level"], entry["partitions"]) for entry in machine.history_], machine.certificate_
    ([(2, 16), (1, 4), (0, 1)], 'global')
    >>> early = SVMClassifier(strategy="dc", n_levels=2, stop_level=2, random_state=0).fit(X, y)
    >>> early.certificate_, early.score(X, y) > 0.99
    ('partitioned', True)
    """

    uses = frozenset({"branching", "n_levels", "stop_level"})
    needs_rows = True

    sample_size: int = 1000
    prediction: Literal["early", "naive", "bcm"] = "early"
    clustering_kernel: Literal["wide", "same"] = "wide"
    max_cluster_size: int | None = None
    level_tol: float = 0.1
    moved_options: ClassVar[MovedOptions] = {
        "theorem_1": (False, "dimargin_bench.experiments.theorem_1.BoundedDivideAndConquer")
    }

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        super().validate()
        self._check_count("sample_size")
        self._check_count("max_cluster_size")
        self._check_positive("level_tol")

    def memory_needed(self, n_rows: int, shape: TreeShape, n_outputs: int = 1, n_threads: int = 1) -> int:
        """Return the bytes of the Gram matrix of the largest sample, twice, and of its kernel values."""
        return 24 * min(n_rows, largest_sample(self.sample_size, shape.branching ** self.n_levels(n_rows, shape))) ** 2

    def train(self, training: Training) -> Outcome:
        """Train by Algorithm 1."""
        outcome = levels.follow(training, self._levels, self._verdict)
        return warn_if_uncalibrated(training, outcome) if self.prediction == "bcm" else outcome

    def _levels(self, training: Training, history: History) -> Iterator[levels.Step]:
        facts, shape, limits = training.facts, training.shape, training.limits
        rng, rows, n_support = np.random.default_rng(training.random_state), training.rows, 0
        level: Level[Summary] | None = None
        for depth in range(self.n_levels(facts.n_rows, shape), 0, -1):
            clock, above, n_clusters = time.perf_counter(), level, shape.branching**depth
            most = largest_sample(self.sample_size, n_clusters)
            sample = None if above is None else first_support(above, most, facts.n_rows)
            clustered = cluster_rows(
                rows, facts.n_rows, n_clusters, rng, sample=sample, sample_size=self.sample_size,
                wide=self.clustering_kernel == "wide", max_size=self.max_cluster_size,
            )  # fmt: skip
            about: dict[str, Any] = {"clustering_seconds": time.perf_counter() - clock}
            eps = limits.tol if depth == shape.stop_level else max(limits.tol, self.level_tol)
            level = levels.solve_level(training, depth, clustered.parts, eps)
            for handle in (clustered.spent, clustered.parts, *([above.parts] if above else [])):
                handle.release()
            evaluations = [clustered.evaluations]
            found = cache(partial(self._model, training, level, clustered.rule, evaluations))
            if depth == shape.stop_level:
                found()  # Its cost is counted for this level.
            yield levels.Step(level, found, sum(evaluations), about)
            rows, n_support = level.parts.map(part_of), sum(part.n_support for part in level.results)
        yield from last_step(training, rows, n_support, history)

    def _verdict(self, training: Training, history: History, step: levels.Step, requested: bool) -> Verdict:
        # The next level first computes the margins of its warm starts: one pass over its clusters'
        # support vectors.
        n_support, depth = sum(part.n_support for part in step.level.results), step.level.level
        passes = 1 / training.shape.branching ** max(depth - 1, 0)
        late = levels.out_of_time(training, f"no level below {depth}", n_support, passes, history)
        return levels.last_level(training, step.level, requested) or late

    def _model(self, training: Training, level: Level[Summary], rule: KernelClusters, values: list[int]) -> LevelModel:
        found = levels.model(level, training.facts.total, None if self.prediction == "naive" else rule)
        if self.prediction == "bcm" and found.router is not None:
            committee, spent = calibrated(training, level, found.router, self.level_tol)
            values.append(spent)
            found = replace(found, router=committee or found.router)
        return found
