"""GADGET: one site is Pegasos, many find the optimum of all rows, whatever the network does."""

from dataclasses import replace

import linear_sites
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from linear_sites import ALPHA, excess, learning, objective, pegasos
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.estimators.certificate import hinge_objectives
from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.programs.gadget import Gadget
from dimargin.gossip.programs.gadget_settings import GadgetSettings
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, NetworkSplit, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import make_graph
from dimargin.problems.hinge import HingeRows, hinge_dual, loss_of


@pytest.mark.parametrize("batch_size", [None, 1, 10])
@pytest.mark.parametrize("projection", [False, True])
def test_one_site_is_pegasos(rows, batch_size, projection):
    run = learning(rows, 1, gradient="local", step_size="pegasos", batch_size=batch_size, projection=projection)
    found = run.run(100)
    expected = pegasos(*rows, found.programs[0].steps, batch_size, projection=projection)
    assert found.programs[0].steps == 100
    assert_allclose(found.weights()[0, 0], expected, rtol=1e-10)


def test_a_look_is_the_subgradient(rows):
    X, y = rows
    rng = np.random.default_rng(1)
    signs, weights = np.array([y, -y]), rng.normal(size=(2, 7))
    for matrix in (X, sp.csr_array(X)):
        evaluation = HingeRows(matrix, signs).evaluate(weights)
        for q in range(2):
            w, step = weights[q], 1e-7 * rng.normal(size=7)
            loss = [np.maximum(0, 1 - signs[q] * (X @ v)).sum() for v in (w - step, w, w + step)]
            assert evaluation.loss[q] == pytest.approx(loss[1])
            assert loss[2] - loss[0] == pytest.approx(-2 * evaluation.pull[q] @ step, rel=1e-5, abs=1e-9)
            assert evaluation.active[q] == (signs[q] * (X @ w) < 1).sum()


def test_the_dual_objective_is_below_every_primal_one(rows):
    X, y = rows
    rng = np.random.default_rng(2)
    for _ in range(20):
        a, w = rng.uniform(size=len(y)) ** rng.integers(1, 9), rng.normal(size=7)
        found = hinge_dual(np.array([a.mean()]), ((a * y) @ X / len(y))[None], ALPHA)[0]
        assert found <= objective(X, y, w)
        scaled = [
            s * a.mean() - s * s * np.sum(((a * y) @ X / len(y)) ** 2) / (2 * ALPHA) for s in np.linspace(0, 1, 50)
        ]
        assert found >= max(scaled) - 1e-12


NETWORKS = {
    "in rounds": Conditions(),
    "asynchronous, a fifth lost": Conditions.asynchronous(loss=0.2, duplication=0.1),
}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("shards", ["random", "sorted", "sorted_unequal"])
@pytest.mark.parametrize("topology", ["ring", "star"])
@pytest.mark.parametrize("network", NETWORKS)
def test_every_site_finds_the_optimum_of_all_rows(rows, optimum, shards, topology, network):
    found = learning(rows, topology=topology, shards=shards, conditions=NETWORKS[network]).run(600)
    assert excess(found, *rows, optimum) <= 0.01 and excess(found, *rows, optimum, average=True) <= 0.02
    assert found.dual_objective()[0] <= optimum and found.history[-1]["relative_gap"] < 0.05
    for program in found.programs:  # what sites believe, which nobody told them
        assert program.objective[0] == pytest.approx(objective(*rows, program.weights[0]), rel=0.05)
        assert program.dual_objective[0] == pytest.approx(found.dual_objective()[0], rel=0.05)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("batch_size", [1, 10, 100])
def test_batches_come_near_it_too(rows, optimum, batch_size):
    found = learning(rows, batch_size=batch_size, topology="complete").run(600)
    assert excess(found, *rows, optimum, average=True) <= (0.1 if batch_size == 1 else 0.03)


@pytest.mark.slow
def test_the_paper_s_form_is_drawn_to_each_site_s_own_rows(rows, optimum):
    def worst(shards, rounds=600, **settings):
        return excess(learning(rows, shards=shards, **settings).run(rounds), *rows, optimum)

    assert worst("sorted") < 1e-3 < 0.01 < worst("sorted", gradient="local")
    assert worst("sorted", 3000, gradient="local", gossip_rounds=10) < 0.02
    assert worst("random", gradient="local") < 0.1


@pytest.mark.slow
def test_rows_weigh_alike_however_they_are_dealt(rows, optimum):
    """A mean over sites in place of rows would solve another problem."""
    sizes = learning(rows, shards="sorted_unequal")
    counts = np.bincount(sizes.site)
    assert counts.max() > 50 * counts.min()
    for gradient in ("tracked", "local"):
        run = learning(rows, shards="sorted_unequal", topology="complete", gradient=gradient, gossip_rounds=1)
        consensus = run.run(600).weights().mean(axis=0)[0]
        assert objective(*rows, consensus) < 1.03 * optimum


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "odm"])
@pytest.mark.parametrize("network", NETWORKS)
def test_every_site_knows_how_far_it_is_at_most(rows, loss, network):
    """Its estimate is the gap of its own weights to the dual coefficients of all sites, which it does not know."""
    X, y = rows
    run = learning(rows, shards="sorted", conditions=NETWORKS[network], loss=loss).run(200)
    everything = HingeRows(X, y[None], loss_of(loss))
    for program in run.programs:
        primal = run.objectives(program.weights[None])[0]
        true = (primal - run.dual_objective()) / primal
        assert program.estimated_gap == pytest.approx(true, rel=0.3, abs=0.01)
        assert program.status()["estimated_gap"] == program.estimated_gap.tolist()
        best = hinge_objectives(everything, program.weights, ALPHA, 1e-6)
        assert (primal - best.dual) / primal <= program.estimated_gap + 0.01


def test_gossip_until_a_tolerance_takes_more_rounds(rows):
    steps = [
        learning(rows, gradient="local", gossip_rounds=rounds).run(200).programs[0].steps
        for rounds in (1, 5, 0.01, 0.1)
    ]
    assert steps[0] == 199 and steps[1] == 39 and 10 < steps[2] < steps[3] < 199


def test_the_same_seed_gives_the_same_bits(rows):
    runs = [
        learning(rows, conditions=NETWORKS["asynchronous, a fifth lost"], batch_size=5, seed=s).run(50)
        for s in (1, 1, 2)
    ]
    assert_array_equal(runs[0].weights(), runs[1].weights())
    assert runs[0].simulator.counts == runs[1].simulator.counts
    assert not np.array_equal(runs[0].weights(), runs[2].weights())


def test_sites_stop_by_themselves_near_the_optimum(rows, optimum):
    found = learning(rows, shards="sorted", tol=5e-3).run(5000)
    assert found.status == "converged" and found.n_rounds < 1500
    assert found.history[-1]["worst_objective"][0] <= optimum * 1.01
    quiet = learning(rows, shards="sorted", stop="quiet", tol=1e-2).run(5000)
    assert quiet.status == "converged"


@pytest.mark.parametrize("batch_size", [None, 20])
def test_a_checkpoint_goes_on_bit_by_bit(rows, batch_size):
    X, y = rows
    names = {"a": slice(0, 300), "b": slice(300, 600)}
    settings = GadgetSettings(alpha=ALPHA, batch_size=batch_size)

    def make(name):
        return Gadget(HingeRows(X[names[name]], y[None, names[name]]), settings, (3, len(name)))

    simulator = Simulator({name: lambda name=name: make(name) for name in names}, make_graph("complete", 2))
    simulator.run(until=70.75)
    for name, program in simulator.programs.items():
        again = make(name)
        again.restore(unpack(pack(program.checkpoint())))
        assert_array_equal(again._steps.centre, program._steps.centre)
        assert again._steps.centre.any() and again._steps.damping == program._steps.damping
        again._step(), program._step()
        for attribute in ("weights", "average", "dual", "steps", "rounds"):
            assert_array_equal(getattr(again, attribute), getattr(program, attribute))
        assert_array_equal(again.push_sum.mass, program.push_sum.mass)
        assert_array_equal(again._rng.integers(10**6, size=9), program._rng.integers(10**6, size=9))
        assert_array_equal(again.objective, program.objective)
        assert_array_equal(again.dual_objective, program.dual_objective)


# ---- sites come and go -------------------------------------------------------------------------------------------


DOWN = (Outage("site2", 100.2, 200.2), Outage("site4", 150.2, 250.2, loses_memory=True))
EVENTS = {
    "one comes late": {"conditions": Conditions(joins={"site3": 150.0})},
    "a link carries one way only": {
        "conditions": Conditions(links={("site0", "site1"): LinkFaults(loss=1.0)}), "n_sites": 3
    },
    "all links are of one way": {
        "conditions": Conditions(LinkFaults(loss=0.1)), "n_sites": 4, "lease": np.inf,
        "topology": nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]),
    },
    "two are down": {"conditions": Conditions(outages=DOWN)},
    "halves are cut apart": {
        "conditions": Conditions(splits=(NetworkSplit((frozenset({"site0", "site1", "site2"}),), 100.2, 300.2),))
    },
}  # fmt: skip


@pytest.mark.slow_after(3)
@pytest.mark.parametrize("event", EVENTS)
def test_whatever_happens_every_site_finds_the_optimum(rows, optimum, event):
    found = learning(rows, **{"shards": "sorted", "lease": 5.0} | EVENTS[event]).run(1000)
    assert excess(found, *rows, optimum) <= 0.01
    silent = {(name, report.facts["site"]) for _, name, report in found.simulator.reports if report.what == "silent"}
    if event == "two are down":
        assert silent >= {("site1", "site2"), ("site3", "site2"), ("site3", "site4"), ("site5", "site4")}


def test_sites_without_rows_or_with_one_class(rows, optimum):
    site = np.where(rows[1] > 0, 0, 1)  # and nothing for sites 2 and 3
    assert excess(learning(rows, 4, shards=site).run(900), *rows, optimum) <= 0.01


def test_those_who_are_left_learn_from_their_own_rows(rows):
    X, y = rows
    run = learning(rows, shards="sorted", topology="complete", conditions=Conditions(outages=(Outage("site0", 60.2),)))
    found = run.run(900)
    kept = run.site != 0
    least = linear_sites.optimum(X[kept], y[kept])
    for program in found.programs[1:]:
        assert objective(X[kept], y[kept], program.weights[0]) <= least * 1.01


def test_a_late_site_is_brought_up_to_date(rows):
    found = learning(rows, shards="sorted", conditions=Conditions(joins={"site3": 150.0}), lease=5.0).run(151)
    late, other = found.programs[3], found.programs[2]
    assert late.steps > 140 and other.steps > 140 and late.rounds == 1
    assert np.linalg.norm(late.weights - other.weights) < 0.1 * np.linalg.norm(other.weights)


def test_silence_blocks_nobody_longer_than_the_lease(rows):
    deaf = learning(rows, 2, topology="complete", conditions=Conditions(LinkFaults(loss=1.0)), lease=7.0).run(40)
    assert [program.steps for program in deaf.programs] == [33, 33]  # alone, after the lease
    frozen = Conditions(outages=(Outage("site0", 20.2),))
    found = learning(rows, 3, conditions=frozen, lease=7.0).run(60)
    assert [program.steps for program in found.programs[1:]] == [59, 59]


def test_a_site_that_loses_everybody_keeps_what_it_has_learnt_with_them(rows):
    alone = NetworkSplit((frozenset({"site0"}),), at=60.2)
    run = learning(rows, shards="sorted", conditions=Conditions(splits=(alone,)), lease=5.0)
    soon, later = replace(run).run(70), replace(run).run(200)
    assert_array_equal(soon.programs[0].weights, later.programs[0].weights)
    assert not np.array_equal(soon.programs[1].weights, later.programs[1].weights)
    assert later.programs[0].status()["waiting"] and not later.programs[1].status()["waiting"]


def test_a_site_that_reaches_nobody_any_more_waits_and_says_so_once(rows):
    """A real site, whose last peer had died, said so 20 times a second and unlearnt what it had learnt with it."""
    X, y = rows
    makers = {
        name: lambda part=part: Gadget(HingeRows(X[part], y[None, part]), GadgetSettings(alpha=ALPHA, lease=5.0))
        for name, part in (("a", slice(0, 300)), ("b", slice(300, 600)))
    }
    together, apart = make_graph("complete", 2), nx.empty_graph(2)
    simulator = Simulator(makers, lambda seconds: apart if 20 <= seconds < 100 or seconds >= 150 else together)
    simulator.run(until=30)
    learnt = {name: program.weights for name, program in simulator.programs.items()}
    simulator.run(until=90)
    for name, program in simulator.programs.items():
        assert_array_equal(program.weights, learnt[name])
        assert program.status()["waiting"]
    simulator.run(until=140)
    assert not any(program.status()["waiting"] for program in simulator.programs.values())
    simulator.run(until=220)
    said = [(int(now // 10), name) for now, name, report in simulator.reports if report.what == "alone"]
    assert sorted(said) == [(2, "a"), (2, "b"), (15, "a"), (15, "b")]


def test_while_a_neighbour_does_not_answer_nobody_is_drained(rows):
    """Shares that go into the void until the lease ends would leave little mass beside whole contributions."""
    down = Conditions(outages=(Outage("site0", 50.2),))
    run = learning(rows, 3, shards="sorted", topology="complete", conditions=down, lease=60.0)
    before, found = replace(run).run(49), replace(run).run(105)
    assert max(objective(*rows, program.weights[0]) for program in found.programs[1:]) < 1.5 * max(
        objective(*rows, program.weights[0]) for program in before.programs
    )


def test_nothing_is_learnt_from_sums_that_cannot_be(rows):
    """Those of who is left, while the others go one after the other."""
    down = Conditions(outages=tuple(Outage(f"site{k}", 200.2 + 2 * k) for k in range(4)))
    run = learning(rows, 5, shards="sorted", topology="complete", conditions=down, lease=12.0)
    before, found = replace(run).run(200), replace(run).run(260)
    last = found.programs[4]
    assert objective(*rows, last.weights[0]) < 1.5 * objective(*rows, before.programs[4].weights[0])
    assert last.status()["waiting"]
