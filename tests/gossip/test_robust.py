"""Decentralised subgradient descent with merge rules; members who lie are in bench/tests/gossip_rivals."""

import linear_sites
import msgspec
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from fuzz.listening import heard
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_sites import ALPHA
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from dimargin import GossipSVMClassifier
from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.program import Send
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.merging import ClippedMean, Mean, NearestMixing, TrimmedMean
from dimargin.gossip.rounds.privacy import Privacy
from dimargin.gossip.rounds.robust import Proposal, RobustGossip, TrackedProposal
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, Outage
from dimargin.problems.hinge import HingeRows

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, y = make_classification(400, 6, n_informative=4, class_sep=1.0, random_state=3)
X = np.column_stack([X, np.ones(len(X))])
SIGNS = 2.0 * y - 1


def fit(algorithm, rounds=30, **parameters):
    given = {"n_sites": 8, "alpha": ALPHA, "random_state": 0, "max_iter": rounds} | parameters
    return GossipSVMClassifier(algorithm, **given).fit(parameters.pop("X", X), y)


def objective(w):
    return linear_sites.objective(X, SIGNS, w)


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
    optimum = linear_sites.optimum(X, SIGNS)
    for w in machine.site_coef_:
        assert optimum * (1 - 1e-9) <= objective(w) <= 1.05 * optimum
    worst = max(objective(w) for w in machine.site_average_coef_)
    assert worst <= 1.05 * optimum


def test_a_rule_that_hears_too_few_says_so_once_and_learns_alone():
    problem = Problem(ALPHA, 3, 6)
    algorithm = RobustGossip(TrimmedMean(1), step_size=0.5)
    program = algorithm.program(problem, "a", HingeRows(X[:2], SIGNS[None, :2]), (0,))
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
    assert program.rounds == 3
    assert_allclose(program.weights[0], descent(3, 0.5, X=X[:2], signs=SIGNS[:2]), rtol=1e-9, atol=1e-12)


def tracking(matrix, rounds, first, sites):
    """Gradient tracking from its equations: ``y <- W y + new gradients - old ones``, all sites at once."""
    m, weights = len(matrix), np.zeros((len(matrix), X.shape[1]))

    def gradients(weights):
        found = []
        for site, w in enumerate(weights):
            own = sites == site
            short = SIGNS[own] * (X[own] @ w) < 1
            found.append(ALPHA * w - m / len(X) * (SIGNS[own][short] @ X[own][short]))
        return np.array(found)

    before = gradients(weights)
    tracked = before
    for t in range(1, rounds + 1):
        weights = weights - tracked / (ALPHA * t + 1 / first)
        weights = weights * np.minimum(1, ALPHA**-0.5 / np.linalg.norm(weights, axis=1))[:, None]
        weights = matrix @ weights
        now = gradients(weights)
        tracked, before = matrix @ tracked + now - before, now
    return weights


def test_with_flows_that_are_not_clipped_it_is_gradient_tracking():
    matrix = np.full((8, 8), 0.0)
    for i, j in nx.cycle_graph(8).edges:
        matrix[i, j] = matrix[j, i] = 1 / 3
    matrix += np.diag(1 - matrix.sum(axis=1))
    algorithm = RobustGossip(Mean(), step_size=0.5, gradient="tracked", flow=np.inf)
    machine = fit(algorithm, topology="ring", shards="sorted")
    assert_allclose(machine.site_coef_, tracking(matrix, 30, 0.5, machine.site_of_rows_), rtol=1e-9, atol=1e-12)


def in_common_rounds(algorithm, graph, rounds, tamper=lambda sender, message: message):
    """Run programs of sites in common rounds, all messages in time, and yield them before each round is finished."""
    m, names = len(graph), [f"site{i}" for i in graph]
    problem = Problem(ALPHA, m, len(X), lease=20.0)
    programs = {
        name: algorithm.program(problem, name, HingeRows(X[i::m], SIGNS[None, i::m]), (0,))
        for i, name in enumerate(names)
    }
    near = {f"site{i}": [f"site{j}" for j in graph[i]] for i in graph}
    actions = {name: list(program.start(0.0, near[name])) for name, program in programs.items()}
    for t in range(rounds):
        for sender, sent in actions.items():
            for action in sent:
                if isinstance(action, Send):
                    assert not list(heard(programs[action.to], t + 0.1, sender, tamper(sender, action.message)))
        yield programs
        actions = {name: list(program.wake(t + 1.0, "round")) for name, program in programs.items()}


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-3, 10), st.sampled_from(["ring", "regular", "star"]), st.integers(1, 15))
def test_both_ends_of_an_edge_hold_the_same_flow_and_no_more_than_is_allowed(flow, shape, rounds):
    graph = {"ring": nx.cycle_graph(6), "regular": REGULAR, "star": nx.star_graph(4)}[shape]
    for programs in in_common_rounds(RobustGossip(TrimmedMean(0), gradient="tracked", flow=flow), graph, rounds):
        gradients = [p.gradient(p.weights) for p in programs.values()]
        assert_allclose(sum(p.tracked for p in programs.values()), sum(gradients), atol=1e-9)
        for name, program in programs.items():
            for other, phi in program.flows.items():
                assert_array_equal(phi, -programs[other].flows[name])
                lengths = [np.linalg.norm(p.rows.X, axis=1) for p in (program, programs[other])]
                units = [np.sqrt(len(graph) / len(X) * (one**2).mean()) for one in lengths]
                assert np.linalg.norm(phi) <= flow * min(units) * (1 + 1e-12)


def test_a_liar_moves_the_mean_gradient_of_the_others_by_what_its_edges_allow_at_most():
    lie = np.full((1, 7), 1e6)

    def tamper(sender, message):
        given = {"tracked": lie, "largest_flow": 1e9}
        return msgspec.structs.replace(message, **given) if sender == "site0" else message

    algorithm, edges = RobustGossip(TrimmedMean(1), gradient="tracked", flow=0.1), len(REGULAR[0])
    moved = []
    for programs in in_common_rounds(algorithm, REGULAR, 10, tamper):
        honest = [p for name, p in programs.items() if name != "site0"]
        off = np.mean([p.tracked - p.gradient(p.weights) for p in honest], axis=0)
        largest = max(0.1 * np.sqrt(8 / len(X) * (np.linalg.norm(p.rows.X, axis=1) ** 2).mean()) for p in honest)
        assert np.linalg.norm(off) <= edges * largest / len(honest) * (1 + 1e-9)
        moved.append(float(np.linalg.norm(off)))
    assert moved[-1] > 0.5 * edges * largest / len(honest)  # the bound is not far off


def test_where_sites_have_one_class_each_flows_undo_what_merging_leaves_out():
    optimum = objective(descent(3000, 0.5))

    def excess(algorithm):
        machine = fit(algorithm, 100, topology="complete", shards="sorted")
        return max(objective(w) for w in machine.site_average_coef_) / optimum - 1

    rule = NearestMixing(2)
    local, clipped, free = (
        excess(RobustGossip(rule, gradient=gradient, flow=flow))
        for gradient, flow in (("local", 1.0), ("tracked", 0.1), ("tracked", 1.0))
    )
    assert 3 * free < clipped and 3 * clipped < local


def program_of(problem=None, **settings):
    problem = problem or Problem(ALPHA, 2, len(X), lease=20.0)
    return RobustGossip(**settings).program(problem, "a", HingeRows(X, SIGNS[None]), (0,))


WEIGHTS = [
    ({"weights": np.zeros((1, 3))}, "shape (1, 3), expected (1, 7)"),
    ({"weights": np.zeros((2, 7))}, "shape (2, 7), expected (1, 7)"),
    ({"weights": np.zeros((1, 0))}, "shape (1, 0), expected (1, 7)"),
    ({"weights": np.full((1, 7), 10.0)}, "norm of 26.5, expected at most 10"),
    ({"weights": np.full((1, 7), np.nan)}, "NaN"),
    ({"weights": np.zeros(7)}, "(7,), expected 2 dimensions"),
    ({"weights": ALPHA**-0.5 * np.eye(1, 7)}, None),  # the longest vector that is allowed
]
ESTIMATES = [
    ({"tracked": np.zeros((1, 3))}, "shape (1, 3), expected (1, 7)"),
    ({"tracked": np.full((1, 7), np.inf)}, "infinite"),
    ({"largest_flow": -1.0}, "largest_flow"),
    ({"largest_flow": float("nan")}, "largest_flow"),
]
CASES = [("local", *case) for case in WEIGHTS] + [("tracked", *case) for case in WEIGHTS + ESTIMATES]


@pytest.mark.parametrize(("gradient", "fields", "reason"), CASES)
def test_what_no_correct_site_would_send(gradient, fields, reason):
    sound = {"weights": np.zeros((1, 7))}
    if gradient == "tracked":
        sound |= {"tracked": np.zeros((1, 7)), "largest_flow": 1.0}
    program, kind = program_of(merge=Mean(), gradient=gradient), Proposal if gradient == "local" else TrackedProposal
    list(program.start(0.0, ["b"]))
    head = {"turn": program.edges["b"].turn(1), "round": 0, "degree": 1, "schema": ""}
    list(heard(program, 0.5, "b", kind(**head, **(sound | fields))))
    refused = program.neighbourhood.refused
    assert not refused if reason is None else reason in refused["b"]
    for now in (1.0, 2.0, 3.0):
        list(program.wake(now, "round"))
    assert program.rounds == (1 if reason is None else 3) and np.isfinite(program.weights).all()


CONDITIONS = {
    "asynchronous": Conditions.asynchronous(loss=0.3, duplication=0.2),
    "outages": Conditions(
        LinkFaults((0.1, 0.9), loss=0.2), joins={"site3": 9.0},
        outages=(Outage("site0", 10.0, 20.0), Outage("site1", 5.0, 30.0, loses_memory=True), Outage("site2", 15.0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("gradient", ["local", "tracked"])
@pytest.mark.parametrize("conditions", CONDITIONS.values(), ids=CONDITIONS)
def test_faults_of_the_network(conditions, gradient):
    parameters = {"topology": REGULAR, "conditions": conditions, "rounds": 100}
    algorithm = RobustGossip(TrimmedMean(1), batch_size=20, momentum=0.9, gradient=gradient)
    machine, again = (fit(algorithm, **parameters) for _ in range(2))
    assert_array_equal(machine.site_coef_, again.site_coef_)
    best = min(objective(w) for w in machine.site_average_coef_)
    up = [w for site, w in enumerate(machine.site_average_coef_) if site != 2]
    assert all(objective(w) <= 1.2 * best for w in up) and best < 1.2 * objective(descent(3000, 0.5))


def test_neighbours_that_forget_in_turn_leave_no_flow_behind():
    """The second begins with a message such as one that it sent before, of a life that the first has heard of."""
    forgetful = Conditions(outages=(Outage("site1", 30.3, 31.419, True), Outage("site2", 33.342, 33.831, True)))
    X, y = linear_sites.overlapping()
    run = linear_sites.sites(RobustGossip(Mean(), gradient="tracked", flow=np.inf), X, y, conditions=forgetful)
    run.run(300)
    assert min(program.rounds for program in run.programs) > 295
    assert linear_sites.excess(run, X, y, linear_sites.optimum(X, y)) < 2e-3


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


@pytest.mark.parametrize("gradient", ["local", "tracked"])
def test_a_checkpoint_holds_everything(gradient):
    first, second = (program_of(batch_size=10, momentum=0.5, gradient=gradient) for _ in range(2))
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
        ({"merge": "mean"}, "merge must be a rule such as .* got 'mean'"),
        ({"merge": TrimmedMean(-1)}, "f must be"),
        ({"step_size": 0.0}, "step_size must be a number above 0, got 0.0"),
        ({"step_size": "pegasos"}, "step_size must be .* got 'pegasos'"),
        ({"batch_size": 0}, "batch_size must be a whole number not below 1, got 0"),
        ({"batch_size": True}, "batch_size must be .* got True"),
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1.0"),
        ({"gradient": "all"}, "gradient must be 'local' or 'tracked', got 'all'"),
        ({"gradient": "tracked", "flow": 0.0}, "flow must be a number above 0, got 0.0"),
        ({"flow": float("nan")}, "flow must be a number above 0, got nan"),
    ],
)
def test_parameters_out_of_range(parameters, text):
    with pytest.raises(ValueError, match=text):
        fit(RobustGossip(**parameters))


def test_it_has_no_rule_for_stopping():
    with pytest.warns(ConvergenceWarning, match="max_iter after 5 rounds"):
        assert fit(RobustGossip(), 5).status_ == "max_iter"


# ---- privacy ---------------------------------------------------------------------------------------------------------


def test_noisy_gradients_end_with_the_budget_and_large_budgets_learn():
    private = RobustGossip(Mean(), privacy=Privacy(200.0, rounds=40, clip=10.0))
    machine = fit(private, rounds=70)
    assert machine.epsilon_ == pytest.approx(200.0)
    assert objective(machine.coef_[0]) < 1.1 * objective(fit(RobustGossip(Mean()), rounds=300).coef_[0])
    # Sites only merge after the last gradient: their mean stays.
    longer = fit(private, rounds=90)
    assert_allclose(longer.site_coef_.mean(axis=0), machine.site_coef_.mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_one_row_changes_a_gradient_by_the_sensitivity_at_most(n_outputs, monkeypatch):
    made, privacy = [], Privacy(1.0, clip=2.0)
    monkeypatch.setattr(Privacy, "release", lambda self, vector, *rest: made.append((vector, *rest)) or vector)
    shares = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows, signs = 10.0 ** rng.uniform(-1, 2) * rng.normal(size=(9, 7)), rng.choice([-1.0, 1.0], size=(n_outputs, 9))
        other = rows.copy()
        other[4] = -rows[4] if seed % 2 else rng.normal(size=7)
        for own in (rows, other):
            program = RobustGossip(Mean(), privacy=privacy).program(
                Problem(ALPHA, 2, 18), "a", HingeRows(own, signs), (seed,)
            )
            program.weights = 1e-3 * np.random.default_rng(seed).normal(size=(n_outputs, 7))
            program.begin()
        (first, sensitivity, *_), (second, same, *_) = made[-2:]
        assert sensitivity == same == 2 * 2.0 * (2 / 18) * n_outputs**0.5
        shares.append(np.linalg.norm(first - second) / sensitivity)
    assert 0.99 < max(shares) <= 1 + 1e-12


def test_nothing_but_noisy_gradients_depends_on_the_rows(monkeypatch):
    """Not even the length of the steps."""
    monkeypatch.setattr(Privacy, "release", lambda self, vector, s, k, rng: s * rng.normal(size=vector.shape))
    private = RobustGossip(Mean(), momentum=0.5, privacy=Privacy(1.0, rounds=10))
    found = [
        GossipSVMClassifier(private, n_sites=8, shards=np.arange(400) % 8, alpha=ALPHA, random_state=0, max_iter=15)
        .fit(rows, y)
        .site_coef_
        for rows in (X, 0.01 * X[::-1])
    ]
    assert_array_equal(*found)


@pytest.mark.parametrize("wrong", [{"gradient": "tracked"}, {"batch_size": 5}])
def test_gradients_that_one_row_may_change_without_bound_are_refused(wrong):
    with pytest.raises(ValueError, match="privacy needs gradient='local' and batch_size=None"):
        RobustGossip(Mean(), privacy=Privacy(1.0), **wrong).validate()
