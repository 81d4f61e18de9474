"""Consensus ADMM with a privacy budget: what leaves a site, how much one row changes it, and who can tell."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from fuzz.listening import heard
from linear_sites import ALPHA, excess, optimum, overlapping, sites
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from dimargin import GossipSVMClassifier
from dimargin.gossip.messages import encode, pack, unpack
from dimargin.gossip.program import Send
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.certification import Probe, Rounded
from dimargin.gossip.rounds.compression import Logarithmic
from dimargin.gossip.rounds.consensus_admm import ConsensusADMM
from dimargin.gossip.rounds.local_svm import LocalSVM
from dimargin.gossip.rounds.privacy import Privacy, mu_of
from dimargin.gossip.rounds.private_admm import PrivateADMM, with_privacy
from dimargin.gossip.schema import Schema
from dimargin.gossip.simulation.conditions import Conditions, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.problems.hinge import HingeRows
from dimargin.problems.losses import SquaredHingeLoss

ROWS = overlapping()
PRIVACY = Privacy(3.0, rounds=12, clip=3.0)
PRIVATE = PrivateADMM(compression=Logarithmic(), privacy=PRIVACY)
ALGORITHMS = [PRIVATE, replace(PRIVATE, compression=None)]


@pytest.fixture
def releases(monkeypatch):
    """The vector, sensitivity and number of every release, which are made as usual."""
    made, release = [], Privacy.release

    def recorded(self, vector, sensitivity, number, rng):
        made.append((vector, sensitivity, number))
        return release(self, vector, sensitivity, number, rng)

    monkeypatch.setattr(Privacy, "release", recorded)
    return made


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("topology", ["ring", "star"])
def test_sites_agree_on_a_good_machine_when_the_budget_is_large(algorithm, topology):
    algorithm = replace(algorithm, privacy=Privacy(300.0, rounds=60, clip=10.0))
    run = sites(algorithm, *ROWS, topology=topology)
    run.run(300)
    assert run.status == "converged" and run.n_rounds == 120
    assert [program.releases for program in run.programs] == [60] * 6
    assert excess(run, *ROWS, optimum(*ROWS)) < 0.03
    assert run.history[-1]["consensus_spread"] < 1e-3


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_site_makes_all_its_releases_once(algorithm, releases):
    conditions = Conditions.asynchronous(loss=0.2, outages=(Outage("site2", 8.3, 30.0),))
    run = sites(algorithm, *ROWS, conditions=conditions)
    run.run(400)
    assert run.status == "converged"
    assert [program.releases for program in run.programs] == [12] * 6
    assert sorted(number for *_, number in releases) == sorted(6 * list(range(12)))


def sent_by(monkeypatch, algorithm, X, y, **conditions):
    """All bytes that the sites of a run send, if every release is replaced by numbers that do not depend on rows."""
    sent, send = [], Simulator._send

    def recorded(self, name, site, message):
        sent.append((self.now, name, message.to, type(message.message).__name__, encode(message.message)))
        send(self, name, site, message)

    def unrelated(self, vector, sensitivity, number, rng):
        return rng.normal(size=vector.shape) * sensitivity

    with monkeypatch.context() as patch:
        patch.setattr(Simulator, "_send", recorded)
        patch.setattr(Privacy, "release", unrelated)
        run = sites(algorithm, X, y, conditions=Conditions(**conditions))
        run.make = partial(algorithm.program, replace(run.settings, tol=1e-3))  # Exact sites compute certificates.
        run.run(90)
    return sent


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_leave_through_releases_only(algorithm, monkeypatch):
    X, y = ROWS
    others = np.random.default_rng(5).normal(size=X.shape), -y
    outages = (Outage("site1", 5.3, 20.0), Outage("site4", 20.3, 40.0, loses_memory=True))
    first, second = (sent_by(monkeypatch, algorithm, *rows, outages=outages) for rows in (ROWS, others))
    assert len(first) > 500 and first == second
    assert {kind for _, _, _, kind, _ in first} <= {"Difference", "Change", "Waiting"}
    exact = ConsensusADMM(compression=algorithm.compression)
    assert sent_by(monkeypatch, exact, *ROWS) != sent_by(monkeypatch, exact, *others)


# ---- how much one row changes a release ------------------------------------------------------------------------------


def site(X, y, privacy=PRIVACY, n_outputs=1, alpha=ALPHA, seed=0):
    """A site in the middle of a run, with a neighbour."""
    signs = np.tile(y, (n_outputs, 1))
    program = with_privacy(ConsensusADMM(compression=Logarithmic()), privacy).program(
        Problem(alpha, 2, 2 * len(y)), "a", HingeRows(X, signs), (seed,)
    )
    program._agreed["b"] = program._multipliers["b"] = np.zeros(program.weights.shape)
    program._penalties["b"] = program.penalty
    return program


def adjacent(seed):
    """Two sets of rows that differ in the last one, some of them longer than allowed."""
    rng = np.random.default_rng(seed)
    n, scale = rng.integers(1, 30), 10.0 ** rng.uniform(-1, 1)
    X, y = rng.normal(size=(n, 3)) * scale, rng.choice([-1.0, 1.0], size=n)
    other = X.copy()
    other[-1] = rng.normal(size=3) * scale if seed % 2 else -10 * X[-1]
    return X, other, y


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_one_row_changes_a_release_by_the_sensitivity_at_most(n_outputs, releases):
    shares = []
    for seed in range(150):
        *both, y = adjacent(seed)
        alpha, rng = 10.0 ** np.random.default_rng(seed).uniform(-3, 1), np.random.default_rng(seed)
        centre, penalty = rng.normal(size=(n_outputs, 3)), 10.0 ** rng.uniform(-2, 2)
        for X in both:
            program = site(X, y, n_outputs=n_outputs, alpha=alpha)
            program._agreed["b"], program._penalties["b"] = centre, penalty
            program._solve()
        (first, sensitivity, _), (second, same, _) = releases[-2:]
        assert sensitivity == same
        shares.append(np.linalg.norm(first - second) / sensitivity)
    assert 0.95 < max(shares) <= 1  # The bound is reached, so that no smaller noise would do.


def worst_case(privacy, sign, seed):
    """A site with one row in the direction of the first feature, of one label or the other."""
    return site(np.array([[privacy.clip, 0.0]]), np.array([sign]), privacy, alpha=2 * privacy.clip**2, seed=seed)


def guesses(privacy, runs, scale=1.0):
    """Shares of the runs in which the best test of a neighbour takes the label of the only row for positive.

    It knows everything but this label: the likelihood ratio of all releases, each of which depends
    on the earlier ones. `scale` divides the noise.
    """
    rates, multiplier = [], privacy.noise_multiplier
    for k, sign in enumerate((1.0, -1.0)):
        positive = 0
        for seed in range(runs):
            program, ratio = worst_case(privacy, sign, 2 * seed + k), 0.0
            program.__dict__["privacy"] = quieter = replace(privacy)
            quieter.__dict__["noise_multiplier"] = multiplier / scale
            for _ in range(privacy.rounds):
                program._agreed["b"] = program.weights * 0.5  # The neighbour answers what it has received.
                curvature, slope = program.distance()
                program._solve()
                ratio += float((program.weights - slope / curvature[0])[0, 0])
            positive += ratio > 0
        rates.append(positive / runs)
    return rates


def test_the_best_membership_test_is_as_good_as_the_budget_allows():
    privacy, runs = Privacy(1.0, 1e-2, rounds=4, clip=1.5), 1500
    true, false = guesses(privacy, runs)
    noise = 3 / runs**0.5
    assert true <= np.exp(privacy.epsilon) * false + privacy.delta + noise
    assert 1 - false <= np.exp(privacy.epsilon) * (1 - true) + privacy.delta + noise
    # Two Gaussians at a distance of mu are told apart with this probability.
    best = norm.cdf(mu_of(privacy.epsilon, privacy.delta) / 2)
    assert true == pytest.approx(best, abs=noise) and 1 - false == pytest.approx(best, abs=noise)
    # With half of the noise the test finds out that the promise is broken.
    true, false = guesses(privacy, runs, scale=2.0)
    assert true > best + noise


def test_without_privacy_the_test_is_always_right():
    for sign in (1.0, -1.0):
        program = site(np.array([[1.0, 0.0]]), np.array([sign]), None)
        program._agreed["b"] = np.zeros((1, 2))
        program._solve()
        assert np.sign(program.weights[0, 0]) == sign


# ---- what members can ask for ----------------------------------------------------------------------------------------


def test_no_question_about_a_certificate_is_answered():
    for algorithm, answers in ((PRIVATE, False), (ConsensusADMM(), True)):
        run = sites(algorithm, *ROWS)
        run.run(6)
        program = run.programs[0]
        probe = Probe("", 8, "site1", Rounded.of(np.ones((1, 7)), 2))
        sends = [action for action in heard(program, 6.5, "site1", probe) if isinstance(action, Send)]
        assert bool(sends) == answers
        assert not program.neighbourhood.refused


@pytest.mark.parametrize("penalty", [1e150, 0.0])
def test_false_penalties_and_weights_do_not_hide_the_noise_in_rounding(penalty, releases):
    X, y = ROWS
    program = site(X, y)
    program._penalties["b"], program._agreed["b"] = penalty, np.full((1, 7), 1e140)
    program._solve()
    (vector, sensitivity, _), *_ = releases
    assert np.isfinite(vector).all() and np.linalg.norm(vector) < 200 * ALPHA**-0.5
    assert sensitivity > 1e4 * np.spacing(np.abs(vector).max())


def test_a_solution_that_may_be_inexact_is_not_released(releases, monkeypatch):
    X, y = ROWS
    program = site(X, y)
    monkeypatch.setattr("dimargin.gossip.rounds.private_admm._MAX_STEPS", 1)
    before = program.weights
    program._solve()
    assert not releases and program.is_spent
    assert_array_equal(program.weights, before)


def test_the_solver_keeps_the_gap():
    X, y = ROWS
    machine = LocalSVM(HingeRows(X, y[None]), 1.0, np.full(7, 30.0), np.zeros((1, len(y))))
    found = machine.solve(np.zeros((1, 7)), 0.0, 500, gap=1e-7)
    exact = LocalSVM(HingeRows(X, y[None]), 1.0, np.full(7, 30.0), np.zeros((1, len(y)))).solve(
        np.zeros((1, 7)), 1e-14, 2000
    )
    assert 0 <= machine.gap <= 1e-7
    assert np.linalg.norm(found - exact) <= (2e-7 / 30) ** 0.5


# ---- state -----------------------------------------------------------------------------------------------------------


def test_a_site_that_resumes_knows_what_is_spent():
    run = sites(PRIVATE, *ROWS)
    run.run(7)
    again = run._program(0, "site0")
    again.restore(unpack(pack(run.programs[0].checkpoint())))
    assert again.releases == run.programs[0].releases > 3
    assert pack(again.checkpoint()) == pack(run.programs[0].checkpoint())
    assert again.status()["privacy"]["spent"] == PRIVACY.spent(again.releases)


@pytest.mark.parametrize("inherits", [True, False])
def test_a_wider_schema_begins_no_new_budget(inherits):
    X, y = ROWS
    before = Schema.of(X[:, :2], y, {})
    after = Schema.of(X[:, :3], y, {})
    first = site(X[:, :2], y)
    first._solve()
    wider = site(X[:, :3], y)
    wider.problem = replace(wider.problem, inherits_weights=inherits)
    wider.inherit(first.checkpoint(), after, before)
    assert wider.releases == 1
    assert_allclose(wider.released, np.pad(first.released, ((0, 0), (0, 1))) * inherits)
    assert not wider.has_finished


def test_rows_that_are_appended_are_clipped_and_take_part_in_the_releases_that_are_left(releases):
    X, y = ROWS
    program = site(X, y)
    program._solve()
    program.append(HingeRows(100 * X[:5], y[None, :5]))
    assert program.rows.lengths.max() <= PRIVACY.clip * (1 + 1e-12)
    program._solve()
    assert program.releases == 2
    assert releases[1][1] < releases[0][1]  # More rows, and a higher curvature.


def test_a_site_alone_spends_nothing():
    run = sites(PRIVATE, *ROWS, n_sites=1, topology="complete")
    run.run(10)
    assert run.programs[0].releases == 0


def test_other_losses_are_refused():
    X, y = ROWS
    with pytest.raises(ValueError, match="privacy needs the hinge loss"):
        PRIVATE.program(Problem(ALPHA, 1, len(y)), "a", HingeRows(X, y[None], SquaredHingeLoss(1.0)), (0,))
    with pytest.raises(ValueError, match=r"privacy must be a budget such as Privacy\(epsilon=3.0\), got 3.0"):
        PrivateADMM(privacy=3.0).validate()
    with pytest.raises(ValueError, match="liars must be 0 with privacy, got 2"):
        replace(PRIVATE, liars=2).validate()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_classifier_has_the_budget_that_was_spent():
    X, y = overlapping(1000)
    machine = GossipSVMClassifier(PRIVATE, n_sites=4, topology="ring", alpha=1e-2, random_state=0)
    machine.fit(X, y)
    assert machine.epsilon_ == pytest.approx(3.0) and machine.delta_ == 1e-5
    assert machine.score(X, y) > 0.8
    machine.set_params(max_iter=5).fit(X, y)
    assert 0 < machine.epsilon_ < 3
