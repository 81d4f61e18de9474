"""What an algorithm may ask of the engine that holds its data: the operations, whoever carries them out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item", covariant=True)
Result = TypeVar("Result")
Value = TypeVar("Value")
Sums = tuple[NDArray[np.float64], ...]


class Shards(Protocol[Item]):
    """An immutable handle on shards of the data, wherever they are; operations that change them return a new one.

    A task is a function of a module, or a `functools.partial` of one: it may run in another process. It gets its shard
    and the value that was broadcast, never touches anything else, and gives the same result when it is run again.
    """

    @property
    def n_shards(self) -> int:
        """How many there are."""

    @property
    def n_threads(self) -> int:
        """Threads that a task may use, beside the others."""

    @property
    def n_together(self) -> int:
        """Tasks that share the memory of a machine."""

    def map(
        self,
        task: Callable[[Any, Any], Any],
        value: Any = None,
        done: Callable[[int], None] | None = None,
        cheap: bool = False,
    ) -> Shards[Any]:
        """New shards: ``task(shard, value)`` of every one.

        `done` is told the index of every shard whose task has ended, by engines that know it while others run. `cheap`
        says that to run the task again costs less than to keep what it gives, so that an engine may do that.
        """

    def merge(self, join: Callable[[Sequence[Any], Any], Any], size: int, value: Any = None) -> Shards[Any]:
        """New shards: ``join(shards, value)`` of every `size` that follow one another."""

    def shuffle(
        self,
        split: Callable[[Any, Any], Sequence[tuple[int, Any]]],
        join: Callable[[Sequence[Any], Any], Any],
        n_shards: int,
        value: Any = None,
    ) -> Shards[Any]:
        """New shards, of what all shards send them.

        ``split(shard, value)`` gives pairs of a place among the new shards and what is sent there; ``join(pieces,
        value)`` makes a shard of what came, in the order of the senders. Every new shard must be sent something.
        """

    def aggregate(self, task: Callable[[Any, Any], Sums], value: Any = None, wide: bool = False) -> Sums:
        """Sums over the shards, in the order of `in_tree`, of the arrays ``task(shard, value)``.

        `wide` says that the arrays are large, so that an engine may sum them on their way.
        """

    def fold(self, task: Callable[[Any, Value], Value], value: Value) -> Value:
        """Carry a value through the shards, in their order: ``value = task(shard, value)``."""

    def collect(
        self, task: Callable[[Any, Any], Any] | None = None, value: Any = None, n_shards: int | None = None
    ) -> list[Any]:
        """``task(shard, value)`` of every shard, or of the first `n_shards`, in order; the shards without a task."""

    def release(self) -> None:
        """Give back the memory that the engine holds for this handle, once nothing that is made of it is needed."""


# ---- sums, in an order that depends on the number of shards only ---------------------------------------------------


@dataclass(frozen=True)
class Node:
    """Sums over shards that follow one another: a node of the binary tree over all indices.

    Attributes
    ----------
    level : int
        0 is a shard; a node has two of the level below, as far as there are shards.
    first : int
        Index of the first shard.
    sums : tuple of ndarray
    """

    level: int
    first: int
    sums: Any


def added(sums: Sums, others: Sums) -> Sums:
    """Sums of the arrays."""
    return tuple(a + b for a, b in zip(sums, others, strict=True))


def in_tree(nodes: Iterable[Node], n_shards: int, add: Callable[[Any, Any], Any] = added) -> list[Node]:
    """The same sums in as few nodes as there are, of nodes in the order of their shards.

    Whatever comes together first, a node is always the sum of the same two: so the sum of all is the same to the bit,
    however shards are spread.

    Examples
    --------
    >>> [(node.level, node.first, node.sums) for node in in_tree((Node(0, k, (10**k,)) for k in range(1, 6)), 8)]
    [(0, 1, (10,)), (1, 2, (1100,)), (1, 4, (110000,))]
    """
    waiting: list[Node] = []
    for node in nodes:
        while (parent := _parent(waiting, node, n_shards, add)) is not None:
            node = parent
        waiting.append(node)
    return waiting


def tree_sum(nodes: Iterable[Node], n_shards: int, add: Callable[[Any, Any], Any] = added) -> Node:
    """The node of all shards."""
    (root,) = in_tree(nodes, n_shards, add)
    return root


def _parent(waiting: list[Node], node: Node, n_shards: int, add: Callable[[Any, Any], Any]) -> Node | None:
    """The node above, where all of it is there."""
    width = 1 << node.level
    if node.first // width % 2 == 0:  # the left one of two
        alone = node.first + width >= n_shards and node.first > 0
        return Node(node.level + 1, node.first, node.sums) if alone else None
    if not waiting or waiting[-1].level != node.level:
        return None
    left = waiting.pop()
    return Node(node.level + 1, left.first, add(left.sums, node.sums))
