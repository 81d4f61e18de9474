"""Machines of all pairs of classes, solved side by side.

Every pair is a problem of its own, on views of the same kernel matrix. Small pairs are solved side by side on one
thread each, the largest first, and on stored kernel values where that is possible; large ones one after the other by
all threads. With a time limit every pair has its share of the time that is left, and what is left over in the end goes
to those for which it was too little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, pairwise

import numpy as np

from dimargin.engines import LocalEngine
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import Loss
from dimargin.problems.objectives import Objectives
from dimargin.problems.one_vs_one import coefficients_of, pairs_of, set_coefficients
from dimargin.problems.solution import History, Solution, Status
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.strategies.stored_pairs import MOST_ROWS, StoredPairs, can_be_stored
from dimargin.system.arrays import Floats, Indices

_LARGE = 8192  # rows from which blocks, and passes over the rows, keep all threads busy
_SHARES = 16  # of the memory, one for each pair that is solved beside others, however many threads there are


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
    def classes(self) -> list[slice]:
        """Where the rows of every class are."""
        return [slice(*ends) for ends in pairwise(self.bounds.tolist())]

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Indices of the two classes of every pair."""
        return pairs_of(len(self.classes))

    def rows(self, pair: tuple[int, int]) -> tuple[slice, slice]:
        """Return where the rows of the two classes are."""
        return self.classes[pair[0]], self.classes[pair[1]]

    def n_rows(self, pair: tuple[int, int]) -> int:
        """Return the number of rows of a pair."""
        return sum(rows.stop - rows.start for rows in self.rows(pair))

    def labels(self, pair: tuple[int, int]) -> Floats:
        """Return the labels of the rows of a pair, whose second class is the positive one."""
        return np.repeat([-1.0, 1.0], [rows.stop - rows.start for rows in self.rows(pair)])

    def problem(self, pair: tuple[int, int], n_threads: int) -> DualProblem:
        """Return the problem of a pair."""
        index = np.concatenate([np.arange(rows.start, rows.stop) for rows in self.rows(pair)])
        weights = self.weights[index]
        mass, kernel = float(weights.sum()), self.kernel.take(index, n_threads)
        return DualProblem(self.labels(pair)[None], weights, self.loss, mass, mass, self.intercept, kernel=kernel)

    def start(self, pair: tuple[int, int], signed: Floats) -> Floats:
        """Return the coefficients of a pair's problem, from those of all rows times labels."""
        return (self.labels(pair) * coefficients_of(signed, pair, self.rows(pair)))[None] + 0.0  # no negative zero


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
    memory: int,
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
    memory : int
        Bytes for stored kernel values, beside a float64 copy of the rows.
    done : callable
        Called with the number of every pair that has been solved.

    Raises
    ------
    Interrupted
        When ``limits.cancelled`` was set.
    """
    began = time.perf_counter()
    run = _Run(pairs, start, limits, engine, random_state, memory)
    run.solve(run.largest_first, done)
    while not limits.reached:
        unfinished = [number for number in run.largest_first if run.found[number].status == "max_time"]
        if not unfinished:
            break
        run.solve(unfinished, lambda number: None)
    return run.outcome(time.perf_counter() - began)


class _Run:
    """Training of all pairs: what has been found so far, and by what means."""

    def __init__(
        self,
        pairs: ClassPairs,
        start: Floats | None,
        limits: Limits,
        engine: LocalEngine,
        random_state: int,
        memory: int,
    ) -> None:
        self._pairs, self._start, self._limits, self._random_state = pairs, start, limits, random_state
        self._engine, self._memory = engine, memory
        self._evaluations = 0
        self.found: dict[int, Solution] = {}
        sizes = np.array([pairs.n_rows(pair) for pair in pairs.pairs])
        self.largest_first: list[int] = np.argsort(-sizes, kind="stable").tolist()
        self._large = set(np.flatnonzero(sizes > _LARGE).tolist())
        self._stored: StoredPairs | None = None
        if can_be_stored(pairs.kernel, pairs.loss, limits.tol) and int(pairs.bounds[-1]) > BlockCoordinateDescent.small:
            self._stored = StoredPairs.within(memory, pairs.kernel, pairs.classes, engine)

    def solve(self, numbers: list[int], report: Callable[[int], None]) -> None:
        """Solve the problems of some pairs, each within its share of the time."""
        waiting = count(len(numbers), -1)
        alone = [number for number in numbers if number in self._large]
        together = [number for number in numbers if number not in self._large]
        engine = self._engine if self._stored is None else self._stored.engine
        n_together = max(1, min(engine.n_threads, len(together)))
        for number in alone:
            self._keep(number, self._solve_pair(number, self._engine.n_threads, 1, next(waiting)))
            report(number)

        def task(number: int, _: int) -> Solution:
            return self._solve_pair(number, max(1, engine.n_threads // n_together), n_together, next(waiting))

        def ended(index: int, solution: Solution) -> None:
            self._keep(together[index], solution)
            report(together[index])

        engine.map(task, together, ended)

    def _keep(self, number: int, solution: Solution) -> None:
        self.found[number] = solution
        self._evaluations += solution.kernel_evaluations

    def _solve_pair(self, number: int, n_threads: int, n_together: int, n_waiting: int) -> Solution:
        pair, limits = self._pairs.pairs[number], _share(self._limits, n_together, n_waiting)
        problem, start = self._pairs.problem(pair, n_threads), None
        if number in self.found:
            start = self.found[number].dual
        elif self._start is not None:
            start = self._pairs.start(pair, self._start)
        spent = 0
        if self._stored is not None and problem.n_rows <= MOST_ROWS and not limits.reached:
            solution = self._stored.solve(pair, problem, start, limits.tol)
            if solution.status == "converged":
                return solution
            start, spent = solution.dual, solution.kernel_evaluations
        seed = int(np.random.SeedSequence([self._random_state, number]).generate_state(1)[0])
        # what a solver does depends on its memory, which must not depend on the number of threads
        memory = self._memory if number in self._large else self._memory // _SHARES
        solution = solve(problem, BlockCoordinateDescent(memory, seed, memory), start, limits)
        return replace(solution, kernel_evaluations=solution.kernel_evaluations + spent)

    def outcome(self, seconds: float) -> PairsOutcome:
        """Return the machines of all pairs."""
        pairs, solutions = self._pairs, [self.found[number] for number in range(len(self._pairs.pairs))]
        signed = np.zeros((len(pairs.classes) - 1, int(pairs.bounds[-1])))
        for pair, solution in zip(pairs.pairs, solutions, strict=True):
            set_coefficients(signed, pair, pairs.rows(pair), pairs.labels(pair) * solution.dual[0] + 0.0)
        objectives = Objectives.joined([solution.objectives for solution in solutions])
        missed = [solution.status != "converged" for solution in solutions]
        worst = max(range(len(solutions)), key=lambda number: (missed[number], objectives.relative_gap[number]))
        of = f"{sum(missed)} of {len(missed)} pairs of classes did not reach it; in the worst " if any(missed) else ""
        return PairsOutcome(
            signed=signed,
            objectives=objectives,
            status=solutions[worst].status,
            reason=f"{of}{solutions[worst].reason}",
            passes=max(solution.passes for solution in solutions),
            kernel_evaluations=self._evaluations + (0 if self._stored is None else self._stored.evaluations),
            seconds=seconds,
        )


def _share(limits: Limits, n_together: int, n_waiting: int) -> Limits:
    """Return the limits of one of the pairs that wait for their share of the time."""
    if limits.deadline is None:
        return limits
    now = time.perf_counter()
    share = max(limits.deadline - now, 0.0) * min(1.0, n_together / n_waiting)
    return replace(limits, deadline=now + share)
