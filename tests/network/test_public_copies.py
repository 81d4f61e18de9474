"""Public copies are the same wherever they are kept, and come to what they are copies of."""

import numpy as np
import pytest
from fuzz.listening import heard
from linear_sites import ALPHA, overlapping, sites
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.network.programs.algorithm import Problem
from dimargin.network.rivals.choco import ChocoSGD
from dimargin.network.rivals.compression import Code, Identity, Logarithmic, Quantised, RandomK, TopK
from dimargin.network.rivals.consensus_admm import ConsensusADMM
from dimargin.network.rivals.mom_dsvm import MoMDSVM
from dimargin.network.rivals.public_copies import Difference, PublicCopies
from dimargin.network.rivals.turns import Turn
from dimargin.problems.hinge import HingeRows
from dimargin.simulation.conditions import Conditions, Outage

ROWS = overlapping()
OPERATORS = [Identity(), TopK(0.3), RandomK(0.4), Quantised(7), Logarithmic(3)]
LOSSY = Conditions.asynchronous(loss=0.3, duplication=0.2)
EVENTFUL = Conditions.asynchronous(
    loss=0.2, joins={"site1": 20.0}, outages=(Outage("site2", 30.3, 40.0), Outage("site4", 50.3, 60.0, True))
)


@pytest.mark.parametrize("conditions", [LOSSY, EVENTFUL], ids=["lossy", "sites come and go"])
@pytest.mark.parametrize("algorithm", [ConsensusADMM(compression=c) for c in OPERATORS] + [ChocoSGD(TopK(0.3), 0.4)])
def test_copies_are_the_same_wherever_they_are(algorithm, conditions, monkeypatch):
    """Whatever a neighbour keeps of a site, that site has published, bit for bit."""
    run = sites(algorithm, *ROWS, conditions=conditions)
    published, publish, make = {f"site{k}": set() for k in range(6)}, PublicCopies.publish, run._program

    def named(number, name):
        program = make(number, name)
        program.name = name
        return program

    def recorded(program, vector):
        publish(program, vector)
        published[program.name].add(program.public.tobytes())

    run._program = named
    monkeypatch.setattr(PublicCopies, "publish", recorded)
    n_seen = 0
    for until in range(1, 100, 3):
        run.run(until)
        for name, copy in [item for program in run.programs for item in program.copies.items()]:
            assert copy.tobytes() in published[name]
            n_seen += copy.any()
    assert n_seen > 200


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_copy_comes_to_a_vector_that_stays(operator):
    site = ConsensusADMM(compression=operator).program(
        Problem(ALPHA, 2, 400), "a", HingeRows(ROWS[0], ROWS[1][None]), (1,)
    )
    vector = np.array([[3.0, -1e-3, 0.5, 1e4, 0.0, -7.0, 1e-5]])
    for _ in range(200):
        site.publish(vector)
    assert_allclose(site.public, vector, atol=1e-9)


def test_without_compression_whole_vectors_are_sent():
    run = sites(MoMDSVM(), *ROWS)
    run.run(20)
    for program in run.programs:
        assert_array_equal(program.public, program.weights)
        message = program.outgoing(program.members[0])
        assert_array_equal(message.whole, program.weights)
        assert message.code is None


def test_a_change_is_refused_where_whole_vectors_were_agreed_on():
    program = ConsensusADMM().program(Problem(ALPHA, 2, 400), "a", HingeRows(ROWS[0], ROWS[1][None]), (1,))
    list(program.start(0.0, ["eve"]))
    heard(program, 0.5, "eve", Difference(Turn(1, 1, 1, 1), 0, 1, "", code=Code(dense=np.ones(7))))
    assert "neither a change nor a whole copy" in program.neighbourhood.refused["eve"]
