"""Tasks side by side on threads."""

import weakref
from threading import Barrier, Event, get_ident

import numpy as np
import pytest

from dimargin.shards.local_engine import LocalEngine


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_results_come_in_order(n_threads):
    ended = []
    results = LocalEngine(n_threads, Event()).map(
        lambda item, threads: (item, threads), list("abcde"), lambda index, result: ended.append((index, result))
    )
    assert [item for item, _ in results] == list("abcde")
    assert {threads for _, threads in results} == {1}
    assert sorted(ended) == list(enumerate(results))


def test_a_single_task_gets_all_threads():
    assert LocalEngine(4, Event()).map(lambda item, threads: threads, ["a"]) == [4]
    assert LocalEngine(5, Event()).map(lambda item, threads: threads, ["a", "b"]) == [2, 2]


def test_tasks_really_overlap():
    barrier = Barrier(2)  # passes only if two tasks wait for it at the same time

    def task(item, threads):
        barrier.wait(timeout=30)
        return get_ident()

    first, second = LocalEngine(2, Event()).map(task, [1, 2])
    assert first != second


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_cancels_the_others_and_is_raised(error):
    cancelled = Event()
    engine = LocalEngine(2, cancelled)

    def task(item, threads):
        if item == 0:
            raise error("task 0")
        assert cancelled.wait(timeout=30)

    with pytest.raises(error, match="task 0"):
        engine.map(task, range(8))
    assert cancelled.is_set()


def test_done_is_called_in_the_callers_thread():
    callers = set()
    LocalEngine(2, Event()).map(lambda item, threads: item, range(4), lambda index, result: callers.add(get_ident()))
    assert callers == {get_ident()}


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_shards_are_mapped_and_summed_in_their_order(n_threads):
    numbers = np.random.default_rng(0).normal(size=(7, 5)) * 10.0 ** np.arange(7)[:, None]
    shards = LocalEngine(n_threads, Event()).scatter(list(numbers))
    doubled = shards.map(lambda row, factor: factor * row, 2.0)
    np.testing.assert_array_equal(doubled.collect(), 2.0 * numbers)
    np.testing.assert_array_equal(shards.collect(), numbers)
    total, count = doubled.aggregate(lambda row, shift: (row + shift, np.ones(1)), 1.0)
    a, b, c, d, e, f, g = 2.0 * numbers + 1.0
    expected = ((a + b) + (c + d)) + ((e + f) + g)
    np.testing.assert_array_equal(total, expected)
    assert count == 7


def test_a_sum_holds_few_parts_at_a_time():
    parts, most = [], []

    def task(item, value):
        part = np.zeros(3)
        parts.append(weakref.ref(part))
        most.append(sum(ref() is not None for ref in parts))
        return (part,)

    LocalEngine(2, Event()).scatter(range(20)).aggregate(task)
    assert max(most) <= 5


def test_no_shards_have_no_sum():
    with pytest.raises(ValueError, match="at least one shard"):
        LocalEngine(1, Event()).scatter([]).aggregate(lambda item, value: (np.ones(1),))


def test_what_is_shuffled_arrives_in_the_order_of_the_senders():
    shards = LocalEngine(2, Event()).scatter([np.arange(5), np.arange(5, 9), np.arange(9, 12)])
    dealt = shards.shuffle(_dealt, _together, 4, 4)
    assert [part.tolist() for part in dealt.collect()] == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    assert [part.tolist() for part in dealt.merge(_together, 3).collect()] == [[0, 4, 8, 1, 5, 9, 2, 6, 10], [3, 7, 11]]


def _dealt(numbers, n_parts):
    return [(part, numbers[numbers % n_parts == part]) for part in range(n_parts)]


def _together(pieces, value):
    return np.concatenate(pieces)


def test_shards_know_what_their_tasks_may_use():
    engine = LocalEngine(4, Event())
    few, many = engine.scatter([1]), engine.scatter(range(9))
    assert (few.n_shards, few.n_threads, few.n_together) == (1, 4, 1)
    assert (many.n_shards, many.n_threads, many.n_together) == (9, 1, 4)


def test_ended_tasks_are_told():
    ended = []
    LocalEngine(2, Event()).scatter("abc").map(lambda item, value: item + value, "x", ended.append)
    assert sorted(ended) == [0, 1, 2]
