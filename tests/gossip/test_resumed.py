"""Sites that are stored after every round: their numbers are those of the simulator, and they survive absences."""

import numpy as np
import pytest
from linear_sites import ALPHA, objective, optimum, overlapping, sites

from dimargin import GossipSVMClassifier
from dimargin.gossip.messages import MessageError, encode, unpack
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds import ConsensusADMM, Logarithmic, Mean, RobustGossip
from dimargin.gossip.rounds.public_copies import Difference
from dimargin.gossip.rounds.resumed import resume_round
from dimargin.gossip.rounds.turns import Turn
from dimargin.gossip.simulation.observed_run import site_names
from dimargin.problems.hinge import HingeRows, loss_of

ROWS = overlapping()
ALGORITHMS = {
    "admm": ConsensusADMM(rho=0.05),
    "compressed": ConsensusADMM(compression=Logarithmic()),
    "robust": RobustGossip(Mean(), step_size=0.2, batch_size=5),
}


class Relay:
    """Sites whose programs are made, restored and stored in every round, and whose messages one place passes on."""

    def __init__(self, make, graph):
        self.make, self.graph, self.now, self.n_bytes = make, graph, 0.0, 0
        self.names = site_names(len(graph))
        self.states = dict.fromkeys(self.names, b"")
        self.present = set(self.names)
        self.post = {name: [] for name in self.names}

    def run(self, n_rounds, absent=(), loses=lambda sender, receiver: False):
        for _ in range(n_rounds):
            sent = {name: [] for name in self.names}
            for k, name in enumerate(self.names):
                if k in absent:
                    continue
                near = {self.names[j] for j in self.graph.neighbors(k)} & self.present
                arguments = self.states[name], self.now, near, sorted(self.post[name])
                self.states[name], outbox = resume_round(self.make(k, name), *arguments)
                self.n_bytes += sum(len(data) for _, data in outbox)
                for to, data in outbox:
                    if not loses(name, to):
                        sent[to].append((name, data))
            self.post, self.now = sent, self.now + 1
            self.present = set(self.names) - {self.names[k] for k in absent}

    @property
    def programs(self):
        found = [self.make(k, name) for k, name in enumerate(self.names)]
        for program in found:
            program.restore(unpack(self.states[program.name])["program"])
        return found


def relay_of(run):
    def make(number, name):
        program = run._program(number, name)
        program.name = name
        return program

    return Relay(make, run.graph)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("topology", ["ring", "star"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_their_numbers_are_those_of_the_simulator(name, topology, loss):
    if name == "robust" and loss != "hinge":
        pytest.skip("it minimises the hinge loss only")
    run = sites(ALGORITHMS[name], *ROWS, topology=topology, shards="sorted")
    run.loss = loss_of(loss)
    relay = relay_of(run)
    run.run(25)
    relay.run(26)  # In the first of them, sites send and receive nothing yet.
    assert [program.rounds for program in relay.programs] == [25] * 6
    assert np.array_equal([program.weights for program in relay.programs], run.weights())
    assert relay.n_bytes == run.simulator.counts["bytes"]


def test_their_numbers_are_those_of_the_estimator():
    X, y = ROWS
    machine = GossipSVMClassifier(
        ConsensusADMM(rho=0.02, compression=Logarithmic()), n_sites=5, topology="ring", alpha=ALPHA, shards="sorted",
        tol=1e-12, max_iter=40, random_state=3,
    )  # fmt: skip
    with pytest.warns(UserWarning):
        machine.fit(X, y)
    run = sites(machine.algorithm, X, y, 5, shards=machine.site_of_rows_, seed=3)
    relay = relay_of(run)
    relay.run(41)
    assert np.array_equal([program.weights[0] for program in relay.programs], machine.site_coef_)


@pytest.mark.parametrize("name", ["admm", "compressed"])
def test_sites_that_are_absent_for_some_rounds_return(name):
    X, y = ROWS
    relay = relay_of(sites(ALGORITHMS[name], X, y, shards="sorted"))
    relay.run(10)
    relay.run(15, absent=(2,))
    assert relay.programs[1].members == ["site0"]
    relay.run(150)
    assert relay.programs[1].members == ["site0", "site2"]
    worst = max(objective(X, y, program.weights[0]) for program in relay.programs)
    assert worst < optimum(X, y) * 1.01


def test_sites_learn_on_without_one_that_stays_away():
    X, y = ROWS
    run = sites(ALGORITHMS["admm"], X, y, shards="sorted", topology="complete")
    relay = relay_of(run)
    relay.run(10)
    relay.run(150, absent=(2,))
    kept = run.site != 2
    worst = max(objective(X[kept], y[kept], relay.programs[k].weights[0]) for k in range(6) if k != 2)
    assert worst < optimum(X[kept], y[kept]) * 1.01


def test_lost_messages_are_sent_again():
    rng = np.random.default_rng(0)
    relay = relay_of(sites(ALGORITHMS["compressed"], *ROWS))
    relay.run(150, loses=lambda sender, receiver: rng.random() < 0.2)
    assert min(program.rounds for program in relay.programs) > 20
    assert max(objective(*ROWS, program.weights[0]) for program in relay.programs) < optimum(*ROWS) * 1.01


def lone(rows=30):
    problem = Problem(ALPHA, 2, 60)
    return ConsensusADMM(rho=0.05).program(problem, "a", HingeRows(ROWS[0][:rows], ROWS[1][None, :rows]), (1,))


def test_senders_of_invalid_messages_stay_refused():
    state, _ = resume_round(lone(), b"", 0.0, ["eve"], [])
    bad = encode(Difference(Turn(1, 1, 1, 1), 0, 1, "", whole=np.full((1, 7), np.inf)))
    state, _ = resume_round(lone(), state, 1.0, ["eve"], [("eve", bad)])
    assert "NaN, infinite" in unpack(state)["refused"]["eve"]
    state, outbox = resume_round(lone(), state, 2.0, ["eve"], [("eve", b"dm?")])
    assert not outbox and list(unpack(state)["refused"]) == ["eve"]


def test_a_state_of_no_site_is_refused():
    with pytest.raises(MessageError, match="invalid state"):
        resume_round(lone(), b"\xc1", 0.0, [], [])


def test_the_solver_starts_anew_with_other_rows():
    state, _ = resume_round(lone(), b"", 0.0, [], [])
    state, _ = resume_round(lone(), state, 1.0, [], [])
    more = lone(60)
    more.restore(unpack(state)["program"])
    assert more._local is None and more.dual.shape == (1, 60)
