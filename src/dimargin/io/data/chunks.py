"""Common parts of the readers of data files: their result, its chunks, and parts of messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.system.arrays import Floats
from dimargin.system.memory import memory_of_process, out_of_memory
from dimargin.system.pages import Pages
from dimargin.system.printing import PrintableError

CHUNK = 1 * 2**20  # The readers parse so many bytes of text, or of numbers of a Parquet file, at a time.
LEFT_OUT = "; --drop, in Python drop=, leaves a column out"  # This ends messages on columns that are not numbers.
WEIGHT_EXPECTED = "a finite number of 0 or more expected"  # This ends messages on invalid weights.


class DataFileError(PrintableError, ValueError):
    """Error for a data file that cannot be read; the message names file, line or row, and what was expected."""


@dataclass(frozen=True)
class DataSet:
    """Contents of a data file.

    Attributes
    ----------
    X : ndarray or CSR array of shape (n, n_features), float64
    y : ndarray of shape (n,) or None
        Labels: whole numbers or texts (see ``dimargin.io.data.labels.label_values``), or
        floating-point numbers if one is not whole. None if they were not read.
    feature_names : list of str or None
        Names of the columns of X; None for LIBSVM text and for CSV without a header.
    label : str, int or None
        Name of the labels' column, or its position if columns have no names. None if they were not
        read.
    zero_based : bool or None
        Whether features are counted from zero (LIBSVM text only).
    weights : ndarray of shape (n,) or None
        Weights of the rows, finite and not negative; None if they were not read.
    weight : str, int or None
        Name or position of the weights' column, as in `label`; "label" for LIBSVM text.
    groups : ndarray of shape (n,) or None
        Name of every row's group, as a text; None if they were not read.
    remarks : tuple of str
        Warnings for training on these rows, about columns that were left out or that number the
        rows, and about labels that may be missing.
    labelled : ndarray of shape (n_rows_of_the_file,) or None
        Which rows of the file have a label, if the others were left out; otherwise None.
    fraction : str or None
        Error message of `check_classes` for the first label that is a fraction; None without such a
        label.
    """

    X: Any
    y: NDArray[Any] | None
    feature_names: list[str] | None = None
    label: str | int | None = None
    zero_based: bool | None = None
    weights: Floats | None = None
    weight: str | int | None = None
    groups: NDArray[Any] | None = None
    remarks: tuple[str, ...] = ()
    labelled: NDArray[np.bool_] | None = None
    fraction: str | None = None


def check_classes(fraction: str | None) -> None:
    """Raise DataFileError with the message in `DataSet.fraction`, if there is one."""
    if fraction is not None:
        raise DataFileError(fraction)


def no_rows(
    width: int, names: list[str] | None = None, label: str | int | None = None, zero_based: bool | None = None
) -> DataSet:
    """Return a data set without rows, whatever the labels are."""
    return DataSet(np.empty((0, width)), np.empty(0, dtype=np.int64), names, label, zero_based)


class Chunk(NamedTuple):
    """Some rows of a file, their labels or codes of labels, and their weights if these are read."""

    X: Any
    y: NDArray[Any] | None
    weights: Floats | None = None


class Chunks:
    """Rows and labels in chunks, which are joined with memory for one additional chunk only.

    Rows are kept in a folder on disk if it is given.
    """

    def __init__(self, path: Path, chunks: Iterator[Chunk], folder: str | os.PathLike[str] | None = None) -> None:
        self._parts: list[Any] = []
        self._pages, in_memory = Pages(folder), Pages()
        labels, weights = list[Any](), list[Floats]()
        held, most = 0, memory_of_process()
        for chunk in chunks:
            held += (_size(chunk.X) if folder is None else 0) + (0 if chunk.y is None else chunk.y.nbytes)
            if held > most:  # Otherwise the operating system would end the process.
                raise DataFileError(f"{path}: {out_of_memory('its content')}")
            self._parts.append(_set_apart(chunk.X, self._pages))
            labels.append(None if chunk.y is None else in_memory.copy(chunk.y))
            weights += [] if chunk.weights is None else [chunk.weights]
        self._rows = sum(part.shape[0] for part in self._parts)
        if not self._rows:
            raise DataFileError(f"{path} has no rows")
        self.y: NDArray[Any] | None = None if labels[0] is None else _joined(labels)
        self.weights = np.concatenate(weights) if weights else None

    @classmethod
    def from_any(cls, path: Path, chunks: Iterator[Chunk]) -> Chunks | None:
        """Return the rows of chunks, or None without rows, which may be appended later."""
        first = next((chunk for chunk in chunks if chunk.X.shape[0]), None)
        return None if first is None else cls(path, chain([first], chunks))

    def dense(self, first: int, width: int) -> Floats:
        """Join `width` columns from `first` on into a dense array; the chunks are used up."""
        X, at = self._pages.empty((self._rows, width), np.float64), 0
        for part in _used_up(self._parts):
            part = part.toarray() if sp.issparse(part) else part
            X[at : at + len(part), : part.shape[1] - first] = part[:, first:]
            at += len(part)
        return X

    def sparse(self, first: int, width: int) -> Any:
        """Join `width` columns from `first` on into a CSR array; columns before `first` must be empty."""
        for k, part in enumerate(self._parts):
            if not sp.issparse(part):
                self._parts[k] = _set_apart(sp.csr_array(part), self._pages)
        stored, at = sum(part.nnz for part in self._parts), 0
        values, small = self._pages.empty(stored, np.float64), np.iinfo(np.int32).max
        columns = self._pages.empty(stored, np.int32 if width <= small else np.int64)
        # Both index arrays have the same type, unless only the offsets need int64.
        offsets = self._pages.empty(self._rows + 1, columns.dtype if stored <= small else np.int64)
        row = 0
        for part in _used_up(self._parts):
            values[at : at + part.nnz], columns[at : at + part.nnz] = part.data, part.indices - first
            np.add(part.indptr[1:], at, out=offsets[row + 1 : row + 1 + part.shape[0]], dtype=offsets.dtype)
            at, row = at + part.nnz, row + part.shape[0]
        return sp.csr_array((values, columns, offsets), shape=(self._rows, width))

    def density(self, width: int) -> float:
        """Return the share of nonzeros in rows of this width."""
        stored = sum(part.nnz if sp.issparse(part) else np.count_nonzero(part) for part in self._parts)
        return float(stored / max(1, self._rows * width))


def _size(X: Any) -> int:
    """Return the bytes of a chunk that `_set_apart` copies."""
    return int(12 * X.nnz + 4 * X.shape[0] if sp.issparse(X) else X.nbytes)


def _used_up(parts: list[Any]) -> Iterator[Any]:
    """Yield all parts and forget them, so that each is freed as soon as it is copied."""
    parts.reverse()
    while parts:
        yield parts.pop()


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join all parts into one array; the parts are used up."""
    joined, at = np.empty(sum(map(len, parts)), dtype=np.result_type(*parts)), 0
    for part in _used_up(parts):
        joined[at : at + len(part)] = part
        at += len(part)
    return joined


def _set_apart(array: Any, pages: Pages) -> Any:
    if not sp.issparse(array):
        return pages.copy(array)
    # A chunk has few enough numbers for int32.
    small = np.int32 if array.shape[1] <= np.iinfo(np.int32).max else np.int64
    index = (pages.copy(array.indices.astype(small)), pages.copy(array.indptr.astype(small)))
    return sp.csr_array((pages.copy(array.data), *index), shape=array.shape, copy=False)


def short(text: str, most: int = 60) -> str:
    """Return the beginning of a text, for a message."""
    return text if len(text) <= most else text[: most - 3] + "..."
