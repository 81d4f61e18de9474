"""Programs that try a transport, and worlds that run them: processes and a simulation.

Run as a script, this file is one site in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.live import LiveSite
from dimargin.gossip.messages import Array, Message
from dimargin.gossip.program import Report, Send, SiteProgram, Stop, Wake

PATIENCE = 60.0  # seconds until a condition that never comes true is given up
LEASE = 1.0
SWARM = "contract"


# ---- programs --------------------------------------------------------------------------------------------------------


class Number(Message, frozen=True, tag="number"):
    origin: str
    value: int


class Parcel(Message, frozen=True, tag="parcel"):
    text: str
    returned: bool
    doubles: Array
    singles: Array
    longs: Array
    integers: Array
    flags: Array
    octets: Array
    scores: dict[str, float]

    def arrays(self) -> list[Array]:
        return [self.doubles, self.singles, self.longs, self.integers, self.flags, self.octets]


def parcel(returned: bool = False) -> Parcel:
    """Arrays that are hard to carry: with no element, with gaps in memory, with odd bits."""
    odd = np.array([0x7FF8000000000123, 0x8000000000000000, 1], np.uint64).view(np.float64)
    return Parcel(
        "gr\u00fc\u00df dich \u2603",
        returned,
        np.concatenate([odd, [np.inf, -np.inf, np.pi]]).reshape(2, 3),
        np.arange(24, dtype=np.float32).reshape(4, 6)[::2, ::-1],
        np.array([[-(2**62)]]),
        np.zeros((3, 0), np.int32),
        np.array([[[True], [False]]]),
        np.arange(256, dtype=np.uint8),
        {"a": 0.1, "b": -1e300},
    )


class Site(SiteProgram):
    """Tells what it is told; its checkpoint is how far it has counted."""

    shares = "parameters"
    messages = (Number, Parcel)

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.neighbours: tuple[str, ...] = ()

    def start(self, now, neighbours):
        yield Report("began", {"count": self.count, "now": now})
        yield from self.neighbours_changed(now, neighbours)

    def neighbours_changed(self, now, neighbours):
        self.neighbours = tuple(neighbours)
        return [Report("neighbours", {"names": sorted(neighbours)})]

    def wake(self, now, name):
        return []

    def receive(self, now, sender, message):
        return []

    def checkpoint(self):
        return {"count": self.count}

    def restore(self, state):
        self.count = state["count"]


class Counting(Site):
    """Sends every neighbour, and in vain itself, one number after the other, with some ballast; finishes at `last`."""

    def __init__(self, name, period=0.02, last=None, ballast=0):
        super().__init__(name)
        self.period, self.last, self.ballast = period, last, np.zeros(ballast, np.uint8)

    def start(self, now, neighbours):
        yield from super().start(now, neighbours)
        yield Wake(self.period)

    def wake(self, now, name):
        self.count += 1
        yield Report("counted", {"count": self.count})
        yield Wake(self.period)
        for to in (*self.neighbours, self.name):
            yield Send(to, Number(self.name, self.count))
            if self.ballast.size:
                yield Send(to, Parcel("", False, *[self.ballast] * 6, {}))
        if self.count == self.last:
            yield Stop(f"counted to {self.last}")

    def receive(self, now, sender, message):
        if isinstance(message, Number):
            yield Report("heard", {"sender": sender, "origin": message.origin, "value": message.value})


class Echo(Site):
    """Sends a parcel until it comes back, and sends those of others back."""

    def start(self, now, neighbours):
        yield from super().start(now, neighbours)
        yield Wake(0.0)

    def wake(self, now, name):
        yield Wake(0.1)
        for to in self.neighbours:
            yield Send(to, parcel())

    def receive(self, now, sender, message):
        if not message.returned:
            yield Send(sender, Parcel(message.text, True, *message.arrays(), message.scores))
            return
        sent = parcel()
        same = [
            (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
            for one, other in zip(message.arrays(), sent.arrays(), strict=True)
        ]
        yield Report(
            "returned",
            {"sender": sender, "arrays": same, "others": [message.text, message.scores] == [sent.text, sent.scores]},
        )


class Timers(Site):
    """Sets timers in another order than that of their ends, two of them twice."""

    def start(self, now, neighbours):
        yield from super().start(now, neighbours)
        yield Wake(0.03, "third")
        yield Wake(0.01, "first")
        yield Wake(0.001, "put off")
        yield Wake(0.02, "second")
        yield Wake(60.0, "brought forward")
        yield Wake(0.05, "brought forward")
        yield Wake(0.04, "put off")
        yield Wake(0.2, "end")

    def wake(self, now, name):
        return [Report("woke", {"name": name, "now": now})]


class Large(Site):
    """Sends one large array to whoever appears, again and again until it is answered."""

    def __init__(self, name, size=0):
        super().__init__(name)
        self.size = size

    def start(self, now, neighbours):
        yield from super().start(now, neighbours)
        yield Wake(0.0)

    def wake(self, now, name):
        if self.size and self.neighbours and not self.count:
            octets = np.arange(self.size, dtype=np.uint32).astype(np.uint8)
            yield Send(self.neighbours[0], Parcel("", False, *[octets[:0]] * 5, octets, {}))
        yield Wake(0.5)

    def receive(self, now, sender, message):
        if isinstance(message, Number):
            self.count = message.value
        else:
            whole = np.array_equal(message.octets, np.arange(message.octets.size, dtype=np.uint32).astype(np.uint8))
            yield Report("large", {"size": message.octets.size, "whole": bool(whole)})
            yield Send(sender, Number(self.name, message.octets.size))


PROGRAMS = {program.__name__: program for program in (Site, Counting, Echo, Timers, Large)}


# ---- worlds ----------------------------------------------------------------------------------------------------------


class World(ABC):
    """Where sites run. A new transport implements this, and passes the tests of `test_transport.py`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def start(self, name: str, program: str, largest: int = LIMITS.message, **parameters: Any) -> None:
        """Run a program of `PROGRAMS`; one that ran under this name goes on from its checkpoint."""

    @abstractmethod
    def stop(self, name: str) -> str:
        """Tell a site to stop; what it says it has finished for."""

    @abstractmethod
    def kill(self, name: str) -> None:
        """End a site without a warning."""

    @abstractmethod
    def inject(self, sender: str, to: str, data: bytes) -> None:
        """Let a site that speaks another language send these bytes, again and again if they get lost."""

    @abstractmethod
    def reports(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """All reports of a site, those before it was killed too; "failed" with an `error` if it broke."""

    @abstractmethod
    def advance(self) -> None:
        """Let a little time pass."""

    @abstractmethod
    def close(self) -> None:
        """End all sites."""

    def facts(self, name: str, what: str) -> list[dict[str, Any]]:
        return [facts for said, facts in self.reports(name) if said == what]

    def wait(self, done: Callable[[], Any]) -> None:
        """Let time pass until something is so."""
        end = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > end:
                raise AssertionError("the world has waited in vain")
            self.advance()


class Processes(World):
    """Sites on Zenoh, each a process that is given the addresses of all that were started before it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.addresses: dict[str, str] = {}
        self.running: dict[str, Any] = {}
        self._said: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self._rogues: list[Any] = []
        self._readers: list[threading.Thread] = []

    def start(self, name, program, largest=LIMITS.message, **parameters):
        said = self._said.setdefault(name, [])
        before = len(said)
        connect = [address for other, address in self.addresses.items() if other != name]
        what = json.dumps([name, program, largest, parameters, connect, str(self.folder)])
        process = subprocess.Popen(
            [sys.executable, __file__, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.running[name] = process

        def read() -> None:
            with process.stdout:
                for line in process.stdout:
                    said.append(tuple(json.loads(line)))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        self._readers.append(reader)
        self.wait(lambda: len(said) > before)
        what, facts = said[before]
        assert what == "started", facts
        self.addresses[name] = facts["link"]["listening"][0]

    def signal(self, name: str, number: signal.Signals) -> None:
        os.kill(self.running[name].pid, number)

    def stop(self, name):
        process = self.running.pop(name)
        process.stdin.close()
        process.wait(PATIENCE)
        self.wait(lambda: self.facts(name, "stopped"))
        return self.facts(name, "stopped")[-1]["reason"]

    def kill(self, name):
        process = self.running.pop(name)
        process.kill()
        process.wait(PATIENCE)
        process.stdin.close()
        del self.addresses[name]

    def inject(self, sender, to, data):
        from dimargin.gossip.zenoh_link import ZenohLink

        link = ZenohLink(sender, SWARM, connect=list(self.addresses.values()), lease=LEASE)
        link.open(lambda event: None)
        link.send(to, data)
        self._rogues.append(link)

    def reports(self, name):
        return list(self._said.get(name, ()))

    def advance(self):
        time.sleep(0.01)

    def close(self):
        for name in list(self.running):
            self.kill(name)
        for link in self._rogues:
            link.close()
        for reader in self._readers:
            reader.join(PATIENCE)


class Simulation(World):
    """Every site is an object of this thread, and time is a number."""

    NAMES = ("a", "b", "c")

    def __init__(self, folder: Path) -> None:
        from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, Outage
        from dimargin.gossip.simulation.simulator import Simulator

        super().__init__(folder)
        self._makes: dict[str, Callable[[], SiteProgram]] = {}
        self._up: set[str] = set()
        self._failed: dict[str, str] = {}
        never = float("inf")
        self._simulator = Simulator(
            {name: lambda name=name: self._makes[name]() for name in self.NAMES},
            lambda now: self._graph(),
            # an outage that never comes makes the simulator keep checkpoints
            Conditions(
                LinkFaults((0.01, 0.01)),
                joins=dict.fromkeys(self.NAMES, never),
                outages=tuple(Outage(name, never) for name in self.NAMES),
            ),
            largest=LIMITS.message,
        )

    def _graph(self):
        import networkx

        graph = networkx.empty_graph(len(self.NAMES))
        up = [self.NAMES.index(name) for name in self._up]
        graph.add_edges_from((one, other) for one in up for other in up if one < other)
        return graph

    def start(self, name, program, largest=LIMITS.message, **parameters):
        self._simulator._largest = min(largest, self._simulator._largest)
        self._makes[name] = lambda: PROGRAMS[program](name, **parameters)
        self._up.add(name)
        self._simulator._start_site(name)

    def stop(self, name):
        return self._simulator.sites[name].stopped

    def kill(self, name):
        self._up.discard(name)
        self._simulator._stop_site(name, False)

    def inject(self, sender, to, data):
        self._simulator._arrive(sender, to, data)

    def reports(self, name):
        said = [(report.what, report.facts) for _, who, report in self._simulator.reports if who == name]
        return said + [("failed", {"error": error}) for who, error in self._failed.items() if who == name]

    def advance(self):
        try:
            self._simulator.run(self._simulator.now + 0.1)
        except Exception as error:
            self._failed[str(error).split()[0]] = str(error)

    def close(self):
        pass


def main(what: str) -> None:
    """A site of a process: reports are lines of standard output, the end of standard input says stop."""
    from dimargin.gossip.zenoh_link import ZenohLink

    name, program, largest, parameters, connect, folder = json.loads(what)
    stop = threading.Event()

    def log(said: str, facts: dict[str, Any]) -> None:
        print(json.dumps([said, facts]), flush=True)

    def listen() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=listen, daemon=True).start()
    try:
        link = ZenohLink(name, SWARM, connect=connect, lease=LEASE, largest=largest)
        LiveSite(PROGRAMS[program](name, **parameters), link, state=Path(folder) / f"{name}.state", log=log).run(stop)
    except Exception as error:
        log("failed", {"error": str(error)})


WORLDS: dict[str, type[World]] = {"simulator": Simulation, "zenoh": Processes}

if __name__ == "__main__":
    main(sys.argv[1])
