"""What shards do on every engine, with numbers for rows: on threads, in a Spark session, and over Spark Connect."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.kernels.row_transform import StoredRows
from dimargin.problems.losses import ODMLoss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.solvers import Limits, LinearFeatures, Newton, Shard, solve


class OddError(Exception):
    """An exception that only the tests know, with more than a message."""

    def __init__(self, message, number):
        super().__init__(message, number)
        self.number = number


def scaled(numbers, factor):
    return factor * numbers


def together(parts, value):
    return np.concatenate(parts)


def by_remainder(numbers, n_parts):
    return [(part, numbers[numbers % n_parts == part]) for part in range(n_parts)]


def one_by_one(numbers, n_parts):
    return [(number % n_parts, number) for number in numbers.tolist()]


def listed(pieces, value):
    return [int(piece) for piece in pieces]


def sums(numbers, value):
    return numbers.copy(), np.array([len(numbers)])


def failing(numbers, number):
    if number in numbers:
        raise OddError("a number that is not wanted", number)
    return numbers


def failing_step(numbers, number):
    failing(numbers, number)
    return number


def failing_join(parts, number):
    return failing(np.concatenate(parts), number)


def failing_after(pieces, n_parts):
    return failing_join(pieces, 5)


def failing_split(numbers, number):
    return [(0, failing(numbers, number)), (1, numbers)]


def ranges(engine, n_shards=7, size=5):
    return engine.scatter([np.arange(first, first + size) for first in range(n_shards)])


@pytest.mark.parametrize("n_shards", [1, 2, 4, 9])
def test_shards_are_mapped_and_collected_in_their_order(engine, n_shards):
    shards = ranges(engine, n_shards)
    assert shards.n_shards == n_shards
    tripled = shards.map(scaled, 3)
    assert_array_equal(tripled.collect(), [3 * np.arange(first, first + 5) for first in range(n_shards)])
    assert_array_equal(shards.collect(), [np.arange(first, first + 5) for first in range(n_shards)])
    assert_array_equal(tripled.map(scaled, 2).collect(scaled, 5), [30 * part for part in shards.collect()])


@pytest.mark.parametrize("wide", [False, True])
def test_sums_are_those_of_all_shards_whenever_they_are_asked_for(engine, wide):
    numbers = np.random.default_rng(0).normal(size=(7, 5)) * 10.0 ** np.arange(7)[:, None]
    shards = engine.scatter(list(numbers))
    total, count = shards.aggregate(sums, wide=wide)
    assert_allclose(total, numbers.sum(axis=0), rtol=1e-13)
    assert count == 35
    again, _ = shards.map(scaled, 1.0).aggregate(sums, wide=wide)
    assert_array_equal(total, again)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("n_shards", [1, 2, 6, 7, 16, 21])
def test_sums_are_taken_in_a_tree(engine, n_shards, wide):
    """The left of two nodes has as many shards as a power of two, more than half of them."""
    numbers = np.random.default_rng(0).normal(size=(n_shards, 5)) * 10.0 ** np.arange(n_shards)[:, None]

    def added(rows):
        left = 1 << (len(rows) - 1).bit_length() >> 1
        return rows[0] if len(rows) == 1 else added(rows[:left]) + added(rows[left:])

    total, _ = engine.scatter(list(numbers)).aggregate(sums, wide=wide)
    assert_array_equal(total, added(numbers))


def test_the_first_shards_may_be_asked_alone(engine):
    shards = ranges(engine).map(scaled, 2, cheap=True)
    for n_shards in (1, 3, 7, 9):
        expected = [2 * np.arange(first, first + 5) for first in range(min(n_shards, 7))]
        assert_array_equal(shards.collect(n_shards=n_shards), expected)
        assert_array_equal(shards.collect(scaled, 5, n_shards), [5 * part for part in expected])


def test_cheap_shards_are_as_good_as_others(engine):
    rows = ranges(engine)
    shards = rows.map(scaled, 2, cheap=True)
    kept, rows = shards.map(scaled, 3), None
    doubled = [2 * np.arange(first, first + 5) for first in range(7)]
    assert_array_equal(kept.collect(), [3 * part for part in doubled])
    assert shards.fold(lambda part, seen: [*seen, int(part[0])], []) == [int(part[0]) for part in doubled]
    assert_array_equal(shards.merge(together, 3).collect()[2], doubled[6])
    ones = [number for part in doubled for number in part if number % 3 == 1]
    assert_array_equal(shards.shuffle(by_remainder, together, 3, 3).collect()[1], ones)
    total, count = shards.aggregate(sums, wide=True)
    assert_array_equal(total, sum(doubled))
    assert count == 35
    shards.release()
    assert_array_equal(kept.collect(), [3 * part for part in doubled])


@pytest.mark.parametrize("size", [1, 3, 7, 10])
def test_shards_that_follow_one_another_are_merged(engine, size):
    merged = ranges(engine).merge(together, size)
    parts = [np.arange(first, first + 5) for first in range(7)]
    expected = [np.concatenate(parts[first : first + size]).tolist() for first in range(0, 7, size)]
    assert merged.n_shards == len(expected)
    assert [part.tolist() for part in merged.collect()] == expected


@pytest.mark.parametrize("n_shards", [1, 3, 5])
def test_what_is_shuffled_arrives_in_the_order_of_the_senders(engine, n_shards):
    shuffled = ranges(engine).shuffle(by_remainder, together, n_shards, n_shards)
    numbers = np.concatenate([np.arange(first, first + 5) for first in range(7)])
    assert shuffled.n_shards == n_shards
    assert [part.tolist() for part in shuffled.collect()] == [
        numbers[numbers % n_shards == part].tolist() for part in range(n_shards)
    ]


def test_pieces_of_one_sender_stay_in_their_order(engine):
    shuffled = engine.scatter([np.array([9, 3, 6, 1]), np.array([4, 0, 12])]).shuffle(one_by_one, listed, 2, 2)
    assert shuffled.collect() == [[6, 4, 0, 12], [9, 3, 1]]


def test_a_shard_that_is_sent_nothing_is_named(engine):
    with pytest.raises(ValueError, match="shard 4 was sent nothing"):
        ranges(engine, 2, 3).shuffle(one_by_one, listed, 9, 9).collect()
    with pytest.raises(ValueError, match="shard 4 was sent nothing"):
        ranges(engine, 2, 3).shuffle(one_by_one, listed, 9, 9).merge(together, 9).collect()


def test_a_value_is_carried_through_the_shards_in_their_order(engine):
    shards = ranges(engine, 5)
    assert shards.fold(lambda numbers, carried: 2 * carried + int(numbers[0]), 1) == 58
    assert shards.map(scaled, 2).fold(lambda numbers, carried: [*carried, int(numbers[0])], []) == [0, 2, 4, 6, 8]


def carried(pair, factor):
    numbers, other = pair
    return other + factor * numbers.sum()


@pytest.mark.parametrize("n_shards", [1, 2, 4, 9])
def test_shards_are_zipped_with_others_round_by_round(engine, n_shards):
    shards = ranges(engine, n_shards).map(scaled, 2)
    others = expected = shards.map(lambda numbers, value: float(numbers[0])).collect()
    others = engine.scatter(others)
    for factor in (1, 10, 100):
        others = shards.zip(others, carried, factor)
        expected = [one + factor * 2 * np.arange(k, k + 5).sum() for k, one in enumerate(expected)]
        if factor != 10:  # that one is made on the way to the next
            assert others.collect() == expected
    twice = others.zip(others, lambda pair, value: pair[0] + pair[1])
    assert twice.collect() == [2 * one for one in expected]
    assert_allclose(shards.zip(others, lambda pair, value: (pair[1],)).aggregate(itself), [sum(expected)])


def itself(arrays, value):
    return arrays


def test_shards_are_zipped_with_as_many_others_only(engine):
    with pytest.raises(ValueError, match="3 shards cannot be zipped with 2 others"):
        ranges(engine, 3).zip(ranges(engine, 2), carried, 1)


def failing_pair(pair, number):
    return failing(pair[0], number)


OPERATIONS = {
    "zip": lambda shards: shards.zip(shards, failing_pair, 5).map(scaled, 2).collect(),
    "zip with what failed": lambda shards: shards.zip(shards.map(failing, 5), carried, 2).collect(),
    "zip of what failed": lambda shards: shards.map(failing, 5).zip(shards, carried, 2).collect(),
    "map": lambda shards: shards.map(failing, 5).map(scaled, 2).collect(),
    "merge": lambda shards: shards.merge(failing_join, 2, 5).collect(),
    "merge after": lambda shards: shards.map(failing, 5).merge(together, 2).collect(),
    "split": lambda shards: shards.shuffle(failing_split, together, 2, 5).collect(),
    "join": lambda shards: shards.shuffle(by_remainder, failing_after, 2, 2).collect(),
    "aggregate": lambda shards: shards.aggregate(failing, 5),
    "wide": lambda shards: shards.map(failing, 5).aggregate(sums, wide=True),
    "fold": lambda shards: shards.fold(failing_step, 5),
    "collect": lambda shards: shards.collect(failing, 5),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_exception_of_a_task_is_raised_as_it_is(engine, operation):
    with pytest.raises(OddError, match="not wanted") as caught:
        OPERATIONS[operation](ranges(engine))
    assert caught.value.number == 5


def test_items_of_many_megabytes_arrive_whole(engine):
    rng = np.random.default_rng(0)
    large = [rng.normal(size=size) for size in (700_000, 3, 131_072, 400_000)]
    shards = engine.scatter(large)
    for part, expected in zip(shards.map(scaled, 2.0).collect(), large, strict=True):
        assert_array_equal(part, 2 * expected)
    halves = shards.shuffle(in_halves, together, 2).collect()
    assert_array_equal(halves[0], np.concatenate([part[: len(part) // 2] for part in large]))
    assert_array_equal(halves[1], np.concatenate([part[len(part) // 2 :] for part in large]))
    assert_array_equal(shards.merge(together, 3).collect()[0], np.concatenate(large[:3]))
    twice = shards.map(scaled, 1.0).zip(shards, lambda pair, value: pair[0] + pair[1]).collect()
    for part, expected in zip(twice, large, strict=True):
        assert_array_equal(part, 2 * expected)


def in_halves(numbers, value):
    return [(0, numbers[: len(numbers) // 2]), (1, numbers[len(numbers) // 2 :])]


def test_a_task_may_change_its_shard_in_place_only_for_itself(engine):
    shards = ranges(engine, 2).map(scaled, 1)
    assert all(part.flags.writeable for part in shards.collect(scaled, 1))


def test_a_value_of_some_megabytes_reaches_every_task(engine):
    value = np.random.default_rng(0).normal(size=400_000)
    assert ranges(engine, 3).collect(lambda numbers, value: value[numbers].sum(), value) == [
        value[first : first + 5].sum() for first in range(3)
    ]


def test_what_is_made_of_shards_outlives_them(engine):
    shards = ranges(engine, 3)
    made, asked = shards.map(scaled, 2), shards.map(scaled, 3)
    asked.collect()
    shards.release()
    asked.release()
    assert_array_equal(made.collect(), [2 * np.arange(first, first + 5) for first in range(3)])


def test_newton_takes_the_same_steps_wherever_the_rows_are(engine):
    def run(engine):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(600, 4))
        labels = np.where(X @ [[1.0], [2.0], [-1.0], [0.5]] + rng.normal(size=(600, 1)) > 0, 1.0, -1.0).T
        losses = MarginLosses(labels, np.ones(600), ODMLoss(100.0, 0.5, 0.2), 600.0, 600.0, True)
        parts = np.array_split(np.arange(600), 5)
        shards = [Shard(LinearFeatures(StoredRows(X[part])), losses.of_rows(part, 600.0)) for part in parts]
        return solve(engine.scatter(shards), Newton(4, True), np.zeros((1, 5)), Limits(tol=1e-10))

    from dimargin.shards.local_engine import LocalEngine

    found, expected = run(engine), run(LocalEngine(1, None))
    assert found.status == "converged"
    assert_allclose(found.weights, expected.weights, rtol=1e-12)
    gaps, others = ([entry["relative_gap"] for entry in solution.history] for solution in (found, expected))
    assert_allclose(gaps, others, rtol=1e-9)
