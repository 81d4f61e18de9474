"""What an algorithm may ask of the engine that holds its data: the verbs, whoever carries them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Value = TypeVar("Value")
Sums = tuple[NDArray[np.float64], ...]


class Shards(Protocol[Item]):
    """An immutable handle on shards of the data, wherever they are; every verb that changes them returns a new one.

    A task gets its shard and the value that was broadcast, and never touches anything else.
    """

    def map(self, task: Callable[[Any, Any], Any], value: Any = None) -> Shards[Any]:
        """New shards: ``task(shard, value)`` of every one."""

    def aggregate(self, task: Callable[[Any, Any], Sums], value: Any = None) -> Sums:
        """Sums over the shards, in their order, of the arrays ``task(shard, value)``."""

    def fold(self, task: Callable[[Any, Value], Value], value: Value) -> Value:
        """Carry a value through the shards, in their order: ``value = task(shard, value)``."""

    def collect(self) -> list[Item]:
        """The shards themselves, in their order."""
