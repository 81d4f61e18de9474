"""Execution of one site program in real time, with its clock, timers, state file and link.

A `Link` only moves bytes between named sites. A `LiveSite` turns events of the link into calls of
one program, all from one thread, and the program's actions into bytes, timers and a state file.
"""

from __future__ import annotations

import math
import os
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.links import Event, Failed, Link, Neighbours, Received, Refused, Trouble
from dimargin.gossip.messages import MessageError, UnsoundError, decoder, encode
from dimargin.gossip.program import Action, Report, Send, SiteProgram, Stop, Wake
from dimargin.gossip.queues import Allowance, Inbox, Outbox, Timers
from dimargin.gossip.state_file import SavedState


class LiveSite:
    """Runner of one site program on a link, in real time.

    The program's clock counts the seconds since `run` began. Only the thread of `run` calls its
    methods. What it has learnt is saved in `state` before a message that may depend on it is sent.

    No message of another site ends the run. The sender of a message that is invalid, or at which
    the program fails, is ignored from then on, and the program undoes what that sender has
    contributed. The site's own messages are checked by the same rules, and invalid or too long ones
    are not sent. The log takes a limited number of lines about other sites and messages.

    A state that cannot be written, as on a full disk, does not end the run either. The status and
    the log report it as trouble. The site keeps learning and retries every second. Until the state
    is written it sends no messages, so that other sites never have what it might forget.

    Parameters
    ----------
    program : SiteProgram
    link : Link
    state : path, optional
        File from which a killed site resumes; without it nothing is kept.
    clock : callable
        Returns seconds, which never go back.
    log : callable, optional
        Called with every report: what happened, and a dictionary of facts. This class reports
        "started", "refused" (the link exchanges no messages with a connected site), "undecodable",
        "broken" (the program has failed at a message; with the kind of the error and its place),
        "withheld", "flooded", "held back", "lines left out", "trouble", "trouble over" and
        "stopped". Reports about messages are made for the first and every hundredth message.
    bandwidth : float, optional
        Bytes that may be sent per second, on average. Above it, only the newest message to each
        neighbour waits; older ones are dropped and counted.

    Raises
    ------
    ValueError
        If `bandwidth` is out of range.
    StateError
        If the folder of `state` does not exist.
    """

    def __init__(
        self,
        program: SiteProgram,
        link: Link,
        *,
        state: str | os.PathLike[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        log: Callable[[str, dict[str, Any]], None] | None = None,
        bandwidth: float | None = None,
    ) -> None:
        if bandwidth is not None and not 0 < bandwidth < math.inf:
            raise ValueError(f"bandwidth must be a positive number of bytes per second, got {bandwidth!r}")
        self._program = program
        self._link = link
        self._decode = decoder(program.messages, link.largest)
        self._saved = SavedState(state, link.name, program, clock)
        self._clock = clock
        self._log = log or (lambda what, facts: None)
        self._inbox = Inbox(2 * link.largest)
        self._timers = Timers()
        self._outbox = Outbox(bandwidth)
        self._traffic: dict[str, Counter[str]] = {}
        self._heard: dict[str, float] = {}
        self._announced: tuple[str, ...] = ()
        self._began = clock()
        self._trouble: dict[str, str] = {}  # Reason by the troubled part, "state" or "link".
        self._refused: dict[str, str] = {}  # Reasons why the link exchanges no messages with a site.
        self._finished: str | None = None
        self._flooded = 0
        self._withheld: dict[str, tuple[float, str]] = {}  # Time and reason of the last withheld message, by receiver.
        self._lines: dict[str, Allowance] = {}  # Allowed log lines about messages, by what happened.

    def run(self, stop: threading.Event | None = None, max_time: float | None = None) -> str:
        """Run the program until it is stopped; may be called only once.

        A program that has answered `Stop` still answers its neighbours.

        Parameters
        ----------
        stop : threading.Event, optional
            Ends the run within a tenth of a second of being set, or once the program's present call
            returns.
        max_time : float, optional
            Seconds after which the run ends.

        Returns
        -------
        str
            Why the program finished, or "told to stop" or "out of time" if it has not.

        Raises
        ------
        StateError
            If the program cannot resume from the state.
        LinkError
            If the link cannot be opened, or has failed permanently.
        OSError
            If the state cannot be written at the end, or, for a lasting reason, at the start.
        """
        self._saved.restore()
        self._link.open(self._inbox.put)
        try:
            self._start()
            reason = self._loop(stop, math.inf if max_time is None else max_time)
            self._saved.write(sync=True)
        finally:
            self._link.close()
        self._log("stopped", {"reason": reason})
        return reason

    def status(self) -> dict[str, Any]:
        """Return counters that JSON can hold; may be called from any thread.

        Returns
        -------
        dict
            The `site`, `seconds` of its clock, its `incarnation` (how often it has resumed from its
            state), why it has `finished` or None, its `neighbours`, the number of messages
            `flooded` (dropped since they came too fast) and `waiting` (held back), why messages to
            a neighbour were `withheld` in the last minute, why the link has `refused` connected
            sites, `trouble` with the state or the link if there is any, facts of the `link`, and
            `traffic` by the other site's name: `messages_in`, `bytes_in`, `messages_out`,
            `bytes_out`, the number of messages `lost` on the way here, `dropped` on this side and
            `undecodable`, and how many seconds ago the other site was `heard`, or None.
        """
        link, now = self._link.status(), self._now()
        # A learner resends what neighbours have not received: older reasons may no longer hold.
        traffic: dict[str, dict[str, Any]] = {name: dict(counts) for name, counts in list(self._traffic.items())}
        for name, counts in traffic.items():
            counts["dropped"] += link.get("dropped", {}).get(name, 0)
            counts["heard"] = now - self._heard[name] if name in self._heard else None
        return {
            "site": self._link.name,
            "seconds": now,
            "incarnation": self._saved.incarnation,
            "finished": self._finished,
            "neighbours": list(self._announced),
            "flooded": self._inbox.flooded,
            "waiting": len(self._outbox),
            "withheld": {name: why for name, (when, why) in list(self._withheld.items()) if now - when < 60.0},
            "refused": self._refused,
            "trouble": "; ".join(list(self._trouble.values())),
            "traffic": traffic,
            "link": link,
        }

    def _start(self) -> None:
        self._began = self._clock()
        self._announced = self._link.neighbours()
        self._log("started", {"incarnation": self._saved.incarnation, "link": self._link.status()})
        self._carry_out(self._program.start(0.0, self._announced))
        self._save(sync=True)  # A start counts as an incarnation even if nothing was sent.

    def _loop(self, stop: threading.Event | None, max_time: float) -> str:
        while not (stop is not None and stop.is_set()):
            now = self._now()
            if now >= max_time:
                return self._finished or "out of time"
            if (name := self._timers.pop(now)) is not None:
                self._carry_out(self._program.wake(now, name))
            self._transmit()
            if "state" in self._trouble:
                self._save()
            due = min(self._timers.next(), self._outbox.next(), max_time)
            # The inbox cannot wait for `stop`: short waits notice it soon.
            self._handle_event(self._inbox.take(min(0.1, due - self._now())))
            for _ in range(len(self._inbox)):  # Even a site with late timers reads messages between two of them.
                self._handle_event(self._inbox.take(0))
        return self._finished or "told to stop"

    def _handle_event(self, event: Event | None) -> None:
        if isinstance(event, Received):
            self._receive(event)
        elif isinstance(event, Neighbours) and event.names != self._announced:
            self._announced = event.names
            self._carry_out(self._program.neighbours_changed(self._now(), event.names))
        elif isinstance(event, Trouble):
            self._report_trouble("link", event.reason)
        elif isinstance(event, Refused):
            for name in sorted(event.reasons.keys() - self._refused.keys()):
                self._log_limited("refused", {"site": name, "reason": event.reasons[name]})
            self._refused = event.reasons
        elif isinstance(event, Failed):
            self._save(sync=True)
            raise event.error
        self._report_flood()

    def _receive(self, event: Received) -> None:
        now, sender, traffic = self._now(), event.sender, self._traffic_of(event.sender)
        traffic["messages_in"] += 1
        traffic["bytes_in"] += len(event.data)
        traffic["lost"] += event.lost
        if sender not in self._traffic:  # The table is full.
            return
        self._heard[sender] = now
        if not self._program.hears(sender):
            return
        try:
            message = self._decode(event.data)
        except MessageError as error:
            self._report_undecodable(sender, error)
            if isinstance(error, UnsoundError):
                self._refuse_sender(now, sender, str(error))
            return
        failed = self._call_program(self._program.receive, now, sender, message)
        if isinstance(failed, MessageError):  # The message is valid by itself, but not for this program.
            self._report_undecodable(sender, failed)
        if failed is not None:
            self._refuse_sender(now, sender, f"the program has failed at its message: {failed!r}")

    def _refuse_sender(self, now: float, sender: str, reason: str) -> None:
        """Ignore a sender from now on, and let the program undo what it has contributed."""
        self._program.neighbourhood.refuse(sender, reason)  # This holds even if the program fails next.
        self._call_program(self._program.refuse, now, sender, reason)

    def _call_program(self, method: Callable[..., Iterable[Action]], *arguments: Any) -> Exception | None:
        """Call the program, carry out its actions up to where it fails, and return its exception, if any.

        The timer may be one of these actions; without it a site would do nothing more.
        """
        actions: list[Action] = []
        failed = None
        try:
            for action in method(*arguments):
                actions.append(action)
        except Exception as error:
            failed = error
            self._log_limited("broken", {"error": repr(error), "place": _location(error)})
        self._carry_out(actions)
        return failed

    def _carry_out(self, actions: Iterable[Action]) -> None:
        outgoing: list[tuple[str, bytes]] = []
        for action in actions:
            if isinstance(action, Send):
                data = self._encoded(action)
                if data is not None:
                    outgoing.append((action.to, data))
            elif isinstance(action, Wake):
                self._set_timer(action)
            elif isinstance(action, Report):
                may_recur = action.facts.keys() & {"site", "with"}
                (self._log_limited if may_recur else self._log)(action.what, action.facts)
            elif isinstance(action, Stop):
                self._finished = self._finished or action.reason
        if outgoing and not self._save(self._program.needs_durable_state):
            for to, _ in outgoing:
                self._traffic_of(to)["dropped"] += 1
            return
        for to, data in outgoing:
            self._queue_message(to, data)

    def _encoded(self, action: Send) -> bytes | None:
        """Return the bytes of a message, or None if its receiver would refuse it as invalid or too long."""
        try:
            data = encode(action.message)
            self._decode(data)
        except (MessageError, OverflowError) as error:
            traffic = self._traffic_of(action.to)
            traffic["dropped"] += 1
            self._withheld[action.to] = (self._now(), str(error))
            self._log_every_hundredth("withheld", traffic["dropped"], {"to": action.to, "reason": str(error)})
            return None
        return data

    def _set_timer(self, action: Wake) -> None:
        if not 0 <= action.after < math.inf:
            raise ValueError(
                f"site {self._link.name} sets the timer {action.name!r} to {action.after!r} seconds, expected 0 or more"
            )
        self._timers.set(self._now() + action.after, action.name)

    def _queue_message(self, to: str, data: bytes) -> None:
        traffic = self._traffic_of(to)
        if to == self._link.name:
            traffic["dropped"] += 1
            return
        if self._outbox.put(to, data):
            traffic["dropped"] += 1
            self._log_every_hundredth("held back", traffic["dropped"], {"to": to, "dropped": traffic["dropped"]})
        self._transmit()

    def _transmit(self) -> None:
        while (message := self._outbox.pop(self._now())) is not None:
            to, data = message
            traffic = self._traffic_of(to)
            traffic["messages_out"] += 1
            traffic["bytes_out"] += len(data)
            self._link.send(to, data)

    def _save(self, sync: bool = False) -> bool:
        """Write the state if it is time; return whether messages that depend on it may be sent."""
        is_saved = self._saved.save(sync)
        self._report_trouble("state", self._saved.trouble)
        return is_saved

    def _now(self) -> float:
        return self._clock() - self._began

    def _traffic_of(self, name: str) -> Counter[str]:
        if name not in self._traffic and len(self._traffic) >= LIMITS.sites:
            name = "(others)"  # No site can have this name.
        if name not in self._traffic:
            counts = ("messages_in", "bytes_in", "messages_out", "bytes_out", "lost", "dropped", "undecodable")
            self._traffic[name] = Counter(dict.fromkeys(counts, 0))
        return self._traffic[name]

    def _report_flood(self) -> None:
        if (flooded := self._inbox.flooded) > self._flooded:
            before, self._flooded = self._flooded, flooded
            if before == 0 or before // 100 < flooded // 100:
                self._log_limited("flooded", {"messages": flooded})

    def _report_trouble(self, what: str, reason: str) -> None:
        """Log trouble when it begins, changes or ends."""
        if reason == self._trouble.get(what, ""):
            return
        if reason:
            self._trouble[what] = reason
            self._log_limited("trouble", {"with": what, "reason": reason})
        else:
            del self._trouble[what]
            self._log_limited("trouble over", {"with": what})

    def _report_undecodable(self, sender: str, error: MessageError) -> None:
        count = self._traffic_of(sender)["undecodable"] = self._traffic_of(sender)["undecodable"] + 1
        self._log_every_hundredth("undecodable", count, {"sender": sender, "reason": str(error), "count": count})

    def _log_every_hundredth(self, what: str, count: int, facts: dict[str, Any]) -> None:
        if count == 1 or count % 100 == 0:
            self._log_limited(what, facts)

    def _log_limited(self, what: str, facts: dict[str, Any]) -> None:
        """Log an event that may recur, within a limited number of lines of each kind."""
        lines = self._lines.setdefault(what, Allowance(LIMITS.lines, LIMITS.lines_per_second))
        if lines.take(self._now()):
            if left_out := lines.forget():
                self._log("lines left out", {"about": what, "lines": left_out})
            self._log(what, facts)


def _location(error: BaseException) -> str:
    location = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(location.filename)}:{location.lineno} in {location.name}"
