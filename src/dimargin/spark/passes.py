"""Two passes over a data file on the executors: a summary of all rows, and the rows ready for training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.io.data import DataFileError
from dimargin.io.data.libsvm import DENSE
from dimargin.spark.arrow import lists_of
from dimargin.spark.columns import FEATURES, LABEL, MAX_CLASSES, WEIGHT
from dimargin.spark.formats import Format, Parsed
from dimargin.spark.scaling import ColumnSums
from dimargin.system.arrays import Indices


@dataclass(frozen=True)
class FileSummary:
    """Summary of some rows."""

    n_rows: int
    labels: NDArray[Any]  # Labels as in the file, ascending.
    n_stored: int  # Number of values that are not zero.
    first: int  # First column that occurs, numbered as in the file.
    last: int  # Last column that occurs, numbered as in the file.
    sums: ColumnSums | None

    @classmethod
    def of(cls, parsed: Parsed, sums: type[ColumnSums] | None) -> FileSummary:
        """Summarise the rows of a batch."""
        X = parsed.X
        first, last, n_stored = 0, X.shape[1] - 1, X.size
        if sp.issparse(X):
            first, last = (int(X.indices.min()), int(X.indices.max())) if X.nnz else (np.iinfo(np.int32).max, 0)
            # Explicit zeros are counted as on one computer, where such chunks of a file become
            # dense.
            n_stored = np.count_nonzero(X.data) if X.nnz >= DENSE * X.shape[0] * X.shape[1] else X.nnz
        return cls(X.shape[0], np.unique(parsed.labels), n_stored, first, last, None if sums is None else sums.of(X))

    @staticmethod
    def joined(path: str, one: FileSummary, other: FileSummary) -> FileSummary:
        """Join two summaries; raises DataFileError for too many labels."""
        labels = np.unique(np.concatenate([one.labels, other.labels]))
        if len(labels) > MAX_CLASSES:
            raise DataFileError(f"{path} has more than {MAX_CLASSES} different labels; which column holds them?")
        sums = None if one.sums is None or other.sums is None else one.sums.joined(other.sums)
        return FileSummary(
            one.n_rows + other.n_rows, labels, one.n_stored + other.n_stored, min(one.first, other.first),
            max(one.last, other.last), sums,
        )  # fmt: skip


def summarise(batches: Iterator[pa.RecordBatch], value: tuple[Format, type[ColumnSums] | None]) -> FileSummary | None:
    """Task that summarises a partition of the file; None if it has no rows."""
    form, sums = value
    parts = (FileSummary.of(parsed, sums) for parsed in map(form.rows, batches) if parsed is not None)
    found: FileSummary | None = next(parts, None)
    return None if found is None else reduce(partial(FileSummary.joined, form.path), parts, found)


@dataclass(frozen=True)
class BatchParser:
    """Parser of batches into scaled rows and indices of their classes."""

    format: Format
    labels: NDArray[Any]  # Labels as in the file, ascending.
    indices: Indices  # Indices of these labels among the classes.
    base: int  # Number of the first feature.
    width: int
    sparse: bool
    scaler: Any  # Fitted transformer, or None.

    def features(self, X: Any) -> Any:
        """Return scaled rows of width `width`."""
        if sp.issparse(X):
            columns = X.indices - self.base
            if len(columns) and not 0 <= columns.min() <= columns.max() < self.width:
                raise self._changed("features")
            X = sp.csr_array((X.data, columns, X.indptr), shape=(X.shape[0], self.width))
            X = X if self.sparse else X.toarray()
        return X if self.scaler is None else self.scaler.transform(X)

    def codes(self, parsed: Parsed) -> Indices:
        """Return the indices of the rows' labels among the classes."""
        at = np.minimum(np.searchsorted(self.labels, parsed.labels), len(self.labels) - 1)
        if not np.array_equal(self.labels[at], parsed.labels):
            raise self._changed("labels")
        codes: Indices = self.indices[at][parsed.indices]
        return codes

    def _changed(self, what: str) -> DataFileError:
        return DataFileError(f"{self.format.path} changed while it was read: it has new {what}")


def prepared(parser: BatchParser, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches of the columns `FEATURES` (vectors for sparse rows, else arrays), `LABEL` and `WEIGHT`."""
    for parsed in map(parser.format.rows, batches):
        if parsed is not None:
            X, label = parser.features(parsed.X), parser.codes(parsed).astype(np.float64)
            features = _vectors(X) if parser.sparse else lists_of(np.arange(len(X) + 1) * X.shape[1], X.ravel())
            weights = {} if parsed.weights is None else {WEIGHT: pa.array(parsed.weights)}
            yield pa.record_batch({FEATURES: features, LABEL: pa.array(label), **weights})


def _vectors(X: Any) -> pa.StructArray:
    """Return sparse rows in Spark's representation of vectors."""
    n_rows, n_features = X.shape
    parts = [
        pa.array(np.zeros(n_rows, dtype=np.int8)), pa.array(np.full(n_rows, n_features, dtype=np.int32)),
        lists_of(X.indptr, X.indices.astype(np.int32)), lists_of(X.indptr, X.data),
    ]  # fmt: skip
    return pa.StructArray.from_arrays(parts, ["type", "size", "indices", "values"])
