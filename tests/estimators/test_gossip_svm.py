"""GossipSVMClassifier as a scikit-learn classifier in every respect, and against LIBLINEAR."""

import pickle
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC
from tampering import tampered

from dimargin import GossipSVMClassifier, load, save
from dimargin.estimators.fit_progress import Monitor, observed
from dimargin.gossip import rounds
from dimargin.gossip.rounds import ClippedMean, ConsensusADMM, RobustGossip, TrimmedMean
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, Outage
from dimargin.io.models.model_format import ModelFileError

ALPHA = 1e-2
CIRCLE = nx.cycle_graph(5, create_using=nx.DiGraph)


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(900, 8, n_informative=5, n_clusters_per_class=1, class_sep=0.7, random_state=1)
    return np.column_stack([StandardScaler().fit_transform(X) + 0.3, np.ones(900)]), y


def objective(X, y, w, alpha=ALPHA):
    return alpha / 2 * w @ w + np.maximum(0, 1 - (2 * y - 1) * (X @ w)).mean()


def best(X, y, alpha=ALPHA):
    machine = LinearSVC(loss="hinge", C=1 / (alpha * len(y)), fit_intercept=False, tol=1e-8, max_iter=10**6)
    return machine.fit(X, y)


def small(**parameters):
    return GossipSVMClassifier(**{"n_sites": 5, "alpha": ALPHA, "random_state": 0} | parameters)


def quick(**parameters):
    """For what does not depend on how near the optimum is."""
    return small(tol=3e-2, **parameters)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shards, sparse", [("random", True), ("unequal", False), ("sorted", True), ("sorted_unequal", False)]
)
def test_every_site_reaches_the_optimum_of_liblinear(rows, shards, sparse):
    X, y = rows
    machine = small(topology="ring", shards=shards).fit(sp.csr_array(X) if sparse else X, y)
    optimum = objective(X, y, best(X, y).coef_[0])
    for w in machine.site_coef_:
        assert optimum * (1 - 1e-9) <= objective(X, y, w) <= 1.01 * optimum
    assert machine.objective_ == pytest.approx(objective(X, y, machine.coef_[0]))
    assert 0.99 * optimum <= machine.dual_objective_ <= optimum <= machine.objective_
    assert machine.duality_gap_ == pytest.approx(1 - machine.dual_objective_ / machine.objective_)
    assert machine.status_ == "converged" and machine.certificate_ == "global"


@pytest.mark.slow
@pytest.mark.parametrize(
    "network", [{}, {"topology": "ring", "shards": "sorted_unequal", "conditions": Conditions(LinkFaults(loss=0.2))}]
)
def test_features_that_are_all_positive_slow_nobody_down(network):
    """After 300 rounds with a diagonal majoriser the worst site was 42% above the optimum."""
    X, y = load_breast_cancer(return_X_y=True)
    X = np.column_stack([MinMaxScaler().fit_transform(X), np.ones(len(X))])
    machine = small(alpha=1e-3, n_sites=10, max_iter=300, **network)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        machine.fit(X, y)
    assert machine.history_[-1]["worst_objective"] <= 1.05 * objective(X, y, best(X, y, 1e-3).coef_[0], 1e-3)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("shards", ["unequal", "sorted_unequal"])
def test_steps_too_long_for_the_network_are_damped(shards):
    """Undamped, the worst site is 12 and 35% above the optimum after these rounds."""
    X, y = make_classification(1000, 10, n_informative=5, weights=[0.9], random_state=0)
    X = np.column_stack([MinMaxScaler().fit_transform(X) > 0.5, np.ones(1000)])
    lossy = Conditions(LinkFaults(loss=0.2))
    machine = small(n_sites=10, topology="ring", shards=shards, conditions=lossy, alpha=1e-2, max_iter=300, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        machine.fit(X, y)
    assert machine.history_[-1]["worst_objective"] <= 1.08 * objective(X, y, best(X, y, 1e-2).coef_[0], 1e-2)


def test_what_the_history_tells(rows):
    machine = quick(topology="ring", shards="sorted").fit(*rows)
    keys = {
        "level", "partitions", "scope", "round", "seconds", "objective", "average_objective", "worst_objective",
        "consensus_spread", "relative_gap", "messages", "bytes", "kernel_evaluations",
    }  # fmt: skip
    assert all(keys == set(entry) for entry in machine.history_)
    for name in ("round", "seconds", "messages", "bytes"):
        values = [entry[name] for entry in machine.history_]
        assert values == sorted(values) and values[-1] > values[0]
    first, last = machine.history_[0], machine.history_[-1]
    assert last["messages"] == 10 * last["round"] == 10 * machine.n_iter_ and first["messages"] == 10
    assert last["objective"] <= last["worst_objective"] < first["worst_objective"]
    assert last["consensus_spread"] < 0.01 and last["relative_gap"] >= machine.duality_gap_ > 0


def test_a_certificate_is_sharper_than_what_the_sites_know(rows):
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        machine = small(max_iter=25).fit(*rows)
    assert machine.duality_gap_ < 0.5 * machine.history_[-1]["relative_gap"]
    assert machine.dual_objective_ <= objective(*rows, best(*rows).coef_[0])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_model_is_certified_on_any_rows(sparse, n_classes):
    X, y = make_classification(1200, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0)
    machine = quick(fit_intercept=True).fit(X[:600], y[:600])
    before = machine.coef_.copy()
    machine.set_params(tol=1e-3).certify(sp.csr_array(X[600:]) if sparse else X[600:], y[600:])
    assert machine.certificate_ == "global" and np.array_equal(machine.coef_, before)
    rows = np.column_stack([X[600:], np.ones(600)])
    weights = np.column_stack([machine.coef_, machine.intercept_])
    for k, w in enumerate(weights):
        signs = (y[600:] == (1 if n_classes == 2 else k)).astype(int)
        primal, dual = np.ravel(machine.objective_)[k], np.ravel(machine.dual_objective_)[k]
        optimum = objective(rows, signs, best(rows, signs).coef_[0])
        assert primal == pytest.approx(objective(rows, signs, w))
        assert 0.998 * optimum <= dual <= optimum * (1 + 1e-9) <= primal
    hasty = machine.certify(X[600:], y[600:], max_time=1e-9)
    assert (np.ravel(hasty.dual_objective_) < np.ravel(hasty.objective_)).all()
    with pytest.raises(ValueError, match="X has 5 features"):
        machine.certify(X[:, :5], y)


@pytest.mark.slow
def test_the_answer_is_the_mean_of_the_sites(rows):
    for average in (False, True):
        machine = quick(average=average, fit_intercept=True).fit(*rows)
        assert machine.site_coef_.shape == machine.site_average_coef_.shape == (5, 9)
        each = machine.site_average_coef_ if average else machine.site_coef_
        assert_allclose(machine.coef_, each.mean(axis=0, keepdims=True))
        assert machine.intercept_.shape == (1,) and machine.site_intercept_.shape == (5,)
    assert quick().fit(*rows).intercept_ == 0


@pytest.mark.slow
def test_an_intercept_is_the_coefficient_of_a_constant(rows):
    X, y = rows
    machine, other = small(fit_intercept=True).fit(X[:, :-1], y), small().fit(X, y)
    assert_allclose(np.append(machine.coef_, machine.intercept_), other.coef_[0], rtol=0.05, atol=0.02)


def test_more_than_two_classes():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    machine = small(topology="ring", shards="sorted", alpha=1e-3, fit_intercept=True, max_iter=300)
    with pytest.warns(ConvergenceWarning, match="max_iter after 300 rounds"):
        machine.fit(X[:1200], y[:1200])
    assert machine.coef_.shape == (10, 64) and machine.site_coef_.shape == (5, 10, 64)
    assert machine.objective_.shape == (10,) and (machine.dual_objective_ <= machine.objective_).all()
    central = LinearSVC(loss="hinge", C=1 / (1e-3 * 1200), max_iter=10**5).fit(X[:1200], y[:1200])
    assert machine.score(X[1200:], y[1200:]) > central.score(X[1200:], y[1200:]) - 0.04


def test_the_same_seed_gives_the_same_bits(rows):
    conditions = Conditions.asynchronous(loss=0.2, duplication=0.1)
    fits = [small(conditions=conditions, batch_size=20, max_iter=60, random_state=s) for s in (3, 3, 4)]
    with pytest.warns(ConvergenceWarning):
        fits = [machine.fit(*rows) for machine in fits]
    assert_array_equal(fits[0].site_coef_, fits[1].site_coef_)
    assert fits[0].history_[-1]["bytes"] == fits[1].history_[-1]["bytes"]
    assert not np.array_equal(fits[0].coef_, fits[2].coef_)


@pytest.mark.slow
def test_shuffled_rows_are_dealt_alike(rows):
    X, y = rows
    order = np.random.default_rng(0).permutation(len(y))
    one, other = quick().fit(X, y), quick().fit(X[order], y[order])
    assert_array_equal(one.site_of_rows_[order], other.site_of_rows_)
    assert_allclose(one.coef_, other.coef_, rtol=1e-6, atol=1e-9)


def test_deals(rows):
    X, y = rows
    every = ("random", "unequal", "sorted", "sorted_unequal")
    sizes = {shards: np.bincount(_dealt(shards, X, y)) for shards in every}
    assert set(sizes["random"]) == set(sizes["sorted"]) == {180}
    assert sizes["unequal"].max() > 100 * sizes["unequal"].min()
    site = _dealt("sorted", X, y)
    assert sum(len(set(y[site == i])) == 2 for i in range(5)) <= 1
    given = np.arange(len(y)) % 3
    assert_array_equal(_dealt(given, X, y), given)


def _dealt(shards, X, y):
    with pytest.warns(ConvergenceWarning):
        return small(shards=shards, max_iter=2).fit(X, y).site_of_rows_


@pytest.mark.slow
def test_faults_are_survived(rows):
    X, y = rows
    conditions = Conditions(LinkFaults(loss=0.2), outages=(Outage("site1", 100.0, 200.0),))
    machine = small(topology="ring", shards="sorted", conditions=conditions, tol=2e-3).fit(X, y)
    optimum = objective(X, y, best(X, y).coef_[0])
    assert max(objective(X, y, w) for w in machine.site_coef_) <= 1.01 * optimum
    with pytest.raises(ValueError, match="sites that do not exist: site9"):
        small(conditions=Conditions(joins={"site9": 3.0})).fit(X, y)


def test_limits_give_the_best_so_far(rows):
    with pytest.warns(ConvergenceWarning, match="max_iter after 7 rounds"):
        machine = small(max_iter=7).fit(*rows)
    assert machine.status_ == "max_iter" and machine.n_iter_ == 7
    with pytest.warns(ConvergenceWarning, match="max_time"):
        machine = small(max_time=1e-9).fit(*rows)
    assert machine.status_ == "max_time" and machine.predict(rows[0]).shape == (900,)
    monitored, monitor = small(), Monitor()
    monitor.interrupted.set()
    with observed(monitored, monitor):
        assert monitored.fit(*rows).status_ == "interrupted" and monitored.n_iter_ == 1


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_a_gap_within_the_tolerance_is_converged_although_a_limit_ended_the_run(rows):
    alone = quick().fit(*rows)
    cut = quick(max_iter=alone.n_iter_ - 50).fit(*rows)
    assert cut.n_iter_ == alone.n_iter_ - 50  # the sites' rule, by which they end alone, was not met
    assert cut.duality_gap_ <= cut.tol and cut.status_ == "converged"


def test_verbose_tells(rows, caplog):
    quick(verbose=2).fit(*rows)
    lines = caplog.messages
    assert len(lines) > 5 and "relative gap" in lines[0] and "5 partitions" in lines[-1]


@pytest.mark.parametrize(
    "parameters, error, text",
    [
        ({"algorithm": "gossip"}, ValueError, "algorithm must be 'gadget', 'admm' or an instance of .* got 'gossip'"),
        ({"algorithm": ConsensusADMM(), "batch_size": 3}, ValueError, "batch_size was set, but ConsensusADMM does not"),
        ({"algorithm": ConsensusADMM(), "compression": "quantised"}, ValueError, "compression was set, but Con"),
        ({"algorithm": RobustGossip(TrimmedMean(1)), "topology": "ring"}, ValueError, "3 neighbours or more .* has 2"),
        ({"algorithm": RobustGossip(ClippedMean(3)), "n_sites": 4}, ValueError, "4 neighbours or more .* has 3"),
        ({"algorithm": ConsensusADMM(), "topology": CIRCLE}, ValueError, "topology must have undirected edges"),
        ({"n_sites": 0}, ValueError, r"n_sites must be a whole number in \[1, inf\), got 0"),
        ({"topology": "circle"}, ValueError, "topology must be one of complete, ring"),
        ({"alpha": 0}, ValueError, r"alpha must be a finite number in \(0, inf\), got 0"),
        ({"n_quiet": 2.5}, TypeError, "n_quiet must be a whole number"),
        ({"gradient": "global"}, ValueError, "gradient must be 'tracked' or 'local', got 'global'"),
        ({"batch_size": 0}, ValueError, "batch_size must be a whole number"),
        ({"gossip_rounds": 1.5}, TypeError, "gossip_rounds must be a whole number"),
        ({"gossip_rounds": 0}, ValueError, "gossip_rounds must be a finite number"),
        ({"step_size": "small"}, ValueError, "step_size must be 'auto', 'pegasos' or a number above 0, got 'small'"),
        ({"shards": "even"}, ValueError, "shards must be 'random', .* got 'even'"),
        ({"shards": [0, 1]}, ValueError, "shards must be the number of every row's site, 900 whole numbers"),
        ({"shards": np.full(900, 5)}, ValueError, r"shards must be numbers in \[0, n_sites=5\), got 5"),
        ({"stop": "gap"}, ValueError, "stop must be 'objective' or 'quiet', got 'gap'"),
        ({"tol": -1}, ValueError, "tol must be"),
        ({"max_iter": 0}, ValueError, "max_iter must be"),
        ({"topology": nx.empty_graph(5)}, ValueError, "not connected: site0 and site1"),
        ({"topology": nx.path_graph(4)}, ValueError, "a graph of 4 nodes, expected n_sites=5"),
    ],
)
def test_errors_name_parameter_value_and_range(rows, parameters, error, text):
    machine = small(**parameters)
    with pytest.raises(error, match=text):
        machine.fit(*rows)
    assert not hasattr(machine, "coef_")


@pytest.mark.slow
def test_without_the_extra_the_error_says_what_to_install(rows):
    script = (
        "import sys; sys.modules['networkx'] = None; import dimargin, numpy as np\n"
        "dimargin.GossipSVMClassifier().fit(np.eye(2), [0, 1])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert 'GossipSVMClassifier needs the extra "peers": pip install "dimargin[peers]"' in run.stderr


def test_there_is_no_sample_weight(rows):
    with pytest.raises(TypeError, match="sample_weight"):
        small().fit(*rows, sample_weight=np.ones(900))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "algorithm",
    [
        "gadget",
        rounds.ConsensusADMM(compression=rounds.Logarithmic(3)),
        rounds.RobustGossip(rounds.NearestMixing(1, rounds.ClippedMean(1))),
        rounds.ConsensusADMM(rho=0.1),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_models_are_saved_and_pickled(rows, algorithm, tmp_path):
    X, y = rows
    machine = small(algorithm=algorithm, share_rows=True, max_iter=5).fit(X, y)
    save(machine, tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(machine))):
        assert again.get_params() == machine.get_params() and again.history_ == machine.history_
        assert_array_equal(again.decision_function(X), machine.decision_function(X))
        assert_array_equal(again.site_coef_, machine.site_coef_)
    with pytest.raises(TypeError, match="conditions"):
        save(machine.set_params(conditions=Conditions()), tmp_path / "no")


def test_a_file_with_an_algorithm_out_of_its_range_is_refused(rows, tmp_path, monkeypatch):
    machine = small(algorithm=rounds.ConsensusADMM(), max_iter=5)
    with pytest.warns(ConvergenceWarning):
        machine.fit(*rows)
    save(machine, tmp_path / "model")
    given = {"algorithm": "ConsensusADMM", "parameters": {"over_relaxation": 2.4}}
    tampered(tmp_path / "model", lambda header, _: header["steps"][0]["parameters"].update(algorithm=given))
    with pytest.raises(ModelFileError, match="over_relaxation"):
        load(tmp_path / "model")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_in_a_grid_search(rows):
    grid = GridSearchCV(small(max_iter=60), {"alpha": [1e-1, 1e-2], "topology": ["ring", "complete"]}, cv=2).fit(*rows)
    assert grid.best_score_ > 0.8


@pytest.mark.slow
def test_on_real_rows_every_site_is_within_a_percent(data_folder):
    """The figure that bench/targets has for all settings, of one of them."""
    X, y = load_svmlight_file(str(data_folder / "a9a.bz2"), n_features=123)
    X, y = sp.csr_array(sp.hstack([X, np.ones((X.shape[0], 1))])), (y > 0).astype(int)
    machine = GossipSVMClassifier(topology="ring", shards="sorted", random_state=0).fit(X, y)
    central = best(X, y, 1e-4).coef_[0]
    optimum = objective(X, y, central, 1e-4)
    assert max(objective(X, y, w, 1e-4) for w in machine.site_coef_) <= 1.01 * optimum
    accuracies = [np.mean((X @ w > 0) == y) for w in (central, *machine.site_coef_)]
    assert min(accuracies) > accuracies[0] - 0.003
