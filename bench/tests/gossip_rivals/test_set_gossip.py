"""Gossip of rows: sets that grow, machines of all rows, what is sent, and what is refused."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from dimargin import GossipSVMClassifier
from dimargin.gossip.messages import UnsoundError, decoder, encode, pack, unpack
from dimargin.gossip.program import Report, Send
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.programs.candidates import Named
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import make_graph
from dimargin.problems.hinge import HingeRows
from dimargin_bench.gossip_rivals.set_gossip import SetGossip
from dimargin_bench.gossip_rivals.shared_rows import SharedRows, parcel_fields

ALPHA = 1e-2
FAULTS = Conditions.asynchronous(loss=0.3, duplication=0.2)


def overlapping(n=200, seed=0):
    X, y = make_classification(n, 4, n_informative=4, n_redundant=0, class_sep=0.8, random_state=seed)
    return X, np.where(y == 1, 1.0, -1.0)


def separable(n, seed, d=3):
    """Rows on both sides of a plane through the origin, none nearer than a tenth."""
    rng = np.random.default_rng(seed)
    X, plane = rng.normal(size=(n, d)), np.ones(d) / d**0.5
    signs = np.sign(X @ plane)
    return X + 0.1 * signs[:, None] * plane, signs


def best(X, signs, alpha=ALPHA):
    machine = LinearSVC(loss="hinge", C=1 / (alpha * len(signs)), fit_intercept=False, tol=1e-10, max_iter=10**7)
    return machine.fit(X, signs).coef_[0]


def hard_margin(X, signs):
    """The shortest w with all margins at least one, as a problem of least distances (Lawson and Hanson)."""
    matrix = np.vstack([(signs[:, None] * X).T, np.ones(len(signs))])
    target = np.append(np.zeros(X.shape[1]), 1.0)
    residual = matrix @ nnls(matrix, target)[0] - target
    return -residual[:-1] / residual[-1]


def network(algorithm, X, signs, n_sites=5, topology="ring", alpha=ALPHA, conditions=None, deal=None, seed=1, **others):
    graph = make_graph(topology, n_sites)
    deal = np.arange(len(signs)) % n_sites if deal is None else deal
    problem = Problem(alpha, n_sites, len(signs), **others)

    def program(k):
        own = deal == k
        return algorithm.program(problem, f"site{k}", HingeRows(X[own], signs[None, own]), (0, k))

    programs = {f"site{k}": (lambda k=k: program(k)) for k in range(n_sites)}
    return Simulator(programs, graph, conditions or Conditions(), seed)


def weights(simulator):
    return np.array([program.weights[0] for program in simulator.programs.values()])


@pytest.mark.parametrize("conditions", [Conditions(), FAULTS], ids=["no faults", "faults"])
@pytest.mark.parametrize("sparse", [False, True])
def test_where_no_set_changes_every_site_has_the_machine_of_all_rows(conditions, sparse):
    X, signs = overlapping()
    order = np.argsort(signs, kind="stable")  # nearly all sites have one class
    X, signs = X[order], signs[order]
    deal = np.arange(200) // 40
    simulator = network(SetGossip(), sp.csr_array(X) if sparse else X, signs, conditions=conditions, deal=deal)
    assert simulator.run(until=400) == "stopped"
    assert_allclose(weights(simulator), np.tile(best(X, signs), (5, 1)), atol=1e-5)
    programs = simulator.programs.values()
    shared = [program.rows_shared for program in programs]
    assert min(shared) > 0 and max(shared) <= 40 and sum(shared) < 200
    held = np.array([len(program.points.names) for program in programs])
    assert (held < 200).all()
    if conditions is FAULTS:
        assert min(simulator.counts[name] for name in ("lost", "duplicated")) > 50


def test_the_rows_nearest_to_the_planes_go_round_and_few_others():
    """ASG with the paper's threshold: of either class one row of every set, until no set changes."""
    X, signs = overlapping()
    simulator = network(SetGossip("ranked"), X, signs)
    assert simulator.run(until=400) == "stopped"
    programs = list(simulator.programs.values())
    assert 5 < sum(program.rows_shared for program in programs) < 100
    full = network(SetGossip(), X, signs)
    full.run(until=400)
    assert simulator.counts["bytes"] < 0.5 * full.counts["bytes"]
    near = [np.abs(program.held.X @ program.weights[0]) for program in programs]
    for program, distance in zip(programs, near, strict=True):
        for sign in (-1, 1):
            side = np.flatnonzero(program.held.signs[0] == sign)
            nearest = program.points.names[side[distance[side].argmin()]]
            assert all(nearest in other.points.names for other in programs if other.name in neighbours(program.name))


def neighbours(name):
    k = int(name.removeprefix("site"))
    return f"site{(k + 1) % 5}", f"site{(k - 1) % 5}"


@given(st.integers(0, 60), st.sampled_from(["ring", "star", "grid", "complete"]), st.integers(2, 7))
@settings(max_examples=12)
def test_hulls_lead_to_the_hard_margin_machine_within_the_diameter(seed, topology, n_sites):
    X, signs = separable(8 * n_sites, seed)
    alpha = 1e-7  # an error costs as much as a million squared lengths
    simulator = network(SetGossip("hull", tol=1e-9), X, signs, n_sites, topology, alpha)
    diameter = nx.diameter(make_graph(topology, n_sites))
    simulator.run(until=diameter + 1.75)  # at the first wake rows are sent, at the next they are trained on
    expected = hard_margin(X, signs)
    assert_allclose(signs * (X @ expected), np.maximum(signs * (X @ expected), 1.0), rtol=1e-9)
    assert_allclose(weights(simulator), np.tile(expected, (n_sites, 1)), rtol=1e-6, atol=1e-6)


def misses(seed):
    """Whether support vectors alone have missed the hard-margin machine after as many rounds."""
    X, signs = separable(56, seed)
    simulator = network(SetGossip("support", tol=1e-9), X, signs, 7, "ring", 1e-7)
    simulator.run(until=4.75)
    early = np.abs(weights(simulator) - hard_margin(X, signs)).max()
    assert simulator.run(until=300) == "stopped"
    assert_allclose(weights(simulator), np.tile(hard_margin(X, signs), (7, 1)), rtol=1e-6, atol=1e-6)
    return early > 1e-3


def test_support_vectors_alone_can_miss_it_then_but_not_in_the_end():
    assert any(misses(seed) for seed in range(12))


@given(st.integers(0, 99), st.sampled_from(["support", "hull", "ranked"]), st.booleans())
@settings(max_examples=10)
def test_sets_only_grow_and_are_of_true_rows(seed, selection, has_faults):
    X, signs = overlapping(28, seed)
    simulator = network(SetGossip(selection), X, signs, 4, conditions=FAULTS if has_faults else None, seed=seed)
    before = {}
    for second in range(1, 14):
        simulator.run(until=second + 0.9)
        for name, program in simulator.programs.items():
            points = program.points
            assert points.names[: len(before.get(name, ()))] == before.get(name, ())
            before[name] = points.names
            assert len(set(points.names)) == len(points.names)
            for one, row, label in zip(points.names, points.X, points.labels, strict=True):
                k = int(one.site.removeprefix("site")) + 4 * one.row
                assert_array_equal(row, X[k])
                assert label == signs[k]


def test_hulls_alone_are_not_enough_where_classes_overlap():
    X, signs = overlapping()
    simulator = network(SetGossip("hull"), X, signs)
    assert simulator.run(until=400) == "stopped"
    assert np.abs(weights(simulator) - best(X, signs)).max() > 0.05


def test_without_faults_no_row_is_sent_over_an_edge_twice():
    X, signs = overlapping()
    simulator, seen = network(SetGossip(), X, signs), set()
    send = Simulator._send

    def watched(self, name, site, action: Send):
        message = action.message
        if message.sites:
            rows = {(name, action.to, *one) for one in zip(message.sites, message.rows.tolist(), strict=True)}
            assert not rows & seen
            assert not any(action.to == one[2] for one in rows)  # to its owner
            seen.update(rows)
        send(self, name, site, action)

    simulator._send = watched.__get__(simulator)
    assert simulator.run(until=100) == "stopped"
    assert len(seen) == sum(program.rows_sent for program in simulator.programs.values()) > 0


@pytest.mark.parametrize("loses_memory", [False, True])
def test_sites_that_leave_and_return(loses_memory):
    X, signs = overlapping()
    outage = Outage("site2", 4.2, 40.0, loses_memory=loses_memory)
    simulator = network(SetGossip(), X, signs, conditions=replace(FAULTS, outages=(outage,)), lease=10.0)
    assert simulator.run(until=400) == "stopped"
    assert_allclose(weights(simulator), np.tile(best(X, signs), (5, 1)), atol=1e-5)


def test_nobody_waits_for_a_site_that_has_gone_or_comes_late():
    X, signs = overlapping()
    gone = Conditions(outages=(Outage("site2", 3.2),))
    simulator = network(SetGossip(), X, signs, conditions=gone, topology="complete", lease=8.0)
    assert simulator.run(until=100) == "stopped"
    known = {name for program in simulator.programs.values() for name in program.points.names}
    own = [name.site == "site2" for name in known]
    assert any(own)  # rows that it had sent before
    late = Conditions(LinkFaults(), joins={"site3": 30.0})
    simulator = network(SetGossip(), X, signs, conditions=late, topology="complete", lease=8.0)
    assert simulator.run(until=100) == "stopped"
    assert_allclose(weights(simulator), np.tile(best(X, signs), (5, 1)), atol=1e-5)


def test_a_site_by_itself_and_sites_without_rows():
    X, signs = overlapping(60)
    alone = network(SetGossip(), X, signs, 1, "complete")
    assert alone.run(until=20) == "stopped"
    assert_allclose(weights(alone)[0], best(X, signs), atol=1e-5)
    empty = network(SetGossip(), X, signs, 3, "ring", deal=np.zeros(60, dtype=int))
    assert empty.run(until=60) == "stopped"
    assert_allclose(weights(empty), np.tile(best(X, signs), (3, 1)), atol=1e-5)


def test_the_same_run_twice_and_from_a_checkpoint():
    X, signs = overlapping()
    runs = [network(SetGossip(), X, signs, conditions=FAULTS) for _ in range(2)]
    for simulator in runs:
        simulator.run(until=30)
    assert runs[0].counts == runs[1].counts and (weights(runs[0]) == weights(runs[1])).all()
    program = runs[0].sites["site1"].program
    again = runs[0].sites["site1"].make()
    again.restore(unpack(pack(program.checkpoint())))
    assert again.points.names == program.points.names and again.rows_shared == program.rows_shared
    assert pack(again.checkpoint()) == pack(program.checkpoint())


# ---- messages that no correct site sends -----------------------------------------------------------------------------


def site(**others):
    X, signs = overlapping(20)
    own = HingeRows(X[:10], signs[None, :10])
    program = SetGossip().program(Problem(ALPHA, 3, 20, **others), "here", own, (0,))
    list(program.start(0.0, ["eve", "ann"]))
    return program, Named.of("eve", 0, X[10:], signs[10:])


def said(points, **changes):
    return SharedRows(**{"quiet": 0, **parcel_fields(points), **changes})


def refused(program, message, sender="eve"):
    """What the site says of a message, after it has travelled."""
    reports = [action for action in program.receive(1.0, sender, decoder((SharedRows,))(encode(message)))]
    assert all(isinstance(report, Report) and report.what == "refused" for report in reports)
    return reports[0].facts["reason"] if reports else None


def test_what_is_sound_is_taken():
    program, points = site()
    assert refused(program, said(points)) is None
    assert len(program.points.names) == 20
    assert refused(program, said(points.take([3, 4]), quiet=7, acknowledged=["never sent"])) is None
    assert refused(program, SharedRows(3)) is None
    assert len(program.points.names) == 20


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda p: said(p, labels=np.full(10, 2.0)), "labels other than -1, 1"),
        (lambda p: said(p, X=p.X[:, :3]), "its parcel of rows has shape"),
        (lambda p: said(p, X=p.X * 1e60), "a point has a norm"),
        (lambda p: said(p.take([0, 0])), "names a row twice"),
        (lambda p: said(p, sites=["here"] * 10, rows=np.arange(10, 20)), "of this site, which has no such row"),
        (lambda p: said(p, sites=["here"] * 10), "row 0 of site 'here' is another row here"),
        (lambda p: said(Named.of("eve", 0, np.ones((11, 4)), np.ones(11))), "more than the 20 of all sites"),
        (lambda p: said(p, rows=np.arange(10) % 4), "names a row twice"),
    ],
)
def test_senders_of_false_rows_are_refused(change, text):
    program, points = site()
    before = program.points
    assert text in refused(program, change(points))
    assert program.points is before and not program.hears("eve")
    assert refused(program, said(points)) is None and program.points is before  # it is heard no more
    list(program.wake(1.5, "round"))
    assert refused(program, said(points), "ann") is None and len(program.points.names) == 20


def test_a_row_that_changes_is_refused():
    program, points = site()
    assert refused(program, said(points)) is None
    assert "row 0 of site 'eve' is another row here" in refused(program, said(points, X=points.X + 1e-9), "ann")
    assert "is another row here" in refused(site_with(points), said(points, labels=-points.labels))


def site_with(points):
    program, _ = site()
    assert refused(program, said(points), "ann") is None
    return program


def test_sparse_and_dense_rows_do_not_mix():
    program, points = site()
    sparse = Named.of("eve", 0, sp.csr_array(points.X), points.labels)
    assert "the rows here are" in refused(program, said(sparse))


@pytest.mark.parametrize(
    "changes", [{"labels": None}, {"sites": ["eve"] * 9}, {"X": None}, {"rows": np.arange(9)}, {"X": np.zeros(3)}]
)
def test_parcels_that_are_none_are_not_decoded(changes):
    _, points = site()
    with pytest.raises(UnsoundError):
        decoder((SharedRows,))(encode(said(points, **changes)))


def test_rows_are_sent_again_until_they_are_acknowledged_and_no_longer():
    program, points = site()

    def told():
        sends = [action for action in program.wake(program.rounds + 1.0, "round") if isinstance(action, Send)]
        return {send.to: send.message for send in sends}

    first = told()["eve"]
    assert first.sites and not first.has_heard
    assert not any(told()["eve"].sites for _ in range(3))
    again = told()["eve"]
    assert again.sites == first.sites
    parcel = first.points(4)
    list(program.receive(5.5, "eve", SharedRows(0, True, [parcel.digest], **parcel_fields(points))))
    answer = told()["eve"]
    assert answer.has_heard and answer.acknowledged == [points.digest]
    has = {*parcel.names, *points.names}
    for _ in range(9):
        later = told()["eve"]
        rows = later.points(4)
        assert not later.acknowledged and (rows is None or not has.intersection(rows.names))
    list(program.receive(20.5, "eve", SharedRows(0, False)))  # eve has begun anew, without memory
    assert told()["eve"].sites


# ---- as an algorithm of the classifier -------------------------------------------------------------------------------


def test_rows_leave_only_where_that_is_allowed():
    X, signs = overlapping(60)
    with pytest.raises(ValueError, match=r"algorithm=SetGossip\(.* set share_rows=True to allow it"):
        GossipSVMClassifier(algorithm=SetGossip()).fit(X, signs)
    machine = GossipSVMClassifier(
        algorithm=SetGossip(), share_rows=True, n_sites=4, alpha=ALPHA, topology="ring", random_state=0
    ).fit(X, signs)
    assert machine.status_ == "converged" and machine.duality_gap_ <= machine.tol
    assert_allclose(machine.coef_[0], best(X, signs), atol=1e-5)
    shared = [entry["rows_shared"] for entry in machine.history_]
    assert shared == sorted(shared) and 0 < shared[-1] < 60
    assert SetGossip.shares == "rows"


def test_three_classes_and_an_intercept():
    X, y = make_classification(
        150, 4, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    parameters = {"share_rows": True, "n_sites": 4, "alpha": ALPHA, "topology": "ring", "shards": "sorted"}
    machine = GossipSVMClassifier(algorithm=SetGossip(), fit_intercept=True, random_state=0, **parameters).fit(X, y)
    rows = np.column_stack([X, np.ones(150)])
    for k in range(3):
        expected = best(rows, np.where(y == k, 1.0, -1.0))
        assert_allclose(np.append(machine.coef_[k], machine.intercept_[k]), expected, atol=1e-4)
    with pytest.warns(ConvergenceWarning):
        short = GossipSVMClassifier(algorithm=SetGossip("hull"), fit_intercept=True, max_iter=3, **parameters)
        assert short.fit(X, y).score(X, y) > 0.4


@pytest.mark.parametrize(
    ("algorithm", "others", "text"),
    [
        (SetGossip("all"), {}, "selection must be 'support' or 'hull' or 'ranked', got 'all'"),
        (SetGossip(share=0), {}, r"share must be a number in \(0, 1\], got 0"),
        (SetGossip(tol=2.0), {}, r"tol must be a number in \(0, 1\], got 2.0"),
        (
            SetGossip(),
            {"topology": nx.cycle_graph(10, create_using=nx.DiGraph)},
            "topology must have undirected edges",
        ),
    ],
)
def test_parameters_out_of_range(algorithm, others, text):
    X, signs = overlapping(60)
    with pytest.raises(ValueError, match=text):
        GossipSVMClassifier(algorithm=algorithm, share_rows=True, **others).fit(X, signs)


def test_hulls_that_take_too_long_are_refused():
    with pytest.raises(ValueError, match="at most 1000 rows of 7 features"):
        SetGossip("hull").program(Problem(ALPHA, 3, 1001), "a", HingeRows(np.ones((2, 7)), np.ones((1, 2))), (0,))
