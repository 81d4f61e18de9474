"""Parts cover the rows, differ by at most one in size, and look alike."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import ODM as LOSS
from helpers import blobs, counted, make_problem, name, scattered
from numpy.testing import assert_array_equal

from dimargin.kernels.functions import Kernel
from dimargin.shards.partition import (
    InputClusterPartition,
    RandomPartition,
    StratifiedPartition,
    nearest_landmark,
    pivoted_cholesky,
)

PARTITIONS = [
    RandomPartition(),
    StratifiedPartition(n_landmarks=6),
    StratifiedPartition(5, 40, "random"),
    InputClusterPartition(5),
    InputClusterPartition(sample_size=6),
]


def split(partition, problem, n_parts, seed=0, n_shards=3, n_threads=1):
    """Indices of the rows of every part."""
    rows = scattered(problem, n_shards, n_threads=n_threads)
    dealt = partition.deal(rows, problem.n_rows, n_parts, np.random.default_rng(seed))
    return [part.indices for part in dealt.parts.collect()]


@pytest.mark.parametrize("n_shards", [1, 4])
def test_every_stratum_and_label_is_dealt_evenly(n_shards):
    X, labels = blobs(900, seed=5)
    problem = make_problem(X, labels, LOSS, Kernel("rbf", gamma=0.5))
    parts = split(StratifiedPartition(n_landmarks=7, sample_size=900), problem, 8, 2, n_shards)
    # the same draws again give the same landmarks
    landmarks = pivoted_cholesky(problem.kernel, np.arange(900), 7, np.random.default_rng(2))
    cell = nearest_landmark(problem.kernel, landmarks) + 7 * (labels[0] > 0)
    for which in np.unique(cell):
        counts = [np.sum(cell[part] == which) for part in parts]
        assert max(counts) - min(counts) <= 1


def test_strata_may_ignore_the_labels():
    class Landmarks(StratifiedPartition):
        crosses_labels = False

    X, labels = blobs(900, seed=5)
    problem, flipped = (make_problem(X, y, LOSS, Kernel("rbf", gamma=0.5)) for y in (labels, labels[:, ::-1].copy()))
    parts = split(Landmarks(n_landmarks=7, sample_size=900), problem, 8, 2)
    for part, other in zip(parts, split(Landmarks(n_landmarks=7, sample_size=900), flipped, 8, 2), strict=True):
        assert_array_equal(part, other)
    landmarks = pivoted_cholesky(problem.kernel, np.arange(900), 7, np.random.default_rng(2))
    stratum = nearest_landmark(problem.kernel, landmarks)
    assert max(np.ptp([np.sum(stratum[part] == which) for part in parts]) for which in range(7)) <= 1


def test_a_rare_class_reaches_every_part():
    X, _ = blobs(400)
    labels = -np.ones((1, 400))
    labels[0, :8] = 1.0
    parts = split(StratifiedPartition(n_landmarks=1), make_problem(X, labels, LOSS, Kernel("rbf")), 8)
    assert [int(np.sum(labels[0, part] > 0)) for part in parts] == [1] * 8


@pytest.mark.parametrize("kernel", [Kernel("rbf"), Kernel("poly", degree=2)], ids=name)
def test_landmarks_come_from_the_first_rows_and_what_they_take_is_counted(monkeypatch, kernel):
    problem = make_problem(*blobs(500), LOSS, kernel)
    partition = StratifiedPartition(n_landmarks=6, sample_size=40)
    with counted(monkeypatch) as counts:
        strata, _ = partition.strata(scattered(problem), 500, np.random.default_rng(0))
        assert strata.landmarks.indices.max() < 40 and strata.n_strata == 6
        counts.clear()
        dealt = partition.deal(scattered(problem), 500, 4, np.random.default_rng(0))
    # values of landmarks with themselves are not computed by the core
    diagonal = 0 if kernel.stationary else 40 + 3 * 6
    assert dealt.evaluations == sum(counts) + diagonal >= 500 * 6


@pytest.mark.parametrize("partition", PARTITIONS[1:], ids=str)
def test_the_seed_decides(partition):
    problem = make_problem(*blobs(100), LOSS, Kernel("rbf"))
    first, again, other = (split(partition, problem, 4, seed) for seed in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        assert_array_equal(a, b)
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("sparse", [False, True])
def test_every_cluster_of_the_features_is_as_frequent_in_every_part(sparse):
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 5, 803)
    X = 20.0 * cluster[:, None] + rng.normal(size=(803, 3)) * [1, 1, 0]
    labels = np.where(rng.random((1, 803)) < 0.2, 1.0, -1.0)
    problem = make_problem(sp.csr_array(X) if sparse else X, labels, LOSS, Kernel("rbf", gamma=0.5))
    parts = split(InputClusterPartition(n_clusters=5), problem, 8, 1)
    cell = 2 * cluster + (labels[0] > 0)
    counts = np.array([np.bincount(cell[part], minlength=10) for part in parts])
    assert np.ptp(counts, axis=0).max() <= 1
    random = split(RandomPartition(), problem, 8, 1)
    assert np.ptp([np.bincount(cell[part], minlength=10) for part in random], axis=0).max() > 1
