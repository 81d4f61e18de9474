"""One partition: history entry by entry."""

import numpy as np
from helpers import ODM, blobs, counted, make_problem
from trainings import RBF, Recorder, training

from dimargin.strategies import DivideAndConquer, Exact, TreeShape


def test_history_has_an_entry_a_check_with_counts_of_its_own(monkeypatch):
    X, labels = blobs(1500, seed=2)
    problem = make_problem(X, labels, ODM, RBF)
    recorder = Recorder()
    with counted(monkeypatch) as counts:
        outcome = Exact().train(training(problem, TreeShape(), tol=1e-3, progress=recorder))
    assert recorder.begun == [(0, None)]
    assert {(entry["level"], entry["partitions"]) for entry in outcome.history} == {(0, 1)}
    assert sum(entry["kernel_evaluations"] for entry in outcome.history) == sum(counts)
    assert outcome.history[0]["relative_gap"] == 1.0  # at zero the dual objective is zero
    assert outcome.history[-1]["relative_gap"] == outcome.objectives.worst_gap <= 1e-3
    assert len(outcome.history) > 3
    np.testing.assert_array_equal(recorder.models[0].coefficients, outcome.model.coefficients)


def test_the_memory_of_clusters_counts_where_there_may_be_some():
    shape = TreeShape(branching=123, n_levels=1)  # 8,192 rows a shard
    needed = DivideAndConquer().memory_needed(10**6, shape)
    assert needed > 10**7 and Exact(across_shards=True).memory_needed(10**6, TreeShape()) == needed
    assert Exact().memory_needed(10**6, TreeShape()) == 0
