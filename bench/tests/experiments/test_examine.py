"""Metrics by hand from coefficients, against what machines say of themselves and against sums over all pairs."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

import dimargin as dm
from dimargin_bench.experiments.examine import dual_objective, support_vectors, theorem_1
from dimargin_bench.experiments.random_clusters import RandomClusters
from dimargin_bench.experiments.split_data import Split
from dimargin_bench.experiments.theorem_1 import BoundedDivideAndConquer

POLYNOMIAL = {"kernel": "poly", "degree": 3, "gamma": 0.5, "coef0": 1.0}


@pytest.fixture
def split():
    X, y = make_moons(300, noise=0.3, random_state=0)
    return Split(X[:200], y[:200], X[200:], y[200:])


@pytest.mark.parametrize("kernel", [{"gamma": 2.0}, {"gamma": "scale"}, {"kernel": "linear"}, POLYNOMIAL])
def test_the_dual_objective_is_the_machines_own(split, kernel):
    machine = dm.SVMClassifier(C=3.0, strategy="exact", random_state=0, **kernel).fit(split.X, split.y)
    assert dual_objective(machine, split)["dual_objective"] == pytest.approx(machine.dual_objective_, rel=1e-6)


def test_the_dual_objective_of_scikit_learn_is_the_sum_over_all_pairs(split):
    machine = SVC(C=3.0, **POLYNOMIAL).fit(split.X, split.y)
    signed = np.zeros(len(split.y))
    signed[machine.support_] = machine.dual_coef_[0]
    gram = polynomial_kernel(split.X, degree=3, gamma=0.5, coef0=1.0)
    expected = np.abs(signed).sum() - signed @ gram @ signed / 2
    assert dual_objective(machine, split)["dual_objective"] == pytest.approx(expected, rel=1e-9)


def test_support_vectors_are_compared_with_those_of_the_optimum(split):
    exact = dm.SVMClassifier(C=3.0, gamma=2.0, strategy="exact", tol=1e-6, random_state=0).fit(split.X, split.y)
    assert support_vectors(exact, split) == {"support_precision": 1.0, "support_recall": 1.0}
    dropped, extra = exact.support_[:5], np.setdiff1d(np.arange(200), exact.support_)[:10]
    n_support = len(exact.support_)
    exact.support_ = np.concatenate([np.setdiff1d(exact.support_, dropped), extra])
    found = support_vectors(exact, split)
    assert found["support_recall"] == (n_support - 5) / n_support
    assert found["support_precision"] == (n_support - 5) / (n_support + 5)


def test_theorem_1_bounds_the_distance_of_random_parts(split):
    machine = RandomClusters(n_clusters=3, C=2.0, gamma=2.0, random_state=1).fit(split.X, split.y)
    found = theorem_1(machine, split)
    assert found["partitions"] == 3 and 0 < found["distance"] <= found["bound"]
    part = machine.part_
    counts = [[np.sum((part == k) & (split.y == label)) for k in range(3)] for label in (0, 1)]
    assert max(np.ptp(counts, axis=1)) == 1
    signs, gap = 2.0 * split.y - 1, 0.0
    for k in range(3):
        own = dm.SVMClassifier(C=2.0, gamma=2.0, strategy="exact", random_state=0).fit(
            split.X[part == k], signs[part == k]
        )
        gap += own.objective_ - own.dual_objective_
    outside = (rbf_kernel(split.X, gamma=2.0) * (part[:, None] != part)).sum()
    optimum = dm.SVMClassifier(C=2.0, gamma=2.0, strategy="exact", tol=1e-5, random_state=0).fit(split.X, split.y)
    assert found["bound"] == pytest.approx((gap + 2.0**2 * outside / 2) / optimum.dual_objective_, rel=1e-6)
    assert machine.score(split.X_test, split.y_test) > 0.85


def test_theorem_1_of_clusters_is_below_that_of_random_parts(split):
    strategy = BoundedDivideAndConquer()
    clusters = dm.SVMClassifier(
        C=2.0, gamma=2.0, strategy=strategy, branching=3, n_levels=1, stop_level=1, random_state=0
    )
    found = theorem_1(clusters.fit(split.X, split.y), split)
    random = theorem_1(RandomClusters(n_clusters=3, C=2.0, gamma=2.0).fit(split.X, split.y), split)
    assert 0 < found["distance"] <= found["bound"] < random["bound"] and found["distance"] < random["distance"]
