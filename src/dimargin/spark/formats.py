"""Parsers of batches of lines or table rows on executors, by the readers of `dimargin.io.data`."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimargin.io.data import DataFileError
from dimargin.io.data.chunks import WEIGHT_EXPECTED, Chunk, short
from dimargin.io.data.csv_text import CsvLayout
from dimargin.io.data.labels import missing_label
from dimargin.io.data.libsvm import parse_lines, without_weights
from dimargin.io.data.named_columns import TableColumns, TextLabels
from dimargin.io.data.opening import BOM, FileOptions
from dimargin.io.data.parquet import as_text, is_numeric
from dimargin.spark.columns import FEATURES, LABEL, WEIGHT
from dimargin.system.arrays import Floats, Indices

LINE = "value"  # Spark's name of the column of lines of text.


class Parsed(NamedTuple):
    """Rows of a batch."""

    X: Any  # Ndarray or CSR matrix of shape (n, n_features); LIBSVM text has the features from zero to its last.
    labels: NDArray[Any]  # The different labels, as numbers or text.
    indices: Indices  # Indices of the rows' labels among these, of shape (n,).
    weights: Floats | None = None  # Weights of the rows, if the file has any.

    @property
    def heavy(self) -> Parsed | None:
        """The rows of positive weight, or None without any."""
        if self.weights is None or self.weights.all():
            return self
        kept = np.flatnonzero(self.weights)
        labels, indices = np.unique(self.labels[self.indices[kept]], return_inverse=True)
        return Parsed(self.X[kept], labels, indices, self.weights[kept]) if len(kept) else None


@dataclass(frozen=True)
class Format(ABC):
    """Abstract base class of parsers of a data file, which are sent to the executors."""

    path: str  # The path is used in messages.

    def rows(self, batch: pa.RecordBatch) -> Parsed | None:
        """Return the rows of positive weight of a batch, or None without any."""
        parsed = self.parse(batch)
        return None if parsed is None else parsed.heavy

    @abstractmethod
    def parse(self, batch: pa.RecordBatch) -> Parsed | None:
        """Return the rows of a batch, or None without any; a DataFileError names the wrong column or line."""


@dataclass(frozen=True)
class LibsvmText(Format):
    """Parser of lines of LIBSVM text."""

    options: FileOptions = FileOptions()  # noqa: RUF009 (frozen)
    weighted: bool = False  # Whether lines begin with label:weight.

    def parse(self, batch: pa.RecordBatch) -> Parsed | None:
        """See `Format`."""
        lines = batch.column(LINE)
        text, weights = self.options.utf8(_joined(lines)).removeprefix(BOM), None

        def name(k: int) -> str:
            return f"{self.path}, {_quoted(lines[k].as_py())}"

        if self.weighted:
            text, weights = without_weights(text, name)
        X, y = parse_lines(text, name)
        max_width = 2**31 - 1  # This is the largest size of Spark's vectors.
        if X.shape[1] > max_width:
            raise DataFileError(f"{self.path}: feature {X.shape[1] - 1} is above {max_width - 1}, Spark's largest")
        return Parsed(X, *np.unique(y, return_inverse=True), weights) if len(y) else None


@dataclass(frozen=True)
class CsvText(Format):
    """Parser of lines of CSV; if there is a header, every file has it."""

    layout: CsvLayout
    left_out: list[bytes]  # The line with the names and those before it, which are skipped in every file.
    taken: TableColumns
    options: FileOptions = FileOptions()  # noqa: RUF009 (frozen)
    weight: str | None = None  # Name of the column of weights.

    def parse(self, batch: pa.RecordBatch) -> Parsed | None:
        """See `Format`."""
        lines = batch.column(LINE)
        lines = lines.filter(pc.greater(pc.binary_length(lines), 0))
        if self.left_out:
            lines = lines.filter(pc.invert(pc.is_in(lines, pa.array(self.left_out, lines.type))))
        if not len(lines):
            return None
        block, texts = self.options.utf8(_joined(lines)).removeprefix(BOM), TextLabels(self.path)
        chunks, weights = self._chunks(block, self.taken, texts), None
        codes = np.concatenate([chunk.y for chunk in chunks if chunk.y is not None]).astype(np.int64)
        if self.weight is not None:
            weights = np.concatenate([c.X[:, 0] for c in self._chunks(block, TableColumns.of(self.weight), texts)])
            if (weights < 0).any():
                row = int((weights < 0).argmax())
                raise _wrong_weight(f"{self.path}, {_quoted(lines[row].as_py())}", self.weight, weights[row])
        return Parsed(np.concatenate([chunk.X for chunk in chunks]), np.array(texts.texts), codes, weights)

    def _chunks(self, block: bytes, taken: TableColumns, texts: TextLabels) -> list[Chunk]:
        try:
            return list(self.layout.chunks(io.BytesIO(block), taken, texts, is_part=True))
        except pa.ArrowInvalid as error:
            fault = self.layout.first_fault(io.BytesIO(block), taken, texts, self._name)
            raise DataFileError(fault or f"{self.path}: {error}") from error

    def _name(self, line: int, row: list[str]) -> str:
        return f"{self.path}, {_quoted(self.layout.delimiter.join(row).encode(errors='replace'))}"


@dataclass(frozen=True)
class TableRows(Format):
    """Parser of rows of a table with the columns `FEATURES` (an array), `LABEL` (of any type) and `WEIGHT`."""

    taken: TableColumns
    weight: str | None = None  # Name of the column of weights in the file.

    def parse(self, batch: pa.RecordBatch) -> Parsed | None:
        """See `Format`."""
        if not batch.num_rows:
            return None
        names, column = self.taken.wanted, batch.column(LABEL)
        values = batch.column(FEATURES).flatten().to_numpy(zero_copy_only=False)
        X = values.astype(np.float64, copy=False).reshape(batch.num_rows, len(names))
        finite = np.isfinite(X)
        if not finite.all():
            name = names[int(np.argwhere(~finite)[0, 1])]
            raise DataFileError(
                f"{self.path}: column {name!r} is missing, NaN or infinite; a finite number expected in every row"
            )
        if not is_numeric(column.type) or pa.types.is_decimal(column.type):
            texts = TextLabels(self.path)
            indices: Any = texts.codes(as_text(column))
            labels, wrong = np.array(texts.texts), indices < 0
        else:
            given = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            wrong = ~np.isfinite(given)
            labels, indices = np.unique(column.drop_null().to_numpy(zero_copy_only=False), return_inverse=True)
        if wrong.any():
            what = missing_label(self.taken.label or "", column[int(wrong.argmax())].as_py())
            raise DataFileError(f"{self.path}, in a row: {what}")
        return Parsed(X, labels, indices.astype(np.int64), self._weights(batch))

    def _weights(self, batch: pa.RecordBatch) -> Floats | None:
        if self.weight is None:
            return None
        weights: Floats = batch.column(WEIGHT).to_numpy(zero_copy_only=False)
        wrong = ~((weights >= 0) & np.isfinite(weights))
        if wrong.any():
            raise _wrong_weight(f"{self.path}, in a row", self.weight, weights[wrong][0])
        return weights


def _wrong_weight(place: str, name: str, weight: float) -> DataFileError:
    return DataFileError(f"{place}: the weight in column {short(name)!r} is {weight:g}; {WEIGHT_EXPECTED}")


def _joined(lines: pa.Array) -> bytes:
    """Join lines into one text."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    text: bytes = pc.binary_join(whole, b"\n")[0].as_py()
    return text + b"\n"


def _quoted(line: bytes) -> str:
    return f"line {short(line.decode(errors='replace').strip())!r}"
