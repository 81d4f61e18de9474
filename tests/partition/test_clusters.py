"""Clusters of two-step kernel k-means: one rule for rows of training and for rows never seen."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import KERNELS, blobs, counted, name
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel

from dimargin.kernels import Kernel, KernelMatrix, RowTransform
from dimargin.partition import cluster_rows
from dimargin.partition import clusters as clusters_module

RBF = Kernel("rbf", gamma=0.5)


def matrix(X, kernel=RBF, n_threads=1):
    return KernelMatrix(RowTransform.fit(X, kernel), X, n_threads=n_threads)


def clustered(X, n_clusters=6, seed=0, kernel=RBF, weights=None, n_threads=1, **options):
    weights = np.ones(X.shape[0]) if weights is None else weights
    return cluster_rows(matrix(X, kernel, n_threads), weights, n_clusters, np.random.default_rng(seed), **options)


def reference(k, X, Z):
    X, Z = (A.toarray() if sp.issparse(A) else A for A in (X, Z))
    if k.name == "linear":
        return linear_kernel(X, Z)
    if k.name == "poly":
        return polynomial_kernel(X, Z, degree=k.degree, gamma=k.gamma, coef0=k.coef0)
    return (rbf_kernel if k.name == "rbf" else laplacian_kernel)(X, Z, gamma=k.gamma)


def squared_distances(rule, split, X):
    """To the centres of a split, but for k(x, x), by another library."""
    k = rule.transform.kernel
    columns = []
    for a, b in zip(split.bounds, split.bounds[1:], strict=False):
        Z, s = split.vectors[a:b], split.shares[a:b]
        assert s.sum() == pytest.approx(1)
        columns.append(s @ reference(k, Z, Z) @ s - 2 * reference(k, X, Z) @ s)
    return np.array(columns).T


@pytest.mark.parametrize("storage", ["dense", "float32", "sparse"])
@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_rows_seen_or_not_go_to_the_nearest_centre(kernel, storage):
    X = blobs(900, seed=2)[0]
    X = X.astype(np.float32) if storage == "float32" else X
    X = sp.csr_array(np.where(abs(X) < 0.5, 0, X)) if storage == "sparse" else X
    known, fresh = X[:700], X[700:]
    rule, clusters = clustered(known, kernel=kernel, sample_size=120)
    (split,) = rule.splits
    assert split.vectors.shape[0] == 120 and rule.n_clusters == 6
    for rows, assigned in ((known, clusters), (fresh, rule.assign(fresh))):
        squares = squared_distances(rule, split, rows)
        own = squares[np.arange(rows.shape[0]), np.argsort(split.targets)[assigned]]
        assert np.all(own <= squares.min(axis=1) + 1e-5 * np.abs(squares).max())
    sizes = np.bincount(clusters)
    assert np.all(np.diff(sizes) <= 0) and sizes.min() > 0


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_the_rule_of_training_gives_the_same_bits_for_any_batch_and_threads(kernel, convert):
    X = convert(np.round(blobs(800, seed=1)[0], 1))  # a grid: many rows are nearly as far from two centres
    rule, clusters = clustered(X, 9, kernel=kernel, sample_size=100, max_size=100)
    assert len(rule.splits) > 1
    assert_array_equal(rule.assign(X), clusters)
    assert_array_equal(rule.assign(X, n_threads=2), clusters)
    assert_array_equal(np.concatenate([rule.assign(X[[i]]) for i in range(0, 800, 7)]), clusters[::7])
    order = np.random.default_rng(0).permutation(800)
    assert_array_equal(rule.assign(X[order]), clusters[order])
    assert_array_equal(clustered(X, 9, kernel=kernel, sample_size=100, max_size=100, n_threads=2)[1], clusters)


def test_precision_does_not_depend_on_who_is_asked_about_together():
    # longer sparse rows, or larger ones of an unbounded kernel, would take a whole batch from float32 to float64
    X = blobs(300)[0]
    for kernel in KERNELS:
        dense, sparse = (clustered(convert(X), kernel=kernel)[0].transform for convert in (np.asarray, sp.csr_array))
        assert sparse.dtype is np.float64
        assert dense.dtype is (np.float32 if kernel.stationary else np.float64)


def test_the_seed_decides():
    X = blobs(800)[0]
    one, again, other = (clustered(X, sample_size=100, seed=seed)[1] for seed in (0, 0, 1))
    assert_array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_a_sample_of_all_rows_knows_content_and_weight_alone(kernel, convert):
    rng = np.random.default_rng(0)
    X, weights = blobs(90)[0], rng.integers(1, 4, 90)
    rule, clusters = clustered(convert(X), kernel=kernel, weights=weights.astype(float))
    many = np.repeat(np.arange(90), weights)
    many = many[rng.permutation(len(many))]
    again, repeated = clustered(convert(X[many]), kernel=kernel)
    assert rule.transform.kernel.gamma == pytest.approx(again.transform.kernel.gamma, rel=1e-9)
    together = {tuple(np.flatnonzero(clusters == c)) for c in range(6)}
    assert together == {tuple(np.unique(many[repeated == c])) for c in range(6)}


@given(n=st.integers(1, 12), k=st.integers(1, 40), different=st.integers(1, 12), max_size=st.sampled_from([None, 1, 3]))
def test_fewer_rows_than_clusters_and_rows_that_do_not_differ(n, k, different, max_size):
    X = np.arange(n)[:, None] % different * 0.5
    rule, clusters = clustered(X, k, max_size=max_size)
    found = min(n, different)
    assert rule.n_clusters == clusters.max() + 1 <= found
    if max_size is None:
        assert rule.n_clusters == min(k, found)
    sizes = np.bincount(clusters)
    assert sizes.min() > 0
    copies = -(-n // found)
    assert max_size is None or sizes.max() <= max(max_size, copies) or k == 1
    assert_array_equal(clusters[: n - found], clusters[found:])  # copies stay together


def test_clusters_beyond_the_cap_are_divided_again_and_again():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(1500, 2)) * 0.2, rng.normal(size=(60, 2)) + 6])
    free, _ = clustered(X, 4, sample_size=50)
    rule, clusters = clustered(X, 4, sample_size=50, max_size=100)
    assert len(free.splits) == 1 and len(rule.splits) > 4
    assert np.bincount(clusters).max() <= 100
    # whoever is together after the division was together before
    assert_array_equal(rule.splits[0].vectors, free.splits[0].vectors)
    depth = [split.targets.min() for split in rule.splits[1:]]
    assert min(depth) < 0, "no part was divided twice"


def test_many_clusters_are_found_in_steps(monkeypatch):
    monkeypatch.setattr(clusters_module, "_AT_ONCE", 8)
    X = blobs(3000, n_features=2)[0]
    rule, clusters = clustered(X, 60, sample_size=20)
    assert 45 <= rule.n_clusters <= 75
    assert max(split.vectors.shape[0] for split in rule.splits) == 80  # ten for each of eight at most
    assert np.bincount(clusters).max() < 8 * 3000 / 60
    assert_array_equal(rule.assign(X), clusters)


def test_a_local_kernel_is_widened():
    X = np.random.default_rng(0).random((3000, 2))
    local = Kernel("rbf", gamma=1000.0)
    K = rbf_kernel(X, gamma=1000.0) - np.eye(3000)
    (wide, clusters), (same, literal) = (
        clustered(X, 16, kernel=local, sample_size=200, wide=wide) for wide in (True, False)
    )
    inside, literal_inside = (K[c[:, None] == c].sum() / K.sum() for c in (clusters, literal))
    assert same.transform.kernel == local
    assert 3 < wide.transform.kernel.gamma < 5  # squared distances in a square have a median of about 1/4
    assert np.bincount(literal).max() > 4 * np.bincount(clusters).max()
    assert inside > 0.85 > 0.8 > literal_inside  # although one of those clusters is half of the square
    laplacian = clustered(X, 16, kernel=Kernel("laplacian", gamma=50.0), sample_size=200)[0].transform.kernel
    assert 1.2 < laplacian.gamma < 2 and laplacian.name == "laplacian"  # distances, of about 2/3
    smooth = Kernel("rbf", gamma=1e-3)
    assert clustered(X, 16, kernel=smooth)[0].transform.kernel == smooth


def test_the_sample_is_drawn_from_the_candidates():
    X = blobs(500)[0]
    candidates = np.arange(100, 160)
    for size, n_clusters, expected in ((30, 2, 30), (30, 4, 40), (100, 2, 60)):
        rule, _ = clustered(X, n_clusters, sample_size=size, candidates=candidates)
        vectors = rule.splits[0].vectors
        assert len(vectors) == expected
        places = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in vectors]
        assert len(set(places)) == expected and set(places) <= set(candidates.tolist())


def test_kernel_values_are_counted(monkeypatch):
    K = matrix(blobs(600)[0])
    with counted(monkeypatch) as counts:
        cluster_rows(K, np.ones(600), 5, np.random.default_rng(0), sample_size=80, max_size=60)
    assert K.evaluations == sum(counts) > 600 * 80


def test_sparse_rows_are_never_filled_up(monkeypatch):
    X = sp.random_array((400, 100_000), density=1e-4, format="csr", rng=np.random.default_rng(0))

    def refuse(*arguments, **options):
        raise AssertionError("densified")

    for kind in (sp.csr_array, sp.csr_matrix):
        for method in ("toarray", "todense"):
            monkeypatch.setattr(kind, method, refuse)
    for kernel in (RBF, Kernel("laplacian", gamma=0.5), Kernel("linear")):
        rule, clusters = clustered(X, 4, kernel=kernel, sample_size=100)
        assert_array_equal(rule.assign(X), clusters)
