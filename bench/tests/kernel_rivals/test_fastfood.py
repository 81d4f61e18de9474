"""FastFood against the exact kernel, and the transform against Hadamard matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import hadamard
from scipy.stats import chi, kstest
from sklearn.metrics.pairwise import rbf_kernel

from dimargin_bench.kernel_rivals import FastFood
from dimargin_bench.kernel_rivals.fastfood import walsh_hadamard

GAMMA = 0.3


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(120, 6))


@pytest.mark.parametrize("length", [1, 2, 8, 64])
def test_the_transform_multiplies_with_hadamard_matrices(length):
    values = np.random.default_rng(0).normal(size=(3, 2, length))
    assert_allclose(walsh_hadamard(values), values @ hadamard(length), atol=1e-12)


def test_features_are_those_of_the_product_of_matrices(X):
    """With every matrix of the paper written out."""
    fastfood = FastFood(n_components=20, gamma=GAMMA, random_state=0).fit(X)
    H, blocks = hadamard(8), []
    for signs, order, normals, scales in zip(
        fastfood.signs_, fastfood.permutations_, fastfood.normals_, fastfood.scales_, strict=True
    ):
        blocks.append(np.diag(scales) @ H @ np.diag(normals) @ np.eye(8)[order] @ H @ np.diag(signs))
    angles = np.pad(X, [(0, 0), (0, 2)]) @ np.concatenate(blocks).T[:, :20]
    assert len(blocks) == 3
    assert_allclose(fastfood.transform(X), np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(20), atol=1e-12)


def test_frequencies_have_the_norms_of_normal_vectors():
    """``|V_i| / sqrt(2 gamma)`` has the chi distribution: the factors of Hadamard matrices that are not normalised."""
    fastfood = FastFood(n_components=4096, gamma=GAMMA, random_state=0).fit(np.zeros((1, 16)))
    norms = np.linalg.norm(fastfood._angles(np.eye(16)), axis=0) / np.sqrt(2 * GAMMA)
    assert kstest(norms, chi(16).cdf).pvalue > 1e-3
    assert_allclose((norms**2).mean(), 16, rtol=0.02)


def test_the_error_falls_as_one_over_the_square_root_of_the_features(X):
    exact, errors = rbf_kernel(X, gamma=GAMMA), []
    sizes = [32, 128, 512, 2048]
    for size in sizes:
        draws = [FastFood(n_components=size, gamma=GAMMA, random_state=seed).fit_transform(X) for seed in range(12)]
        errors.append(np.mean([np.abs(features @ features.T - exact).mean() for features in draws]))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.6 < slope < -0.4
    assert errors[-1] < 0.02


def test_the_kernel_is_the_mean(X):
    draws = [FastFood(n_components=32, gamma=GAMMA, random_state=seed).fit_transform(X[:30]) for seed in range(400)]
    mean = np.mean([features @ features.T for features in draws], axis=0)
    assert np.abs(mean - rbf_kernel(X[:30], gamma=GAMMA)).max() < 6 / np.sqrt(400 * 32)


def test_rows_are_transformed_alike_in_any_company(X):
    fastfood = FastFood(n_components=25_000, gamma=GAMMA, random_state=0).fit(X)  # of which few rows make a batch
    assert_array_equal(fastfood.transform(X)[7], fastfood.transform(X[7:8])[0])


@pytest.mark.parametrize(("n_components", "n_blocks"), [(1, 1), (11, 1), (13, 2), (1500, 188)])
def test_frequencies_may_be_those_of_the_number_of_blocks_that_comes_closest(X, n_components, n_blocks):
    fastfood = FastFood(n_components=n_components, gamma=GAMMA, random_state=0, whole_blocks=True).fit(X)
    assert fastfood.signs_.shape == (n_blocks, 8) and fastfood.n_frequencies_ == 8 * n_blocks
    assert fastfood.transform(X).shape == (120, 16 * n_blocks) == (120, len(fastfood.get_feature_names_out()))
    features = fastfood.transform(X)
    assert_allclose((features**2).sum(axis=1), 1)
