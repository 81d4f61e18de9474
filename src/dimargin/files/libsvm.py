"""LIBSVM text: ``label feature:value feature:value ...``, zeros left out."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from dimargin.files.pieces import PIECE, DataFileError, DataSet, Piece, Pieces, label_values, short

_LARGEST = np.iinfo(np.int32).max - 1  # feature number, so that a width is an int32, too

# share of numbers that are not zero from which on rows are stored dense: less memory, faster tiles
DENSE = 0.5


def read_libsvm(path: Path, stream: BinaryIO, n_features: int | None, zero_based: bool | None) -> DataSet:
    """Read a stream of LIBSVM text; parameters as in `read_data`."""
    least, largest = np.iinfo(np.int32).max, 0  # feature numbers that occur

    def pieces() -> Iterator[Piece]:
        nonlocal least, largest
        first_line = 1

        def name(line: int) -> str:
            return f"{path}, line {first_line + line}"

        while block := stream.read(PIECE):
            block += stream.readline()
            X, y = parse_lines(block, name)
            if X.nnz:
                least, largest = min(least, int(X.indices.min())), max(largest, int(X.indices.max()))
            yield Piece(X.toarray() if X.nnz >= DENSE * X.shape[0] * X.shape[1] else X, y)
            first_line += block.count(b"\n")

    collected = Pieces(path, pieces())
    if zero_based is False and least == 0:
        raise DataFileError(f"{path} has a feature 0; features are counted from 1 here")
    from_zero = least == 0 if zero_based is None else zero_based
    base = 0 if from_zero else 1
    width = max(largest + 1 - base, 0)
    if n_features is not None:
        if width > n_features:
            raise DataFileError(f"{path} has a feature {largest}, expected {n_features} features counted from {base}")
        width = n_features
    make = collected.dense if collected.density(width) >= DENSE else collected.sparse
    return DataSet(make(base, width), label_values(collected.y), zero_based=from_zero)  # type: ignore[arg-type]


def parse_lines(block: bytes, name: Callable[[int], str]) -> tuple[Any, NDArray[np.float64]]:
    """Rows, with features counted from zero, and labels of some lines.

    Parameters
    ----------
    block : bytes
    name : callable
        Of a line, by its place among these, for messages.

    Returns
    -------
    X : CSR matrix of shape (n, largest feature + 1)
    y : ndarray of shape (n,)

    Raises
    ------
    DataFileError
    """
    try:
        X, y = load_svmlight_file(io.BytesIO(block), zero_based=True)
    except (ValueError, OverflowError) as error:
        lines = block.split(b"\n")
        bad = _first_bad_line(lines)
        text = lines[bad].decode(errors="replace").strip()
        raise DataFileError(
            f"{name(bad)}: {short(text)!r} is not LIBSVM text, which reads "
            f"'label feature:value feature:value ...' with features in order ({error})"
        ) from error
    finite = np.isfinite(X.data)
    if not (np.isfinite(y).all() and finite.all()):
        row = min([*np.flatnonzero(~np.isfinite(y))[:1], *_rows(X, ~finite)[:1]])
        raise DataFileError(f"{name(_line(block, row))}: a value is NaN or infinite; a finite number expected")
    if X.shape[1] > _LARGEST + 1:
        line = _line(block, _rows(X, X.indices > _LARGEST)[0])
        raise DataFileError(f"{name(line)}: feature {X.shape[1] - 1} is above {_LARGEST}")
    return X, y


def _rows(X: Any, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Rows of the chosen values."""
    return np.searchsorted(X.indptr, np.flatnonzero(chosen), side="right") - 1


def _line(block: bytes, row: int) -> int:
    """Place of the line that holds a row."""
    rows = (k for k, line in enumerate(block.split(b"\n")) if line.partition(b"#")[0].strip())
    return next(islice(rows, int(row), None))


def _first_bad_line(lines: list[bytes]) -> int:
    """Place of the first line that does not parse, by halving."""
    low, high = 0, len(lines)  # lines[:low] parse, lines[:high] do not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            load_svmlight_file(io.BytesIO(b"\n".join(lines[low:middle]) + b"\n"), zero_based=True)
            low = middle
        except (ValueError, OverflowError):
            high = middle
    return low
