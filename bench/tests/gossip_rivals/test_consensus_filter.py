"""The consensus filter: its matrix, its limit, and what faults do to it."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dimargin.gossip.messages import UnsoundError, decoder, encode, pack, unpack
from dimargin.gossip.program import Report, Send
from dimargin.gossip.simulation.conditions import Conditions, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import TOPOLOGIES, make_graph, metropolis_weights
from dimargin_bench.gossip_rivals.consensus_filter import ConsensusFilter, FilterValues, filter_rounds, largest_step

FAULTS = Conditions.asynchronous(loss=0.3, duplication=0.2)


def network(values, graph, rounds, beta=1.0, conditions=None, lease=20.0):
    programs = {f"site{k}": (lambda v=v: ConsensusFilter(v, rounds, beta, lease)) for k, v in enumerate(values)}
    return Simulator(programs, graph, conditions or Conditions(), 2)


def found(simulator):
    return np.array([site.last.value for site in simulator.sites.values()])


@given(st.integers(2, 10), st.floats(0, 0.6), st.integers(0, 99), st.floats(0.1, 1.0), st.integers(1, 12))
@settings(max_examples=30)
def test_rounds_are_products_with_the_matrix(n, p, seed, beta, rounds):
    graph = nx.random_labeled_tree(n, seed=seed)
    graph.add_edges_from(nx.erdos_renyi_graph(n, p, seed=seed).edges)
    values = np.random.default_rng(seed).normal(size=(n, 3))
    simulator = network(values, graph, rounds, beta)
    assert simulator.run() == "stopped"
    matrix = (1 - beta) * np.eye(n) + beta * metropolis_weights(graph)
    assert_allclose(found(simulator), np.linalg.matrix_power(matrix, rounds) @ values, atol=1e-12)
    assert simulator.counts["messages"] == 2 * graph.number_of_edges() * (rounds + 1)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_largest_step_divides_what_tends_to_the_mean_from_what_does_not(topology):
    graph = make_graph(topology, 9, 1)
    most = largest_step(graph)
    assert most > 1
    vectors = np.linalg.eigh(metropolis_weights(graph))[1]
    values = vectors[:, :1] + 2.0  # the fastest mode, which is the first to grow
    for beta, shrinks in ((0.99 * most, True), (1.01 * most, False)):
        simulator = network(values, graph, 60, beta)
        simulator.run()
        distance = np.abs(found(simulator) - 2.0).max() / np.abs(values - 2.0).max()
        assert (distance < 1) == shrinks


@pytest.mark.parametrize("topology", ["ring", "star", "grid", "complete"])
@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_after_the_rounds_for_a_tolerance_sites_are_as_near(topology, beta):
    graph = make_graph(topology, 10)
    values = np.random.default_rng(0).normal(size=(10, 4))
    simulator = network(values, graph, filter_rounds(graph, beta, 1e-3), beta)
    simulator.run()
    off = np.linalg.norm(found(simulator) - values.mean(axis=0), axis=0)
    assert (off <= 1.001e-3 * np.linalg.norm(values - values.mean(axis=0), axis=0)).all()
    assert filter_rounds(make_graph("complete", 10), 1.0, 1e-3) == 1


def test_with_faults_sites_agree_on_a_weighted_mean():
    values = np.random.default_rng(0).normal(size=(8, 5))
    simulator = network(values, make_graph("ring", 8), 400, conditions=FAULTS)
    assert simulator.run(until=1200) == "stopped"
    assert min(simulator.counts[name] for name in ("lost", "duplicated")) > 100
    found_values = found(simulator)
    assert np.ptp(found_values, axis=0).max() < 1e-6
    assert (found_values >= values.min(axis=0)).all() and (found_values <= values.max(axis=0)).all()
    assert np.abs(found_values[0] - values.mean(axis=0)).max() < 0.5 * np.ptp(values)


def test_sites_that_leave_are_left_out_and_those_that_return_are_heard():
    values = np.arange(6.0)[:, None]
    gone = Conditions(outages=(Outage("site0", 1.2),))
    simulator = network(values, make_graph("complete", 6), 80, conditions=gone, lease=5.0)
    assert simulator.run(until=200) == "stopped"
    assert np.ptp(found(simulator)[1:]) < 1e-9
    back = Conditions(outages=(Outage("site0", 3.2, 40.0, loses_memory=True),))
    simulator = network(values, make_graph("ring", 6), 120, conditions=back, lease=5.0)
    assert simulator.run(until=400) == "stopped"
    assert np.ptp(found(simulator)) < 1e-3


def test_late_and_repeated_messages_do_nothing():
    program = ConsensusFilter(np.zeros(1), 9)
    list(program.start(0.0, ["there"]))
    for sequence, value in ((5, 4.0), (4, 9.0), (5, 9.0)):
        list(program.receive(0.5, "there", FilterValues(sequence, 1, np.array([value]))))
    list(program.wake(1.0, "round"))
    assert program.value == 2.0  # a step of one half towards four
    list(program.receive(1.5, "there", FilterValues(40, 1, np.array([2.0]))))
    list(program.receive(1.5, "there", FilterValues(1, 1, np.array([4.0]))))  # it has begun anew
    list(program.wake(2.0, "round"))
    assert program.value == 3.0
    again = ConsensusFilter(np.zeros(1), 9)
    again.restore(unpack(pack(program.checkpoint())))
    assert pack(again.checkpoint()) == pack(program.checkpoint())
    (send, _) = again.start(3.0, ["there"])
    assert isinstance(send, Send) and send.message.sequence == 4 and send.message.values == 3.0


def test_senders_of_false_values_are_refused():
    program = ConsensusFilter(np.zeros(2), 9)
    list(program.start(0.0, ["there"]))
    (report,) = program.receive(0.5, "there", FilterValues(1, 1, np.ones(3)))
    assert isinstance(report, Report) and "shape (3,), expected (2,)" in report.facts["reason"]
    assert not list(program.receive(0.6, "there", FilterValues(1, 1, np.ones(2))))
    list(program.wake(1.0, "round"))
    assert (program.value == 0).all()
    for wrong in (
        FilterValues(1, 1, np.array([np.inf])),
        FilterValues(-1, 1, np.ones(2)),
        FilterValues(1, -1, np.ones(2)),
    ):
        with pytest.raises(UnsoundError):
            decoder((FilterValues,))(encode(wrong))


def test_parameters_out_of_range():
    with pytest.raises(ValueError, match="beta must be a positive number, got 0"):
        ConsensusFilter(np.zeros(1), 1, 0)
    with pytest.raises(ValueError, match="rounds must be a whole number of 1 or more, got 0"):
        ConsensusFilter(np.zeros(1), 0)
