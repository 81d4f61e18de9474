"""DC-SVM and DC-ODM: Lemma 1 level by level, and the exact solve at the end."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import (
    HINGE,
    KERNELS,
    LOSSES,
    ODM,
    blobs,
    certificate,
    clusters_of,
    dual_of,
    gram,
    make_problem,
    name,
    routed,
)
from numpy.testing import assert_allclose, assert_array_equal
from trainings import LEVEL_2, RBF, TREE, Recorder, training

from dimargin import DivideAndConquer
from dimargin.strategies import Exact, TreeShape
from dimargin.strategies import dc as dc_module
from dimargin.strategies import levels as levels_module

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)


def weighted(loss=HINGE, n=900, seed=7, kernel=RBF, n_outputs=1):
    X, labels = blobs(n, seed=seed, n_outputs=n_outputs)
    return make_problem(X, labels, loss, kernel, np.random.default_rng(seed).uniform(0.5, 3.0, n))


@every_loss
@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_lemma_1_a_level_solves_the_problem_with_the_block_kernel(loss, kernel):
    problem = weighted(loss, 600, kernel=kernel, n_outputs=2)
    outcome = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-9))
    assert outcome.scope == "partitioned"
    clusters, dual = clusters_of(problem, outcome.model), dual_of(problem, outcome.model)
    assert len(np.unique(clusters)) == 4
    K = gram(problem) * (clusters[:, None] == clusters)
    margins = problem.labels * ((problem.labels * dual) @ K)
    # the certificate of the whole problem on that kernel: losses and conjugates with global
    # coefficients
    block = problem.objectives(dual, margins)
    assert block.worst_gap <= 1e-8
    assert_allclose(outcome.objectives.primal, block.primal, rtol=1e-7)
    assert_allclose(outcome.objectives.dual, block.dual, rtol=1e-7)


@pytest.mark.parametrize("prediction", ["early", "naive", "bcm"])
def test_clusters_of_one_class_predict_it_with_an_intercept_too(prediction):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)) + centre for centre in ([0, 0], [9, 0], [0, 9], [9, 9])])
    labels = np.repeat([1.0, 1.0, -1.0, -1.0], 60)[None]
    problem = replace(make_problem(X, labels, HINGE, RBF), intercept=True)
    outcome = DivideAndConquer(prediction=prediction).train(training(problem, LEVEL_2))
    if prediction == "early":
        values = routed(problem, outcome.model, X)
        assert np.all(values * labels > 0)
    whole = DivideAndConquer(prediction=prediction).train(training(problem, TREE))
    assert whole.status == "converged" and whole.scope == "global" and len(whole.model.indices)


def test_the_concatenation_is_closer_to_the_optimum_than_with_local_coefficients():
    # ODM on 64 clusters: a local solution with local coefficients is what DiODM would rescale
    problem = weighted(ODM, 1200)
    exact = Exact().train(training(problem, TreeShape()))

    def suboptimality(dual):
        return (exact.objectives.dual[0] - certificate(problem, dual)[1][0]) / exact.objectives.dual[0]

    outcome = DivideAndConquer().train(training(problem, replace(LEVEL_2, branching=4)))
    dual, clusters = dual_of(problem, outcome.model), clusters_of(problem, outcome.model)
    local = np.zeros_like(dual)
    for c in range(16):
        rows = np.flatnonzero(clusters == c)
        mass = float(problem.weights[rows].sum())
        part = replace(problem.restrict(rows, mass), total=mass)
        local[:, rows] = dual_of(part, Exact().train(training(part, TreeShape())).model)
    assert 0 < suboptimality(dual) < 0.5
    assert suboptimality(local) > 20 * suboptimality(dual)


def test_levels_above_the_last_are_loose_and_their_objectives_sums(monkeypatch):
    problem = weighted()
    solved = {}
    original = levels_module.solve_level

    def recording(plan, level, parts, tol):
        solved[level] = tol, original(plan, level, parts, tol)
        return solved[level][1]

    monkeypatch.setattr(levels_module, "solve_level", recording)
    DivideAndConquer(level_tol=0.05).train(training(problem, replace(TREE, stop_level=1), tol=1e-3))
    assert {level: tol for level, (tol, _) in solved.items()} == {2: 0.05, 1: 1e-3}
    DivideAndConquer(level_tol=0.05).train(training(problem, LEVEL_2, tol=1e-3))
    assert solved[2][0] == 1e-3
    outcome = DivideAndConquer(level_tol=0.05).train(training(problem, replace(TREE, stop_level=1), tol=1e-3))
    for entry in outcome.history:
        results = [part.result for part in solved[entry["level"]][1].results]
        assert entry["objective"][0] == pytest.approx(sum(r.objectives.primal[0] for r in results))
        assert entry["relative_gap"] == max(r.objectives.worst_gap for r in results)
    DivideAndConquer(level_tol=1e-9).train(training(problem, TREE, tol=0.5))
    assert solved[2][0] == 0.5  # no tighter than what is asked for


def test_a_level_starts_from_the_coefficients_of_the_one_before(monkeypatch):
    problem, starts, recorder = weighted(), {}, Recorder()
    original = levels_module.solve_level

    def recording(plan, level, parts, tol):
        starts[level] = np.zeros(problem.labels.shape)
        for part in parts.collect():
            assert part.problem.mass == problem.total
            starts[level][:, part.indices] = part.dual
        return original(plan, level, parts, tol)

    monkeypatch.setattr(levels_module, "solve_level", recording)
    previous = np.abs(np.random.default_rng(0).normal(size=problem.labels.shape))
    DivideAndConquer().train(training(problem, TREE, tol=1e-3, progress=recorder, start=previous))
    assert_array_equal(starts[2], previous)
    assert_array_equal(starts[1], dual_of(problem, recorder.models[0]))  # neither lost nor rescaled


def separable():
    """Few support vectors."""
    X, _ = blobs(1500, seed=3, n_features=2)
    return make_problem(X, np.sign(X[:, :1].T + 1e-9), HINGE, RBF)


def test_below_the_first_level_samples_are_support_vectors(monkeypatch):
    problem, drawn, recorder = separable(), [], Recorder()
    original = dc_module.cluster_rows

    def recording(*arguments, **options):
        drawn.append(options["sample"])
        return original(*arguments, **options)

    monkeypatch.setattr(dc_module, "cluster_rows", recording)
    strategy = DivideAndConquer(sample_size=100)
    strategy.train(training(problem, TREE, tol=1e-3, progress=recorder))
    first, second = drawn
    assert first is None  # of all rows
    support = recorder.models[0].indices
    assert 100 < len(support) < 750
    assert_array_equal(second.indices, support[:100])  # in the order of the keys, which is random


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
    clusters = clusters_of(problem, outcome.model)
    assert sorted(len(set(labels[0, clusters == c])) for c in range(4)) == [1, 1, 1, 2]
    (values,) = routed(problem, outcome.model, X)
    # where all rows of a cluster are of one class, its machine says so without an intercept
    assert np.all(values[:180] * labels[0, :180] > 0)


def test_a_cap_gives_more_and_smaller_clusters():
    problem = weighted()
    outcome = DivideAndConquer(max_cluster_size=100, sample_size=80).train(training(problem, LEVEL_2, tol=1e-3))
    sizes = np.bincount(clusters_of(problem, outcome.model))
    assert len(sizes) == outcome.history[0]["partitions"] > 4 and sizes.max() <= 100


def test_naive_needs_no_router():
    outcome = DivideAndConquer(prediction="naive").train(training(weighted(), LEVEL_2, tol=1e-3))
    assert outcome.model.router is None and outcome.scope == "partitioned"
    early = DivideAndConquer().train(training(weighted(), LEVEL_2, tol=1e-3))
    assert_array_equal(outcome.model.coefficients, early.model.coefficients)
