"""Vectorised conversion between Arrow batches and rows on executors; errors name column and row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.spark.columns import FEATURES, ID, LABEL, WEIGHT, Columns
from dimargin.system.arrays import Floats

RowName = Callable[[int], str]


class Rows(NamedTuple):
    """Rows of a batch."""

    X: Any  # Ndarray or CSR array of shape (n, n_features), float32 if the column is, else float64; may be read-only.
    labels: Floats | None  # Labels, weights and ids have shape (n,).
    weights: Floats | None
    ids: NDArray[Any] | None  # Integers (int64), or strings as objects.


def rows_of(batch: pa.RecordBatch, columns: Columns, sparse: bool | None = None) -> Rows:
    """Return the rows of a batch of `Columns.select`.

    The names of the columns are used in messages. If `Columns.n_features` is given, every row must
    have that number of features. X is sparse if `sparse` is true; by default if the batch has
    sparse vectors and is smaller that way, by Spark's rule.

    Raises
    ------
    ValueError
        For a null, a value that is not finite, a negative weight, or rows with another number of
        features.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"features": [[1.0, 2.0], [0.0, 3.0]], "label": [1.0, 0.0]})
    >>> rows = rows_of(batch, Columns("features", "label"))
    >>> rows.X.shape, rows.labels.tolist(), rows.weights
    ((2, 2), [1.0, 0.0], None)
    """
    ids, name = None, cast(RowName, in_batch)
    if columns.id is not None:
        _refuse_nulls(batch.column(ID), columns.id, name)
        ids, name = batch.column(ID).to_numpy(zero_copy_only=False), names_by(batch.column(ID))
    labels = None if columns.label is None else _numbers(batch.column(LABEL), columns.label, name)
    weights = None if columns.weight is None else _numbers(batch.column(WEIGHT), columns.weight, name)
    if weights is not None:
        _refuse(weights < 0, columns.weight, "is negative", name)
    return Rows(features_of(batch.column(FEATURES), columns, sparse, name), labels, weights, ids)


def in_batch(row: int) -> str:
    """Name a row of a batch by its position."""
    return f"row {row} of a batch"


def names_by(ids: pa.Array) -> RowName:
    """Return the function that names a row of a batch by its id, or by its position if the id is null."""
    return lambda row: f"the row with id {ids[row].as_py()!r}" if ids[row].is_valid else in_batch(row)


def features_of(features: pa.Array, columns: Columns, sparse: bool | None = None, name: RowName = in_batch) -> Any:
    """Return the features of rows in an Arrow array of structs (vectors) or of lists; see `rows_of`."""
    called = columns.features if isinstance(columns.features, str) else "featuresCols"
    _refuse_nulls(features, called, name)
    vectors = pa.types.is_struct(features.type)
    lists = features.field("values") if vectors else features
    lengths = pc.list_value_length(lists).to_numpy().astype(np.int64)
    # In pyspark.ml.linalg.VectorUDT, dense vectors have type 1 and sparse ones type 0.
    stored = features.field("type").to_numpy() != 1 if vectors else np.zeros(len(features), dtype=bool)
    sizes = np.where(stored, features.field("size").fill_null(0).to_numpy(), lengths) if vectors else lengths
    n_rows, n_features = len(features), _number_of_features(sizes, columns, called, name)
    values = lists.flatten()
    indptr = np.concatenate([[0], np.cumsum(lengths)])

    def position(k: int) -> tuple[int, int]:
        row = int(np.searchsorted(indptr, k, side="right")) - 1
        return row, int(k - indptr[row] if indices is None else indices[k])

    indices = _indices(features.field("indices"), stored, lengths, n_features, called, name) if stored.any() else None
    if values.null_count:
        _refuse_value(*position(_first_true(values.is_null().to_numpy(zero_copy_only=False))), "null", columns, name)
    data = values.to_numpy()
    if not np.isfinite(data).all():
        k = _first_true(~np.isfinite(data))
        _refuse_value(*position(k), "NaN" if np.isnan(data[k]) else "infinity", columns, name)
    if sparse is None:
        sparse = indices is not None and 1.5 * (len(data) + n_rows) < n_rows * n_features
    if indices is None:
        X = data.reshape(n_rows, n_features)
        return sp.csr_array(X) if sparse else X
    if sparse:
        return sp.csr_array((data, indices, indptr), shape=(n_rows, n_features))
    X = np.zeros((n_rows, n_features))
    X[np.repeat(np.arange(n_rows), lengths), indices] = data
    return X


def lists_of(bounds: NDArray[Any], values: NDArray[Any]) -> pa.ListArray:
    """Return an Arrow array of lists, of the values between each two consecutive bounds."""
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(values))


def _indices(
    lists: pa.Array, stored: NDArray[Any], lengths: NDArray[Any], n_features: int, column: str, name: RowName
) -> NDArray[np.int32]:
    """Return the columns of all values, generated for dense vectors, which store none."""
    given = pc.list_value_length(lists).fill_null(0).to_numpy()
    fault = "is a sparse vector with different numbers of indices and values"
    _refuse(stored & (given != lengths), column, fault, name)
    indices = np.empty(int(lengths.sum()), dtype=np.int32)
    own = np.repeat(stored, lengths)
    indices[own] = lists.flatten().to_numpy()
    indices[~own] = np.tile(np.arange(n_features, dtype=np.int32), np.count_nonzero(~stored))
    outside = (indices < 0) | (indices >= n_features)
    if outside.any():
        row = int(np.searchsorted(np.cumsum(lengths), _first_true(outside), side="right"))
        raise ValueError(f"column {column!r} has an index outside its size {n_features} in {name(row)}")
    return indices


def _number_of_features(sizes: NDArray[Any], columns: Columns, called: str, name: RowName) -> int:
    n_features = columns.n_features
    if n_features is None:
        n_features = int(sizes[0]) if len(sizes) else 0
    if (sizes != n_features).any():
        row = _first_true(sizes != n_features)
        raise ValueError(f"column {called!r} has {sizes[row]} features in {name(row)}, expected {n_features}")
    return n_features


def _numbers(array: pa.Array, column: str, name: RowName) -> Floats:
    _refuse_nulls(array, column, name)
    values: Floats = array.to_numpy()
    _refuse(~np.isfinite(values), column, "is not finite", name)
    return values


def _refuse_nulls(array: pa.Array, column: str, name: RowName) -> None:
    if array.null_count:
        _refuse(array.is_null().to_numpy(zero_copy_only=False), column, "is null", name)


def _refuse(bad: NDArray[Any], column: str | None, what: str, name: RowName) -> None:
    if bad.any():
        raise ValueError(f"column {column!r} {what} in {name(_first_true(bad))}; drop or correct such rows first")


def _refuse_value(row: int, feature: int, what: str, columns: Columns, name: RowName) -> None:
    many = isinstance(columns.features, tuple)
    where = f"column {columns.features[feature]!r}" if many else f"column {columns.features!r}, feature {feature},"
    raise ValueError(f"{where} is {what} in {name(row)}; impute or drop such rows first")


def _first_true(bad: NDArray[Any]) -> int:
    return int(np.argmax(bad))
