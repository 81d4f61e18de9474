"""CHOCO-SGD: decentralised SGD where nothing is compressed, near the optimum where much is."""

import re
from dataclasses import replace

import numpy as np
import pytest
from fuzz.listening import heard
from linear_sites import ALPHA, excess, objective, optimum, overlapping, sites
from numpy.testing import assert_allclose

from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.compression import Code, Identity, Quantised, RandomK, TopK
from dimargin.gossip.rounds.merging import Mean
from dimargin.gossip.rounds.public_copies import Difference
from dimargin.gossip.rounds.turns import Turn
from dimargin.gossip.simulation.conditions import Conditions, Outage
from dimargin.gossip.topology import metropolis_weights
from dimargin.problems.hinge import HingeRows
from dimargin_bench.gossip_rivals.choco import ChocoSGD, decentralised_sgd

ROWS = overlapping()
BEST = optimum(*ROWS)
NETWORKS = {
    "in rounds": Conditions(),
    "asynchronous": Conditions.asynchronous(loss=0.3, duplication=0.2),
}


def recursion(run, algorithm, n_rounds):
    """Numpy on all sites at once: x <- x' + gamma (W - I) xh with x' = x - eta g, xh <- xh + Q(x' - xh)."""
    X, y = ROWS
    W = metropolis_weights(run.graph)
    n, d = run.n_sites, X.shape[1]
    x, public, rng = np.zeros((n, d)), np.zeros((n, d)), np.random.default_rng(0)
    for t in range(n_rounds):
        eta = algorithm.step_size / (1 + t / algorithm.decay)
        for i in range(n):
            own = run.site == i
            short = y[own] * (X[own] @ x[i]) < 1
            x[i] = x[i] - eta * (ALPHA * x[i] - n / len(y) * (y[own] * short) @ X[own])
            q = algorithm.compression
            public[i] += q.restore(q.compress(x[i] - public[i], rng), d)
        x = x + algorithm.gamma * (W @ public - public)
    return x


@pytest.mark.parametrize("topology", ["ring", "star"])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("algorithm", [decentralised_sgd(), ChocoSGD(TopK(0.3), 0.4)])
def test_it_is_the_recursion_on_matrices(algorithm, topology, network):
    run = sites(algorithm, *ROWS, topology=topology, conditions=NETWORKS[network], lease=90.0)
    run.run(60)
    rounds = [program.rounds for program in run.programs]
    for i, program in enumerate(run.programs):
        assert_allclose(program.weights[0], recursion(run, algorithm, rounds[i])[i], rtol=1e-12, atol=1e-12)


def test_decentralised_sgd_is_one_product_a_round():
    """Without compression the copies drop out: x <- W (x - eta g)."""
    X, y = ROWS
    algorithm = decentralised_sgd(0.2, 50.0)
    run = sites(algorithm, *ROWS)
    run.run(60)
    W, x = metropolis_weights(run.graph), np.zeros((6, 7))
    for t in range(60):
        pulls = [
            (y[own] * (y[own] * (X[own] @ w) < 1)) @ X[own]
            for own, w in zip([run.site == i for i in range(6)], x, strict=True)
        ]
        x = W @ (x - 0.2 / (1 + t / 50) * (ALPHA * x - 6 / len(y) * np.array(pulls)))
    assert_allclose(run.weights()[:, 0], x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("compression", "gamma", "network", "shards", "most"),
    [
        (Identity(), 1.0, "in rounds", "sorted", 0.1),
        (TopK(0.2), 0.4, "in rounds", "sorted", 0.1),
        (TopK(0.2), 0.4, "asynchronous", "random", 0.02),
        (RandomK(0.3), 0.2, "in rounds", "random", 0.02),
        (Quantised(3), 0.5, "asynchronous", "random", 0.02),
    ],
)
def test_every_site_comes_near_the_optimum_of_all_rows(compression, gamma, network, shards, most):
    algorithm = ChocoSGD(compression, gamma, 0.5, 50.0)
    run = sites(algorithm, *ROWS, shards=shards, conditions=NETWORKS[network])
    run.run(600)
    assert excess(run, *ROWS, BEST) < most
    assert max(objective(*ROWS, w[0]) for w in run.weights(average=True)) < BEST * (1 + 3 * most)


def test_gossip_keeps_the_mean():
    algorithm = ChocoSGD(TopK(0.2), 0.3, 1e-300)  # steps of nothing
    run = sites(algorithm, *ROWS, topology="star")
    makers, values = run._program, np.random.default_rng(0).normal(size=(6, 7))

    def begun(number, name):
        program = makers(number, name)
        program.weights = values[number][None]
        return program

    run._program = begun
    run.run(150)
    assert_allclose(run.weights()[:, 0].mean(axis=0), values.mean(axis=0), rtol=1e-10)
    assert np.ptp(run.weights(), axis=0).max() < 0.1


def test_compression_saves_bytes():
    sizes = {}
    for name, compression in {"all": Identity(), "top": TopK(0.1), "levels": Quantised(7)}.items():
        X, y = np.random.default_rng(0).normal(size=(60, 1000)), np.sign(np.random.default_rng(1).normal(size=60))
        run = sites(ChocoSGD(compression, 0.2), X, y)
        run.run(10)
        sizes[name] = run.simulator.counts["bytes"]
    assert sizes["top"] < sizes["all"] / 10 and sizes["levels"] < sizes["all"] / 10


def test_batches_are_unbiased():
    rows = HingeRows(ROWS[0][:50], ROWS[1][None, :50])
    program = ChocoSGD(batch_size=5).program(Problem(ALPHA, 6, 400), "a", rows, (1,))
    w = np.random.default_rng(2).normal(size=(1, 7))
    mean = np.mean([program.gradient(w, 5) for _ in range(4000)], axis=0)
    assert_allclose(mean, program.gradient(w), atol=0.02)


def test_it_learns_several_outputs():
    X, y = ROWS
    run = sites(decentralised_sgd(0.5, 50.0), X, np.array([y, -y]))
    run.run(300)
    found = run.weights()
    assert found.shape == (6, 2, 7)
    assert_allclose(found[:, 0], -found[:, 1], rtol=1e-9)


EVENTS = {
    "one leaves": (Conditions.asynchronous(loss=0.2, outages=(Outage("site2", 30.3),)), {2}),
    "one comes late": (Conditions.asynchronous(loss=0.2, joins={"site2": 100.0}), set()),
    "one crashes": (Conditions.asynchronous(loss=0.2, outages=(Outage("site2", 60.3, 70.0),)), set()),
    "one crashes for long": (Conditions.asynchronous(loss=0.2, outages=(Outage("site2", 60.3, 130.0),)), set()),
    "one forgets": (Conditions.asynchronous(loss=0.2, outages=(Outage("site2", 60.3, 80.0, True),)), set()),
}


@pytest.mark.parametrize("event", EVENTS)
def test_sites_come_and_go(event):
    conditions, gone = EVENTS[event]
    X, y = ROWS
    run = sites(ChocoSGD(TopK(0.3), 0.4, 0.5, 50.0), X, y, conditions=conditions)
    run.run(500)
    stay = [i for i in range(6) if i not in gone]
    kept = np.isin(run.site, stay)
    rest = optimum(X[kept], y[kept])
    assert max(objective(X[kept], y[kept], run.weights()[i, 0]) for i in stay) < rest * 1.05
    for i in range(6):
        near = {(i - 1) % 6, (i + 1) % 6} - gone if i in stay else set()
        assert set(run.programs[i].members) == {f"site{j}" for j in near} or i in gone
        for j in near:  # the copies are the same wherever they are, but for what is on its way
            assert np.linalg.norm(run.programs[i].copies[f"site{j}"] - run.programs[j].public) < 0.05


def test_a_checkpoint_is_the_whole_state():
    run = sites(ChocoSGD(TopK(0.3), 0.4, batch_size=4), *ROWS)
    run.run(20)
    program = run.programs[0]
    again = run._program(0, "site0")
    again.restore(unpack(pack(program.checkpoint())))
    assert pack(again.checkpoint()) == pack(program.checkpoint())


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"code": Code(dense=np.ones(3))}, "its code is not that of 7 numbers"),
        ({"whole": np.ones((1, 3))}, r"its weights have shape \(1, 3\), expected \(1, 7\)"),
        ({}, "its message has neither a change nor a whole copy"),
        ({"whole": np.full((1, 7), np.inf)}, "whole has NaN, infinite"),
    ],
)
def test_messages_of_no_site_are_refused(parts, reason):
    program = decentralised_sgd().program(Problem(ALPHA, 2, 400), "a", HingeRows(ROWS[0], ROWS[1][None]), (1,))
    list(program.start(0.0, ["eve"]))
    heard(program, 0.5, "eve", Difference(Turn(1, 1, 1, 1), 0, 1, "", **parts))
    assert re.search(reason, program.neighbourhood.refused["eve"])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": 0.0}, "gamma must be a number in (0, 1], got 0.0"),
        ({"gamma": 1.5}, "gamma must be a number in (0, 1], got 1.5"),
        ({"step_size": -1.0}, "step_size must be a number above 0, got -1.0"),
        ({"decay": 0}, "decay must be a number above 0, got 0"),
        ({"batch_size": 0}, "batch_size must be a whole number not below 1, got 0"),
        (
            {"compression": "top"},
            "compression must be an operator such as Identity(), TopK(), RandomK(), Quantised() or Logarithmic(), got "
            "'top'",
        ),
        (
            {"merge": None},
            "merge must be a rule such as Mean(), TrimmedMean(f), ClippedMean(f) or NearestMixing(f), got None",
        ),
        ({"compression": TopK(2.0)}, "share must be a number in (0, 1], got 2.0"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        replace(ChocoSGD(), **parameters).validate()


def test_any_rule_merges():
    class Nothing(Mean):
        def __call__(self, own, received, weights):
            return own.copy()

    X, y = ROWS
    run = sites(decentralised_sgd(0.5, 50.0, merge=Nothing()), X, y, shards="sorted")
    run.run(100)
    assert np.ptp(run.weights(), axis=0).max() > 0.5  # nobody listens
