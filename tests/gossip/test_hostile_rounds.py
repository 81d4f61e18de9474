"""A peer that knows the protocol of common rounds by heart neither stops nor parts honest sites."""

import networkx as nx
import numpy as np
import pytest
from fuzz.listening import Listening
from numpy.testing import assert_array_equal

from dimargin.gossip import rounds
from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import decoder
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.compression import Code, Logarithmic
from dimargin.gossip.rounds.public_copies import Difference
from dimargin.gossip.rounds.robust import TrackedProposal
from dimargin.gossip.rounds.turns import Turn, Waiting
from dimargin.gossip.simulation.conditions import Conditions, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.problems.hinge import HingeRows

NAMES = ("north", "south", "eve")
RNG = np.random.default_rng(0)
SIGNS = 2.0 * (np.arange(36) % 2) - 1
X = RNG.normal(size=(36, 3)) + SIGNS[:, None] * [1, 0, 0]
LEASE = 20.0


def rows_of(k):
    return HingeRows(X[12 * k : 12 * k + 12], SIGNS[None, 12 * k : 12 * k + 12])


def honest_sites(algorithm):
    problem = Problem(0.01, 3, 36, lease=LEASE)
    others = [[other for other in NAMES if other != name] for name in NAMES]
    return [
        Listening(name, algorithm.program(problem, name, rows_of(k), (k,)), others[k])
        for k, name in enumerate(NAMES[:2])
    ]


def talk(sites, seconds, eve=lambda site, message, now: None):
    """Let honest sites talk; eve answers to what she is told."""
    for now in range(seconds):
        for site in sites:
            site.wake(site.now + 1.0)
        for site in sites:
            for to, data in site.taken():
                for other in sites:
                    if other.name == to:
                        other.hear(site.name, data)
                if to == "eve":
                    lie = eve(site, decoder(site.program.messages)(data), now)
                    if lie is not None:
                        site.hear("eve", lie)


def are_well(sites):
    assert not [facts for site in sites for what, facts in site.said if what in ("broken", "withheld")]
    for site, other in zip(sites, NAMES[1::-1], strict=True):
        assert other not in site.program.neighbourhood.refused and other in site.program.neighbourhood.heard
        assert np.isfinite(site.program.weights).all() and np.isfinite(site.program.average).all()


@pytest.mark.parametrize("algorithm", [rounds.RobustGossip(rounds.TrimmedMean(0)), rounds.ConsensusADMM()], ids=repr)
def test_who_opens_the_edge_again_and_again_is_left_out(algorithm):
    sites, lives = honest_sites(algorithm), {"north": 0, "south": 0}

    def eve(site, message, now):
        if now % 10:
            return None
        lives[site.name] += 1
        return Waiting(Turn(lives[site.name], site.program.edges["eve"].life, 0, 0, True), 0, 2, "")

    talk(sites, 400, eve)
    assert min(site.program.rounds for site in sites) > 200
    assert all(site.program.edges["eve"].stuck for site in sites)
    are_well(sites)


@pytest.mark.parametrize("at", [6.5, 6.6, 6.7, 6.8, 7.4])  # around the first turn of the edge
def test_flows_agree_though_a_site_has_begun_anew_without_memory(at):
    def graph(now):
        found = nx.Graph()
        found.add_nodes_from([0, 1])
        if now >= 5:
            found.add_edge(0, 1)
        return found

    algorithm = rounds.RobustGossip(rounds.TrimmedMean(0), gradient="tracked", flow=1.0)
    problem = Problem(0.01, 2, 24, lease=LEASE)
    makers = {f"site{k}": lambda k=k: algorithm.program(problem, f"site{k}", rows_of(k), (k,)) for k in range(2)}
    outage = Outage("site0", at, at + 0.2, loses_memory=True)
    simulator = Simulator(makers, graph, Conditions(outages=(outage,), joins={"site1": 4.9}))
    for part in range(10):  # Until both have finished the same turn.
        simulator.run(until=60.05 + part / 10)
        one, other = simulator.programs["site0"], simulator.programs["site1"]
        if one.edges["site1"].sent == other.edges["site0"].sent:
            break
    assert one.edges["site1"].sent == other.edges["site0"].sent > 10
    assert_array_equal(one.flows["site1"], -other.flows["site0"])


def wave(number, period, size=1e150):
    return size * (1 if (number // period) % 2 == 0 else -1)


def in_step(turn):
    return Turn(1, turn.life, turn.number, turn.number, True)


def an_iterate(message):
    solution = np.full((1, 3), wave(message.turn.number, 5))
    return Difference(in_step(message.turn), message.round, 2, "", whole=solution)


def a_change(message):
    code = Code(bits=Logarithmic(1).compress(np.ones(3), RNG).bits, scale=abs(wave(message.turn.number, 5)))
    return Difference(in_step(message.turn), message.round, 2, "", code=code)


def a_gradient(message):
    tracked = np.full((1, 3), wave(message.turn.number, 6))
    return TrackedProposal(
        in_step(message.turn), message.round, 2, "", weights=np.zeros((1, 3)), tracked=tracked, largest_flow=1e150
    )


@pytest.mark.parametrize(
    ("algorithm", "lie"),
    [
        (rounds.ConsensusADMM(), an_iterate),
        (rounds.ConsensusADMM(compression=Logarithmic(1)), a_change),
        (rounds.RobustGossip(rounds.Mean(), gradient="tracked", flow=np.inf), a_gradient),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, rounds.RobustGossip) else repr(value)[:20],
)
def test_the_largest_numbers_in_step_bring_no_site_to_say_what_others_refuse(algorithm, lie):
    sites = honest_sites(algorithm)
    talk(sites, 120, lambda site, message, now: None if type(message) is Waiting else lie(message))
    assert min(site.program.rounds for site in sites) > 100
    are_well(sites)


def test_one_liar_alone_cannot_have_a_site_believe_that_it_is_at_the_end_of_time():
    north = honest_sites(rounds.RobustGossip(rounds.Mean()))[0]
    turn = Turn(1, 0, 1, 0, True)
    message = rounds.robust.Proposal(turn, LIMITS.count, 1, "", weights=np.zeros((1, 3)))
    north.program.leave("south")
    north.hear("eve", message)
    north.wake(1.0)
    assert 1 < north.program.rounds <= 10**7 + 1
