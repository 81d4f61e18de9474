"""Scalers from sums over parts: those of scikit-learn on all rows."""

from functools import reduce

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from dimargin.spark.scaling import Extremes, Moments


def rows(sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6)) * [1, 1e-3, 1e5, 1, 1, 0] + [0, 5, 1e6, 0, 0.1, 0.1]
    X[:, 4] = 0.1  # constant, but for rounding, in sums
    if sparse:
        X[rng.random(X.shape) < 0.7] = 0.0
        X[:, 3] = -abs(X[:, 3])
        X[:200, 2:] = 0.0
    return X


def from_parts(kind, X, sparse):
    """Of unequal parts; sparse ones are as wide as they need to be."""
    parts = [part for part in np.split(X, [1, 9, 200, 650])]
    if sparse:
        widths = [np.flatnonzero(part.any(axis=0)).max(initial=0) + 1 for part in parts]
        parts = [sp.csr_array(part[:, :width]) for part, width in zip(parts, widths, strict=True)]
    return reduce(lambda a, b: a.joined(b), map(kind.of, parts)).between(0, X.shape[1]).scaler(sparse)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", [Extremes, Moments])
def test_the_scaler_is_that_of_all_rows(kind, sparse):
    X = rows(sparse)
    found = from_parts(kind, X, sparse)
    whole = sp.csr_array(X) if sparse else X
    if kind is Moments:
        expected = StandardScaler(with_mean=not sparse).fit(whole)
    else:
        expected = (MaxAbsScaler() if sparse else MinMaxScaler()).fit(whole)
    assert found.get_params() == expected.get_params() and vars(found).keys() == vars(expected).keys()
    for name, value in vars(expected).items():
        if kind is Extremes:
            assert_array_equal(getattr(found, name), value, err_msg=name)
        else:
            assert_allclose(getattr(found, name), value, rtol=1e-12, atol=1e-20, err_msg=name)
    assert type(found.n_samples_seen_) is type(expected.n_samples_seen_)


def test_columns_before_the_first_are_left_out():
    found = Extremes.of(np.array([[9.0, 1.0], [9.0, 3.0]])).between(1, 2)
    assert_array_equal(found.columns, [[1.0, 0.0], [3.0, 0.0]])
