"""Kernel values in extended precision, and how to ask the package for its own."""

from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import strategies as st

from dimargin import _core
from dimargin.kernels.functions import KERNEL_NAMES, Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform

BEST = _core.instruction_set()
STORAGES = ["float32", "float64", "csr int32", "csr int64"]
every_instruction_set = pytest.mark.parametrize("instructions", _core.instruction_sets())
every_kernel = pytest.mark.parametrize("name", KERNEL_NAMES)
# Numbers of columns around panels of 8 to 32 columns, and chunks of 512.
COLUMNS = st.sampled_from([1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 511, 512, 513, 1030])
FORMS = [np.float32, np.float64]


@contextmanager
def using(instructions):
    _core.use_instruction_set(instructions)
    try:
        yield
    finally:
        _core.use_instruction_set(BEST)


def store(X, storage):
    if not storage.startswith("csr"):
        return X.astype(storage)
    X = sp.csr_array(X)
    index = storage.split()[1]
    return sp.csr_array((X.data, X.indices.astype(index), X.indptr.astype(index)), shape=X.shape)


def exact(X, Z, kernel):
    """Kernel values in extended precision, of the rows as they are stored."""
    X, Z = (np.asarray(A.toarray() if sp.issparse(A) else A, dtype=np.longdouble) for A in (X, Z))
    if kernel.name == "linear":
        return X @ Z.T
    if kernel.name == "poly":
        return (kernel.gamma * (X @ Z.T) + kernel.coef0) ** kernel.degree
    order = {"rbf": 2, "laplacian": 1}[kernel.name]
    return np.exp([-kernel.gamma * (np.abs(x - Z) ** order).sum(axis=1) for x in X])


def error(K, values, reference):
    """Largest error, relative to the largest value that such rows can have where that is not one."""
    kernel, largest = K.transform.kernel, 1.0
    if not kernel.stationary:
        X = K.rows(np.arange(K.shape[1]))
        largest = exact(X, X, Kernel("linear")).diagonal().max()
        if kernel.name == "poly":
            largest = (kernel.gamma * largest + abs(kernel.coef0)) ** kernel.degree
    return float(np.max(np.abs(values - reference)) / (largest or 1.0))


def matrix(X, kernel, **options):
    return KernelMatrix(RowTransform.fit(X, kernel), X, **options)


def any_matrix(name, dtype, sparse, n=70, d=37, seed=0, scale=0.6, **options):
    """A matrix in the given precision, with duplicate rows and an empty one."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    X[n // 2] = X[0]
    X[-1] = 0.0
    rows = sp.csr_array(X) if sparse else X
    transform = RowTransform.fit(rows, Kernel(name, scale / d, 3, 0.7))
    assert transform.dtype is np.float32
    return KernelMatrix(transform if dtype is np.float32 else transform.in_float64(), rows, **options)


def every(K):
    return K.block(*map(np.arange, K.shape))
