"""Push-Sum: mass is conserved, whatever happens to messages, and every site learns the mean."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.programs.average import Average
from dimargin.gossip.push_sum import Edge, PushSum
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, NetworkSplit, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import make_graph, mixing_rounds, uniform_weights


def sites(values, weights=None):
    weights = np.ones(len(values)) if weights is None else weights
    return {f"site{i}": lambda i=i: Average(np.atleast_1d(values[i]), weights[i]) for i in range(len(values))}


def masses(simulator):
    return np.array([program.push_sum.mass for program in simulator.programs.values()])


def estimates(simulator):
    return np.array([program.estimate for program in simulator.programs.values()])


@st.composite
def connected_graphs(draw):
    n = draw(st.integers(2, 12))
    graph = nx.random_labeled_tree(n, seed=draw(st.integers(0, 99)))
    graph.add_edges_from(nx.erdos_renyi_graph(n, draw(st.floats(0, 0.5)), seed=draw(st.integers(0, 99))).edges)
    directed = draw(st.booleans())
    if directed:  # a cycle through all, and the edges one way
        graph = nx.DiGraph([(i, (i + 1) % n) for i in range(n)] + list(graph.edges))
    return graph


@given(connected_graphs(), st.integers(0, 99))
@settings(max_examples=40)
def test_sums_are_conserved_and_are_those_of_the_matrix(graph, seed):
    rng = np.random.default_rng(seed)
    n = len(graph)
    values, weights = rng.normal(size=(n, 3)), rng.integers(0, 5, n).astype(float)
    weights[0] = 1.0
    start = np.column_stack([weights[:, None] * values, weights])
    simulator, weights_of_shares = Simulator(sites(values, weights), graph), uniform_weights(graph)
    for rounds in (1, 2, 5, 20):
        simulator.run(until=rounds + 0.75)
        found = masses(simulator)
        assert_allclose(found.sum(axis=0), start.sum(axis=0), rtol=1e-12, atol=1e-12 * np.abs(start).sum())
        assert_allclose(found, np.linalg.matrix_power(weights_of_shares, rounds) @ start, atol=1e-12)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_mean_is_learnt_though_messages_vanish_and_repeat(asynchronous):
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=(12, 2)), rng.uniform(1, 100, 12)
    link = LinkFaults(loss=0.3, duplication=0.2)
    conditions = Conditions.asynchronous(loss=0.3, duplication=0.2) if asynchronous else Conditions(link)
    simulator = Simulator(sites(values, weights), make_graph("small_world", 12), conditions, random_state=3)
    simulator.run(until=600)
    assert min(simulator.counts[name] for name in ("lost", "duplicated")) > 100
    mean = weights @ values / weights.sum()
    assert_allclose(estimates(simulator), np.tile(mean, (12, 1)), rtol=1e-6)


def test_a_site_without_weight_learns_the_mean_of_the_others():
    simulator = Simulator(sites(np.array([1.0, 5.0, 99.0]), np.array([1.0, 1.0, 0.0])), make_graph("ring", 3))
    assert np.isnan(
        next(iter(Simulator(sites(np.ones(1), np.zeros(1)), make_graph("ring", 1)).sites.values())).make().estimate
    )
    simulator.run(until=100)
    assert_allclose(estimates(simulator)[:, 0], 3.0)


@pytest.mark.parametrize("topology", ["ring", "grid", "star", "torus", "complete", "random_regular"])
def test_rounds_to_a_millionth_are_those_of_the_mixing_time(topology):
    n = 16
    graph = make_graph(topology, n, 1)
    values = np.random.default_rng(0).normal(size=n) + 3
    simulator = Simulator(sites(values), graph)
    for rounds in range(1, 1000):
        simulator.run(until=rounds + 0.75)
        if np.abs(estimates(simulator)[:, 0] - values.mean()).max() <= 1e-6 * abs(values.mean()):
            break
    assert 0.5 * mixing_rounds(uniform_weights(graph)) <= rounds <= 1.3 * mixing_rounds(uniform_weights(graph)) + 2


def test_cut_links_heal():
    values = np.arange(6.0)
    apart = NetworkSplit((frozenset({"site0", "site1", "site2"}),), at=0.0, until=60.0)
    simulator = Simulator(sites(values), nx.path_graph(6), Conditions(splits=(apart,)))
    simulator.run(until=59.75)
    assert abs(estimates(simulator)[:3].mean() - 2.5) > 0.1
    simulator.run(until=300)
    assert_allclose(estimates(simulator)[:, 0], 2.5, rtol=1e-9)


def test_a_site_that_was_down_goes_on_from_its_checkpoint():
    values = np.arange(5.0)
    simulator = Simulator(sites(values), make_graph("ring", 5), Conditions(outages=(Outage("site2", 3.2, 9.0),)))
    simulator.run(until=250)
    assert_allclose(estimates(simulator)[:, 0], 2.0, rtol=1e-9)
    assert_allclose(masses(simulator).sum(axis=0), [10.0, 5.0], rtol=1e-9)


operations = st.lists(
    st.tuples(
        st.sampled_from(
            ["share", "share", "share", "deliver", "deliver", "repeat", "lose", "forget", "reset", "change"]
        ),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=60,
)


@given(operations)
@settings(max_examples=300)
def test_whatever_happened_the_mean_is_that_of_what_sites_contribute_now(events):
    """Messages overtake, vanish and repeat; sites forget one another, lose their memory, change their minds."""
    names = "abcd"
    values = {name: np.array([float(i * i), 1.0]) for i, name in enumerate(names)}
    site = {name: PushSum(values[name]) for name in names}
    on_the_way = []
    for what, i, j in events:
        a, b = names[i], names[j]
        if what == "share" and a != b:
            on_the_way.append((a, b, site[a].shares([b])[b]))
        elif what in ("deliver", "repeat", "lose") and on_the_way:
            index = (i * 4 + j) % len(on_the_way)
            sender, receiver, mass = on_the_way[index]
            if what != "repeat":
                del on_the_way[index]
            if what != "lose":
                site[receiver].take(sender, mass)
        elif what == "forget" and a != b:
            site[a].forget(b)
        elif what == "reset":
            site[a] = PushSum(values[a])
        elif what == "change":
            values[a] = np.array([float(j), 1.0])
            site[a].contribute(values[a])
    for _ in range(12):
        given_now = [(a, b, mass) for a in names for b, mass in site[a].shares([n for n in names if n != a]).items()]
        for sender, receiver, mass in given_now:
            site[receiver].take(sender, mass)
    total = sum(values.values())
    assert_allclose([s.mass[0] / s.mass[1] for s in site.values()], total[0] / total[1], rtol=1e-9, atol=1e-9)
    assert_allclose(sum(s.mass for s in site.values()), total, rtol=1e-9, atol=1e-9)


def test_sums_that_have_grown_for_months_lose_nothing():
    a, b = PushSum(np.array([0.1, 1.0])), PushSum(np.array([0.7, 2.0]))
    months = np.array([1e13, 1e13])
    for site, other in ((a, "b"), (b, "a")):
        site.edges[other] = Edge(sent=months, received=months, knows=1)
    for _ in range(1000):
        to_b, to_a = a.shares(["b"])["b"], b.shares(["a"])["a"]
        b.take("a", to_b), a.take("b", to_a)
    assert_allclose(a.mass + b.mass, [0.8, 3.0], rtol=1e-12)
    assert_allclose([a.mass[0] / a.mass[1], b.mass[0] / b.mass[1]], 0.8 / 3, rtol=0.02)


@given(operations)
def test_news_is_what_a_message_adds(events):
    sites = {name: PushSum(np.array([float(k + 1), 1.0])) for k, name in enumerate("ab")}
    on_the_way, come = [], set()
    for what, i, j in events:
        a, b = "ab"[i % 2], "ba"[i % 2]
        if what in ("share", "change"):
            on_the_way.append((a, b, sites[a].shares([b])[b]))
        elif what in ("deliver", "repeat", "lose") and on_the_way:
            sender, receiver, mass = on_the_way[(i * 4 + j) % len(on_the_way)]
            site = sites[receiver]
            news, before, edge = site.news(sender, mass), site.mass, site.edge(sender)
            undone = edge.sent - edge.received if mass.life > edge.knows > 0 else np.zeros(2)
            is_repeated = (sender, receiver, mass.life, mass.sequence) in come
            come.add((sender, receiver, mass.life, mass.sequence))
            is_newest = site.take(sender, mass)
            assert not (is_newest and is_repeated)
            if news is not None:
                assert is_newest
                assert_allclose(site.mass, before + undone + news, atol=1e-12)
        elif what == "forget":
            sites[a].forget(b)
        elif what == "reset":
            sites[a], come = PushSum(np.array([1.0, 1.0])), set()


def test_old_messages_bring_nothing():
    a, b = PushSum(np.array([8.0, 1.0])), PushSum(np.zeros(2))
    first, second = (a.shares(["b"])["b"] for _ in range(2))
    assert b.take("a", second) and not b.take("a", first) and not b.take("a", second)
    assert_allclose(b.mass, [6.0, 0.75])
    third = a.shares(["b"])["b"]  # counts for b's first life, of which b wants to know no more
    assert b.take("a", third)
    a.take("b", b.shares(["a"])["a"])
    fourth = a.shares(["b"])["b"]
    b.forget("a")
    assert b.take("a", fourth) and not b.take("a", fourth)  # no repetition, though it adds nothing
    assert_allclose(b.mass, 0, atol=1e-12)


def test_unanswered_messages_are_counted():
    a, b = PushSum(np.ones(2)), PushSum(np.ones(2))
    for _ in range(3):
        a.shares(["b"])
    assert a.unanswered("b") == 3
    b.take("a", a.shares(["b"])["b"])
    a.take("b", b.shares(["a"])["a"])
    assert a.unanswered("b") == 0
    a.shares(["b"])
    assert a.unanswered("b") == 1


def test_checkpoints_hold_everything():
    a, b = PushSum(np.array([2.0, 1.0])), PushSum(np.array([4.0, 1.0]))
    b.take("a", a.shares(["b"])["b"])
    again = PushSum.restore(b.checkpoint())
    assert vars(again.edges["a"]).keys() == vars(b.edges["a"]).keys()
    first, second = b.shares(["a"])["a"], again.shares(["a"])["a"]
    assert (first.life, first.knows, first.sequence, first.heard) == (
        second.life, second.knows, second.sequence, second.heard
    )  # fmt: skip
    assert_allclose(first.sent, second.sent)


def test_states_that_no_site_can_have_are_healed_or_refused():
    """Counters that a former version took from others are told to nobody; what went over such an edge is undone."""
    site, other = PushSum(np.array([6.0, 1.0])), PushSum(np.array([0.0, 2.0]))
    other.take("a", site.shares(["b"])["b"])
    site.take("b", other.shares(["a"])["a"])
    assert site.mass[1] != 1.0
    state = unpack(pack(site.checkpoint()))
    state["edges"]["b"]["life"] = 2**64 - 1
    healed = PushSum.restore(state)
    assert not healed.edges
    assert_allclose(healed.mass, [6.0, 1.0])
    for value in (np.nan, np.inf):
        state = unpack(pack(site.checkpoint()))
        state["edges"]["b"]["received"][0] = value
        with pytest.raises(ValueError, match="NaN or infinite"):
            PushSum.restore(state)
