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
from dimargin.problems.one_vs_one import coefficients_of, pairs_of, set_coefficients
from dimargin.system.arrays import Floats, Indices


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
    def indices(self) -> list[Indices]:
        """Indices of the rows of every class."""
        return np.split(np.arange(self.bounds[-1]), self.bounds[1:-1])

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Indices of the two classes of every pair."""
        return pairs_of(len(self.classes))

    def rows(self, pair: tuple[int, int]) -> tuple[slice, slice]:
        """Return where the rows of the two classes are."""
        return self.classes[pair[0]], self.classes[pair[1]]

    @cached_property
    def sizes(self) -> Indices:
        """Numbers of rows of the two classes of every pair, of shape (n_pairs, 2)."""
        return np.asarray(np.diff(self.bounds)[np.array(self.pairs)])

    @cached_property
    def n_rows(self) -> list[int]:
        """Numbers of rows of every pair."""
        return [int(size) for size in self.sizes.sum(axis=1)]

    def labels(self, pair: tuple[int, int]) -> Floats:
        """Return the labels of the rows of a pair, whose second class is the positive one."""
        return np.repeat([-1.0, 1.0], [rows.stop - rows.start for rows in self.rows(pair)])

    def problem(self, pair: tuple[int, int], n_threads: int) -> DualProblem:
        """Return the problem of a pair."""
        index = np.concatenate([self.indices[c] for c in pair])
        weights = self.weights[index]
        mass, kernel = float(weights.sum()), self.kernel.take(index, n_threads)
        return DualProblem(self.labels(pair)[None], weights, self.loss, mass, mass, self.intercept, kernel=kernel)

    def joined(self, numbers: Sequence[int]) -> JoinedProblems:
        """Return the problems of the pairs of these numbers, one after the other."""
        index, sizes = [self.indices[c] for number in numbers for c in self.pairs[number]], self.sizes[numbers]
        rows = Pieces(np.concatenate(index), np.cumsum([0, *sizes.sum(axis=1).tolist()]))
        labels, weights = np.repeat([-1.0, 1.0] * len(sizes), sizes.ravel()), self.weights[rows.index]
        mass = float(weights.sum())
        return JoinedProblems(MarginLosses(labels[None], weights, self.loss, mass, mass, self.intercept), rows)

    def start(self, pair: tuple[int, int], signed: Floats) -> Floats:
        """Return the coefficients of a pair's problem, from those of all rows times labels."""
        return (self.labels(pair) * coefficients_of(signed, pair, self.rows(pair)))[None] + 0.0  # no negative zero

    def signed(self, duals: Sequence[Floats]) -> Floats:
        """Return the coefficients of all rows times labels, from those of every pair's problem.

        They are of shape (n_classes - 1, n), in the layout of `dimargin.problems.one_vs_one`.
        """
        signed = np.zeros((len(self.classes) - 1, int(self.bounds[-1])))
        for pair, dual in zip(self.pairs, duals, strict=True):
            set_coefficients(signed, pair, self.rows(pair), dual[0])
        for number, rows in enumerate(self.classes):  # against the classes behind it a class is the first
            signed[number:, rows] *= -1.0
        return signed + 0.0  # no negative zero
