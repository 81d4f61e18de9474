"""Record of the results of jobs and the shards, by their numbers, from which another driver can go on.

An algorithm asks for the same jobs, in the same order, wherever the results before were the same. So a driver that
begins again, with the results of an earlier one in place of its first jobs, comes to where that one was, and no
strategy knows of it. Shards that were saved take the place of what they were made of; all others are made again when
they are asked for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from dimargin.spark.engine.packing import Packing


@dataclass(frozen=True)
class Saved:
    """Shards in files."""

    number: int  # of these shards among all that were made
    folder: str
    digests: list[str]  # SHA-256 of every shard, in their order


@dataclass
class Record:
    """Record of the results and shards of a driver, from some moment on."""

    packing: Packing  # of results and shards
    past: deque[tuple[str, bytes]]  # names of jobs and their packed results, which are not run again
    saved: Saved | None = None  # shards that are not made again
    news: list[tuple[str, bytes]] = field(default_factory=list)  # results beyond the past, until they are taken
    _numbers: int = 0

    def known(self, job: str) -> Any:
        """Return the result of the next job, if it is a past one; None otherwise.

        A job of another name means that the algorithm has taken another course, as it may under a time limit. The rest
        of the past is then discarded.

        Raises
        ------
        RuntimeError
            On another course where shards were saved, since these might differ on it.
        """
        if not self.past:
            return None
        name, data = self.past.popleft()
        if name == job:
            return self.packing.unpack(data)
        if self.saved is not None:
            raise RuntimeError(f"the checkpoint is of another course: {name!r} was followed there, here {job!r}")
        self.past.clear()
        return None

    def add(self, job: str, result: Any) -> None:
        """Keep a result, as it is now."""
        self.news.append((job, self.packing.pack(result)))

    def next_number(self) -> int:
        """Return the number of the shards that are made next."""
        self._numbers += 1
        return self._numbers

    def take(self) -> list[tuple[str, bytes]]:
        """Return the results since the last call."""
        news, self.news = self.news, []
        return news
