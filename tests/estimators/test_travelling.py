"""Every strategy on shards that share no memory and run late: what it needs of the rows travels, and nothing else."""

from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.datasets import make_classification
from travelling import TravellingEngine

from dimargin import Cascade, DiODM, DiP, DivideAndConquer, ODMClassifier, SVMClassifier, SVMRegressor
from dimargin.estimators import kernel_machine

TREE = {"branching": 2, "n_levels": 2, "tol": 1e-6, "random_state": 0}
STRATEGIES = {
    "exact": {"strategy": "exact", "tol": 1e-6, "random_state": 0},
    "diodm": {"strategy": DiODM(early_stop=False), **TREE},
    "diodm, level 1": {"strategy": "diodm", "stop_level": 1, **TREE},
    "dc": {"strategy": DivideAndConquer(sample_size=300), **TREE},
    "dc, capped": {"strategy": DivideAndConquer(sample_size=100, max_cluster_size=250), **TREE},
    "dc, early": {"strategy": DivideAndConquer(sample_size=300), "stop_level": 1, **TREE},
    "dc, naive": {"strategy": DivideAndConquer(prediction="naive"), "stop_level": 2, **TREE},
    "dc, bcm": {"strategy": DivideAndConquer(prediction="bcm"), "stop_level": 2, **TREE},
    "cascade": {"strategy": "cascade", **TREE},
    "cascade, global": {"strategy": Cascade(rounds=20, coefficients="global"), **TREE},
    "cascade, level 1": {"strategy": "cascade", "stop_level": 1, **TREE},
    "dip": {"strategy": DiP(n_clusters=20), **TREE},
    "dip, sv": {"strategy": DiP(relevance="sv", n_clusters=20), **TREE},
}
MACHINES = {
    "odm": ODMClassifier(lam=100.0),
    "hinge": SVMClassifier(),
    "squared hinge": SVMClassifier(loss="squared_hinge"),
    "intercept": SVMClassifier(fit_intercept=True),
}
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def data(n_classes=2, n=600):
    X, y = make_classification(
        n + 200, 6, n_informative=5, n_redundant=0, n_classes=n_classes, flip_y=0.05, random_state=3
    )
    weights = np.random.default_rng(0).integers(1, 4, n)
    return X[:n], y[:n], weights, X[n:]


@pytest.fixture
def travelling(monkeypatch):
    """Fit a machine on five shards that travel, or another number; the engine."""
    numbers = [5]
    monkeypatch.setattr(kernel_machine, "n_shards_for", lambda n_rows: numbers[0])

    def fit(machine, *arguments, n_shards=5):
        engine, numbers[0] = TravellingEngine(), n_shards
        with monkeypatch.context() as patch:
            patch.setattr(kernel_machine, "LocalEngine", lambda n_threads, cancelled: engine)
            machine.fit(*arguments)
        return engine

    return fit


def assert_same(travelled, machine, fresh):
    """Bit for bit: kernel values do not depend on where rows are stored, nor the order of sums on the engine."""
    assert travelled.objective_ == pytest.approx(machine.objective_, rel=1e-5)
    assert_array_equal(travelled.dual_coef_, machine.dual_coef_)
    assert_array_equal(travelled.support_, machine.support_)
    assert travelled.support_vectors_.dtype == machine.support_vectors_.dtype
    assert not abs(travelled.support_vectors_ - machine.support_vectors_).sum()
    assert (travelled.certificate_, travelled.status_) == (machine.certificate_, machine.status_)
    facts = [
        [{key: np.asarray(entry[key]).tolist() for key in entry if "seconds" not in key} for entry in fitted.history_]
        for fitted in (travelled, machine)
    ]
    assert facts[0] == facts[1]
    values = (one.predict if is_regressor(one) else one.decision_function for one in (travelled, machine))
    assert_array_equal(*(of_rows(fresh) for of_rows in values))


STORAGES = ["dense", "sparse", "float32", "three classes"]
# every pair of a strategy, a machine and a storage once, in a Latin square
PAIRWISE = [
    (strategy, machine, STORAGES[(i + j) % len(STORAGES)])
    for i, strategy in enumerate(STRATEGIES)
    for j, machine in enumerate(MACHINES)
]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("strategy", "name", "storage"), PAIRWISE)
def test_the_machine_is_that_of_one_process(travelling, strategy, name, storage):
    X, y, weights, fresh = data(3 if storage == "three classes" else 2)
    if storage == "sparse":
        X, fresh = (sp.csr_array(np.where(np.abs(rows) > 0.7, rows, 0.0)) for rows in (X, fresh))
    elif storage == "float32":
        X, fresh = X.astype(np.float32), fresh.astype(np.float32)
    # pairs of classes do not travel
    machine = clone(MACHINES[name]).set_params(multi_class="one_vs_rest", **STRATEGIES[strategy])
    travelled = clone(machine)
    engine = travelling(travelled, X, y, weights)
    assert_same(travelled, machine.fit(X, y, weights), fresh)
    # no part is solved twice, whatever is asked of its solution
    partitions = sum(entry["partitions"] for entry in machine.history_ if "round" not in entry)
    rounds = sum("round" in entry for entry in machine.history_)
    # nor are rows dealt again for every round of a cascade
    assert engine.runs.count("_split_by_index") + engine.runs.count("_split_by_cell") <= 2 * 5
    solves = engine.runs.count("solve_part") + engine.runs.count("refined_and_solved")
    expected = 1 if strategy == "exact" else partitions + (1 + 7 * (rounds - 1) if rounds else 0)
    # the last part of a round before the whole problem has no entry, and is left out where it has
    # many rows
    assert solves == expected or (strategy in ("cascade", "dip", "dip, sv") and solves == expected + 1)


@pytest.mark.slow_after(2)
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "dc, bcm"])
def test_targets_travel(travelling, strategy, loss):
    X, y, weights, fresh = data()
    machine = SVMRegressor(2.0, 0.05, loss, **STRATEGIES[strategy])
    travelled = clone(machine)
    travelling(travelled, X, 50 + y + np.sin(X[:, 0]), weights)
    assert_same(travelled, machine.fit(X, 50 + y + np.sin(X[:, 0]), weights), fresh)
    # The naive model adds the machines of all clusters.
    assert strategy == "dc, naive" or machine.score(X, 50 + y + np.sin(X[:, 0])) > 0.3


def test_every_pair_is_tried():
    for first, second in ((0, 1), (0, 2), (1, 2)):
        pairs = {(case[first], case[second]) for case in PAIRWISE}
        assert len(pairs) == len({one for one, _ in pairs}) * len({other for _, other in pairs})


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("strategy", ["exact", "diodm", "dc", "cascade", "dip"])
def test_a_warm_start_travels(travelling, strategy):
    X, y, weights, fresh = data()
    machine = ODMClassifier(lam=100.0, warm_start=True, **STRATEGIES[strategy]).fit(X, y, weights)
    travelled, cold = deepcopy(machine), machine.history_[0]["relative_gap"]
    travelling(travelled, X, y, weights)
    assert_same(travelled, machine.fit(X, y, weights), fresh)
    assert strategy != "exact" or machine.history_[0]["relative_gap"] <= 1e-6 < cold


@pytest.mark.slow_after(1)
@every_strategy
def test_jobs_do_not_grow_with_the_shards(travelling, strategy):
    X, y, weights, _ = data()
    machine = SVMClassifier(fit_intercept=True, **STRATEGIES[strategy])
    jobs = [travelling(machine, X, y, weights, n_shards=n_shards).jobs for n_shards in (2, 11)]
    # a level of the capped clusters takes two a round of division; with an intercept a look at all
    # rows takes five
    steps = len({(entry["level"], entry.get("round", 0)) for entry in machine.history_})
    assert jobs[0] == jobs[1] <= 2 + 9 * steps


@pytest.mark.parametrize("strategy", ["diodm", "dc", "cascade"])
def test_the_number_of_shards_changes_no_part(travelling, strategy):
    X, y, weights, _ = data()
    one, many = (SVMClassifier(**STRATEGIES[strategy]) for _ in range(2))
    travelling(one, X, y, weights, n_shards=1)
    travelling(many, X, y, weights, n_shards=11)
    assert many.objective_ == pytest.approx(one.objective_, rel=2e-6)
    for level in ("level", "partitions", "passes"):
        assert [entry[level] for entry in one.history_[:2]] == [entry[level] for entry in many.history_[:2]]
