"""The way of a gap to its tolerance."""

import math
from types import SimpleNamespace

import pytest

from dimargin.estimators.fit_progress import CallbackProgress, GapWay, Monitor


@pytest.mark.parametrize(
    ("tol", "gaps", "expected"),
    [
        (1e-3, [1.0, 0.1, 0.01, 1e-3, 1e-9], [0, 1 / 3, 2 / 3, 1, 1]),
        (1e-3, [1e5, 10.0, 1e-3], [0, 0.5, 1]),  # from the first gap that is known
        (1e-2, [math.nan, math.inf, 1.0, math.nan, 0.1, 0.5, 0.0], [0, 0, 0, 0, 0.5, 0.5, 1]),
        (1e-3, [1e-5, 1.0], [1, 1]),
        (2.0, [1.0], [1]),
    ],
)
def test_the_way_is_logarithmic_and_is_never_shortened(tol, gaps, expected):
    way = GapWay(tol)
    assert [way.update(gap) for gap in gaps] == pytest.approx(expected)


class Context:
    """Task of which only the names, the numbers and those below are known."""

    def __init__(self, task_name="fit", task_id=None, max_subtasks=None, sequential_subtasks=False):
        self.name, self.number, self.most, self.below = task_name, task_id, max_subtasks, []

    def subcontext(self, **about):
        self.below.append(Context(**about))
        return self.below[-1]

    def call_on_fit_task_begin(self, **hooks):
        pass

    def call_on_fit_task_end(self, **hooks):
        return False


@pytest.mark.parametrize("n_parts", [3, 1000, 1001, 2500, 19_900])
def test_partitions_are_tasks_and_many_are_a_thousand(n_parts):
    class Counted(Monitor):
        ended = 0

        def task_end(self, index):
            self.ended += 1

    context, monitor = Context(), Counted()
    progress = CallbackProgress(SimpleNamespace(tol=1e-3, verbose=0), context, {}, dict, monitor)
    progress.level_begin(1, n_parts)
    for index in reversed(range(n_parts)):
        progress.task_end(index)
    (level,) = context.below
    assert level.most == len(level.below) == min(n_parts, 1000) and monitor.ended == n_parts
    numbers = [task.number for task in level.below]
    assert numbers == (list(range(1000)) if n_parts > 1000 else list(reversed(range(n_parts))))
