"""Levels of local solves, merged from the leaves to the root, for any loss, kernel and engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dimargin.shards.shards import Shards

Result = TypeVar("Result")


@dataclass(frozen=True)
class Level(Generic[Result]):
    """One solved level of the tree."""

    level: int
    results: Sequence[Result]  # one result per part, on the caller's machine
    parts: Shards[Any]  # parts with their solutions


def climb(
    leaves: Shards[Any],
    n_levels: int,
    branching: int,
    solve_level: Callable[[int, Shards[Any]], Level[Result]],
    join: Callable[[Sequence[Any], Any], Any],
    value: Any = None,
    spent: Sequence[Shards[Any]] = (),
    last: int = 0,
) -> Iterator[Level[Result]]:
    """Solve levels ``n_levels, ..., 1, 0`` lazily, so that the caller decides when to stop.

    Parameters
    ----------
    leaves : Shards
        ``branching ** n_levels`` parts.
    n_levels, branching : int
    solve_level : callable
        Solves all parts of a level, which are independent of each other.
    join : callable
        Task that joins `branching` solved parts into one, given `value`.
    value : object, optional
    spent : sequence of Shards
        Shards that are released once the leaves are solved. The parts of a level are released once
        those of the level above are solved.
    last : int, default=0
        Last level to solve.
    """
    parts = leaves
    for number in range(n_levels, last - 1, -1):
        level = solve_level(number, parts)
        yield level
        for handle in spent:
            handle.release()
        spent = level.parts, *([] if parts is leaves else [parts])
        if number > last:
            parts = level.parts.merge(join, branching, value)
