"""Kernel k-means against k-means in the input space, and against its own optimality condition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from dimargin.shards.partition import kernel_kmeans
from dimargin.shards.partition.kmeans import _lloyd


def distances(gram, weights, labels):
    """``k(x,x) - 2 sum_j s_j k(x,x_j) + sum_jk s_j s_k k(x_j,x_k)`` cluster by cluster, as it is written."""
    columns = []
    for c in range(labels.max() + 1):
        inside = np.flatnonzero(labels == c)
        s = weights[inside] / weights[inside].sum()
        columns.append(np.diag(gram) - 2 * gram[:, inside] @ s + s @ gram[np.ix_(inside, inside)] @ s)
    return np.array(columns).T


def test_a_linear_kernel_gives_k_means():
    X, truth = make_blobs(300, 5, centers=6, cluster_std=0.4, random_state=1)
    labels = kernel_kmeans(X @ X.T, np.ones(300), 6, np.random.default_rng(0))
    reference = KMeans(6, n_init=10, random_state=0).fit(X)
    assert adjusted_rand_score(labels, reference.labels_) == adjusted_rand_score(labels, truth) == 1
    own = distances(X @ X.T, np.ones(300), labels)[np.arange(300), labels]
    assert own.sum() == pytest.approx(reference.inertia_, rel=1e-9)


@given(n=st.integers(5, 60), k=st.integers(1, 8), gamma=st.sampled_from([0.05, 1.0, 30.0]), seed=st.integers(0, 999))
def test_every_row_is_with_its_nearest_centre_and_no_cluster_is_empty(n, k, gamma, seed):
    rng = np.random.default_rng(seed)
    gram = rbf_kernel(rng.normal(size=(n, 2)), gamma=gamma)
    weights = rng.uniform(0.5, 2, n)
    labels = kernel_kmeans(gram, weights, k, rng)
    assert_array_equal(np.unique(labels), np.arange(min(k, n)))
    squares = distances(gram, weights, labels)
    assert_allclose(squares[np.arange(n), labels], squares.min(axis=1), rtol=0, atol=1e-9)


def test_weight_two_is_a_row_given_twice():
    rng = np.random.default_rng(3)
    X, weights = rng.normal(size=(60, 3)), rng.integers(1, 4, 60)
    gram = rbf_kernel(X, gamma=0.5)
    twice = np.repeat(np.arange(60), weights)
    for seed in range(5):
        weighted = kernel_kmeans(gram, weights.astype(float), 7, np.random.default_rng(seed))
        repeated = kernel_kmeans(gram[np.ix_(twice, twice)], np.ones(len(twice)), 7, np.random.default_rng(seed))
        assert_array_equal(weighted[twice], repeated)


@pytest.mark.parametrize("different", [1, 3])
def test_rows_that_do_not_differ_are_one_cluster(different):
    X = np.repeat(np.arange(different) * 2.0, 10)[:, None]
    labels = kernel_kmeans(rbf_kernel(X), np.ones(len(X)), 5, np.random.default_rng(0))
    assert len(np.unique(labels)) == different
    assert all(len(set(labels[i : i + 10])) == 1 for i in range(0, len(X), 10))


def test_an_empty_cluster_takes_the_furthest_row():
    X = np.array([0.0, 0.1, 0.2, 5.0, 5.1, 9.0])[:, None]
    labels, total = _lloyd(X @ X.T, np.ones(6), np.array([0, 0, 3]))  # the same start twice: one of the two is empty
    assert [sorted(np.flatnonzero(labels == c)) for c in range(3)] == [[0, 1, 2], [5], [3, 4]]
    assert total == pytest.approx(0.02 + 0.005)


def test_restarts_find_more_than_one_start():
    X, _ = make_blobs(400, 2, centers=15, cluster_std=0.3, random_state=5)
    gram = rbf_kernel(X, gamma=0.05)
    sums = [
        distances(gram, np.ones(400), labels)[np.arange(400), labels].sum()
        for labels in (kernel_kmeans(gram, np.ones(400), 15, np.random.default_rng(seed)) for seed in range(10))
    ]
    reference = KMeans(15, n_init=20, random_state=0).fit_predict(X)
    best = distances(gram, np.ones(400), reference)[np.arange(400), reference].sum()
    assert np.median(sums) < 1.15 * best
