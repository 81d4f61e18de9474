"""Sums in a tree: the same bits, whatever comes together first."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dimargin.shards.shards import Node, in_tree, tree_sum


@given(n_shards=st.integers(1, 70), cuts=st.lists(st.integers(0, 70), max_size=8), seed=st.integers(0, 99))
def test_sums_of_groups_are_those_of_all(n_shards, cuts, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n_shards) * 10.0 ** rng.integers(0, 12, n_shards)
    leaves = [Node(0, index, (value,)) for index, value in enumerate(values)]
    bounds = sorted({0, n_shards, *(cut for cut in cuts if cut < n_shards)})
    groups = [in_tree(leaves[first:last], n_shards) for first, last in pairwise(bounds)]
    assert all(len(group) <= 2 * n_shards.bit_length() for group in groups)
    whole, met = tree_sum(leaves, n_shards), tree_sum((node for group in groups for node in group), n_shards)
    assert (met.level, met.first, met.sums) == (whole.level, whole.first, whole.sums)
    np.testing.assert_allclose(whole.sums[0], values.sum(), rtol=1e-9, atol=1e-3)
