"""Common parts of the readers of data files: the result, its chunks, opening of files, conversion of labels."""

from __future__ import annotations

import bz2
import gzip
import lzma
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.system.arrays import Floats
from dimargin.system.memory import memory_of_process, out_of_memory

CHUNK = 1 * 2**20  # bytes of text, or of numbers of a Parquet file, parsed at a time
_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}


class DataFileError(ValueError):
    """Error for a data file that cannot be read; the message names file, line or row, and what was expected."""


@dataclass(frozen=True)
class DataSet:
    """Contents of a data file.

    Attributes
    ----------
    X : ndarray or CSR array of shape (n, n_features), float64
    y : ndarray of shape (n,) or None
        Labels: integers where all are, else floating-point numbers, else text. None if the file has no label column.
    feature_names : list of str or None
        Names of the columns of X; None for LIBSVM text and for CSV without a header.
    label : str, int or None
        The column that held the labels: its name, or its place where columns have no names.
    zero_based : bool or None
        Whether features are counted from zero (LIBSVM text only).
    """

    X: Any
    y: NDArray[Any] | None
    feature_names: list[str] | None = None
    label: str | int | None = None
    zero_based: bool | None = None


def no_rows(
    width: int, names: list[str] | None = None, label: str | int | None = None, zero_based: bool | None = None
) -> DataSet:
    """Return a data set without rows, whatever the labels are."""
    return DataSet(np.empty((0, width)), np.empty(0, dtype=np.int64), names, label, zero_based)


class Chunk(NamedTuple):
    """Some rows of a file, and their labels or codes of labels."""

    X: Any
    y: NDArray[Any] | None


@contextmanager
def open_data(path: Path) -> Iterator[BinaryIO]:
    """Open a file, and decompress it where its first bytes say that it is compressed."""
    with open(path, "rb") as raw:
        if not raw.read(1):
            raise DataFileError(f"{path} is empty")
        opener = _opener(raw) or nullcontext  # which gives the file itself
        with opener(raw) as stream:
            yield stream


def is_compressed(file: BinaryIO) -> bool:
    """Return whether the first bytes of a file say that it is compressed; reading goes on at its beginning."""
    return _opener(file) is not None


def _opener(file: BinaryIO) -> Callable[..., Any] | None:
    file.seek(0)
    start = file.read(6)
    file.seek(0)
    return next((opener for magic, opener in _OPENERS.items() if start.startswith(magic)), None)


class Chunks:
    """Rows and labels, collected chunk by chunk and joined with one chunk in memory twice, not the whole."""

    def __init__(self, path: Path, chunks: Iterator[Chunk]) -> None:
        self._parts: list[Any] = []
        labels: list[Any] = []
        held, most = 0, memory_of_process()
        for chunk in chunks:
            held += _size(chunk.X) + (0 if chunk.y is None else chunk.y.nbytes)
            if held > most:  # before the system ends the process
                raise DataFileError(f"{path}: {out_of_memory('what is in it')}")
            self._parts.append(_set_apart(chunk.X))
            labels.append(None if chunk.y is None else _set_apart(chunk.y))
        self._rows = sum(part.shape[0] for part in self._parts)
        if not self._rows:
            raise DataFileError(f"{path} has no rows")
        self.y: NDArray[Any] | None = None if labels[0] is None else _joined(labels)

    def dense(self, first: int, width: int) -> Floats:
        """Join `width` columns from `first` on into a dense array; the chunks are used up."""
        X, at = np.zeros((self._rows, width)), 0
        for part in _used_up(self._parts):
            part = part.toarray() if sp.issparse(part) else part
            X[at : at + len(part), : part.shape[1] - first] = part[:, first:]
            at += len(part)
        return X

    def sparse(self, first: int, width: int) -> Any:
        """Join `width` columns from `first` on into a CSR array; columns before `first` must be empty."""
        for k, part in enumerate(self._parts):
            if not sp.issparse(part):
                self._parts[k] = _set_apart(sp.csr_array(part))
        stored, at = sum(part.nnz for part in self._parts), 0
        values, small = np.empty(stored), np.iinfo(np.int32).max
        columns = np.empty(stored, dtype=np.int32 if width <= small else np.int64)
        # as columns, if it can be
        offsets = np.zeros(self._rows + 1, dtype=columns.dtype if stored <= small else np.int64)
        row = 0
        for part in _used_up(self._parts):
            values[at : at + part.nnz], columns[at : at + part.nnz] = part.data, part.indices - first
            np.add(part.indptr[1:], at, out=offsets[row + 1 : row + 1 + part.shape[0]], dtype=offsets.dtype)
            at, row = at + part.nnz, row + part.shape[0]
        return sp.csr_array((values, columns, offsets), shape=(self._rows, width))

    def density(self, width: int) -> float:
        """Return the share of the numbers that are not zero, in rows of this width."""
        stored = sum(part.nnz if sp.issparse(part) else np.count_nonzero(part) for part in self._parts)
        return float(stored / max(1, self._rows * width))


def _size(X: Any) -> int:
    """Return the bytes of a chunk that `_set_apart` has copied."""
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


def _set_apart(array: Any) -> Any:
    """Copy an array to pages of its own, which go back to the system once it is freed; malloc would keep many."""
    if sp.issparse(array):
        small = np.int32 if array.shape[1] <= np.iinfo(np.int32).max else np.int64  # a chunk has few numbers
        index = (_set_apart(array.indices.astype(small)), _set_apart(array.indptr.astype(small)))
        return sp.csr_array((_set_apart(array.data), *index), shape=array.shape, copy=False)
    pages = mmap.mmap(-1, max(1, array.nbytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    copy: NDArray[Any] = np.ndarray(array.shape, array.dtype, buffer=pages)
    copy[...] = array
    return copy


def label_values(labels: NDArray[Any], own: bool = False) -> NDArray[Any]:
    """Return labels as integers where all of them are, else as floating-point numbers, else as they are.

    With `own`, the array may be overwritten, and floating-point numbers become integers in place.
    """
    if labels.dtype.kind not in "fUO":
        return labels
    try:
        numbers = labels.astype(np.float64, copy=False)
    except ValueError:
        return labels
    least, largest = numbers.min(), numbers.max()
    if not np.isfinite([least, largest]).all():  # texts such as "inf"
        return labels
    chunks = [slice(k, k + CHUNK) for k in range(0, len(numbers), CHUNK)]
    if max(-least, largest) >= 2**53 or any((numbers[s] != np.floor(numbers[s])).any() for s in chunks):
        return numbers
    if not own:
        return numbers.astype(np.int64)
    integers: NDArray[Any] = numbers.view(np.int64)
    for s in chunks:
        integers[s] = numbers[s]
    return integers


def short(text: str, most: int = 60) -> str:
    """Return the beginning of a text, for a message."""
    return text if len(text) <= most else text[: most - 3] + "..."
