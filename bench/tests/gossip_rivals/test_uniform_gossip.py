"""GADGET with one random neighbour: Pegasos at one site, on all rows at many; printed, what a plain loop does."""

import re
from functools import partial

import linear_sites
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_sites import ALPHA, objective, pegasos
from numpy.testing import assert_allclose, assert_array_equal

from dimargin import GossipSVMClassifier
from dimargin.gossip.messages import MessageError, decoder, encode, pack, unpack
from dimargin.gossip.program import Report, Send
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.push_sum import Mass
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, Outage
from dimargin.gossip.simulation.gossip_run import GossipRun
from dimargin.gossip.topology import make_graph
from dimargin.problems.hinge import HingeRows
from dimargin_bench.gossip_rivals.uniform_gossip import UniformGadget
from dimargin_bench.gossip_rivals.uniform_mended import Half, Heard
from dimargin_bench.gossip_rivals.uniform_printed import Given

ASYNCHRONOUS = Conditions.asynchronous(loss=0.3, duplication=0.2)


@pytest.fixture(scope="module")
def rows():
    return linear_sites.overlapping(600)


@pytest.fixture(scope="module")
def optimum(rows):
    return linear_sites.optimum(*rows)


def learning(rows, n_sites=6, topology="ring", shards="random", conditions=None, seed=0, **parameters):
    lease = np.inf if not isinstance(topology, str) and nx.is_directed(topology) else 20.0
    algorithm = UniformGadget(**parameters)
    return linear_sites.sites(algorithm, *rows, n_sites, topology, shards, conditions, seed, lease=lease)


# ---- mended ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 1, 10])
@pytest.mark.parametrize("projection", [False, True])
def test_one_site_is_pegasos(rows, batch_size, projection):
    X, y = rows
    for matrix in (X, sp.csr_array(X)):
        found = learning((matrix, y), 1, batch_size=batch_size, projection=projection).run(60)
        assert found.programs[0].steps == 60
        expected = pegasos(X, y, 60, batch_size, projection=projection)
        assert_allclose(found.weights()[0, 0], expected, rtol=1e-9)


@given(st.integers(2, 9), st.integers(0, 99), st.sampled_from([None, 3]), st.integers(1, 3))
@settings(max_examples=12)
def test_the_sum_of_the_masses_is_made_of_the_dual_coefficients(n_sites, seed, batch_size, gossip_rounds):
    """``sum_i s_i = 1/alpha sum_j a_j y_j x_j``, and the sum of the weights of the masses is N."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(80, 3)), np.where(rng.random(80) < 0.4, 1.0, -1.0)
    graph = nx.random_labeled_tree(n_sites, seed=seed)
    run = learning(
        (X, y), n_sites, graph, seed=seed, batch_size=batch_size, projection=False, gossip_rounds=gossip_rounds
    )
    run.run(40)
    masses = sum(program.push_sum.mass for program in run.programs)
    assert masses[-1] == pytest.approx(80)
    assert {program.steps for program in run.programs} == {1 + 37 // gossip_rounds}
    pull = sum((p.rows.signs * p._paid / p.steps) @ p.rows.X for p in run.programs)[0]
    assert_allclose(masses[:-1], pull / ALPHA, atol=1e-9 * np.abs(pull / ALPHA).max())
    for program in run.programs:
        assert (program.dual >= 0).all() and (program.dual <= 1).all()


@pytest.mark.parametrize("topology", ["ring", "star"])
def test_what_is_owed_and_paid_is_what_is_due(topology):
    """Rows so short that all margins stay below one: ``w = mean(y x) / alpha``, but for what is owed."""
    rng = np.random.default_rng(3)
    X, y = 1e-3 * rng.normal(size=(90, 3)), np.where(rng.random(90) < 0.4, 1.0, -1.0)
    run = learning((X, y), topology=topology, shards="unequal", batch_size=None).run(300)
    for program in run.programs:
        paid = program._paid + program._owed / max(program.rows.n_rows, 1)
        assert_allclose(paid, np.full_like(paid, program.steps))
        assert 0 <= program._owed <= 20 * program.rows.n_rows
    w = sum(program.push_sum.mass[:-1] for program in run.programs) / 90
    assert_allclose(w, y @ X / 90 / ALPHA, atol=0.05 * np.abs(y @ X / 90 / ALPHA).max())


@pytest.mark.slow_after(2)
@pytest.mark.parametrize("shards", ["random", "sorted", "sorted_unequal"])
@pytest.mark.parametrize("conditions", [None, ASYNCHRONOUS], ids=["in rounds", "asynchronous"])
def test_the_average_of_every_site_comes_near_the_optimum_of_all_rows(rows, optimum, shards, conditions):
    run = learning(rows, topology="complete", shards=shards, conditions=conditions, batch_size=None, seed=1).run(500)
    averages = [objective(*rows, w[0]) for w in run.weights(average=True)]
    consensus = objective(*rows, run.weights(average=True).mean(axis=0)[0])
    assert optimum * (1 - 1e-9) <= consensus <= 1.02 * optimum
    assert max(averages) <= (1.1 if shards == "random" else 1.3) * optimum
    assert 0.8 * optimum <= run.dual_objective()[0] <= optimum
    assert run.simulator.counts["undecodable"] == 0


def test_more_rounds_of_gossip_bring_sites_together(rows):
    spread = []
    for gossip_rounds in (1, 8):
        run = learning(rows, shards="sorted", batch_size=None, gossip_rounds=gossip_rounds).run(2 + 60 * gossip_rounds)
        assert run.programs[0].steps == 60
        spread.append(run.history[-1]["consensus_spread"])
    assert spread[1] < 0.5 * spread[0]


def test_a_message_is_one_vector_and_one_weight_to_one_neighbour(rows):
    problem = Problem(ALPHA, 6, 600)
    for form, headers in (("mended", 90), ("equation 5", 70)):
        site = UniformGadget(form=form).program(problem, "a", HingeRows(rows[0], rows[1][None]), (0,))
        list(site.start(0.0, "bcdef"))
        for t in range(1, 30):
            sends = [action for action in site.wake(float(t), "round") if isinstance(action, Send)]
            fresh = [send for send in sends if send.to in "bcdef"]
            assert len(fresh) >= 1 and all(len(encode(send.message)) <= 8 * 8 + headers for send in fresh)
            if form == "equation 5":
                assert len(fresh) == 1


def test_a_fault_free_round_is_one_share_and_one_answer_a_site(rows):
    run = learning(rows).run(50)
    assert run.simulator.counts["messages"] == pytest.approx(2 * 6 * 50, abs=12)


@pytest.mark.parametrize("form", ["mended", "equation 5"])
@pytest.mark.parametrize("conditions", [None, ASYNCHRONOUS], ids=["in rounds", "asynchronous"])
def test_a_neighbour_that_crashes_blocks_nobody(rows, form, conditions):
    conditions = conditions or Conditions()
    conditions = Conditions(**{**vars(conditions), "outages": (Outage("site2", 30.3),)})
    run = learning(rows, conditions=conditions, form=form).run(150)
    steps = [program.steps for program in run.programs]
    assert steps[2] <= 30 and min(steps[:2] + steps[3:]) >= 100


def test_the_rows_of_a_site_that_has_gone_count_no_more(rows, optimum):
    X, y = rows
    run = learning(rows, conditions=Conditions(outages=(Outage("site2", 60.3),)), batch_size=None).run(500)
    left = [program for i, program in enumerate(run.programs) if i != 2]
    assert sum(program.push_sum.mass[-1] for program in left) == pytest.approx(500, rel=1e-9)
    assert {(name, report.facts["site"]) for _, name, report in run.simulator.reports} == {
        ("site1", "site2"), ("site3", "site2")
    }  # fmt: skip
    remaining = run.site != 2
    least = linear_sites.optimum(X[remaining], y[remaining])
    for program in left:
        assert objective(X[remaining], y[remaining], program.average[0]) <= 1.1 * least


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("loses_memory", [False, True])
def test_a_site_that_returns_counts_again(rows, optimum, loses_memory):
    down = Conditions(outages=(Outage("site2", 60.3, 120.0, loses_memory),), joins={"site4": 50.0})
    run = learning(rows, conditions=down, batch_size=None).run(500)
    assert sum(program.push_sum.mass[-1] for program in run.programs) == pytest.approx(600, rel=1e-9)
    assert {program.steps > 380 for program in run.programs} == {True}
    assert objective(*rows, run.weights().mean(axis=0)[0]) <= 1.05 * optimum


def test_directed_graphs_need_no_answers(rows, optimum):
    ring = nx.DiGraph([(i, (i + 1) % 6) for i in range(6)] + [(0, 3), (4, 1)])
    run = learning(rows, topology=ring, batch_size=None).run(400)
    assert run.simulator.counts["messages"] == pytest.approx(6 * 400, abs=12) and not run.simulator.reports
    assert objective(*rows, run.weights(average=True).mean(axis=0)[0]) <= 1.05 * optimum


def test_sites_without_rows_learn_the_machine_of_the_others(rows, optimum):
    X, y = rows
    problem = Problem(ALPHA, 4, 600)
    make = partial(UniformGadget(batch_size=5).program, problem)
    run = GossipRun(X, y[None], np.arange(600) % 3, 4, problem, make_graph("ring", 4), make=make).run(600)
    assert objective(*rows, run.programs[3].average[0]) <= 1.2 * optimum
    make = partial(UniformGadget(batch_size=5, form="equation 5").program, problem)
    run = GossipRun(X, y[None], np.arange(600) % 3, 4, problem, make_graph("ring", 4), make=make).run(30)
    assert np.isfinite(run.weights()).all() and run.programs[3].weights.any()


@pytest.mark.parametrize("form", ["mended", "equation 5"])
def test_the_same_seed_gives_the_same_weights(rows, form):
    first, again, other = (
        learning(rows, conditions=ASYNCHRONOUS, seed=seed, form=form).run(30).weights() for seed in (0, 0, 1)
    )
    assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0


@pytest.mark.parametrize("form", ["mended", "equation 5"])
def test_a_checkpoint_holds_everything(rows, form):
    run = learning(rows, form=form, batch_size=4).run(30)
    site = run.programs[1]
    again = UniformGadget(form=form, batch_size=4).program(run.settings, "", site.rows, (7,))
    state = unpack(pack(site.checkpoint()))
    again.restore(state)
    for program in (site, again):
        program.neighbourhood.heard.clear()
        list(program.start(0.0, ()))
        for t in range(1, 9):
            list(program.wake(float(t), "round"))
    assert_array_equal(site.weights, again.weights)
    assert_array_equal(site.average, again.average)
    assert (site.steps, site.rounds) == (again.steps, again.rounds)
    for name, value in (("average", np.full((1, 7), np.nan)), ("average", np.zeros((1, 3)))):
        with pytest.raises(ValueError, match=r"NaN or infinite|expected"):
            again.restore(state | {name: value})


# ---- printed ---------------------------------------------------------------------------------------------------------


def printed_by_hand(X, y, sites, form, batch_size, projection, n_iterations, seed=0):
    """Sites on a ring in a plain loop, with the paper's lines; each draws a batch and then a neighbour."""
    m, radius = sites.max() + 1, ALPHA**-0.5
    rngs = [np.random.default_rng((seed, i)) for i in range(m)]
    batches = []
    for i in range(m):
        own = np.flatnonzero(sites == i)
        order = own[np.random.default_rng(len(own)).permutation(len(own))]
        batches.append(np.array_split(order, len(own) // batch_size) if batch_size else [own])
    near = [sorted({f"site{(i + 1) % m}", f"site{(i - 1) % m}"} - {f"site{i}"}) for i in range(m)]
    w = np.zeros((m, X.shape[1]))
    for t in range(1, n_iterations + 1):
        s, r = np.zeros(w.shape), np.zeros(m)
        for i in range(m):
            chosen = batches[i][rngs[i].integers(len(batches[i])) if batch_size else 0]
            L = np.zeros(X.shape[1])
            for x, sign in zip(X[chosen], y[chosen], strict=True):
                if form == "algorithm 3" or sign * (w[i] @ x) < 1:
                    L += (-1 if form == "equation 4" else 1) * sign * x / len(chosen)
            step = (1 - 1 / t) * w[i] + L / (ALPHA * t)  # (e)
            if projection:
                step *= min(1, radius / max(np.linalg.norm(step), 1e-300))  # (f)
            to = [int(near[i][rngs[i].integers(len(near[i]))][4:])] if near[i] else []
            for k in (i, *to):  # (g)
                s[k] += step / (1 + len(to))
                r[k] += 1 / (1 + len(to))
        w = s / r[:, None]
        if projection:
            w *= np.minimum(1, radius / np.maximum(np.linalg.norm(w, axis=1, keepdims=True), 1e-300))  # (h)
    return w


@pytest.mark.parametrize("form", ["algorithm 3", "equation 4", "equation 5"])
@pytest.mark.parametrize(("batch_size", "projection"), [(1, True), (10, False), (None, True)])
def test_printed_follows_the_lines_of_the_paper(rows, form, batch_size, projection):
    for n_sites in (1, 5):
        run = learning(rows, n_sites, form=form, batch_size=batch_size, projection=projection).run(30)
        expected = printed_by_hand(*rows, run.site, form, batch_size, projection, 30)
        assert_allclose(run.weights()[:, 0], expected, rtol=1e-9, atol=1e-9)


def test_of_the_printed_steps_only_equation_5_learns(rows, optimum):
    """Algorithm 3 finds ``mean(y x) / alpha``, and equation 4 the other side of the plane."""
    X, y = rows
    found = {}
    for form in ("algorithm 3", "equation 4", "equation 5"):
        run = learning(rows, form=form, batch_size=None, topology="complete", projection=False).run(300)
        found[form] = run.weights(average=True).mean(axis=0)[0]
        assert run.dual_objective()[0] == 0.0
    means = y @ X / 600 / ALPHA
    assert_allclose(found["algorithm 3"], means, rtol=0.02, atol=0.01 * np.abs(means).max())
    assert objective(X, y, found["algorithm 3"]) > 1.3 * optimum
    assert np.mean(np.sign(X @ found["equation 4"]) == y) < 0.4
    assert objective(X, y, found["equation 5"]) < 1.02 * optimum


def test_printed_loses_the_mass_of_a_lost_message_until_the_next_iteration(rows):
    lossy = Conditions(LinkFaults(loss=0.5))
    run = learning(rows, form="equation 5", gossip_rounds=4, conditions=lossy).run(4)
    assert run.simulator.counts["lost"] > 5
    assert sum(program._weight for program in run.programs) < 5
    again = learning(rows, form="equation 5", gossip_rounds=4, conditions=lossy).run(5)
    assert sum(program._weight for program in again.programs) > 5


# ---- what peers say --------------------------------------------------------------------------------------------------


def half(vector, weight, life=1, sequence=1, knows=0, steps=1):
    return Half(Mass(life, knows, sequence, 0, np.append(vector, weight)), steps)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (half(np.zeros(5), 1.0), "has 6 numbers, expected 8"),
        (half(np.zeros(7), -1.0), "takes 1 rows away"),
        (half(np.zeros(7), 1e9), r"brings 1e\+09 rows, and all sites have 600"),
        (half(np.full(7, 1e200), 1.0), r"adds 1e\+200 to a sum"),
    ],
)
def test_messages_of_no_correct_site_are_refused(rows, message, reason):
    site = UniformGadget().program(Problem(ALPHA, 6, 600), "a", HingeRows(rows[0], rows[1][None]), (0,))
    list(site.start(0.0, "bc"))
    list(site.receive(0.4, "b", half(np.ones(7), 3.0)))
    before = site.push_sum.mass.copy()
    actions = list(site.receive(0.5, "c", decoder(site.messages)(encode(message))))
    assert [action.what for action in actions] == ["refused"] and "c" in site.neighbourhood.refused
    assert re.search(reason, actions[0].facts["reason"])
    assert_allclose(site.push_sum.mass, before)
    assert not list(site.receive(0.6, "c", half(np.ones(7), 1.0)))
    for t in range(1, 20):
        assert "c" not in {action.to for action in site.wake(float(t), "round") if isinstance(action, Send)}


def test_what_a_refused_site_has_given_is_undone(rows):
    site = UniformGadget().program(Problem(ALPHA, 6, 600), "a", HingeRows(rows[0], rows[1][None]), (0,))
    list(site.start(0.0, "bc"))
    list(site.receive(0.5, "c", half(np.ones(7), 100.0)))
    before = site.weights
    list(site.receive(0.6, "c", half(np.zeros(7), 1.0, sequence=2)))  # takes 99 rows away
    assert_allclose(site.weights, before)  # learnt over many iterations, whose sums cannot be undone one by one
    assert "c" in site.neighbourhood.refused and site.push_sum.mass[-1] == pytest.approx(600)


def test_acknowledgements_of_what_was_not_sent_say_nothing(rows):
    site = UniformGadget().program(Problem(ALPHA, 6, 600), "a", HingeRows(rows[0], rows[1][None]), (0,))
    list(site.start(0.0, "b"))
    list(site.wake(1.0, "round"))
    assert site.push_sum.unanswered("b") == 1
    for life, sequence in ((1, 2), (2, 1), (0, 1), (2**32, 2**53)):
        list(site.receive(1.1, "b", Heard(life, sequence, 1)))
        assert site.push_sum.unanswered("b") == 1
    list(site.receive(1.2, "b", Heard(1, 1, 1)))
    assert site.push_sum.unanswered("b") == 0


def test_printed_refuses_what_is_no_mass(rows):
    site = UniformGadget(form="equation 5").program(
        Problem(ALPHA, 6, 600), "a", HingeRows(rows[0], rows[1][None]), (0,)
    )
    list(site.start(0.0, "bc"))
    actions = list(site.receive(0.5, "c", Given(np.zeros((1, 3)), 1.0)))
    assert isinstance(actions[0], Report) and "shape (1, 3), expected (1, 7)" in actions[0].facts["reason"]
    list(site.receive(0.6, "c", Given(np.ones((1, 7)), 1.0)))
    assert site._weight == 1  # as before
    for wrong in (Given(np.full((1, 7), np.nan), 1.0), Given(np.zeros((1, 7)), -1.0)):
        with pytest.raises(MessageError):
            decoder(site.messages)(encode(wrong))


# ---- the algorithm of an estimator -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number not below 1, got 0"),
        ({"batch_size": 1.5}, "batch_size must be a whole number not below 1, got 1.5"),
        ({"gossip_rounds": 0}, "gossip_rounds must be a whole number not below 1, got 0"),
        ({"gossip_rounds": True}, "gossip_rounds must be a whole number not below 1, got True"),
        ({"projection": 1}, "projection must be True or False, got 1"),
        ({"form": "new"}, "form must be 'mended' or 'algorithm 3' or 'equation 4' or 'equation 5', got 'new'"),
    ],
)
def test_parameters_out_of_range(rows, parameters, message):
    with pytest.raises(ValueError, match=message):
        GossipSVMClassifier(algorithm=UniformGadget(**parameters)).fit(*rows)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_more_than_two_classes(rows):
    X, y = rows
    y = np.where(X[:, 0] > 1, 2, y)
    machine = GossipSVMClassifier(UniformGadget(batch_size=None), n_sites=3, alpha=ALPHA, max_iter=600, random_state=0)
    machine.fit(X, y)
    assert machine.coef_.shape == (3, 7) and machine.score(X, y) > 0.8
    one = GossipSVMClassifier(algorithm=UniformGadget(batch_size=None), n_sites=1, alpha=ALPHA, max_iter=100, tol=1e-9)
    one.fit(X, y)
    for k, label in enumerate(one.classes_):
        assert_allclose(one.coef_[k], pegasos(X, np.where(y == label, 1.0, -1.0), 100, projection=True), rtol=1e-8)
    assert one.history_[-1]["bytes"] == 0
