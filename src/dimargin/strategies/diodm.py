"""DiODM: the distributed Optimal margin Distribution Machine (Algorithm 1 of the paper, mended).

    in: branching p, levels L, landmarks S, tolerances eps_l
    1  landmarks, strata, partitions D_1 .. D_{p^L}
    2  for l = L, L-1, ..., 0:                     the paper stops at 1 and never solves the whole problem
    3      for each of the p^l partitions, side by side:
               solve its local problem, of mass W_k, from the warm start to eps_l
    4      if l = stop_level, or every merged warm start already met the tolerance: stop
    5      merge groups of p:  g = (W_k / W_merged) g_k        the paper concatenates, F1 below
    6  return g, weighted: f = sum_k (W_k / W) f_k

Where the paper is wrong (handbook, sections 0 and 6). *Merging* (F1): if all local machines agree on a decision
function, their slacks agree, and by the optimality conditions coefficients scale as one over the mass; concatenated
ones are p times too large, and as a warm start worth as little as none. *The loop* ends at level 1, uses p for two
things, and tests convergence on zeros. *Labels* are ignored by the strata, so that a rare class can vanish from a
part. ``DiODM(warm_start="concatenate")`` and ``stop_level=1`` are the literal readings, for comparison.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from dimargin.partition import StratifiedPartition
from dimargin.solution import Floats, Objectives, Solution
from dimargin.solvers import solve
from dimargin.strategies.base import Outcome, Strategy, Training, TreeShape
from dimargin.tree import Level, Node, climb, merged_rows

_LEAF_ROWS = 4096  # rows of a leaf that the default depth aims at


class DiODM(Strategy):
    """Stratified partitions, merged level by level with rescaled warm starts.

    Parameters
    ----------
    warm_start : {"rescale", "concatenate"}, default="rescale"
        How coefficients of merged parts start: times ``W_k / W_merged``, or unchanged as printed in the paper.
    landmark_choice : {"greedy", "random"}, default="greedy"
        See `dimargin.partition.pivoted_cholesky`.
    sample_size : int or None, default=None
        Rows from which landmarks are chosen; ``max(2000, 10 n_landmarks)`` when None.
    level_tol : float, default=0.1
        Relative gap to which levels above `stop_level` solve their local problems: they only have to start the next.
    early_stop : bool, default=True
        Stop at the first level where every merged warm start already meets the estimator's `tol`; the certificate is
        then "partitioned".

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

    def __init__(
        self,
        warm_start: Literal["rescale", "concatenate"] = "rescale",
        landmark_choice: Literal["greedy", "random"] = "greedy",
        sample_size: int | None = None,
        level_tol: float = 0.1,
        early_stop: bool = True,
    ) -> None:
        self.warm_start = warm_start
        self.landmark_choice = landmark_choice
        self.sample_size = sample_size
        self.level_tol = level_tol
        self.early_stop = early_stop

    def validate(self) -> None:
        """Raise ValueError for an option out of its range."""
        if self.warm_start not in ("rescale", "concatenate"):
            raise ValueError(f"DiODM: warm_start must be 'rescale' or 'concatenate', got {self.warm_start!r}")
        if self.landmark_choice not in ("greedy", "random"):
            raise ValueError(f"DiODM: landmark_choice must be 'greedy' or 'random', got {self.landmark_choice!r}")
        if self.sample_size is not None and self.sample_size < 1:
            raise ValueError(f"DiODM: sample_size must be None or at least 1, got {self.sample_size!r}")
        if not 0 < self.level_tol < math.inf:
            raise ValueError(f"DiODM: level_tol must be a number above 0, got {self.level_tol!r}")

    def n_levels(self, n_rows: int, shape: TreeShape) -> int:
        """``ceil(log_p(n / 4096))``, at least 1, unless given."""
        if shape.n_levels is not None:
            return shape.n_levels
        return max(1, math.ceil(math.log(max(n_rows / _LEAF_ROWS, 1), shape.branching)), shape.stop_level)

    def train(self, training: Training) -> Outcome:
        """Algorithm 1."""
        shape, problem, progress = training.shape, training.problem, training.progress
        p, L = shape.branching, self.n_levels(problem.n_rows, shape)
        clock = time.perf_counter()
        history: list[dict[str, Any]] = []
        passes, reason = 0, ""
        leaves = self._leaves(training, p, L)
        partition_evaluations = problem.kernel.evaluations
        solve_level = partial(self._solve_level, training)
        for level in climb(leaves, L, p, solve_level, self._merge):
            objectives = _average(level, problem.total)
            evaluations = sum(s.kernel_evaluations for s in level.results)
            history.append(
                {
                    "level": level.level,
                    "partitions": len(level.nodes),
                    "seconds": time.perf_counter() - clock,
                    "kernel_evaluations": evaluations + (0 if history else partition_evaluations),
                    "objective": objectives.primal.tolist(),
                    "relative_gap": objectives.worst_gap,
                }
            )
            passes += max(s.passes for s in level.results)
            dual = partial(_model, level, problem.total, problem.labels.shape)
            stop = progress.level_end(history[-1], dual)
            clock = time.perf_counter()  # what callbacks take is theirs
            reason = self._reason_to_stop(training, level, history, stop)
            if reason:
                break
        worst = max(level.results, key=lambda s: s.objectives.worst_gap)
        status = worst.status if level.level == shape.stop_level or reason == "solved" else "stopped"
        if level.level > shape.stop_level and reason.startswith("early"):
            status = "converged"
        elif "time" in reason:
            status = "max_time"
        return Outcome(
            dual=dual(),
            objectives=objectives,
            scope="global" if level.level == 0 else "partitioned",
            status=status,
            reason=worst.reason if reason == "solved" else reason,
            passes=passes,
            history=history,
        )

    def _leaves(self, training: Training, p: int, L: int) -> list[Node]:
        problem, rng = training.problem, np.random.default_rng(training.random_state)
        strata = StratifiedPartition(training.shape.n_landmarks, self.sample_size, self.landmark_choice)
        leaves = []
        for rows in strata.split(problem, p**L, rng):
            mass = float(problem.weights[rows].sum())
            start = None if training.start is None else training.start[:, rows] * (problem.total / mass)
            leaves.append(Node(rows, mass, start))
        return leaves

    def _solve_level(self, training: Training, level: int, nodes: Sequence[Node]) -> list[Solution]:
        alone, last = len(nodes) == 1, level <= training.shape.stop_level
        tol = training.limits.tol if last else max(self.level_tol, training.limits.tol)
        progress = training.progress
        progress.level_begin(level, None if alone else len(nodes))
        limits = replace(training.limits, tol=tol)
        if alone:
            limits = replace(limits, stop_requested=progress.check)

        def local(task: tuple[int, Node], n_threads: int) -> Solution:
            place, node = task
            problem = training.problem.restrict(node.rows, node.mass, n_threads)
            return solve(problem, training.solver(level, place), node.start, limits)

        return training.engine.map(local, list(enumerate(nodes)), lambda place, solution: progress.task_end(place))

    def _merge(self, children: Sequence[tuple[Node, Solution]]) -> Node:
        mass = sum(node.mass for node, _ in children)
        rescale = self.warm_start == "rescale"
        start = [solution.dual * (node.mass / mass if rescale else 1.0) for node, solution in children]
        return Node(merged_rows([node for node, _ in children]), mass, np.concatenate(start, axis=1))

    def _reason_to_stop(
        self, training: Training, level: Level[Solution], history: list[dict[str, Any]], requested: bool
    ) -> str:
        limits = training.limits
        if level.level == training.shape.stop_level:
            return "solved"
        if requested or any(s.status == "stopped" for s in level.results):
            return "a callback asked to stop"
        started_met = all(s.history[0]["relative_gap"] <= limits.tol for s in level.results)
        if self.early_stop and len(history) > 1 and started_met:
            return f"early stop at level {level.level}: every merged warm start met tol {limits.tol:.2e}"
        if limits.deadline is not None:
            # margins of the merged warm starts cost one pass over the kernels of the next level
            spent, seconds = (sum(e[k] for e in history) for k in ("kernel_evaluations", "seconds"))
            rows = training.problem.n_rows
            needed = rows * rows / training.shape.branching ** (level.level - 1)
            if limits.out_of_time or time.perf_counter() + needed * seconds / spent > limits.deadline:
                return f"the time limit allows no level below {level.level}"
        return ""


def _average(level: Level[Solution], total: float) -> Objectives:
    """Weighted means of the local objectives, each of which estimates the whole one; the gap is the worst local one."""
    share = [node.mass / total for node in level.nodes]
    primal = sum(w * s.objectives.primal for w, s in zip(share, level.results, strict=True))
    dual = sum(w * s.objectives.dual for w, s in zip(share, level.results, strict=True))
    gaps = np.max([s.objectives.relative_gap for s in level.results], axis=0)
    return Objectives(np.asarray(primal), np.asarray(dual), gaps)


def _model(level: Level[Solution], total: float, shape: tuple[int, ...]) -> Floats:
    """``f = sum_k (W_k / W) f_k`` as one set of coefficients."""
    dual = np.zeros(shape)
    for node, solution in level.solved:
        dual[:, node.rows] = (node.mass / total) * solution.dual
    return dual
