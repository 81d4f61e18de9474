"""Machines of all pairs of classes, solved side by side.

Every pair is a problem of its own, on views of the same kernel matrix. Small pairs are solved side by side on one
thread each, the largest first; large ones one after the other by all threads. With a time limit every pair has its
share of the time that is left, and what is left over in the end goes to those for which it was too little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np

from dimargin.engines import LocalEngine
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import Loss
from dimargin.problems.objectives import Objectives
from dimargin.problems.one_vs_one import coefficients_of, pairs_of, set_coefficients
from dimargin.problems.solution import History, Solution, Status
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.system.arrays import Floats, Indices

_LARGE = 8192  # rows from which blocks, and passes over the rows, keep all threads busy


@dataclass(frozen=True)
class ClassPairs:
    """Problems of all pairs of classes, over rows in the order of their classes.

    The mass and the total of a problem are those of its own rows.
    """

    weights: Floats  # of all rows
    bounds: Indices  # where the rows of every class begin, and the last ones end, of shape (n_classes + 1,)
    loss: Loss
    intercept: bool
    kernel: KernelMatrix

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Indices of the two classes of every pair."""
        return pairs_of(len(self.bounds) - 1)

    def rows(self, pair: tuple[int, int]) -> tuple[slice, slice]:
        """Return where the rows of the two classes are."""
        first, second = (slice(int(self.bounds[c]), int(self.bounds[c + 1])) for c in pair)
        return first, second

    def n_rows(self, pair: tuple[int, int]) -> int:
        """Return the number of rows of a pair."""
        return sum(rows.stop - rows.start for rows in self.rows(pair))

    def problem(self, pair: tuple[int, int], n_threads: int) -> DualProblem:
        """Return the problem of a pair, whose second class is the positive one."""
        index = np.concatenate([np.arange(rows.start, rows.stop) for rows in self.rows(pair)])
        labels = np.repeat([-1.0, 1.0], [rows.stop - rows.start for rows in self.rows(pair)])[None]
        weights = self.weights[index]
        mass = float(weights.sum())
        kernel = self.kernel.take(index, n_threads)
        return DualProblem(labels, weights, self.loss, mass, mass, self.intercept, kernel=kernel)

    def start(self, pair: tuple[int, int], signed: Floats) -> Floats:
        """Return the coefficients of a pair's problem, from those of all rows times labels."""
        values = coefficients_of(signed, pair, self.rows(pair))
        values[: self.rows(pair)[0].stop - self.rows(pair)[0].start] *= -1.0
        return values[None] + 0.0  # no negative zero


@dataclass(frozen=True)
class PairsOutcome:
    """Trained machines of all pairs, and their certificates."""

    signed: Floats  # coefficients times labels of all rows, of shape (n_classes - 1, n)
    objectives: Objectives  # of the pairs, with their intercepts
    status: Status
    reason: str
    passes: int  # of the pair that took most
    kernel_evaluations: int
    seconds: float

    @property
    def history(self) -> History:
        """The only entry of the history."""
        return [
            {
                "level": 0, "partitions": len(self.objectives.primal), "scope": "global", "seconds": self.seconds,
                "kernel_evaluations": self.kernel_evaluations, "objective": self.objectives.primal.tolist(),
                "relative_gap": self.objectives.worst_gap, "passes": self.passes,
            }
        ]  # fmt: skip


def train_pairs(
    pairs: ClassPairs,
    start: Floats | None,
    limits: Limits,
    engine: LocalEngine,
    random_state: int,
    cache: int,
    done: Callable[[int], None],
) -> PairsOutcome:
    """Train the machine of every pair of classes.

    Parameters
    ----------
    pairs : ClassPairs
    start : ndarray of shape (n_classes - 1, n), optional
        Coefficients times labels, to start from.
    limits : Limits
        Of all pairs together.
    engine : LocalEngine
    random_state : int
    cache : int
        Bytes for remembered kernel rows.
    done : callable
        Called with the number of every pair that has been solved.

    Raises
    ------
    Interrupted
        When ``limits.cancelled`` was set.
    """
    began = time.perf_counter()
    found: dict[int, Solution] = {}
    evaluations = 0
    workers = max(1, min(engine.n_threads, len(pairs.pairs)))
    largest_first = np.argsort([-pairs.n_rows(pair) for pair in pairs.pairs], kind="stable").tolist()
    large = [number for number in largest_first if pairs.n_rows(pairs.pairs[number]) > _LARGE]

    def solve_pair(number: int, n_threads: int, limits: Limits) -> Solution:
        problem = pairs.problem(pairs.pairs[number], n_threads)
        before = found.get(number)
        at = None if start is None else pairs.start(pairs.pairs[number], start)
        seed = int(np.random.SeedSequence([random_state, number]).generate_state(1)[0])
        share = cache if n_threads == engine.n_threads else cache // workers
        return solve(problem, BlockCoordinateDescent(share, seed), at if before is None else before.dual, limits)

    def keep(number: int, solution: Solution) -> None:
        nonlocal evaluations
        found[number] = solution
        evaluations += solution.kernel_evaluations

    def solve_some(numbers: list[int], report: Callable[[int], None]) -> None:
        begun = count()
        one_by_one = [number for number in numbers if number in large]
        side_by_side = [number for number in numbers if number not in large]
        for number in one_by_one:
            keep(number, solve_pair(number, engine.n_threads, _share(limits, 1, len(numbers) - next(begun))))
            report(number)

        def task(number: int, n_threads: int) -> Solution:
            return solve_pair(number, n_threads, _share(limits, workers, len(numbers) - next(begun)))

        def ended(index: int, solution: Solution) -> None:
            keep(side_by_side[index], solution)
            report(side_by_side[index])

        engine.map(task, side_by_side, ended)

    solve_some(largest_first, done)
    while not limits.reached:
        unfinished = [number for number in largest_first if found[number].status == "max_time"]
        if not unfinished:
            break
        solve_some(unfinished, lambda number: None)
    solutions = [found[number] for number in range(len(pairs.pairs))]
    return _outcome(pairs, solutions, evaluations, time.perf_counter() - began)


def _share(limits: Limits, n_together: int, n_waiting: int) -> Limits:
    """Return the limits of one of the pairs that wait for their share of the time."""
    if limits.deadline is None:
        return limits
    now = time.perf_counter()
    share = max(limits.deadline - now, 0.0) * min(1.0, n_together / n_waiting)
    return replace(limits, deadline=now + share)


def _outcome(pairs: ClassPairs, solutions: list[Solution], evaluations: int, seconds: float) -> PairsOutcome:
    signed = np.zeros((len(pairs.bounds) - 2, int(pairs.bounds[-1])))
    for pair, solution in zip(pairs.pairs, solutions, strict=True):
        first = pairs.rows(pair)[0]
        labels = np.repeat([-1.0, 1.0], [first.stop - first.start, pairs.n_rows(pair) - (first.stop - first.start)])
        set_coefficients(signed, pair, pairs.rows(pair), labels * solution.dual[0] + 0.0)
    objectives = Objectives.joined([solution.objectives for solution in solutions])
    worst = max(range(len(solutions)), key=lambda p: (solutions[p].status != "converged", objectives.relative_gap[p]))
    missed = sum(solution.status != "converged" for solution in solutions)
    of = f"{missed} of {len(solutions)} pairs of classes did not reach it; in the worst " if missed else ""
    return PairsOutcome(
        signed=signed,
        objectives=objectives,
        status=solutions[worst].status,
        reason=f"{of}{solutions[worst].reason}",
        passes=max(solution.passes for solution in solutions),
        kernel_evaluations=evaluations,
        seconds=seconds,
    )
