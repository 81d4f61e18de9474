"""The Bayesian committee against its formula, member by member."""

import time
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from helpers import HINGE, LOSSES, ODM, blobs, clusters_of, counted, dual_of, fit, make_problem, name, routed
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.metrics import log_loss
from trainings import LEVEL_2, RBF, TREE, Recorder, training

from dimargin import DivideAndConquer
from dimargin.kernels.matrix import KernelMatrix
from dimargin.strategies.committee import Committee, _slope

BCM = DivideAndConquer(prediction="bcm", sample_size=100)


def trained(loss=HINGE, n_outputs=1, shape=LEVEL_2, n=600, strategy=BCM, **options):
    X, labels = blobs(900, seed=4, n_outputs=n_outputs)
    weights = np.random.default_rng(0).uniform(0.5, 2, n)
    problem = make_problem(X[:n], labels[:, :n], loss, RBF, weights)
    return X, labels, problem, strategy.train(training(problem, shape, tol=1e-3, **options))


@pytest.mark.parametrize("steeper", [1, 100])  # so steep that members claim no more than they may
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_log_odds_add_up(loss, steeper):
    X, labels, problem, outcome = trained(loss, n_outputs=2)
    model, fresh = outcome.model, X[600:]
    assert isinstance(model.router, Committee)
    committee = replace(model.router, slopes=steeper * model.router.slopes)
    share = (problem.weights * (labels[:, :600] > 0)).sum(axis=1) / problem.weights.sum()
    expected = np.empty((2, 300))
    matrix = KernelMatrix(problem.kernel.transform, model.vectors, queries=fresh)
    cross = matrix.block(np.arange(300), np.arange(len(model.indices)))
    for q in range(2):
        log_odds = -3 * np.log(share[q] / (1 - share[q]))
        for c in range(4):
            own = committee.clusters == c
            f = cross[:, own] @ model.coefficients[q, own]
            p = np.clip(expit(np.log(share[q] / (1 - share[q])) + committee.slopes[c, q] * f), 1e-6, 1 - 1e-6)
            log_odds = log_odds + np.log(p / (1 - p))
        expected[q] = log_odds
    values = committee.decision_values(matrix, fresh, model.coefficients)
    assert_allclose(values, expected, rtol=1e-6, atol=1e-4 * steeper)


@pytest.mark.parametrize("prior", [0.0, -2.0])
def test_the_slope_makes_platts_targets_most_likely(prior):
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(200) < 0.4, 1.0, -1.0)
    values, weights = 0.3 * labels + 0.4 * rng.normal(size=200), rng.uniform(0.5, 2, 200)
    positive, negative = weights[labels > 0].sum(), weights[labels < 0].sum()
    t = np.where(labels > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))

    def loss(a):
        z = prior + a[0] * values
        return -np.sum(weights * (t * log_expit(z) + (1 - t) * log_expit(-z)))

    reference = minimize(loss, [1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).x[0]
    assert _slope(values, labels, weights, prior) == pytest.approx(reference, rel=1e-5)


def test_slopes_at_the_ends():
    labels, ones = np.array([1.0, -1.0, 1.0, -1.0]), np.ones(4)
    assert _slope(-labels, labels, ones, 0.0) == 0.0  # a member that is wrong has no say
    assert _slope(np.zeros(4), labels, ones, 0.0) == 0.0
    separated = _slope(1e-3 * labels, labels, ones, 0.0)
    assert expit(1e-3 * separated) == pytest.approx(3 / 4)  # (2 + 1) / (2 + 2): finite, although they are separated
    of_one_class = _slope(np.ones(4), np.ones(4), ones, 0.0)
    assert expit(of_one_class) == pytest.approx(5 / 6)


def test_members_are_judged_on_rows_that_they_have_not_seen():
    # labels are noise: on its own rows a member looks good, on others it is worth nothing
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(600, 2)), np.where(rng.random((1, 600)) < 0.5, 1.0, -1.0)
    problem = make_problem(X, labels, replace(HINGE, C=1e3), replace(RBF, gamma=50.0))
    model = DivideAndConquer(prediction="bcm").train(training(problem, LEVEL_2, tol=1e-3)).model
    (values,), dual, clusters = routed(problem, model, X), dual_of(problem, model), clusters_of(problem, model)
    seen = [
        _slope(v, labels[0, own], np.ones(own.sum()), 0.0)
        for own, v in (
            (own, problem.kernel.multiply(np.flatnonzero(own), (labels * dual)[:, own])[0, own])
            for own in (clusters == c for c in range(4))
        )
    ]
    assert model.router.slopes.max() < 0.25 * min(seen)
    assert np.abs(values).max() < 2


def slope_of_folds(problem, model, cluster, tol):
    """Slope of a member from machines of two of three folds of its cluster, put together by hand."""
    rows, labels = np.flatnonzero(clusters_of(problem, model) == cluster), problem.labels
    folds, values = np.arange(len(rows)) % 3, np.zeros(len(rows))
    for fold in range(3):
        kept, held_out = rows[folds != fold], rows[folds == fold]
        solution = fit(problem.restrict(kept, problem.total), tol=tol)
        values[folds == fold] = problem.kernel.multiply(kept, labels[:, kept] * solution.dual, held_out)[0]
    return _slope(values, labels[0, rows], problem.weights[rows], float(model.router.prior[0]))


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_folds_are_solved_as_pieces_of_the_whole_problem(loss):
    _, _, problem, outcome = trained(loss)
    expected = slope_of_folds(problem, outcome.model, 2, 1e-9)
    assert outcome.model.router.slopes[2, 0] == pytest.approx(expected, rel=1e-4)


def test_large_folds_are_solved_to_their_tolerance():
    """Folds of more than one block, which would be solved to rounding in any case."""
    problem = make_problem(*blobs(2400), HINGE, RBF)
    shape = replace(LEVEL_2, n_levels=1, stop_level=1)
    model = DivideAndConquer(prediction="bcm", level_tol=1e-4).train(training(problem, shape, tol=1e-4)).model
    assert np.count_nonzero(clusters_of(problem, model) == 0) * 2 / 3 > 512
    assert model.router.slopes[0, 0] == pytest.approx(slope_of_folds(problem, model, 0, 1e-6), rel=1e-3)


def test_probabilities_are_better_than_those_of_single_members():
    X, labels, problem, outcome = trained()
    (values,) = routed(problem, outcome.model, X[600:])
    truth = labels[0, 600:] > 0
    assert np.mean((values > 0) == truth) > 0.75
    assert log_loss(truth, expit(values)) < 0.6 < log_loss(truth, np.full(300, truth.mean()))


def test_a_cluster_of_one_row_says_the_prior():
    X = np.array([[0.0, 0.0], [0.2, 0.0], [0.1, 0.1], [9.0, 9.0]])
    problem = make_problem(X, [[1.0, -1.0, 1.0, -1.0]], HINGE, RBF)
    outcome = BCM.train(training(problem, replace(LEVEL_2, n_levels=1, stop_level=1)))
    assert_array_equal(clusters_of(problem, outcome.model), [0, 0, 0, 1])
    assert outcome.model.router.slopes[1, 0] == 0.0


@pytest.mark.parametrize(("loss", "times"), [(HINGE, 1.5), (ODM, 2)], ids=name)
def test_the_folds_are_counted_and_threads_change_nothing(monkeypatch, loss, times):
    with counted(monkeypatch) as counts:
        _, _, _, outcome = trained(loss)
    assert sum(entry["kernel_evaluations"] for entry in outcome.history) == sum(counts)
    again = trained(loss, n_threads=2)[-1]
    assert_array_equal(again.model.router.slopes, outcome.model.router.slopes)
    early = trained(loss, strategy=DivideAndConquer(sample_size=100))[-1]
    assert outcome.history[0]["kernel_evaluations"] > times * early.history[0]["kernel_evaluations"]


def test_only_the_last_level_is_calibrated(monkeypatch):
    whole = trained(shape=TREE)[-1]
    plain = trained(shape=TREE, strategy=DivideAndConquer(sample_size=100))[-1]
    assert [e["kernel_evaluations"] for e in whole.history] == [e["kernel_evaluations"] for e in plain.history]
    listening = Recorder()
    trained(shape=TREE, progress=listening)  # asks for the models of all levels
    assert len(listening.models) == 3
    assert (whole.status, whole.model.router) == ("converged", None)


@pytest.mark.parametrize("why", ["deadline", "interrupt"])
def test_without_time_to_calibrate_the_nearest_cluster_answers_and_the_status_says_so(why):
    X, labels = blobs(600, seed=4)
    plan = training(make_problem(X, labels, HINGE, RBF), LEVEL_2)
    interrupted = Event()
    if why == "interrupt":
        interrupted.set()
    deadline = time.perf_counter() if why == "deadline" else None
    outcome = BCM.train(replace(plan, limits=replace(plan.limits, deadline=deadline, interrupted=interrupted)))
    assert not isinstance(outcome.model.router, Committee) and outcome.model.router is not None
    assert outcome.status == {"deadline": "max_time", "interrupt": "stopped"}[why]
    assert outcome.reason.endswith("the committee was not calibrated in time, so prediction is 'early' instead")
