"""Scores of every class, which are those of scikit-learn for one class against all others."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, roc_auc_score

from dimargin.display.class_scores import class_scores

RNG = np.random.default_rng(0)
NAMES = np.array(["eggs", "ham", "spam"], dtype=object)


@pytest.mark.parametrize("weights", [None, RNG.integers(0, 4, 90).astype(float)], ids=["equal", "weighted"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_they_are_those_of_scikit_learn(n_classes, weights):
    classes, true = NAMES[:n_classes], RNG.integers(0, n_classes, 90)
    values = RNG.normal(size=(90, n_classes)) + 1.5 * np.eye(n_classes)[true]
    y, predicted = classes[true], classes[values.argmax(axis=1)]
    confusion = confusion_matrix(y, predicted, labels=classes, sample_weight=weights)
    single = values[:, 1] - values[:, 0] if n_classes == 2 else values
    found = class_scores(y, single, classes, confusion.tolist(), weights)
    expected = precision_recall_fscore_support(y, predicted, labels=classes, sample_weight=weights)
    for name, values_of_classes in zip(("precision", "recall", "f1"), expected, strict=False):
        np.testing.assert_allclose(found[name], values_of_classes, rtol=1e-12)
    columns = [-single, single] if n_classes == 2 else values.T
    areas = [roc_auc_score(true == k, column, sample_weight=weights) for k, column in enumerate(columns)]
    np.testing.assert_allclose(found["auc"], areas, rtol=1e-12)
    assert len(set(found["recall"])) == n_classes


def test_probabilities_of_two_classes_have_two_columns():
    y, shares = NAMES[[0, 0, 1, 1]], np.array([0.1, 0.6, 0.5, 0.9])
    pairs, confusion = np.stack([1 - shares, shares], axis=1), [[1, 1], [0, 2]]
    found = class_scores(y, pairs, NAMES[:2], confusion)
    assert found == class_scores(y, shares - 0.5, NAMES[:2], confusion) and found["auc"] == [0.75, 0.75]


@pytest.mark.filterwarnings("error")
def test_what_is_undefined_is_none():
    y, values = NAMES[[0, 0, 1]], np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
    found = class_scores(y, values, NAMES, [[2, 0, 0], [1, 0, 0], [0, 0, 0]])
    assert found["precision"] == [2 / 3, None, None] and found["recall"] == [1.0, 0.0, None]
    assert found["f1"] == [0.8, 0.0, None] and found["auc"] == [0.0, 1.0, None]
    alone = class_scores(y[:2], values[:2], NAMES, [[2, 0, 0], [0, 0, 0], [0, 0, 0]])
    assert alone["auc"] == [None, None, None]
    weightless = class_scores(y, values, NAMES, [[2, 0, 0], [0, 0, 0], [0, 0, 0]], np.array([1.0, 1.0, 0.0]))
    assert weightless["auc"] == [None, None, None]
