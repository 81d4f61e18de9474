"""Rows that are solved together: what trees climb with, on every engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dimargin.kernels import Floats, Indices, KernelMatrix
from dimargin.shards import Shards
from dimargin.solution import DualProblem

_ROWS_OF_SHARD, _MOST_SHARDS = 8192, 512


def n_shards_for(n_rows: int) -> int:
    """Shards that so many rows are stored in: whatever the number of threads or workers, for the same sums."""
    return min(_MOST_SHARDS, -(-n_rows // _ROWS_OF_SHARD))


@dataclass(frozen=True)
class Part:
    """Rows, and where their solve stands.

    Attributes
    ----------
    problem : DualProblem
        With a mass of its own. On a cluster its kernel owns its rows; in one process it is a view of all rows.
    places : ndarray of shape (n,)
        Of the rows, in the order of the keys of all rows.
    dual : ndarray of shape (n_outputs, n) or None
        Coefficients: a warm start, or a solution.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.kernels import Kernel, RowTransform
    >>> from dimargin.losses import HingeLoss
    >>> X, labels = np.array([[0.0], [1.0], [3.0]]), np.array([[1.0, -1.0, 1.0]])
    >>> K = KernelMatrix(RowTransform.fit(X, Kernel("linear")), X)
    >>> whole = Part(DualProblem(labels, np.ones(3), HingeLoss(1.0), 3.0, 3.0, kernel=K), np.arange(3))
    >>> halves = [whole.take(np.array([2]), mass=1.0), whole.take(np.array([0, 1]), mass=2.0)]
    >>> again = Part.joined(halves, mass=3.0)
    >>> again.places, again.problem.labels
    (array([2, 0, 1]), array([[ 1.,  1., -1.]]))
    """

    problem: DualProblem
    places: Indices
    dual: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Rows of this part."""
        return len(self.places)

    def take(self, index: Indices, mass: float) -> Part:
        """Some of the rows, as a part of this mass."""
        dual = None if self.dual is None else np.ascontiguousarray(self.dual[:, index])
        return Part(self.problem.restrict(index, mass), self.places[index], dual)

    @staticmethod
    def joined(parts: Sequence[Part], mass: float) -> Part:
        """The rows of several, one part after the other, as a part of this mass; with coefficients if all have them."""
        problem = replace(
            parts[0].problem,
            kernel=KernelMatrix.joined([part.problem.kernel for part in parts]),
            labels=np.concatenate([part.problem.labels for part in parts], axis=1),
            weights=np.concatenate([part.problem.weights for part in parts]),
            mass=mass,
        )
        known = [part.dual for part in parts if part.dual is not None]
        dual = np.concatenate(known, axis=1) if len(known) == len(parts) else None
        return Part(problem, np.concatenate([part.places for part in parts]), dual)

    @classmethod
    def split(cls, problem: DualProblem, n_parts: int, dual: Floats | None = None) -> list[Part]:
        """Rows of a problem, in the order of their keys, as parts of the same mass that follow one another."""
        whole = cls(problem, np.arange(problem.n_rows), dual)
        return [whole.take(rows, problem.mass) for rows in np.array_split(whole.places, n_parts)]

    def first(self, n_rows: int) -> Part:
        """The rows whose places are below a number."""
        return self.take(np.flatnonzero(self.places < n_rows), self.problem.mass)


def first_rows(rows: Shards[Part], n_rows: int) -> Part:
    """The first rows in the order of their keys, which are a random sample: on the caller's machine.

    Parameters
    ----------
    rows : Shards of Part
        All rows.
    n_rows : int
    """
    parts = [part for part in rows.collect(Part.first, n_rows) if part.n_rows]
    sample = Part.joined(parts, parts[0].problem.mass)
    return sample.take(np.argsort(sample.places), sample.problem.mass)
