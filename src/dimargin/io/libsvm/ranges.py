"""Scaling by svm-scale, and its range files."""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.io.data.chunks import CHUNK, DataFileError, short
from dimargin.io.data.lines import blocks_of_lines
from dimargin.io.data.opening import explained
from dimargin.kernels.column_statistics import narrowed
from dimargin.system.arrays import Floats, Indices
from dimargin.system.writing import write_file

_MAX_BATCH_NUMBERS = 2**20  # Lines are made in batches of at most so many numbers, to limit the memory.


def _scaled(values: Any, lower: float, upper: float, least: Any, largest: Any) -> Floats:
    """Map values from [least, largest] to [lower, upper], in LIBSVM's order of operations."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        between = lower + (upper - lower) * (values - least) / (largest - least)
    return np.where(values == least, lower, np.where(values == largest, upper, between))


@dataclass(frozen=True, eq=False)
class FeatureRanges:
    """Linear maps of svm-scale from the ranges of features to the interval [lower, upper].

    The numbers of the features, counted from one, are ascending, and their ranges are from `least`
    to `largest`. Constant features, which have no range, are not written. `labels` has the interval
    and the range of the labels, if they are scaled.
    """

    lower: float
    upper: float
    features: Indices
    least: Floats
    largest: Floats
    labels: tuple[float, float, float, float] | None = None

    @classmethod
    def fit(
        cls, X: Any, y: NDArray[Any], lower: float, upper: float, label_limits: tuple[float, float] | None = None
    ) -> FeatureRanges:
        """Determine the ranges of data, including omitted zeros; column j is feature j + 1."""
        labels = None if label_limits is None else (*label_limits, float(y.min()), float(y.max()))
        return cls(lower, upper, *_varying(X), labels)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write LIBSVM's range file; raises OSError if it cannot be written."""
        rows: list[tuple[Any, ...]] = [("x",), (self.lower, self.upper)]
        if self.labels is not None:
            rows = [("y",), self.labels[:2], self.labels[2:], *rows]
        rows += zip(self.features.tolist(), self.least.tolist(), self.largest.tolist(), strict=True)
        lines = (" ".join(v if isinstance(v, str) else f"{v:.17g}" for v in row) for row in rows)
        write_file(path, "".join(f"{line}\n" for line in lines).encode())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> FeatureRanges:
        """Read LIBSVM's range file; raises DataFileError with the line of invalid content."""
        path = Path(path)
        with open(path, "rb") as stream, explained(path):
            return cls._of(_Lines(path, stream))

    @classmethod
    def _of(cls, lines: _Lines) -> FeatureRanges:
        labels, table = None, array("d")
        if lines.skip("y"):
            labels = (*lines.numbers(2), *lines.numbers(2))
        if not lines.skip("x"):
            lines.fail("'x', as written by svm-scale -s,")
        lower, upper = lines.numbers(2)
        while lines.left:
            table.extend(lines.numbers(3, above=table[-3] if table else 0))
        features, least, largest = np.array(table).reshape(-1, 3).T
        return cls(lower, upper, features.astype(np.int64), least, largest, labels)  # type: ignore[arg-type]

    def unknown(self, X: Any) -> list[int]:
        """Return the features that vary in X but have no range, so that they are not written."""
        features, _, _ = _varying(X)
        return sorted({*features.tolist()} - {*self.features.tolist()})

    def lines(self, X: Any, y: NDArray[Any]) -> Iterator[str]:
        """Yield scaled rows in the form of svm-scale, with six digits, in batches of lines.

        Column j of `X`, an array or CSR array, is feature j + 1.
        """
        varying = self.least != self.largest
        X, given = narrowed(X)
        known = np.union1d(given, self.features[varying] - 1)  # Columns are numbered by their indices in this array.
        X = _spread(X, np.searchsorted(known, given), len(known))
        columns, width = np.searchsorted(known, self.features[varying] - 1), len(known)
        least, largest = np.zeros(width), np.zeros(width)
        least[columns], largest[columns] = self.least[varying], self.largest[varying]
        # The zeros of these columns become nonzeros.
        moved = columns[_scaled(0.0, self.lower, self.upper, least[columns], largest[columns]) != 0]
        labels = y if self.labels is None else _scaled(y.astype(np.float64), *self.labels)
        stored = X.nnz if sp.issparse(X) else X.size
        step = max(1, int(_MAX_BATCH_NUMBERS / (stored / len(y) + len(moved) + 1)))
        for begin in range(0, len(y), step):
            rows = _with_zeros(X[begin : begin + step], moved, width)
            at = rows.indices
            values = _scaled(rows.data, self.lower, self.upper, least[at], largest[at])
            written = (least[at] != largest[at]) & (values != 0)
            ends = np.concatenate([[0], np.cumsum(written)])[rows.indptr]
            pairs = list(map("{}:{:g} ".format, (known[at[written]] + 1).tolist(), values[written].tolist()))
            heads = [
                f"{label} " if isinstance(label, int) else f"{label:.17g} "
                for label in labels[begin : begin + step].tolist()
            ]
            yield "".join(
                "".join([head, *pairs[first:last], "\n"])
                for head, first, last in zip(heads, ends[:-1], ends[1:], strict=True)
            )


def _spread(X: Any, indices: Indices, width: int) -> Any:
    """Return rows with `width` columns, those of X at these indices, and the others empty."""
    if X.shape[1] == width:
        return X
    rows = sp.csr_array(X)
    return sp.csr_array((rows.data, indices[rows.indices], rows.indptr), shape=(X.shape[0], width))


def _varying(X: Any) -> tuple[Indices, Floats, Floats]:
    """Return the numbers, minima and maxima of the features that vary, counted from one."""
    X, columns = narrowed(X)
    least, largest = X.min(axis=0), X.max(axis=0)
    if sp.issparse(X):
        least, largest = least.toarray().ravel(), largest.toarray().ravel()
    varying = np.flatnonzero(least < largest)
    return columns[varying] + 1, least[varying], largest[varying]


def _with_zeros(X: Any, columns: Indices, width: int) -> Any:
    """Return rows as a CSR array with more columns, in which the zeros of the given columns are stored."""
    n, part = X.shape[0], sp.coo_array(X)
    values = np.concatenate([part.data, np.zeros(n * len(columns))])  # Stored values have a zero added to them.
    indices = (
        np.concatenate([part.row, np.repeat(np.arange(n), len(columns))]),
        np.concatenate([part.col, np.tile(columns, n)]),
    )
    return sp.csr_array((values, indices), shape=(n, width))


class _Lines:
    """Reader of the lines of a range file; empty lines at the end are ignored."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path, self.number = path, 1
        blocks = blocks_of_lines(stream, path, CHUNK)
        lines = (line for block in blocks for line in block.removesuffix(b"\n").split(b"\n"))
        self._following = (line.decode(errors="replace").strip() for line in lines)
        self._line = next(self._following, None)

    @property
    def left(self) -> bool:
        return self._line is not None and (self._line != "" or any(self._following))

    def _advance(self) -> None:
        self._line, self.number = next(self._following, None), self.number + 1

    def skip(self, word: str) -> bool:
        """Skip the next line if it is this word, and return whether it was."""
        found = self._line == word
        if found:
            self._advance()
        return found

    def numbers(self, count: int, above: float | None = None) -> list[float]:
        """Read the next line, which must consist of `count` finite numbers.

        With `above`, the first number is a feature, which must be above that one.
        """
        try:
            numbers = [float(word) for word in (self._line or "").split()]
        except ValueError:
            numbers = []
        if len(numbers) != count or not all(map(math.isfinite, numbers)):
            self.fail(f"{count} finite numbers")
        if above is not None and not (numbers[0].is_integer() and above < numbers[0] < 2**31):
            self.fail(f"a feature above {above:.0f}")
        self._advance()
        return numbers

    def fail(self, expected: str) -> NoReturn:
        """Raise DataFileError for the next line."""
        text = "the end" if self._line is None else short(self._line)
        raise DataFileError(f"{self.path}, line {self.number}: expected {expected} in a range file, got {text!r}")
