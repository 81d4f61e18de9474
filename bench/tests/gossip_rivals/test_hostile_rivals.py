"""A peer that knows the protocol of a rival by heart neither stops nor parts honest sites."""

import random

import numpy as np
import pytest
import test_hostile_rounds
from fuzz import driver, fuzz_rounds
from fuzz.listening import Listening, together
from test_hostile_rounds import LEASE, a_change, an_iterate, are_well, honest_sites, in_step

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds import ClippedMean, Logarithmic, Quantised, RandomK, TopK
from dimargin.gossip.rounds.compression import Code
from dimargin.gossip.rounds.public_copies import Difference
from dimargin.problems.hinge import HingeRows
from dimargin_bench.gossip_rivals import (
    ChocoSGD,
    GossipLearning,
    MoMDSVM,
    SetGossip,
    UniformGadget,
    decentralised_sgd,
    uniform_mended,
)
from dimargin_bench.gossip_rivals.gossip_learning import WalkingModel

RIVALS = (
    ChocoSGD(TopK(0.5)),
    ChocoSGD(RandomK(0.5), merge=ClippedMean(0)),
    ChocoSGD(Quantised(16)),
    MoMDSVM(),
    GossipLearning(),
    SetGossip("support"),
    SetGossip("hull"),
    UniformGadget(),
)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # of what makes the inputs
def test_inputs_of_no_correct_site(monkeypatch):
    """The target of `make fuzz`, with rivals in the place of the library's algorithms."""
    monkeypatch.setattr(fuzz_rounds, "_ALGORITHMS", RIVALS)
    fuzz_rounds._world.cache_clear()
    try:
        for k in range(300):
            assert driver.failure(fuzz_rounds, fuzz_rounds.generate(random.Random(k))) is None
    finally:
        fuzz_rounds._world.cache_clear()


def test_who_opens_the_edge_again_and_again_is_left_out():
    test_hostile_rounds.test_who_opens_the_edge_again_and_again_is_left_out(ChocoSGD())


@pytest.mark.parametrize("variant", ["mu", "um", "rw"])
def test_a_model_as_old_as_can_be_parts_nobody(variant):
    sites = honest_sites(GossipLearning(variant))
    sites[0].hear("eve", WalkingModel(np.zeros((1, 3)), LIMITS.count // 2))
    together(sites, 5, 1)
    are_well(sites)


def test_who_has_heard_nobody_for_a_lease_learns_alone():
    sites = honest_sites(GossipLearning())
    sites[0].wake(3 * LEASE)
    assert sites[0].program.model.age > 30


def a_copy(message):
    head = in_step(message.turn), message.round, 2, ""
    if message.turn.number < 40:
        return Difference(*head, code=Code(dense=np.full(3, 1e150)))
    return Difference(*head, whole=np.full((1, 3), -1e150))


def test_masses_that_are_next_to_nothing_leave_weights_finite():
    algorithm = UniformGadget(batch_size=None)
    problem = Problem(0.01, 3, 36, lease=LEASE)
    nothing = HingeRows(np.zeros((0, 3)), np.zeros((1, 0)))
    site = Listening("north", algorithm.program(problem, "north", nothing, (0,)), ["eve"])
    kind = site.program.messages[0]
    for sequence, (vector, weight) in enumerate([(0.0, 1e-300), (1e59, 1e-300), (1e150, 1e-300)], 1):
        mass = uniform_mended.Mass(1, 0, sequence, 0, np.array([vector, vector, vector, weight]))
        site.hear("eve", kind(mass, 0))
        site.wake(site.now + 1.0)
        assert np.isfinite(site.program.weights).all() and np.isfinite(site.program.average).all()
    assert "adds 1e+150 to a sum, expected at most 1e+60" in site.program.neighbourhood.refused["eve"]


@pytest.mark.parametrize(
    ("algorithm", "lie"),
    [
        (MoMDSVM(), an_iterate),
        (MoMDSVM(compression=Logarithmic(1)), a_change),
        (decentralised_sgd(), a_copy),
    ],
    ids=["mom", "mom that compresses", "sgd"],
)
def test_the_largest_numbers_in_step_bring_no_site_to_say_what_others_refuse(algorithm, lie):
    test_hostile_rounds.test_the_largest_numbers_in_step_bring_no_site_to_say_what_others_refuse(algorithm, lie)
