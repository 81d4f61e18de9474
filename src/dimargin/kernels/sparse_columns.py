"""Columns of sparse rows that do not occur cost nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def narrowed(X: Any) -> tuple[Any, NDArray[np.int64]]:
    """Rows without the columns in which nothing is stored, where these are the most.

    A line of text may name feature 2,000,000,000; what is computed for every column would then take as many numbers.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, n_features)

    Returns
    -------
    X : ndarray or CSR array of shape (n, n_kept)
        As it is, unless it has more columns than stored values.
    columns : ndarray of shape (n_kept,)
        Which columns these are, ascending; one at least.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> rows, columns = narrowed(sp.csr_array(([1.0, 2.0], ([0, 1], [7, 10**9])), shape=(2, 10**9 + 1)))
    >>> rows.toarray().tolist(), columns.tolist()
    ([[1.0, 0.0], [0.0, 2.0]], [7, 1000000000])
    """
    if not sp.issparse(X) or X.shape[1] <= X.nnz:
        return X, np.arange(X.shape[1])
    columns, places = np.unique(X.indices, return_inverse=True)
    columns = columns.astype(np.int64) if len(columns) else np.zeros(1, dtype=np.int64)
    rows = sp.csr_array((X.data, places.astype(X.indices.dtype), X.indptr), shape=(X.shape[0], len(columns)))
    return rows, columns
