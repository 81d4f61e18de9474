"""Training of the machines of all pairs of classes.

Every pair is a problem of its own, on views of the same kernel matrix. Pairs of up to 512 rows are
single blocks, many of which are solved in one call. If there are more rows in all, pairs of up to
4,096 rows with a hinge loss are solved on stored kernel values where that suffices. The others, and
those of a linear kernel that take steps on their rows, are solved one by one, large ones by all
threads, small ones in parallel.

With a time limit every pair first gets a machine of few of its rows, so that it has one when time
is over. Pairs that are solved one by one get a share of the remaining time. Time left at the end
goes to pairs whose share was too short. They restart, because a limit that is not reached must not
change a machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.solution import Solution, SolveResult
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import ExactSolver, Interrupted, Limits, RowDescent, solve
from dimargin.solvers.loop import INTERRUPTED, OUT_OF_TIME, Solver
from dimargin.strategies.block_pairs import PairSizes, certified, solve_blocks
from dimargin.strategies.pair_results import FoundPairs, PairResults
from dimargin.strategies.stored_pairs import StoredPairs, can_be_stored
from dimargin.system.arrays import Floats, Indices


def train_pairs(
    pairs: ClassPairs,
    start: Floats | None,
    limits: Limits,
    engine: LocalEngine,
    random_state: int,
    memory: int,
    done: Callable[[int], None],
    by_rows: Callable[[int], bool] = lambda n_rows: False,
) -> tuple[Floats, SolveResult]:
    """Train the machine of every pair of classes.

    Parameters
    ----------
    pairs : ClassPairs
    start : ndarray of shape (n_classes - 1, n), optional
        Coefficients times labels, to start from.
    limits : Limits
        Limits of all pairs together.
    engine : LocalEngine
    random_state : int
    memory : int
        Bytes for stored kernel values, in addition to a float64 copy of the rows.
    done : callable
        Called with the number of every pair whose solve has ended.
    by_rows : callable
        Returns whether a pair of so many rows, if it is solved by itself, takes steps on its rows
        (`dimargin.strategies.exact.Exact`), which needs a linear kernel. By default none does.

    Returns
    -------
    signed : ndarray of shape (n_classes - 1, n)
        Coefficients times labels of all rows.
    result : SolveResult

    Raises
    ------
    Interrupted
        When ``limits.cancelled`` was set.
    """
    began = time.perf_counter()
    run = _Run(pairs, start, limits, engine, random_state, memory, done, by_rows)
    run.solve()
    unsolved = INTERRUPTED if limits.interrupted.is_set() else OUT_OF_TIME
    result = run.results.result(unsolved, time.perf_counter() - began, run.shared_evaluations)
    return run.results.signed, result


@dataclass
class _Run:
    """Training of all pairs."""

    pairs: ClassPairs
    start: Floats | None
    limits: Limits
    engine: LocalEngine
    random_state: int
    memory: int
    done: Callable[[int], None]
    by_rows: Callable[[int], bool] = lambda n_rows: False
    shared_evaluations: int = 0  # Kernel values computed for several pairs together.
    # Coefficients from which the exact solver resumes, and the number of kernel values computed for
    # them.
    partial_solutions: dict[int, tuple[Floats, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.results = PairResults(self.pairs, self.limits.tol)
        self._reported = np.zeros(len(self.pairs.pairs), dtype=bool)

    def solve(self) -> None:
        """Solve the problems of all pairs, the largest first, as far as the limits allow."""
        n_rows = self.pairs.n_rows
        waiting = np.argsort(-n_rows, kind="stable")
        few = n_rows[waiting] <= 2 * PairSizes.few_rows  # These take no longer to solve than a rough machine does.
        waiting = np.concatenate([waiting[~few], self._solve_blocks(waiting[few])])
        if self.limits.deadline is not None:
            self._solve_roughly()
        large = n_rows[waiting] > PairSizes.large_pair_rows
        self._solve_alone(waiting, int(large.sum()), 1)
        by_rows = np.array([self.by_rows(int(n)) for n in n_rows[waiting]], dtype=bool)
        others = self._solve_blocks(self._solve_stored(waiting[~large & ~by_rows]))
        waiting = np.concatenate([waiting[~large & by_rows], others])
        self._solve_alone(waiting, len(waiting), self.engine.n_threads)
        while not self._is_limit_reached():
            late = [number for number, end in self.results.ends.items() if end == OUT_OF_TIME]
            if not late:
                break
            self._solve_alone(np.array(late), len(late), self.engine.n_threads)
        self._solve_roughly()
        for number in range(len(n_rows)):
            self._report(number)

    def _report(self, number: int) -> None:
        if not self._reported[number]:
            self._reported[number] = True
            self.done(number)

    def _is_limit_reached(self) -> bool:
        """Return whether a limit is reached; raises Interrupted if the fit has been cancelled."""
        if self.limits.cancelled.is_set():
            raise Interrupted
        return self.limits.reached

    # ---- many in a call --------------------------------------------------------------------------------------------

    def _solve_blocks(self, numbers: Indices) -> Indices:
        """Solve the pairs that are blocks; return the pairs that still miss the tolerance."""
        small = self.pairs.n_rows[numbers] <= ExactSolver.small
        blocks = numbers[small & ~np.isin(numbers, list(self.partial_solutions))]

        def task(group: Indices, n_threads: int) -> None:
            found = None if self.start is None else self._keep_start(group, n_threads)
            for _ in range(3):
                if found is not None:
                    group = group[~(found.objectives.unrounded <= 1e-12)]  # Blocks are solved to rounding.
                if not len(group):
                    return
                start = None if found is None else self.results.signed
                goes_on = found is not None
                found = solve_blocks(self.pairs, group, start, n_threads)
                self.results.keep(found, goes_on=goes_on)

        return self._solve_groups(numbers, self._groups(blocks), task, self.engine)

    def _solve_stored(self, numbers: Indices) -> Indices:
        """Solve pairs on stored kernel values; return the pairs that still miss the tolerance."""
        pairs, tol = self.pairs, self.limits.tol
        if pairs.bounds[-1] <= ExactSolver.small or not can_be_stored(pairs.kernel, pairs.loss, tol):
            return numbers
        stored = None if self._is_limit_reached() else StoredPairs.within(self.memory, pairs, self.engine)
        if stored is None:
            return numbers
        self.shared_evaluations = stored.evaluations

        def task(group: Indices, n_threads: int) -> None:
            self.results.keep(stored.solve(group, self.start, tol, n_threads))

        return self._solve_groups(numbers, stored.groups(numbers), task, stored.engine)

    def _groups(self, numbers: Indices) -> list[Indices]:
        values = min(PairSizes.values_at_once, self.memory // (16 * self.engine.n_threads))
        return self.pairs.groups(numbers, values, PairSizes.rows_at_once)

    def _solve_groups(
        self, numbers: Indices, groups: list[Indices], task: Callable[[Indices, int], None], engine: LocalEngine
    ) -> Indices:
        """Solve groups of pairs until a limit is reached; return the pairs that still miss the tolerance."""

        def until_reached(group: Indices, n_threads: int) -> None:
            if not self._is_limit_reached():
                task(group, n_threads)

        def ended(index: int, _: None) -> None:
            for number in groups[index][self.results.met(groups[index])].tolist():
                self._report(number)

        engine.map(until_reached, groups, ended)
        tried = np.concatenate([numbers[:0], *groups])
        tried = tried[self.results.is_found[tried] & ~self.results.is_rough[tried]]
        for number in tried[~self.results.met(tried)].tolist():
            dual = self.pairs.joined([number]).coefficients(self.results.signed)
            self.partial_solutions[number] = dual[None], int(self.results.evaluations[number])
        return numbers[~self.results.met(numbers)]

    def _keep_start(self, group: Indices, n_threads: int) -> FoundPairs:
        """Keep and return the machines of some pairs at the coefficients of the warm start."""
        assert self.start is not None
        kernel = self.pairs.precise.take(np.arange(self.pairs.bounds[-1]), n_threads)
        problems = self.pairs.joined(group)
        found = certified(group, problems, kernel, problems.coefficients(self.start))
        self.results.keep(found)
        return found

    def _solve_roughly(self) -> None:
        """Train pairs without a machine on few of their rows, or on fewer once a limit is reached."""

        def task(group: Indices, n_threads: int) -> None:
            few = PairSizes.last_rows if self._is_limit_reached() else PairSizes.few_rows
            self.results.keep(solve_blocks(self.pairs, group, None, n_threads, few), is_rough=True)

        missing = np.flatnonzero(~self.results.is_found)
        self.engine.map(task, self.pairs.groups(missing, 2**62, PairSizes.rows_at_once))

    # ---- one by one ------------------------------------------------------------------------------------------------

    def _solve_alone(self, waiting: Indices, n: int, n_together: int) -> None:
        """Solve the first n waiting pairs, `n_together` in parallel, each within its share of the time."""
        work = self.pairs.n_rows[waiting] ** 2.0
        left, n_together = np.cumsum(work[::-1])[::-1], max(1, min(n_together, n))

        def task(index: int, _: int) -> None:
            if not self._is_limit_reached():
                limits = _with_time_share(self.limits, min(1.0, n_together * work[index] / left[index]))
                self._solve_pair(int(waiting[index]), limits, max(1, self.engine.n_threads // n_together))

        def ended(index: int, _: None) -> None:
            self._report(int(waiting[index]))

        if not self._is_limit_reached():
            LocalEngine(n_together, self.engine.cancelled).map(task, range(n), ended)

    def _solve_pair(self, number: int, limits: Limits, n_threads: int) -> None:
        problem = self.pairs.problem(self.pairs.pairs[number], n_threads)
        seed = int(np.random.SeedSequence([self.random_state, number]).generate_state(1)[0])
        # The solver's path depends on its memory, so pairs that are solved in parallel get a fixed
        # sixteenth of it, for any number of threads.
        memory = self.memory if problem.n_rows > PairSizes.large_pair_rows else self.memory // 16
        dual, spent = self.partial_solutions.get(number, (None, 0))
        if dual is None and self.start is not None:
            dual = self.pairs.joined([number]).coefficients(self.start)[None]
        exact = ExactSolver(memory, seed, memory)
        solver: Solver[Any, Any, Solution] = RowDescent(exact) if self.by_rows(problem.n_rows) else exact
        solution = solve(problem, solver, dual, limits)
        found = FoundPairs(
            np.array([number]), self.pairs.joined([number]), solution.dual[0], solution.objectives,
            spent + solution.kernel_evaluations, solution.passes,
        )  # fmt: skip
        self.results.keep(found, None if solution.status == "converged" else (solution.status, solution.reason))


def _with_time_share(limits: Limits, share: float) -> Limits:
    """Return limits with a share of the remaining time."""
    if limits.deadline is None:
        return limits
    now = time.perf_counter()
    return replace(limits, deadline=now + share * max(limits.deadline - now, 0.0))
