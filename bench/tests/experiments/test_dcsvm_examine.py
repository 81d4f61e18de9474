"""Metrics of the DC-SVM paper's experiments, against sums over all pairs of rows."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

import dimargin as dm
from dimargin_bench.experiments.dcsvm_examine import (
    on_the_way,
    seconds_of_levels,
    support_vectors,
    theorem_1,
    theorems_2_and_3,
)
from dimargin_bench.experiments.random_clusters import RandomClusters
from dimargin_bench.experiments.split_data import Split
from dimargin_bench.experiments.theorem_1 import BoundedDivideAndConquer


@pytest.fixture
def split():
    X, y = make_moons(300, noise=0.3, random_state=0)
    return Split(X[:200], y[:200], X[200:], y[200:])


def clusters_of(split, n_clusters, C=2.0, gamma=2.0, **options):
    strategy = BoundedDivideAndConquer(**options)
    machine = dm.SVMClassifier(
        fit_intercept=False,
        C=C,
        gamma=gamma,
        strategy=strategy,
        branching=n_clusters,
        n_levels=1,
        stop_level=1,
        tol=1e-6,
        random_state=0,
    )
    return machine.fit(split.X, split.y)


def optimum_of(split, C=2.0, gamma=2.0):
    machine = dm.SVMClassifier(fit_intercept=False, C=C, gamma=gamma, strategy="exact", tol=1e-6, random_state=0)
    return machine.fit(split.X, split.y)


def test_support_vectors_are_compared_with_those_of_the_optimum(split):
    exact = dm.SVMClassifier(fit_intercept=False, C=3.0, gamma=2.0, strategy="exact", tol=1e-6, random_state=0).fit(
        split.X, split.y
    )
    assert support_vectors(exact, split) == {"support_precision": 1.0, "support_recall": 1.0, "partitions": 1}
    dropped, extra = exact.support_[:5], np.setdiff1d(np.arange(200), exact.support_)[:10]
    n_support = len(exact.support_)
    exact.support_ = np.concatenate([np.setdiff1d(exact.support_, dropped), extra])
    found = support_vectors(exact, split)
    assert found["support_recall"] == (n_support - 5) / n_support
    assert found["support_precision"] == (n_support - 5) / (n_support + 5)


def test_theorem_1_bounds_the_distance_of_random_parts(split):
    machine = RandomClusters(n_clusters=3, C=2.0, gamma=2.0, random_state=1).fit(split.X, split.y)
    found = theorem_1(machine, split)
    assert found["partitions"] == 3 and 0 < found["difference"] <= found["bound"]
    part = machine.part_
    counts = [[np.sum((part == k) & (split.y == label)) for k in range(3)] for label in (0, 1)]
    assert max(np.ptp(counts, axis=1)) == 1
    signs, gap = 2.0 * split.y - 1, 0.0
    for k in range(3):
        own = dm.SVMClassifier(fit_intercept=False, C=2.0, gamma=2.0, strategy="exact", random_state=0).fit(
            split.X[part == k], signs[part == k]
        )
        gap += own.objective_ - own.dual_objective_
    outside = (rbf_kernel(split.X, gamma=2.0) * (part[:, None] != part)).sum()
    optimum = dm.SVMClassifier(fit_intercept=False, C=2.0, gamma=2.0, strategy="exact", tol=1e-5, random_state=0).fit(
        split.X, split.y
    )
    assert found["bound"] == pytest.approx(gap + 2.0**2 * outside / 2, rel=1e-6)
    assert found["bound_ratio"] == found["bound"] / found["difference"]
    assert found["distance"] == pytest.approx(found["difference"] / optimum.dual_objective_, rel=1e-6)
    assert machine.score(split.X_test, split.y_test) > 0.85


def test_theorem_1_of_clusters_is_below_that_of_random_parts(split):
    found = theorem_1(clusters_of(split, 3), split)
    random = theorem_1(RandomClusters(n_clusters=3, C=2.0, gamma=2.0).fit(split.X, split.y), split)
    assert 0 < found["difference"] <= found["bound"] < random["bound"] and found["difference"] < random["difference"]


def test_support_vectors_of_libsvm_are_compared_with_an_optimum_with_intercept(split):
    y = np.where(split.X[:, 0] > 1.0, 1, 0)  # few of one class, which the intercept says
    shifted = Split(split.X, y, split.X_test, split.y_test)
    found = support_vectors(SVC(C=3.0, gamma=2.0, tol=1e-6).fit(shifted.X, y), shifted)
    assert found["support_precision"] > 0.97 and found["support_recall"] == 1.0 and "partitions" not in found
    assert support_vectors(clusters_of(split, 3), split)["partitions"] == 3


def test_theorem_3_counts_pairs_of_support_vectors_in_different_clusters(split):
    machine, optimum = clusters_of(split, 3), optimum_of(split)
    found = theorems_2_and_3(machine, split)
    clusters = machine._router.rule.assign(split.X)
    either = set(machine.support_) | set(optimum.support_)
    pairs = [(i, j) for i in either for j in either if clusters[i] != clusters[j]]
    K = rbf_kernel(split.X, gamma=2.0)
    assert found["bound_of_support"] == pytest.approx(2.0**2 / 2 * sum(K[i, j] for i, j in pairs), rel=1e-3)
    assert found["bound"] == pytest.approx(machine.history_[-1]["theorem_1_bound"], rel=1e-4)
    assert 0 < found["difference"] <= found["bound_of_support"] < found["bound"]
    assert found["no_support"] == 200 - len(optimum.support_)


def test_coefficients_are_as_near_as_theorems_1_and_3_say(split):
    """Their second halves, ``|a* - a|^2 <= C^2 D / sigma``, with a kernel whose smallest eigenvalue is no rounding."""
    machine, optimum = clusters_of(split, 3, gamma=500.0), optimum_of(split, gamma=500.0)
    apart = np.zeros(200)
    apart[optimum.support_] = optimum.dual_coef_[0]
    apart[machine.support_] -= machine.dual_coef_[0]
    found = theorems_2_and_3(machine, split)
    smallest = np.linalg.eigvalsh(rbf_kernel(split.X, gamma=500.0))[0]
    for name in ("bound", "bound_of_support"):
        assert 0 < apart @ apart <= 2 * found[name] / smallest
    assert smallest > 1e-3


def test_theorem_2_screens_rows_only_where_clusters_hardly_interact(split):
    X = np.concatenate([split.X, split.X + np.array([9.0, 0.0])])
    far = Split(X, np.tile(split.y, 2), split.X_test, split.y_test)
    found = theorems_2_and_3(clusters_of(far, 2), far)
    assert 0 < found["screened"] <= found["no_support"] and found["bound"] < 1e-3
    near = theorems_2_and_3(clusters_of(split, 2), split)
    assert near["screened"] == 0 < near["no_support"]


def test_the_seconds_of_levels_add_up_to_those_of_the_history(split):
    machine = dm.SVMClassifier(fit_intercept=False, strategy="dc", n_levels=2, branching=2, random_state=0).fit(
        split.X, split.y
    )
    found = seconds_of_levels(machine, split)
    assert found.keys() == {f"{what}_{level}" for what in ("clustering", "training") for level in (0, 1, 2)}
    assert sum(found.values()) == pytest.approx(sum(entry["seconds"] for entry in machine.history_))
    assert found["clustering_0"] == 0 < found["clustering_2"] and min(found.values()) >= 0
    assert seconds_of_levels(optimum_of(split), split) == {}


def test_only_machines_with_support_vectors_have_an_objective_on_the_way(split):
    assert on_the_way(optimum_of(split), split)["dual_objective"] == pytest.approx(optimum_of(split).dual_objective_)
    assert on_the_way(RandomClusters(n_clusters=2).fit(split.X, split.y), split)
    assert on_the_way(object(), split) == {}
