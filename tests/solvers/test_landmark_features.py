"""The span of landmarks: which are independent, and their kernel values as features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.solvers import Newton
from dimargin.solvers.landmark_features import LandmarkFeatures, independent_landmarks


def matrix(X, kernel):
    return KernelMatrix.of(X, kernel).in_float64()


@given(n=st.integers(1, 30), d=st.integers(1, 5), copies=st.integers(1, 3), seed=st.integers(0, 2**16))
def test_independent_landmarks_span_the_others(n, d, copies, seed):
    rng = np.random.default_rng(seed)
    left, _, right = np.linalg.svd(rng.normal(size=(n, d)), full_matrices=False)
    X = np.repeat(left * rng.uniform(0.5, 2, len(right)) @ right, copies, axis=0)  # far from a lower rank
    K = matrix(X, Kernel("linear"))
    chosen, factor = independent_landmarks(K, rng.permutation(len(X)))
    assert len(chosen) == np.linalg.matrix_rank(X) == len(set(chosen))
    assert_allclose(factor @ factor.T, X[chosen] @ X[chosen].T, rtol=1e-9, atol=1e-12)
    assert (np.triu(factor, 1) == 0).all()
    coordinates = np.linalg.lstsq(X[chosen].T, X.T, rcond=None)[0]
    assert_allclose(X[chosen].T @ coordinates, X.T, atol=1e-8)


def test_rows_of_zeros_span_nothing():
    chosen, factor = independent_landmarks(matrix(np.zeros((4, 2)), Kernel("linear")), np.arange(4))
    assert len(chosen) == 0 and factor.shape == (0, 0)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_features_are_kernel_values_and_counted(n_outputs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    K, landmarks, rows = matrix(X, Kernel("rbf", gamma=0.7)), np.array([7, 3, 30]), np.arange(10, 40, 2)
    features = LandmarkFeatures(K.take(landmarks).facing(K.take(rows), 1))
    values = rbf_kernel(X[rows], X[landmarks], gamma=0.7)
    weights, coefficients = rng.normal(size=(n_outputs, 3)), rng.normal(size=(n_outputs, len(rows)))
    assert_allclose(features.scores(weights), weights @ values.T, atol=1e-12)
    assert_allclose(features.combine(coefficients), coefficients @ values, atol=1e-12)
    some = np.array([2, 0, 9])
    assert_allclose(features.rows(some), values[some], atol=1e-12)
    assert features.evaluations() == 2 * 3 * len(rows) + 3 * len(some)


@given(n=st.integers(1, 30), d=st.integers(1, 5), degree=st.integers(1, 3), seed=st.integers(0, 2**16))
def test_the_inverse_of_the_factor_is_bounded(n, d, degree, seed):
    """By singular values; rounding of sums of features grows by it, and counts in every gap."""
    rng = np.random.default_rng(seed)
    K = matrix(rng.normal(size=(n, d)), Kernel("poly", degree=degree))
    _, factor = independent_landmarks(K, np.arange(n))
    norm = 1 / np.linalg.svd(factor, compute_uv=False)[-1]
    assert norm <= Newton(len(factor), factor=factor).amplification <= 1.1 * len(factor) ** 0.5 * norm
