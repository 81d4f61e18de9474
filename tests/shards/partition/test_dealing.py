"""How rows are dealt, whatever the strata: evenly, and in one way, however they are stored."""

import numpy as np
import pytest
from helpers import ODM as LOSS
from helpers import blobs, make_problem, scattered
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from test_stratified import PARTITIONS, split
from travelling import TravellingEngine

from dimargin.kernels.functions import Kernel
from dimargin.shards.partition import InputClusterPartition, RandomPartition


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
@given(
    n=st.integers(8, 90),
    n_parts=st.integers(1, 8),
    n_shards=st.integers(1, 5),
    n_outputs=st.sampled_from([1, 3]),
    seed=st.integers(0, 99),
)
def test_parts_cover_the_rows_evenly_however_they_are_stored(partition, n, n_parts, n_shards, n_outputs, seed):
    X, labels = blobs(n, seed, n_outputs=n_outputs)
    problem = make_problem(X, labels, LOSS, Kernel("rbf"))
    parts = split(partition, problem, n_parts, seed, n_shards)
    assert len(parts) == n_parts
    assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert all(np.all(np.diff(part) > 0) for part in parts)
    for part, whole in zip(parts, split(partition, problem, n_parts, seed, 1), strict=True):
        assert_array_equal(part, whole)


def test_parts_represent_the_whole_with_their_rows_weights_and_coefficients():
    X, labels = blobs(90, n_outputs=2)
    weights, start = np.linspace(1, 2, 90), np.random.default_rng(0).normal(size=(2, 90))
    problem = make_problem(X, labels, LOSS, Kernel("rbf"), weights)
    for rescale in (True, False):
        rows = scattered(problem, start=start)
        for part in RandomPartition().deal(rows, 90, 4, np.random.default_rng(0), rescale).parts.collect():
            own = part.problem
            assert own.mass == pytest.approx(weights[part.indices].sum()) and own.total == problem.total
            assert_array_equal(own.labels, labels[:, part.indices])
            assert_array_equal(own.weights, weights[part.indices])
            assert_array_equal(own.kernel.rows(np.arange(part.n_rows)), X[part.indices])
            factor = problem.total / own.mass if rescale else 1.0
            np.testing.assert_allclose(part.dual, factor * start[:, part.indices], rtol=1e-14)


def test_more_parts_than_rows():
    problem = make_problem(*blobs(5), LOSS, Kernel("rbf"))
    with pytest.raises(ValueError, match=r"8 partitions .* are more than the 5 rows"):
        split(RandomPartition(), problem, 8)


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_threads_change_no_index(partition):
    problem = make_problem(*blobs(700), LOSS, Kernel("rbf"))
    for a, b in zip(split(partition, problem, 4), split(partition, problem, 4, n_threads=2), strict=True):
        assert_array_equal(a, b)


def test_parts_that_are_kept_are_dealt_once():
    problem, engine = make_problem(*blobs(90), LOSS, Kernel("rbf")), TravellingEngine()
    rows = engine.scatter(scattered(problem).collect())
    dealt = InputClusterPartition(5).deal(rows, 90, 4, np.random.default_rng(0))
    dealt.keep()
    for _ in range(3):
        assert [part.n_rows for part in dealt.parts.collect()] == [23, 23, 22, 22]
    assert engine.runs.count("_split_by_cell") == 3 == engine.runs.count("_find_cells")
    with pytest.raises(AssertionError, match="released"):
        dealt.spent[0].collect()
