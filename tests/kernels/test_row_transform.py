"""Rows prepared for float32: kernel values stay within 1e-5 of float64, or the error names the column."""

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_reference import (
    error,
    every,
    every_instruction_set,
    every_kernel,
    exact,
    matrix,
    store,
    using,
)

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform

# ---- columns far from zero, and of very different sizes ----------------------------------------------------


def awkward_rows(n, shift, low, high, seed=0):
    """Columns of sizes from 10^low to 10^high, moved by `shift`, and two constant ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)) * np.logspace(low, high, 8) + shift
    return np.column_stack([X, np.full(n, 1e6), np.zeros(n)])


def typical_gamma(X, name):
    spread = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    return 1 / (np.square(spread) if name == "rbf" else np.abs(spread)).sum(axis=1).mean()


@every_instruction_set
@every_kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [1.0, 1e6, 1e10])
@pytest.mark.parametrize("shift, low, high", [(1e6, 0, 0), (0, -3, 6), (1e6, -3, 6), (-1e6, -3, 0)])
def test_shifted_and_scaled_columns(name, instructions, dtype, factor, shift, low, high):
    X = awkward_rows(40, shift, low, high).astype(dtype)
    # with a large factor the small columns count, or distances in the large ones
    gamma = typical_gamma(X, name) * factor if name in ("rbf", "laplacian") else 1e-12 * factor
    kernel = Kernel(name, gamma, 2, 1.0)
    with using(instructions):
        K = matrix(X, kernel)
        assert error(K, every(K), exact(X, X, kernel)) <= 1e-5


@every_instruction_set
@every_kernel
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [1e8, 1e12, 1e15, 1e20, 1e30, 1e60, 1e100, 1e150, 1e200, 1e305])
def test_huge_columns_are_right_or_named(name, instructions, sparse, size):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 4))
    X[:, 2] *= size
    X[::2, 2] = size * (1 + 1e-9 * rng.normal(size=15))  # neighbours far from zero
    X[2] = X[0]
    X[4] = X[0] + [0.5, 0, 0, 0]
    rows, kernel = sp.csr_array(X) if sparse else X, Kernel(name, 1.0, 3, 1.0)
    with using(instructions), np.errstate(all="ignore"):
        try:
            K = matrix(rows, kernel)
        except ValueError as refusal:
            assert "column 2 of X is too large" in str(refusal)
            assert size >= (1e8 if sparse else 1e11)
        else:
            assert size <= {"linear": 1e100, "poly": 1e30}.get(name, 1e12)
            assert error(K, every(K), exact(X, X, kernel)) <= 1e-5


def test_the_column_that_is_named_is_the_one_far_from_its_mean():
    X = np.random.default_rng(0).normal(size=(20, 3))
    X[:, 0] += 1e14
    X[:, 1] *= 1e13
    with pytest.raises(ValueError, match="column 1 of X is too large for the rbf kernel with gamma=2"):
        RowTransform.fit(X, Kernel("rbf", 2.0))


def test_the_centre_is_the_weighted_mean_in_float64():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(50_000, 2)) + np.array([1e3, 1e36])).astype(np.float32)
    weights = rng.integers(1, 4, size=len(X)).astype(float)
    plain, weighted = (RowTransform.fit(X, Kernel("rbf", 1e-9), w).center for w in (None, weights))
    np.testing.assert_allclose(plain, X.astype(float).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(weighted, np.repeat(X.astype(float), weights.astype(int), axis=0).mean(axis=0))
    # so that a shift costs nothing
    shifted = RowTransform.fit(X[:, :1], Kernel("rbf", 1.0))
    assert shifted.dtype is np.float32 and shifted.size < 10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiny_rows_do_not_vanish(dtype):
    X = (1e-25 * np.random.default_rng(0).normal(size=(10, 3))).astype(dtype)
    for kernel in (Kernel("linear"), Kernel("poly", 1.0, 3)):
        K = matrix(X, kernel)
        assert error(K, every(K), exact(X, X, kernel)) <= 1e-5


@every_instruction_set
@every_kernel
@pytest.mark.parametrize("storage", ["float64", "csr int32"])
def test_queries_far_beyond_the_training_rows(name, instructions, storage):
    rng = np.random.default_rng(2)
    X, Q = rng.normal(size=(20, 3)), rng.normal(size=(8, 3))
    Q[1:] *= [[10.0], [1e4], [1e15], [1e18], [1e39], [1e150], [1e307]]
    kernel = Kernel(name, 0.5, 2, 1.0)
    transform = RowTransform.fit(store(X, storage), kernel)
    with using(instructions):
        for q in Q[:, None]:
            try:
                K = KernelMatrix(transform, store(X, storage), queries=store(q, storage))
            except ValueError as refusal:
                assert "of X is too large" in str(refusal)
                assert np.abs(q).max() > 1e100 and not kernel.stationary
            else:
                want = exact(q, X, kernel)
                assert np.max(np.abs(every(K) - want)) <= 1e-5 * np.maximum(1, np.abs(want).max())


def test_sparse_queries_with_many_more_entries_than_training_rows():
    d = 4000
    X = sp.csr_array(np.eye(20, d))
    Q = np.full((2, d), 0.03)
    Q[1] *= 1.001
    kernel = Kernel("rbf", 0.6)
    K = KernelMatrix(RowTransform.fit(X, kernel), X, queries=sp.csr_array(Q))
    assert error(K, every(K), exact(Q, X, kernel)) <= 1e-6


# ---- the rounding rule -------------------------------------------------------------------------------------


def adversaries(d, rng):
    """Rows near each other and far from their mean (the mirror image of each is a row too)."""
    constant, direction = rng.uniform(1, 2) * np.ones(d), rng.normal(size=d)
    for spread in (1e-2, 3e-2, 0.1, 0.3):
        levels = 1 + spread * rng.uniform(-1, 1, size=(16, 1))
        for X in (constant * levels, constant + spread * rng.normal(size=(16, d)), direction * levels,
                  direction + spread * rng.normal(size=(16, d))):  # fmt: skip
            yield np.vstack([X, -X])


def largest_gamma(X, name, wanted, **parameters):
    """The largest gamma for which the rows are still prepared in the wanted form."""
    low, high = 1e-12, 1e12
    while high / low > 1 + 1e-9:
        middle = np.sqrt(low * high)
        form = RowTransform.fit(X, Kernel(name, middle, **parameters))
        low, high = (middle, high) if wanted(form) else (low, middle)
    return low


@pytest.mark.slow_after(1)
@every_instruction_set
@pytest.mark.parametrize("d", [1, 2, 8, 16, 22, 123, 350])
@pytest.mark.parametrize(
    "name, form, sparse",
    [
        ("rbf", "product", False),
        ("rbf", "difference", False),
        ("rbf", "product", True),
        ("laplacian", "product", False),
        ("laplacian", "product", True),
    ],
)
def test_float32_is_within_tolerance_up_to_the_boundary_of_the_rule(name, form, sparse, d, instructions):
    def wanted(t):
        return t.dtype is np.float32 and (form == "difference" or not t.difference)

    rng = np.random.default_rng(d)
    worst = 0.0
    with using(instructions):
        for _ in range(4 if d < 100 else 1):
            for X in adversaries(d, rng):
                rows = sp.csr_array(X) if sparse else X
                size = (X**2).sum(axis=1).max() if name == "rbf" else np.abs(X).sum(axis=1).max()
                kernel = Kernel(name, largest_gamma(rows, name, wanted))
                K = matrix(rows, kernel)
                assert wanted(K.transform) and K.transform.difference == (form == "difference")
                assert kernel.gamma * size > 0.1  # the rule leaves float32 something to do
                half = np.arange(len(X) // 2)
                worst = max(worst, error(K, K.block(half, half), exact(X[half], X[half], kernel)))
    # and the search is a hard one: a rule three times as loose would fail it
    assert 2e-6 < worst <= 1e-5


# ---- sparse rows -------------------------------------------------------------------------------------------


@every_kernel
def test_unsorted_and_repeated_entries_of_sparse_queries(name):
    X = sp.csr_array(np.random.default_rng(0).normal(size=(12, 5)))
    messy = sp.csr_array((np.array([1.0, 2.0, 0.5, -3.0]), np.array([3, 0, 3, 1]), np.array([0, 4])), shape=(1, 5))
    kernel = Kernel(name, 0.2, 2, 1.0)
    K = KernelMatrix(RowTransform.fit(X, kernel), X, queries=messy)
    assert np.max(np.abs(every(K) - exact(np.array([[2.0, -3.0, 0.0, 1.5, 0.0]]), X, kernel))) <= 1e-4
    assert messy.nnz == 4  # the caller's rows stay as they are


def test_more_columns_than_the_core_can_number():
    X = sp.csr_array((np.ones(1), np.array([2**31], dtype=np.int64), np.array([0, 1])), shape=(1, 2**31 + 1))
    with pytest.raises(ValueError, match=f"X has {2**31 + 1} columns"):
        RowTransform(Kernel("rbf"), None, np.float32, False, 1.0).apply(X)
