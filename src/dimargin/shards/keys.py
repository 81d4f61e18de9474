"""Keys of rows, by which rows are sampled and dealt independently of their order in the input.

A key is a seeded 64-bit hash of a row's features, label and weight, so that sorting by
keys shuffles the rows: the first m rows are a random sample, and taking every p-th row gives a
random part, on one machine or on a cluster. Equal rows have equal keys: they are interchangeable,
and consecutive, so that a sample has all of them or none.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin import _core
from dimargin.kernels.column_statistics import narrowed
from dimargin.kernels.row_transform import StoredRows
from dimargin.system.arrays import Floats, Indices

Keys = NDArray[np.uint64]

_GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)  # The multiplier is 2^64 over the golden ratio.


def row_keys(X: Any, codes: Indices, weights: Floats, random_state: int) -> Keys:
    """Return the keys of rows.

    Zero features add nothing, so that sparse and dense rows of the same values, in float32 or
    float64, have the same keys.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, n_features)
        Rows of finite numbers; sparse ones without duplicates.
    codes : ndarray of shape (n,)
        Indices of the labels among the classes.
    weights : ndarray of shape (n,)
        Weights of the rows, before multiplication by class weights.
    random_state : int
        Seed of the order.

    Returns
    -------
    ndarray of shape (n,), of uint64

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> X, codes = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0]]), np.array([1, 0, 1])
    >>> keys = row_keys(X, codes, np.ones(3), 0)
    >>> bool(keys[0] == keys[2] != keys[1]), bool((keys == row_keys(sp.csr_array(X), codes, np.ones(3), 0)).all())
    (True, True)
    """
    X, indices = narrowed(X)
    columns, keys = (indices + 1).astype(np.uint64) * _GOLDEN_RATIO, np.empty(X.shape[0], dtype=np.uint64)
    _core.mix(columns)
    _core.hash_rows(StoredRows(X).core, columns, keys)
    bits = (np.asarray(weights, dtype=np.float64) + 0.0).view(np.uint64)  # Adding 0.0 removes -0.0.
    for number in (codes.astype(np.uint64), bits, np.uint64(random_state)):
        keys = keys * _GOLDEN_RATIO ^ number
        _core.mix(keys)
    return keys


def order_of_keys(X: Any, codes: Indices, weights: Floats, random_state: int) -> Indices:
    """Return the indices of the rows in the order of their keys; see `row_keys`."""
    return np.argsort(row_keys(X, codes, weights, random_state), kind="stable")


def keys_of_ids(ids: NDArray[Any], random_state: int) -> Keys:
    """Return the keys of rows with identifiers, which are whole numbers or strings.

    Examples
    --------
    >>> import numpy as np
    >>> keys = keys_of_ids(np.array([3, 1, 3]), 0)
    >>> bool(keys[0] == keys[2] != keys[1])
    True
    """
    if ids.dtype.kind in "iu":
        keys = ids.astype(np.uint64)
    else:
        digests = (blake2b(str(one).encode(), digest_size=8).digest() for one in ids)
        keys = np.frombuffer(b"".join(digests), dtype="<u8").copy()
    keys = keys * _GOLDEN_RATIO ^ np.uint64(random_state)
    _core.mix(keys)
    return keys
