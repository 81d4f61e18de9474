"""Curves: their points, and groups of predictions."""

import numpy as np
import pytest
from scipy.stats import norm

from dimargin.display.report.curves import class_curves, reliability, thinned
from dimargin.display.report.predictions import Predictions


def answers(values, true, probabilities=None):
    predicted = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
    classes = list(range(2 if values.ndim == 1 else values.shape[1]))
    return Predictions(classes, true, predicted, values, "decision value", probabilities, 1.0)


def test_a_curve_of_few_points_looks_like_that_of_many():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(size=100_000)) ** 30  # few rows have large values
    y = np.arange(len(x)) / (len(x) - 1)
    few_x, few_y = thinned(x, y)
    assert 2 < len(few_x) <= 400 and (few_x[0], few_x[-1], few_y[-1]) == (x[0], x[-1], 1.0)
    assert np.abs(np.interp(x, few_x, few_y) - y).max() < 2 / 400
    assert np.diff(few_x).max() < 4 / 400
    assert thinned(x[:5], y[:5]) == (pytest.approx(x[:5]), pytest.approx(y[:5]))
    flat = np.zeros(1000)
    assert len(thinned(np.linspace(0, 1, 1000), flat)[0]) <= 400


def test_the_area_is_the_chance_that_a_row_of_the_class_comes_first():
    rng, n = np.random.default_rng(0), 4000
    true = np.arange(n) % 2
    curves = class_curves(answers(rng.normal(size=n) + true, true))
    expected = norm.cdf(1 / np.sqrt(2))
    assert [curve.area for curve in curves] == pytest.approx([expected, expected], abs=0.02)
    # of classes that there are no rows of, or no others, there is none
    assert class_curves(answers(np.ones(5), np.ones(5, dtype=int))) == []
    scores = rng.normal(size=(40, 3))
    assert [curve.index for curve in class_curves(answers(scores, np.arange(40) % 2))] == [0, 1]


def test_groups_of_a_calibrated_model_are_as_often_right_as_they_say():
    rng, n = np.random.default_rng(0), 20_000
    p = rng.uniform(size=n)
    true = (rng.uniform(size=n) < p).astype(int)
    found = reliability(answers(p - 0.5, true, np.stack([1 - p, p], axis=1)))
    assert found.is_probability and len(found.score) == 10
    assert found.score == pytest.approx(np.arange(10) / 10 + 0.05, abs=0.01)
    assert ((found.low <= found.score) & (found.score <= found.high)).sum() >= 9
    assert found.scores["brier_score"] == pytest.approx(1 / 6, abs=0.005)  # the mean of p (1 - p)


def test_groups_of_several_classes_are_those_that_are_right():
    rng, n = np.random.default_rng(0), 600
    true = np.arange(n) % 3
    values = rng.normal(size=(n, 3)) + 2 * np.eye(3)[true]
    found = reliability(answers(values, true))
    assert not found.is_probability and found.scores == {}
    assert found.share.mean() == pytest.approx((values.argmax(axis=1) == true).mean())
    assert found.share[0] < 0.6 and found.share[-1] > 0.95 and (np.diff(found.score) > 0).all()
    assert reliability(answers(values[:39], true[:39])) is None and reliability(answers(values[:40], true[:40]))
