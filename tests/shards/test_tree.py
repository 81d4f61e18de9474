"""The tree, with results that are no solutions: it must not care."""

from threading import Event

import pytest

from dimargin.shards.local_engine import LocalEngine
from dimargin.shards.tree import Level, climb


class Watched:
    """Shards that know whether they were released."""

    def __init__(self, shards, name, released):
        self.shards, self.name, self.released = shards, name, released

    def merge(self, *arguments):
        merged = self.shards.merge(*arguments)
        return Watched(merged, self.name.replace("solved", "merged"), self.released)

    def release(self):
        self.released.append(self.name)


def scatter(items):
    return LocalEngine(1, Event()).scatter(items)


def leaves(count):
    return scatter([(i,) for i in range(count)])


def together(parts, value):
    return sum(parts, ())


def solved(level, parts):
    return Level(level, [f"{level}{i}" for i in range(parts.n_shards)], parts)


@pytest.mark.parametrize(("branching", "n_levels"), [(2, 3), (3, 2), (4, 1), (2, 0)])
def test_levels_from_the_leaves_to_the_root(branching, n_levels):
    count = branching**n_levels
    levels = list(climb(leaves(count), n_levels, branching, solved, together))
    assert [level.level for level in levels] == list(range(n_levels, -1, -1))
    for level in levels:
        parts = level.parts.collect()
        assert len(parts) == len(level.results) == branching**level.level
        assert sum(parts, ()) == tuple(range(count))
        assert {len(part) for part in parts} == {count // branching**level.level}


def test_neighbours_are_merged_from_what_was_solved():
    seen = []

    def doubled(level, parts):
        return Level(level, [], parts.map(lambda part, _: tuple(2 * number for number in part)))

    def merging(parts, value):
        seen.append((tuple(parts), value))
        return together(parts, value)

    list(climb(leaves(4), 2, 2, doubled, merging, "value"))
    assert seen == [(((0,), (2,)), "value"), (((4,), (6,)), "value"), (((0, 4), (8, 12)), "value")]


def test_nothing_is_solved_that_nobody_asks_for():
    asked = []

    def solve(level, parts):
        asked.append(level)
        return solved(level, parts)

    levels = climb(leaves(8), 3, 2, solve, together)
    assert isinstance(next(levels), Level)
    next(levels)
    assert asked == [3, 2]


def test_what_a_level_is_made_of_is_released_when_it_has_been_solved_and_seen():
    released = []

    def solve(level, parts):
        return Level(level, [], Watched(parts.shards, f"solved {level}", released))

    spent = [Watched(None, "strata", released)]
    levels = climb(Watched(leaves(4), "leaves", released), 2, 2, solve, together, spent=spent)
    next(levels)
    assert released == []
    next(levels)
    assert released == ["strata"]
    next(levels)
    assert released == ["strata", "solved 2"]
    assert list(levels) == []
    assert released == ["strata", "solved 2", "solved 1", "merged 2"]
