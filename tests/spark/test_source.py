"""What shards measure in one job: the variance of all values, and bounds of the extent of the rows."""

from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dimargin.kernels.functions import Kernel
from dimargin.kernels.row_transform import Extent, RowTransform
from dimargin.problems.losses import HingeLoss
from dimargin.shards.local_engine import LocalEngine
from dimargin.spark import training
from dimargin.spark.source import KeyedRows, Measures, extent_of

KERNELS = [Kernel(name, 1.0, 2, 1.0) for name in ("linear", "poly", "rbf", "laplacian")]


def shards_of(X, codes, weights, bounds):
    """Rows on threads, cut at some indices; shards may be empty."""
    keys = np.arange(len(codes), dtype=np.uint64)
    parts = [slice(a, b) for a, b in zip([0, *bounds], [*bounds, len(codes)], strict=True)]
    return LocalEngine(1, Event()).scatter([KeyedRows(X[p], codes[p], weights[p], keys[p]) for p in parts])


@st.composite
def sharded(draw):
    """Rows, their shards, and the factors of the weights of their classes."""
    rng, n = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 60))
    n_classes, sparse = draw(st.integers(2, 3)), draw(st.booleans())
    X = rng.normal(size=(n, draw(st.integers(1, 5)))) * 10.0 ** draw(st.integers(-3, 3))
    if sparse:
        X[rng.random(X.shape) < 0.5] = 0.0
    else:
        X += draw(st.sampled_from([0.0, 1.0, 1e6]))
    X = X.astype(draw(st.sampled_from([np.float32, np.float64])))
    codes, weights = rng.integers(n_classes, size=n), rng.uniform(0.5, 2.0, size=n)
    bounds = sorted(draw(st.lists(st.integers(0, n), max_size=5)))
    return X, codes, weights, sparse, bounds, rng.uniform(0.5, 2.0, size=n_classes)


@settings(deadline=None)
@given(sharded(), st.sampled_from(KERNELS))
def test_the_variance_is_that_of_all_values_and_the_bounds_hold(given, kernel):
    X, codes, weights, sparse, bounds, factors = given
    rows = shards_of(sp.csr_array(X) if sparse else X, codes, weights, bounds)
    measures = Measures.of(rows, len(factors), kernel)

    X = X.astype(np.float64)
    every = np.repeat(weights * factors[codes], X.shape[1])
    mean = np.average(X.ravel(), weights=every)
    expected = np.average((X.ravel() - mean) ** 2, weights=every)
    rounding = 1e-14 if sparse else 1e-16  # sparse rows are summed about zero
    assert_allclose(measures.variance(factors), expected, rtol=1e-9, atol=rounding * np.abs(X).max() ** 2)

    means = None if sparse else np.average(X, axis=0, weights=weights * factors[codes])
    least, most = measures.extents_about(means, kernel)
    found = extent_of(rows, means, kernel)
    tolerance = 1e-14 * np.abs(X).max()
    for name in ("size", "spread"):
        low, value, high = (getattr(extent, name) for extent in (least, found, most))
        assert 0 <= low <= value + tolerance and value <= high + tolerance
    assert least.longest_sum == found.longest_sum == most.longest_sum
    if sparse:
        assert least == found == most


def transform_of(X, kernel, gamma, n_shards=4):
    """What a fit on executors prepares rows with."""
    n = X.shape[0]
    rows = shards_of(X, np.arange(n) % 2, np.ones(n), [n * i // n_shards for i in range(1, n_shards)])
    losses = training._Losses(HingeLoss(C=1.0), float(n), False, np.ones(2), 1)
    return training._transform(gamma, kernel, rows, Measures.of(rows, 2, kernel), losses)


@pytest.fixture
def jobs(monkeypatch):
    """Rows whose extent was measured in a job of its own."""
    noted = []
    monkeypatch.setattr(training, "extent_of", lambda *given: noted.append(given) or extent_of(*given))
    return noted


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_ordinary_rows_are_measured_in_one_job(kernel, sparse, jobs):
    X = np.random.default_rng(0).normal(size=(2000, 6))
    X = sp.csr_array(np.where(X > 0, X, 0.0)) if sparse else X
    found = transform_of(X, kernel, "scale")
    expected = RowTransform.fit(X, found.kernel)
    assert not jobs and (found.dtype, found.difference) == (expected.dtype, expected.difference)
    assert_allclose(found.kernel.gamma, 1 / (6 * (X.toarray() if sparse else X).var()), rtol=1e-12)
    assert expected.size <= found.size <= 1.1 * expected.size


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_rows_between_two_precisions_are_measured_again(name, jobs):
    """Their bounds would choose differently; the largest gamma at which the rows fit into float32 is searched for."""
    X = np.random.default_rng(0).normal(size=(2000, 6))
    low, high = 1e-3, 1e6
    while high / low > 1 + 1e-6:
        middle = np.sqrt(low * high)
        single = RowTransform.fit(X, Kernel(name, middle)).dtype is np.float32
        low, high = (middle, high) if single else (low, middle)
    for gamma in (low, high):
        found, expected = transform_of(X, Kernel(name), gamma), RowTransform.fit(X, Kernel(name, gamma))
        assert (found.dtype, found.difference) == (expected.dtype, expected.difference)
        assert_allclose(found.size, expected.size, rtol=1e-12)
    assert len(jobs) == 2


def test_rows_that_are_too_large_are_named_as_they_are_here(jobs):
    X = np.random.default_rng(0).normal(size=(200, 3)) * [1.0, 1e9, 1.0]
    with pytest.raises(ValueError, match="column 1 of X is too large for the rbf kernel with gamma=1e"):
        transform_of(X, Kernel("rbf"), 1e10)
    with pytest.raises(ValueError, match="column 1 of X is too large for gamma='scale'"):
        transform_of(X * 1e150, Kernel("rbf"), "scale")


@settings(deadline=None)
@given(
    st.sampled_from(KERNELS), st.floats(-6, 8), st.floats(-6, 8), st.floats(0, 1), st.floats(0, 1), st.integers(1, 400)
)
def test_what_bounds_choose_is_what_every_extent_between_them_chooses(kernel, gamma, size, width, where, longest_sum):
    kernel = Kernel(kernel.name, 10.0**gamma, 2, 1.0)
    moved = 1.0 if kernel.stationary else 0.0
    low, middle, high = (
        Extent(10.0**size * (1 + moved * part * width), 10.0**size * (1 + part * width) / 10, longest_sum)
        for part in (0.0, where, 1.0)
    )
    means = np.zeros(3)
    found = RowTransform.for_bounds(kernel, means, low, high)
    if found is not None:
        expected = RowTransform.for_extent(kernel, means, middle, lambda: 0)
        assert (found.dtype, found.difference) == (expected.dtype, expected.difference)
        assert found._error_bound(longest_sum) >= expected._error_bound(longest_sum)
