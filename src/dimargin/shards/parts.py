"""Parts of a problem: rows that are solved together and merged in trees, on any engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.problems.dual import DualProblem
from dimargin.problems.margin_losses import MarginLosses
from dimargin.shards.keys import row_keys
from dimargin.shards.shards import Shards
from dimargin.system.arrays import Floats, Indices

_ROWS_OF_SHARD = 8192  # The rows of a shard, unless 512 shards would not suffice.

Groups = Callable[[Any], tuple["Part", Indices]]


def n_shards_for(n_rows: int) -> int:
    """Return the number of shards for `n_rows`; it depends on nothing else, so sums never vary."""
    return min(512, -(-n_rows // _ROWS_OF_SHARD))


@dataclass(frozen=True)
class Part:
    """Rows that are solved together, with their local problem and their current coefficients.

    The local problem has its own mass. On a cluster its kernel owns its rows; in one process the
    kernel is a view of all rows.

    Examples
    --------
    >>> from dimargin.kernels.functions import Kernel
    >>> from dimargin.problems.losses import HingeLoss
    >>> X, labels = np.array([[0.0], [1.0], [3.0]]), np.array([[1.0, -1.0, 1.0]])
    >>> K = KernelMatrix.of(X, Kernel("linear"))
    >>> whole = Part(DualProblem(labels, np.ones(3), HingeLoss(1.0), 3.0, 3.0, kernel=K), np.arange(3))
    >>> halves = [whole.take(np.array([2]), mass=1.0), whole.take(np.array([0, 1]), mass=2.0)]
    >>> again = Part.joined(halves, mass=3.0)
    >>> again.indices, again.problem.labels
    (array([2, 0, 1]), array([[ 1.,  1., -1.]]))
    """

    problem: DualProblem
    indices: Indices  # places of the rows in the order of all rows' keys, of shape (n,)
    dual: Floats | None = None  # coefficients of shape (n_outputs, n): a warm start, or a solution

    @property
    def n_rows(self) -> int:
        """Number of rows of this part."""
        return len(self.indices)

    @property
    def first_index(self) -> int:
        """Smallest index of a row, which identifies a part among others without common rows."""
        return int(self.indices.min())

    @property
    def coefficients(self) -> Floats:
        """Coefficients of all rows, zero if none are known yet."""
        return np.zeros(self.problem.labels.shape) if self.dual is None else self.dual

    @property
    def support(self) -> Indices:
        """Positions, in this part, of the rows with a nonzero coefficient."""
        return np.flatnonzero(self.coefficients.any(axis=0))

    def with_threads(self, n_threads: int) -> Part:
        """Return the same part, with its own number of threads and count of kernel values."""
        every = np.arange(self.n_rows)
        return replace(self, problem=DualProblem.of(self.problem, self.problem.kernel.take(every, n_threads)))

    def in_order(self) -> Part:
        """Return the same part with its rows in the order of their keys."""
        order = np.argsort(self.indices)
        return self if (np.diff(order) == 1).all() else self.take(order, self.problem.mass)

    def take(self, index: Indices, mass: float) -> Part:
        """Return some of the rows, as a part of this mass."""
        dual = None if self.dual is None else np.ascontiguousarray(self.dual[:, index])
        return Part(self.problem.restrict(index, mass), self.indices[index], dual)

    @staticmethod
    def joined(parts: Sequence[Part], mass: float) -> Part:
        """Join several parts into one of this mass, with coefficients if all parts have them."""
        problems = [part.problem for part in parts]
        kernel = KernelMatrix.joined([problem.kernel for problem in problems])
        problem = replace(DualProblem.of(MarginLosses.joined(problems), kernel), mass=mass)
        known = [part.dual for part in parts if part.dual is not None]
        dual = np.concatenate(known, axis=1) if len(known) == len(parts) else None
        return Part(problem, np.concatenate([part.indices for part in parts]), dual)

    @classmethod
    def split(cls, problem: DualProblem, n_parts: int, dual: Floats | None = None) -> list[Part]:
        """Split a problem, with rows in the order of keys, into consecutive parts of its mass."""
        whole = cls(problem, np.arange(problem.n_rows), dual)
        return [whole.take(rows, problem.mass) for rows in np.array_split(whole.indices, n_parts)]

    def first(self, n_rows: int) -> Part:
        """Return the rows whose indices are below `n_rows`."""
        return self.take(np.flatnonzero(self.indices < n_rows), self.problem.mass)


def whole_of(parts: Sequence[Part], _: Any = None) -> Part:
    """Join all parts into one of the total mass, with rows in the order of their keys."""
    return Part.joined(parts, parts[0].problem.total).in_order()


def first_rows(rows: Shards[Part], n_wanted: int, n_rows: int) -> Part:
    """Collect the first rows in the order of their keys, a random sample, on the caller's machine.

    All rows, `n_rows` of them, must be in that order.
    """
    n_shards = -(-2 * n_wanted * rows.n_shards // n_rows)  # Twice the average mostly suffices.
    while True:
        parts = [part for part in rows.collect(Part.first, n_wanted, n_shards) if part.n_rows]
        if sum(part.n_rows for part in parts) >= n_wanted or n_shards >= rows.n_shards:
            return whole_of(parts)
        n_shards = rows.n_shards


def first_distinct_rows(rows: Shards[Part], n_wanted: int, n_rows: int) -> Part:
    """Collect the first rows with distinct features, in the order of their keys.

    Equal rows have equal keys and are consecutive, so that the first rows may have few distinct
    ones: the first 300 of skin_nonskin have 50. If most rows are equal, up to sixteen times as many
    are inspected, and fewer returned.
    """
    n_asked = n_wanted
    while True:
        found = first_rows(rows, n_asked, n_rows)
        distinct = found.take(_distinct(found)[:n_wanted], found.problem.mass)
        if distinct.n_rows == n_wanted or n_asked >= min(n_rows, 16 * n_wanted):
            return distinct
        n_asked = min(n_rows, 2 * n_asked)


def _distinct(part: Part) -> Indices:
    """Return the position of the first row of each set of equal features."""
    kernel, every = part.problem.kernel, np.arange(part.n_rows)
    if not isinstance(kernel.transform, RowTransform):  # User-defined kernels may lack features.
        return every
    keys = row_keys(kernel.rows(every), np.zeros_like(every), np.ones(part.n_rows), 0)
    return np.sort(np.unique(keys, return_index=True)[1])


def first_of_groups(
    items: Shards[Any], groups: Groups, wanted: Sequence[int], sizes: Sequence[int], n_rows: int
) -> list[Part]:
    """Collect the first rows of each group, in the order of their keys, on the caller's machine.

    Since that order is random, the first m rows of a group that is a tenth of all rows are nearly
    always among the first 20 m + 320. If they are not, all rows are searched.

    Parameters
    ----------
    items : Shards
    groups : callable
        Returns the part of an item, and the group number of each row, -1 for none.
    wanted, sizes : sequences of n_groups int
        Number of rows to collect from each group, and size of the group; at least one each.
    n_rows : int
        Number of all rows.
    """
    counts = np.minimum(wanted, sizes)
    below = np.ceil((2 * counts + 32) * (n_rows / np.asarray(sizes))).astype(np.int64)
    part, numbers = _groups_below(items, groups, below)
    if (np.bincount(numbers, minlength=len(counts)) < counts).any():
        part, numbers = _groups_below(items, groups, np.full(len(counts), n_rows))
    order = np.argsort(part.indices)
    inside = [order[numbers[order] == group][:count] for group, count in enumerate(counts)]
    return [part.take(rows, part.problem.mass) for rows in inside]


def _groups_below(items: Shards[Any], groups: Groups, below: Indices) -> tuple[Part, Indices]:
    answers = items.collect(partial(_rows_below, groups), below)
    parts = [part for part, _ in answers]
    return Part.joined(parts, parts[0].problem.mass), np.concatenate([numbers for _, numbers in answers])


def _rows_below(groups: Groups, item: Any, below: Indices) -> tuple[Part, Indices]:
    part, numbers = groups(item)
    rows = np.flatnonzero((numbers >= 0) & (part.indices < below[numbers]))
    return part.take(rows, part.problem.mass), numbers[rows]
