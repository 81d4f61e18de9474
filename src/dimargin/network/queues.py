"""What waits at a live site: events that have come, timers, messages that may not leave yet; and what it allows."""

from __future__ import annotations

import heapq
import math
import threading
from collections import deque

from dimargin.network.links import Event, Received

_WAITING = 4096  # events that may wait


class Inbox:
    """Events in the order in which they came; in a flood the oldest messages make room."""

    def __init__(self, room: int) -> None:
        self._events: deque[Event] = deque()
        self._ready = threading.Condition()
        self._room = room
        self._bytes = 0
        self.flooded = 0

    def put(self, event: Event) -> None:
        """Never blocks."""
        with self._ready:
            self._events.append(event)
            self._bytes += len(event.data) if isinstance(event, Received) else 0
            while len(self._events) > _WAITING or (self._bytes > self._room and len(self._events) > 1):
                self._drop()
            self._ready.notify()

    def _drop(self) -> None:
        for index, event in enumerate(self._events):
            if isinstance(event, Received):
                del self._events[index]
                self._bytes -= len(event.data)
                self.flooded += 1
                return
        self._events.popleft()  # a newer event lists all neighbours again

    def take(self, seconds: float) -> Event | None:
        """The next event, waited for so long; None without one."""
        with self._ready:
            if not self._events and seconds > 0:
                self._ready.wait(seconds)
            if not self._events:
                return None
            event = self._events.popleft()
            self._bytes -= len(event.data) if isinstance(event, Received) else 0
            return event


class Timers:
    """Names and when to wake them, soonest first; of one name only the newest counts."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, str]] = []
        self._newest: dict[str, int] = {}
        self._order = 0

    def set(self, due: float, name: str) -> None:
        """Wake this name then, and not when it was to be woken before."""
        self._order += 1
        self._newest[name] = self._order
        heapq.heappush(self._heap, (due, self._order, name))

    def next(self) -> float:
        """When the next is due; infinite without one."""
        while self._heap and self._newest.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def pop(self, now: float) -> str | None:
        """A name that is due."""
        if self.next() > now:
            return None
        name = heapq.heappop(self._heap)[2]
        del self._newest[name]
        return name


class Outbox:
    """Holds messages back where a bandwidth is given: the newest to each neighbour, in the order of waiting."""

    def __init__(self, bandwidth: float | None) -> None:
        self._bandwidth = bandwidth
        self._credit = bandwidth or math.inf
        self._since = 0.0
        self._waiting: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, to: str, data: bytes) -> bool:
        """Whether an older message made room."""
        replaced = to in self._waiting
        self._waiting[to] = data
        return replaced

    def pop(self, now: float) -> tuple[str, bytes] | None:
        """What may leave now."""
        if self._bandwidth is not None:
            # at most a second's worth is saved up; a message larger than that goes into debt
            self._credit = min(self._bandwidth, self._credit + self._bandwidth * (now - self._since))
            self._since = now
        if not self._waiting or self._credit <= 0:
            return None
        to = next(iter(self._waiting))
        data = self._waiting.pop(to)
        self._credit -= len(data)
        return to, data

    def next(self) -> float:
        """When to try again."""
        if not self._waiting or self._bandwidth is None:
            return math.inf
        return self._since + max(0.0, -self._credit) / self._bandwidth + 1e-3


class Allowance:
    """So many things at once, and so many a second on the average; what is beyond that is counted."""

    def __init__(self, most: float, a_second: float) -> None:
        self._most, self._a_second = most, a_second
        self._left, self._since = most, 0.0
        self._refused = 0

    def take(self, now: float) -> bool:
        """Whether one more is allowed now."""
        self._left = min(self._most, self._left + self._a_second * (now - self._since))
        self._since = now
        if self._left < 1:
            self._refused += 1
            return False
        self._left -= 1
        return True

    def forget(self) -> int:
        """How many were refused since this was asked last."""
        refused, self._refused = self._refused, 0
        return refused
