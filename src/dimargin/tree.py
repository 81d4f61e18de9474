"""Levels of local solves, merged from the leaves to the root. Knows no loss, no kernel and no engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")


@dataclass(frozen=True)
class Node:
    """A part of the rows and what it stands for.

    Attributes
    ----------
    rows : ndarray
        Places in the whole problem.
    mass : float
        Weight of the rows that it represents.
    start : ndarray of shape (n_outputs, len(rows)) or None
        Warm start of its dual coefficients.
    """

    rows: NDArray[np.int64]
    mass: float
    start: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Level(Generic[Result]):
    """One level of the tree, solved."""

    level: int
    nodes: Sequence[Node]
    results: Sequence[Result]

    @property
    def solved(self) -> list[tuple[Node, Result]]:
        """Nodes with their results."""
        return list(zip(self.nodes, self.results, strict=True))


Merge = Callable[[Sequence[tuple[Node, Result]]], Node]


def climb(
    leaves: Sequence[Node],
    n_levels: int,
    branching: int,
    solve_level: Callable[[int, Sequence[Node]], Sequence[Result]],
    merge: Merge[Result],
) -> Iterator[Level[Result]]:
    """Solve levels ``n_levels, ..., 1, 0``, lazily: whoever consumes the iterator decides when to stop.

    Parameters
    ----------
    leaves : sequence of ``branching ** n_levels`` nodes
    n_levels, branching : int
    solve_level : callable
        Solves all nodes of a level, which are independent of each other.
    merge : callable
        Makes a node of `branching` solved ones.
    """
    nodes = list(leaves)
    for level in range(n_levels, -1, -1):
        solved = Level(level, nodes, solve_level(level, nodes))
        yield solved
        pairs = solved.solved if level else []
        nodes = [merge(pairs[i : i + branching]) for i in range(0, len(pairs), branching)]


def merged_rows(nodes: Sequence[Node]) -> NDArray[np.int64]:
    """Rows of several nodes, one node after the other."""
    return np.concatenate([node.rows for node in nodes])
