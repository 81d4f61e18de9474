"""Operations that algorithms can use on data in shards, whichever engine holds the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from dimargin.system.arrays import Floats

Item = TypeVar("Item", covariant=True)
Value = TypeVar("Value")
Sums = tuple[Floats, ...]
Task = Callable[[Any, Any], Any]  # function of a shard and a value
Split = Callable[[Any, Any], Sequence[tuple[int, Any]]]  # function of a shard and a value
Join = Callable[[Sequence[Any], Any], Any]  # function of pieces or shards, and a value
Done = Callable[[int], None] | None


class Shards(Protocol[Item]):
    """An immutable handle on shards of the data; operations return new handles.

    A task may run in another process: it must be a module-level function or a `functools.partial`
    of one, use nothing but its shard and the broadcast value, and be deterministic.
    """

    @property
    def n_shards(self) -> int:
        """Number of shards."""

    @property
    def n_threads(self) -> int:
        """Number of threads that a task may use while other tasks run in parallel."""

    @property
    def n_together(self) -> int:
        """Number of tasks that share the memory of a machine."""

    @property
    def are_remote(self) -> bool:
        """Return whether the shards are in other processes than the caller."""

    def map(self, task: Task, value: Any = None, done: Done = None, cheap: bool = False) -> Shards[Any]:
        """Return new shards, ``task(shard, value)`` of every shard.

        Engines that can do so call `done` with the index of each shard as soon as its task has
        ended. `cheap` means that running the task again costs less than keeping its result.
        """

    def zip(self, others: Shards[Any], task: Task, value: Any = None) -> Shards[Any]:
        """Return new shards, ``task((shard, other), value)`` of shards with the same index.

        The others may be sent to the shards, so they should be small. Engines need not move the
        shards if these are zipped before anything else is computed from them.

        Raises
        ------
        ValueError
            If the numbers of shards differ.
        """

    def merge(self, join: Join, size: int, value: Any = None) -> Shards[Any]:
        """Return new shards, ``join(shards, value)`` of every `size` consecutive shards."""

    def shuffle(self, split: Split, join: Join, n_shards: int, value: Any = None) -> Shards[Any]:
        """Return new shards, each joined from the pieces that all shards send to it.

        ``split(shard, value)`` returns pairs of the index of a new shard and a piece for it.
        ``join(pieces, value)`` joins a shard's pieces, in the order of the senders. No new shard
        may be without pieces.
        """

    def aggregate(self, task: Task, value: Any = None, wide: bool = False) -> Sums:
        """Sum the arrays ``task(shard, value)`` over the shards, in the order of `in_tree`.

        `wide` means that the arrays are large; an engine may then sum them before it collects them.
        """

    def fold(self, task: Callable[[Any, Value], Value], value: Value) -> Value:
        """Pass a value through the shards in order: ``value = task(shard, value)``."""

    def collect(self, task: Task | None = None, value: Any = None, n_shards: int | None = None) -> list[Any]:
        """Return the results of a task, or the shards, in order; all or the first `n_shards`."""

    def release(self) -> None:
        """Free the memory of this handle, once nothing that was made from it is needed."""


def check_as_many(shards: Shards[Any], others: Shards[Any]) -> None:
    """Raise ValueError unless both handles have the same number of shards."""
    if shards.n_shards != others.n_shards:
        raise ValueError(f"{shards.n_shards} shards cannot be zipped with {others.n_shards} others")


# ---- sums in an order that depends only on the number of shards ----------------------------------------------------


@dataclass(frozen=True)
class Node:
    """Node of the binary tree over all shards, with the sums over the consecutive shards below it."""

    level: int  # zero for a shard; a node has up to two children on the level below
    first: int  # index of the first shard
    sums: Any


def added(sums: Sums, others: Sums) -> Sums:
    """Add the arrays of one tuple to those of another."""
    return tuple(a + b for a, b in zip(sums, others, strict=True))


def in_tree(nodes: Iterable[Node], n_shards: int, add: Callable[[Any, Any], Any] = added) -> list[Node]:
    """Add up nodes, given in the order of their shards, to as few as possible.

    A node is always the sum of the same two children, so that the sum of all shards is bitwise the
    same however they are distributed.

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
    """Return the root, the sum over all shards."""
    (root,) = in_tree(nodes, n_shards, add)
    return root


def _parent(waiting: list[Node], node: Node, n_shards: int, add: Callable[[Any, Any], Any]) -> Node | None:
    """Return a node's parent, popping its left child from `waiting`, or None without the child."""
    width = 1 << node.level
    if node.first // width % 2 == 0:  # The node is a left child.
        alone = node.first + width >= n_shards and node.first > 0
        return Node(node.level + 1, node.first, node.sums) if alone else None
    if not waiting or waiting[-1].level != node.level:
        return None
    left = waiting.pop()
    return Node(node.level + 1, left.first, add(left.sums, node.sums))
