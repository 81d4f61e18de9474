"""Core-set consensus: all sites end with the same few points, which are those that determine the ball of all."""

from dataclasses import replace

import msgspec
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from ball_reference import quadratic_optimum
from core_set_sites import EXACT, dealt, indices_in, met, names_of, one_site, run
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dimargin import minimum_enclosing_ball
from dimargin.gossip.messages import decoder, encode, pack, unpack
from dimargin.gossip.program import Send, Stop
from dimargin.gossip.programs.candidates import Candidates, Name
from dimargin.gossip.programs.core_set_consensus import CoreSetConsensus
from dimargin.gossip.programs.core_set_settings import Chosen, CoreSetSettings
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import changing_digraphs, make_graph
from dimargin.kernels.functions import Kernel


@pytest.fixture
def site():
    return one_site()


NETWORKS = {
    "ring": make_graph("ring", 12),
    "directed cycle": nx.cycle_graph(12, create_using=nx.DiGraph),
    "changing": changing_digraphs(12, 0.08, 1),
}


WEATHER = {
    "calm": Conditions(),
    "a third lost": Conditions(LinkFaults(loss=0.3)),
    "asynchronous": Conditions.asynchronous(loss=0.2, duplication=0.2, speeds={"site003": 0.2, "site005": 3.0}),
}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("weather", WEATHER)
@pytest.mark.parametrize("size", [None, 5])
def test_all_sites_find_the_smallest_ball(network, weather, size):
    """Exact with growing core-sets and with d + 1 points, whatever the order of messages."""
    X = np.random.default_rng(0).normal(size=(60, 4))
    sites = dealt(X, 12, settings=replace(EXACT, size=size))
    ball = minimum_enclosing_ball(X, 0)
    for seed in range(3):
        _, chosen = run(sites, NETWORKS[network], WEATHER[weather], seed)
        np.testing.assert_array_equal(indices_in(chosen, 12), ball.core_set_indices)
        assert chosen.value == pytest.approx(ball.radius**2, rel=1e-9)
        np.testing.assert_allclose(chosen.weights @ chosen.points.X, ball.center, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(2, 9), st.integers(0, 40), st.integers(1, 5), st.integers(0, 10**6), st.booleans(), st.booleans())
def test_any_points_on_any_network(n_sites, n, d, seed, on_a_grid, lossy):
    """Duplicates, sites without a point, points on a line: one set at all sites, which holds all points."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(n + 1, d)).astype(float) if on_a_grid else rng.normal(size=(n + 1, d))
    graph = nx.gnp_random_graph(n_sites, 0.3, seed=seed, directed=True)
    nx.add_cycle(graph, rng.permutation(n_sites).tolist())
    conditions = Conditions.asynchronous(loss=0.4) if lossy else None
    epsilon, size = [(0.1, None), (0.25, 4), (0.0, None)][seed % 3]
    _, chosen = run(dealt(X, n_sites, settings=CoreSetSettings(epsilon=epsilon, size=size)), graph, conditions, seed)
    best = minimum_enclosing_ball(X, 0).radius
    reach = np.linalg.norm(X - chosen.weights @ chosen.points.X, axis=1).max()
    assert chosen.value**0.5 <= best * (1 + 1e-9) + 1e-12
    assert reach <= (1 + epsilon) * best * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("loses_memory", [False, True])
def test_sites_that_crash_or_come_late(loses_memory):
    X = np.random.default_rng(4).normal(size=(48, 3))
    outages = (Outage("site002", 3.0, 30.0, loses_memory), Outage("site005", 2.0, 25.0, loses_memory))
    conditions = Conditions(LinkFaults(loss=0.2), joins={"site007": 20.0}, outages=outages)
    forgetful = [outage.site for outage in outages if loses_memory]
    _, chosen = run(dealt(X, 8), make_graph("ring", 8), conditions, after=31.0, forgetful=forgetful)
    np.testing.assert_array_equal(indices_in(chosen, 8), minimum_enclosing_ball(X, 0).core_set_indices)


@pytest.mark.parametrize("network", ["ring", "directed cycle"])
def test_all_stop_with_the_same_set(network):
    """2 diameter + 1 quiet rounds, and not before the farthest site has been heard."""
    X = np.random.default_rng(5).normal(size=(12, 6))
    graph = NETWORKS[network]
    wanted = replace(EXACT, quiet_rounds=2 * nx.diameter(graph) + 1)
    simulator = Simulator(dealt(X, 12, settings=wanted), graph)
    assert simulator.run(until=200) == "stopped"
    ranks = {program.chosen.rank for program in simulator.programs.values()}
    assert len(ranks) == 1
    np.testing.assert_array_equal(
        indices_in(next(iter(simulator.programs.values())).chosen, 12), minimum_enclosing_ball(X, 0).core_set_indices
    )
    assert simulator.now <= 4 * nx.diameter(graph) + 4


def test_quiet_is_what_anybody_knows_of(site):
    """Rounds since the last change, here or at any site that told of one."""
    for now in range(2, 9):
        list(site.wake(float(now), "round"))
    alone = site.quiet
    message = site.message(site.chosen.points)
    list(site.receive(9.0, "other", message))
    assert site.quiet == alone > 3
    list(site.receive(9.0, "other", msgspec.structs.replace(message, quiet=2)))
    assert site.quiet == 2
    assert not met(site, "third", X=np.array([[0.5, 0.0]]))  # another core-set, if a worse one
    assert site.quiet == 0


def test_state_and_rows_shared(site):
    assert not met(site)
    actions = list(site.wake(2.0, "round"))
    assert site.shares == "rows" and site.rows_shared == 2 and not any(isinstance(a, Stop) for a in actions)
    again = CoreSetConsensus("here", site.own.X, site.own.labels, site.settings)
    again.restore(unpack(pack(site.checkpoint())))
    assert again.chosen.rank == site.chosen.rank and again.rows_shared == 2
    list(again.start(0.0, ["other"]))
    list(again.wake(1.0, "round"))
    assert again.chosen.rank == site.chosen.rank


def test_sites_that_hear_one_another_do_not_send_what_the_other_has(site):
    """The points once, then that they are still the same; again where no answer comes, or another core-set."""

    def sent(now):
        return [len(a.message.sites) for a in site.wake(now, "round") if isinstance(a, Send) and a.to == "other"]

    assert sent(2.0) == [2]  # never heard
    still = site.message(site.chosen.points.take([]))
    for now in range(3, 6):
        list(site.receive(float(now), "other", still))
        assert sent(float(now)) == [0]
    assert not met(site, X=np.array([[0.5, 0.0]]))  # a worse one
    assert [sent(float(now)) for now in range(6, 10)] == [[2], [0], [0], [0]]  # on its way, or lost
    assert not met(site, X=np.array([[0.5, 0.0]]))
    assert sent(10.0) == [2]
    assert [sent(float(now)) for now in range(11, 17)][-1] == [2]  # silent for too long: who knows


def test_messages_shrink_once_all_agree():
    X = np.random.default_rng(7).normal(size=(200, 20))
    simulator = Simulator(dealt(X, 5, settings=replace(EXACT, quiet_rounds=10**6)), make_graph("complete", 5))
    counted = []
    for until in (9.5, 10.5, 11.5):
        simulator.run(until=until)
        counted.append(simulator.counts["bytes"])
    assert counted[2] - counted[1] == counted[1] - counted[0] < 20 * 200


def test_weights_differ_and_all_agree_all_the_same():
    """What softness adds to every squared length differs from core-set to core-set, and must not rank them."""
    wanted = CoreSetSettings("ball", 1e-9, C=0.5, kernel=Kernel("linear"))
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, masses = rng.normal(size=(60, 3)), rng.uniform(0.05, 5, size=60)
        sites = {
            name: lambda name=name, i=i, X=X, masses=masses: CoreSetConsensus(
                name, X[i::5], np.ones(12), wanted, masses[i::5]
            )
            for i, name in enumerate(names_of(5))
        }
        _, chosen = run(sites, make_graph("ring", 5))
        products = X @ X.T
        best = quadratic_optimum(products + np.diag(2 / masses), products.diagonal())
        assert chosen.value == pytest.approx(best, rel=1e-7)


def test_points_that_are_appended(site):
    """A point beyond the others is in the core-set of all; one inside of none."""
    site.append(np.array([[0.5, 0.0], [4.0, 0.0]]), np.ones(2))
    assert not site.has_finished
    list(site.wake(2.0, "round"))
    assert site.chosen.points.names == (Name("here", 0), Name("here", 3)) and site.rows_shared == 3


@pytest.mark.parametrize("machine", ["ball", "margin"])
def test_sparse_points_are_what_dense_ones_are(machine):
    rng = np.random.default_rng(9)
    X = sp.random_array((60, 12), density=0.3, rng=9, format="csr")
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0) if machine == "margin" else np.ones(60)
    wanted = CoreSetSettings(machine, 1e-3, C=2.0, kernel=Kernel("rbf", gamma=0.5))
    found = [
        run(dealt(rows, 5, y, wanted), make_graph("ring", 5), Conditions(LinkFaults(loss=0.2)))[1]
        for rows in (X, X.toarray())
    ]
    assert sp.issparse(found[0].points.X) and found[0].points.names == found[1].points.names
    assert found[0].value == pytest.approx(found[1].value, rel=1e-9)
    site = CoreSetConsensus("s", X, y, wanted)
    list(site.start(0.0, []))
    list(site.wake(1.0, "round"))
    again = CoreSetConsensus("s", X, y, wanted)
    again.restore(unpack(pack(site.checkpoint())))
    assert again.chosen.rank == site.chosen.rank and again.chosen.points.digest == site.chosen.points.digest
    message = site.message(site.chosen.points)
    assert decoder((Candidates,))(encode(message)).digest == site._points_of(message).digest


def test_neighbours_that_may_be_busy_are_given_time_to_answer():
    """As long as this site took for a round itself, twice; a tenth of a second is a round."""
    wanted = replace(EXACT, lease=1.0, interval=0.1)
    for pause, patience in ((0.1, 5), (2.0, 40), (999.0, 600)):
        site = CoreSetConsensus("here", np.eye(2), np.ones(2), wanted)
        list(site.start(0.0, ["other"]))
        now, sent = pause, []
        for _ in range(1300):
            sent.append(any(isinstance(a, Send) and a.message.sites for a in site.wake(now, "round")))
            now += 0.1
        assert np.diff(np.flatnonzero(sent)).tolist()[:2] == [patience] * 2


def test_a_site_that_has_finished_is_not_undone_by_who_is_a_little_behind(site):
    site.settings = replace(site.settings, quiet_rounds=20)
    for now in range(2, 30):
        list(site.wake(float(now), "round"))
    assert site.has_finished
    same = site.message(site.chosen.points)
    for quiet, finished in ((15, True), (3, False)):
        list(site.receive(30.0, "other", msgspec.structs.replace(same, quiet=quiet)))
        list(site.wake(31.0, "round"))
        assert site.has_finished == finished


def test_a_state_of_rows_that_are_not_there_any_more_is_refused(site):
    state = unpack(pack(site.checkpoint()))
    for X in (site.own.X[:1], site.own.X * [[1.0], [2.0]]):
        with pytest.raises(ValueError, match="row 1 of this site, which others have, has changed"):
            CoreSetConsensus("here", X, np.ones(len(X)), site.settings).restore(state)
    more = CoreSetConsensus("here", np.concatenate([site.own.X, [[0.5, 0.0]]]), np.ones(3), site.settings)
    more.restore(state)
    assert more.chosen.rank == site.chosen.rank


class Boaster(CoreSetConsensus):
    """Says that its core-set is better than any."""

    def message(self, points):
        return msgspec.structs.replace(super().message(points), value=1e9)


def test_who_boasts_of_its_core_set_changes_nothing():
    X = np.random.default_rng(11).normal(size=(48, 3))
    sites = dealt(X, 8)
    for name in names_of(8)[:3]:
        sites[name] = lambda name=name: Boaster(name, X[int(name[4:]) :: 8], np.ones(6), EXACT)
    _, chosen = run(sites, make_graph("ring", 8))
    np.testing.assert_array_equal(indices_in(chosen, 8), minimum_enclosing_ball(X, 0).core_set_indices)


@settings(max_examples=60)
@given(st.integers(0, 10**6))
@example(8)
@example(58)
def test_nobody_exchanges_a_core_set_for_a_worse_one(seed):
    """From where a boaster is, exchanges may end at a worse one than before."""
    rng, wanted = np.random.default_rng(seed), replace(EXACT, size=2)
    site, boaster = (
        make(name, rng.normal(size=(n, 3)) * scale, np.ones(n), wanted)
        for make, name, n, scale in ((CoreSetConsensus, "here", 12, 1.0), (Boaster, "other", 2, 0.1))
    )
    for program in (site, boaster):
        list(program.start(0.0, ["here", "other"]))
        list(program.wake(1.0, "round"))
    before = site.chosen.rank
    list(site.receive(1.0, "other", boaster.message(boaster.chosen.points)))
    list(site.wake(2.0, "round"))
    assert site.chosen.rank >= before


def test_of_core_sets_that_are_heard_the_best_is_computed_and_no_other(monkeypatch):
    rng, counted = np.random.default_rng(12), []
    others = [CoreSetConsensus(f"other{k}", rng.normal(size=(3, 2)) * (k + 1), np.ones(3), EXACT) for k in range(5)]
    site = CoreSetConsensus("here", np.zeros((1, 2)), np.ones(1), EXACT)
    list(site.start(0.0, []))
    list(site.wake(1.0, "round"))
    for other in others:
        list(other.wake(1.0, "round"))
        assert not list(site.receive(1.0, other.name, other.message(other.chosen.points)))
    of = Chosen.of
    monkeypatch.setattr(Chosen, "of", lambda points, settings: counted.append(points) or of(points, settings))
    list(site.wake(2.0, "round"))
    best = max(others, key=lambda other: other.chosen.value)
    assert len(counted) == 2 and {name.site for name in counted[0].names} == {best.name}


def test_a_site_without_rows_that_has_forgotten_all_is_told_again():
    """It says that it has nothing: its neighbour thinks that it still has the core-set."""
    X = np.random.default_rng(13).normal(size=(20, 3))
    wanted = replace(EXACT, lease=5.0, quiet_rounds=10**6)
    sites = {
        name: lambda name=name, rows=rows: CoreSetConsensus(name, rows, np.ones(len(rows)), wanted)
        for name, rows in (("full", X), ("empty", X[:0]))
    }
    forgetful = Conditions(outages=(Outage("empty", 20.0, 25.0, loses_memory=True),))
    simulator = Simulator(sites, make_graph("complete", 2), forgetful)
    for until in (15.0, 60.0):
        simulator.run(until=until)
        full, empty = simulator.programs["full"], simulator.programs["empty"]
        assert empty.chosen is not None and empty.chosen.rank == full.chosen.rank
        assert full.quiet > 5


@pytest.mark.parametrize(
    ("name", "value", "words"), [("X", np.nan, "X has NaN"), ("X", 60.0, "norm of"), ("masses", 1e-320, "masses has")]
)
def test_a_state_whose_core_set_no_site_would_tell_of_is_refused(name, value, words):
    site = one_site()
    met(site)
    list(site.wake(2.0, "round"))
    state = unpack(pack(site.checkpoint()))
    state[name].flat[0] = value
    with pytest.raises(ValueError, match=words):
        one_site().restore(state)
