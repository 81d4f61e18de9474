"""Kernels that are local on the data: negligible values are zero wherever they are asked for, and few are computed."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_reference import every_instruction_set, exact, matrix, using
from numpy.testing import assert_array_equal
from scipy.spatial.distance import cdist

from dimargin import SVMClassifier
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.user import UserKernel, kernel_matrix

NEGLIGIBLE = {np.float32: 2.0**-40, np.float64: 2.0**-69}
RBF = Kernel("rbf", gamma=1.0)


def local(X, kernel, dtype=np.float32, n_threads=1):
    """A matrix of few rows that is local by decree."""
    transform = RowTransform.fit(X, kernel)
    if dtype is np.float64:
        transform = transform.in_float64()
    K = KernelMatrix(transform, X, n_threads=n_threads)
    K.local = True
    return K


def groups(n, d, reach, rng):
    """Rows in tight groups, group after group, whose distances spread around those of negligible values."""
    centres = rng.normal(size=(-(-n // 8), d)) * reach / np.sqrt(2 * d)
    return np.repeat(centres, 8, axis=0)[:n] + rng.normal(size=(n, d)) * 0.02 * reach / np.sqrt(d)


@pytest.mark.slow_after(1)
@every_instruction_set
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    name=st.sampled_from(["rbf", "laplacian"]),
    n=st.integers(1, 90),
    m=st.sampled_from([1, 7, 31, 32, 33, 64, 65, 530]),
    d=st.sampled_from([1, 2, 3, 15, 16, 17, 40]),
    factor=st.floats(0.3, 3),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=60)
def test_products_leave_out_what_is_zero_and_nothing_else(instructions, dtype, name, n, m, d, factor, seed):
    rng = np.random.default_rng(seed)
    far = -np.log(NEGLIGIBLE[dtype])  # gamma times a distance
    X = groups(n + m, d, factor * (np.sqrt(far) if name == "rbf" else far / np.sqrt(d)), rng)
    rows, columns = np.arange(n), n + np.arange(m)
    with using(instructions):
        K = local(X, Kernel(name, gamma=1.0), dtype)
        values = K.values(rows, columns)
        each = K.multiply(columns, np.eye(m), rows)  # every output is a column
        assert_array_equal(each, values.T)
    assert 2 * n * m == K.evaluations + K.left_out
    assert 2 * np.count_nonzero(values) <= K.evaluations
    true = exact(X[rows], X[columns], Kernel(name, gamma=1.0))
    assert np.abs(values - true).max() <= 1e-5
    least, kept = NEGLIGIBLE[K.transform.dtype], values > 0  # large rows take float64
    assert (true[kept] > 0.99 * least).all() and (true[~kept] < 1.01 * least).all()


@every_instruction_set
@pytest.mark.parametrize("d", [3, 70])  # by products, and by differences
def test_values_between_far_groups_are_not_computed(instructions, d):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.random((96, d)), 40 + rng.random((160, d))])
    coefficients = rng.normal(size=(2, 256))
    with using(instructions):
        K, plain = local(X, RBF), matrix(X, RBF)
        assert_array_equal(K.multiply(np.arange(256), coefficients), plain.multiply(np.arange(256), coefficients))
        assert K.evaluations == 96**2 + 160**2
        assert K.left_out == 2 * 96 * 160
        every = np.arange(256)
        assert_array_equal(K.values(every, every), plain.values(every, every))
        assert K.evaluations == 2 * (96**2 + 160**2)
    assert plain.left_out == 0 and plain.evaluations == 2 * 256**2


def test_products_do_not_depend_on_the_number_of_threads():
    X = groups(3000, 20, 2 * np.sqrt(28), np.random.default_rng(0))
    K = [local(X, RBF, n_threads=k) for k in (1, 2)]
    one, two = (k.multiply(np.arange(0, 3000, 2), np.ones((1, 1500))) for k in K)
    assert_array_equal(one, two)
    assert K[0].evaluations == K[1].evaluations
    assert 0 < K[0].left_out == K[1].left_out


def many(n=5000, d=3, reach=60.0):
    return groups(n, d, reach, np.random.default_rng(0))


def test_a_kernel_is_local_where_a_quarter_of_its_values_is_negligible():
    X = many()
    negligible = (np.exp(-cdist(X[::10], X[::10], "sqeuclidean")) < 2.0**-40).mean()
    assert negligible > 0.9
    for name, gamma in [("rbf", 1.0), ("laplacian", 1.0)]:
        assert matrix(X, Kernel(name, gamma)).local
        assert not matrix(X, Kernel(name, 1e-3 * gamma)).local
    assert not matrix(X, Kernel("linear")).local
    assert not matrix(X, RBF, queries=X).local  # however far a query is, its nearest support vectors decide
    assert not matrix(X[:4000], RBF).local
    assert not kernel_matrix(UserKernel(np.inner), X).local
    K = matrix(X, RBF)
    assert K.take(np.arange(10)).local and K.in_float64().local and K.in_float64().take(np.arange(10)).local


def test_sparse_rows_are_all_computed():
    K = matrix(sp.csr_array(many()), RBF)
    K.multiply(np.arange(10), np.ones((1, 10)))
    assert not K.local and K.left_out == 0 and K.evaluations == 50_000


def test_a_fit_computes_few_values_and_predicts_far_rows():
    """The nearest support vector decides, at whatever distance: what is negligible in training is not in prediction."""
    X = many()
    y = np.where(X[:, 0] > np.median(X[:, 0]), 1, -1)
    model = SVMClassifier(C=1, fit_intercept=False, gamma=1.0, tol=1e-3).fit(X, y)
    assert model.duality_gap_ <= 1e-3
    assert model.history_[-1]["kernel_evaluations"] < 0.2 * len(X) ** 2
    near = X[np.abs(X[:, 0] - np.median(X[:, 0])) > 12]
    shifted = near + np.where(near[:, :1] > np.median(X[:, 0]), 6.0, -6.0) * np.eye(3)[0]
    values = model.decision_function(shifted)
    assert (np.abs(values) > 0).all() and (np.abs(values) < 2.0**-40).any()
