"""Clusters of two-step kernel k-means: one rule for rows of training and for rows never seen."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from helpers import KERNELS, ODM, blobs, counted, make_problem, name, scattered
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.utils.fixes import parse_version

from dimargin.kernels.functions import Kernel
from dimargin.shards.partition import cluster_rows
from dimargin.shards.partition import clusters as clusters_module
from dimargin.shards.parts import first_rows

RBF = Kernel("rbf", gamma=0.5)


def rows_of(X, kernel=RBF, weights=None, n_threads=1, n_shards=3):
    return scattered(make_problem(X, np.ones((1, X.shape[0])), ODM, kernel, weights), n_shards, n_threads=n_threads)


def clustered(X, n_clusters=6, seed=0, kernel=RBF, weights=None, n_threads=1, n_shards=3, **options):
    """The rule, and the cluster of every row."""
    rows = rows_of(X, kernel, weights, n_threads, n_shards)
    found = cluster_rows(rows, X.shape[0], n_clusters, np.random.default_rng(seed), **options)
    clusters = np.full(X.shape[0], -1)
    for number, part in enumerate(found.parts.collect()):
        assert np.all(np.diff(part.indices) > 0) and part.problem.mass == part.problem.total
        assert not abs(part.problem.kernel.rows(np.arange(part.n_rows)) - X[part.indices]).sum()
        clusters[part.indices] = number
    return found.rule, clusters


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


@pytest.mark.slow_after(1)
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
    for stored in ({"n_threads": 2}, {"n_shards": 1}, {"n_shards": 7}):
        assert_array_equal(clustered(X, 9, kernel=kernel, sample_size=100, max_size=100, **stored)[1], clusters)


def test_precision_does_not_depend_on_who_is_asked_about_together():
    # longer sparse rows, or larger ones of an unbounded kernel, would take a whole batch from
    # float32 to float64
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
    monkeypatch.setattr(clusters_module, "_MAX_CENTRES", 8)
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
    assert inside > 0.88 > 0.83 > literal_inside  # although one of those clusters is half of the square
    laplacian = clustered(X, 16, kernel=Kernel("laplacian", gamma=50.0), sample_size=200)[0].transform.kernel
    assert 1.2 < laplacian.gamma < 2 and laplacian.name == "laplacian"  # distances, of about 2/3
    smooth = Kernel("rbf", gamma=1e-3)
    assert clustered(X, 16, kernel=smooth)[0].transform.kernel == smooth


def test_the_sample_is_what_is_given_or_the_first_rows():
    X = blobs(500)[0]
    given = first_rows(rows_of(X), 60, 500)
    for sample, expected in ((given, 60), (None, 80)):
        rule, _ = clustered(X, 4, sample=sample, sample_size=80)
        vectors = rule.splits[0].vectors
        indices = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in vectors]
        assert sorted(indices) == list(range(expected))
    assert [clustered(X, k, sample_size=30)[0].splits[0].vectors.shape[0] for k in (2, 4)] == [30, 40]


def test_parts_that_are_divided_further_are_so_by_their_own_first_rows():
    X = blobs(900)[0]
    rule, _ = clustered(X, 3, sample_size=40, max_size=200)
    first = rule.splits[0]
    nearest = first.targets[first.nearest(rule.transform, X, 1)[0]]
    assert len(rule.splits) > 2
    for number, split in enumerate(rule.splits[1:], start=1):
        if -1 - number in first.targets:
            own = np.sort(np.flatnonzero(nearest == -1 - number))[:40]
            found = {tuple(row) for row in split.vectors}
            # centres that no row is nearest to are dropped with their rows
            assert found <= {tuple(row) for row in X[own]} and len(found) > 30


def test_kernel_values_are_counted(monkeypatch):
    rows = rows_of(blobs(600)[0])
    with counted(monkeypatch) as counts:
        found = cluster_rows(rows, 600, 5, np.random.default_rng(0), sample_size=80, max_size=60)
    assert found.evaluations == sum(counts) > 600 * 80


def test_sparse_rows_are_never_filled_up(monkeypatch):
    X = sp.random_array((400, 100_000), density=1e-4, format="csr", random_state=0)

    def refuse_rows(fill):
        def checked(array, *arguments, **options):
            # scikit-learn before version 1.9 fills up the products of the rows of the sample
            is_product = array.shape[0] == array.shape[1] <= 100
            assert is_product and parse_version(sklearn.__version__) < parse_version("1.9"), "densified"
            return fill(array, *arguments, **options)

        return checked

    for kind in (sp.csr_array, sp.csr_matrix):
        for method in ("toarray", "todense"):
            monkeypatch.setattr(kind, method, refuse_rows(getattr(kind, method)))
    for kernel in (RBF, Kernel("laplacian", gamma=0.5), Kernel("linear")):
        rule, clusters = clustered(X, 4, kernel=kernel, sample_size=100)
        assert_array_equal(rule.assign(X), clusters)
