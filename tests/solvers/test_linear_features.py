"""Rows as features: the same sums whatever their storage, type and index."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import ODM
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.kernels.row_transform import StoredRows
from dimargin.problems.margin_losses import MarginLosses
from dimargin.solvers import LinearFeatures, Shard
from dimargin.strategies.linear_newton import _sampled


@pytest.mark.parametrize("index", [None, np.array([4, 1, 8, 3])], ids=["all", "some"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
def test_sums_are_those_of_numpy(monkeypatch, index, dtype, sparse):
    monkeypatch.setattr(LinearFeatures, "chunk_values", 8)
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


@given(
    seed=st.integers(0, 2**16), n=st.integers(0, 30), d=st.integers(1, 12), density=st.floats(0, 1),
    dtype=st.sampled_from([np.float32, np.float64]), intercept=st.booleans(),
)  # fmt: skip
def test_squares_of_sparse_rows_are_those_of_numpy(seed, n, d, density, dtype, intercept):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < density)).astype(dtype)
    coefficients = rng.normal(size=n) * (rng.random(n) < 0.7)
    found = LinearFeatures(StoredRows(sp.csr_array(X))).sum_of_squares(coefficients, intercept)
    rows = np.c_[X, np.ones((n, int(intercept)))].astype(float)
    assert_allclose(found, np.tril(rows.T * coefficients @ rows), rtol=1e-12, atol=1e-12)


def test_squares_of_sparse_rows_are_summed_only_where_that_is_faster():
    X = np.eye(10)
    stored, dense = StoredRows(sp.csr_array(X)), StoredRows(sp.csr_array(np.ones((10, 10))))
    assert LinearFeatures(stored).adds_squares and not LinearFeatures(dense).adds_squares
    assert not LinearFeatures(StoredRows(X)).adds_squares and not LinearFeatures(stored, np.arange(3)).adds_squares


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_follow_one_another_share_the_memory(sparse):
    X = np.random.default_rng(0).normal(size=(10, 3))
    stored = StoredRows(sp.csr_array(X) if sparse else X)
    part = stored.between(3, 7)
    assert_array_equal(LinearFeatures(part).rows(np.arange(4)), X[3:7])
    assert np.shares_memory(*(s.X.data if sparse else s.X for s in (stored, part)))
    assert stored.between(10, 10).X.shape == (0, 3)


@pytest.mark.parametrize("sparse", [False, True])
def test_joined_rows_are_copied_only_where_they_are_not_neighbours(sparse):
    X = np.random.default_rng(0).normal(size=(10, 3))
    stored = StoredRows(sp.csr_array(X) if sparse else X)

    def joined(*parts):
        found = LinearFeatures.joined(parts)
        assert_array_equal(found.rows(np.arange(found.n_rows)), np.concatenate([p.rows(slice(None)) for p in parts]))
        return np.shares_memory(*(s.X.data if sparse else s.X for s in (stored, found.stored)))

    first, middle, last = (LinearFeatures(stored.between(*span)) for span in ((1, 3), (3, 7), (7, 10)))
    some, others = LinearFeatures(stored, np.array([4, 1])), LinearFeatures(stored).take(np.array([8]))
    assert joined(first, middle, last) and joined(middle) and joined(some, others)
    assert not joined(first, last) and not joined(middle, first) and not joined(first, some)
    assert not joined(*(pickle.loads(pickle.dumps(part)) for part in (first, middle)))
    assert len(pickle.dumps(LinearFeatures(StoredRows(np.zeros((10_000, 3))), np.arange(5)))) < 2000


def test_a_sample_stands_for_the_whole():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(3200, 2)), np.full(3200, 0.5)
    losses = MarginLosses(np.ones((1, 3200)), weights, ODM, 1600.0, 1600.0)
    shard = Shard(LinearFeatures(StoredRows(X)), losses, 6400)
    part = _sampled(shard, (0, 1 / 32, 50.0))
    assert part.losses.n_rows == 100 and len({row.tobytes() for row in part.features.rows(slice(None))}) == 100
    value = losses.values(np.zeros((1, 3200))).sum()
    assert part.losses.values(np.zeros((1, 100))).sum() == pytest.approx(value)
    other = _sampled(Shard(shard.features, losses, 9600), (0, 1 / 32, 50.0))
    assert not np.array_equal(other.features.rows(slice(None)), part.features.rows(slice(None)))
