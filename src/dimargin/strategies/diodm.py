"""DiODM: the distributed Optimal margin Distribution Machine (Algorithm 1 of the paper, corrected).

    in: branching p, levels L, landmarks S, tolerances eps_l
    1  landmarks, strata, partitions D_1 .. D_{p^L}
    2  for l = L, L-1, ..., 0:                     the paper stops at 1 and never solves the whole problem
    3      for each of the p^l partitions, side by side:
               solve its local problem, of mass W_k, from the warm start to eps_l
    4      if l = stop_level, or every merged warm start already met the tolerance: stop
    5      merge groups of p:  g = (W_k / W_merged) g_k        the paper concatenates, see below
    6  return g, weighted: f = sum_k (W_k / W) f_k

The paper is wrong in three places (docs/algorithms.md#diodm). *Merging*: if all local machines
agree on a decision function, their slacks agree, and by the optimality conditions coefficients
scale as one over the mass. Concatenated coefficients are p times too large, and no better as a warm
start than zeros. *The loop* ends at level 1, uses p for two things, and tests convergence on zeros.
*Labels* are ignored by the strata, so a rare class can vanish from a part.
`dimargin_bench.experiments.literal_diodm` follows the paper literally, for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from dimargin.problems.solution import History
from dimargin.shards.partition import Dealt, StratifiedPartition
from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards
from dimargin.shards.tree import Level, climb
from dimargin.solvers.loop import Verdict
from dimargin.strategies.across import solve_across, stay_in_shards
from dimargin.strategies.levels import Step, follow, joined_starts, last_level, model, out_of_time, solve_level
from dimargin.strategies.passing import start_of
from dimargin.strategies.solves import Solved, Summary
from dimargin.strategies.strategy import MovedOptions, Outcome, Strategy, Training


@dataclass(eq=False, repr=False)
class DiODM(Strategy):
    """DiODM: stratified partitions, merged level by level with rescaled warm starts.

    Parameters
    ----------
    landmark_choice : {"greedy", "random"}, default="greedy"
        Choice of the landmarks, see `dimargin.shards.partition.pivoted_cholesky`.
    sample_size : int or None, default=None
        Number of rows from which landmarks are chosen; ``max(2000, 10 n_landmarks)`` when None.
    level_tol : float, default=0.1
        Relative gap to which levels above `stop_level` are solved: they only provide the start of
        the next level.
    early_stop : bool, default=True
        Whether to stop at the first level where every merged warm start meets the estimator's
        `tol`; the certificate is then "partitioned".

    Examples
    --------
    >>> from dimargin import DiODM, ODMClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(800, noise=0.1, random_state=0)
    >>> machine = ODMClassifier(strategy=DiODM(early_stop=False), branching=2, n_levels=2, random_state=0).fit(X, y)
    >>> [(entry["level"], entry["partitions"]) for entry in machine.history_]
    [(2, 4), (1, 2), (0, 1)]
    """

    uses = frozenset({"branching", "n_levels", "n_landmarks", "stop_level"})

    rescales_starts: ClassVar[bool] = True  # Whether warm starts of merged parts are rescaled.
    moved_options: ClassVar[MovedOptions] = {
        "warm_start": ("rescale", "dimargin_bench.experiments.literal_diodm.ConcatenatingDiODM")
    }
    landmark_choice: Literal["greedy", "random"] = "greedy"
    sample_size: int | None = None
    level_tol: float = 0.1
    early_stop: bool = True

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        super().validate()
        self._check_count("sample_size")
        self._check_positive("level_tol")

    def train(self, training: Training) -> Outcome:
        """Train by Algorithm 1."""
        return follow(training, self._levels, self._verdict)

    def _levels(self, training: Training, _: History) -> Iterator[Step]:
        shape, facts = training.shape, training.facts
        p, L, eps = shape.branching, self.n_levels(facts.n_rows, shape), training.limits.tol
        leaves = self._leaves(training, p, L)

        def solve(level: int, parts: Shards[Part]) -> Level[Summary]:
            return solve_level(training, level, parts, eps if level <= shape.stop_level else max(eps, self.level_tol))

        rescale, spent, across = self.rescales_starts, (*leaves.spent, leaves.parts), stay_in_shards(training)
        for level in climb(leaves.parts, L, p, solve, merged, rescale, spent, last=1 if across else 0):
            yield Step(level, partial(model, level, facts.total), leaves.evaluations if level.level == L else 0)
        if across:
            training.progress.level_begin(0, None)
            (start,) = level.parts.merge(merged, p, rescale).collect(start_of)
            yield solve_across(training, start)[0]

    def _leaves(self, training: Training, p: int, L: int) -> Dealt:
        rng = np.random.default_rng(training.random_state)
        strata = StratifiedPartition(training.shape.n_landmarks or 50, self.sample_size, self.landmark_choice)
        return strata.deal(training.rows, training.facts.n_rows, p**L, rng)

    def _verdict(self, training: Training, history: History, step: Step, requested: bool) -> Verdict:
        """Return status and reason if the level just solved is the last one, else None."""
        level, tol = step.level, training.limits.tol
        verdict = last_level(training, level, requested)
        if verdict is not None:
            return verdict
        start_gaps = [part.result.history[0]["relative_gap"] for part in level.results]
        if self.early_stop and len(history) > 1 and all(gap <= tol for gap in start_gaps):
            return "converged", f"every merged warm start of level {level.level} met tol {tol:.2e}"
        # The next level first computes the margins of its warm starts: one pass over its kernels.
        n_support, parts = sum(part.n_support for part in level.results), training.shape.branching ** (level.level - 1)
        return out_of_time(training, f"no level below {level.level}", n_support, 1 / parts, history)


def merged(children: Sequence[Solved], rescale: bool) -> Part:
    """Task that merges several parts into one, with its warm start."""
    return joined_starts([child.part for child in children], rescale)
