"""The tree, with results that are no solutions: it must not care."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dimargin.tree import Level, Node, climb, merged_rows


def leaves(count):
    return [Node(np.array([10 * i, 10 * i + 1]), float(i + 1)) for i in range(count)]


def merge(children):
    return Node(merged_rows([node for node, _ in children]), sum(node.mass for node, _ in children))


@pytest.mark.parametrize(("branching", "n_levels"), [(2, 3), (3, 2), (4, 1), (2, 0)])
def test_levels_from_the_leaves_to_the_root(branching, n_levels):
    count = branching**n_levels
    levels = list(climb(leaves(count), n_levels, branching, lambda level, nodes: [level] * len(nodes), merge))
    assert [level.level for level in levels] == list(range(n_levels, -1, -1))
    assert [len(level.nodes) for level in levels] == [branching**level.level for level in levels]
    for level in levels:
        assert sum(node.mass for node in level.nodes) == count * (count + 1) / 2
        assert_array_equal(np.sort(merged_rows(level.nodes)), np.sort(merged_rows(leaves(count))))
        assert level.results == [level.level] * len(level.nodes)


def test_neighbours_are_merged_and_carry_their_results():
    seen = []

    def merging(children):
        seen.append([(int(node.mass), result) for node, result in children])
        return merge(children)

    list(climb(leaves(4), 2, 2, lambda level, nodes: [f"{level}{i}" for i in range(len(nodes))], merging))
    assert seen == [[(1, "20"), (2, "21")], [(3, "22"), (4, "23")], [(3, "10"), (7, "11")]]


def test_nothing_is_solved_that_nobody_asks_for():
    solved = []

    def solve(level, nodes):
        solved.append(level)
        return [None] * len(nodes)

    levels = climb(leaves(8), 3, 2, solve, merge)
    assert isinstance(next(levels), Level)
    next(levels)
    assert solved == [3, 2]
