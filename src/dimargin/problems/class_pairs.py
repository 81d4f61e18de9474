"""The binary problems of all pairs of classes, over rows in the order of their classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.pieces import Pieces
from dimargin.problems.dual import DualProblem
from dimargin.problems.joined import JoinedProblems
from dimargin.problems.losses import Loss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.one_vs_one import pairs_of, slots_of
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class ClassPairs:
    """Problems of all pairs of classes, over rows in the order of their classes.

    The mass and the total of a problem are those of its own rows. Coefficients of all pairs, times
    labels, have shape (n_classes - 1, n) and the layout of `dimargin.problems.one_vs_one`.
    """

    weights: Floats  # weights of all rows
    bounds: Indices  # first row of each class and end of the last one, of shape (n_classes + 1,)
    loss: Loss
    intercept: bool
    kernel: KernelMatrix

    @cached_property
    def precise(self) -> KernelMatrix:
        """The kernel matrix in float64."""
        return self.kernel.in_float64()

    @cached_property
    def classes(self) -> list[slice]:
        """Slices of the rows of each class."""
        return [slice(*ends) for ends in pairwise(self.bounds.tolist())]

    @cached_property
    def indices(self) -> list[Indices]:
        """Indices of the rows of each class."""
        return np.split(np.arange(self.bounds[-1]), self.bounds[1:-1])

    @cached_property
    def pairs(self) -> Indices:
        """Indices of the two classes of every pair, of shape (n_pairs, 2)."""
        return pairs_of(len(self.classes))

    def rows(self, pair: Sequence[int] | Indices) -> tuple[slice, slice]:
        """Return the slices of the rows of the two classes."""
        return self.classes[pair[0]], self.classes[pair[1]]

    @cached_property
    def n_rows(self) -> Indices:
        """Numbers of rows of every pair."""
        return np.asarray(np.diff(self.bounds)[self.pairs].sum(axis=1))

    def labels(self, pair: Sequence[int] | Indices) -> Floats:
        """Return the labels of the rows of a pair, whose second class is the positive one."""
        return np.repeat([-1.0, 1.0], [rows.stop - rows.start for rows in self.rows(pair)])

    def problem(self, pair: Sequence[int] | Indices, n_threads: int) -> DualProblem:
        """Return the problem of a pair."""
        index = np.concatenate([self.indices[c] for c in pair])
        weights = self.weights[index]
        mass, kernel = float(weights.sum()), self.kernel.take(index, n_threads)
        return DualProblem(self.labels(pair)[None], weights, self.loss, mass, mass, self.intercept, kernel=kernel)

    def groups(self, numbers: Indices, n_values: int, n_rows: int) -> list[Indices]:
        """Group pairs: several together have at most `n_values` kernel values and `n_rows` rows."""
        own = self.n_rows[numbers]
        limits = (np.cumsum(own.astype(float) ** 2), n_values), (np.cumsum(own), n_rows)
        groups, first = [], 0
        while first < len(own):
            before = [sums[first - 1] if first else 0 for sums, _ in limits]
            ends = [np.searchsorted(sums, b + limit, "right") for (sums, limit), b in zip(limits, before, strict=True)]
            end = max(first + 1, int(min(ends)))
            groups.append(numbers[first:end])
            first = end
        return groups

    def joined(self, numbers: Sequence[int] | Indices, few: int | None = None) -> JoinedProblems:
        """Return the problems of the pairs of these numbers, concatenated.

        With `few` they are restricted to so many rows of each class; other coefficients are zero.
        """
        pairs = self.pairs[numbers]
        sizes = np.diff(self.bounds)[pairs]
        sizes = (sizes if few is None else np.minimum(sizes, few)).ravel()
        ends = np.cumsum(sizes)
        index = np.arange(ends[-1]) + np.repeat(self.bounds[pairs.ravel()] - (ends - sizes), sizes)
        labels, weights = np.repeat(np.tile([-1.0, 1.0], len(pairs)), sizes), self.weights[index]
        if self.loss.is_shared:
            weights = weights / np.repeat(self._masses[pairs].sum(axis=1), sizes.reshape(-1, 2).sum(axis=1))
        losses = MarginLosses(labels[None], weights, self.loss, 1.0, 1.0, self.intercept)
        rows = Pieces(index, np.concatenate([[0], ends[1::2]]))
        return JoinedProblems(losses, rows, np.repeat(slots_of(pairs).ravel(), sizes))

    @cached_property
    def _masses(self) -> Floats:
        """Sums of the weights of each class."""
        return np.add.reduceat(self.weights, self.bounds[:-1])
