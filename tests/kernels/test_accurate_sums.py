"""Sums of cancelling products, against fractions."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.kernels.accurate_sums import polynomial_products, weighted_row_sum

seeds = st.integers(0, 2**32 - 1)


def cancelling(seed, n, d, spread):
    """Rows and weights whose products cancel in all but the last few of their digits."""
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-spread, spread, (n, 1)), rng.normal(size=n)
    return np.vstack([X, X * (1 + 1e-13)]), np.concatenate([weights, -weights])


@given(seed=seeds, n=st.integers(1, 200), d=st.integers(1, 4), spread=st.sampled_from([0, 3, 8]))
def test_weighted_row_sum(seed, n, d, spread):
    X, weights = cancelling(seed, n, d, spread)
    exact = [float(sum(Fraction(w) * Fraction(x) for w, x in zip(weights, column, strict=True))) for column in X.T]
    assert_allclose(weighted_row_sum(X, weights), exact, rtol=1e-15, atol=1e-28 * np.abs(X).max())
    assert_array_equal(weighted_row_sum(sp.csr_array(X), weights), weighted_row_sum(X, weights))


def test_rows_some_at_a_time(monkeypatch):
    X, weights = cancelling(0, 300, 3, 5)
    whole = weighted_row_sum(X, weights)
    monkeypatch.setattr("dimargin.kernels.accurate_sums._ROWS_AT_ONCE", 64)
    assert_allclose(weighted_row_sum(X, weights), whole, rtol=1e-15)


def test_nothing():
    assert_array_equal(weighted_row_sum(np.empty((0, 3)), np.empty(0)), np.zeros(3))
    assert_array_equal(weighted_row_sum(np.zeros((2, 3)), np.ones(2)), np.zeros(3))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("degree", [1, 2, 3])
@given(seed=seeds, n=st.integers(1, 12))
def test_polynomial_products(degree, seed, n):
    rng = np.random.default_rng(seed)
    X, c = 100 * rng.normal(size=(n, 3)), rng.normal(size=(2, n))
    c[1] -= c[1].mean()
    found = polynomial_products(X, X, 0.3, 1.0, degree, c)
    for q, i in np.ndindex(found.shape):
        values = (
            Fraction(c[q, j])
            * (Fraction(0.3) * sum(Fraction(a) * Fraction(b) for a, b in zip(X[i], X[j], strict=True)) + 1) ** degree
            for j in range(n)
        )
        assert_allclose(found[q, i], float(sum(values)), rtol=1e-14, atol=1e-20)
