"""Keys of rows: what sampling and dealing go by, so that they do not depend on the order in which rows were given.

A key is a seeded 64-bit hash of a row's features, label and weight, which sorts rows at random: the first m rows in the
order of their keys are a random sample, and every p-th of them a random part, on one machine or on a cluster, wherever
the rows are. Equal rows have equal keys, and may change places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin import _core
from dimargin.rows import Floats, StoredRows

Keys = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def row_keys(X: Any, y: NDArray[np.int64], weights: Floats, random_state: int) -> Keys:
    """Keys of rows.

    Features that are zero add nothing, so that sparse and dense rows of the same values, float32 or float64, have the
    same keys.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, n_features)
        Finite; sparse rows without duplicates.
    y : ndarray of shape (n,)
        Places of the labels among the classes.
    weights : ndarray of shape (n,)
    random_state : int
        Other seeds, other orders.

    Returns
    -------
    ndarray of shape (n,), of uint64

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> X, y = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0]]), np.zeros(3, dtype=np.int64)
    >>> keys = row_keys(X, y, np.ones(3), 0)
    >>> bool(keys[0] == keys[2] != keys[1]), bool((keys == row_keys(sp.csr_array(X), y, np.ones(3), 0)).all())
    (True, True)
    """
    columns = _mixed(np.arange(1, X.shape[1] + 1, dtype=np.uint64) * _GOLDEN)
    keys = np.empty(X.shape[0], dtype=np.uint64)
    _core.hash_rows(StoredRows(X).core, columns, keys)
    bits = (np.asarray(weights, dtype=np.float64) + 0.0).view(np.uint64)
    for number in (y.astype(np.uint64), bits, np.uint64(random_state)):
        keys = _mixed(keys * _GOLDEN ^ number)
    return keys


def _mixed(numbers: Keys) -> Keys:
    """Every bit of the answer depends on all (the finaliser of splitmix64: Steele, Lea and Flood, OOPSLA 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
