"""Queues of a live site for events, timers and outgoing messages, and a rate limit."""

from __future__ import annotations

import heapq
import math
import threading
from collections import Counter, deque

from dimargin.gossip.links import Event, Received


class Inbox:
    """Queue of events in the order in which they came.

    It holds 4,096 events, 16 messages per sender and `room` bytes. If messages come faster than
    they are read, the oldest are dropped: a slow site hears recent messages of all neighbours.
    """

    def __init__(self, room: int) -> None:
        self._events: deque[Event] = deque()
        self._ready = threading.Condition()
        self._room = room
        self._bytes = 0
        self._waiting: Counter[str] = Counter()  # Number of messages by sender.
        self.flooded = 0

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Append an event; this never blocks."""
        with self._ready:
            self._events.append(event)
            self._count(event, 1)
            if isinstance(event, Received) and self._waiting[event.sender] > 16:
                self._drop_oldest(event.sender)
            while len(self._events) > 4096 or (self._bytes > self._room and len(self._events) > 1):
                self._drop_oldest()
            self._ready.notify()

    def _count(self, event: Event, by: int) -> None:
        if isinstance(event, Received):
            self._bytes += by * len(event.data)
            self._waiting[event.sender] += by
            if not self._waiting[event.sender]:
                del self._waiting[event.sender]

    def _drop_oldest(self, sender: str | None = None) -> None:
        for index, event in enumerate(self._events):
            if isinstance(event, Received) and sender in (None, event.sender):
                del self._events[index]
                self._count(event, -1)
                self.flooded += 1
                return
        self._events.popleft()  # A newer event lists all neighbours again.

    def take(self, seconds: float) -> Event | None:
        """Return the next event, or None if none comes within so many seconds."""
        with self._ready:
            if not self._events and seconds > 0:
                self._ready.wait(seconds)
            if not self._events:
                return None
            event = self._events.popleft()
            self._count(event, -1)
            return event


class Timers:
    """Timers by name, soonest first; a newer timer replaces an older one of the same name."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, str]] = []
        self._newest: dict[str, int] = {}
        self._order = 0

    def set(self, due: float, name: str) -> None:
        """Set the timer of this name, replacing an earlier one."""
        self._order += 1
        self._newest[name] = self._order
        heapq.heappush(self._heap, (due, self._order, name))

    def next(self) -> float:
        """Return the time at which the next timer is due, or infinity without timers."""
        while self._heap and self._newest.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def pop(self, now: float) -> str | None:
        """Remove a timer that is due and return its name, or None if no timer is due."""
        if self.next() > now:
            return None
        name = heapq.heappop(self._heap)[2]
        del self._newest[name]
        return name


class Outbox:
    """Queue with the newest outgoing message to each neighbour, sent within a bandwidth.

    Neighbours are served in the order in which they began to wait.
    """

    def __init__(self, bandwidth: float | None) -> None:
        self._bandwidth = bandwidth
        self._credit = bandwidth or math.inf
        self._since = 0.0
        self._waiting: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, to: str, data: bytes) -> bool:
        """Add a message; return whether it replaces an older one to the same neighbour."""
        replaced = to in self._waiting
        self._waiting[to] = data
        return replaced

    def pop(self, now: float) -> tuple[str, bytes] | None:
        """Remove a message that may be sent now and return its receiver and bytes, or None if none may."""
        if self._bandwidth is not None:
            # At most a second's bandwidth is saved up; a larger message makes the credit negative.
            self._credit = min(self._bandwidth, self._credit + self._bandwidth * (now - self._since))
            self._since = now
        if not self._waiting or self._credit <= 0:
            return None
        to = next(iter(self._waiting))
        data = self._waiting.pop(to)
        self._credit -= len(data)
        return to, data

    def next(self) -> float:
        """Return the time at which to call `pop` again, or infinity if no message waits for bandwidth."""
        if not self._waiting or self._bandwidth is None:
            return math.inf
        return self._since + max(0.0, -self._credit) / self._bandwidth + 1e-3


class Allowance:
    """Rate limit: allows a burst of some events, and a number per second on average."""

    def __init__(self, burst: float, per_second: float) -> None:
        self._burst, self._per_second = burst, per_second
        self._left, self._since = burst, 0.0
        self._refused = 0

    def take(self, now: float) -> bool:
        """Return whether one more is allowed now, and count it if it is refused."""
        self._left = min(self._burst, self._left + self._per_second * (now - self._since))
        self._since = now
        if self._left < 1:
            self._refused += 1
            return False
        self._left -= 1
        return True

    def forget(self) -> int:
        """Return the number of events refused since the last call."""
        refused, self._refused = self._refused, 0
        return refused
