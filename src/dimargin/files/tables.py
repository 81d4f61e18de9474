"""CSV and Parquet: named columns, one of them the label."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from dimargin.files.pieces import PIECE, DataFileError, DataSet, Piece, Pieces, label_values, open_data, short

_LINE = 64 * 2**20  # bytes of a CSV file that a first line may have
_BUFFER = 2**16  # bytes of a column of a Parquet file read at a time
_LABEL_NAMES = ("label", "target", "class", "y")
_MISSING = ("", "nan")  # texts that are no labels
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # how pandas names the row index, which is no feature


@dataclass(frozen=True)
class _Columns:
    """Places and names of the columns to take."""

    place: int | None  # of the label
    label: str | None
    wanted: list[str]  # the features

    @classmethod
    def choose(
        cls, path: Path, names: list[str], label: str | int | None, columns: Sequence[str] | None, needed: bool
    ) -> _Columns:
        known = set(names)
        if len(known) < len(names):
            double = Counter(names).most_common(1)[0][0]
            raise DataFileError(f"{path}: two columns are called {double!r}")
        missing = [name for name in columns or [] if name not in known]
        if missing:
            raise DataFileError(f"{path} lacks the columns {_listed(missing)}; it has {_listed(names)}")
        place = _label_place(path, names, label, columns or [], needed)
        if columns is None:
            columns = [name for k, name in enumerate(names) if k != place]
        elif place is not None and names[place] in columns:
            raise DataFileError(f"{path}: column {names[place]!r} is the label, but also named among the features")
        return cls(place, None if place is None else names[place], list(columns))

    @property
    def all(self) -> list[str]:
        return self.wanted if self.label is None else [*self.wanted, self.label]


def _label_place(
    path: Path, names: list[str], label: str | int | None, features: Sequence[str], needed: bool
) -> int | None:
    if label is None:
        known = [k for k, name in enumerate(names) if name.strip().lower() in _LABEL_NAMES and name not in features]
        if len(known) == 1 or not needed:
            return known[0] if len(known) == 1 else None
        found = f"{len(known)} columns are called so" if known else "no column is called so"
        raise DataFileError(
            f"{path}: which column holds the labels? By default the one named {', '.join(_LABEL_NAMES)}, but {found}. "
            f"Give its name or position; the columns are {_listed(names)}"
        )
    if isinstance(label, str) and label in names:
        return names.index(label)
    try:
        place = int(label)
    except ValueError:
        place = len(names)
    if not -len(names) <= place < len(names):
        raise DataFileError(f"{path} has no label column {label!r}; the columns are {_listed(names)}")
    return place % len(names)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


class _Labels:
    """Text labels as codes, so that each text is kept once."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def codes(self, column: Any) -> NDArray[np.int32]:
        """Codes, -1 for what is missing or, as a quote is not closed, holds the lines that follow."""
        encoded = column.dictionary_encode()
        texts = [text.strip() for text in encoded.dictionary.to_pylist()]
        wrong = [text.lower() in _MISSING or _has_break(text) for text in texts]
        codes = [
            -1 if bad else self._codes.setdefault(t, len(self._codes)) for t, bad in zip(texts, wrong, strict=True)
        ]
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        coded: NDArray[np.int32] = np.array([*codes, -1], dtype=np.int32)[places]
        return coded

    def values(self, codes: NDArray[np.int32]) -> NDArray[Any]:
        return label_values(np.array(list(self._codes)))[codes]


def _matrix(batch: Any, names: list[str]) -> NDArray[np.float64]:
    """Columns as numbers, NaN for what is missing."""
    X = np.empty((batch.num_rows, len(names)))
    for k, name in enumerate(names):
        X[:, k] = batch.column(name).to_numpy(zero_copy_only=False)
    return X


def read_csv(
    path: Path, stream: BinaryIO, label: str | int | None, columns: Sequence[str] | None, needs_label: bool
) -> DataSet:
    """Read a stream of CSV; parameters as in `read_data`."""
    layout = _CsvLayout.of(path)
    taken = _Columns.choose(path, layout.names, label, columns, needs_label)
    types = dict.fromkeys(taken.wanted, pa.float64())
    if taken.label is not None:
        types[taken.label] = pa.string()
    texts = _Labels()

    def pieces() -> Iterator[Piece]:
        with pyarrow.csv.open_csv(
            stream,
            pyarrow.csv.ReadOptions(
                block_size=max(PIECE, 16 * layout.length),  # a line must fit
                use_threads=False,
                column_names=layout.names,
                skip_rows=int(layout.header),
            ),
            pyarrow.csv.ParseOptions(delimiter=layout.delimiter),
            pyarrow.csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[""]),
        ) as reader:
            for batch in reader:
                X = _matrix(batch, taken.wanted)
                y = None if taken.label is None else texts.codes(batch.column(taken.label))
                if not np.isfinite(X).all() or (y is not None and (y < 0).any()):
                    raise pa.ArrowInvalid("a value is missing, NaN or infinite")
                yield Piece(X, y)

    try:
        collected = Pieces(path, pieces())
    except pa.ArrowInvalid as error:
        raise DataFileError(layout.first_fault(path, taken) or f"{path}: {error}") from error
    y = None if collected.y is None else texts.values(collected.y)
    X = collected.dense(0, len(taken.wanted))
    return DataSet(X, y, taken.wanted, taken.label) if layout.header else DataSet(X, y, label=taken.place)


@dataclass(frozen=True)
class _CsvLayout:
    delimiter: str
    header: bool
    names: list[str]
    length: int  # bytes of the first line

    @classmethod
    def of(cls, path: Path) -> _CsvLayout:
        """From the first line: a header unless one of its fields is a number."""
        with open_data(path) as stream:
            start = stream.readline(_LINE)
        start = re.split(rb"[\r\n]", start, maxsplit=1)[0]
        line = start.decode("utf-8-sig", errors="replace")
        bare = re.sub('"[^"]*"', "", line)
        delimiter = max(",;\t", key=bare.count)
        try:
            fields = next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error as error:
            raise DataFileError(f"{path}, line 1: {error}") from error
        if not fields:
            raise DataFileError(f"{path}, line 1 is empty; expected column names or values")
        header = not any(map(_is_number, fields))
        names = fields if header else [f"column {k}" for k in range(len(fields))]
        return cls(delimiter, header, names, len(start))

    def first_fault(self, path: Path, taken: _Columns) -> str | None:
        """What is wrong in the first line that cannot be read; the fast reader does not say where it is."""
        place_of = {name: k for k, name in enumerate(self.names)}
        places = [place_of[name] for name in taken.wanted]
        with open_data(path) as stream:
            text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
            rows, line, k = csv.reader(text, delimiter=self.delimiter), 1, -1
            try:
                for k, row in enumerate(rows):
                    fault = self._fault(row, places, taken.place) if row and k >= self.header else None
                    if fault:
                        return f"{path}, line {line}: {fault}"
                    line = rows.line_num + 1
            except csv.Error as error:
                return f"{path}, line {line}: {error}"
        return f"{path} has no rows" if k < self.header else None

    def _fault(self, row: list[str], places: list[int], label: int | None) -> str | None:
        if len(row) != len(self.names):
            return f"{len(row)} fields, expected {len(self.names)}"
        if label is not None and row[label].strip().lower() in _MISSING:
            return f"the label in column {self.names[label]!r} is missing"
        if label is not None and _has_break(row[label]):
            return f"the label in column {self.names[label]!r} has a line break; is a quote not closed?"
        for place in places:
            if not _is_number(row[place]) or not np.isfinite(float(row[place])):
                what = f"is {short(row[place])!r}" if row[place] else "is missing"
                return f"column {self.names[place]!r} {what}; a finite number expected"
        if any("\udc80" <= letter <= "\udcff" for field in row for letter in field):
            return "not UTF-8 text"
        return None


def _has_break(text: str) -> bool:
    return "\n" in text or "\r" in text


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def read_parquet(path: Path, label: str | int | None, columns: Sequence[str] | None, needs_label: bool) -> DataSet:
    """Read a Parquet file; parameters as in `read_data`."""
    with pyarrow.parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
        schema = file.schema_arrow
        names = [name for name in schema.names if not _PANDAS_INDEX.fullmatch(name)]
        taken = _Columns.choose(path, names, label, columns, needs_label)
        for name in taken.wanted:
            kind = schema.field(name).type
            if not _is_numeric(kind):
                raise DataFileError(f"{path}: column {name!r} holds {kind}; numbers expected")
        texts, is_text = _Labels(), False
        if taken.label is not None:
            kind = schema.field(taken.label).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
            if not (is_text or _is_numeric(kind) or pa.types.is_null(kind)):
                raise DataFileError(f"{path}: column {taken.label!r} holds {kind}; numbers or text expected as labels")

        def pieces() -> Iterator[Piece]:
            first = 0
            for batch in file.iter_batches(max(1, PIECE // (8 * len(schema.names))), columns=taken.all):
                X = _matrix(batch, taken.wanted)
                finite = np.isfinite(X)
                if not finite.all():
                    row, column = np.argwhere(~finite)[0]
                    raise DataFileError(
                        f"{path}, row {first + row}: column {taken.wanted[column]!r} is missing, NaN or infinite; "
                        "a finite number expected"
                    )
                y = None
                if taken.label is not None:
                    column = batch.column(taken.label)
                    y = texts.codes(column.cast(pa.string())) if is_text else column.to_numpy(zero_copy_only=False)
                    missing = y < 0 if is_text else column.is_null().to_numpy(zero_copy_only=False)
                    if y.dtype.kind == "f":
                        missing = ~np.isfinite(y)
                    if missing.any():
                        raise DataFileError(
                            f"{path}, row {first + int(missing.argmax())}: the label in column {taken.label!r} is "
                            "missing, NaN or infinite"
                        )
                first += batch.num_rows
                yield Piece(X, y)
                pa.default_memory_pool().release_unused()

        collected = Pieces(path, pieces())
    y = collected.y
    if y is not None:
        y = texts.values(y) if is_text else label_values(y)
    return DataSet(collected.dense(0, len(taken.wanted)), y, taken.wanted, taken.label)


def _is_numeric(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
