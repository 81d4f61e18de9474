"""Random Fourier features: against the kernel, by the theory of their errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from scipy.stats import chi, kstest
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import rbf_kernel

from dimargin.kernels.fourier import fourier_features, fourier_frequencies


def error(features, K):
    return float(np.sqrt(((features @ features.T - K) ** 2).mean()))


@pytest.mark.parametrize("gamma", [0.1, 1.0])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_products_are_kernel_values(d, gamma):
    """Unbiased, of length one, with errors that fall as the root of the number; less than scikit-learn's on average."""
    X = np.random.default_rng(0).normal(size=(60, d)) / np.sqrt(d)
    K = rbf_kernel(X, gamma=gamma)
    features = [fourier_features(X, fourier_frequencies(d, 50, gamma, seed)) for seed in range(60)]
    assert features[0].shape == (60, 100)
    assert_allclose(np.linalg.norm(features[0], axis=1), 1)
    assert np.abs(np.mean([f @ f.T for f in features], axis=0) - K).max() < 0.05
    many = [error(fourier_features(X, fourier_frequencies(d, 800, gamma, seed)), K) for seed in range(20)]
    few = [error(f, K) for f in features]
    assert 2.5 < np.mean(few) / np.mean(many) < 8  # sixteen times as many: four, or more
    theirs = [error(RBFSampler(gamma=gamma, n_components=100, random_state=s).fit_transform(X), K) for s in range(20)]
    assert np.mean(few) < np.mean(theirs)


def test_frequencies_are_orthogonal_in_blocks_with_lengths_of_normal_vectors():
    V = fourier_frequencies(8, 2000, gamma=0.5, seed=3)
    assert V.shape == (8, 2000)
    block = V[:, 8:16]
    assert_allclose(block.T @ block, np.diag((block**2).sum(axis=0)), atol=1e-12)
    assert kstest(np.linalg.norm(V, axis=0), chi(8).cdf).pvalue > 1e-3
    assert kstest(V[0], "norm").pvalue > 1e-3


def test_same_seed_same_features_dense_or_sparse():
    X = np.random.default_rng(1).normal(size=(5000, 4))
    V = fourier_frequencies(4, 10, 2.0, 7)
    assert np.array_equal(V, fourier_frequencies(4, 10, 2.0, 7)) and (fourier_frequencies(4, 10, 2.0, 8) != V).all()
    assert_allclose(fourier_features(csr_array(X), V), fourier_features(X, V), atol=1e-14)
    assert_allclose(fourier_features(X, V)[4999], fourier_features(X[4999:], V)[0], atol=1e-14)
