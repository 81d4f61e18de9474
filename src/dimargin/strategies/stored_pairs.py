"""Small pairs of classes, solved on stored kernel values: in one call, where blocks would take more time to choose.

The kernel values of a class with itself are computed once for all its pairs, and those between two classes once: half
of all values, where every pair for itself would compute two times all of them. The compiled core takes pair steps in
single precision until the gap is within the tolerance. The certificate is that of float64 kernel values, with a bound
of their rounding; where it misses the tolerance, block coordinate descent goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from threading import local

import numpy as np
from numpy.typing import NDArray

from dimargin import _core
from dimargin.engines import LocalEngine
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import Loss
from dimargin.problems.solution import Solution
from dimargin.solvers.loop import converged
from dimargin.system.arrays import Floats

MOST_ROWS = 4096  # of a pair, whose kernel values take 64 MiB
_LEAST_TOL = 1e-4  # that single precision can reach
_AIM = 0.9  # of the tolerance, so that the certificate meets it too
_WORTH_THREADS = 2e7  # kernel values of all pairs, below which threads mostly wait for the interpreter
_STEPS_A_ROW = 20  # of two coefficients; beyond, Newton steps on blocks are faster


class StoredPairs:
    """Solver of pairs of classes on stored kernel values, which tasks share.

    Parameters
    ----------
    kernel : KernelMatrix
        Of all rows, in the order of their classes.
    classes : sequence of slice
        Where the rows of each class are.
    engine : LocalEngine

    Attributes
    ----------
    engine : LocalEngine
    evaluations : int
        Kernel values of classes with themselves that were computed.
    """

    def __init__(self, kernel: KernelMatrix, classes: Sequence[slice], engine: LocalEngine) -> None:
        self.engine, self._kernel, self._classes = engine, kernel, classes
        self._precise = kernel.in_float64()
        self._own = local()  # scratch memory of each thread
        small = _classes_of_small_pairs(classes)
        found = engine.map(self._values_within, small)
        self._within = dict(zip(small, found, strict=True))
        self.evaluations = sum(values.size for values in found)

    @classmethod
    def within(
        cls, memory: int, kernel: KernelMatrix, classes: Sequence[slice], engine: LocalEngine
    ) -> StoredPairs | None:
        """Return the solver, or None if no pair is small or these bytes, beside a copy of the rows, are not enough.

        The number of threads has no part in that: results shall not depend on it. Its engine has as many of them as
        there is memory for.
        """
        sizes = [rows.stop - rows.start for rows in classes]
        small = [sizes[a] + sizes[b] for a, b in combinations(range(len(sizes)), 2) if sizes[a] + sizes[b] <= MOST_ROWS]
        if not small:
            return None
        left = memory - 4 * sum(sizes[number] ** 2 for number in _classes_of_small_pairs(classes))
        each = 4 * int(_core.class_pair_scratch(max(small))) + max(small) ** 2  # of a thread, values between included
        if left < each:
            return None
        n_threads = min(engine.n_threads, left // each) if sum(n**2 for n in small) >= _WORTH_THREADS else 1
        return cls(kernel, classes, LocalEngine(n_threads, engine.cancelled))

    def _values_within(self, number: int, n_threads: int) -> NDArray[np.float32]:
        rows = self._classes[number]
        own = self._kernel.take(np.arange(rows.start, rows.stop), n_threads)
        every = np.arange(own.shape[0])
        return own.values(every, every)

    def solve(self, pair: tuple[int, int], problem: DualProblem, start: Floats | None, tol: float) -> Solution:
        """Solve the problem of a small pair, from coefficients of shape (1, n) or from zero, on one thread.

        The tolerance may be missed; the status is "max_iter" then.
        """
        rows, view = [self._classes[number] for number in pair], problem.kernel  # which counts the values
        index = np.concatenate([np.arange(own.start, own.stop) for own in rows])
        precise = DualProblem.of(problem, self._precise.take(index, 1))
        within = [self._within[number] for number in pair]
        between = view.values(np.arange(len(within[0])), np.arange(len(within[0]), problem.n_rows))
        dual = np.zeros(problem.n_rows) if start is None else precise.feasible(start)[0]
        _core.solve_class_pair(
            within[0], between, within[1], precise.conjugate.stack(), dual, self._scratch(len(dual)),
            problem.intercept, _AIM * tol, _STEPS_A_ROW * len(dual),
        )  # fmt: skip
        feasible = precise.feasible(dual[None] if np.isfinite(dual).all() else np.zeros((1, len(dual))))
        margins = precise.margins(feasible)
        objectives = precise.objectives(feasible, margins)
        gap = objectives.worst_gap
        status, reason = converged(gap, tol) if gap <= tol else ("max_iter", "pair steps did not suffice")
        evaluations = view.evaluations + precise.kernel.evaluations
        return Solution(feasible, margins, objectives, status, reason, 1, evaluations)

    def _scratch(self, n_rows: int) -> NDArray[np.float32]:
        """Return memory for a pair of so many rows; that of this thread, if it is large enough."""
        needed = _core.class_pair_scratch(n_rows)
        scratch: NDArray[np.float32] | None = getattr(self._own, "scratch", None)
        if scratch is None or len(scratch) < needed:
            scratch = self._own.scratch = np.empty(needed, dtype=np.float32)
        return scratch


def can_be_stored(kernel: KernelMatrix, loss: Loss, tol: float) -> bool:
    """Return whether pairs of classes are best solved on stored values of this kernel."""
    return loss.selection == "greedy" and tol >= _LEAST_TOL and not kernel.double


def _classes_of_small_pairs(classes: Sequence[slice]) -> list[int]:
    """Return the numbers of the classes of pairs of at most `MOST_ROWS` rows, the largest first."""
    sizes = [rows.stop - rows.start for rows in classes]
    order = sorted(range(len(sizes)), key=lambda number: -sizes[number])
    smallest = order[-1]
    return [c for c in order if sizes[c] + sizes[smallest if c != smallest else order[-2]] <= MOST_ROWS]
