"""Machines of all pairs of classes: the best so far of every pair, and the final result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.joined import JoinedProblems
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import SolveResult, Status
from dimargin.solvers.loop import OUT_OF_TIME, Verdict, converged
from dimargin.strategies.strategy import level_entry
from dimargin.system.arrays import UNIT, Floats, Indices


@dataclass(frozen=True)
class FoundPairs:
    """Machines of some pairs, with their certificates."""

    numbers: Indices
    problems: JoinedProblems
    dual: Floats  # Coefficients of all rows of the problems.
    objectives: Objectives
    evaluations: int  # Number of kernel values computed.
    passes: int = 1


class PairResults:
    """Best machines so far of all pairs of classes; concurrent tasks may set those of different pairs.

    Parameters
    ----------
    pairs : ClassPairs
    tol : float
        Relative gap at which a pair is solved.

    Attributes
    ----------
    signed : ndarray of shape (n_classes - 1, n)
        Coefficients times labels.
    objectives : Objectives
        Objectives of the pairs, of shape (n_pairs,).
    is_found, is_rough : ndarray of shape (n_pairs,)
        Whether a pair has a machine, and whether that was trained on few rows only.
    ends : dict
        Status and reason of the pairs whose solve ended without meeting the tolerance.
    evaluations : ndarray of shape (n_pairs,)
        Number of kernel values computed for each pair.
    passes : int
        Largest number of passes of any pair.
    """

    def __init__(self, pairs: ClassPairs, tol: float) -> None:
        n = len(pairs.pairs)
        self.signed = np.zeros((len(pairs.classes) - 1, int(pairs.bounds[-1])))
        infinite, nothing = np.full(n, np.inf), np.zeros(n)
        self.objectives = Objectives(infinite, -infinite, infinite.copy(), nothing, nothing.copy())
        self.is_found, self.is_rough = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        self.evaluations = np.zeros(n, dtype=np.int64)
        self.ends: dict[int, tuple[Status, str]] = {}
        self.passes = 1
        self._tol = tol

    def met(self, numbers: Indices) -> NDArray[np.bool_]:
        """Return which of the given pairs have been solved to the tolerance."""
        small = self.objectives.relative_gap[numbers] <= self._tol
        return np.asarray(small & ~self.is_rough[numbers] & (self._tol >= 2 * UNIT))

    def keep(self, found: FoundPairs, end: Verdict = None, goes_on: bool = False, is_rough: bool = False) -> None:
        """Keep machines of some pairs, unless the earlier ones have smaller gaps.

        Parameters
        ----------
        found : FoundPairs
        end : tuple, optional
            Status and reason of solves that ended without meeting the tolerance.
        goes_on : bool
            Whether the solves resumed from the earlier machines.
        is_rough : bool
            Whether the machines were trained on few rows; any solve that was not cut short by time
            replaces them.
        """
        numbers, gaps = found.numbers, self.objectives.relative_gap
        better = ~self.is_found[numbers] | (found.objectives.relative_gap < gaps[numbers])
        if end != OUT_OF_TIME and not goes_on:
            better |= self.is_rough[numbers] | (end is None)
        self.objectives.set(numbers[better], found.objectives.take(better))
        problems, rows = found.problems, found.problems.each(better)
        self.signed[problems.slots[rows], problems.rows.index[rows]] = (problems.labels * found.dual + 0.0)[rows]
        self.is_found[numbers], self.is_rough[numbers[better]] = True, is_rough
        spent = np.full(len(numbers), found.evaluations // len(numbers))
        spent[0] += found.evaluations % len(numbers)
        self.evaluations[numbers] = spent + (self.evaluations[numbers] if goes_on else 0)
        self.passes = max(self.passes, found.passes)
        if end is None:
            for number in numbers.tolist() if self.ends else ():
                self.ends.pop(number, None)
        else:
            self.ends.update(dict.fromkeys(numbers[gaps[numbers] > self._tol].tolist(), end))

    def result(self, otherwise: tuple[Status, str], seconds: float, shared_evaluations: int) -> SolveResult:
        """Return the result of all pairs; its history has one entry, and its passes are the most of any pair.

        Parameters
        ----------
        otherwise : tuple
            Status and reason of unfinished pairs.
        seconds : float
        shared_evaluations : int
            Number of kernel values that were computed for several pairs together.
        """
        gaps = self.objectives.relative_gap
        missed = gaps > self._tol
        worst = int(np.lexsort((gaps, missed))[-1])
        status, reason = self.ends.get(worst, otherwise) if missed[worst] else converged(float(gaps[worst]), self._tol)
        if missed.any():
            reason = f"{missed.sum()} of {len(gaps)} pairs of classes missed the tolerance; the worst: {reason}"
        evaluations = int(self.evaluations.sum()) + shared_evaluations
        entry = level_entry(self.objectives, seconds, evaluations, partitions=len(gaps), passes=self.passes)
        return SolveResult(
            objectives=self.objectives,
            status=status,
            reason=reason,
            passes=self.passes,
            kernel_evaluations=evaluations,
            history=[entry],
        )
