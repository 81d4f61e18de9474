"""What every strategy must do that ends with the whole problem; a new one needs an entry in `WAYS`."""

import time
from dataclasses import replace

import numpy as np
import pytest
from helpers import HINGE, ODM, SQUARED_HINGE, blobs, certificate, counted, dual_of, fit, make_problem
from numpy.testing import assert_allclose, assert_array_equal
from trainings import RBF, TREE, Recorder, training

from dimargin import Cascade, DiODM, DiP, DivideAndConquer, Exact, Landmark
from dimargin.strategies import TreeShape

WAYS = {
    "exact": (Exact(), TreeShape(), [(0, None)]),
    "across shards": (Exact(across_shards=True, working_set=300), TreeShape(), [(0, None)]),
    "diodm": (DiODM(early_stop=False), replace(TREE, n_landmarks=5), [(2, 4), (1, 2), (0, None)]),
    "dc": (DivideAndConquer(), TREE, [(2, 4), (1, 2), (0, None)]),
    "cascade": (Cascade(), TREE, [(2, 4), (1, 2), (0, None)]),
    "cascade, rounds": (Cascade(rounds=20), TREE, [(2, 4), (1, 2), (0, None)]),
    "cascade, global": (Cascade(rounds=20, coefficients="global"), TREE, [(2, 4), (1, 2), (0, None)]),
    "dip": (DiP(n_clusters=20), TREE, [(2, 4), (1, 2), (0, None)]),
    "dip, rounds": (DiP(rounds=20, relevance="sv"), TREE, [(2, 4), (1, 2), (0, None)]),
    "landmark, polished": (Landmark(polish=True), TreeShape(n_landmarks=60), [(2, None), (1, None), (0, None)]),
}
TREES = [way for way, (_, shape, _) in WAYS.items() if shape.n_levels]
every_way = pytest.mark.parametrize("way", WAYS)


def problem_of(loss, intercept=False, n=1300, n_outputs=2):
    X, labels = blobs(n, seed=7, n_outputs=n_outputs)
    weights = np.random.default_rng(7).uniform(0.5, 3.0, n)
    return make_problem(X, labels, loss, RBF, weights, intercept=intercept)


@every_way
@pytest.mark.parametrize(
    ("loss", "intercept"), [(ODM, False), (ODM, True), (HINGE, False), (HINGE, True), (SQUARED_HINGE, True)]
)
@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_it_ends_at_the_optimum(way, loss, intercept, tol):
    strategy, shape, _ = WAYS[way]
    if strategy.needs_smooth_loss and loss is HINGE:
        pytest.skip("the strategy refuses the hinge")
    problem = problem_of(loss, intercept)
    outcome, exact = strategy.train(training(problem, shape, tol=tol)), fit(problem, tol=1e-8)
    assert (outcome.scope, outcome.status, outcome.model.router) == ("global", "converged", None)
    assert_allclose(outcome.objectives.primal, exact.objectives.primal, rtol=2 * tol)
    assert_allclose(outcome.model.intercept, exact.objectives.intercept, atol=0.05)
    primal, _, gap = certificate(problem, dual_of(problem, outcome.model))
    # Below 1e-4 kernel values are float64. Across shards, errors by float32 are included, as in the gap.
    own = 1e-7 if tol < 1e-4 else 1e-5 + outcome.objectives.worst_gap if way == "across shards" else 1e-6
    assert_allclose(outcome.objectives.primal, primal, rtol=own)
    assert (outcome.objectives.relative_gap >= gap - 0.05 * tol).all() and gap.max() <= 1.05 * tol


@every_way
def test_it_reports_each_level_once_and_counts_every_kernel_value(way, monkeypatch):
    strategy, shape, levels = WAYS[way]
    problem, recorder = problem_of(SQUARED_HINGE, n=3000 if shape.n_levels is None else 1300), Recorder()
    with counted(monkeypatch) as counts:
        outcome = strategy.train(training(problem, shape, tol=1e-3, progress=recorder))
    assert recorder.begun == levels and len(recorder.models) == len(levels)
    assert_array_equal(recorder.models[-1].coefficients, outcome.model.coefficients)
    history = outcome.history
    assert outcome.kernel_evaluations == sum(entry["kernel_evaluations"] for entry in history) == sum(counts)
    assert history[-1]["relative_gap"] == outcome.objectives.worst_gap <= 1e-3
    assert all(entry["seconds"] > entry.get("clustering_seconds", 0.0) >= 0 for entry in history)
    if way == "exact":
        assert history[0]["relative_gap"] == 1.0  # At zero the dual objective is zero.
    if way == "landmark, polished":
        first = next(entry for entry in history if entry["level"] == 0)
        assert first["relative_gap"] < 0.99  # From zero it would be one.
    if shape.n_levels:
        assert [entry["partitions"] for entry in history[:3]] == [4, 2, 1]
        assert max(entry["relative_gap"] for entry in history[:2]) <= 0.1
        assert outcome.passes == sum(entry["passes"] for entry in history)


@every_way
def test_threads_do_not_change_a_bit(way):
    strategy, shape, _ = WAYS[way]
    problem = problem_of(SQUARED_HINGE)
    one, two = (strategy.train(training(problem, shape, tol=1e-3, n_threads=k)) for k in (1, 2))
    assert_array_equal(one.model.indices, two.model.indices)
    assert_array_equal(one.model.coefficients, two.model.coefficients)
    assert one.kernel_evaluations == two.kernel_evaluations


@pytest.mark.parametrize("way", TREES)
def test_a_deadline_ends_it_at_a_level(way):
    strategy, shape, _ = WAYS[way]
    plan = training(problem_of(HINGE), shape)
    outcome = strategy.train(replace(plan, limits=replace(plan.limits, deadline=time.perf_counter())))
    assert (outcome.status, outcome.scope) == ("max_time", "partitioned")
    assert [entry["level"] for entry in outcome.history] == [2]


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (Cascade(rounds=0), "Cascade: rounds must be None or at least 1, got 0"),
        (Cascade(coefficients="local"), "Cascade: coefficients must be 'represented' or 'global', got 'local'"),
        (Cascade(level_tol=-1), "Cascade: level_tol must be a number above 0, got -1"),
        (DiP(relevance="all"), "DiP: relevance must be 'margin' or 'sv', got 'all'"),
        (DiP(n_clusters=0), "DiP: n_clusters must be a number above 0, got 0"),
        (DiP(sample_size=0), "DiP: sample_size must be None or at least 1, got 0"),
        (DiP(rounds=0), "DiP: rounds must be None or at least 1, got 0"),
        (DivideAndConquer(prediction="late"), "DivideAndConquer: prediction must be 'early' or 'naive' or 'bcm'"),
        (DivideAndConquer(clustering_kernel="rbf"), "clustering_kernel must be 'wide' or 'same', got 'rbf'"),
        (DivideAndConquer(sample_size=0), "sample_size must be .*at least 1, got 0"),
        (DivideAndConquer(max_cluster_size=0), "max_cluster_size must be None or at least 1, got 0"),
        (DivideAndConquer(level_tol=0.0), "level_tol must be a number above 0, got 0.0"),
        (Exact(across_shards="yes"), "across_shards must be None, True or False, got 'yes'"),
        (Exact(working_set=1), "working_set must be None or a whole number of at least 2, got 1"),
        (Landmark("best"), "landmark_choice must be 'uniform' or 'greedy' or 'random', got 'best'"),
    ],
)
def test_options_out_of_range(strategy, message):
    with pytest.raises(ValueError, match=message):
        strategy.validate()
