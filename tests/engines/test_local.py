"""Tasks side by side on threads."""

from threading import Barrier, Event, get_ident

import pytest

from dimargin.engines import LocalEngine


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_results_come_in_order(n_threads):
    ended = []
    results = LocalEngine(n_threads, Event()).map(
        lambda item, threads: (item, threads), list("abcde"), lambda place, result: ended.append((place, result))
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
    LocalEngine(2, Event()).map(lambda item, threads: item, range(4), lambda place, result: callers.add(get_ident()))
    assert callers == {get_ident()}
