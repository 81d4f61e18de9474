"""Scores of probabilities, against scikit-learn's."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from dimargin.display.probability_scores import Groups, predicted_outcomes, probability_scores

RNG = np.random.default_rng(0)
TWO = RNG.uniform(size=1000)
TRUE = (RNG.uniform(size=1000) < TWO**2).astype(int)  # These probabilities are too large.
NAMES = np.array(["ham", "spam"])


def pairs(p):
    return np.stack([1 - p, p], axis=1)


def test_two_classes_are_scored_as_by_scikit_learn():
    weights = RNG.uniform(0.5, 2, 1000)
    for given in (None, weights):
        found = probability_scores(NAMES[TRUE], pairs(TWO), NAMES, given)
        assert found["log_loss"] == pytest.approx(log_loss(TRUE, TWO, sample_weight=given))
        assert found["brier_score"] == pytest.approx(brier_score_loss(TRUE, TWO, sample_weight=given))


def test_groups_are_those_of_the_calibration_curve():
    found = Groups.of(*predicted_outcomes(TRUE, pairs(TWO)))
    share, mean = calibration_curve(TRUE, TWO, n_bins=10, strategy="quantile")
    np.testing.assert_allclose(found.share, share)
    np.testing.assert_allclose(found.score, mean)
    assert found.error == pytest.approx(np.abs(share - mean).mean(), rel=1e-3)
    assert 0.1 < found.error == probability_scores(TRUE, pairs(TWO), np.arange(2))["calibration_error"]


def test_several_classes():
    true, p = RNG.integers(0, 3, 500), RNG.dirichlet(np.ones(3), 500)
    found = probability_scores(true, p, np.arange(3))
    assert found["log_loss"] == pytest.approx(log_loss(true, p))
    assert found["brier_score"] == pytest.approx(((p - np.eye(3)[true]) ** 2).sum(axis=1).mean())
    right = (p.argmax(axis=1) == true).mean()  # One in three: the labels are noise.
    assert found["calibration_error"] == pytest.approx(p.max(axis=1).mean() - right, abs=0.03)


def test_equal_probabilities_are_in_one_group_whatever_the_order_of_the_rows():
    p = np.repeat([0.2, 0.7], 500)
    true = np.concatenate([np.arange(500) < 100, np.arange(500) < 350]).astype(int)
    for order in (np.arange(1000), RNG.permutation(1000)):
        found = Groups.of(p[order], true[order] == 1)
        np.testing.assert_allclose(found.share, [0.2, 0.7])
        assert found.weight.tolist() == [500, 500] and found.error == pytest.approx(0)


def test_weights_are_repetitions_and_rows_without_weight_do_not_count():
    weights = RNG.integers(0, 3, 1000).astype(float)
    p = np.round(TWO, 1)  # The groups are the same, although quantiles are those of rows.
    found, repeated = Groups.of(p, TRUE == 1, weights), np.repeat(np.arange(1000), weights.astype(int))
    assert found.error == pytest.approx(Groups.of(p[repeated], TRUE[repeated] == 1).error)
    assert found.weight.sum() == weights.sum()
    kept = TWO > 0.3
    assert Groups.of(TWO, TRUE == 1, kept.astype(float)).error == Groups.of(TWO[kept], TRUE[kept] == 1).error


def test_few_rows_have_few_groups():
    assert [len(Groups.of(TWO[:n], TRUE[:n] == 1).score) for n in (1, 39, 40, 100, 1000)] == [1, 1, 2, 5, 10]


def test_certain_mistakes_have_a_finite_log_loss():
    found = probability_scores([0, 1], np.eye(2)[[1, 1]], np.arange(2))
    assert 10 < found["log_loss"] < 40 and found["brier_score"] == 0.5
