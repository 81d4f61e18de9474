"""Consensus ADMM finds the machine of all rows at every site, whatever the network does."""

import re
from dataclasses import replace

import numpy as np
import pytest
from fuzz.listening import heard
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from linear_sites import ALPHA, excess, objective, optimum, overlapping, sites
from numpy.testing import assert_allclose

from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.certification import Probe, Rounded
from dimargin.gossip.rounds.compression import Identity, Logarithmic, TopK
from dimargin.gossip.rounds.consensus_admm import ConsensusADMM
from dimargin.gossip.rounds.public_copies import Difference
from dimargin.gossip.rounds.turns import Turn
from dimargin.gossip.simulation.conditions import Conditions, NetworkSplit, Outage
from dimargin.problems.hinge import HingeRows

ROWS = overlapping()
BEST = optimum(*ROWS)
ALGORITHMS = [ConsensusADMM(), ConsensusADMM(compression=Logarithmic())]


@pytest.mark.parametrize(
    ("algorithm", "topology", "shards"),
    [
        (ConsensusADMM(), "ring", "random"),
        (ConsensusADMM(), "star", "sorted_unequal"),
        (ConsensusADMM(over_relaxation=0.7), "complete", "sorted"),
        (ConsensusADMM(0.3, 1.9), "ring", "sorted"),
        (ConsensusADMM(compression=Logarithmic()), "ring", "sorted"),
        (ConsensusADMM(compression=Logarithmic(3)), "star", "sorted_unequal"),
        (ConsensusADMM(compression=TopK(0.4)), "ring", "random"),
    ],
)
def test_every_site_has_the_machine_of_all_rows(algorithm, topology, shards):
    run = sites(algorithm, *ROWS, topology=topology, shards=shards)
    run.run(130)
    assert -1e-6 < excess(run, *ROWS, BEST) < 1e-3
    assert run.history[-1]["relative_gap"] < 2e-3  # by the sites' own dual coefficients


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_lossy_network_costs_time_only(algorithm):
    run = sites(algorithm, *ROWS, shards="sorted", conditions=Conditions.asynchronous(loss=0.3, duplication=0.2))
    run.run(250)
    assert excess(run, *ROWS, BEST) < 1e-3
    same = sites(algorithm, *ROWS, shards="sorted")
    same.run(run.programs[0].rounds)
    assert_allclose(run.programs[0].weights, same.programs[0].weights, rtol=1e-6, atol=1e-8)


def test_over_relaxation_saves_rounds():
    found = []
    for relaxation in (0.6, 1.0, 1.6):
        run = sites(ConsensusADMM(0.05, relaxation), *ROWS, shards="sorted")
        found.append(excess(run.run(60), *ROWS, BEST))
    assert found[0] > found[1] > found[2]


EVENTS = {
    "one leaves": (Conditions(outages=(Outage("site2", 30.3),)), {2}),
    "two leave one alone": (Conditions(outages=(Outage("site1", 30.3), Outage("site5", 30.3))), {0, 1, 5}),
    "one comes late": (Conditions.asynchronous(loss=0.2, joins={"site2": 60.0}), set()),
    "one crashes": (Conditions.asynchronous(loss=0.2, outages=(Outage("site2", 40.3, 50.0),)), set()),
    "one crashes for long": (Conditions.asynchronous(loss=0.2, outages=(Outage("site2", 40.3, 90.0),)), set()),
    "one forgets": (Conditions.asynchronous(loss=0.2, outages=(Outage("site2", 40.3, 50.0, True),)), set()),
    "a split heals": (Conditions(splits=(NetworkSplit((frozenset({"site0", "site1"}),), 30.2, 90.2),)), set()),
}


CASES = [(ConsensusADMM(0.2), event) for event in EVENTS]
CASES += [(ConsensusADMM(0.2, compression=Logarithmic()), event) for event in EVENTS]


@pytest.mark.parametrize(("algorithm", "event"), CASES)
def test_sites_come_and_go(algorithm, event):
    """Those that stay find the optimum of their own rows; where all are back, that of all rows."""
    conditions, gone = EVENTS[event]
    X, y = overlapping(120)
    run = sites(algorithm, X, y, conditions=conditions)
    run.run(230)
    stay = [i for i in range(6) if i not in gone]
    kept = np.isin(run.site, stay)
    # losses still have the weight m/N, so that the regulariser of fewer sites weighs as much less
    alpha = ALPHA * len(stay) / kept.sum() * len(y) / 6
    rest = optimum(X[kept], y[kept], alpha)
    for i in stay:
        assert objective(X[kept], y[kept], run.weights()[i, 0], alpha) < rest * 1.005


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_site_is_the_machine_itself(algorithm):
    run = sites(replace(algorithm, max_steps=300, tol=1e-9), *ROWS, n_sites=1, topology="complete")
    run.run(3)
    assert excess(run, *ROWS, BEST) < 1e-6


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_it_learns_several_outputs(algorithm):
    X, y = ROWS
    run = sites(algorithm, X, np.array([y, -y]))
    run.run(100)
    found = run.weights()
    assert found.shape == (6, 2, 7)
    assert_allclose(found[:, 0], -found[:, 1], atol=1e-3)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_checkpoint_is_the_whole_state(algorithm):
    run = sites(algorithm, *ROWS)
    run.run(20)
    again = run._program(0, "site0")
    again.restore(unpack(pack(run.programs[0].checkpoint())))
    assert pack(again.checkpoint()) == pack(run.programs[0].checkpoint())


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, ConsensusADMM(compression=Identity())])
def test_messages_of_no_site_are_refused(algorithm):
    program = algorithm.program(Problem(ALPHA, 2, 400), "a", HingeRows(ROWS[0], ROWS[1][None]), (1,))
    list(program.start(0.0, ["eve"]))
    heard(program, 0.5, "eve", Difference(Turn(1, 1, 1, 1), 0, 1, "", whole=np.ones((2, 7))))
    assert re.search(r"its weights have shape \(2, 7\), expected \(1, 7\)", program.neighbourhood.refused["eve"])


# ---- members who may lie ---------------------------------------------------------------------------------------------


def slopes(liars, told, penalty=None, rounds=3):
    """Slope and curvature of a site's problem after a neighbour has told it these weights, one per round."""
    problem = Problem(ALPHA, 2, 400, schema="x")
    site = ConsensusADMM(liars=liars, tol=1e-9).program(problem, "a", HingeRows(ROWS[0], ROWS[1][None]), (1,))
    list(site.start(0.0, ["eve"]))
    for number, weights in enumerate(told[:rounds], 1):
        life = site.edges["eve"].life
        turn = Turn(1, life, number, number - 1)
        list(site.receive(number, "eve", Difference(turn, number - 1, 1, "x", whole=weights, penalty=penalty)))
        list(site.wake(number + 0.5, "round"))
    assert not site.neighbourhood.refused and site.rounds == len(told[:rounds])
    return site, *site.distance()


@given(
    st.lists(arrays(np.float64, (1, 7), elements=st.floats(-1e150, 1e150)), min_size=1, max_size=5),
    st.none() | st.floats(0, 1e150),
)
@settings(max_examples=60)
def test_nobody_pulls_at_a_site_farther_than_the_limit(told, penalty):
    """In one round, which begins with the same state: what a neighbour says moves the slope by 2 L at most."""
    honest, first = [np.zeros((1, 7))] * 5, told[:1]
    site, curvature, slope = slopes(1, first, penalty, 1)
    _, other_curvature, other_slope = slopes(1, honest, None, 1)
    limit = 2 * np.linalg.norm(site.rows.lengths)
    assert (curvature <= other_curvature * (1 + 1e-12)).all()  # A penalty can become smaller only.
    if penalty is None:
        assert np.linalg.norm(slope - other_slope) <= 2 * limit * (1 + 1e-9)
    for one in slopes(1, told, penalty, 5)[0].weights:
        assert np.linalg.norm(one) <= 3 * limit / (ALPHA * len(ROWS[1]))


def test_without_a_limit_a_neighbour_pulls_as_it_likes():
    far, near = (slopes(0, [np.full((1, 7), size)], None, 1)[2] for size in (1e6, 0.0))
    assert np.linalg.norm(far - near) > 1e3


@pytest.mark.parametrize("topology", ["ring", "complete"])
def test_limits_cost_honest_sites_little(topology):
    run = sites(ConsensusADMM(liars=1), *overlapping(600), topology=topology)
    run.run(100)
    assert excess(run, *overlapping(600), optimum(*overlapping(600))) < 0.02


def test_where_members_may_lie_certificates_are_refused():
    site, *_ = slopes(1, [np.zeros((1, 7))])
    probe = Probe("x", 1, "eve", Rounded.of(np.zeros((1, 7)), 2))
    list(site.receive(9.0, "eve", probe))
    assert "it sends a certificate" in site.neighbourhood.refused["eve"]
    assert "certified" not in site.status()
    assert site.status()["objective"] == pytest.approx([objective(*ROWS, site.weights[0])])


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (ConsensusADMM(liars=-1), "liars must be a whole number not below 0, got -1"),
        (ConsensusADMM(over_relaxation=2.4), "over_relaxation must be a number in (0, 2), got 2.4"),
        (ConsensusADMM(over_relaxation=10.5), "over_relaxation must be a number in (0, 2), got 10.5"),
        (ConsensusADMM(over_relaxation=2.0), "over_relaxation must be a number in (0, 2), got 2.0"),
        (ConsensusADMM(over_relaxation=0), "over_relaxation must be a number in (0, 2), got 0"),
        (ConsensusADMM(rho=0.0), "rho must be a number above 0, got 0.0"),
        (ConsensusADMM(tol=-1), "tol must be a number above 0, got -1"),
        (
            ConsensusADMM(compression="quantised"),
            "compression must be None or an operator such as Identity(), TopK(), RandomK(), Quantised() or "
            "Logarithmic(), got 'quantised'",
        ),
        (ConsensusADMM(compression=TopK(0.0)), "share must be a number in (0, 1], got 0.0"),
        (ConsensusADMM(max_steps=1.5), "max_steps must be a whole number not below 1, got 1.5"),
        (ConsensusADMM(tol="x"), "tol must be a number above 0, got 'x'"),
        (ConsensusADMM(max_steps=0), "max_steps must be a whole number not below 1, got 0"),
    ],
)
def test_parameters_out_of_range_are_refused(algorithm, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        algorithm.validate()
