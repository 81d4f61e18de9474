"""What an algorithm may ask of the engine that holds its data: the verbs, whoever carries them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item", covariant=True)
Result = TypeVar("Result")
Value = TypeVar("Value")
Sums = tuple[NDArray[np.float64], ...]


class Shards(Protocol[Item]):
    """An immutable handle on shards of the data, wherever they are; verbs that change them return a new one.

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
        self, task: Callable[[Any, Any], Any], value: Any = None, done: Callable[[int], None] | None = None
    ) -> Shards[Any]:
        """New shards: ``task(shard, value)`` of every one.

        `done` is told the place of every shard whose task has ended, by engines that know it while others run.
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
        """Sums over the shards, in an order that depends on their number only, of the arrays ``task(shard, value)``.

        `wide` says that the arrays are large, so that an engine may sum them on their way.
        """

    def fold(self, task: Callable[[Any, Value], Value], value: Value) -> Value:
        """Carry a value through the shards, in their order: ``value = task(shard, value)``."""

    def collect(self, task: Callable[[Any, Any], Any] | None = None, value: Any = None) -> list[Any]:
        """``task(shard, value)`` of every shard, in their order; the shards themselves without a task."""

    def release(self) -> None:
        """Give back the memory that the engine holds for this handle, once nothing that is made of it is needed."""
