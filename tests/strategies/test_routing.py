"""A row is answered by the machine of its cluster, which is a machine of its own."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import HINGE, KERNELS, LOSSES, blobs, counted, fit, make_problem, name
from numpy.testing import assert_allclose, assert_array_equal
from test_dc import LEVEL_2
from test_diodm import training

from dimargin import DivideAndConquer
from dimargin.kernels import KernelMatrix
from dimargin.losses import ODMLoss
from dimargin.solvers import BlockCoordinateDescent, Limits, solve


@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_unseen_rows_meet_a_machine_trained_on_their_cluster_alone(loss, kernel, convert):
    X, labels = blobs(900, seed=4, n_outputs=2)
    X, fresh, labels = convert(X[:600]), convert(X[600:]), labels[:, :600]
    problem = make_problem(X, labels, loss, kernel)
    outcome = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-9))
    matrix = KernelMatrix(problem.kernel.transform, X, queries=fresh)
    values = outcome.router.decision_values(matrix, fresh, labels * outcome.dual)
    clusters = outcome.router.rule.assign(fresh)
    for c in range(4):
        rows, asked = np.flatnonzero(outcome.router.clusters == c), np.flatnonzero(clusters == c)
        # a problem of its own on these rows; the weight of a row in the ODM loss is lam / W
        own = ODMLoss(loss.lam * len(rows) / 600, loss.upsilon, loss.theta) if isinstance(loss, ODMLoss) else loss
        part = make_problem(X[rows], labels[:, rows], own, kernel)
        alone = solve(part, BlockCoordinateDescent(), None, Limits(tol=1e-9))
        cross = KernelMatrix(part.kernel.transform, X[rows], queries=fresh[asked])
        expected = cross.multiply(np.arange(len(rows)), labels[:, rows] * alone.dual)
        diagonal = cross.block(np.arange(len(asked)), np.arange(len(rows)))
        # two solutions of relative gap 1e-9 differ by |w - w'|^2 <= 8e-9 P, and |phi(x)|^2 bounds the rest
        size = np.sqrt(max(1.0, np.abs(diagonal).max()) * 8e-9 * alone.objectives.primal.max())
        assert_allclose(values[:, asked], expected, rtol=0, atol=size + 2e-5 * np.abs(expected).max())
    assert len(set(clusters)) == 4


def test_machines_have_intercepts_of_their_own():
    X, labels = blobs(900, seed=4, n_outputs=2)
    problem = replace(make_problem(X[:600], labels[:, :600], HINGE, KERNELS[2]), intercept=True)
    outcome = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-9))
    router = outcome.model.router
    matrix = KernelMatrix(problem.kernel.transform, X[:600], queries=X[600:])
    values = router.decision_values(matrix, X[600:], labels[:, :600] * outcome.dual)
    clusters = router.rule.assign(X[600:])
    for c in range(4):
        rows, asked = np.flatnonzero(router.clusters == c), np.flatnonzero(clusters == c)
        alone = fit(problem.restrict(rows, 600.0), tol=1e-9)
        expected = matrix.multiply(rows, labels[:, rows] * alone.dual, asked) + alone.objectives.intercept[:, None]
        assert_allclose(values[:, asked], expected, atol=1e-4 * np.abs(expected).max())
    assert np.ptp(router.intercepts, axis=0).min() > 0.01


def test_a_row_costs_the_sample_and_its_own_cluster(monkeypatch):
    X, labels = blobs(900, seed=4)
    problem = make_problem(X[:600], labels[:, :600], HINGE, KERNELS[2])
    outcome = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-3))
    support = np.flatnonzero(outcome.dual.any(axis=0))
    router, signed = outcome.router.take(support), (labels[:, :600] * outcome.dual)[:, support]
    matrix = KernelMatrix(problem.kernel.transform, X[support], queries=X[600:])
    with counted(monkeypatch) as counts:
        router.decision_values(matrix, X[600:], signed)
    own = np.bincount(router.clusters)[router.rule.assign(X[600:])].sum()
    assert sum(counts) == 300 * 100 + own
    assert own < 300 * len(support) / 2


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_values_do_not_depend_on_batches(convert):
    X, labels = blobs(900, seed=4, n_outputs=3)
    known, fresh = convert(X[:600]), convert(X[600:])
    problem = make_problem(known, labels[:, :600], HINGE, KERNELS[2])
    outcome = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-3))

    def values(rows):
        matrix = KernelMatrix(problem.kernel.transform, known, queries=rows)
        return outcome.router.decision_values(matrix, rows, labels[:, :600] * outcome.dual)

    whole = values(fresh)
    assert_array_equal(np.concatenate([values(fresh[i : i + 7]) for i in range(0, 300, 7)], axis=1), whole)
    order = np.random.default_rng(0).permutation(300)
    assert_array_equal(values(fresh[order]), whole[:, order])


def test_a_cluster_without_vectors_answers_zero():
    X, labels = blobs(600, seed=4)
    problem = make_problem(X, labels, HINGE, KERNELS[2])
    outcome = DivideAndConquer(sample_size=100).train(training(problem, LEVEL_2, tol=1e-3))
    kept = np.flatnonzero(outcome.router.clusters != 1)
    router = outcome.router.take(kept)
    matrix = KernelMatrix(problem.kernel.transform, X[kept], queries=X)
    values = router.decision_values(matrix, X, (labels * outcome.dual)[:, kept])
    assert_array_equal(values[0] == 0, outcome.router.clusters == 1)
