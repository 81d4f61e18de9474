"""The simulated network does what its conditions say, and the same again for the same seed."""

from collections import Counter
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest

from dimargin.gossip.messages import Array, Message
from dimargin.gossip.program import Send, SiteProgram, Stop, Wake
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, NetworkSplit, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import make_graph


class Tick(Message, frozen=True, tag="tick"):
    number: int
    values: Array


class Diary(SiteProgram):
    """Sends its neighbours numbers, and writes down what happens to it."""

    shares: ClassVar = "parameters"
    messages: ClassVar = (Tick,)

    def __init__(self, name="", n_ticks=10**9, size=2):
        self.name, self.n_ticks, self.size = name, n_ticks, size
        self.diary, self.count, self.neighbours = [], 0, ()

    def start(self, now, neighbours):
        self.neighbours = tuple(neighbours)
        self.diary.append((now, "start", self.neighbours))
        yield Wake(1.0)

    def wake(self, now, name):
        self.count += 1
        self.diary.append((now, "wake", name))
        for neighbour in self.neighbours:
            yield Send(neighbour, Tick(self.count, np.full(self.size, float(self.count))))
        if self.count == self.n_ticks:
            yield Stop("enough")
        yield Wake(1.0)

    def receive(self, now, sender, message):
        self.diary.append((now, sender, message.number))
        yield from ()

    def neighbours_changed(self, now, neighbours):
        self.neighbours = tuple(neighbours)
        self.diary.append((now, "neighbours", self.neighbours))
        yield from ()

    def checkpoint(self):
        return {"count": self.count}

    def restore(self, state):
        self.count = state["count"]


def run(n=3, topology="ring", until=20.0, seed=0, conditions=None, graph=None, **options):
    names = [chr(ord("a") + i) for i in range(n)]
    simulator = Simulator(
        {name: lambda name=name: Diary(name, **options) for name in names},
        make_graph(topology, n) if graph is None else graph, conditions, random_state=seed,
    )  # fmt: skip
    simulator.run(until=until)
    return simulator


def heard(simulator, name, sender):
    return [entry[2] for entry in simulator.sites[name].last.diary if entry[1] == sender]


def test_rounds_are_in_step_by_default():
    simulator = run(until=3.75)
    assert simulator.sites["a"].program.diary == [
        (0.0, "start", ("b", "c")),
        *[event for k in (1, 2, 3) for event in ((k + 0.0, "wake", "round"), (k + 0.5, "b", k), (k + 0.5, "c", k))],
    ]
    assert simulator.counts == Counter(messages=18, delivered=18, bytes=simulator.counts["bytes"])


def test_bytes_are_those_of_the_messages():
    from dimargin.gossip.messages import encode

    simulator = run(n=2, topology="complete", until=1.75)
    assert simulator.counts["bytes"] == 2 * len(encode(Tick(1, np.ones(2))))


@pytest.mark.parametrize("conditions", [Conditions(), Conditions.asynchronous(loss=0.3, duplication=0.2)])
def test_the_same_seed_gives_the_same_run(conditions):
    runs = [run(n=5, seed=seed, conditions=conditions) for seed in (7, 7, 8)]
    diaries = [{name: site.program.diary for name, site in one.sites.items()} for one in runs]
    assert diaries[0] == diaries[1] and runs[0].counts == runs[1].counts
    assert (diaries[0] == diaries[2]) == (conditions == Conditions())


def test_losses_and_repetitions_are_as_frequent_as_asked():
    counts = run(
        n=10, topology="complete", until=200, conditions=Conditions(LinkFaults(loss=0.2, duplication=0.1))
    ).counts
    sent = counts["messages"]
    assert counts["lost"] / sent == pytest.approx(0.2, abs=0.01)
    assert counts["duplicated"] / (0.8 * sent) == pytest.approx(0.1, abs=0.01)


def test_delays_are_within_their_bounds_and_messages_overtake_one_another():
    simulator = run(n=2, topology="complete", until=300, conditions=Conditions(LinkFaults(delay=(0.2, 3.0))))
    arrivals = [(entry[0], entry[2]) for entry in simulator.sites["a"].program.diary if entry[1] == "b"]
    delays = [now - number for now, number in arrivals]
    assert 0.2 <= min(delays) < 0.4 and 2.8 < max(delays) <= 3.0
    assert [number for _, number in arrivals] != sorted(number for _, number in arrivals)


def test_a_link_of_its_own():
    conditions = Conditions(links={("a", "b"): LinkFaults(loss=1.0)})
    simulator = run(conditions=conditions)
    assert not heard(simulator, "b", "a") and heard(simulator, "a", "b") and heard(simulator, "c", "a")


def test_clocks_of_other_speeds_and_late_sites():
    simulator = run(n=2, topology="complete", until=20.75, conditions=Conditions(speeds={"a": 2.0}, joins={"b": 10.0}))
    assert simulator.sites["a"].program.count == 41 and simulator.sites["b"].program.count == 10
    assert simulator.sites["a"].program.diary[3][0] == pytest.approx(3.0)  # on its own clock
    assert heard(simulator, "b", "a")[0] == 19  # sent at 9.5


def test_jitter_only_makes_timers_later():
    simulator = run(n=2, topology="complete", until=100, conditions=Conditions(jitter=0.5))
    times = [entry[0] for entry in simulator.sites["a"].program.diary if entry[1] == "wake"]
    assert np.diff(times).min() >= 1.0 and np.diff(times).max() <= 1.5 and 70 < len(times) < 90


def test_a_partition_cuts_and_heals():
    conditions = Conditions(splits=(NetworkSplit((frozenset("a"),), at=5.2, until=10.2),))
    simulator = run(conditions=conditions, until=15.75)
    assert heard(simulator, "b", "a") == [1, 2, 3, 4, *range(11, 16)]  # what was on its way is lost
    assert heard(simulator, "b", "c") == list(range(1, 16))


def test_an_outage_keeps_or_loses_memory():
    for loses, expected in ((False, [*range(1, 6), *range(6, 11)]), (True, [*range(1, 6), *range(1, 6)])):
        conditions = Conditions(outages=(Outage("a", 5.7, 10.2, loses),))
        simulator = run(conditions=conditions, until=15.75)
        assert heard(simulator, "b", "a") == expected
        assert heard(simulator, "a", "b") == list(range(10, 16))
    forever = run(conditions=Conditions(outages=(Outage("a", 5.7),)), n_ticks=9, until=50)
    assert forever.sites["a"].program is None and forever.sites["a"].last.count == 5
    assert forever.now == 9.0  # the others have stopped


def test_graphs_may_change_and_have_directions():
    def graph(now):
        return nx.DiGraph([(0, 1), (1, 2), (2, 0)] if now < 5 else [(1, 0), (2, 1), (0, 2)])

    simulator = run(graph=graph, until=10.75)
    assert simulator.sites["a"].program.diary[0][2] == ("b",)
    assert (5.0, "neighbours", ("c",)) in simulator.sites["a"].program.diary
    assert max(heard(simulator, "b", "a")) == 4 and min(heard(simulator, "c", "a")) == 5


def test_a_run_ends_when_all_have_stopped_and_can_be_watched():
    simulator = Simulator({"a": lambda: Diary(n_ticks=3), "b": lambda: Diary(n_ticks=6)}, make_graph("complete", 2))
    assert simulator.run() == "stopped" and simulator.now == 6.0
    seconds = []
    simulator = Simulator({"a": Diary}, make_graph("complete", 1))
    assert simulator.run(watch=lambda s: seconds.append(round(s.now)) or len(seconds) == 4) == "watch"
    assert seconds == [1, 2, 3, 4] and simulator.run(until=7.5) == "until"
    assert simulator.programs["a"].count == 7


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="sites that do not exist: z"):
        run(conditions=Conditions(joins={"z": 1.0}))
    with pytest.raises(ValueError, match=r"nodes 0 \.\. 2"):
        run(graph=nx.path_graph(4))
    with pytest.raises(ValueError, match=r"loss must be a probability in \[0, 1\], got 2"):
        LinkFaults(loss=2)
    with pytest.raises(ValueError, match="delay must be two finite numbers"):
        LinkFaults(delay=(1.0, 0.5))
