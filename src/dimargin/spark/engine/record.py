"""Record of the results of jobs and of numbered shards, from which another driver can resume.

An algorithm runs the same jobs in the same order if the earlier results were the same. So a new
driver, which takes the results of its first jobs from an earlier driver instead of running them,
reaches the same state without help from the strategy. Saved shards are read instead of being
computed; all others are recomputed when they are needed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from dimargin.spark.engine.packing import Packing


@dataclass(frozen=True)
class Saved:
    """Shards in files."""

    number: int  # Position of these shards among all that were created.
    folder: str
    digests: list[str]  # SHA-256 of every shard, in their order.


@dataclass
class Record:
    """Record of the results and shards of a driver since the recording began."""

    packing: Packing
    past: deque[tuple[str, bytes]]  # Names and packed results of an earlier driver's jobs, which are not run again.
    saved: Saved | None = None  # Shards that are not recomputed.
    news: list[tuple[str, bytes]] = field(default_factory=list)  # New results since the last `take`.
    _numbers: int = 0

    def known(self, job: str) -> Any:
        """Return the result of the next job if it is a past one, else None.

        A job of another name means that the algorithm took another path, as it may under a time
        limit. The remaining past results are then discarded.

        Raises
        ------
        RuntimeError
            If shards were saved, since these might differ on another path.
        """
        if not self.past:
            return None
        name, data = self.past.popleft()
        if name == job:
            return self.packing.unpack(data)
        if self.saved is not None:
            raise RuntimeError(f"the checkpoint is of another run: its next job is {name!r}, here it is {job!r}")
        self.past.clear()
        return None

    def add(self, job: str, result: Any) -> None:
        """Keep a copy of a result."""
        self.news.append((job, self.packing.pack(result)))

    def next_number(self) -> int:
        """Return the number of the next shards."""
        self._numbers += 1
        return self._numbers

    def take(self) -> list[tuple[str, bytes]]:
        """Return the results since the last call."""
        news, self.news = self.news, []
        return news
