"""Decentralised subgradient descent with merge rules; members who lie are in tests/simulation/test_liars.py."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from fuzz.listening import heard
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from dimargin import GossipSVMClassifier
from dimargin.network.messages import pack, unpack
from dimargin.network.program import Send
from dimargin.network.programs.algorithm import Problem
from dimargin.network.rivals.merging import ClippedMean, Mean, NearestMixing, TrimmedMean
from dimargin.network.rivals.robust import Proposal, RobustGossip
from dimargin.problems.hinge import HingeRows
from dimargin.simulation.conditions import Conditions, LinkFaults, Outage

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ALPHA = 1e-2
X, y = make_classification(400, 6, n_informative=4, class_sep=1.0, random_state=3)
X = np.column_stack([X, np.ones(len(X))])
SIGNS = 2.0 * y - 1


def fit(algorithm, rounds=30, **parameters):
    given = {"n_sites": 8, "alpha": ALPHA, "random_state": 0, "max_iter": rounds} | parameters
    return GossipSVMClassifier(algorithm, **given).fit(parameters.pop("X", X), y)


def objective(w, X=X, signs=SIGNS):
    return ALPHA / 2 * w @ w + np.maximum(0, 1 - signs * (X @ w)).mean()


def descent(rounds, first, momentum=0.0, X=X, signs=SIGNS):
    """Subgradient descent by itself, from the equations."""
    w, v = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for t in range(1, rounds + 1):
        short = signs * (X @ w) < 1
        v = momentum * v + (1 - momentum) * (ALPHA * w - (signs[short] @ X[short]) / len(X))
        w = w - v / (ALPHA * t + 1 / first)
        w = w * min(1, ALPHA**-0.5 / np.linalg.norm(w))
    return w


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_with_the_mean_on_a_complete_graph_it_is_descent_on_all_rows(momentum):
    for n_sites in (1, 8):
        machine = fit(RobustGossip(Mean(), step_size=0.5, momentum=momentum), n_sites=n_sites)
        assert machine.n_iter_ == 30
        # sites send the proposals of round 30 and merge them in the next one
        assert_allclose(machine.site_coef_[0], descent(30, 0.5, momentum), rtol=1e-9, atol=1e-12)
        assert_allclose(machine.site_coef_, np.tile(machine.site_coef_[0], (n_sites, 1)), rtol=1e-9, atol=1e-12)


REGULAR = nx.random_regular_graph(6, 8, 0)


@pytest.mark.parametrize(
    ("rule", "topology"),
    [(Mean(), "ring"), (TrimmedMean(2), "complete"), (ClippedMean(2), REGULAR), (NearestMixing(2), REGULAR)],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,  # a graph's repr is its address
)
def test_without_liars_every_site_is_near_the_optimum_of_liblinear(rule, topology):
    machine = fit(RobustGossip(rule), 100, topology=topology)
    best = LinearSVC(loss="hinge", C=1 / (ALPHA * len(y)), fit_intercept=False, tol=1e-8, max_iter=10**6).fit(X, y)
    optimum = objective(best.coef_[0])
    for w in machine.site_coef_:
        assert optimum * (1 - 1e-9) <= objective(w) <= 1.05 * optimum
    worst = max(objective(w) for w in machine.site_average_coef_)
    assert worst <= 1.05 * optimum


def test_a_rule_that_hears_too_few_says_so_once_and_learns_alone():
    machine = fit(RobustGossip(TrimmedMean(1), step_size=0.5), topology="ring")
    for site, w in enumerate(machine.site_coef_):
        own = machine.site_of_rows_ == site
        assert_allclose(w, descent(30, 0.5, X=X[own], signs=SIGNS[own]), rtol=1e-9, atol=1e-12)
    problem = Problem(ALPHA, 3, 6)
    program = RobustGossip(TrimmedMean(1)).program(problem, "a", HingeRows(X[:2], SIGNS[None, :2]), (0,))
    list(program.start(0.0, ["b", "c"]))
    said = []
    for now in range(1, 4):
        for name in ("b", "c"):
            other = RobustGossip().program(problem, name, HingeRows(X[:2], SIGNS[None, :2]), (0,))
            other.rounds = now - 1
            message = next(iter(a for a in other.start(0.0, ["a", "x"]) if isinstance(a, Send))).message
            message = Proposal(
                turn=program.edges[name].turn(now), round=now - 1, degree=2, schema="", weights=message.weights
            )
            said += heard(program, float(now), name, message)
        said += list(program.wake(now + 0.5, "round"))
    reports = [action for action in said if getattr(action, "what", "") == "too few for the merge rule"]
    assert [report.facts for report in reports] == [{"neighbours": 2, "least": 3}]


def program_of(problem=None, **settings):
    problem = problem or Problem(ALPHA, 2, len(X), lease=20.0)
    return RobustGossip(**settings).program(problem, "a", HingeRows(X, SIGNS[None]), (0,))


def proposal(program, weights):
    return Proposal(turn=program.edges["b"].turn(1), round=0, degree=1, schema="", weights=weights)


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        (np.zeros((1, 3)), "shape (1, 3), expected (1, 7)"),
        (np.zeros((2, 7)), "shape (2, 7), expected (1, 7)"),
        (np.zeros((1, 0)), "shape (1, 0), expected (1, 7)"),
        (np.full((1, 7), 10.0), "norm of 26.5, expected at most 10"),
        (np.full((1, 7), np.nan), "NaN"),
        (np.zeros(7), "(7,), expected 2 dimensions"),
    ],
)
def test_what_no_correct_site_would_send(weights, reason):
    program = program_of()
    list(program.start(0.0, ["b"]))
    list(heard(program, 0.5, "b", proposal(program, weights)))
    assert reason in program.neighbourhood.refused["b"]
    for now in (1.0, 2.0, 3.0):
        list(program.wake(now, "round"))
    assert program.rounds == 3 and np.isfinite(program.weights).all()


def test_the_longest_vector_that_is_allowed():
    program = program_of(merge=Mean())
    list(program.start(0.0, ["b"]))
    long = np.zeros((1, 7))
    long[0, 0] = ALPHA**-0.5
    list(heard(program, 0.5, "b", proposal(program, long)))
    assert not program.neighbourhood.refused


CONDITIONS = {
    "asynchronous": Conditions.asynchronous(loss=0.3, duplication=0.2),
    "outages": Conditions(
        LinkFaults((0.1, 0.9), loss=0.2), joins={"site3": 9.0},
        outages=(Outage("site0", 10.0, 20.0), Outage("site1", 5.0, 30.0, loses_memory=True), Outage("site2", 15.0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("conditions", CONDITIONS.values(), ids=CONDITIONS)
def test_faults_of_the_network(conditions):
    given = {"topology": REGULAR, "conditions": conditions, "rounds": 100}
    machine, again = (fit(RobustGossip(TrimmedMean(1), batch_size=20, momentum=0.9), **given) for _ in range(2))
    assert_array_equal(machine.site_coef_, again.site_coef_)
    best = min(objective(w) for w in machine.site_average_coef_)
    up = [w for site, w in enumerate(machine.site_average_coef_) if site != 2]
    assert all(objective(w) <= 1.2 * best for w in up) and best < 1.2 * objective(descent(3000, 0.5))


def test_three_classes_sparse_rows_and_a_site_without_rows():
    X3, y3 = make_classification(
        300, 6, n_informative=5, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    shards = np.arange(300) % 5  # site 5 has none
    given = {"n_sites": 6, "alpha": ALPHA, "random_state": 0, "max_iter": 40, "shards": shards}
    dense = GossipSVMClassifier(RobustGossip(TrimmedMean(1)), **given).fit(X3, y3)
    sparse = GossipSVMClassifier(RobustGossip(TrimmedMean(1)), **given).fit(sp.csr_array(X3), y3)
    assert dense.site_coef_.shape == (6, 3, 6) and dense.score(X3, y3) > 0.7
    assert_allclose(dense.site_coef_, sparse.site_coef_, rtol=1e-9, atol=1e-12)


def test_a_checkpoint_holds_everything():
    first, second = (program_of(batch_size=10, momentum=0.5) for _ in range(2))
    list(first.start(0.0, []))
    for now in range(1, 6):
        list(first.wake(float(now), "round"))
    second.restore(unpack(pack(first.checkpoint())))
    assert_array_equal(first.average, second.average)
    list(second.start(5.0, []))
    for now in range(6, 12):
        list(first.wake(float(now), "round"))
        list(second.wake(float(now), "round"))
    assert first.rounds == second.rounds == 11
    assert_array_equal(first.average, second.average)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"merge": "mean"}, "merge must be a MergeRule, got 'mean'"),
        ({"merge": TrimmedMean(-1)}, "f must be"),
        ({"step_size": 0.0}, "step_size must be a number above 0, got 0.0"),
        ({"step_size": "pegasos"}, "step_size must be .* got 'pegasos'"),
        ({"batch_size": 0}, "batch_size must be a whole number not below 1, got 0"),
        ({"batch_size": True}, "batch_size must be .* got True"),
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1.0"),
    ],
)
def test_parameters_out_of_range(parameters, text):
    with pytest.raises(ValueError, match=text):
        fit(RobustGossip(**parameters))


def test_it_has_no_rule_for_stopping():
    with pytest.warns(ConvergenceWarning, match="max_iter after 5 rounds"):
        assert fit(RobustGossip(), 5).status_ == "max_iter"
