"""Landmarks are those of the paper's equation 5, found without an inverse."""

import numpy as np
import pytest
from helpers import KERNELS, blobs, gram, make_problem, name
from helpers import ODM as LOSS
from numpy.testing import assert_array_equal

from dimargin.kernels.functions import Kernel
from dimargin.shards.partition import nearest_landmark, pivoted_cholesky


def schur_complements(K, chosen):
    """``k(z,z) - k_z' K_s^{-1} k_z`` of every row, by an explicit solve."""
    if not chosen:
        return np.diag(K).copy()
    cross = K[np.ix_(chosen, range(len(K)))]
    return np.diag(K) - np.einsum("ij,ij->j", cross, np.linalg.solve(K[np.ix_(chosen, chosen)], cross))


@pytest.mark.parametrize("kernel", KERNELS[1:], ids=name)
def test_every_landmark_has_the_largest_schur_complement(kernel):
    X, labels = blobs(120, seed=1)
    problem = make_problem(X, labels, LOSS, kernel)
    K = gram(problem)
    landmarks = pivoted_cholesky(problem.kernel, np.arange(120), 12, np.random.default_rng(0))
    assert len(set(landmarks)) == 12
    rounding, before = 1e-6 * np.diag(K).max(), np.inf
    for s, landmark in enumerate(landmarks):
        complements = schur_complements(K, list(landmarks[:s]))
        assert complements.max() - rounding <= complements[landmark] <= before + rounding
        before = complements[landmark]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("choice", ["greedy", "random"])
def test_the_rank_limits_the_landmarks(choice, seed):
    X, labels = blobs(2000, seed, n_features=3)
    problem = make_problem(10 * X + 3, labels, LOSS, Kernel("linear"))
    assert len(pivoted_cholesky(problem.kernel, np.arange(2000), 50, np.random.default_rng(0), choice)) == 3


def test_rows_that_the_kernel_cannot_tell_from_zero_are_one_stratum():
    problem = make_problem(np.zeros((30, 2)), np.ones(30), LOSS, Kernel("linear"))
    landmarks = pivoted_cholesky(problem.kernel, np.arange(30), 5, np.random.default_rng(0))
    assert len(landmarks) == 0
    assert_array_equal(nearest_landmark(problem.kernel, landmarks), np.zeros(30))


@pytest.mark.parametrize("choice", ["greedy", "random"])
def test_duplicates_are_never_chosen_twice(choice):
    X, labels = blobs(40)
    X = np.concatenate([X[:20], X[:20]])
    problem = make_problem(X, labels, LOSS, Kernel("laplacian", gamma=1.0))
    landmarks = pivoted_cholesky(problem.kernel, np.arange(40), 40, np.random.default_rng(0), choice)
    assert len(set(landmarks % 20)) == len(landmarks) == 20


@pytest.mark.parametrize("choice", ["greedy", "random"])
def test_candidates_and_seed(choice):
    X, labels = blobs(200)
    problem = make_problem(X, labels, LOSS, Kernel("rbf", gamma=1.0))
    candidates = np.arange(50, 150)

    def landmarks(seed):
        return pivoted_cholesky(problem.kernel, candidates, 8, np.random.default_rng(seed), choice)

    assert set(landmarks(0)) <= set(candidates)
    assert_array_equal(landmarks(0), landmarks(0))
    # the first landmark of a stationary kernel is a tie, broken by the seed
    assert len({landmarks(seed)[0] for seed in range(8)}) > 2


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_nearest_landmark(kernel):
    X, labels = blobs(150, seed=3)
    problem = make_problem(X, labels, LOSS, kernel)
    landmarks = np.array([3, 17, 99, 120])
    K = gram(problem)
    distances = np.diag(K)[:, None] - 2 * K[:, landmarks] + np.diag(K)[landmarks]
    strata = nearest_landmark(problem.kernel, landmarks)
    assert np.all(distances[np.arange(150), strata] <= distances.min(axis=1) + 1e-4)
    assert_array_equal(strata[landmarks], np.arange(4))
