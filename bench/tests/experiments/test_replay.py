"""List scheduling, and the seconds of tasks that it replays."""

from itertools import count
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_moons

import dimargin as dm
from dimargin.shards.local_engine import LocalEngine
from dimargin_bench.experiments import replay
from dimargin_bench.experiments.examine import speed_up
from dimargin_bench.experiments.replay import TaskTimes, TimedDiODM, TimedDSVRG, TimedShards, error_band, makespan
from dimargin_bench.experiments.split_data import Split


@pytest.fixture
def moons():
    return make_moons(400, noise=0.2, random_state=0)


@pytest.mark.parametrize(
    "seconds, cores, expected",
    [
        ([3, 3, 2, 4], 2, 7),  # the third follows the first, the fourth the second
        ([1, 1, 1, 1, 1, 5], 2, 7),  # in their order: the longest last
        ([5, 1, 1, 1, 1, 1], 2, 5),
        ([2, 3, 4], 1, 9),
        ([2, 3, 4], 8, 4),
        ([], 4, 0),
    ],
)
def test_a_schedule_by_hand(seconds, cores, expected):
    assert makespan(seconds, cores) == expected


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 40))
def test_a_schedule_is_within_graham_s_bounds(seconds, cores):
    longest, share = max(seconds, default=0), sum(seconds) / cores
    assert max(longest, share) <= makespan(seconds, cores) + 1e-9
    assert makespan(seconds, cores) <= share + (1 - 1 / cores) * longest + 1e-9


def test_stages_wait_for_each_other_and_the_rest_stays():
    times = TaskTimes(20.0, [[3.0, 3.0, 2.0, 4.0], [5.0]])
    assert times.between == 3.0
    assert [times.on(cores) for cores in (1, 2, 32)] == [20.0, 3 + 7 + 5, 3 + 4 + 5]


@given(st.floats(1, 32), st.sampled_from([2, 8, 32]), st.floats(0.2, 5))
def test_an_error_band_is_as_wide_either_way_and_has_no_more_cores_than_there_are(replayed, cores, error):
    low, high = error_band(replayed, cores, error)
    assert low <= replayed <= high <= max(replayed, cores)
    assert error_band(replayed, cores, 1 / error) == pytest.approx((low, high))
    assert error_band(replayed, 2, error)[0] == pytest.approx(replayed * min(error, 1 / error))
    assert error_band(1.0, 1, error) == (1.0, 1.0)


def test_the_tasks_of_every_operation_are_timed_but_for_those_of_a_fold(monkeypatch):
    ticks = count()
    monkeypatch.setattr(replay, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))
    stages = []
    shards = TimedShards(LocalEngine(1, Event()).scatter([1, 2, 3, 4]), stages)
    doubled = shards.map(lambda item, factor: factor * item, 2)
    assert doubled.collect() == [2, 4, 6, 8] and [len(stage) for stage in stages] == [4]
    assert doubled.merge(lambda items, _: sum(items), 2).collect() == [6, 14]
    assert doubled.fold(lambda item, value: value + item, 0) == 20
    assert [len(stage) for stage in stages] == [4, 2]
    split, join = (lambda item, _: [(item // 5, item)]), (lambda items, _: sum(items))
    assert doubled.shuffle(split, join, 2).collect() == [6, 14]
    assert doubled.aggregate(lambda item, _: (np.array(item),)) == (20,)
    assert doubled.collect(lambda item, _: item + 1) == [3, 5, 7, 9]
    assert [len(stage) for stage in stages] == [4, 2, 4, 2, 4, 4] and {s for stage in stages for s in stage} == {1.0}


def test_a_timed_tree_is_the_same_tree(moons):
    plain, timed = (
        dm.ODMClassifier(strategy=kind(early_stop=False), branching=2, n_levels=2, n_jobs=1, random_state=0).fit(*moons)
        for kind in (dm.DiODM, TimedDiODM)
    )
    np.testing.assert_array_equal(timed.dual_coef_, plain.dual_coef_)
    assert {4, 2, 1} <= {len(stage) for stage in timed.strategy.stages_}  # the levels, among other operations


def test_timed_gradients_are_the_same_gradients(moons):
    plain, timed = (
        dm.LinearODMClassifier(lam=10.0, solver=kind(n_partitions=5), n_jobs=1, random_state=0).fit(*moons)
        for kind in (dm.LinearDSVRG, TimedDSVRG)
    )
    np.testing.assert_array_equal(timed.coef_, plain.coef_)
    assert sum(len(stage) == 5 for stage in timed.solver.stages_) >= timed.n_iter_  # an all-reduce in every stage


@pytest.mark.parametrize(
    "machine",
    [
        dm.ODMClassifier(strategy=TimedDiODM(), n_levels=2, stop_level=2, random_state=0),
        dm.LinearODMClassifier(lam=10.0, solver=TimedDSVRG(n_partitions=5), random_state=0),
    ],
)
def test_speed_up_grows_with_the_cores(machine, moons):
    X, y = moons
    found = speed_up(machine.fit(X, y), Split(X, y, X, y))
    replayed = [found[f"replayed_{cores}"] for cores in replay.REPLAYED]
    assert replayed[0] == 1 <= replayed[1] <= 2 and replayed[-1] <= 32 and replayed == sorted(replayed)
    assert found["replay_error"] == pytest.approx(found["measured_2"] / found["replayed_2"])
    assert 0 < found["between_tasks"] < 1 and found["measured_2"] > 0 and found["one_core"] > 0
    assert replayed[-1] <= 1 / found["between_tasks"]  # Amdahl
