"""Thread that sends one neighbour its messages over a Zenoh session."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

ROUND = 0.01
"""Seconds between two polls of a state of Zenoh that no call waits for."""


class Sender(threading.Thread):
    """Thread that sends messages to one neighbour, and alone waits when that neighbour takes none.

    It keeps the newest messages: at most 256, of at most `largest` bytes together. They go to `key`
    over a `session` of the module `zenoh`, each with a number from `next_number`; `drop` is called
    with the number of messages that are not sent.
    """

    def __init__(
        self,
        zenoh: Any,
        session: Any,
        key: str,
        lease: float,
        largest: int,
        next_number: Callable[[], int],
        drop: Callable[[int], None],
    ) -> None:
        super().__init__(name=f"to {key}", daemon=True)
        self._zenoh, self._session, self._key = zenoh, session, key
        self._lease, self._largest, self._next_number, self._drop = lease, largest, next_number, drop
        self._pending: deque[bytes] = deque()
        self._bytes = 0
        self._ready = threading.Condition()
        self._deadline = math.inf
        self._ended = False

    def put(self, data: bytes) -> bool:
        """Append a message, and drop the oldest beyond the limits; return whether the thread still takes messages."""
        with self._ready:
            if self._ended or self._deadline < math.inf:
                return False
            self._pending.append(data)
            self._bytes += len(data)
            while len(self._pending) > 1 and (self._bytes > self._largest or len(self._pending) > 256):
                self._bytes -= len(self._pending.popleft())
                self._drop(1)
            self._ready.notify()
            return True

    def finish(self, deadline: float) -> None:
        """End the thread once all messages are sent, or when `time.monotonic` passes the deadline."""
        with self._ready:
            self._deadline = deadline
            self._ready.notify()

    def run(self) -> None:
        """Send messages until `finish` is called, or until the neighbour has not listened for a lease."""
        try:
            with contextlib.suppress(self._zenoh.ZError):  # The session was closed meanwhile.
                self._send_all()
        finally:
            with self._ready:
                self._ended = True
                left = len(self._pending)
                self._pending.clear()
            self._drop(left)

    def _send_all(self) -> None:
        block = self._zenoh.CongestionControl.BLOCK  # The default drops bursts silently.
        with self._session.declare_publisher(self._key, congestion_control=block) as publisher:
            while (data := self._take()) is not None:
                if not self._is_listening(publisher):
                    self._drop(1)
                    return
                publisher.put(data, attachment=self._next_number().to_bytes(8, "little"))

    def _take(self) -> bytes | None:
        with self._ready:
            while not self._pending and self._deadline == math.inf:
                self._ready.wait()
            if not self._pending or time.monotonic() > self._deadline:
                return None
            data = self._pending.popleft()
            self._bytes -= len(data)
            return data

    def _is_listening(self, publisher: Any) -> bool:
        """Return whether the neighbour listens within a lease; Zenoh discards messages without a listener."""
        patience = time.monotonic() + self._lease
        while not publisher.matching_status.matching:
            if time.monotonic() > min(patience, self._deadline):
                return False
            time.sleep(ROUND)
        return True
