"""Successive halving: all candidates on few rows, the best of them on more (Jamieson and Talwalkar, AISTATS 2016).

It knows no machine: what a candidate's scores are is asked of the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dimargin.kernels import Floats, Indices


@dataclass(frozen=True)
class Rung:
    """How much the candidates of a round are given: `n_rows` training rows of a fold."""

    number: int
    n_candidates: int
    n_rows: int


def plan(n_candidates: int, n_rows: int, factor: float, least: int) -> list[Rung]:
    """Rounds of so many times fewer candidates, two at least, on so many times more rows, from `least` to `n_rows`.

    Examples
    --------
    >>> [(rung.n_candidates, rung.n_rows) for rung in plan(45, 9000, 3, 1000)]
    [(45, 1000), (15, 3000), (5, 9000)]
    >>> [(rung.n_candidates, rung.n_rows) for rung in plan(45, 700, 3, 1000)]
    [(45, 700)]
    """
    rows = [min(least, n_rows)]
    while rows[-1] < n_rows and n_candidates > 1:
        rows.append(min(n_rows, max(rows[-1] + 1, round(rows[-1] * factor))))
    counts = [min(n_candidates, max(2, round(n_candidates / factor**number))) for number in range(len(rows))]
    return [Rung(number, *given) for number, given in enumerate(zip(counts, rows, strict=True))]


@dataclass(frozen=True)
class Round:
    """A rung and what was found there.

    Attributes
    ----------
    rung : Rung
    candidates : ndarray of shape (n_candidates,)
    scores : ndarray of shape (n_candidates, n_folds)
        NaN where time ran out.
    """

    rung: Rung
    candidates: Indices
    scores: Floats

    @property
    def means(self) -> Floats:
        """Mean over the folds that are there, minus infinity for candidates that have none."""
        counted = ~np.isnan(self.scores)
        with np.errstate(invalid="ignore"):
            means = np.where(counted, self.scores, 0.0).sum(axis=1) / counted.sum(axis=1)
        return np.where(counted.any(axis=1), means, -np.inf)

    @property
    def ranked(self) -> Indices:
        """Candidates, the best first; of equals the first of the grid."""
        return self.candidates[np.lexsort((self.candidates, -self.means))]

    @property
    def complete(self) -> bool:
        """Whether every candidate has every score."""
        return not bool(np.isnan(self.scores).any())


def successive_halving(rungs: list[Rung], evaluate: Callable[[Rung, Indices], NDArray[np.float64]]) -> list[Round]:
    """Rounds, the last of them incomplete if time ran out in it.

    Parameters
    ----------
    rungs : list of Rung
    evaluate : callable
        Scores of candidates on a rung, of shape (n_candidates, n_folds).

    Examples
    --------
    >>> rounds = successive_halving(plan(9, 90, 3, 30), lambda rung, some: some[:, None] % 5 + np.zeros((1, 2)))
    >>> [found.ranked.tolist() for found in rounds]
    [[4, 3, 8, 2, 7, 1, 6, 0, 5], [4, 3, 8]]
    """
    rounds: list[Round] = []
    for rung in rungs:
        candidates = rounds[-1].ranked[: rung.n_candidates] if rounds else np.arange(rung.n_candidates)
        candidates = np.sort(candidates)
        rounds.append(Round(rung, candidates, evaluate(rung, candidates)))
        if not rounds[-1].complete:
            break
    return rounds
