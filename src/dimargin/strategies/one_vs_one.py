"""Machines of all pairs of classes, solved side by side.

Every pair is a problem of its own, on views of the same kernel matrix. Large pairs are solved one after the other by
all threads; small ones, the largest first, on stored kernel values where that is possible, and where it is not, or not
enough, side by side on one thread each. With a time limit every pair has its share of the time that is left, and what
is left over in the end goes to those for which it was too little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from dimargin.engines import LocalEngine
from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, Solution, Status
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.strategies.stored_pairs import StoredPairs, can_be_stored
from dimargin.system.arrays import Floats

_LARGE = 8192  # rows from which blocks, and passes over the rows, keep all threads busy
_SHARES = 16  # of the memory, one for each pair that is solved beside others, however many threads there are


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
        sizes = np.array(pairs.n_rows)
        self.largest_first: list[int] = np.argsort(-sizes, kind="stable").tolist()
        self._large = set(np.flatnonzero(sizes > _LARGE).tolist())
        self._stored: StoredPairs | None = None
        if can_be_stored(pairs.kernel, pairs.loss, limits.tol) and int(pairs.bounds[-1]) > BlockCoordinateDescent.small:
            self._stored = StoredPairs.within(memory, pairs, engine)

    def solve(self, numbers: list[int], report: Callable[[int], None]) -> None:
        """Solve the problems of some pairs, each within its share of the time."""
        waiting = count(len(numbers), -1)
        for number in numbers:
            if number in self._large:
                self._keep(number, self._solve_pair(number, self._engine.n_threads, 1, next(waiting)))
                report(number)
        together = [number for number in numbers if number not in self._large]
        if self._stored is not None:
            together = self._solve_stored(self._stored, together, report)
        waiting, n_together = count(len(together), -1), max(1, min(self._engine.n_threads, len(together)))

        def task(number: int, _: int) -> Solution:
            return self._solve_pair(number, max(1, self._engine.n_threads // n_together), n_together, next(waiting))

        def ended(index: int, solution: Solution) -> None:
            self._keep(together[index], solution)
            report(together[index])

        self._engine.map(task, together, ended)

    def _solve_stored(self, stored: StoredPairs, numbers: list[int], report: Callable[[int], None]) -> list[int]:
        """Solve those of some pairs that stored kernel values suffice for; return the others."""
        groups, solved = stored.groups(numbers), set()

        def task(group: list[int], n_threads: int) -> tuple[list[Solution], int]:
            if self._limits.reached:
                return [], 0
            return stored.solve(group, [self._begun(number) for number in group], self._limits.tol, n_threads)

        def ended(index: int, outcome: tuple[list[Solution], int]) -> None:
            solutions, evaluations = outcome
            self._evaluations += evaluations
            for number, solution in zip(groups[index], solutions, strict=False):  # none of a group that was given up
                self._keep(number, solution)
                if solution.status == "converged":
                    solved.add(number)
                    report(number)

        stored.engine.map(task, groups, ended)
        return [number for number in numbers if number not in solved]

    def _keep(self, number: int, solution: Solution) -> None:
        self.found[number] = solution
        self._evaluations += solution.kernel_evaluations

    def _begun(self, number: int) -> Floats | None:
        """Return the coefficients from which the solve of a pair goes on."""
        if number in self.found:
            return self.found[number].dual
        return None if self._start is None else self._pairs.start(self._pairs.pairs[number], self._start)

    def _solve_pair(self, number: int, n_threads: int, n_together: int, n_waiting: int) -> Solution:
        limits = _share(self._limits, n_together, n_waiting)
        problem = self._pairs.problem(self._pairs.pairs[number], n_threads)
        seed = int(np.random.SeedSequence([self._random_state, number]).generate_state(1)[0])
        # what a solver does depends on its memory, which must not depend on the number of threads
        memory = self._memory if number in self._large else self._memory // _SHARES
        return solve(problem, BlockCoordinateDescent(memory, seed, memory), self._begun(number), limits)

    def outcome(self, seconds: float) -> PairsOutcome:
        """Return the machines of all pairs."""
        pairs, solutions = self._pairs, [self.found[number] for number in range(len(self._pairs.pairs))]
        objectives = Objectives.joined([solution.objectives for solution in solutions])
        missed = [solution.status != "converged" for solution in solutions]
        worst = max(range(len(solutions)), key=lambda number: (missed[number], objectives.relative_gap[number]))
        of = f"{sum(missed)} of {len(missed)} pairs of classes did not reach it; in the worst " if any(missed) else ""
        return PairsOutcome(
            signed=pairs.signed([solution.dual for solution in solutions]),
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
