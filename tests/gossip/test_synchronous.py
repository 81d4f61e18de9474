"""Common rounds: exactly one message an edge without faults, and the same rounds whatever the network does."""

from typing import Annotated

import networkx as nx
import numpy as np
import pytest
from fuzz.listening import heard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.gossip.messages import Array, Numbers, pack, unpack
from dimargin.gossip.program import Report, Send
from dimargin.gossip.programs.learner import LearnerSettings
from dimargin.gossip.rounds.merging import Mean
from dimargin.gossip.rounds.synchronous import Synchronous
from dimargin.gossip.rounds.turns import Step, Turn, Waiting
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, NetworkSplit, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import make_graph, metropolis_weights


class Vector(Step, frozen=True, tag="vector"):
    """Vector of a site."""

    values: Annotated[Array, Numbers()]


class Averaging(Synchronous):
    """Plain averaging, a round of which is x <- W x."""

    kinds = (Vector,)
    state = ("values",)

    def __init__(self, values, lease=20.0, seed=(0,)):
        super().__init__(LearnerSettings(lease=lease), seed)
        self.values, self.have_left, self.heard_of = np.array(values), [], []
        self.by_round = [self.values]

    def outgoing(self, neighbour):
        return Vector(**self.head, values=self.values)

    def advance(self, messages):
        self.heard_of.append(tuple(messages))
        vectors = {name: message.values for name, message in messages.items()}
        self.values = Mean()(self.values, vectors, self.metropolis(messages))
        self.by_round.append(self.values)

    def fault(self, sender, message):
        return None if len(message.values) == len(self.values) else f"shape {message.values.shape}"

    def left(self, name):
        self.have_left.append(name)


NAMES = [f"site{i}" for i in range(6)]
VALUES = np.random.default_rng(0).normal(size=(6, 3))


def simulated(topology="ring", conditions=None, lease=20.0, seed=0, names=NAMES):
    makers = {name: lambda v=v: Averaging(v, lease) for name, v in zip(names, VALUES, strict=False)}
    graph = make_graph(topology, len(names)) if isinstance(topology, str) else topology
    return Simulator(makers, graph, conditions or Conditions(), seed)


def expected(n_rounds, graph):
    found, weights = [VALUES], metropolis_weights(graph)
    for _ in range(n_rounds):
        found.append(weights @ found[-1])
    return np.array(found)


@pytest.mark.parametrize("topology", ["ring", "star", "complete", "grid"])
def test_without_faults_a_round_is_one_message_an_edge_each_way(topology):
    simulator = simulated(topology)
    simulator.run(until=30.75)
    graph = make_graph(topology, 6)
    assert simulator.counts["messages"] == 31 * 2 * graph.number_of_edges()
    matrices = expected(30, graph)
    for i, program in enumerate(simulator.programs.values()):
        assert program.rounds == 30 and not program.have_left
        assert_allclose(program.by_round, matrices[:, i], rtol=1e-12, atol=1e-14)


HARSH = {
    "long delays": Conditions(LinkFaults((0.0, 5.0), 0.2, 0.5), jitter=0.5),
    "unequal clocks": Conditions.asynchronous(loss=0.2, speeds={"site1": 0.3, "site4": 3.0}),
    "one silent way for a while": Conditions(
        splits=(NetworkSplit((frozenset({"site0"}),), 5.2, 15.9),),
    ),
    "crashes": Conditions.asynchronous(
        loss=0.3, duplication=0.2, outages=tuple(Outage(f"site{i}", 5.3 + 7 * i, 9.1 + 8 * i) for i in range(6))
    ),
}


@pytest.mark.parametrize("topology", ["ring", "star", "complete"])
@pytest.mark.parametrize("name", HARSH)
def test_faults_change_nothing_but_the_time(topology, name):
    """Every site computes what it would in step, bit for bit up to the order of sums."""
    simulator = simulated(topology, HARSH[name], lease=60.0)
    simulator.run(until=200.0)
    programs = list(simulator.programs.values())
    rounds = [program.rounds for program in programs]
    graph = make_graph(topology, 6)
    assert min(rounds) > 25 and max(rounds) - min(rounds) <= nx.diameter(graph)
    matrices = expected(max(rounds), graph)
    for i, program in enumerate(programs):
        assert program.edges and not program.have_left
        assert_allclose(program.values, matrices[program.rounds, i], rtol=1e-12, atol=1e-14)
        assert not program.neighbourhood.refused


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(
    st.integers(0, 1000),
    st.floats(0, 0.4),
    st.floats(0, 0.5),
    st.floats(0, 3),
    st.sampled_from(["ring", "star", "grid", "erdos_renyi"]),
)
def test_rounds_do_not_depend_on_the_network(seed, loss, duplication, delay, topology):
    simulator = simulated(topology, Conditions(LinkFaults((0.0, delay), loss, duplication), jitter=0.5), 80.0, seed)
    simulator.run(until=60.0)
    matrices = expected(80, make_graph(topology, 6))
    for i, program in enumerate(simulator.programs.values()):
        assert program.rounds >= 3
        assert_allclose(program.values, matrices[program.rounds, i], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_neighbours_that_leave_for_good_are_left_out(loss):
    """Two of the six of a ring leave site0 alone, and the other three go on."""
    gone = tuple(Outage(name, 10.2) for name in ("site1", "site5"))
    conditions = Conditions(LinkFaults(loss=loss), outages=gone)
    simulator = simulated("ring", conditions, lease=10.0)
    simulator.run(until=150.0)
    programs = simulator.programs
    assert all(program.rounds > 90 - 150 * loss for program in programs.values())
    assert programs["site0"].heard_of[-1] == () and programs["site2"].heard_of[-1] == ("site3",)
    assert "site1" in programs["site0"].have_left
    three = [programs[f"site{i}"].values for i in (2, 3, 4)]
    assert np.ptp(three, axis=0).max() < 1e-6
    assert {report.facts["site"] for _, _, report in simulator.reports if report.what == "silent"} == {"site1", "site5"}


def test_a_late_site_joins_at_the_round_of_the_others():
    simulator = simulated("ring", Conditions(joins={"site2": 60.0}), lease=10.0)
    simulator.run(until=120.75)
    rounds = [program.rounds for program in simulator.programs.values()]
    assert max(rounds) - min(rounds) <= 3 and min(rounds) > 100
    assert simulator.programs["site1"].have_left == ["site2"]
    assert simulator.programs["site1"].members == ["site0", "site2"]
    assert np.ptp([program.values for program in simulator.programs.values()], axis=0).max() < 1e-3


@pytest.mark.parametrize("loses_memory", [False, True])
@pytest.mark.parametrize("seconds", [5.0, 60.0])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_a_site_that_crashes_returns(loses_memory, seconds, loss):
    down = Outage("site3", 20.2, 20.2 + seconds, loses_memory)
    conditions = Conditions.asynchronous(loss=loss, duplication=loss, outages=(down,))
    simulator = simulated("ring", conditions, lease=15.0)
    simulator.run(until=200.0)
    programs = list(simulator.programs.values())
    rounds = [program.rounds for program in programs]
    assert max(rounds) - min(rounds) <= 4 and min(rounds) > 30
    assert all(len(program.members) == 2 and len(program.heard_of[-1]) == 2 for program in programs)
    assert np.ptp([program.values for program in programs], axis=0).max() < 0.05
    if not loses_memory and seconds < 10:
        matrices = expected(max(rounds), make_graph("ring", 6))
        for i, program in enumerate(programs):
            assert_allclose(program.values, matrices[program.rounds, i], rtol=1e-12, atol=1e-14)


def test_groups_that_were_apart_go_on_together():
    """One group had stood still when its rounds began again: numbers of rounds differ, turns do not."""
    half = NetworkSplit((frozenset({"site0", "site1", "site2"}),), 0.0, 80.0)
    speeds = {f"site{i}": 0.2 for i in range(3)}
    simulator = simulated("ring", Conditions(splits=(half,), speeds=speeds), lease=10.0)
    simulator.run(until=75.0)
    apart = [program.rounds for program in simulator.programs.values()]
    assert max(apart[:3]) < 20 and min(apart[3:]) > 40
    simulator.run(until=600.0)
    assert all(len(program.heard_of[-1]) == 2 for program in simulator.programs.values())
    assert np.ptp([program.values for program in simulator.programs.values()], axis=0).max() < 1e-3


@pytest.mark.parametrize("seed", range(6))
def test_everything_at_once_blocks_nobody(seed):
    """Sites crash, forget, and come back, edges close and open in the middle of rounds, and all are in step again."""
    rng = np.random.default_rng(seed)
    outages = tuple(
        Outage(f"site{i}", at, at + rng.uniform(1, 40), bool(rng.integers(2)))
        for i in range(6) for at in (rng.uniform(3, 40), rng.uniform(90, 120))
    )  # fmt: skip
    splits = tuple(
        NetworkSplit((frozenset(rng.choice(NAMES, 2, replace=False).tolist()),), at, at + rng.uniform(5, 30))
        for at in rng.uniform(0, 170, size=4)
    )
    speeds = {name: float(rng.uniform(0.5, 2)) for name in NAMES}
    conditions = Conditions.asynchronous(loss=0.3, duplication=0.2, outages=outages, splits=splits, speeds=speeds)
    simulator = simulated("complete" if seed % 2 else "ring", conditions, lease=25.0, seed=seed)
    simulator.run(until=280.0)
    before = [program.rounds for program in simulator.programs.values()]
    simulator.run(until=400.0)
    programs = list(simulator.programs.values())
    assert all(program.rounds - rounds > 10 for program, rounds in zip(programs, before, strict=True))
    assert all(len(program.heard_of[-1]) == (5 if seed % 2 else 2) for program in programs)
    assert not any(program.neighbourhood.refused for program in programs)


def begun(neighbours=("eve", "bob")):
    program = Averaging(np.zeros(3), lease=10.0)
    list(program.start(0.0, neighbours))
    return program


def vector(number=1, values=(1.0, 2.0, 3.0), **turn):
    known = {"life": 1, "knows": 1, "acknowledged": 0} | turn
    return Vector(Turn(number=number, **known), 0, 2, "", np.array(values))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (vector(values=(1.0, 2.0)), r"shape \(2,\)"),
        (vector(values=(1.0, 2.0, np.nan)), "values has NaN"),
        (vector(number=3), "it sends message 3 before it can have had message 2 of this site"),
        (vector(number=2**60), "turn"),
        (vector(life=0), "turn"),
    ],
)
def test_a_message_of_no_correct_site_is_refused(message, reason):
    import re

    program = begun()
    found = heard(program, 0.5, "eve", message)
    assert [action for action in found if type(action) is Report]
    assert re.search(reason, program.neighbourhood.refused["eve"])
    assert program.members == ["bob"]
    heard(program, 0.6, "bob", vector())
    assert [action.to for action in program.wake(1.0, "round") if type(action) is Send] == ["bob"]
    assert program.rounds == 1


def test_what_does_not_fit_is_ignored():
    program = begun()
    for message in (
        vector(life=1, knows=2**30, acknowledged=0, number=0),
        Waiting(Turn(), 0, 0, "another schema"),
        vector(number=0),
    ):
        assert not heard(program, 0.5, "eve", message) and not program.neighbourhood.refused
    assert not heard(program, 0.5, "nobody", vector())
    assert program.edges["eve"].received == 0


def test_one_that_repeats_itself_is_refused():
    program = begun()
    for _ in range(110):
        heard(program, 0.5, "eve", vector())
    assert "it repeats old messages" in program.neighbourhood.refused["eve"]


def test_too_many_messages_are_refused():
    program = begun()
    program.neighbourhood.max_messages = 20
    for _ in range(30):
        heard(program, 0.5, "eve", Waiting(Turn(1, 1, 0, 0), 0, 2, ""))
    assert "more than 20 messages a second" in program.neighbourhood.refused["eve"]


def test_one_that_lives_but_brings_nothing_is_left_out_for_ever_longer():
    program, times = begun(("eve",)), []
    for second in range(1, 400):
        turn = program.edges["eve"].turn()
        heard(program, second - 0.5, "eve", Waiting(Turn(1, turn.life, 0, 0), 0, 1, ""))
        actions = list(program.wake(float(second), "round"))
        times += [second for action in actions if type(action) is Report and action.what == "stuck"]
    assert np.allclose(np.diff(times), [51, 71, 111], atol=2) and times[0] == 31
    assert program.rounds > 200  # all the time that it was out


def test_a_missing_message_is_asked_for_and_sent_again():
    """Small messages ask; a vector goes again only where it was lost."""
    program = begun()
    heard(program, 0.5, "bob", vector())
    assert not [a for a in program.wake(0.8, "round") if type(a) is Send]  # Eve's message may be on its way.
    asking = list(program.wake(1.0, "round"))
    assert [(a.to, type(a.message), a.message.turn.acknowledged) for a in asking if type(a) is Send] == [
        ("eve", Waiting, 0), ("bob", Waiting, 1),
    ]  # fmt: skip
    assert not heard(program, 1.2, "bob", Waiting(Turn(1, 1, 0, 1), 0, 2, ""))  # lacks nothing
    answer = heard(program, 1.3, "bob", Waiting(Turn(1, 1, 0, 0), 0, 2, ""))
    assert [(a.to, type(a.message), a.message.turn) for a in answer] == [("bob", Vector, Turn(1, 1, 1, 1))]
    assert not heard(program, 1.4, "bob", Waiting(Turn(1, 1, 0, 0), 0, 2, ""))  # it may be on its way
    done = heard(program, 1.5, "eve", vector())
    assert [a.message.turn.number for a in done if type(a) is Send] == [2, 2] and program.rounds == 1


def test_a_checkpoint_is_the_whole_state():
    simulator = simulated("ring", Conditions.asynchronous(loss=0.3, duplication=0.2))
    simulator.run(until=33.3)
    for program in simulator.programs.values():
        again = Averaging(np.zeros(3))
        again.restore(unpack(pack(program.checkpoint())))
        assert pack(again.checkpoint()) == pack(program.checkpoint())
        assert_array_equal(again.values, program.values)
    state = program.checkpoint()
    state["learnt"]["values"] = np.full(3, np.nan)
    with pytest.raises(ValueError, match="its values are NaN or infinite"):
        again.restore(state)


def test_links_of_one_way_are_refused():
    with pytest.raises(ValueError, match=r"lease must be finite, got inf"):
        Averaging(np.zeros(3), lease=np.inf)
