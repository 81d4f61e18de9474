"""Keys: of content, not of place; and random enough to sample by."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from scipy import stats

from dimargin.shards.keys import keys_of_ids, row_keys

ROWS = arrays(np.float32, st.tuples(st.integers(1, 12), st.integers(1, 5)), elements=st.sampled_from([0, -0.0, 1, 2.5]))


def mixed(x):
    """The finaliser of splitmix64, on Python's integers."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def key(row, label, weight, seed):
    golden, total = 0x9E3779B97F4A7C15, 0
    for index, value in enumerate(row.astype(np.float64)):
        if value:
            total += mixed(int(value.view(np.uint64)) ^ mixed((index + 1) * golden % 2**64))
    for number in (label, int(np.float64(weight).view(np.uint64)), seed):
        total = mixed(total * golden % 2**64 ^ number)
    return total


def test_the_finaliser_is_that_of_splitmix64():
    assert mixed(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF  # the first number of splitmix64 from seed 0


@given(X=ROWS, seed=st.integers(0, 2**31 - 2), data=st.data())
def test_keys_are_those_of_the_definition_however_rows_are_stored(X, seed, data):
    n_classes = data.draw(st.integers(2, 4))
    y = np.array(data.draw(st.lists(st.integers(0, n_classes - 1), min_size=len(X), max_size=len(X))))
    weights = np.array(data.draw(st.lists(st.sampled_from([0.5, 1.0]), min_size=len(X), max_size=len(X))))
    expected = [key(row, int(label), weight, seed) for row, label, weight in zip(X, y, weights, strict=True)]
    for stored in (X, X.astype(np.float64), sp.csr_array(X), sp.csr_array(X.astype(np.float64))):
        assert_array_equal(row_keys(stored, y, weights, seed), np.array(expected, dtype=np.uint64))


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_keys_is_random(seed):
    n = 20_000
    X = np.column_stack([np.arange(n) // 100, np.arange(n) % 100]).astype(float)  # a grid: as far from random as can be
    keys = row_keys(X, np.ones(n, dtype=int), np.ones(n), seed)
    assert len(np.unique(keys)) == n
    assert stats.kstest(keys / 2.0**64, "uniform").pvalue > 1e-3
    order = np.argsort(keys)
    assert stats.kstest(order[:2000] / n, "uniform").pvalue > 1e-3  # a beginning of it is a sample
    assert abs(stats.spearmanr(order[:-1], order[1:]).statistic) < 5 / np.sqrt(n)


def test_another_seed_is_another_order():
    X = np.arange(50.0)[:, None]
    one, two = (np.argsort(row_keys(X, np.ones(50, dtype=int), np.ones(50), seed)) for seed in (0, 1))
    assert not np.array_equal(one, two)


@given(ids=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20), seed=st.integers(0, 2**31 - 2))
def test_keys_of_whole_numbers_are_those_of_the_definition(ids, seed):
    golden = 0x9E3779B97F4A7C15
    expected = [mixed(one % 2**64 * golden % 2**64 ^ seed) for one in ids]
    assert_array_equal(keys_of_ids(np.array(ids), seed), np.array(expected, dtype=np.uint64))


def test_keys_of_text_tell_texts_and_seeds_apart():
    ids = np.array([f"row {k}" for k in range(5000)], dtype=object)
    keys = keys_of_ids(ids, 0)
    assert len(np.unique(keys)) == 5000 and stats.kstest(keys / 2.0**64, "uniform").pvalue > 1e-3
    assert_array_equal(keys_of_ids(ids[::-1], 0), keys[::-1])
    assert not (keys_of_ids(ids, 1) == keys).any()
