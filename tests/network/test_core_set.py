"""Core-set consensus: all sites end with the same few points, which are those that determine the ball of all."""

import re
from dataclasses import replace

import msgspec
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from ball_reference import quadratic_optimum
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dimargin import CoreSetSVMClassifier, minimum_enclosing_ball
from dimargin.kernels import Kernel
from dimargin.network.conditions import Conditions, Link, Outage
from dimargin.network.messages import decoder, encode, pack, unpack
from dimargin.network.program import Report, Send, Stop
from dimargin.network.programs.candidates import Candidates, Named, points_of
from dimargin.network.programs.core_set import CoreSetConsensus
from dimargin.network.programs.core_set_settings import Chosen, CoreSetSettings
from dimargin.network.simulator import Simulator
from dimargin.network.topology import changing_digraphs, make_graph

EXACT = CoreSetSettings(epsilon=0.0)


def names_of(n_sites):
    return [f"site{i:03}" for i in range(n_sites)]


def dealt(X, n_sites, signs=None, settings=EXACT):
    """Sites that hold every n_sites-th point."""
    signs = np.ones(X.shape[0]) if signs is None else signs
    return {
        name: lambda name=name, i=i: CoreSetConsensus(name, X[i::n_sites], signs[i::n_sites], settings)
        for i, name in enumerate(names_of(n_sites))
    }


def run(sites, graph, conditions=None, seed=0, until=400.0, after=0.0, forgetful=()):
    """Until all agree; radii are watched on the way, but those of sites that lose their memory."""
    simulator, ranks = Simulator(sites, graph, conditions, seed), {}

    def agreed(_):
        for name, program in simulator.programs.items():
            rank = program.chosen.rank if program.chosen else (-np.inf, ())
            assert name in forgetful or rank >= ranks.get(name, rank), "a radius fell"
            ranks[name] = rank
        return (
            simulator.now > after
            and len({*ranks.values()}) == 1
            and len(ranks) == len(sites)
            and all(r[1] for r in ranks.values())
        )

    end = simulator.run(until=until, watch=agreed)
    assert end in ("watch", "stopped")
    return simulator, next(iter(simulator.programs.values())).chosen


def places_in(chosen, n_sites):
    """Of the core-set in the array that was dealt."""
    index = {name: i for i, name in enumerate(names_of(n_sites))}
    return np.sort([index[site] + n_sites * row for site, row in chosen.points.names])


NETWORKS = {
    "ring": make_graph("ring", 12),
    "directed cycle": nx.cycle_graph(12, create_using=nx.DiGraph),
    "changing": changing_digraphs(12, 0.08, 1),
}
WEATHER = {
    "calm": Conditions(),
    "a third lost": Conditions(Link(loss=0.3)),
    "asynchronous": Conditions.asynchronous(loss=0.2, duplication=0.2, speeds={"site003": 0.2, "site005": 3.0}),
}


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
        np.testing.assert_array_equal(places_in(chosen, 12), ball.core_set_indices)
        assert chosen.value == pytest.approx(ball.radius**2, rel=1e-9)
        np.testing.assert_allclose(chosen.weights @ chosen.points.X, ball.center, atol=1e-9)


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


@pytest.mark.parametrize("kernel", [None, Kernel("rbf", gamma=0.5), Kernel("poly", gamma=0.5, degree=2, coef0=1.0)])
def test_margin_machines(kernel):
    """The L2-SVM of all rows, of sites that hold one class each."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=120) > 0, 1.0, -1.0)
    order = np.argsort(y, kind="stable")
    X, y, n_sites = X[order], y[order], 6
    shards = np.array_split(np.arange(120), n_sites)
    wanted = CoreSetSettings("margin", 1e-3, C=2.0, kernel=kernel, intercept=True)
    sites = {
        name: lambda name=name, rows=rows: CoreSetConsensus(name, X[rows], y[rows], wanted)
        for name, rows in zip(names_of(n_sites), shards, strict=True)
    }
    _, chosen = run(sites, make_graph("ring", n_sites), Conditions(Link(loss=0.2)))
    options = {"kernel": "linear"} if kernel is None else {
        "kernel": kernel.name, "gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0
    }  # fmt: skip
    machine = CoreSetSVMClassifier(2.0, **options).fit(X, y)
    rho = -chosen.value
    assert 0.5 / rho == pytest.approx(machine.dual_objective_, rel=2e-3)
    assert 0.5 / rho <= machine.dual_objective_ * (1 + 1e-9)


@pytest.mark.parametrize("C", [0.5, 10.0])
def test_soft_descriptions(C):
    X = np.random.default_rng(3).normal(size=(80, 3))
    kernel = Kernel("rbf", gamma=0.5)
    sites = dealt(X, 5, settings=CoreSetSettings("ball", 1e-6, C=C, kernel=kernel))
    _, chosen = run(sites, make_graph("complete", 5))
    values = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    assert chosen.value == pytest.approx(quadratic_optimum(values + np.eye(80) / C, np.ones(80)), rel=1e-5)


@pytest.mark.parametrize("loses_memory", [False, True])
def test_sites_that_crash_or_come_late(loses_memory):
    X = np.random.default_rng(4).normal(size=(48, 3))
    outages = (Outage("site002", 3.0, 30.0, loses_memory), Outage("site005", 2.0, 25.0, loses_memory))
    conditions = Conditions(Link(loss=0.2), joins={"site007": 20.0}, outages=outages)
    forgetful = [outage.site for outage in outages if loses_memory]
    _, chosen = run(dealt(X, 8), make_graph("ring", 8), conditions, after=31.0, forgetful=forgetful)
    np.testing.assert_array_equal(places_in(chosen, 8), minimum_enclosing_ball(X, 0).core_set_indices)


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
        places_in(next(iter(simulator.programs.values())).chosen, 12), minimum_enclosing_ball(X, 0).core_set_indices
    )
    assert simulator.now <= 4 * nx.diameter(graph) + 4


def told(**changes):
    """What a site says of a point far away."""
    message = {
        "sites": ["other"], "rows": np.array([0]), "X": np.array([[9.0, 9.0]]), "labels": np.ones(1),
        "masses": np.ones(1), "quiet": 0,
    }  # fmt: skip
    message |= changes
    try:
        digest = points_of(message["sites"], message, 2).digest
    except (ValueError, IndexError, TypeError):
        digest = ""
    return Candidates(**{"digest": digest, **message})


def met(program, sender="other", **changes):
    """What a site does with a message."""
    return list(program.receive(0.0, sender, told(**changes)))


@pytest.fixture
def site():
    program = CoreSetConsensus("here", np.array([[0.0, 0.0], [1.0, 0.0]]), np.ones(2), replace(EXACT, norm_bound=50.0))
    list(program.start(0.0, ["other", "third"]))
    list(program.wake(1.0, "round"))
    return program


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"X": np.array([[np.nan, 0.0]])}, "NaN or infinite"),
        ({"X": np.array([[np.inf, 0.0]])}, "NaN or infinite"),
        ({"X": np.array([[1.0, 2.0, 3.0]])}, r"shape \(1, 3\), expected \(1, 2\)"),
        ({"labels": np.array([0.5])}, "labels other than -1, 1"),
        ({"digest": "0123"}, "another digest than it says"),
        ({"value": np.nan}, "NaN or infinite"),
        ({"labels": np.ones(2)}, "shape"),
        ({"rows": np.array([0, 1])}, "shape"),
        ({"masses": np.zeros(1)}, "weights that are not positive"),
        ({"masses": np.array([np.nan])}, "weights that are not positive"),
        ({"sites": []}, "for 0 points"),
        ({"indices": np.array([0, 1]), "indptr": np.array([0, 2]), "X": np.ones(2)}, "columns of shapes"),
        ({"X": np.array([[60.0, 0.0]])}, "norm of 60, expected at most 50"),
        ({"sites": ["here"]}, "another site has its name"),
        ({"sites": ["here"], "rows": np.array([7])}, "another site has its name"),
        (
            {
                "sites": ["other"] * 2,
                "rows": np.zeros(2, dtype=np.int64),
                "X": np.ones((2, 2)),
                "labels": np.ones(2),
                "masses": np.ones(2),
            },
            "names a point twice",
        ),
    ],
)
def test_unsound_messages_are_refused(site, changes, words):
    before = site.chosen
    (report,) = met(site, **changes)
    assert isinstance(report, Report) and report.what == "refused" and report.facts["site"] == "other"
    assert re.search(words, report.facts["reason"])
    assert not met(site)  # not listened to any more
    list(site.wake(2.0, "round"))
    assert site.chosen == before and "other" in site.status()["refused"]


def test_one_name_for_two_points_is_refused(site):
    assert not met(site)
    list(site.wake(2.0, "round"))
    assert ("other", 0) in site.chosen.points.names
    (report,) = met(site, "third", X=np.array([[5.0, 5.0]]))
    assert "row 0 of site 'other' is another point than others say" in report.facts["reason"]


def test_quiet_is_what_anybody_knows_of(site):
    """Rounds since the last change, here or at any site that told of one."""
    for now in range(2, 9):
        list(site.wake(float(now), "round"))
    alone = site.status()["quiet"]
    message = site._message(site.chosen, site.chosen.points)
    list(site.receive(9.0, "other", message))
    assert site.status()["quiet"] == alone > 3
    list(site.receive(9.0, "other", msgspec.structs.replace(message, quiet=2)))
    assert site.status()["quiet"] == 2
    assert not met(site, "third", X=np.array([[0.5, 0.0]]))  # another core-set, if a worse one
    assert site.status()["quiet"] == 0


def test_messages_of_other_rows_are_left_alone(site):
    assert not met(site, schema="another") and not site._heard


def test_equal_points_of_two_sites_are_two_points():
    """Only their softness tells them apart: each carries half of the weight."""
    wanted = CoreSetSettings("margin", 1e-9, C=1.0, kernel=Kernel("rbf"), intercept=False)
    sites = dealt(np.zeros((2, 2)), 2, settings=wanted)
    _, chosen = run(sites, make_graph("complete", 2))
    assert chosen.points.names == (("site000", 0), ("site001", 0))
    np.testing.assert_allclose(chosen.weights, 0.5)
    assert -chosen.value == pytest.approx(1.5)


def test_state_and_rows_shared(site):
    assert not met(site)
    actions = list(site.wake(2.0, "round"))
    assert site.shares == "rows" and site.rows_shared == 2 and not any(isinstance(a, Stop) for a in actions)
    again = CoreSetConsensus("here", site.own.X, site.own.labels, site.settings)
    again.restore(unpack(pack(site.checkpoint())))
    assert again.chosen.rank == site.chosen.rank and again.status()["rows_shared"] == 2
    list(again.start(0.0, ["other"]))
    list(again.wake(1.0, "round"))
    assert again.chosen.rank == site.chosen.rank


def test_order_is_total():
    """Of sets with the same radius the names decide, and they are the same however the points come."""
    X = np.vstack([np.eye(3), -np.eye(3)])
    points = Named(tuple((f"s{i}", 0) for i in range(6)), X, np.ones(6), np.ones(6))
    whole = Chosen.of(points, EXACT)
    for seed in range(5):
        assert Chosen.of(points.take(np.random.default_rng(seed).permutation(6)), EXACT).rank == whole.rank
    other = Chosen.of(points.take([1, 4]), EXACT)
    assert other.rank[0] == whole.rank[0]
    assert other.rank == whole.rank or (other.rank > whole.rank) != (whole.rank > other.rank)


def test_weights_of_rows():
    """A weight of two is a row given twice."""
    X = np.random.default_rng(6).normal(size=(20, 2))
    wanted = CoreSetSettings("ball", 1e-9, C=2.0)
    twice = Named(tuple(("s", k) for k in range(40)), np.repeat(X, 2, axis=0), np.ones(40), np.ones(40))
    once = Named(tuple(("s", k) for k in range(20)), X, np.ones(20), np.full(20, 2.0))
    one, two = (Chosen.of(points, wanted) for points in (once, twice))
    np.testing.assert_allclose(one.weights @ one.points.X, two.weights @ two.points.X, atol=1e-9)


def test_sites_that_hear_one_another_do_not_send_what_the_other_has(site):
    """The points once, then that they are still the same; again where no answer comes, or another core-set."""

    def sent(now):
        return [len(a.message.sites) for a in site.wake(now, "round") if isinstance(a, Send) and a.to == "other"]

    assert sent(2.0) == [2]  # never heard
    still = site._message(site.chosen, site.chosen.points.take([]))
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
    assert site.chosen.points.names == (("here", 0), ("here", 3)) and site.rows_shared == 3


@pytest.mark.parametrize("machine", ["ball", "margin"])
@pytest.mark.parametrize("epsilon", [0.3, 1e-2, 1e-4])
def test_bounds_hold_once_all_agree(machine, epsilon):
    """The objective over all rows is between them: nobody has a row farther out than epsilon allows."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(90, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0) if machine == "margin" else np.ones(90)
    wanted = CoreSetSettings(machine, epsilon, C=2.0, kernel=Kernel("rbf", gamma=0.5))
    _, chosen = run(dealt(X, 6, y, wanted), make_graph("ring", 6))
    values = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)) * np.outer(y, y) + np.eye(90) / 2.0
    best = quadratic_optimum(values, np.ones(90))
    best = best if machine == "ball" else 0.5 / (1 - best)
    least, most = wanted.bounds(chosen)
    assert least <= best * (1 + 1e-5) and most >= best * (1 - 1e-5) and most <= least * (1 + 3 * epsilon)


SPARSE = {"X": np.array([9.0]), "indices": np.array([1]), "indptr": np.array([0, 1])}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"X": np.array([[0.0, 9.0]]), "indices": None, "indptr": None}, "columns of shapes"),
        ({"indptr": None}, "no CSR array"),
        ({"indices": np.array([2])}, "no CSR array"),
        ({"indices": np.array([-1])}, "no CSR array"),
        ({"indices": np.array([1], dtype=np.int32)}, "no CSR array"),
        ({"indices": np.array([0, 1])}, "no CSR array"),
        ({"indptr": np.array([0, 1, 1])}, "no CSR array"),
        ({"indptr": np.array([0, 2])}, "no CSR array"),
        ({"indptr": np.array([1, 1])}, "no CSR array"),
        (
            {
                "sites": ["other"] * 2,
                "rows": np.arange(2),
                "labels": np.ones(2),
                "masses": np.ones(2),
                "indptr": np.array([0, 2, 1]),
            },
            "no CSR array",
        ),
        ({"X": np.ones((1, 1))}, "no CSR array"),
        ({"X": np.zeros(1)}, "no canonical form"),
        ({"X": np.ones(2), "indices": np.array([1, 0]), "indptr": np.array([0, 2])}, "no canonical form"),
        ({"X": np.ones(2), "indices": np.array([1, 1]), "indptr": np.array([0, 2])}, "no canonical form"),
        ({"X": np.array([np.nan])}, "NaN or infinite"),
        ({"X": np.array([60.0])}, "norm of 60"),
    ],
)
def test_sparse_rows_that_are_none_are_refused(changes, words):
    X = sp.csr_array([[0.0, 0.0], [1.0, 0.0]])
    site = CoreSetConsensus("here", X, np.ones(2), replace(EXACT, norm_bound=50.0))
    list(site.start(0.0, ["other"]))
    list(site.wake(1.0, "round"))
    (report,) = met(site, **(SPARSE | changes))
    assert re.search(words, report.facts["reason"]) and "other" in site.status()["refused"]


@pytest.mark.parametrize("machine", ["ball", "margin"])
def test_sparse_points_are_what_dense_ones_are(machine):
    rng = np.random.default_rng(9)
    X = sp.random_array((60, 12), density=0.3, rng=9, format="csr")
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0) if machine == "margin" else np.ones(60)
    wanted = CoreSetSettings(machine, 1e-3, C=2.0, kernel=Kernel("rbf", gamma=0.5))
    found = [
        run(dealt(rows, 5, y, wanted), make_graph("ring", 5), Conditions(Link(loss=0.2)))[1]
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
    message = site._message(site.chosen, site.chosen.points)
    assert decoder((Candidates,))(encode(message)).digest == site._points_of(message).digest


def test_names_of_other_points_are_found():
    X = sp.random_array((20, 6), density=0.5, rng=0, format="csr")
    for rows in (X, X.toarray()):
        one = Named.of("a", 0, rows, np.ones(20))
        assert one.differing(one.take(np.arange(19, -1, -1))) is None
        assert one.differing(Named.of("b", 0, rows * 2, np.ones(20))) is None
        moved = rows.copy()
        moved[[7]] = moved[[7]] * 2 + (0 if sp.issparse(rows) else 1)
        assert one.differing(Named.of("a", 0, moved, np.ones(20)).take([3, 7, 5])) == ("a", 7)
        assert one.differing(Named.of("a", 0, rows, np.arange(20.0))) == ("a", 0)
        assert one.differing(Named.of("a", 0, rows, np.ones(20), np.where(np.arange(20) == 9, 2.0, 1.0))) == ("a", 9)


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
    same = site._message(site.chosen, site.chosen.points)
    for quiet, finished in ((15, True), (3, False)):
        list(site.receive(30.0, "other", msgspec.structs.replace(same, quiet=quiet)))
        list(site.wake(31.0, "round"))
        assert site.has_finished == finished


def test_a_state_of_rows_that_are_not_there_any_more_is_refused(site):
    state = unpack(pack(site.checkpoint()))
    for X in (site.own.X[:1], site.own.X * [[1.0], [2.0]]):
        with pytest.raises(ValueError, match="row 1 of this site, which others have, is not what it was"):
            CoreSetConsensus("here", X, np.ones(len(X)), site.settings).restore(state)
    more = CoreSetConsensus("here", np.concatenate([site.own.X, [[0.5, 0.0]]]), np.ones(3), site.settings)
    more.restore(state)
    assert more.chosen.rank == site.chosen.rank


class Boaster(CoreSetConsensus):
    """Says that its core-set is better than any."""

    def _message(self, chosen, points):
        return msgspec.structs.replace(super()._message(chosen, points), value=1e9)


def test_who_boasts_of_its_core_set_changes_nothing():
    X = np.random.default_rng(11).normal(size=(48, 3))
    sites = dealt(X, 8)
    for name in names_of(8)[:3]:
        sites[name] = lambda name=name: Boaster(name, X[int(name[4:]) :: 8], np.ones(6), EXACT)
    _, chosen = run(sites, make_graph("ring", 8))
    np.testing.assert_array_equal(places_in(chosen, 8), minimum_enclosing_ball(X, 0).core_set_indices)


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
    list(site.receive(1.0, "other", boaster._message(boaster.chosen, boaster.chosen.points)))
    list(site.wake(2.0, "round"))
    assert site.chosen.rank >= before


def test_of_core_sets_that_are_heard_the_best_is_computed_and_no_other(monkeypatch):
    rng, counted = np.random.default_rng(12), []
    others = [Named.of(f"other{k}", 0, rng.normal(size=(3, 2)) * (k + 1), np.ones(3)) for k in range(5)]
    site = CoreSetConsensus("here", np.zeros((1, 2)), np.ones(1), EXACT)
    list(site.start(0.0, []))
    list(site.wake(1.0, "round"))
    for k, points in enumerate(others):
        chosen = Chosen.of(points, EXACT)
        assert not list(site.receive(1.0, f"other{k}", site._message(chosen, chosen.points)))
    of = Chosen.of
    monkeypatch.setattr(Chosen, "of", lambda points, settings: counted.append(points) or of(points, settings))
    list(site.wake(2.0, "round"))
    best = max(others, key=lambda points: of(points, EXACT).value)
    assert len(counted) == 2 and {name for name, _ in counted[0].names} == {best.names[0][0]}
