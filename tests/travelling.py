"""An engine as strict as a cluster: nothing shares memory, tasks run when they must, what is released is gone."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from dimargin.shards.shards import Node, Shards, check_as_many, tree_sum


@dataclass
class TravellingEngine:
    """Sends every item, task, value and answer through pickle, and counts the jobs."""

    jobs: int = 0
    runs: list[str] = field(default_factory=list)  # names of the tasks, each time that one ran

    def scatter(self, items) -> TravellingShards:
        """A handle on shards."""
        frames = [pickle.dumps(item, 5) for item in items]
        return TravellingShards(self, len(frames), lambda: frames)

    def run(self, parcel: bytes, *frames: bytes) -> Any:
        """The answer of a task that travels with its value to its items."""
        task, value = pickle.loads(parcel)
        self.runs.append(getattr(getattr(task, "func", task), "__name__", "?"))
        items = [pickle.loads(frame) for frame in frames]
        return task(*items, value)

    def gather(self, parcel: bytes, frames: list[bytes]) -> Any:
        """The answer of a task that takes several items."""
        task, value = pickle.loads(parcel)
        return task([pickle.loads(frame) for frame in frames], value)


class TravellingShards(Shards[Any]):
    """Shards that are computed when an action needs them, and kept if it was their own."""

    def __init__(self, engine, n_shards, make):
        self.engine, self._n_shards, self._make = engine, n_shards, make
        self._kept: list[bytes] | None = None
        self._released = False

    @property
    def n_shards(self):
        return self._n_shards

    n_threads = n_together = 1

    def _frames(self) -> list[bytes]:
        assert not self._released, "these shards were released"
        return self._make() if self._kept is None else self._kept

    def _act(self) -> list[bytes]:
        self.engine.jobs += 1
        self._kept = self._frames()
        return self._kept

    def map(self, task, value=None, done=None, cheap=False):
        run, parcel = self.engine.run, pickle.dumps((task, value), 5)
        return TravellingShards(
            self.engine, self.n_shards, lambda: [pickle.dumps(run(parcel, frame), 5) for frame in self._frames()]
        )

    def zip(self, others, task, value=None):
        check_as_many(self, others)
        gather, parcel = self.engine.gather, pickle.dumps((task, value), 5)

        def make():
            return [
                pickle.dumps(gather(parcel, pair), 5) for pair in zip(self._frames(), others._frames(), strict=True)
            ]

        return TravellingShards(self.engine, self.n_shards, make)

    def merge(self, join, size, value=None):
        gather, parcel = self.engine.gather, pickle.dumps((join, value), 5)

        def make():
            frames = self._frames()
            groups = [frames[first : first + size] for first in range(0, len(frames), size)]
            return [pickle.dumps(gather(parcel, group), 5) for group in groups]

        return TravellingShards(self.engine, -(-self.n_shards // size), make)

    def shuffle(self, split, join, n_shards, value=None):
        sending, joining = pickle.dumps((split, value), 5), pickle.dumps((join, value), 5)

        def make():
            sent: list[list[bytes]] = [[] for _ in range(n_shards)]
            for frame in self._frames():
                for index, piece in self.engine.run(sending, frame):
                    sent[index].append(pickle.dumps(piece, 5))
            assert all(sent), "a shard was sent nothing"
            return [pickle.dumps(self.engine.gather(joining, pieces), 5) for pieces in sent]

        return TravellingShards(self.engine, n_shards, make)

    def _answers(self, task, value, n_shards=None):
        parcel = pickle.dumps((task, value), 5)
        return [pickle.loads(pickle.dumps(self.engine.run(parcel, frame), 5)) for frame in self._act()[:n_shards]]

    def aggregate(self, task, value=None, wide=False):
        leaves = (Node(0, index, part) for index, part in enumerate(self._answers(task, value)))
        return tree_sum(leaves, self.n_shards).sums

    def fold(self, task, value):
        for frame in self._act():
            value = self.engine.run(pickle.dumps((_swapped, task), 5), frame, pickle.dumps(value, 5))
        return value

    def collect(self, task=None, value=None, n_shards=None):
        if task is None:
            return [pickle.loads(frame) for frame in self._act()[:n_shards]]
        return self._answers(task, value, n_shards)

    def release(self):
        self._kept, self._released = None, True


def _swapped(item, value, task):
    return task(item, value)
