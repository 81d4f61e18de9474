"""Simulator of a network in one process, with a virtual clock, encoded messages and seeded faults.

Everything that happens is an event in a heap. Events are taken in the order of time and, at equal
times, of creation, so that the same programs, conditions and seed give the same run, bit for bit,
on processors that use the same instructions (docs/guide/promises.md#where-bits-are-equal).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import MessageError, UnsoundError, decoder, encode, pack, unpack
from dimargin.gossip.program import Action, Report, Send, SiteProgram, Stop, Wake
from dimargin.gossip.simulation.conditions import Conditions


@dataclass
class SimulatedSite:
    """One site of a simulation."""

    make: Callable[[], SiteProgram]
    neighbours: tuple[str, ...]  # Sites to which it can send.
    speed: float  # Speed of its clock.
    began: float | None = None  # Start of its clock, which also runs while the site is down.
    program: SiteProgram | None = None  # Running program; None while the site is down.
    last: SiteProgram | None = None  # Program that ran last, whether the site is up or not.
    gone: bool = False  # Whether it is down permanently.
    stopped: str | None = None  # Reason why it has finished.
    state: bytes | None = None  # Its last checkpoint.
    keeps_state: bool = False
    timers: dict[str, int] = field(default_factory=dict)  # Number of the newest timer of each name.


class Simulator:
    """Simulator that runs site programs on a virtual clock.

    Parameters
    ----------
    programs : mapping from name to function
        Factories of the programs. A site that was down gets a new program, which is restored from
        its checkpoint.
    graph : networkx graph, or function from seconds to one
        Nodes 0, 1, ... are the sites in the order of `programs`. A function is called every second,
        and changes the neighbours of the sites.
    conditions : Conditions
    random_state : int
        Seed of the delays, losses and jitter.
    largest : int
        Most bytes that a message may have.

    Attributes
    ----------
    now : float
        Seconds of the virtual clock.
    sites : dict from name to SimulatedSite
    counts : Counter
        "messages" and "bytes" sent, "delivered", "lost", "duplicated", "undecodable".
    reports : list of (float, str, Report)
        Reports of sites, with time and name.
    """

    def __init__(
        self,
        programs: Mapping[str, Callable[[], SiteProgram]],
        graph: Any,
        conditions: Conditions | None = None,
        random_state: int = 0,
        largest: int = LIMITS.message,
    ) -> None:
        self.conditions = conditions or Conditions()
        self.now = 0.0
        self.counts: Counter[str] = Counter()
        self.reports: list[tuple[float, str, Report]] = []
        self._names = list(programs)
        self._check_names()
        self._graph = graph if callable(graph) else None
        self._rng = np.random.default_rng(random_state)
        self._largest = largest
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        neighbours = self._neighbours(graph(0.0) if callable(graph) else graph)
        speeds, down = self.conditions.speeds, {outage.site for outage in self.conditions.outages}
        self.sites = {
            name: SimulatedSite(make, neighbours[name], speeds.get(name, 1.0), keeps_state=name in down)
            for name, make in programs.items()
        }
        for name in self._names:
            self._schedule(self.conditions.joins.get(name, 0.0), self._start_site, name)
        for outage in self.conditions.outages:
            self._schedule(outage.at, self._stop_site, outage.site, outage.until == math.inf)
            if outage.until < math.inf:
                self._schedule(outage.until, self._restart_site, outage.site, outage.loses_memory)
        if self._graph is not None:
            self._schedule(1.0, self._rewire)

    def run(self, until: float = math.inf, watch: Callable[[Simulator], bool] | None = None) -> str:
        """Process events until the run ends.

        Parameters
        ----------
        until : float
            Seconds of the virtual clock at which to pause; `run` may be called again.
        watch : callable, optional
            Called after all events of every whole second; True ends the run.

        Returns
        -------
        {"stopped", "watch", "until", "silence"}
            All sites have stopped, `watch` returned True, `until` is reached, or no event is left.
        """
        second = math.floor(self.now) + 1
        while self._events:
            time = self._events[0][0]
            if time > self.now and self._all_stopped:  # All sites end with the same round.
                return "stopped"
            while watch is not None and time >= second and second <= until:
                self.now = max(self.now, math.nextafter(second, 0))
                second += 1
                if watch(self):
                    return "watch"
            if time >= until:
                self.now = until
                return "until"
            _, _, handle, arguments = heapq.heappop(self._events)
            self.now = time
            handle(*arguments)
        return "stopped" if self._all_stopped else "silence"

    @property
    def programs(self) -> dict[str, SiteProgram]:
        """Programs of the sites that are up."""
        return {name: site.program for name, site in self.sites.items() if site.program is not None}

    # ---- events --------------------------------------------------------------------------------------------------

    def _start_site(self, name: str) -> None:
        site = self.sites[name]
        site.program = site.last = site.make()
        site.timers = {}
        if site.began is None:
            site.began = self.now
        if site.state is not None:
            site.program.restore(unpack(site.state))
        self._carry_out(name, site, site.program.start(self._clock(site), site.neighbours))

    def _wake(self, name: str, timer: str, token: int) -> None:
        site = self.sites[name]
        if site.program is not None and site.timers.get(timer) == token:
            del site.timers[timer]
            self._carry_out(name, site, site.program.wake(self._clock(site), timer))

    def _arrive(self, sender: str, name: str, data: bytes) -> None:
        site = self.sites[name]
        if site.program is None or self.conditions.cut(self.now, sender, name):
            self.counts["lost"] += 1
            return
        if not site.program.hears(sender):
            return
        try:
            message = decoder(site.program.messages, self._largest)(data)
        except MessageError as error:
            self.counts["undecodable"] += 1
            self.reports.append((self.now, name, Report("undecodable", {"sender": sender, "reason": str(error)})))
            if isinstance(error, UnsoundError):
                self._carry_out(name, site, site.program.refuse(self._clock(site), sender, str(error)))
            return
        self.counts["delivered"] += 1
        self._carry_out(name, site, site.program.receive(self._clock(site), sender, message))

    def _stop_site(self, name: str, for_good: bool) -> None:
        self.sites[name].program = None
        self.sites[name].gone = for_good

    def _restart_site(self, name: str, loses_memory: bool) -> None:
        site = self.sites[name]
        if loses_memory:
            site.state = None
        self._start_site(name)

    def _rewire(self) -> None:
        assert self._graph is not None
        for name, neighbours in self._neighbours(self._graph(self.now)).items():
            site = self.sites[name]
            if neighbours != site.neighbours:
                site.neighbours = neighbours
                if site.program is not None:
                    self._carry_out(name, site, site.program.neighbours_changed(self._clock(site), neighbours))
        self._schedule(1.0, self._rewire)

    # ---- actions -------------------------------------------------------------------------------------------------

    def _carry_out(self, name: str, site: SimulatedSite, actions: Iterable[Action]) -> None:
        sends = []
        for action in actions:
            if type(action) is Send:
                sends.append(action)
            elif type(action) is Wake:
                token = next(self._order)
                site.timers[action.name] = token
                late = 1 + self.conditions.jitter * self._rng.random() if self.conditions.jitter else 1.0
                self._schedule(action.after * late / site.speed, self._wake, name, action.name, token)
            elif type(action) is Report:
                self.reports.append((self.now, name, action))
            elif type(action) is Stop:
                site.stopped = site.stopped or action.reason
        if sends and site.keeps_state and site.program is not None:
            site.state = pack(site.program.checkpoint())
        for send in sends:
            self._send(name, site, send)

    def _send(self, name: str, site: SimulatedSite, send: Send) -> None:
        data = encode(send.message)
        if len(data) > self._largest:
            raise MessageError(f"{name} sends a message of {len(data)} bytes, expected at most {self._largest}")
        self.counts["messages"] += 1
        self.counts["bytes"] += len(data)
        conditions, rng = self.conditions, self._rng
        link = conditions.links.get((name, send.to), conditions.link) if conditions.links else conditions.link
        unreachable = send.to not in site.neighbours or conditions.cut(self.now, name, send.to)
        if unreachable or (link.loss and rng.random() < link.loss):
            self.counts["lost"] += 1
            return
        copies = 1
        if link.duplication and rng.random() < link.duplication:
            copies = 2
            self.counts["duplicated"] += 1
        low, high = link.delay
        for _ in range(copies):
            delay = low if low == high else low + (high - low) * rng.random()
            self._schedule(delay, self._arrive, name, send.to, data)

    # ---- helpers -------------------------------------------------------------------------------------------------

    def _schedule(self, after: float, handle: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (self.now + after, next(self._order), handle, arguments))

    def _clock(self, site: SimulatedSite) -> float:
        assert site.began is not None
        return (self.now - site.began) * site.speed

    def _neighbours(self, graph: Any) -> dict[str, tuple[str, ...]]:
        names = self._names
        if sorted(graph) != list(range(len(names))):
            raise ValueError(
                f"the graph must have the nodes 0 .. {len(names) - 1}, one for every site, got {len(graph)}"
            )
        return {names[i]: tuple(names[j] for j in sorted(graph.neighbors(i)) if j != i) for i in range(len(names))}

    def _check_names(self) -> None:
        conditions = self.conditions
        named = {*conditions.speeds, *conditions.joins, *(outage.site for outage in conditions.outages)}
        named |= {name for pair in conditions.links for name in pair}
        named |= {name for split in conditions.splits for group in split.groups for name in group}
        unknown = sorted(named - set(self._names))
        if unknown:
            raise ValueError(f"the conditions name sites that do not exist: {', '.join(unknown)}")

    @property
    def _all_stopped(self) -> bool:
        return all(site.stopped is not None or site.gone for site in self.sites.values())
