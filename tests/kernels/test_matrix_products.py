"""Products of kernel values with coefficients, sums of stored rows, and how much rounding may change them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernel_reference import (
    COLUMNS,
    FORMS,
    STORAGES,
    any_matrix,
    every_instruction_set,
    every_kernel,
    exact,
    matrix,
    store,
    using,
)
from numpy.testing import assert_allclose

from dimargin import _core
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.pieces import Pieces
from dimargin.kernels.row_transform import RowTransform


@every_instruction_set
@every_kernel
@given(
    n=st.integers(1, 40), m=COLUMNS, outputs=st.integers(1, 4), sparse=st.booleans(), single=st.booleans(),
    log_size=st.sampled_from([-100, -40, 0, 40, 100]), seed=st.integers(0, 2**16),
)  # fmt: skip
@settings(max_examples=15)
def test_multiply_is_a_block_times_coefficients(name, instructions, n, m, outputs, sparse, single, log_size, seed):
    rng = np.random.default_rng(seed)
    with using(instructions):
        K = any_matrix(name, np.float32 if single else np.float64, sparse, n=80, d=19, seed=seed)
        rows, columns = rng.integers(80, size=n), rng.integers(80, size=m)
        coefficients = rng.normal(size=(outputs, m)) * 10.0**log_size
        block = K.block(rows, columns)
        got = K.multiply(columns, coefficients, rows)
        assert got.shape == (outputs, n)
        sizes = np.abs(coefficients) @ np.abs(block).T
        assert (np.abs(got - coefficients @ block.T) <= (1e-5 if single else 1e-13) * sizes).all()
        # a row's product does not depend on the rows around it
        np.testing.assert_array_equal(K.multiply(columns, coefficients)[:, rows], got)
        view = K.take(rows)
        columns = np.arange(n)
        coefficients = coefficients[:, :n] if n <= m else np.ones((outputs, n))
        np.testing.assert_array_equal(view.multiply(columns, coefficients), K.multiply(rows, coefficients, rows))


def test_products_beyond_float64_are_infinite_without_a_warning():
    K = matrix(np.array([[2.0], [0.0]]), Kernel("linear"))
    coefficients = np.array([[1e308, 0.0]])
    assert K.multiply(np.arange(2), coefficients).tolist() == [[math.inf, 0.0]]
    assert K.combine(np.array([[4.0, 0.0]], dtype=np.float32), np.array([0]), coefficients[:, :1]).tolist() == [
        [math.inf, 0.0]
    ]


@pytest.mark.parametrize("sparse", [False, True])
@given(n=st.integers(1, 1500), m=st.integers(1, 4000), d=st.integers(1, 40), outputs=st.integers(1, 3))
@example(n=1500, m=4000, d=8, outputs=1)  # several chunks of columns are packed at once
@settings(max_examples=20)
def test_threads_multiply_rows_of_any_shape_alike(sparse, n, m, d, outputs):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(max(n, m), d)) * (rng.random((max(n, m), d)) < 0.5)
    rows = sp.csr_array(X) if sparse else X
    # sums of float32 products may be exact in float64, whatever their order
    K = [matrix(rows, Kernel("rbf", 0.1), n_threads=k).in_float64() for k in (1, 2, 3, 5)]
    coefficients = rng.normal(size=(outputs, m))
    one, *others = (k.multiply(np.arange(m), coefficients, np.arange(n)) for k in K)
    for other in others:
        np.testing.assert_array_equal(one, other)
    assert {k.evaluations for k in K} == {n * m}


@every_instruction_set
@given(
    n=st.integers(0, 300), width=st.integers(1, 300), outputs=st.integers(1, 3), double=st.booleans(),
    log_size=st.integers(-40, 40), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_stored_rows_are_combined(instructions, n, width, outputs, double, log_size, seed):
    rng = np.random.default_rng(seed)
    K = matrix(rng.normal(size=(3, 2)), Kernel("rbf", 1.0))
    K = K.in_float64() if double else K
    values = rng.normal(size=(50, width)).astype(K.transform.dtype)
    slots, coefficients = rng.integers(50, size=n), 10.0**log_size * rng.normal(size=(outputs, n))
    with using(instructions):
        combined = K.combine(values, slots, coefficients)
    expected = coefficients @ values[slots].astype(float)
    size = np.abs(coefficients) @ np.abs(values[slots]).astype(float)
    assert (np.abs(combined - expected) <= (1e-14 if double else 1e-5) * size).all()


def test_threads_combine_alike():
    rng = np.random.default_rng(0)
    values, slots = rng.normal(size=(500, 20_000)).astype(np.float32), rng.permutation(500)
    coefficients = rng.normal(size=(2, 500))
    K = [matrix(np.eye(2), Kernel("rbf", 1.0), n_threads=k) for k in (1, 2, 3, 5)]
    one, *others = (k.combine(values, slots, coefficients) for k in K)
    for other in others:
        np.testing.assert_array_equal(one, other)


def test_stored_rows_that_are_not_there_are_refused():
    K = matrix(np.eye(2), Kernel("rbf", 1.0))
    for slot in (-1, 4):
        with pytest.raises(IndexError, match="stored row out of range"):
            K.combine(np.zeros((4, 3), dtype=np.float32), np.array([0, slot]), np.ones((1, 2)))


def test_long_products_are_made_of_short_calls(monkeypatch):
    K = any_matrix("rbf", np.float32, False, n=3000)
    columns, coefficients = np.arange(50), np.random.default_rng(0).normal(size=(2, 50))
    whole, calls, multiply = K.multiply(columns, coefficients), [], _core.multiply
    monkeypatch.setattr(KernelMatrix, "operations_per_call", 1.0)
    monkeypatch.setattr(_core, "multiply", lambda *a: calls.append(len(a[6])) or multiply(*a))
    np.testing.assert_array_equal(K.multiply(columns, coefficients), whole)
    assert calls == [1024, 1024, 952]
    assert K.evaluations == 2 * 3000 * 50


@every_kernel
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("offset", [0.0, 2.5])
@pytest.mark.parametrize("double", [False, True])
def test_parts_are_what_each_is_alone_in_few_calls(monkeypatch, name, storage, offset, double):
    rng = np.random.default_rng(0)
    X = store(rng.normal(size=(90, 20)) * (rng.random((90, 20)) < 0.7), storage)
    transform = replace(RowTransform.fit(X, Kernel(name, gamma=0.1)), offset=offset)
    shuffled = KernelMatrix(transform.in_float64() if double else transform, X).take(rng.permutation(90))
    rows, columns = ([rng.integers(0, 90, size) for size in sizes] for sizes in ((30, 1, 17, 5), (8, 20, 0, 33)))
    coefficients = [rng.normal(size=len(own)) for own in columns]
    values = [shuffled.values(*part).ravel() for part in zip(rows, columns, strict=True)]
    products = [shuffled.multiply(j, c[None], i)[0] for i, j, c in zip(rows, columns, coefficients, strict=True)]
    calls, multiply = [], _core.multiply
    monkeypatch.setattr(_core, "multiply", lambda *a: calls.append(len(a[6])) or multiply(*a))
    for n_threads in (1, 3):
        K = shuffled.take(np.arange(90), n_threads)
        np.testing.assert_array_equal(K.value_parts(Pieces.of(rows), Pieces.of(columns)), np.concatenate(values))
        assert K.evaluations == 30 * 8 + 20 + 5 * 33
        found = K.multiply_parts(Pieces.of(columns), np.concatenate(coefficients), Pieces.of(rows))
        np.testing.assert_allclose(found, np.concatenate(products), rtol=1e-14 if double else 1e-6, atol=1e-14)
        assert K.evaluations == 2 * (30 * 8 + 20 + 5 * 33)
    assert not calls
    monkeypatch.setattr(KernelMatrix, "operations_per_call", 1.0)
    found = K.multiply_parts(Pieces.of(columns), np.concatenate(coefficients), Pieces.of(rows))
    np.testing.assert_array_equal(found, np.concatenate(products))
    assert calls == [30, 1, 5]
    monkeypatch.delattr(_core, "block_parts")
    np.testing.assert_array_equal(K.value_parts(Pieces.of(rows), Pieces.of(columns)), np.concatenate(values))
    assert K.evaluations == 4 * (30 * 8 + 20 + 5 * 33)


@pytest.mark.parametrize("bounds", [[0, 2, 4], [1, 2, 3], [0, 3, 2, 3], [0, 4, 3], [0, 3], []])
def test_the_core_refuses_parts_that_do_not_fit(bounds):
    rows, index, good = _core.Rows64(np.ones((3, 2))), np.arange(3), np.array([0, 1, 3])
    bounds, spec = np.array(bounds, dtype=np.int64), ("linear", 0.0, 1, False, -np.inf)
    for parts in ((rows, index, good, rows, index, bounds), (rows, index, bounds, rows, index, good)):
        with pytest.raises(ValueError, match="bounds do not fit"):
            _core.multiply_parts(*spec, *parts, np.ones(3), np.zeros(3), 1)
        with pytest.raises(ValueError, match="bounds do not fit"):
            _core.block_parts(*spec, *parts, np.zeros(5), 1)
    parts = rows, index, good, rows, index, good
    for coefficients, out in ((np.ones(2), np.zeros(3)), (np.ones(3), np.zeros(4))):
        with pytest.raises(ValueError, match="do not fit the rows"):
            _core.multiply_parts(*spec, *parts, coefficients, out, 1)
    with pytest.raises(ValueError, match="out does not fit"):
        _core.block_parts(*spec, *parts, np.zeros(4), 1)
    with pytest.raises(IndexError):
        _core.block_parts(*spec, rows, index + 1, good, rows, index, good, np.zeros(5), 1)
    with pytest.raises(ValueError, match="different width"):
        _core.block_parts(*spec, rows, index, good, _core.Rows64(np.ones((3, 1))), index, good, np.zeros(5), 1)


def test_evaluations_are_counted():
    K = any_matrix("rbf", np.float32, False, n=40)
    a, b = np.arange(7), np.arange(11)
    K.block(a, b)
    assert K.evaluations == 77
    K.multiply(b, np.ones((3, 11)))
    assert K.evaluations == 77 + 40 * 11
    K.multiply(b, np.ones((3, 11)), rows=a)
    assert K.evaluations == 77 + 40 * 11 + 77
    K.multiply(b[:0], np.ones((3, 0)))
    K.diagonal()
    assert K.evaluations == 77 + 40 * 11 + 77
    view = K.take(np.arange(10, 20))
    assert view.evaluations == 0
    view.multiply(a, np.ones((1, 7)))
    assert view.evaluations == 70 and K.evaluations == 77 + 40 * 11 + 77
    linear = any_matrix("linear", np.float32, False, n=40)
    linear.diagonal(a)
    assert linear.evaluations == 7


# ---- the order of a sum ----------------------------------------------------------------------------------------------


def additions(d, dtype, sparse):
    """Additions, one after the other, that each of `d` terms of a product goes through, read off rounded sums.

    Of ones, a huge number in place i and its opposite in place j, the sum is how many ones are
    added after these two have met; every addition that place i goes through brings it together with
    other indices j.
    """
    X, Z = np.ones((d, d), dtype=dtype), np.ones((d, d), dtype=dtype)
    np.fill_diagonal(X, 2.0**60)
    np.fill_diagonal(Z, -(2.0**60))
    every, after = np.arange(d), np.empty((d, d), dtype=dtype)
    make = _core.Rows32 if dtype is np.float32 else _core.Rows64
    if sparse:
        offsets, columns = d * np.arange(d + 1), np.tile(every, d).astype(np.int32)
        x, z = (make(A.ravel(), offsets, columns, d) for A in (X, Z))
    else:
        x, z = make(X), make(Z)
    _core.block("linear", 0.0, 1, False, -np.inf, x, every, z, every, after, 1)
    return np.array([len(np.unique(np.delete(row, i))) for i, row in enumerate(after)])


@every_instruction_set
@pytest.mark.parametrize("dtype", FORMS)
@pytest.mark.parametrize("d", [1, 2, 15, 16, 17, 33, 48, 70, 123, 350])
def test_sums_are_as_long_as_the_rounding_rule_takes_them(d, dtype, instructions):
    with using(instructions):
        dense, sparse = additions(d, dtype, False), additions(d, dtype, True)
    assert dense.max() + 1 == _core.longest_sum(d)  # the product is rounded, too
    # one chain up to 64 numbers, eight parts of columns beyond
    assert sparse.max() + 1 == (d if d <= 64 else math.ceil(d / 8) + 7)
    # parts of at most 16 features, none longer than it must be, which are added up: 37 where one
    # chain has 350
    parts = math.ceil(d / 16)
    assert dense.max() + 1 == math.ceil(d / parts) + parts - 1


# ---- bounds of rounding ----------------------------------------------------------------------------------------------


@every_kernel
@every_instruction_set
@pytest.mark.parametrize("storage", ["float64", "csr int32"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e2])
def test_products_err_by_no_more_than_their_bound(name, instructions, storage, scale):
    """Of rows far from the origin and coefficients that cancel; the bound is within a few thousand times the error."""
    rng = np.random.default_rng(0)
    X = store(scale * (rng.normal(size=(300, 7)) + 3), storage)
    kernel = Kernel(name, gamma=0.1 / scale ** (1 if name == "laplacian" else 2), degree=3, coef0=1.0)
    c, columns = rng.normal(size=(2, 200)) * [[1.0], [1e6]], np.arange(100, 300)
    c -= c.mean(axis=1, keepdims=True)
    with using(instructions):
        K = matrix(X, kernel).in_float64()
        found, bound = K.multiply(columns, c), K.product_errors(columns, c)
    errors = np.abs(found - np.asarray((exact(X, X, kernel)[:, columns] @ c.T).T))
    assert (errors <= bound).all() and bound.max() < 1e5 * errors.max()
    assert_allclose(K.product_sizes(columns, c) * K.rounding(len(columns)) * K.row_sizes[7], bound[:, 7], rtol=1e-12)
    assert_allclose(K.row_sizes**2, np.diagonal(np.abs(exact(X, X, kernel))).astype(float), rtol=1e-9)


@pytest.mark.parametrize(
    "kernel", [Kernel("linear"), Kernel("poly", gamma=0.3, degree=2, coef0=1.0)], ids=lambda k: k.name
)
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_accurate_products_are_those_of_extended_precision(kernel, offset):
    rng = np.random.default_rng(0)
    X, c = 100 + rng.normal(size=(50, 3)), 1e6 * rng.normal(size=(2, 50))
    c -= c.mean(axis=1, keepdims=True)
    K = KernelMatrix(replace(RowTransform.fit(X, kernel).in_float64(), offset=offset), X)
    every = np.arange(50)
    reference = np.asarray(((exact(X, X, kernel) + offset) @ c.T.astype(np.longdouble)).T, dtype=float)
    if kernel.name == "linear":
        weights = K.weights(every, c)
        errors = K.score_errors(weights, every, c)
        assert (np.abs(K.scores(weights) - reference) <= errors + 1e-11).all()
        assert errors.max() < 1e-3 * K.product_errors(every, c).max()
    else:
        found = K.accurate_products(every, c)
        assert_allclose(found, reference, rtol=1e-9)
        assert K.accurate_product_errors(every, c, found).max() < 1e-3 * K.product_errors(every, c).max()
    assert np.abs(K.multiply(every, c) - reference).max() > 1e-9  # which needs it
