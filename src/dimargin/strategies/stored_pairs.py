"""Solver of many small pairs of classes in one call, on stored kernel values.

The kernel values within a class are computed once for all its pairs, and those between two classes
once: half of all values, where separate pairs would compute all of them twice. The compiled core
takes pair steps in single precision until the gap is within the tolerance, which saves the time to
choose blocks. The certificate is that of float64 kernel values, with a bound of their rounding; if
it misses the tolerance, block coordinate descent resumes from there. The Python work for a pair
would take longer than its solve, so one call handles many pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dimargin import _core
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.pieces import Pieces
from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.losses import Loss
from dimargin.shards.local_engine import LocalEngine
from dimargin.strategies.block_pairs import PairSizes, certified
from dimargin.strategies.pair_results import FoundPairs
from dimargin.system.arrays import Floats, Indices


class StoredPairs:
    """Solver of pairs of classes on stored kernel values, which concurrent tasks share.

    Parameters
    ----------
    pairs : ClassPairs
    engine : LocalEngine

    Attributes
    ----------
    engine : LocalEngine
    evaluations : int
        Number of kernel values computed within classes.
    """

    def __init__(self, pairs: ClassPairs, engine: LocalEngine) -> None:
        self.engine, self._pairs = engine, pairs
        small = _classes_of_small_pairs(pairs.classes)
        rows = Pieces.of([pairs.indices[number] for number in small])
        view = pairs.kernel.take(np.arange(pairs.kernel.shape[0]), engine.n_threads)
        within = np.split(view.value_parts(rows, rows), np.cumsum(rows.sizes**2)[:-1])
        self._within = {number: own.reshape(n, n) for number, own, n in zip(small, within, rows.sizes, strict=True)}
        self.evaluations = view.evaluations

    @classmethod
    def within(cls, memory: int, pairs: ClassPairs, engine: LocalEngine) -> StoredPairs | None:
        """Return the solver, or None if no pair is small or `memory`, beyond a copy of the rows, is too small.

        This does not depend on the number of threads, so that results do not. The solver's engine
        has as many threads as there is memory for.
        """
        small = pairs.n_rows[pairs.n_rows <= PairSizes.max_stored_rows]
        if not len(small):
            return None
        sizes, largest = np.diff(pairs.bounds).tolist(), int(small.max())
        left = memory - 4 * sum(sizes[number] ** 2 for number in _classes_of_small_pairs(pairs.classes))
        # A thread needs memory for a pair, for values between classes, and for arrays of rows.
        each = 4 * int(_core.class_pair_scratch(largest)) + 2 * max(largest**2, PairSizes.values_at_once)
        if left < each:
            return None
        return cls(pairs, LocalEngine(min(engine.n_threads, left // each), engine.cancelled))

    def groups(self, numbers: Indices) -> list[Indices]:
        """Return the small ones of some pairs, in groups for one call of `solve` each."""
        small = numbers[self._pairs.n_rows[numbers] <= PairSizes.max_stored_rows]
        return self._pairs.groups(small, PairSizes.values_at_once, PairSizes.rows_at_once)

    def solve(self, numbers: Indices, start: Floats | None, tol: float, n_threads: int = 1) -> FoundPairs:
        """Solve some small pairs, from coefficients of all pairs times labels, or from zero.

        The result may miss the tolerance.
        """
        problems = self._pairs.joined(numbers)
        precise = self._pairs.precise.take(np.arange(self._pairs.precise.shape[0]), n_threads)
        dual = np.zeros(len(problems.labels))
        if start is not None:
            dual = problems.feasible(problems.coefficients(start))
        evaluations = self._take_steps(numbers, problems.losses.conjugate.stack(), dual, tol, n_threads)
        found = certified(numbers, problems, precise, dual)
        return replace(found, evaluations=found.evaluations + evaluations)

    def _take_steps(self, numbers: Indices, conjugate: Floats, dual: Floats, tol: float, n_threads: int) -> int:
        """Take pair steps on the coefficients, in place, and return the number of kernel values computed."""
        indices, (first, second) = self._pairs.indices, self._pairs.pairs[numbers].T.tolist()
        view = self._pairs.kernel.take(np.arange(self._pairs.precise.shape[0]), n_threads)
        between = view.value_parts(Pieces.of([indices[c] for c in first]), Pieces.of([indices[c] for c in second]))
        # The goal of 0.9 tol leaves room for rounding in the certificate. After 20 steps per row,
        # Newton steps on blocks are faster.
        _core.solve_class_pairs(
            [self._within[c] for c in first], between, [self._within[c] for c in second], conjugate, dual,
            self._pairs.intercept, 0.9 * tol, 20, n_threads,
        )  # fmt: skip
        return view.evaluations


def can_be_stored(kernel: KernelMatrix, loss: Loss, tol: float) -> bool:
    """Return whether pairs of classes are best solved on stored single-precision values of this kernel."""
    return loss.selection == "greedy" and tol >= 1e-4 and not kernel.double


def _classes_of_small_pairs(classes: Sequence[slice]) -> list[int]:
    """Return the numbers of the classes that occur in small pairs, the largest first."""
    sizes = [rows.stop - rows.start for rows in classes]
    order = sorted(range(len(sizes)), key=lambda number: -sizes[number])
    smallest = order[-1]
    return [c for c in order if sizes[c] + sizes[smallest if c != smallest else order[-2]] <= PairSizes.max_stored_rows]
