"""DC-SVM and DC-ODM: Lemma 1 level by level, and the exact solve at the end."""

import time
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from helpers import HINGE, KERNELS, LOSSES, ODM, SQUARED_HINGE, blobs, certificate, counted, gram, make_problem, name
from numpy.testing import assert_allclose, assert_array_equal
from test_diodm import RBF, Recorder, training

from dimargin import DivideAndConquer
from dimargin.solution import Solution
from dimargin.strategies import Exact, TreeShape
from dimargin.strategies import dc as dc_module
from dimargin.strategies import levels as levels_module

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)
TREE = TreeShape(branching=2, n_levels=2)
LEVEL_2 = replace(TREE, stop_level=2)


def weighted(loss=HINGE, n=900, seed=7, kernel=RBF, n_outputs=1):
    X, labels = blobs(n, seed=seed, n_outputs=n_outputs)
    return make_problem(X, labels, loss, kernel, np.random.default_rng(seed).uniform(0.5, 3.0, n))


@every_loss
def test_level_zero_is_the_exact_solution(loss):
    problem = weighted(loss, 1300, n_outputs=2)
    outcome = DivideAndConquer().train(training(problem, TREE))
    exact = Exact().train(training(problem, TreeShape()))
    assert outcome.scope == "global" and outcome.status == "converged" and outcome.router is None
    assert_allclose(outcome.objectives.primal, exact.objectives.primal, rtol=2e-6)
    primal, _, gap = certificate(problem, outcome.dual)
    assert_allclose(outcome.objectives.primal, primal, rtol=1e-7)
    assert gap.max() <= 1.1e-6


@every_loss
@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_lemma_1_a_level_solves_the_problem_with_the_block_kernel(loss, kernel):
    problem = weighted(loss, 600, kernel=kernel, n_outputs=2)
    outcome = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-9))
    assert outcome.scope == "partitioned"
    clusters = outcome.router.clusters
    assert len(np.unique(clusters)) == 4
    K = gram(problem) * (clusters[:, None] == clusters)
    margins = problem.labels * ((problem.labels * outcome.dual) @ K)
    # the certificate of the whole problem on that kernel: losses and conjugates with global coefficients
    block = problem.objectives(outcome.dual, margins)
    assert block.worst_gap <= 1e-8
    assert_allclose(outcome.objectives.primal, block.primal, rtol=1e-7)
    assert_allclose(outcome.objectives.dual, block.dual, rtol=1e-7)


@pytest.mark.parametrize("loss", [HINGE, SQUARED_HINGE], ids=name)
def test_with_an_intercept_level_zero_is_exact_too(loss):
    problem = replace(weighted(loss, 1300, n_outputs=2), intercept=True)
    outcome = DivideAndConquer().train(training(problem, TREE, tol=1e-5))
    exact = Exact().train(training(problem, TreeShape(), tol=1e-5))
    assert outcome.status == "converged"
    assert_allclose(outcome.objectives.primal, exact.objectives.primal, rtol=2e-5)
    assert_allclose(outcome.model.intercept, exact.model.intercept, atol=0.05)


@pytest.mark.parametrize("prediction", ["early", "naive", "bcm"])
def test_with_an_intercept_clusters_of_one_class_have_no_support_vector(prediction):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)) + centre for centre in ([0, 0], [9, 0], [0, 9], [9, 9])])
    labels = np.repeat([1.0, 1.0, -1.0, -1.0], 60)[None]
    problem = replace(make_problem(X, labels, HINGE, RBF), intercept=True)
    outcome = DivideAndConquer(prediction=prediction).train(training(problem, LEVEL_2))
    assert not outcome.dual.any()
    if prediction == "early":
        values = outcome.model.router.decision_values(problem.kernel, X, labels * outcome.dual)
        assert np.all(values * labels > 0)
    whole = DivideAndConquer(prediction=prediction).train(training(problem, TREE))
    assert whole.status == "converged" and whole.scope == "global" and whole.dual.any()


def test_the_concatenation_is_closer_to_the_optimum_than_with_local_coefficients():
    # ODM on 64 clusters: a local solution with local coefficients is what DiODM would rescale
    problem = weighted(ODM, 1200)
    exact = Exact().train(training(problem, TreeShape()))

    def suboptimality(dual):
        return (exact.objectives.dual[0] - certificate(problem, dual)[1][0]) / exact.objectives.dual[0]

    outcome = DivideAndConquer().train(training(problem, replace(LEVEL_2, branching=4)))
    local = np.zeros_like(outcome.dual)
    for c in range(16):
        rows = np.flatnonzero(outcome.router.clusters == c)
        part = problem.restrict(rows, float(problem.weights[rows].sum()))
        local[:, rows] = Exact().train(training(part, TreeShape())).dual
    assert 0 < suboptimality(outcome.dual) < 0.5
    assert suboptimality(local) > 20 * suboptimality(outcome.dual)


def test_history_is_complete_and_counts_every_kernel_value(monkeypatch):
    problem, recorder = weighted(), Recorder()
    with counted(monkeypatch) as counts:
        outcome = DivideAndConquer().train(training(problem, TREE, tol=1e-3, progress=recorder))
    assert [(entry["level"], entry["partitions"]) for entry in outcome.history] == [(2, 4), (1, 2), (0, 1)]
    assert recorder.begun == [(2, 4), (1, 2), (0, None)]
    assert sum(entry["kernel_evaluations"] for entry in outcome.history) == sum(counts)
    assert all(entry["seconds"] > entry.get("clustering_seconds", 0.0) > 0 for entry in outcome.history[:2])
    assert outcome.history[-1]["seconds"] > 0
    assert outcome.history[-1]["relative_gap"] == outcome.objectives.worst_gap <= 1e-3
    assert outcome.passes == sum(entry["passes"] for entry in outcome.history)
    assert_array_equal(recorder.duals[-1], outcome.dual)


def test_levels_above_the_last_are_loose_and_their_objectives_sums(monkeypatch):
    problem = weighted()
    solved = {}
    original = levels_module.solve_level

    def recording(plan, level, nodes, tol):
        solved[level] = tol, original(plan, level, nodes, tol)
        return solved[level][1]

    monkeypatch.setattr(levels_module, "solve_level", recording)
    DivideAndConquer(level_tol=0.05).train(training(problem, replace(TREE, stop_level=1), tol=1e-3))
    assert {level: tol for level, (tol, _) in solved.items()} == {2: 0.05, 1: 1e-3}
    DivideAndConquer(level_tol=0.05).train(training(problem, LEVEL_2, tol=1e-3))
    assert solved[2][0] == 1e-3
    outcome = DivideAndConquer(level_tol=0.05).train(training(problem, replace(TREE, stop_level=1), tol=1e-3))
    for entry in outcome.history:
        results = solved[entry["level"]][1]
        assert entry["objective"][0] == pytest.approx(sum(r.objectives.primal[0] for r in results))
        assert entry["relative_gap"] == max(r.objectives.worst_gap for r in results)
    DivideAndConquer(level_tol=1e-9).train(training(problem, TREE, tol=0.5))
    assert solved[2][0] == 0.5  # no tighter than what is asked for


def test_a_level_starts_from_the_coefficients_of_the_one_before(monkeypatch):
    problem, starts, recorder = weighted(), {}, Recorder()
    original = levels_module.solve_level

    def recording(plan, level, nodes, tol):
        starts[level] = np.zeros(problem.labels.shape)
        for node in nodes:
            assert node.mass == problem.total
            starts[level][:, node.rows] = node.start
        return original(plan, level, nodes, tol)

    monkeypatch.setattr(levels_module, "solve_level", recording)
    previous = np.abs(np.random.default_rng(0).normal(size=problem.labels.shape))
    DivideAndConquer().train(training(problem, TREE, tol=1e-3, progress=recorder, start=previous))
    assert_array_equal(starts[2], previous)
    assert_array_equal(starts[1], recorder.duals[0])  # neither lost nor rescaled


def test_below_the_first_level_samples_are_support_vectors(monkeypatch):
    problem, drawn, recorder = separable(), [], Recorder()
    original = dc_module.cluster_rows

    def recording(*arguments, **options):
        drawn.append(options["candidates"])
        return original(*arguments, **options)

    monkeypatch.setattr(dc_module, "cluster_rows", recording)
    DivideAndConquer().train(training(problem, TREE, tol=1e-3, progress=recorder))
    assert_array_equal(drawn[0], np.arange(1500))
    assert_array_equal(drawn[1], np.flatnonzero(recorder.duals[0].any(axis=0)))
    assert len(drawn[1]) < 750


@pytest.fixture
def last_solves(monkeypatch):
    """Problem, start, limits and solution of steps 6 and 7, as they are made."""
    solves, original_solve, original_refined = [], dc_module.solve, levels_module.refined

    def recording(problem, solver, start, limits) -> Solution:
        solves.append((problem, start.copy(), limits, original_solve(problem, solver, start, limits)))
        return solves[-1][-1]

    def refined(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(levels_module, "solve", recording)
            return original_refined(*arguments)

    monkeypatch.setattr(dc_module, "solve", recording)
    monkeypatch.setattr(levels_module, "refined", refined)
    return solves


def separable():
    """Few support vectors."""
    X, _ = blobs(1500, seed=3, n_features=2)
    return make_problem(X, np.sign(X[:, :1].T + 1e-9), HINGE, RBF)


def test_refinement_solves_the_support_vectors_alone(last_solves):
    problem, recorder = separable(), Recorder()
    DivideAndConquer().train(training(problem, TREE, tol=1e-3, progress=recorder))
    before = recorder.duals[1]
    support = np.flatnonzero(before.any(axis=0))
    (part, start, _, solution), (whole, start_of_whole, _, _) = last_solves
    assert (part.n_rows, part.mass) == (len(support), problem.total)
    assert_array_equal(start, before[:, support])
    assert whole is problem
    assert_array_equal(start_of_whole[:, support], solution.dual)
    assert np.count_nonzero(start_of_whole.any(axis=0)) <= len(support)


def test_no_refinement_where_most_rows_are_support_vectors(last_solves):
    X, labels = blobs(1500, seed=3, n_features=2)
    problem, recorder = make_problem(X, labels, ODM, RBF), Recorder()
    DivideAndConquer().train(training(problem, TREE, tol=1e-3, progress=recorder))
    ((whole, start, _, _),) = last_solves
    assert whole is problem
    assert_array_equal(start, recorder.duals[1])


@pytest.mark.parametrize("n", [2, 3, 7])
@every_loss
def test_fewer_rows_than_clusters(loss, n):
    problem = weighted(loss, n)
    for shape in (replace(TREE, branching=4), replace(LEVEL_2, branching=4)):
        outcome = DivideAndConquer().train(training(problem, shape))
        assert outcome.status == "converged"
        assert outcome.history[0]["partitions"] == n
    assert outcome.scope == "partitioned"


@every_loss
def test_clusters_of_one_class(loss):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)) + centre for centre in ([0, 0], [9, 0], [0, 9], [9, 9])])
    labels = np.repeat([1.0, 1.0, -1.0, -1.0], 60)[None]
    labels[0, 185] = 1.0  # in the last cluster only
    problem = make_problem(X, labels, loss, RBF)
    outcome = DivideAndConquer().train(training(problem, LEVEL_2))
    assert sorted(len(set(labels[0, outcome.router.clusters == c])) for c in range(4)) == [1, 1, 1, 2]
    values = outcome.router.decision_values(problem.kernel, X, labels * outcome.dual)[0]
    # where all rows of a cluster are of one class, its machine says so without an intercept
    assert np.all(values[:180] * labels[0, :180] > 0)


def test_a_cap_gives_more_and_smaller_clusters():
    problem = weighted()
    outcome = DivideAndConquer(max_cluster_size=100, sample_size=80).train(training(problem, LEVEL_2, tol=1e-3))
    sizes = np.bincount(outcome.router.clusters)
    assert len(sizes) == outcome.history[0]["partitions"] > 4 and sizes.max() <= 100


def test_threads_do_not_change_a_bit():
    for shape in (TREE, LEVEL_2):
        problem = weighted()
        one, two = (DivideAndConquer().train(training(problem, shape, tol=1e-3, n_threads=k)) for k in (1, 2))
        assert_array_equal(one.dual, two.dual)


def test_naive_needs_no_router():
    outcome = DivideAndConquer(prediction="naive").train(training(weighted(), LEVEL_2, tol=1e-3))
    assert outcome.router is None and outcome.scope == "partitioned"
    early = DivideAndConquer().train(training(weighted(), LEVEL_2, tol=1e-3))
    assert_array_equal(outcome.dual, early.dual)


def test_a_deadline_ends_at_a_level():
    plan = training(weighted(), TREE)
    outcome = DivideAndConquer().train(replace(plan, limits=replace(plan.limits, deadline=time.perf_counter())))
    assert (outcome.status, outcome.scope) == ("max_time", "partitioned")
    assert [entry["level"] for entry in outcome.history] == [2]
    assert outcome.router is not None


def test_refinement_leaves_time_for_the_last_pass(last_solves, monkeypatch):
    monkeypatch.setattr(levels_module, "seconds_for", lambda evaluations, history: 11.0)
    plan = training(separable(), TREE, tol=1e-3)
    deadline = time.perf_counter() + 1000
    outcome = DivideAndConquer().train(replace(plan, limits=replace(plan.limits, deadline=deadline)))
    assert [limits.deadline for _, _, limits, _ in last_solves] == [deadline - 11.0, deadline]
    assert outcome.scope == "global"


def test_an_interrupt_while_refining_gives_the_model_of_level_1(monkeypatch):
    interrupted, recorder, original = Event(), Recorder(), levels_module.refined

    def interrupting(*arguments):
        interrupted.set()
        return original(*arguments)

    monkeypatch.setattr(levels_module, "refined", interrupting)
    plan = training(separable(), TREE, tol=1e-3, progress=recorder)
    outcome = DivideAndConquer().train(replace(plan, limits=replace(plan.limits, interrupted=interrupted)))
    assert (outcome.status, outcome.reason, outcome.scope) == ("stopped", "it was interrupted", "partitioned")
    assert_array_equal(outcome.dual, recorder.duals[1])
    assert outcome.router is not None


def test_default_depth_is_that_of_diodm():
    depth = DivideAndConquer().n_levels
    assert [depth(n, TreeShape()) for n in (100, 4096 * 4 + 1)] == [1, 2]
    assert depth(10**6, TreeShape(n_levels=1)) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prediction": "late"}, "DivideAndConquer: prediction must be 'early' or 'naive' or 'bcm', got 'late'"),
        ({"clustering_kernel": "rbf"}, "clustering_kernel must be 'wide' or 'same', got 'rbf'"),
        ({"sample_size": 0}, "sample_size must be .*at least 1, got 0"),
        ({"max_cluster_size": 0}, "max_cluster_size must be None or at least 1, got 0"),
        ({"level_tol": 0.0}, "level_tol must be a number above 0, got 0.0"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        DivideAndConquer(**options).validate()
