"""Public copies are the same wherever they are kept, and come to what they are copies of."""

import numpy as np
import pytest
from fuzz.listening import heard
from linear_sites import ALPHA, excess, objective, optimum, overlapping, sites
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.gossip.messages import MessageError, decoder, encode
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.compression import Code, Identity, Logarithmic, Quantised, RandomK, TopK
from dimargin.gossip.rounds.consensus_admm import ConsensusADMM
from dimargin.gossip.rounds.public_copies import Change, Difference, PublicCopies
from dimargin.gossip.rounds.turns import Edge, Turn
from dimargin.gossip.simulation.conditions import Conditions, Outage
from dimargin.problems.hinge import HingeRows

ROWS = overlapping()
BEST = optimum(*ROWS)
OPERATORS = [Identity(), TopK(0.3), RandomK(0.4), Quantised(7), Logarithmic(3)]
LOSSY = Conditions.asynchronous(loss=0.3, duplication=0.2)
EVENTFUL = Conditions.asynchronous(
    loss=0.2, joins={"site1": 20.0}, outages=(Outage("site2", 30.3, 40.0), Outage("site4", 50.3, 60.0, True))
)
# the second of two neighbours begins with a message that looks like the one of its life before,
# which has been used
FORGETFUL = Conditions(outages=(Outage("site1", 30.3, 31.419, True), Outage("site2", 33.342, 33.831, True)))
NETWORKS = {"lossy": LOSSY, "sites come and go": EVENTFUL, "two forget in turn": FORGETFUL}


def recorded(run, monkeypatch):
    """Return the public copies of every site, which become more as the run goes on."""
    published, publish, make = {f"site{k}": set() for k in range(6)}, PublicCopies.publish, run._program

    def named(number, name):
        program = make(number, name)
        program.name = name
        return program

    def published_as_well(program, vector):
        publish(program, vector)
        published[program.name].add(program.public.tobytes())

    run._program = named
    monkeypatch.setattr(PublicCopies, "publish", published_as_well)
    return published


@pytest.mark.parametrize("conditions", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("algorithm", [ConsensusADMM(compression=c) for c in OPERATORS])
def test_copies_are_the_same_wherever_they_are(algorithm, conditions, monkeypatch):
    """Whatever a neighbour keeps of a site, that site has published, bit for bit."""
    run = sites(algorithm, *ROWS, conditions=conditions)
    published = recorded(run, monkeypatch)
    n_seen = 0
    run.run(1)
    for until in np.arange(2.0, 100.0, 0.25):
        run.simulator.run(until)
        for name, copy in [item for program in run.programs for item in program.copies.items()]:
            assert copy.tobytes() in published[name]
            n_seen += copy.any()
    assert n_seen > 2000


COMPRESSED = [
    ConsensusADMM(0.2, compression=Logarithmic()), ConsensusADMM(0.2, compression=TopK(0.3)),
]  # fmt: skip


@pytest.mark.parametrize("algorithm", COMPRESSED)
def test_sites_that_have_forgotten_learn_on(algorithm):
    run = sites(algorithm, *ROWS, conditions=FORGETFUL)
    run.run(300)
    assert excess(run, *ROWS, BEST) < 0.01


@pytest.mark.parametrize("algorithm", COMPRESSED)
def test_a_copy_that_is_another_one_is_made_anew(algorithm, monkeypatch):
    run = sites(algorithm, *ROWS)
    published = recorded(run, monkeypatch)
    run.run(30)
    copies = run.programs[2].copies
    copies["site1"] = copies["site1"] + 1e-3
    run.simulator.run(40.0)
    assert copies["site1"].tobytes() in published["site1"]
    assert run.programs[2].members == ["site1", "site3"] and run.programs[2].rounds > 35


@pytest.mark.parametrize("algorithm", COMPRESSED)
def test_a_liar_leaves_nothing_behind(algorithm):
    """It brings its neighbours' weights to the bound, at which all copies are shortened alike."""
    X, y = ROWS
    run = sites(algorithm, X, y, conditions=Conditions(outages=(Outage("site0", 15.3),)))
    make = run._program

    def made(number, name):
        program = make(number, name)
        if number == 0:
            program.outgoing = lambda neighbour: Difference(**program.head, whole=np.full((1, 7), 1e12))
        return program

    run._program = made
    run.run(400)
    kept = run.site != 0
    alpha = ALPHA * 5 / kept.sum() * len(y) / 6
    rest = optimum(X[kept], y[kept], alpha)
    for k in range(1, 6):
        assert not run.programs[k].neighbourhood.refused
        assert objective(X[kept], y[kept], run.weights()[k, 0], alpha) < rest * 1.05


def test_vectors_are_shortened_once():
    site = ConsensusADMM().program(Problem(ALPHA, 2, 400), "a", HingeRows(ROWS[0], ROWS[1][None]), (1,))
    for vector in np.random.default_rng(0).normal(size=(1000, 1, 7)) * 1e9:
        once = site.bounded(vector)
        assert_array_equal(site.bounded(once), once)
        assert_allclose(once / np.linalg.norm(once), vector / np.linalg.norm(vector))


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
    run = sites(ConsensusADMM(), *ROWS)
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


def test_changes_between_ends_that_know_each_other_are_short():
    """The short form has a third of the header, and its receiver restores the long form from the state of the edge."""
    code = Logarithmic().compress(np.random.default_rng(0).normal(size=124), np.random.default_rng(0))
    before = Difference(Turn(3, 5, 6, 5), 9, 2, "digest", code=code, check=7, penalty=0.5)
    message = Difference(Turn(3, 5, 7, 6), 10, 2, "digest", code=code, check=8, penalty=0.5)
    short = Change.of(message, before, "digest")
    assert len(encode(short)) - 62 < 35 and len(encode(message)) - 62 > 100
    received = decoder((Change,))(encode(short))
    end = Edge(life=5, knows=3, is_open=True)
    whole = received.whole(end, "digest", 10)
    assert (whole.turn, whole.round, whole.check) == (message.turn, 10, 8)
    restored = [Logarithmic().restore(one.code, 124) for one in (whole, message)]
    assert_array_equal(*restored)
    for other in (Edge(life=6, knows=3, is_open=True), Edge(life=5, knows=2, is_open=True), Edge(life=5, knows=3)):
        assert received.whole(other, "digest", 10) is None
    assert received.whole(end, "other", 10) is None


@pytest.mark.parametrize(
    "before",
    [None, Difference(Turn(3, 5, 6, 5), 9, 2, "", whole=np.ones((1, 3)), penalty=0.25)],
    ids=["the first", "another penalty before"],
)
def test_what_the_other_end_cannot_know_is_sent_in_full(before):
    code = Logarithmic().compress(np.ones(3), np.random.default_rng(0))
    message = Difference(Turn(3, 5, 7, 6), 10, 2, "", code=code, check=8, penalty=0.5)
    assert Change.of(message, before, "") is None
    assert Change.of(Difference(Turn(3, 5, 7, 6), 10, 2, "", whole=np.ones((1, 3)), penalty=0.5), message, "") is None


def test_a_scale_that_is_no_number_is_no_message():
    data = np.float32(np.nan).tobytes() + b"\0\0" + b"\0"
    with pytest.raises(MessageError, match="its scale is nan, expected a finite number"):
        decoder((Change,))(encode(Change(1, 2, data)))
