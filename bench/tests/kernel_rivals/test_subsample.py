"""LIBSVM on a part of the rows, and how rows are drawn."""

import numpy as np
import pytest
from helpers import blobs
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

from dimargin_bench.kernel_rivals import SubsampledSVM
from dimargin_bench.kernel_rivals.checked_rows import uniform_sample


@pytest.mark.parametrize("fraction", [0.2, 1.0])
def test_it_is_libsvm_on_the_rows_that_were_drawn(fraction):
    X, labels = blobs(501)
    machine = SubsampledSVM(fraction=fraction, C=2.0, random_state=0).fit(X, labels[0])
    assert len(set(machine.rows_)) == (101 if fraction < 1 else 501)
    gamma = 1 / (X.shape[1] * X.var())
    expected = SVC(C=2.0, gamma=gamma).fit(X[machine.rows_], labels[0][machine.rows_])
    assert_allclose(machine.decision_function(X), expected.decision_function(X), atol=1e-9)
    assert_array_equal(machine.predict(X), expected.predict(X))


def test_every_row_is_drawn_as_often():
    y, rng = np.array([0, 1] * 50), np.random.RandomState(0)
    counts = np.bincount(np.concatenate([uniform_sample(y, 20, rng) for _ in range(2000)]), minlength=100)
    assert_allclose(counts / 2000, 0.2, atol=5 * np.sqrt(0.16 / 2000))


def test_rows_are_drawn_until_every_class_has_occurred():
    y, rng = np.array([0] * 98 + [1, 2]), np.random.RandomState(0)
    for _ in range(20):
        sample = uniform_sample(y, 5, rng)
        assert set(y[sample]) == {0, 1, 2} and len(set(sample)) == len(sample) >= 5
        assert len(sample) == 5 or set(y[sample[:-1]]) < {0, 1, 2}
