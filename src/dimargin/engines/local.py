"""Tasks on the threads of this process; the compiled core releases the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class LocalEngine:
    """Runs independent tasks side by side.

    Parameters
    ----------
    n_threads : int
        Threads in all.
    cancelled : threading.Event
        Set when the caller is interrupted, so that tasks under way end at their next step.
    """

    n_threads: int
    cancelled: Event

    def map(
        self,
        task: Callable[[Item, int], Result],
        items: Sequence[Item],
        done: Callable[[int, Result], None] = lambda place, result: None,
    ) -> list[Result]:
        """Results in the order of `items`.

        Parameters
        ----------
        task : callable
            Called with an item and the number of threads that it may use.
        items : sequence
        done : callable
            Called in the caller's thread with the place and the result of every item that has ended.
        """
        workers = min(self.n_threads, len(items))
        if workers <= 1:
            results = []
            for place, item in enumerate(items):
                results.append(task(item, self.n_threads))
                done(place, results[-1])
            return results
        with ThreadPoolExecutor(workers) as pool:
            futures = {pool.submit(task, item, self.n_threads // workers): i for i, item in enumerate(items)}
            try:
                for future in as_completed(futures):
                    done(futures[future], future.result())
            except BaseException:
                self.cancelled.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
            return [future.result() for future in futures]
