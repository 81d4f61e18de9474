"""Rows as features: the same sums whatever their storage, type and index."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.rows import StoredRows
from dimargin.solvers import LinearFeatures, linear_features


@pytest.mark.parametrize("index", [None, np.array([4, 1, 8, 3])], ids=["all", "some"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
def test_sums_are_those_of_numpy(monkeypatch, index, dtype, sparse):
    monkeypatch.setattr(linear_features, "_VALUES_AT_ONCE", 8)
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(700, 5)) * (rng.random((700, 5)) < 0.5)).astype(dtype)
    rows = (X if index is None else X[index]).astype(float)
    features = LinearFeatures(StoredRows(sp.csr_array(X) if sparse else X), index)
    weights, coefficients = rng.normal(size=(2, 5)), rng.normal(size=(3, len(rows)))
    assert features.n_rows == len(rows) and features.evaluations() == 0
    assert_allclose(features.scores(weights), weights @ rows.T, rtol=1e-12)
    assert_allclose(features.combine(coefficients), coefficients @ rows, rtol=1e-12)
    assert_allclose(features.combine_squares(coefficients), coefficients @ rows**2, rtol=1e-12)
    assert_array_equal(features.rows(np.array([2, 0])), rows[[2, 0]])


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_follow_one_another_share_the_memory(sparse):
    X = np.random.default_rng(0).normal(size=(10, 3))
    stored = StoredRows(sp.csr_array(X) if sparse else X)
    part = stored.between(3, 7)
    assert_array_equal(LinearFeatures(part).rows(np.arange(4)), X[3:7])
    assert np.shares_memory(*(s.X.data if sparse else s.X for s in (stored, part)))
    assert stored.between(10, 10).X.shape == (0, 3)
