"""Conversion of Arrow batches to rows on executors, and back, without a loop over rows; errors name column and row."""

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

_DENSE = 1  # the type of a dense vector in pyspark.ml.linalg.VectorUDT; that of a sparse one is 0
RowName = Callable[[int], str]


class Rows(NamedTuple):
    """Rows of a batch."""

    X: Any  # ndarray or CSR array of shape (n, n_features), float32 where the column is, else float64; may be read-only
    labels: Floats | None  # of shape (n,), as the weights and ids
    weights: Floats | None
    ids: NDArray[Any] | None  # int64, or objects that are strings


def rows_of(batch: pa.RecordBatch, columns: Columns, sparse: bool | None = None) -> Rows:
    """Return the rows of a batch of `Columns.select`.

    The names of the columns are for the messages; `Columns.n_features`, where it is given, is what every row must have.
    `sparse` is whether X shall be sparse; by default if a batch with sparse vectors is smaller so, as Spark decides it.

    Raises
    ------
    ValueError
        For a null, a value that is not finite, a negative weight, or rows with another number of features.

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
    """Name a row of a batch by its place."""
    return f"row {row} of a batch"


def names_by(ids: pa.Array) -> RowName:
    """Return the function that names a row of a batch by its key, or by its place where that is null."""
    return lambda row: f"the row with id {ids[row].as_py()!r}" if ids[row].is_valid else in_batch(row)


def features_of(features: pa.Array, columns: Columns, sparse: bool | None = None, name: RowName = in_batch) -> Any:
    """Return the features of rows in an Arrow array of structs (vectors) or of lists; see `rows_of`."""
    called = columns.features if isinstance(columns.features, str) else "featuresCols"
    _refuse_nulls(features, called, name)
    vectors = pa.types.is_struct(features.type)
    lists = features.field("values") if vectors else features
    lengths = pc.list_value_length(lists).to_numpy().astype(np.int64)
    stored = features.field("type").to_numpy() != _DENSE if vectors else np.zeros(len(features), dtype=bool)
    sizes = np.where(stored, features.field("size").fill_null(0).to_numpy(), lengths) if vectors else lengths
    n_rows, n_features = len(features), _number_of_features(sizes, columns, called, name)
    values = lists.flatten()
    indptr = np.concatenate([[0], np.cumsum(lengths)])

    def position(k: int) -> tuple[int, int]:
        row = int(np.searchsorted(indptr, k, side="right")) - 1
        return row, int(k - indptr[row] if indices is None else indices[k])

    indices = _indices(features.field("indices"), stored, lengths, n_features, called, name) if stored.any() else None
    if values.null_count:
        _refuse_value(*position(_first(values.is_null().to_numpy(zero_copy_only=False))), "null", columns, name)
    data = values.to_numpy()
    if not np.isfinite(data).all():
        k = _first(~np.isfinite(data))
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
    """Return an Arrow array of lists of the values between every two bounds that follow one another."""
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(values))


def _indices(
    lists: pa.Array, stored: NDArray[Any], lengths: NDArray[Any], n_features: int, column: str, name: RowName
) -> NDArray[np.int32]:
    """Return the columns of all values; for dense vectors, which store none, they are generated."""
    given = pc.list_value_length(lists).fill_null(0).to_numpy()
    _refuse(stored & (given != lengths), column, "is a sparse vector with more indices than values, or fewer,", name)
    indices = np.empty(int(lengths.sum()), dtype=np.int32)
    own = np.repeat(stored, lengths)
    indices[own] = lists.flatten().to_numpy()
    indices[~own] = np.tile(np.arange(n_features, dtype=np.int32), np.count_nonzero(~stored))
    outside = (indices < 0) | (indices >= n_features)
    if outside.any():
        row = int(np.searchsorted(np.cumsum(lengths), _first(outside), side="right"))
        raise ValueError(f"column {column!r} has an index that is not below its size {n_features} in {name(row)}")
    return indices


def _number_of_features(sizes: NDArray[Any], columns: Columns, called: str, name: RowName) -> int:
    n_features = columns.n_features
    if n_features is None:
        n_features = int(sizes[0]) if len(sizes) else 0
    if (sizes != n_features).any():
        row = _first(sizes != n_features)
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
        raise ValueError(f"column {column!r} {what} in {name(_first(bad))}; drop or mend such rows first")


def _refuse_value(row: int, feature: int, what: str, columns: Columns, name: RowName) -> None:
    many = isinstance(columns.features, tuple)
    where = f"column {columns.features[feature]!r}" if many else f"column {columns.features!r}, feature {feature},"
    raise ValueError(f"{where} is {what} in {name(row)}; impute or drop such rows first")


def _first(bad: NDArray[Any]) -> int:
    return int(np.argmax(bad))
