"""CSV: how a file is written, its rows piece by piece, and what is wrong where they cannot be read.

pyarrow is imported where it is needed, for processes that have to stay small and only ask how a file is written.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dimargin.files.pieces import PIECE, DataFileError, DataSet, Piece, Pieces, open_data, short
from dimargin.files.tables import MISSING, TableColumns, TextLabels, has_break, matrix

_LINE = 64 * 2**20  # bytes of a CSV file that a first line may have
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def read_csv(
    path: Path, stream: BinaryIO, label: str | int | None, columns: Sequence[str] | None, needs_label: bool
) -> DataSet:
    """Read a stream of CSV; parameters as in `read_data`."""
    import pyarrow as pa

    layout = CsvLayout.of(path)
    taken = TableColumns.choose(path, layout.names, label, columns, needs_label)
    texts = TextLabels()
    try:
        collected = Pieces(path, layout.pieces(stream, taken, texts, header=layout.header))
    except pa.ArrowInvalid as error:
        raise DataFileError(_fault_of(path, layout, taken) or f"{path}: {error}") from error
    y = None if collected.y is None else texts.values(collected.y)
    X = collected.dense(0, len(taken.wanted))
    return DataSet(X, y, taken.wanted, taken.label) if layout.header else DataSet(X, y, label=taken.place)


def _fault_of(path: Path, layout: CsvLayout, taken: TableColumns) -> str | None:
    with open_data(path) as stream:
        fault = layout.first_fault(stream, taken, layout.header, lambda line, _: f"{path}, line {line}")
    return f"{path} has no rows" if fault == "" else fault


@dataclass(frozen=True)
class CsvLayout:
    """How a CSV file is written.

    Attributes
    ----------
    delimiter : str
    header : bool
        Whether the first line has the names.
    names : list of str
        Of all columns.
    length : int
        Bytes of the first line.
    """

    delimiter: str
    header: bool
    names: list[str]
    length: int

    @classmethod
    def of(cls, path: Path) -> CsvLayout:
        """Of a file."""
        with open_data(path) as stream:
            return cls.of_line(path, stream.readline(_LINE))

    @classmethod
    def of_line(cls, path: Path | str, start: bytes) -> CsvLayout:
        """From the first line: a header unless one of its fields is a number."""
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

    def pieces(self, stream: BinaryIO, taken: TableColumns, texts: TextLabels, header: bool) -> Iterator[Piece]:
        """Rows and codes of labels of a stream, which begins with the header or without it.

        Raises `pyarrow.ArrowInvalid` for what cannot be read; `first_fault` says what it is.
        """
        import pyarrow as pa
        import pyarrow.csv

        types = dict.fromkeys(taken.wanted, pa.float64())
        if taken.label is not None:
            types[taken.label] = pa.string()
        with pyarrow.csv.open_csv(
            stream,
            pyarrow.csv.ReadOptions(
                block_size=max(PIECE, 16 * self.length),  # a line must fit
                use_threads=False,
                column_names=self.names,
                skip_rows=int(header),
            ),
            pyarrow.csv.ParseOptions(delimiter=self.delimiter),
            pyarrow.csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[""]),
        ) as reader:
            for batch in reader:
                X = matrix(batch, taken.wanted)
                y = None if taken.label is None else texts.codes(batch.column(taken.label))
                if not np.isfinite(X).all() or (y is not None and (y < 0).any()):
                    raise pa.ArrowInvalid("a value is missing, NaN or infinite")
                yield Piece(X, y)

    def first_fault(
        self, stream: BinaryIO, taken: TableColumns, header: bool, name: Callable[[int, list[str]], str]
    ) -> str | None:
        """What is wrong in the first line that cannot be read; the fast reader does not say where it is.

        Parameters
        ----------
        stream, taken, header
            As in `pieces`.
        name : callable
            Of a line, from its number and its fields.

        Returns
        -------
        str or None
            Empty where there are no rows, None where nothing is wrong.
        """
        place_of = {name: k for k, name in enumerate(self.names)}
        places = [place_of[name] for name in taken.wanted]
        with io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="") as text:
            rows, line, k, row = csv.reader(text, delimiter=self.delimiter), 1, -1, list[str]()
            try:
                for k, row in enumerate(rows):
                    fault = self._fault(row, places, taken.place) if row and k >= header else None
                    if fault:
                        return f"{name(line, row)}: {fault}"
                    line = rows.line_num + 1
            except csv.Error as error:
                return f"{name(line, row)}: {error}"
        return "" if k < header else None

    def _fault(self, row: list[str], places: list[int], label: int | None) -> str | None:
        if len(row) != len(self.names):
            return f"{len(row)} fields, expected {len(self.names)}"
        if label is not None and row[label].strip().lower() in MISSING:
            return f"the label in column {self.names[label]!r} is missing"
        if label is not None and has_break(row[label]):
            return f"the label in column {self.names[label]!r} has a line break; is a quote not closed?"
        for place in places:
            if not _is_number(row[place]) or not np.isfinite(float(row[place])):
                what = f"is {short(row[place])!r}" if row[place] else "is missing"
                return f"column {self.names[place]!r} {what}; a finite number expected"
        if any("\udc80" <= letter <= "\udcff" for field in row for letter in field):
            return "not UTF-8 text"
        return None


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None
