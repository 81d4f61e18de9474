"""GADGET: one site is Pegasos, many find the optimum of all rows, whatever the network does."""

from dataclasses import replace

import linear_sites
import msgspec
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from fuzz.listening import heard
from linear_sites import ALPHA, excess, learning, objective, pegasos
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.estimators.certificate import hinge_objectives
from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.program import Report, Send
from dimargin.gossip.programs.gadget import Exchange, Gadget
from dimargin.gossip.programs.gadget_settings import GadgetSettings
from dimargin.gossip.programs.local_gadget import gadget_of
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, NetworkSplit, Outage
from dimargin.gossip.simulation.gossip_run import deal
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import make_graph
from dimargin.problems.hinge import HingeRows, hinge_dual, loss_of

ODD_AND_EVEN = slice(0, None, 2), slice(1, None, 2)


@pytest.fixture(scope="module")
def rows():
    return linear_sites.overlapping(600)


@pytest.fixture(scope="module")
def optimum(rows):
    return linear_sites.optimum(*rows)


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


# ---- messages that cannot be -------------------------------------------------------------------------------------


def gadget(rows, n=50, features=7):
    X, y = rows
    return Gadget(HingeRows(X[:n, :features], y[None, :n]), GadgetSettings(alpha=ALPHA))


def exchange(program, neighbour="b", rounds=3):
    actions = list(program.start(0.0, [neighbour]))
    for k in range(rounds):
        actions = list(program.wake(k + 1.0, "round"))
    return next(action.message for action in actions if isinstance(action, Send))


def test_a_site_with_other_features_is_refused_by_name(rows):
    honest, message = gadget(rows), exchange(gadget(rows, features=6), "a")
    list(honest.start(0.0, ["b"]))
    before = honest.push_sum.mass.copy()
    (report,) = heard(honest, 1.0, "b", message)
    assert isinstance(report, Report) and report.facts["site"] == "b"
    assert "expected (1, 7) for 7 features" in report.facts["reason"]
    assert_array_equal(honest.push_sum.mass, before)
    assert not [action for action in honest.wake(2.0, "round") if isinstance(action, Send)]
    assert not list(honest.receive(2.0, "b", exchange(gadget(rows), "a"))) and "b" in honest.status()["refused"]


def test_a_message_that_was_on_its_way_when_the_edge_was_undone_is_no_fault(rows):
    """Its sums are those of thousands of rounds, of which the receiver knows nothing any more."""
    X, y = rows
    settings = GadgetSettings(alpha=ALPHA, mass_bound=2e4, lease=5.0)
    sites = {name: Gadget(HingeRows(X[k::2], y[None, k::2]), settings) for k, name in enumerate("ab")}
    for name, program in sites.items():
        list(program.start(0.0, "ba"[name == "b"]))

    def rounds(first, last, deaf=()):
        for now in range(first, last):
            sent = [(name, action) for name in sites for action in sites[name].wake(float(now), "round")]
            for name, action in sent:
                if isinstance(action, Send) and action.to not in deaf:
                    yield from sites[action.to].receive(float(now), name, action.message)

    assert not list(rounds(1, 500))
    late = next(action.message for action in sites["b"].wake(500.0, "round") if isinstance(action, Send))
    assert np.abs(late.mass.sent).max() > 2e4
    assert not list(rounds(501, 510, deaf="a"))
    assert "b" not in sites["a"].status()["neighbours"]
    assert not list(sites["a"].receive(510.0, "b", late))
    assert not list(rounds(511, 900))
    assert not any(program.status()["refused"] for program in sites.values())
    assert_allclose(sites["a"].weights, sites["b"].weights, rtol=1e-3)


class Liar(Gadget):
    """Honest for fifty rounds."""

    def __init__(self, way, *arguments):
        super().__init__(*arguments)
        self.way, self.kept = way, {}

    def wake(self, now, name):
        for action in super().wake(now, name):
            if not isinstance(action, Send) or self.rounds < 50:
                if isinstance(action, Send):
                    self.kept[action.to] = action
                yield action
            elif self.way == "replay":
                yield self.kept[action.to]
            elif self.way == "flood":
                yield from [action] * 120
            else:
                yield Send(action.to, self.twisted(action.message))

    def twisted(self, message):
        mass, iterate = message.mass, message.iterate
        wrong = {"NaN": np.nan, "infinite": np.inf, "mass": 1e12, "weights": 1e7}[self.way]
        if self.way == "weights":
            iterate = np.full_like(iterate, wrong)
        else:
            mass = msgspec.structs.replace(mass, sent=mass.sent + wrong)
        return Exchange(mass, message.steps, iterate)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("way", ["NaN", "infinite", "mass", "weights", "replay", "flood"])
def test_a_faulty_site_is_dropped_by_name_and_moves_nobody(rows, way):
    X, y = rows
    site = deal("random", y, np.random.default_rng(0).permutation(len(y)), 5)
    settings = GadgetSettings(alpha=ALPHA, tol=1e-12, norm_bound=1e4, mass_bound=1e6, max_messages=50)

    def make(i):
        own = HingeRows(X[site == i], y[None, site == i])
        return Liar(way, own, settings) if i == 2 else Gadget(own, settings)

    names = [f"site{i}" for i in range(5)]
    simulator = Simulator({name: lambda i=i: make(i) for i, name in enumerate(names)}, make_graph("ring", 5))
    simulator.run(until=700)
    honest = [simulator.programs[name] for name in names if name != "site2"]
    for name in ("site1", "site3"):
        assert list(simulator.programs[name].neighbourhood.refused) == ["site2"]
    reasons = [report.facts["reason"] for _, _, report in simulator.reports if report.what == "refused"]
    expected = {"NaN": "NaN", "infinite": "infinite", "mass": "adds 1e", "weights": "a norm", "replay": "repeats old",
                "flood": "more than 50 messages a second"}  # fmt: skip
    assert len(reasons) >= 2 and all(expected[way] in reason for reason in reasons)
    kept = site != 2
    least = linear_sites.optimum(X[kept], y[kept])
    for program in honest:
        assert objective(X[kept], y[kept], program.weights[0]) <= 1.01 * least


def test_a_late_neighbour_is_not_taken_for_one_that_repeats_itself(rows):
    """What was on the way while this site undid the edge adds nothing, but is no repetition: a busy site hears much."""
    X, y = rows
    a, b = (Gadget(HingeRows(X[part], y[None, part]), GadgetSettings(alpha=ALPHA)) for part in ODD_AND_EVEN)
    for program, other in ((a, "b"), (b, "a")):
        list(program.start(0.0, [other]))
    for action in b.wake(0.5, "round"):
        list(a.receive(0.5, "b", action.message) if isinstance(action, Send) else ())
    on_the_way = [[action.message for action in a.wake(k, "round") if isinstance(action, Send)] for k in range(1, 401)]
    for k, (message,) in enumerate(on_the_way):
        list(b.receive(k, "a", message))
        if k == 50:
            b.leave("a")
    assert not b.neighbourhood.refused
    for message in (message for (message,) in on_the_way[:1] * 101):
        list(b.receive(400, "a", message))
    assert not b.neighbourhood.refused  # networks repeat messages
    for message in (message for (message,) in on_the_way * 5):
        list(b.receive(400, "a", message))
    assert "repeats old messages" in b.neighbourhood.refused["a"]


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


def test_sites_stop_by_themselves_near_the_optimum(rows, optimum):
    found = learning(rows, shards="sorted", tol=5e-3).run(5000)
    assert found.status == "converged" and found.n_rounds < 1500
    assert found.history[-1]["worst_objective"][0] <= optimum * 1.01
    quiet = learning(rows, shards="sorted", stop="quiet", tol=1e-2).run(5000)
    assert quiet.status == "converged"


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


def test_who_has_less_than_nothing_left_gives_none_of_it(rows):
    """What it got of a neighbour that has gone it may have given away: its mass is negative for a moment."""
    program = gadget(rows)
    exchange(program, "b")
    list(program.receive(3.0, "b", exchange(gadget(rows), "a")))
    program.push_sum.mass[program.weights.size] = -1.0
    before = program.push_sum.edges["b"].sent.copy()
    (said,) = (action.message for action in program.wake(4.0, "round") if isinstance(action, Send))
    assert_array_equal(said.mass.sent, before)
    program.push_sum.mass[program.weights.size] = 1.0
    (said,) = (action.message for action in program.wake(5.0, "round") if isinstance(action, Send))
    assert said.mass.sent[program.weights.size] > before[program.weights.size]


def test_a_site_that_begins_is_not_led_by_one_of_two(rows):
    late, message = gadget(rows), exchange(gadget(rows), "a")
    list(late.start(0.0, ["b", "c"]))
    for name, steps in (("b", 40), ("c", 10**12)):
        list(late.receive(0.5, name, Exchange(message.mass, steps, message.iterate)))
    list(late.wake(1.0, "round"))
    assert 40 <= late.steps <= 41


@pytest.mark.parametrize("name", ["weights", "average", "pull", "activity", "price"])
def test_a_state_with_values_that_are_none_is_refused(rows, name):
    program = gadget(rows)
    exchange(program)
    state = unpack(pack(program.checkpoint()))
    state[name].flat[0] = np.nan
    with pytest.raises(ValueError, match=f"its {name} are NaN or infinite"):
        gadget(rows).restore(state)


@pytest.mark.parametrize("gradient", ["tracked", "local"])
def test_no_site_tells_weights_that_others_refuse(rows, gradient):
    """Sums that no rows have, as hostile members may bring about, throw the iterate far off."""
    X, y = rows
    settings = GadgetSettings(alpha=ALPHA, gradient=gradient, norm_bound=20 * ALPHA**-0.5)
    for wrong in (1e40, 1e100):
        program = gadget_of(HingeRows(X[:50, :7], y[None, :50]), settings)
        exchange(program)
        program.push_sum.mass[: program.weights.size] = wrong
        program.weights = np.full_like(program.weights, wrong)
        list(program._learn())
        assert np.linalg.norm(program.weights) <= settings.norm_bound / 2 * (1 + 1e-12)


def test_weights_of_members_at_the_bound_leave_room_for_rounding(rows):
    X, y = rows
    settings = GadgetSettings(alpha=ALPHA, norm_bound=20 * ALPHA**-0.5)
    program, other = (Gadget(HingeRows(X[:50, :7], y[None, :50]), settings) for _ in range(2))
    exchange(program)
    message = exchange(other, "a")
    told = np.full_like(program.weights, settings.norm_bound / program.weights.size**0.5 * (1 - 1e-9))
    list(program.receive(3.0, "b", msgspec.structs.replace(message, iterate=told)))
    assert np.linalg.norm(program._iterates["b"]) <= settings.norm_bound / 2 * (1 + 1e-12)
