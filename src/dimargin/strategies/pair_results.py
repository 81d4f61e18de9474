"""Machines of all pairs of classes: the best so far of every pair, and what they are in the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dimargin.problems.class_pairs import ClassPairs
from dimargin.problems.joined import JoinedProblems
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, Status
from dimargin.solvers.loop import OUT_OF_TIME, Verdict, converged
from dimargin.system.arrays import UNIT, Floats, Indices


@dataclass(frozen=True)
class FoundPairs:
    """Machines of some pairs, with their certificates."""

    numbers: Indices
    problems: JoinedProblems
    dual: Floats  # coefficients of all rows of the problems
    objectives: Objectives
    evaluations: int  # kernel values that this took
    passes: int = 1


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


class PairResults:
    """The best machines so far of all pairs of classes, which tasks may set side by side.

    Parameters
    ----------
    pairs : ClassPairs
    tol : float
        Relative gap within which a machine is as good as any.

    Attributes
    ----------
    signed : ndarray of shape (n_classes - 1, n)
        Coefficients times labels.
    objectives : Objectives
        Of shape (n_pairs,).
    is_found, is_rough : ndarray of shape (n_pairs,)
        Whether there is a machine of a pair, and whether it is only one of few rows.
    ends : dict
        Status and reason of those pairs whose solve has ended without the tolerance.
    evaluations : ndarray of shape (n_pairs,)
        Kernel values that the machines have taken.
    passes : int
        Over the rows of the pair that took most.
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
        """Return which of some pairs have been solved to the tolerance."""
        small = self.objectives.relative_gap[numbers] <= self._tol
        return np.asarray(small & ~self.is_rough[numbers] & (self._tol >= 2 * UNIT))

    def keep(self, found: FoundPairs, end: Verdict = None, goes_on: bool = False, is_rough: bool = False) -> None:
        """Keep machines of some pairs, unless those before have smaller gaps.

        Parameters
        ----------
        found : FoundPairs
        end : tuple, optional
            Status and reason with which their solves have ended, if it is not the tolerance.
        goes_on : bool
            Whether their solves went on from the machines before.
        is_rough : bool
            Whether they are machines of few rows, which any that is solved for replaces unless time cut it short.
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

    def outcome(self, otherwise: tuple[Status, str], seconds: float) -> PairsOutcome:
        """Return the machines of all pairs; `otherwise` is status and reason of those whose solve has not ended."""
        gaps = self.objectives.relative_gap
        missed = gaps > self._tol
        worst = int(np.lexsort((gaps, missed))[-1])
        status, reason = self.ends.get(worst, otherwise) if missed[worst] else converged(float(gaps[worst]), self._tol)
        of = f"{missed.sum()} of {len(gaps)} pairs of classes did not reach it; in the worst " if missed.any() else ""
        evaluations = int(self.evaluations.sum())
        return PairsOutcome(self.signed, self.objectives, status, f"{of}{reason}", self.passes, evaluations, seconds)
