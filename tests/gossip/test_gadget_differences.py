"""Tracked GADGET with messages as differences: as many rounds, a fraction of the bytes, and no harm by anybody."""

import msgspec
import numpy as np
import pytest
from fuzz.listening import heard
from linear_sites import ALPHA, excess, learning, optimum
from numpy.testing import assert_allclose

from dimargin.gossip.messages import encode, pack, unpack
from dimargin.gossip.program import Report, Send
from dimargin.gossip.programs.exchange import Difference, Exchange
from dimargin.gossip.programs.gadget import Gadget
from dimargin.gossip.programs.gadget_settings import GadgetSettings
from dimargin.gossip.simulation.conditions import Conditions, NetworkSplit, Outage
from dimargin.problems.hinge import HingeRows


@pytest.fixture(scope="module")
def rows():
    """Some features are rare, as words are."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(600, 6)), rng.random((600, 30)) < 0.1, np.ones(600)])
    return X, np.where(X @ rng.normal(size=37) + rng.normal(size=600) > 0.7, 1.0, -1.0)


def quantised(rows, conditions=None, compression="quantised", **settings):
    return learning(rows, 5, shards="sorted", conditions=conditions, compression=compression, **settings)


NETWORKS = {"in rounds": None, "asynchronous, a third lost": Conditions.asynchronous(loss=0.3, duplication=0.2)}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("loss, power, within", [("hinge", 1, 0.01), ("squared_hinge", 2, 1e-3)])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_same_rounds_with_a_fraction_of_the_bytes(rows, loss, power, within, network):
    runs = {c: quantised(rows, NETWORKS[network], c, loss=loss).run(120) for c in ("none", "quantised")}
    best = optimum(*rows, power=power)
    far = {c: excess(run, *rows, best, power=power) for c, run in runs.items()}
    assert far["quantised"] <= 4 / 3 * far["none"] + within
    assert far["none"] < 0.2
    counts = {c: run.simulator.counts for c, run in runs.items()}
    assert counts["quantised"]["messages"] == counts["none"]["messages"]
    assert counts["quantised"]["bytes"] < 0.2 * counts["none"]["bytes"]
    for program in runs["quantised"].programs:
        assert not program.neighbourhood.refused


def test_no_mass_is_lost(rows):
    run = quantised(rows, NETWORKS["asynchronous, a third lost"]).run(80)
    programs = {name: site.program for name, site in run.simulator.sites.items()}
    total = sum(program.push_sum.mass for program in programs.values())
    for name, program in programs.items():  # and what is on its way
        for other, edge in program.push_sum.edges.items():
            total = total + edge.sent - programs[other].push_sum.edges[name].received
    expected = sum(program.push_sum.contribution for program in programs.values())
    assert_allclose(total, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_sites_that_come_and_go_are_understood_again(rows):
    outages = (Outage("site2", 60.2, 90.2), Outage("site4", 80.2, 110.2, loses_memory=True))
    apart = NetworkSplit((frozenset({"site0", "site1"}),), at=130.2, until=160.2)
    conditions = Conditions(outages=outages, splits=(apart,), joins={"site3": 20.0})
    found = quantised(rows, conditions, loss="squared_hinge", lease=5.0).run(240)
    assert excess(found, *rows, optimum(*rows, power=2), power=2) <= 1e-3
    assert not any(program.neighbourhood.refused for program in found.programs)


def test_sites_may_choose_for_themselves(rows):
    run = quantised(rows, loss="squared_hinge")
    plain = GadgetSettings(alpha=ALPHA, tol=1e-12)
    makers = iter(range(100))
    made = run._new_program
    run._new_program = lambda name, own, seed: Gadget(own, plain, seed) if next(makers) % 2 else made(name, own, seed)
    found = run.run(120)
    assert excess(found, *rows, optimum(*rows, power=2), power=2) <= 1e-3


def two(rows):
    X, y = rows
    settings = GadgetSettings(alpha=ALPHA, compression="quantised", norm_bound=1e4, mass_bound=1e6)
    sites = {name: Gadget(HingeRows(X[k::2], y[None, k::2]), settings) for k, name in enumerate("ab")}
    for name, program in sites.items():
        list(program.start(0.0, "ba"[name == "b"]))
    return sites


def rounds(sites, first, last):
    for now in range(first, last):
        sent = [(name, action) for name in sites for action in sites[name].wake(float(now), "round")]
        for name, action in sent:
            if isinstance(action, Send):
                assert not heard(sites[action.to], float(now), name, action.message)
    return {name: action.message for name, action in sent if isinstance(action, Send)}


def test_messages_are_short_and_the_state_is_enough_to_go_on(rows):
    sites = two(rows)
    last = rounds(sites, 1, 60)
    assert all(isinstance(message, Difference) for message in last.values())
    assert all(len(encode(message)) < 300 for message in last.values())
    X, y = rows
    again = Gadget(HingeRows(X[::2], y[None, ::2]), sites["a"].settings)
    again.restore(unpack(pack(sites["a"].checkpoint())))
    list(again.start(60.0, "b"))
    sites["a"] = again
    said = rounds(sites, 61, 63)
    assert isinstance(said["a"], Exchange)  # whole, as it does not know any more what the other has
    last = rounds(sites, 63, 90)
    assert all(isinstance(message, Difference) for message in last.values())
    assert_allclose(sites["a"].weights, sites["b"].weights, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("what, reason", [
    ("tops", "parts"), ("levels", "cannot be read"), ("length", "does not have"), ("weights", "a norm of"),
    ("mass", "to a sum"), ("rows", "number of rows cannot fall"),
])  # fmt: skip
def test_who_sends_what_cannot_be_is_refused_by_name_and_moves_nobody(rows, what, reason):
    sites = two(rows)
    message = rounds(sites, 1, 40)["b"]
    a = sites["a"]
    message = msgspec.structs.replace(message, number=message.number + 1)
    parts = message.change.tops
    changes = {"tops": {"tops": parts[1:]}, "levels": {"levels": b"\xff\xff\xff"},
               "length": {"levels": message.change.levels[:2]}}  # fmt: skip
    if what in changes:
        message = msgspec.structs.replace(message, change=msgspec.structs.replace(message.change, **changes[what]))
    else:
        edge, sent = a.push_sum.edge("b"), a.push_sum.edge("b").received.copy()
        iterate = np.full(sites["b"].weights.shape, 1e7 if what == "weights" else 0.0)
        sent[iterate.size] += -30.0 if what == "rows" else 1.0
        sent[0] += 1e9 if what == "mass" else 0.0
        outgoing = sites["b"]._differences
        edge = sites["b"].push_sum.edge("a")
        edge.sequence = message.number - 1
        change, told = outgoing.change("a", edge, sent, np.zeros_like(sent), iterate)
        message = msgspec.structs.replace(message, change=change, rows=float(told[iterate.size]))
    before = a.push_sum.mass.copy()
    undone = a.push_sum.edge("b")
    expected = before + undone.sent - undone.received
    (report,) = heard(a, 40.5, "b", message)
    assert isinstance(report, Report) and reason in report.facts["reason"]
    assert_allclose(a.push_sum.mass, expected, rtol=1e-9, atol=1e-6)
    assert not list(a.receive(41.0, "b", message)) and "b" in a.status()["refused"]


def test_a_difference_from_what_is_not_known_is_passed_over(rows):
    sites = two(rows)
    message = rounds(sites, 1, 40)["b"]
    a, before = sites["a"], sites["a"].push_sum.mass.copy()
    for base in (10**6, 1):
        change = msgspec.structs.replace(message.change, base=base)
        assert not heard(a, 40.5, "b", msgspec.structs.replace(message, number=message.number + 1, change=change))
    assert_allclose(a.push_sum.mass, before)
    rounds(sites, 41, 60)
