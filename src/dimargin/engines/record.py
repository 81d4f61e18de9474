"""What a driver has got, so that another one can go on: results of jobs and shards, by their numbers.

An algorithm asks for the same jobs, in the same order, wherever the results before were the same. So a driver that
begins again, with the results of an earlier one in place of its first jobs, comes to where that one was, and no
strategy knows of it. Shards that were saved take the place of what they were made of; all others are made again when
they are asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from dimargin.engines.packing import Packing

Reader = Callable[[int], DataFrame]  # frames in so many partitions


@dataclass(frozen=True)
class Saved:
    """Shards in files.

    Attributes
    ----------
    number : int
        Of the shards among all that were made.
    folder : str
    digests : list of str
        SHA-256 of every shard, in their order.
    """

    number: int
    folder: str
    digests: list[str]


@dataclass
class Record:
    """Counts what is made and got, from some moment on.

    Attributes
    ----------
    packing : Packing
        Of results and shards.
    past : deque of tuple of str and bytes
        Names of jobs and their packed results, which are not run again.
    saved : dict
        Readers of shards, by their number, which are not made again.
    news : list of tuple of str and bytes
        Results beyond the past, until they are taken.
    """

    packing: Packing
    past: deque[tuple[str, bytes]]
    saved: dict[int, Reader]
    news: list[tuple[str, bytes]] = field(default_factory=list)
    _numbers: int = 0

    def __post_init__(self) -> None:
        self.saves = bool(self.saved)

    def known(self, job: str) -> Any:
        """Result of the next job, if it is a past one; None otherwise.

        Another name is that of a job of another course, which a time limit may take: then the past is over.

        Raises
        ------
        RuntimeError
            On another course, where shards were saved, whose results are known and which might turn out otherwise.
        """
        if not self.past:
            return None
        name, data = self.past.popleft()
        if name == job:
            return self.packing.unpack(data)
        if self.saves:
            raise RuntimeError(f"the checkpoint is of another course: {name!r} was followed there, here {job!r}")
        self.past.clear()
        return None

    def add(self, job: str, result: Any) -> None:
        """Keep a result, as it is now."""
        self.news.append((job, self.packing.pack(result)))

    def next_number(self) -> int:
        """Of shards that are made."""
        self._numbers += 1
        return self._numbers

    def take(self) -> list[tuple[str, bytes]]:
        """The results since this was asked last."""
        news, self.news = self.news, []
        return news
