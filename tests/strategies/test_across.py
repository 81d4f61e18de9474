"""Level 0 of every strategy where rows are remote and many: they stay in their shards, and the machine is the same."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from dimargin import Cascade, DiODM, DiP, DivideAndConquer, Exact, Landmark, ODMClassifier, SVMClassifier
from dimargin.shards import parts
from dimargin.shards.local_engine import LocalShards
from dimargin.strategies import TreeShape, across
from dimargin.strategies import strategy as strategy_module
from dimargin.strategies.exact import CoreSet

ODM = ODMClassifier(lam=100.0, gamma=0.3, tol=1e-5, random_state=0)
HINGE = SVMClassifier(C=2.0, gamma=0.3, tol=1e-5, random_state=0)
TREES = [DiODM(early_stop=False), DivideAndConquer(sample_size=200), Cascade(), DiP(n_clusters=20)]


@pytest.fixture
def remote(monkeypatch):
    """Shards of threads that say that they are remote, and have rows enough to stay there; joins are counted."""
    joins, merge = [], LocalShards.merge

    def counted(self, join, size, value=None):
        joins.append((join.__name__, size >= self.n_shards and self.n_shards > 2))
        return merge(self, join, size, value)

    monkeypatch.setattr(LocalShards, "are_remote", True)
    monkeypatch.setattr(LocalShards, "merge", counted)
    monkeypatch.setattr(parts, "_ROWS_OF_SHARD", 200)
    for module in (across, strategy_module):
        monkeypatch.setattr(module, "ROWS_IN_ONE_PLACE", 500)
    return joins


@pytest.mark.parametrize("strategy", TREES, ids=lambda strategy: type(strategy).__name__)
@pytest.mark.parametrize("machine", [ODM, HINGE], ids=["odm", "hinge"])
def test_the_machine_is_the_exact_one_and_rows_stay(remote, machine, strategy):
    X, y = make_classification(1200, 5, n_informative=4, n_redundant=0, flip_y=0.05, random_state=1)
    found = clone(machine).set_params(strategy=strategy, branching=2, n_levels=2).fit(X, y)
    assert not [join for join in remote if join == ("whole_of", True)]
    assert (found.status_, found.certificate_, found.history_[-1]["level"]) == ("converged", "global", 0)
    exact = clone(machine).set_params(strategy=Exact(across_shards=False)).fit(X, y)
    assert_allclose(found.objective_, exact.objective_, rtol=2e-5)
    assert ("whole_of", True) in remote  # that one has joined them


def test_a_polish_of_landmarks_stays_too(remote):
    X, y = make_classification(1200, 5, n_informative=4, n_redundant=0, flip_y=0.05, random_state=1)
    found = clone(ODM).set_params(strategy=Landmark(polish=True), n_landmarks=50).fit(X, y)
    assert ("whole_of", True) not in remote and found.certificate_ == "global"
    exact = clone(ODM).set_params(strategy=Exact(across_shards=False)).fit(X, y)
    assert_allclose(found.objective_, exact.objective_, rtol=2e-5)


def test_rounds_start_from_clusters_where_the_kernel_is_local(remote, monkeypatch):
    monkeypatch.setattr(parts, "_ROWS_OF_SHARD", 2000)
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(1000, 2)) + 30 * k for k in range(6)])
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=len(X)) > 0
    machine = clone(HINGE).set_params(gamma=1.0, tol=1e-3)
    started = clone(machine).set_params(strategy=Exact(across_shards=True)).fit(X, y)
    assert [entry["level"] for entry in started.history_] == [1, 0]
    assert (started.status_, started.certificate_, started.history_[0]["partitions"]) == ("converged", "global", 3)
    assert ("whole_of", True) not in remote
    cold = clone(machine).set_params(strategy=Exact(across_shards=True, working_set=2000)).fit(X, y)
    assert {entry["level"] for entry in cold.history_} == {0}
    assert_allclose(started.objective_, cold.objective_, rtol=2e-3)
    started.set_params(warm_start=True).fit(X, y)
    assert {entry["level"] for entry in started.history_} == {0}  # from the model that was there


def test_clusters_that_rounds_start_from_are_solved_well_and_none_is_much_larger_than_a_shard(remote, monkeypatch):
    """What they leave is the caller's, which works alone, and all tasks wait for that of the largest."""
    monkeypatch.setattr(parts, "_ROWS_OF_SHARD", 2000)
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(n, 2)) + 30 * k for k, n in enumerate((3500, 1500, 1000))])
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=len(X)) > 0
    machine = clone(HINGE).set_params(gamma=1.0, tol=1e-3, strategy=Exact(across_shards=True)).fit(X, y)
    clusters = machine.history_[0]
    assert (clusters["level"], clusters["partitions"]) == (1, 4)  # the 3,500 rows are two, since 3,000 are the most
    assert 1e-3 < clusters["relative_gap"] <= 0.01
    assert (machine.status_, machine.certificate_) == ("converged", "global")


def test_time_that_ends_among_the_clusters_says_so(remote, monkeypatch):
    """The deadline has passed before the first round: the model is that of the clusters, and so is its certificate."""
    monkeypatch.setattr(parts, "_ROWS_OF_SHARD", 2000)
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(1000, 2)) + 30 * k for k in range(6)])
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=len(X)) > 0
    machine = clone(HINGE).set_params(gamma=1.0, tol=1e-9, max_time=1e-9, strategy=Exact(across_shards=True))
    with pytest.warns(ConvergenceWarning, match="time limit"):
        machine.fit(X, y)
    assert (machine.status_, machine.certificate_) == ("max_time", "partitioned")
    assert [entry["level"] for entry in machine.history_] == [1]
    assert 0 < machine.duality_gap_ < np.inf


def test_which_rows_come_together():
    few, many, shape = 10_000, 1_000_000, TreeShape()
    for strategy in [*TREES, Exact(), Landmark(polish=True)]:
        assert strategy.joins_all_rows(few, shape) and not strategy.joins_all_rows(many, shape)
    assert not Exact(across_shards=True).joins_all_rows(few, shape)
    assert Exact(across_shards=False).joins_all_rows(many, shape) and CoreSet().joins_all_rows(many, shape)
    assert not DiODM().joins_all_rows(few, TreeShape(stop_level=1)) and not Landmark().joins_all_rows(few, shape)


def test_a_warm_start_is_used(remote):
    X, y = make_classification(1200, 5, n_informative=4, n_redundant=0, flip_y=0.05, random_state=1)
    machine = clone(HINGE).set_params(strategy="exact", fit_intercept=False, warm_start=True).fit(X, y)
    first, dual = len(machine.history_), np.abs(machine.dual_coef_).sum()
    machine.fit(X, y)
    assert len(machine.history_) < first and machine.history_[0]["relative_gap"] < 1e-3
    assert_allclose(np.abs(machine.dual_coef_).sum(), dual, rtol=1e-3)


def test_the_memory_of_clusters_counts_where_there_may_be_some():
    shape = TreeShape(branching=123, n_levels=1)  # 8,192 rows a shard
    needed = DivideAndConquer().memory_needed(10**6, shape)
    assert needed > 10**7 and Exact(across_shards=True).memory_needed(10**6, TreeShape()) == needed
    assert Exact().memory_needed(10**6, TreeShape()) == 0
