"""Samples are nested and stratified; candidates' machines are those of the estimators."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.metrics import get_scorer

from dimargin import LinearODMClassifier, ODMClassifier
from dimargin.estimators.kernel_parameters import row_transform_of
from dimargin.estimators.search.folds import ExactTrainer, Fold, PairTrainer, Sample, SpaceTrainer, nested_order
from dimargin.estimators.training_data import training_data
from dimargin.problems.losses import ODMLoss
from dimargin.solvers import Limits

X, Y = make_moons(900, noise=0.25, random_state=0)
FOLD = Fold(np.arange(600), np.arange(600, 900))
LIMITS = Limits(1e-8, 200)


@given(counts=st.lists(st.integers(1, 60), min_size=1, max_size=4), seed=st.integers(0, 9))
def test_every_beginning_of_a_nested_order_has_the_classes_as_frequent_as_all(counts, seed):
    y = np.repeat(np.arange(len(counts)), counts)
    order = nested_order(y, np.random.default_rng(seed))
    assert_array_equal(np.sort(order), np.arange(len(y)))
    for n in range(1, len(y) + 1):
        found = np.bincount(y[order[:n]], minlength=len(counts))
        assert (np.abs(found - n * np.array(counts) / len(y)) <= len(counts)).all()


def sample_of(n_rows, weights=None, classes=2):
    y = Y if classes == 2 else Y + (X[:, 0] > 1)
    return Sample.of(training_data(ODMClassifier(), X, y, weights), FOLD, n_rows, may_merge=True)


@pytest.mark.parametrize("classes", [2, 3])
def test_on_all_rows_the_exact_trainer_is_the_estimator(classes):
    weights = np.where(np.arange(900) < 600, np.random.default_rng(0).uniform(0.5, 2, 900), 1e-9)
    sample = sample_of(600, weights, classes)
    machine = ODMClassifier(gamma=1.0, lam=500.0, multi_class="one_vs_rest", tol=1e-8)
    transform = row_transform_of(machine, sample.data.X, sample.data.weights)
    trainer = ExactTrainer(sample, transform, False)
    trainer.values(ODMLoss(20.0, 0.5, 0.3), LIMITS)  # a warm start changes nothing
    values = trainer.values(ODMLoss(500.0, 0.5, 0.3), LIMITS)
    machine.fit(X[:600], (Y if classes == 2 else Y + (X[:, 0] > 1))[:600], weights[:600])
    expected = machine.decision_function(X[600:])
    assert_allclose(values[0] if classes == 2 else values.T, expected, atol=1e-3)
    assert trainer.evaluations > 0


def test_on_a_sample_the_pairs_of_an_odm_weigh_rows_as_among_all():
    sample, loss = sample_of(300, classes=3), ODMLoss(300.0, 0.5, 0.3)
    machine = ODMClassifier(gamma=1.0, lam=300.0 * 300 / 900, multi_class="one_vs_one", tol=1e-8)
    trainer = PairTrainer(sample, row_transform_of(machine, sample.data.X, sample.data.weights), False)
    expected = machine.fit(X[:300], (Y + (X[:, 0] > 1))[:300]).decision_function(X[600:])
    assert_allclose(trainer.values(loss, LIMITS).T, expected, atol=1e-3)
    assert trainer.evaluations >= 300 * 300 / 2


def test_all_rows_as_landmarks_are_the_exact_trainer():
    sample, machine = sample_of(300), ODMClassifier(gamma=1.0)
    transform = row_transform_of(machine, sample.data.X, sample.data.weights)
    loss = ODMLoss(50.0, 0.5, 0.3)
    exact = ExactTrainer(sample, transform, False).values(loss, LIMITS)
    space = SpaceTrainer.of_landmarks(sample, transform, 300, False)
    assert_allclose(space.values(loss, LIMITS), exact, atol=2e-3)
    few = SpaceTrainer.of_landmarks(sample, transform, 40, False).values(loss, LIMITS)
    assert 0 < np.abs(few - exact).mean() < 0.2


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_rows_themselves_are_the_linear_machine(sparse, intercept):
    machine = LinearODMClassifier(lam=30.0, theta=0.2, tol=1e-9, fit_intercept=intercept)
    weights = np.where(np.arange(900) < 600, 1.0, 1e-12)
    data = training_data(machine, sp.csr_array(X) if sparse else X, Y, weights)
    sample = Sample.of(data, FOLD, 600, may_merge=False)
    trainer = SpaceTrainer(sample, sample.rows, sample.queries, None, True, intercept)
    values = trainer.values(ODMLoss(30.0, 0.5, 0.2), LIMITS)
    assert_allclose(values[0], machine.fit(X[:600], Y[:600]).decision_function(X[600:]), atol=1e-6)


def test_a_row_keeps_its_weight_in_a_part():
    """A third of the rows with the mass of all: as if lam were a third."""
    part, machine = sample_of(300), ODMClassifier(gamma=1.0, lam=300.0, tol=1e-8)
    values = ExactTrainer(part, row_transform_of(machine, part.data.X, part.data.weights), False).values(
        ODMLoss(900.0, 0.5, 0.3), LIMITS
    )
    machine.fit(X[:300], Y[:300])
    assert_allclose(values[0], machine.decision_function(X[600:]), atol=1e-3)


def test_scores_are_those_of_scikit_learn():
    sample = sample_of(300)
    machine = ODMClassifier(gamma=1.0).fit(X[:300], Y[:300])
    values = np.atleast_2d(machine.decision_function(X[600:]))
    for scorer in ("accuracy", "roc_auc", "balanced_accuracy", "f1", "average_precision"):
        expected = get_scorer(scorer)(machine, X[600:], Y[600:])
        assert sample.score(values, get_scorer(scorer), sample.data.weights) == pytest.approx(expected)
    assert sample.score(values, None, sample.data.weights) == pytest.approx(machine.score(X[600:], Y[600:]))
    weights = np.random.default_rng(0).uniform(0, 2, 900)
    weighted = Sample.of(training_data(ODMClassifier(), X, Y, weights), FOLD, 300, may_merge=True)
    assert weighted.score(values, None, weighted.data.weights) == pytest.approx(
        machine.score(X[600:], Y[600:], weights[600:])
    )
