"""Gossip learning: its updates by hand, what it comes to beside LIBLINEAR, and what sites refuse."""

import warnings

import linear_sites
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from dimargin import GossipSVMClassifier
from dimargin.gossip.messages import UnsoundError, decoder, encode, pack, unpack
from dimargin.gossip.program import Report, Send
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.simulation.conditions import Conditions, Outage
from dimargin.problems.hinge import HingeRows
from dimargin_bench.gossip_rivals.gossip_learning import GossipLearning, WalkingModel

ALPHA = 0.2
FAULTS = Conditions.asynchronous(loss=0.3, duplication=0.2)


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(600, 6, n_informative=4, n_clusters_per_class=1, class_sep=1.0, random_state=3)
    return X, y


def objective(X, y, w):
    return linear_sites.objective(X, 2 * y - 1, w, ALPHA)


def optimum(X, y):
    return linear_sites.optimum(X, 2 * y - 1, ALPHA)


def learnt(X, y, algorithm, **parameters):
    defaults = {"alpha": ALPHA, "n_sites": 8, "max_iter": 400, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # there is no rule for stopping
        return GossipSVMClassifier(algorithm=algorithm, **defaults | parameters).fit(X, y)


def site(x, sign, n_sites=4, n_rows=4, **settings):
    """A site with one row, whose updates leave nothing to chance, once it has begun."""
    problem, own = Problem(0.5, n_sites, n_rows), HingeRows(np.array([x]), np.array([[sign]]))
    program = GossipLearning(**settings).program(problem, "here", own, (0,))
    list(program.start(0.0, ["there"]))
    return program


def update(w, t, x, sign, often=1.0):
    """The update of the paper, line by line, for alpha = 0.5."""
    t += 1
    eta = 1 / (0.5 * t)
    w = np.asarray(w, dtype=float)
    return ((1 - eta * 0.5) * w + (eta * often * sign * np.array(x) if sign * (w @ x) < 1 else 0), t)


@pytest.mark.parametrize("variant", ["rw", "mu", "um"])
@pytest.mark.parametrize("weighting", ["rows", "sites"])
def test_updates_are_those_of_the_paper(variant, weighting):
    x, sign = [1.0, -2.0], -1.0
    program = site(x, sign, n_rows=10, variant=variant, weighting=weighting)
    often = 1 * 4 / 10 if weighting == "rows" else 1.0
    w, t = update(np.zeros(2), 0, x, sign, often)
    assert_allclose(program.weights[0], w)
    before = np.zeros(2), 0
    for came, age in (([0.1, 0.2], 7), ([-3.0, 0.5], 2), ([9.0, -9.0], 40)):
        assert not list(program.receive(1.0, "there", WalkingModel(np.array([came]), age)))
        if variant == "rw":
            w, t = update(came, age, x, sign, often)
        elif variant == "mu":
            merged = (np.array(came) + before[0]) / 2, max(age, before[1])
            w, t = update(*merged, x, sign, often)
        else:
            (a, s), (b, r) = update(came, age, x, sign, often), update(*before, x, sign, often)
            w, t = (a + b) / 2, max(s, r)
        assert_allclose(program.weights[0], w)
        assert program.model.age == t
        before = np.array(came), age
    (send, _) = program.wake(2.0, "round")
    assert isinstance(send, Send) and send.to == "there"
    assert_array_equal(send.message.weights, program.weights)
    assert send.message.age == t


def test_one_site_is_pegasos(rows):
    X, y = rows
    machine = learnt(X, y, GossipLearning(), n_sites=1, max_iter=50)
    program_rows = HingeRows(X, np.where(y == 1, 1.0, -1.0)[None])
    program = GossipLearning().program(Problem(ALPHA, 1, 600), "site0", program_rows, (3,))
    list(program.start(0.0, []))
    for second in range(1, 51):
        list(program.wake(float(second), "round"))
    rng, w = np.random.default_rng((3,)), np.zeros(6)
    signs = program_rows.signs[0]
    for t in range(1, 52):
        k = rng.integers(600, size=1)[0]
        violated = signs[k] * (w @ X[k]) < 1
        w = (1 - 1 / t) * w + (signs[k] * X[k] / (ALPHA * t) if violated else 0)
    assert_allclose(program.weights[0], w)
    assert machine.coef_.shape == (1, 6)


@pytest.mark.parametrize("conditions", [None, FAULTS], ids=["no faults", "faults"])
@pytest.mark.parametrize("variant", ["mu", "um"])
def test_every_site_comes_near_the_optimum(rows, variant, conditions):
    X, y = rows
    algorithm = GossipLearning(variant, batch_size=20)
    machine = learnt(sp.csr_array(X), y, algorithm, conditions=conditions, shards="sorted", max_iter=300)
    best = optimum(X, y)
    each = [objective(X, y, w) for w in machine.site_coef_]
    assert best * (1 - 1e-9) <= min(each) and max(each) <= 1.1 * best
    assert objective(X, y, machine.site_average_coef_.mean(axis=0)) <= 1.06 * best


def test_models_that_walk_alone_are_worse_than_those_that_merge(rows):
    X, y = rows
    error = {}
    for variant in ("rw", "mu", "um"):
        machines = [learnt(X, y, GossipLearning(variant), max_iter=60, random_state=seed) for seed in range(3)]
        error[variant] = np.mean([objective(X, y, w) for m in machines for w in m.site_coef_]) / optimum(X, y) - 1
    assert max(error["mu"], error["um"]) < 0.6 * error["rw"]


def test_rows_count_alike_at_sites_of_any_size(rows):
    """With the paper's weighting the small sites' rows count many times."""
    X, y = rows
    best, found = optimum(X, y), {}
    for weighting in ("rows", "sites"):
        algorithm = GossipLearning(weighting=weighting, batch_size=20)
        machine = learnt(X, y, algorithm, shards="sorted_unequal", max_iter=300)
        found[weighting] = objective(X, y, machine.site_average_coef_.mean(axis=0)) / best - 1
    assert found["rows"] < 0.05 and found["sites"] > 2 * found["rows"]


def test_messages_of_one_model_and_sites_without_rows(rows):
    X, y = rows
    deal = np.zeros(600, dtype=int)
    deal[300:] = 1  # six sites of eight have no rows, and pass models on
    machine = learnt(X, y, GossipLearning(batch_size=10), shards=deal)
    assert machine.history_[-1]["messages"] == 8 * machine.n_iter_
    assert machine.history_[-1]["bytes"] < 8 * machine.n_iter_ * (8 * 6 + 80)
    assert max(objective(X, y, w) for w in machine.site_coef_) < 0.6  # one, of no weights


def test_sites_that_leave_return_and_come_late(rows):
    X, y = rows
    outages = (Outage("site1", 20.0), Outage("site2", 20.0, 90.0), Outage("site3", 20.0, 90.0, loses_memory=True))
    conditions = Conditions(outages=outages, joins={"site4": 50.0})
    machine = learnt(X, y, GossipLearning(), conditions=conditions)
    others = [w for k, w in enumerate(machine.site_coef_) if k != 1]
    assert max(objective(X, y, w) for w in others) <= 1.3 * optimum(X, y)


def test_three_classes():
    X, y = make_classification(
        300, 5, n_informative=5, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    machine = learnt(X, y, GossipLearning(), fit_intercept=True, topology="ring")
    assert machine.coef_.shape == (3, 5) and machine.score(X, y) > 0.8


def test_the_same_run_twice_and_from_a_checkpoint():
    program = site([1.0, 2.0], 1.0)
    list(program.receive(1.0, "there", WalkingModel(np.array([[1.0, 0.0]]), 3)))
    again = site([1.0, 2.0], 1.0)
    again.restore(unpack(pack(program.checkpoint())))
    for one in (program, again):
        list(one.receive(2.0, "there", WalkingModel(np.array([[0.0, 2.0]]), 5)))
        list(one.wake(2.0, "round"))
    assert pack(program.checkpoint()) == pack(again.checkpoint())
    list(again.start(3.0, ["there"]))
    assert pack(program.checkpoint()) == pack(again.checkpoint())  # no new first model


def test_the_cache_has_the_last_models_and_the_oldest_is_replaced():
    program, made = site([1.0, 2.0], 1.0, cache_size=3), []
    made.append(program.weights)
    for k in range(5):
        assert len(program.cache) == min(3, len(made))
        assert_array_equal(np.array(program.cache), np.array(made[-3:]))
        list(program.receive(1.0, "there", WalkingModel(np.array([[k, 1.0 - k]]), k)))
        made.append(program.weights)
    assert_array_equal(np.array(program.cache), np.array(made[-3:]))


def test_senders_of_false_models_are_refused():
    for message, text in (
        (WalkingModel(np.zeros((1, 3)), 1), r"its model has shape \(1, 3\), expected \(1, 2\)"),
        (WalkingModel(np.zeros((1, 2)), 2**53), "which take longer than any run"),
    ):
        program = site([1.0, 2.0], 1.0)
        before = pack(program.checkpoint())
        (report,) = program.receive(1.0, "there", decoder((WalkingModel,))(encode(message)))
        assert isinstance(report, Report) and report.what == "refused"
        with pytest.raises(AssertionError, match=text):
            raise AssertionError(report.facts["reason"])
        assert not program.hears("there")
        assert not list(program.receive(2.0, "there", WalkingModel(np.ones((1, 2)), 1)))
        assert pack(program.checkpoint()) == before
        assert not [action for action in program.wake(3.0, "round") if isinstance(action, Send)]
    for weights in (np.array([[np.nan, 0.0]]), np.array([[1e60, 0.0]]), np.zeros(2)):
        with pytest.raises(UnsoundError):
            decoder((WalkingModel,))(encode(WalkingModel(weights, 1)))


@pytest.mark.parametrize(
    ("algorithm", "text"),
    [
        (GossipLearning("walk"), "variant must be 'mu' or 'um' or 'rw', got 'walk'"),
        (GossipLearning(weighting="none"), "weighting must be 'rows' or 'sites', got 'none'"),
        (GossipLearning(batch_size=0), "batch_size must be a whole number not below 1, got 0"),
        (GossipLearning(batch_size=1.5), "batch_size must be a whole number not below 1, got 1.5"),
        (GossipLearning(cache_size=0), "cache_size must be a whole number not below 1, got 0"),
    ],
)
def test_parameters_out_of_range(rows, algorithm, text):
    with pytest.raises(ValueError, match=text):
        GossipSVMClassifier(algorithm=algorithm).fit(*rows)
