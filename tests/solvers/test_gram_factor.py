"""Factors of kernel matrices, and what is made of them when rows change, against dense solutions."""

import numpy as np
import pytest
from helpers import KERNELS, blobs, name
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dimargin import _core
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.solvers import Limits
from dimargin.solvers.gram_factor import GramFactor, OutOfTimeError

RBF = Kernel("rbf", gamma=0.5)


def matrix(n, kernel=RBF, n_threads=1):
    K = KernelMatrix.of(blobs(n)[0], kernel).in_float64()
    K.n_threads = n_threads
    return K


def check(K, factor, rows, bend, seed=0):
    """The residual, against the size of its terms."""
    right = np.random.default_rng(seed).standard_normal(len(rows))
    factor.prepare(rows, bend)
    found = factor.solve(right)
    dense = K.block(rows, rows) + np.diag(bend)
    size = np.abs(dense) @ np.abs(found) + np.abs(right)
    assert (np.abs(dense @ found - right) <= 1e-9 * size.max()).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@pytest.mark.parametrize("n", [5, 700])
def test_solves(kernel, n):
    K = matrix(n, kernel)
    bend = np.random.default_rng(1).uniform(0.01, 0.1, n)
    check(K, GramFactor(K, np.arange(n), bend, Limits()), np.arange(n), bend)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), log_bend=st.floats(-6, 2), steps=st.integers(1, 4))
def test_solves_after_changes(seed, log_bend, steps):
    """Rows come, go, come back, and change their entries of D."""
    rng, K = np.random.default_rng(seed), matrix(60)
    bends = 10.0 ** (log_bend + rng.uniform(0, 1, 60))
    first = np.sort(rng.permutation(60)[:48])
    factor = GramFactor(K, first, bends[first], Limits())
    others, few = np.setdiff1d(np.arange(60), first), rng.permutation(first)[:6]
    for step in range(steps):
        gone, bent = few[:3][rng.random(3) < 0.7], few[3:][rng.random(3) < 0.7]
        rows = np.sort(np.concatenate([np.setdiff1d(first, gone), others[:6][rng.random(6) < 0.7]]))
        bend = np.where(np.isin(rows, bent), 2 * bends[rows], bends[rows])
        assert factor.is_near(rows, bend)
        check(K, factor, rows, bend, seed=step)


def test_few_changes_are_near_and_many_are_not():
    K, rows, bend = matrix(100), np.arange(80), np.full(100, 0.1)
    factor = GramFactor(K, rows, bend[rows], Limits())
    assert factor.is_near(rows, bend[rows])
    assert factor.is_near(np.arange(90), bend[:90])
    assert not factor.is_near(np.arange(15, 100), bend[15:])
    other = bend.copy()
    other[:21] *= 2
    assert not factor.is_near(rows, other[rows])


def test_rounding_that_spoils_a_factor_is_made_up_for():
    """Twins make the matrix singular, and D is far below its rounding: the factor is that of a larger one."""
    X = np.repeat(blobs(40)[0], 2, axis=0)
    K = KernelMatrix.of(X, Kernel("poly", gamma=1.0, coef0=1.0, degree=3)).in_float64()
    factor = GramFactor(K, np.arange(80), np.full(80, 1e-30), Limits())
    factor.prepare(np.arange(80), np.full(80, 1e-30))
    assert np.isfinite(factor.solve(np.ones(80))).all()


def test_memory_is_used_again():
    K = matrix(60)
    first = GramFactor(K, np.arange(60), np.full(60, 0.1), Limits())
    second = GramFactor(K, np.arange(40), np.full(40, 0.1), Limits(), first.memory)
    assert second.memory is first.memory
    check(K, second, np.arange(40), np.full(40, 0.1))


def test_limits_end_it():
    K, over = matrix(60), Limits(deadline=0.0)
    with pytest.raises(OutOfTimeError):
        GramFactor(K, np.arange(60), np.full(60, 0.1), over)
    limits = Limits()
    factor = GramFactor(K, np.arange(50), np.full(50, 0.1), limits)
    limits.interrupted.set()
    with pytest.raises(OutOfTimeError):
        factor.prepare(np.arange(60), np.full(60, 0.1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 255, 256, 257, 800])
def test_core_factors_in_pieces(dtype, n):
    A = np.random.default_rng(0).standard_normal((n, n))
    A = A @ A.T + n * np.eye(n)
    L, half = A.astype(dtype), min(n, _core.tile_width)
    assert _core.factor_columns(L, 0, half, 2) and _core.factor_columns(L, half, n, 2)
    assert_allclose(np.tril(L), np.linalg.cholesky(A), rtol=0, atol=(1e-3 if dtype is np.float32 else 1e-10) * n**0.5)
    right = np.random.default_rng(1).standard_normal((70, n)).astype(dtype)
    forth = right.copy()
    _core.solve_triangle(L, forth, False, 2)
    _core.solve_triangle(L, forth, True, 2)
    assert_allclose(forth @ A, right, atol=1e-3 if dtype is np.float32 else 1e-11)


def test_core_refuses():
    with pytest.raises(ValueError, match="whole tiles"):
        _core.factor_columns(np.eye(300), 0, 100, 1)
    with pytest.raises(ValueError, match="whole tiles"):
        _core.factor_columns(np.ones((3, 4)), 0, 3, 1)
    with pytest.raises(ValueError, match="fit the factor"):
        _core.solve_triangle(np.eye(3), np.ones((2, 4)), False, 1)
    assert not _core.factor_columns(-np.eye(300), 0, 300, 2)
