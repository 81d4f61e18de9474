"""Certificates that sites compute together are bounds for the rows of all of them."""

from functools import partial

import networkx as nx
import numpy as np
import pytest
from fuzz.listening import heard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linear_sites import ALPHA, optimum, overlapping
from numpy.testing import assert_allclose

from dimargin.gossip.messages import MessageError, decoder, encode, pack, unpack
from dimargin.gossip.program import Send
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.certification import Probe, Rounded, Sums, Tally, Verdict
from dimargin.gossip.rounds.compression import Logarithmic
from dimargin.gossip.rounds.consensus_admm import ConsensusADMM, ConsensusSite
from dimargin.gossip.simulation.conditions import Conditions, NetworkSplit, Outage
from dimargin.gossip.simulation.gossip_run import GossipRun, deal
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import make_graph
from dimargin.problems.hinge import HingeRows, loss_of

ROWS = overlapping(600)
BEST = optimum(*ROWS)
ADMM = ConsensusADMM(compression=Logarithmic())


def run_of(
    topology="ring", shards="random", conditions=None, tol=1e-3, n_sites=6, loss="hinge", rows=ROWS, seed=0, admm=ADMM
):
    X, y = rows
    signs = np.atleast_2d(y)
    site = deal(shards, signs[0], np.random.default_rng(seed).permutation(len(X)), n_sites)
    problem = Problem(ALPHA, n_sites, len(X), tol=tol)
    graph = make_graph(topology, n_sites, seed) if isinstance(topology, str) else topology
    make = partial(admm.program, problem)
    return GossipRun(
        X, signs, site, n_sites, problem, graph, conditions or Conditions(), seed, None, make, loss_of(loss)
    )


def certificates(run):
    return [program.certification.certificate for program in run.programs]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(
    st.integers(0, 1000),
    st.sampled_from(["ring", "star", "grid", "complete", "erdos_renyi"]),
    st.sampled_from(["random", "sorted", "sorted_unequal"]),
    st.sampled_from([("hinge", 1), ("squared_hinge", 2)]),
    st.sampled_from([1e-2, 1e-3, 1e-4]),
)
def test_it_holds_and_all_sites_have_it(seed, topology, shards, loss, tol):
    """Independently: the objective by its definition, and the optimum by LIBLINEAR."""
    rows = overlapping(300, seed)
    run = run_of(topology, shards, tol=tol, loss=loss[0], rows=rows, seed=seed).run(300)
    best, found = optimum(*rows, ALPHA, loss[1]), certificates(run)
    assert run.status == "converged"
    for one in found:
        margins = rows[1] * (rows[0] @ one.weights[0])
        true = ALPHA / 2 * one.weights[0] @ one.weights[0] + (np.maximum(0, 1 - margins) ** loss[1]).mean()
        assert true <= one.objective[0] <= true * (1 + 1e-9)
        assert one.dual_objective[0] <= best * (1 + 1e-9) and one.gap <= tol
        assert (one.sites, one.rows) == (6, 300)
        assert np.array_equal(one.weights, found[0].weights)
    assert best <= found[0].objective[0] <= best * (1 + tol) * (1 + 1e-6)


@given(st.integers(0, 10**6), st.sampled_from(["hinge", "squared_hinge", "odm"]), st.sampled_from([2, 4]))
def test_sums_over_sites_are_those_of_all_rows(seed, loss, n_bytes):
    """For any coefficients and weights, by the definition of both objectives on the stacked rows."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(30, 4)), np.where(rng.random((2, 30)) < 0.5, 1.0, -1.0)
    rows = HingeRows(X, y, loss_of(loss))
    weights = Rounded.of(rng.normal(size=(2, 4)), n_bytes).values((2, 4))
    dual = rng.random((2, 30)) if loss == "hinge" else rows.evaluate(rng.normal(size=(2, 4))).dual
    parts = [slice(0, 10), slice(10, 11), slice(11, 30)]
    of = [Sums.of(HingeRows(X[p], y[:, p], rows.loss), dual[:, p], rng.random(2), weights, 0.1) for p in parts]
    middle, root = of[1], of[0]
    middle.add(of[2].tally("", (1, "a"), n_bytes))
    root.add(middle.tally("", (1, "a"), n_bytes))
    found = root.certificate(rows, weights, 0.1)
    primal = 0.05 * (weights**2).sum(axis=1) + rows.evaluate(weights).loss / 30
    exact = rows.dual_objective(dual, 0.1)
    assert (root.sites, root.rows) == (3, 30)
    assert_allclose(found.objective, primal, rtol=1e-9)
    assert (found.dual_objective <= np.minimum(exact, primal) * (1 + 1e-9) + 1e-12).all()
    assert_allclose(found.dual_objective, np.minimum(exact, primal), rtol=1e-2 if n_bytes == 2 else 1e-6, atol=1e-4)


def test_a_lossy_network_delays_it_only():
    run = run_of("ring", "sorted", Conditions.asynchronous(loss=0.3, duplication=0.2)).run(300)
    assert run.status == "converged"
    for one in certificates(run):
        assert one.gap <= 1e-3 and one.rows == 600 and BEST <= one.objective[0] <= BEST * 1.001


EVENTS = {
    "the root leaves": (Conditions(outages=(Outage("site0", 6.3),)), {0}),
    "a site leaves while sums are collected": (Conditions(outages=(Outage("site3", 9.2),)), {3}),
    "a site comes late": (Conditions(joins={"site2": 60.0}), set()),
    "a site forgets everything": (Conditions(outages=(Outage("site2", 12.3, 20.0, True),)), set()),
    "a split heals": (Conditions(splits=(NetworkSplit((frozenset({"site0", "site1"}),), 5.2, 90.2),)), set()),
}


@pytest.mark.parametrize("event", EVENTS)
def test_sites_that_come_and_go_are_counted_once(event, monkeypatch):
    """In the end, the certificate is that of the rows of the sites that are there."""
    monkeypatch.setattr(Simulator, "_all_stopped", False)  # The run ends with time only.
    conditions, gone = EVENTS[event]
    run = run_of("ring", "sorted", conditions).run(300)
    rounds = [program.rounds for program in run.programs]
    run.simulator.run(until=400.0)
    assert [program.rounds for program in run.programs] == rounds
    stay = [k for k in range(6) if k not in gone]
    kept = np.isin(run.site, stay)
    best = optimum(ROWS[0][kept], ROWS[1][kept])
    for k in stay:
        one = certificates(run)[k]
        assert (one.sites, one.rows) == (len(stay), kept.sum())
        assert best * (1 - 1e-9) <= one.objective[0] <= best * 1.001 and one.dual_objective[0] <= best * (1 + 1e-9)


def test_of_several_outputs_all_are_certified():
    X, y = ROWS
    run = run_of(rows=(X, np.array([y, -y, y]))).run(300)
    one = certificates(run)[0]
    assert one.objective.shape == (3,) and run.status == "converged"
    assert_allclose(one.objective, one.objective[0], rtol=1e-3)


def test_sites_that_have_finished_rest_until_there_are_new_rows(monkeypatch):
    run = run_of("ring").run(300)
    monkeypatch.setattr(Simulator, "_all_stopped", False)
    run.simulator.run(until=run.simulator.now + 5.0)
    rounds = [program.rounds for program in run.programs]
    run.simulator.run(until=run.simulator.now + 50.0)
    assert [program.rounds for program in run.programs] == rounds
    X, y = overlapping(100, 1)
    run.programs[4].append(HingeRows(X, y[None]))
    run.simulator.run(until=run.simulator.now + 100.0)
    best = optimum(np.concatenate([ROWS[0], X]), np.concatenate([ROWS[1], y]))
    for one in certificates(run):
        assert one.rows == 700 and best <= one.objective[0] <= best * 1.001


def test_a_certificate_survives_a_restart():
    run = run_of().run(300)
    again = run._program(0, "site0")
    again.restore(unpack(pack(run.programs[0].checkpoint())))
    assert again.has_finished and again.certification.certificate.gap == certificates(run)[0].gap
    assert pack(again.checkpoint()) == pack(run.programs[0].checkpoint())


@given(st.lists(st.floats(-1e100, 1e100), min_size=6, max_size=6), st.sampled_from([2, 4]))
def test_rounding_is_no_more_than_half_a_step(values, n_bytes):
    array = np.array(values).reshape(2, 3)
    found = decoder((Probe,))(encode(Probe("", 1, "a", Rounded.of(array, n_bytes)))).weights.values((2, 3))
    step = np.abs(array).max() / (2 ** (8 * n_bytes - 1) - 1)
    assert np.abs(found - array).max() <= step * 0.51


def listening():
    X, y = ROWS
    problem = Problem(ALPHA, 2, 600, tol=1e-3)
    site = ConsensusSite("a", HingeRows(X, y[None]), problem, ConsensusADMM())
    list(site.start(0.0, ["eve", "bob"]))
    return site


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Probe("", 1, "eve", Rounded.of(np.ones((1, 6)), 2)), "its candidate has 12 bytes"),
        (Probe("", 10**6, "eve", Rounded.of(np.ones((1, 7)), 2)), "its certificate is of round 1000000"),
        (Tally("", 1, "eve", 1, 5, np.ones(6), Rounded.of(np.ones((1, 9)), 2)), "its sum of rows has 18 bytes"),
        (Tally("", 1, "eve", 1, 5), "its sums are not those of 1 outputs"),
        (Verdict("", 1, "eve", np.ones(2), np.ones(2), 1, 1), "its certificate is not that of 1 outputs"),
    ],
)
def test_messages_of_no_site_are_refused(message, reason):
    site = listening()
    heard(site, 0.5, "eve", message)
    assert reason in site.neighbourhood.refused["eve"]


def test_bounds_that_contradict_each_other_are_no_message():
    with pytest.raises(MessageError, match="its dual objective is above the objective"):
        decoder((Verdict,))(encode(Verdict("", 1, "eve", np.ones(1), np.full(1, 2.0), 1, 1)))


def test_a_verdict_of_others_than_the_parent_is_ignored():
    site = listening()
    heard(site, 0.5, "bob", Probe("", 1, "bob", Rounded.of(np.ones((1, 7)), 2)))
    heard(site, 0.6, "eve", Verdict("", 1, "bob", np.ones(1), np.ones(1), 9, 9))
    assert site.certification.certificate is None


def test_over_an_edge_of_a_tree_go_three_messages():
    """The candidate, the sums and the result, once each."""
    run, seen = run_of(nx.path_graph(4), n_sites=4, tol=0.5), []
    run.run(0)  # The simulation begins.
    original = run.simulator._send
    run.simulator._send = lambda name, site, send: (seen.append(send.message), original(name, site, send))
    run.simulator.run(until=30.0)
    kinds = [type(message) for message in seen]
    assert run.programs[3].has_finished
    assert [kinds.count(kind) for kind in (Probe, Tally, Verdict)] == [3, 3, 3]


def test_each_site_is_asked_again_if_its_answer_is_lost():
    site = listening()
    heard(site, 0.5, "bob", Probe("", 1, "bob", Rounded.of(np.ones((1, 7)), 2)))
    again = [action for action in site.certification.tick(10.0) if isinstance(action, Send)]
    assert [(action.to, type(action.message)) for action in again] == [("eve", Probe)]


def test_a_restarted_site_says_nothing_about_the_candidate_that_it_knew():
    """If it declined, its rows would be left out of a certificate that seems complete."""
    site, probe = listening(), Probe("", 1, "bob", Rounded.of(np.ones((1, 7)), 2))
    heard(site, 0.5, "bob", probe)
    assert [type(action.message) for action in heard(site, 0.6, "eve", probe)] == [Tally]  # It is counted elsewhere.
    again = listening()
    again.restore(unpack(pack(site.checkpoint())))
    list(again.start(1.0, ["eve", "bob"]))
    assert not [action for name in ("bob", "eve") for action in heard(again, 1.1, name, probe)]


def test_a_candidate_is_given_up_if_a_neighbour_leaves():
    """It may return without memory, and be counted elsewhere."""
    site, probe = listening(), Probe("", 1, "bob", Rounded.of(np.ones((1, 7)), 2))
    heard(site, 0.5, "bob", probe)
    assert site.certification.is_open
    site.leave("eve")
    assert not site.certification.is_open
    assert not heard(site, 0.6, "bob", probe) and not list(site.certification.tick(50.0))


def test_enormous_sums_make_no_certificate():
    site = listening()
    list(site.certification.begin(0.5, 8, site.weights, site._own, ["eve", "bob"]))
    huge = Tally("", 8, "a", 1, 1, np.full(6, 1e300), Rounded.of(np.full((1, 7), 1e140), 2))
    with np.errstate(all="ignore"):
        for name in ("eve", "bob"):
            list(site.certification.take(0.6, name, huge, site._own, ["eve", "bob"]))
    found = site.certification.certificate
    assert found is None or (np.isfinite(found.objective).all() and np.isfinite(found.dual_objective).all())
    assert not site.certification.is_open
