"""Successive halving: all candidates on few rows, the best of them on more (Jamieson and Talwalkar, AISTATS 2016).

The module is independent of the machines; the caller computes the scores of candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class Rung:
    """Numbers of candidates, training rows per fold, and folds (the first ones) in a round."""

    number: int
    n_candidates: int
    n_rows: int
    n_folds: int


def plan(n_candidates: int, n_rows: int, n_folds: int, factor: float, min_rows: int, finalists: int) -> list[Rung]:
    """Plan rounds with `factor` times fewer candidates and more rows each, up to the finalists on all rows.

    A round has at least `min_rows` rows, and rounds that would have the same rows are merged into
    one. The number of folds grows from at least one like the number of rows, because small samples
    bias all folds in the same way.

    Examples
    --------
    >>> [(rung.n_candidates, rung.n_rows, rung.n_folds) for rung in plan(45, 18_000, 3, 3, 1000, 2)]
    [(45, 1000, 1), (15, 2000, 1), (5, 6000, 1), (2, 18000, 3)]
    >>> [(rung.n_candidates, rung.n_rows, rung.n_folds) for rung in plan(45, 6000, 3, 3, 1000, 2)]
    [(45, 1000, 1), (5, 2000, 1), (2, 6000, 3)]
    """
    rounds, left = [(n_candidates, n_rows, n_folds)], n_candidates
    while left > finalists:
        left = max(finalists, min(left - 1, round(left / factor)))
        rounds = [(k, max(min_rows, round(rows / factor)), math.ceil(folds / factor)) for k, rows, folds in rounds]
        rounds.append((left, n_rows, n_folds))
    merged: list[Rung] = []
    for count, rows, folds in rounds:
        if merged and min(rows, n_rows) <= merged[-1].n_rows:
            merged[-1] = replace(merged[-1], n_folds=folds)
        else:
            merged.append(Rung(len(merged), count, min(rows, n_rows), folds))
    return merged


@dataclass(frozen=True)
class Round:
    """Candidates and their scores of shape (n_candidates, n_folds), NaN if time ran out."""

    rung: Rung
    candidates: Indices
    scores: Floats

    @property
    def means(self) -> Floats:
        """Mean scores over the scored folds, or minus infinity for candidates without scores."""
        counted = ~np.isnan(self.scores)
        with np.errstate(invalid="ignore"):
            means = np.where(counted, self.scores, 0.0).sum(axis=1) / counted.sum(axis=1)
        return np.where(counted.any(axis=1), means, -np.inf)

    @property
    def ranked(self) -> Indices:
        """Candidates by descending score; ties are in the order of the grid."""
        return self.candidates[np.lexsort((self.candidates, -self.means))]

    @property
    def complete(self) -> bool:
        """Return whether every candidate has all scores."""
        return not bool(np.isnan(self.scores).any())


def successive_halving(rungs: list[Rung], evaluate: Callable[[Rung, Indices], Floats]) -> list[Round]:
    """Run the rounds of successive halving; the last one is incomplete if time ran out.

    The function `evaluate` returns the scores of candidates on a rung, of shape (n_candidates,
    n_folds).

    Examples
    --------
    >>> rungs = plan(9, 90, 1, 3, 30, 3)
    >>> rounds = successive_halving(rungs, lambda rung, candidates: candidates[:, None] % 5.0)
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
