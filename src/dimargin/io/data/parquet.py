"""Parquet files, read batch by batch."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from dimargin.io.data.chunks import CHUNK, LEFT_OUT, Chunk, Chunks, DataFileError, DataSet, short
from dimargin.io.data.labels import fraction_said, is_number, missing_label
from dimargin.io.data.named_columns import PANDAS_INDEX, FoundLabels, TableColumns, TextLabels, WantedColumns, matrix
from dimargin.io.data.parquet_pages import check_pages, footer_of


class Batch(NamedTuple):
    """Some rows of a file, their labels or codes of labels, and the index of the first row."""

    X: pa.RecordBatch
    y: NDArray[Any] | None
    first: int


class ParquetRows:
    """Rows of a Parquet file; `na` is as in `TextLabels`.

    `taken` has the columns of label and features, and `types` maps the name of each feature to the
    type of its values.
    """

    place = staticmethod("row {}".format)

    def __init__(self, path: Path, wanted: WantedColumns, na: Collection[str] = ()) -> None:
        self._path, self._texts, self._text_labels = path, TextLabels(path, na=na), False
        self._labelled = list[NDArray[np.bool_]]()  # Which rows of each batch have a label.
        with _opened(path) as (_, footer, file):
            schema, self._footer = file.schema_arrow, footer
        self._given = {name.strip(): name for name in reversed(schema.names)}
        self.taken = TableColumns.choose(path, _named(schema), wanted)
        self.types = {name: value_type(schema.field(self._given[name]).type) for name in self.taken.wanted}
        self._batch_size = max(1, CHUNK // (8 * len(schema.names)))
        if self.taken.label is not None:
            kind = value_type(schema.field(self._given[self.taken.label]).type)
            self._text_labels = is_text(kind) or pa.types.is_decimal(kind) or pa.types.is_date(kind)
            if not (self._text_labels or is_numeric(kind) or pa.types.is_null(kind)):
                raise DataFileError(
                    f"{path}: column {short(self.taken.label)!r} holds {kind}; numbers or text expected as labels"
                )

    @property
    def names(self) -> tuple[list[str], str | None]:
        """The names of the features, and that of the label."""
        return self.taken.wanted, self.taken.label

    def tables(self) -> Iterator[Batch]:
        """Yield the rows, batch by batch, of which some may lack labels.

        Raises DataFileError if rows are missing.
        """
        first, before, given = 0, os.stat(self._path), [self._given[name] for name in self.taken.all]
        with _opened(self._path) as (source, footer, file):
            if footer != self._footer:
                raise DataFileError(f"{self._path} was rewritten while it was read")
            n_rows = check_pages(self._path, source, footer, file.schema, given)
            for rows in file.iter_batches(self._batch_size, columns=given):
                rows = rows.rename_columns([name.strip() for name in rows.schema.names])
                yield Batch(rows, self._labels(rows), first)
                first += rows.num_rows
                pa.default_memory_pool().release_unused()
        now = os.stat(self._path)
        is_replaced = now.st_ino != before.st_ino  # Then the complete old file was read.
        is_changed = (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns)
        if first != n_rows or (is_changed and not is_replaced):
            raise DataFileError(
                f"{self._path} was truncated or rewritten while it was read: got {first} of {n_rows} rows"
            )

    def _labels(self, rows: pa.RecordBatch) -> NDArray[Any] | None:
        if self.taken.label is None:
            return None
        column = rows.column(self.taken.label)
        y: NDArray[Any]
        if self._text_labels:
            y = self._texts.codes(as_text(column))
            labelled = y >= 0
        else:
            labelled = column.is_valid().to_numpy(zero_copy_only=False)
            # Integers stay exact if null is not NaN.
            y = np.zeros(len(column), dtype=column.type.to_pandas_dtype() if labelled.any() else np.float64)
            y[labelled] = column.drop_null().to_numpy(zero_copy_only=False)
            if y.dtype.kind == "f":
                labelled &= np.isfinite(y)
            labelled &= ~self._texts.lack(y)
        self._labelled.append(labelled)
        return y

    def check_labels(self, batch: Batch) -> None:
        """Raise DataFileError if a row of the batch that was read last has no label."""
        if self.taken.label is not None and not self._labelled[-1].all():
            row = int((~self._labelled[-1]).argmax())
            what = missing_label(self.taken.label, batch.X.column(self.taken.label)[row].as_py())
            raise DataFileError(f"{self._path}, {self.place(batch.first + row)}: {what}")

    def label_in(self, row: int) -> Any:
        """Return what a row has as its label; labels must be read."""
        with _opened(self._path) as (_, _, file):
            return file.read([self._given[self.taken.label or ""]]).column(0)[row].as_py()

    def found(self, y: NDArray[Any] | None, lenient: bool = True) -> FoundLabels:
        """Return the labels of all batches, with remarks, for the joined labels or codes.

        Unless `lenient`, raises DataFileError for a text among numbers that is not a label.
        """
        if self._text_labels or y is None:
            return self._texts.found(y, self.taken.label, self.place, lenient)
        labelled, fraction = np.concatenate(self._labelled), None
        if not labelled.any():
            raise DataFileError(f"{self._path}: no row has a label in column {short(self.taken.label or '')!r}")
        if y.dtype.kind == "f" and (odd := labelled & (y != np.floor(y))).any():
            row = int(odd.argmax())
            fraction = f"{self._path}, {self.place(row)}: {fraction_said(self.taken.label, y[row])}"
        return FoundLabels(y[labelled], fraction=fraction, labelled=None if labelled.all() else labelled)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[pa.NativeFile, bytes, pyarrow.parquet.ParquetFile]]:
    with pa.OSFile(os.fsencode(path)) as source:
        footer = footer_of(path, source)
        with pyarrow.parquet.ParquetFile(source, buffer_size=2**16, pre_buffer=False) as file:
            yield source, footer, file


def names_in(path: Path) -> list[str]:
    """Return the names of the columns of a file."""
    with _opened(path) as (_, _, file):
        return _named(file.schema_arrow)


def _named(schema: pa.Schema) -> list[str]:
    return [name.strip() for name in schema.names if not PANDAS_INDEX.fullmatch(name)]


def read_parquet(path: Path, wanted: WantedColumns, on_disk: str | os.PathLike[str] | None = None) -> DataSet:
    """Read a Parquet file; parameters as in `read_data`."""
    rows = ParquetRows(path, wanted)
    names = rows.taken.wanted
    for name, kind in rows.types.items():
        if not (is_numeric(kind) or is_text(kind)):
            raise DataFileError(f"{path}: column {short(name)!r} holds {kind}; numbers expected{LEFT_OUT}")

    def chunks() -> Iterator[Chunk]:
        for batch in rows.tables():
            rows.check_labels(batch)
            X = matrix(_without_text(path, batch, rows.types), names)
            finite = np.isfinite(X)
            if not finite.all():
                row, column = np.argwhere(~finite)[0]
                raise DataFileError(
                    f"{path}, row {batch.first + row}: column {short(names[column])!r} is missing, NaN or infinite; a "
                    "finite number expected"
                )
            yield Chunk(X, batch.y)

    collected = Chunks(path, chunks(), on_disk)
    found = rows.found(collected.y, lenient=False)
    X, remarks = collected.dense(0, len(names)), (*rows.taken.remarks, *found.remarks)
    return DataSet(X, found.y, names, rows.taken.label, remarks=remarks, fraction=found.fraction)


def _without_text(path: Path, batch: Batch, types: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Return rows whose features are numbers, converted from text if necessary.

    Decimals are also converted from text, because Arrow does not round them to the nearest float64.
    """
    rows = batch.X
    for name in (name for name, kind in types.items() if is_text(kind) or pa.types.is_decimal(kind)):
        texts = pc.utf8_trim_whitespace(rows.column(name).cast(pa.string()))
        try:
            numbers = texts.cast(pa.float64())
        except pa.ArrowInvalid:
            row, text = next((k, v) for k, v in enumerate(texts.to_pylist()) if v is not None and not is_number(v))
            raise DataFileError(
                f"{path}: column {short(name)!r} holds {types[name]}; numbers expected, and row {batch.first + row} is "
                f"{short(text)!r}"
            ) from None
        rows = rows.set_column(rows.schema.get_field_index(name), name, numbers)
    return rows


def as_text(column: pa.Array) -> pa.Array:
    """Return a column as text, with all digits of decimals and without exponents."""
    if not pa.types.is_decimal(value_type(column.type)):
        return column.cast(pa.string())
    encoded = column.dictionary_encode()
    texts = [None if value is None else f"{value:f}" for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a column, also if it is dictionary-encoded."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether all readers read values of this type as numbers."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of this type are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
