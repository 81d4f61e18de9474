"""Labels of the binary problems of classes, and back."""

import numpy as np
import pytest
from sklearn.preprocessing import label_binarize

from dimargin.problems.one_vs_rest import codes_of, codes_of_labels, labels_of


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_labels_are_scikit_learns(n_classes):
    codes = np.random.default_rng(0).permutation(20 * n_classes) % n_classes
    labels = labels_of(codes, n_classes)
    expected = label_binarize(codes, classes=np.arange(n_classes), neg_label=-1).T
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(codes_of_labels(labels), codes)


def test_the_larger_decision_value_wins_and_zero_is_the_first_class():
    np.testing.assert_array_equal(codes_of(np.array([-1.0, 0.0, 1e-300])), [0, 0, 1])
    np.testing.assert_array_equal(codes_of(np.array([[0.0, 1.0, -1.0], [2.0, 1.0, 0.0]])), [1, 0])
