"""A row is answered by the machine of its cluster, which is a machine of its own."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import HINGE, KERNELS, LOSSES, blobs, clusters_of, counted, fit, make_problem, name, routed
from numpy.testing import assert_allclose, assert_array_equal
from trainings import LEVEL_2, training

from dimargin import DivideAndConquer
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.losses import ODMLoss
from dimargin.solvers import BlockCoordinateDescent, Limits, solve


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_unseen_rows_meet_a_machine_trained_on_their_cluster_alone(loss, kernel, convert):
    X, labels = blobs(900, seed=4, n_outputs=2)
    X, fresh, labels = convert(X[:600]), convert(X[600:]), labels[:, :600]
    problem = make_problem(X, labels, loss, kernel)
    model = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-9)).model
    values, clusters, known = (
        routed(problem, model, fresh),
        model.router.rule.assign(fresh),
        clusters_of(problem, model),
    )
    for c in range(4):
        rows, asked = np.flatnonzero(known == c), np.flatnonzero(clusters == c)
        # a problem of its own on these rows; the weight of a row in the ODM loss is lam / W
        own = ODMLoss(loss.lam * len(rows) / 600, loss.upsilon, loss.theta) if isinstance(loss, ODMLoss) else loss
        part = make_problem(X[rows], labels[:, rows], own, kernel)
        alone = solve(part, BlockCoordinateDescent(), None, Limits(tol=1e-9))
        cross = KernelMatrix(part.kernel.transform, X[rows], queries=fresh[asked])
        expected = cross.multiply(np.arange(len(rows)), labels[:, rows] * alone.dual)
        diagonal = cross.block(np.arange(len(asked)), np.arange(len(rows)))
        # two solutions of relative gap 1e-9 differ by |w - w'|^2 <= 8e-9 P, and |phi(x)|^2 bounds
        # the rest
        size = np.sqrt(max(1.0, np.abs(diagonal).max()) * 8e-9 * alone.objectives.primal.max())
        assert_allclose(values[:, asked], expected, rtol=0, atol=size + 2e-5 * np.abs(expected).max())
    assert len(set(clusters)) == 4


def test_machines_have_no_intercept_and_those_of_older_models_their_own():
    X, labels = blobs(900, seed=4, n_outputs=2)
    problem = replace(make_problem(X[:600], labels[:, :600], HINGE, KERNELS[2]), intercept=True)
    model = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-9)).model
    values, clusters = routed(problem, model, X[600:]), model.router.rule.assign(X[600:])
    matrix, known = KernelMatrix(problem.kernel.transform, X[:600], queries=X[600:]), clusters_of(problem, model)
    for c in range(4):
        rows, asked = np.flatnonzero(known == c), np.flatnonzero(clusters == c)
        alone = fit(replace(problem.restrict(rows, 600.0), intercept=False), tol=1e-9)
        expected = matrix.multiply(rows, labels[:, rows] * alone.dual, asked)
        assert_allclose(values[:, asked], expected, atol=1e-4 * np.abs(expected).max())
    own = np.random.default_rng(0).normal(size=(4, 2))  # Older model files have such intercepts.
    older = replace(model, router=replace(model.router, intercepts=own))
    assert_allclose(routed(problem, older, X[600:]), values + own[clusters].T)


def test_a_row_costs_the_sample_and_its_own_cluster(monkeypatch):
    X, labels = blobs(900, seed=4)
    problem = make_problem(X[:600], labels[:, :600], HINGE, KERNELS[2])
    model = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-3)).model
    with counted(monkeypatch) as counts:
        routed(problem, model, X[600:])
    own = np.bincount(model.router.clusters)[model.router.rule.assign(X[600:])].sum()
    assert sum(counts) == 300 * 100 + own
    assert own < 300 * len(model.indices) / 2


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_values_do_not_depend_on_batches(convert):
    X, labels = blobs(900, seed=4, n_outputs=3)
    known, fresh = convert(X[:600]), convert(X[600:])
    problem = make_problem(known, labels[:, :600], HINGE, KERNELS[2])
    model = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-3)).model
    whole = routed(problem, model, fresh)
    batches = [routed(problem, model, fresh[i : i + 7]) for i in range(0, 300, 7)]
    assert_array_equal(np.concatenate(batches, axis=1), whole)
    order = np.random.default_rng(0).permutation(300)
    assert_array_equal(routed(problem, model, fresh[order]), whole[:, order])


def test_a_cluster_without_vectors_answers_zero():
    X, labels = blobs(600, seed=4)
    problem = make_problem(X, labels, HINGE, KERNELS[2])
    model = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-3)).model
    kept = np.flatnonzero(model.router.clusters != 1)
    matrix = KernelMatrix(problem.kernel.transform, model.vectors[kept], queries=X)
    values = model.router.take(kept).decision_values(matrix, X, model.coefficients[:, kept])
    assert_array_equal(values[0] == 0, clusters_of(problem, model) == 1)
