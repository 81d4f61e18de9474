"""Kernel values for every kernel, storage and instruction set: right, and the same wherever computed."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_reference import (
    COLUMNS,
    FORMS,
    STORAGES,
    any_matrix,
    error,
    every,
    every_instruction_set,
    every_kernel,
    exact,
    matrix,
    store,
    using,
)
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel

from dimargin import _core
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.user import UserKernel, kernel_matrix

# The tile has 4 or 8 rows, and parts of sums have 16 features.
ROWS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 17])
FEATURES = st.sampled_from([1, 2, 3, 15, 16, 17, 31, 32, 33, 70])


@pytest.mark.slow_after(1)
@every_instruction_set
@every_kernel
@given(
    n=ROWS,
    m=COLUMNS,
    d=FEATURES,
    storage=st.sampled_from(STORAGES),
    log_gamma=st.floats(-4, 1),
    degree=st.integers(1, 9),
    coef0=st.floats(0, 2),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=40)
def test_values(name, instructions, n, m, d, storage, log_gamma, degree, coef0, seed):
    rng = np.random.default_rng(seed)
    # a third of the entries and the first row are empty
    X, Q = (store(rng.normal(size=(k, d)) * (rng.random((k, d)) < 0.7) * (np.arange(k) > 0)[:, None], storage)
            for k in (m, n))  # fmt: skip
    kernel = Kernel(name, 10.0**log_gamma, degree, coef0)
    with using(instructions):
        K = matrix(X, kernel, queries=Q)
        both = matrix(sp.vstack([X, Q], "csr") if sp.issparse(X) else np.vstack([X, Q]), kernel)
        queries, columns = m + np.arange(n), np.arange(m)
        assert K.shape == (n, m)
        assert error(both, both.block(queries, columns), exact(Q, X, kernel)) <= 1e-5
        assert error(both, every(K), exact(Q, X, kernel)) <= 1e-5
        double = both.in_float64()
        assert error(both, double.block(queries, columns), exact(Q, X, kernel)) <= 1e-12


@every_instruction_set
def test_the_exponential_itself_is_precise(instructions):
    X = np.linspace(-1, 1, 301)[:, None]
    kernel = Kernel("rbf", 0.7)
    with using(instructions):
        K = matrix(X, kernel)
        assert not K.double
        assert error(K, every(K), exact(X, X, kernel)) <= 5e-7
        assert error(K, every(K.in_float64()), exact(X, X, kernel)) <= 1e-15


@every_instruction_set
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_of_far_rows_are_zero(name, dtype, instructions):
    """Exponents far below the least one, too, whose bits mean nothing."""
    exponents = np.arange(5000)
    points = exponents if name == "laplacian" else np.sqrt(2 * exponents)  # as the core takes them: 2^-d, 2^(-d^2 / 2)
    rows = (_core.Rows32 if dtype is np.float32 else _core.Rows64)(points[:, None].astype(dtype))
    values = np.empty((1, len(points)), dtype=dtype)
    with using(instructions):
        _core.block(name, 0.0, 1, True, -np.inf, rows, exponents[:1], rows, exponents, values, 1)
    least = -np.finfo(dtype).minexp
    near, far = exponents < least, exponents > least  # the least itself may be rounded to either side
    np.testing.assert_allclose(
        values[0, near], np.ldexp(1.0, -exponents[near]), rtol=1e-4 if dtype is np.float32 else 1e-12
    )
    assert (values[0, far] == 0).all()


@pytest.mark.parametrize("storage", STORAGES)
def test_conventions_are_those_of_scikit_learn(storage):
    X = np.random.default_rng(0).normal(size=(20, 5))
    for kernel, theirs in [
        (Kernel("linear"), linear_kernel(X)),
        (Kernel("poly", 0.3, 4, 1.5), polynomial_kernel(X, gamma=0.3, degree=4, coef0=1.5)),
        (Kernel("rbf", 0.3), rbf_kernel(X, gamma=0.3)),
        (Kernel("laplacian", 0.3), laplacian_kernel(X, gamma=0.3)),
    ]:
        np.testing.assert_allclose(every(matrix(store(X, storage), kernel)), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("user", [False, True])
def test_an_offset_is_on_every_value(name, user):
    X = np.random.default_rng(0).normal(size=(40, 3))
    transform = UserKernel(lambda a, b: np.asarray(a @ b.T)) if user else RowTransform.fit(X, Kernel(name, gamma=0.5))
    plain, raised = (kernel_matrix(replace(transform, offset=offset), X) for offset in (0.0, 2.5))
    every, some = np.arange(40), np.arange(7)
    coefficients = np.random.default_rng(1).normal(size=(2, 7))
    np.testing.assert_allclose(raised.values(every, some), plain.values(every, some) + 2.5, rtol=1e-6)
    np.testing.assert_allclose(raised.diagonal(), plain.diagonal() + 2.5, rtol=1e-6)
    expected = plain.multiply(some, coefficients) + 2.5 * coefficients.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(raised.multiply(some, coefficients), expected, atol=1e-5)
    np.testing.assert_allclose(
        raised.take(some).in_float64().block(some, some), plain.block(some, some) + 2.5, rtol=1e-5
    )


# ---- one value per pair, wherever it is computed ---------------------------------------------------------------------


@every_instruction_set
@every_kernel
@pytest.mark.parametrize("dtype", FORMS)
@pytest.mark.parametrize(
    "sparse, d, scale",
    # half of the rows of the third have more than 64 numbers; the last computes rbf by differences
    [(False, 37, 0.6), (True, 37, 0.6), (True, 128, 0.6), (False, 37, 37.0)],
)
def test_a_value_depends_on_its_pair_alone(name, dtype, sparse, d, scale, instructions):
    rng = np.random.default_rng(0)
    with using(instructions):
        K = any_matrix(name, dtype, sparse, n=600, d=d, scale=scale)
        assert name != "rbf" or dtype is np.float64 or K.transform.difference == (scale > 1)
        whole = every(K)
        np.testing.assert_array_equal(whole, whole.T)
        if K.transform.kernel.stationary:
            assert (whole.diagonal() == 1).all() and whole[0, 300] == 1
            assert (whole <= 1).all()
        for size in (1, 2, 5, 33, 64, 523):
            i, j = rng.integers(600, size=(2, size))
            np.testing.assert_array_equal(K.block(i, j), whole[np.ix_(i, j)])
            view = K.take(i)
            np.testing.assert_array_equal(every(view), whole[np.ix_(i, i)])
            queries = KernelMatrix(K.transform, K.rows(j), queries=K.rows(i))
            np.testing.assert_array_equal(every(queries), whole[np.ix_(i, j)])


@every_instruction_set
@pytest.mark.parametrize("difference", [False, True])
def test_both_forms_of_rbf_are_symmetric(difference, instructions):
    X = np.random.default_rng(0).normal(size=(90, 50))
    X[7] = X[80]
    transform = RowTransform.fit(X, Kernel("rbf", 1.0 if difference else 0.02))
    assert transform.difference == difference and transform.dtype is np.float32
    with using(instructions):
        values = every(KernelMatrix(transform, X))
    np.testing.assert_array_equal(values, values.T)
    assert (values.diagonal() == 1).all() and values[7, 80] == 1


@pytest.mark.slow_after(16)
@every_instruction_set
@every_kernel
@pytest.mark.parametrize("longest", [10, 25, 60, 200])
def test_equal_numbers_are_counted_to_the_values_that_they_are_summed_to(name, longest, instructions):
    rng = np.random.default_rng(longest)
    lengths = rng.integers(longest + 1, size=400)
    columns = np.concatenate([np.sort(rng.permutation(220)[:length]) for length in lengths])
    X = sp.csr_array((np.full(len(columns), 0.3), columns, np.append(0, lengths.cumsum())), shape=(400, 220))
    other = sp.csr_array(([0.2], [7], [0, 1]), shape=(1, 220))
    transform = RowTransform.fit(X, Kernel(name, 0.02, 3, 0.7))
    assert transform.dtype is np.float32
    with using(instructions):
        counted, summed = KernelMatrix(transform, X), KernelMatrix(transform, sp.vstack([X, other], "csr"))
        rows = np.arange(400)
        np.testing.assert_array_equal(every(counted), summed.block(rows, rows))
        assert error(counted, every(counted), exact(X, X, transform.kernel)) <= 1e-5
        coefficients = rng.normal(size=(2, 400))
        np.testing.assert_array_equal(counted.multiply(rows, coefficients), summed.multiply(rows, coefficients, rows))


@pytest.mark.slow_after(1)
@every_instruction_set
@every_kernel
@pytest.mark.parametrize("dtype", FORMS)
@pytest.mark.parametrize("sparse", [False, True])
def test_threads_do_not_change_a_bit(name, dtype, sparse, instructions):
    with using(instructions):
        # enough work for several threads: the core uses as many as pay
        one, *others = (any_matrix(name, dtype, sparse, n=820, d=150, n_threads=k) for k in (1, 2, 3, 5))
        columns = np.arange(5, 815)
        coefficients = np.random.default_rng(1).normal(size=(2, len(columns)))
        for other in others:
            np.testing.assert_array_equal(other.multiply(columns, coefficients), one.multiply(columns, coefficients))
            np.testing.assert_array_equal(other.block(columns, columns), one.block(columns, columns))
            # few rows and many columns: threads take panels then
            np.testing.assert_array_equal(other.block(columns[::2], columns), one.block(columns[::2], columns))
            stored, slots = one.values(columns, np.tile(columns, 20)), np.arange(len(columns))
            combined = [k.combine(stored, slots, coefficients) for k in (one, other)]
            np.testing.assert_array_equal(*combined)


@pytest.mark.slow_after(1)
@every_instruction_set
@pytest.mark.parametrize("longest", [30, 150])  # one sort of columns, or both: in parts where both rows are long
def test_sparse_columns_of_several_batches(longest, instructions):
    """Rows of few features out of many: panels fill the room of a batch long before they are as many as it may have."""
    rng, n = np.random.default_rng(0), 1500
    lengths = rng.integers(longest, size=n)
    columns = np.concatenate([np.sort(rng.permutation(3000)[:length]) for length in lengths])
    X = sp.csr_array((rng.normal(size=len(columns)), columns, np.append(0, lengths.cumsum())), shape=(n, 3000))
    kernel, rows, some = Kernel("rbf", 0.01), np.arange(n), np.arange(7, 1207, 3)
    coefficients = rng.normal(size=(2, n))
    want = np.exp(-0.01 * cdist(X.toarray(), X.toarray(), "sqeuclidean"))  # in float64, which is quick
    with using(instructions):
        for K in (matrix(X, kernel, n_threads=k) for k in (1, 3)):
            values = K.block(rows, rows)
            assert error(K, values, want) <= 1e-5
            np.testing.assert_array_equal(K.block(some, rows), values[some])
            np.testing.assert_array_equal(K.block(rows, some), values[:, some])
            np.testing.assert_allclose(K.multiply(rows, coefficients), coefficients @ values, rtol=1e-4, atol=1e-3)


# ---- views, and rows that face others --------------------------------------------------------------------------------


@every_kernel
@pytest.mark.parametrize("sparse", [False, True])
def test_views_know_their_rows(name, sparse):
    K = any_matrix(name, np.float32, sparse)
    index = np.array([69, 3, 35, 0])
    for view in (K.take(index), K.take(index).in_float64(), K.take(index[::-1]).take(np.arange(3, -1, -1))):
        rows, want = view.rows(np.array([1, 3])), K.rows(np.array([3, 0]))
        assert abs(rows - want).max() == 0
        np.testing.assert_allclose(view.diagonal(), every(view).diagonal(), rtol=1e-5)
    assert K.take(index).in_float64().double and not K.double


@every_kernel
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_sizes_follow_the_rows_of_a_view(name, offset):
    X = np.random.default_rng(0).normal(size=(20, 3))
    transform = replace(RowTransform.fit(X, Kernel(name, gamma=0.5)), offset=offset)
    K, sizes = KernelMatrix(transform, X), transform.sizes(X)
    if name == "linear" and not offset:
        assert_allclose(sizes, np.linalg.norm(X, axis=1), rtol=1e-6)
    part, others = K.take(np.array([7, 2, 11])), K.take(np.array([3, 1]))
    faced = part.facing(others, 1)
    for found in (part.row_sizes, part.column_sizes, faced.column_sizes):
        np.testing.assert_array_equal(found, sizes[[7, 2, 11]])
    for found in (faced.row_sizes, faced.transposed().column_sizes):
        np.testing.assert_array_equal(found, sizes[[3, 1]])


@every_kernel
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("travelled", [False, True])
def test_some_training_rows_face_others(name, sparse, travelled):
    K = any_matrix(name, np.float32, sparse)
    columns, rows = np.array([69, 3, 35, 0, 7]), np.array([2, 64, 1])
    some, others = K.take(columns), K.take(rows)
    if travelled:
        some, others = pickle.loads(pickle.dumps(some, 5)), pickle.loads(pickle.dumps(others, 5))
    for asked, whole in ((some, K), (some.in_float64(), K.in_float64())):
        facing = asked.facing(others, 2)
        assert (facing.shape, facing.n_threads, facing.double) == ((3, 5), 2, whole.double)
        np.testing.assert_array_equal(every(facing), whole.block(rows, columns))
        assert (facing.evaluations, asked.evaluations, others.evaluations) == (15, 0, 0)
        coefficients = np.random.default_rng(0).normal(size=(2, 5))
        expected = whole.multiply(columns, coefficients, rows)
        np.testing.assert_array_equal(facing.multiply(np.arange(5), coefficients), expected)
        np.testing.assert_array_equal(facing.diagonal(), whole.diagonal(columns))
        swapped = facing.transposed()
        assert swapped.shape == (5, 3) and swapped.evaluations == 0
        np.testing.assert_array_equal(swapped.block(np.arange(5), np.arange(3)), whole.block(columns, rows))
        assert abs(swapped.rows(np.arange(3)) - K.rows(rows)).max() == 0
        again = pickle.loads(pickle.dumps(facing, 5))
        assert again.shape == (3, 5) and again.evaluations == 0
        np.testing.assert_array_equal(every(again), whole.block(rows, columns))


@pytest.mark.parametrize("beforehand", [False, True])
def test_rows_with_a_users_kernel_face_others(beforehand):
    X = np.random.default_rng(0).normal(size=(20, 3))
    values = X @ X.T
    given = UserKernel(None) if beforehand else UserKernel(lambda a, b: a @ b.T)
    K = kernel_matrix(given, values if beforehand else X)
    columns, rows = np.array([9, 3, 15]), np.array([2, 11])
    facing = K.take(columns).facing(K.take(rows), 2)
    np.testing.assert_allclose(every(facing), values[np.ix_(rows, columns)])
    assert (facing.shape, facing.n_threads, facing.evaluations) == ((2, 3), 2, 6)
    swapped = facing.transposed()
    np.testing.assert_allclose(swapped.block(np.arange(3), np.arange(2)), values[np.ix_(columns, rows)])
    # a model keeps rows, but none of values computed beforehand, which have no features
    vectors = K.take(columns).vectors(np.array([1, 2]))
    np.testing.assert_array_equal(vectors, X[[3, 15], :0] if beforehand else X[[3, 15]])


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "offsets, columns", [([0, 1, 3], [0, 1]), ([0, 2, 1], [0, 1]), ([0, 1, 2], [0, 3]), ([0, 1, 2], [-1, 1])]
)
def test_damaged_sparse_rows_are_refused(offsets, columns):
    with pytest.raises(ValueError, match="sparse rows are out of range"):
        _core.Rows64(np.ones(2), np.array(offsets), np.array(columns, dtype=np.int32), 3)


def test_the_core_refuses_arrays_that_do_not_fit():
    rows, index = _core.Rows32(np.ones((3, 2), dtype=np.float32)), np.arange(3)
    for out in (np.zeros((3, 2), dtype=np.float32), np.zeros((3, 3))):
        with pytest.raises((ValueError, TypeError)):
            _core.block("linear", 0.0, 1, False, -np.inf, rows, index, rows, index, out, 1)
    with pytest.raises(IndexError):
        _core.block(
            "linear", 0.0, 1, False, -np.inf, rows, index + 1, rows, index, np.zeros((3, 3), dtype=np.float32), 1
        )
    with pytest.raises(ValueError, match="not available"):
        _core.use_instruction_set("abacus")
