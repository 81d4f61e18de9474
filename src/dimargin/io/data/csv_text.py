"""CSV files: their layout, the chunks of their rows, and messages on rows that cannot be read.

Arrow's reader is fast. Python's, in `csv_rows`, is there for sites, which must load neither pyarrow
nor pandas, and for rows of thousands of columns. Sites import this module, too, whose functions
import pyarrow only where they need it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dimargin.io.data.chunks import CHUNK, Chunk, Chunks, DataFileError, DataSet, no_rows, short
from dimargin.io.data.csv_rows import (
    MAX_COLUMNS,
    UNCLOSED,
    CsvReader,
    chunk_of,
    delimited,
    delimited_line,
    encoded,
    is_utf8,
    lines_of,
    not_utf8,
)
from dimargin.io.data.first_lines import first_row, holds_names, n_before_table, names_of, rows_below
from dimargin.io.data.labels import is_number, missing_label
from dimargin.io.data.lines import LONGEST_LINE, blocks_of_lines
from dimargin.io.data.named_columns import FoundLabels, TableColumns, TextLabels, WantedColumns, has_break, matrix
from dimargin.io.data.opening import BOM, DataFile, FileOptions
from dimargin.io.data.sniffing import SAMPLE_ROWS, separator

# From this many columns on, Python's reader is faster than Arrow's, which takes 50 us and 4 KB per
# column.
_WIDE_COLUMNS = 1000
_QUOTE_HINT = "; is a quote not closed?"


def read_csv(file: DataFile, wanted: WantedColumns) -> DataSet:
    """Read a CSV file whose features are numbers."""
    rows = CsvRows(file, wanted)
    collected = Chunks(file.path, rows.chunks(), file.options.on_disk)
    return rows.layout.joined(collected, rows.taken, rows.texts, rows.place)


def csv_names(file: DataFile, wanted: WantedColumns) -> list[str]:
    """Return the names of all columns of a CSV file; the names in `wanted` help to recognise them."""
    return CsvLayout.of_start(file.path, file.start, file.options, wanted).names


class CsvRows:
    """Rows of a whole CSV file; `na` is as in `TextLabels`.

    `taken` has the columns of label and features.
    """

    def __init__(self, file: DataFile, wanted: WantedColumns, na: Collection[str] = ()) -> None:
        self._file = file
        self.layout = CsvLayout.of_start(file.path, file.start, file.options, wanted)
        self.taken = self.layout.choose(wanted)
        self.texts = TextLabels(file.path, na=na)

    @property
    def names(self) -> tuple[list[str] | None, str | int | None]:
        """The names of the features, and the name or position of the label."""
        return self.layout.known(self.taken)

    def tables(self) -> Iterator[Chunk]:
        """Yield the rows with record batches of arbitrary texts instead of numbers; labels may be missing."""
        return self.chunks(as_text=True)

    def chunks(self, as_text: bool = False) -> Iterator[Chunk]:
        """Yield the rows as `CsvLayout.chunks` does; raises DataFileError for the first invalid row."""
        import pyarrow as pa

        path = self._file.path
        try:
            with self._file.opened() as stream:
                yield from self.layout.chunks(stream, self.taken, self.texts, as_text)
        except pa.ArrowInvalid as error:
            taken = replace(self.taken, wanted=[]) if as_text else self.taken
            with self._file.opened() as stream:
                fault = self.layout.first_fault(
                    stream, taken, self.texts, lambda line, _: f"{path}, line {line}", self.layout.n_skipped_lines
                )
            fault = f"{path} has no rows" if fault == "" else fault
            raise DataFileError(fault or f"{path}: {error}") from error

    def found(self, codes: NDArray[Any] | None) -> FoundLabels:
        """Return the labels of all rows of `tables`, with remarks, for the joined codes."""
        return self.texts.found(codes, self.taken.label, self.place, lenient=True)

    def place(self, row: int) -> str:
        """Return the line of the file where a row begins."""
        return f"line {self._row(row)[0]}"

    def label_in(self, row: int) -> str:
        """Return the text that a row has as its label; labels must be read."""
        assert self.taken.index is not None
        return self._row(row)[1][self.taken.index]

    def _row(self, row: int) -> tuple[int, list[str]]:
        with self._file.opened() as stream:
            return next(islice(self.layout.rows(stream, self.layout.n_skipped_lines), row, None))


@dataclass(frozen=True)
class CsvLayout:
    """Layout of a CSV file."""

    delimiter: str  # `BLANKS` means one or several blanks and tabs.
    names: list[str]  # Names of all columns; "column 0" and so on if the file has none.
    header: list[str] | None  # Fields of the line of names, if there is one.
    vacant: list[str]  # Names of columns without a name in the file, and without values in the first rows.
    line: bytes  # The line of `header`, or else the first row, with one delimiter between fields.
    length: int  # Number of bytes of this line in the file.
    n_skipped: int  # Number of bytes before the end of the line of names, or before the first row.
    n_skipped_lines: int  # Number of lines before the first row.
    path: str  # Path for messages.
    quotes: bool | None = None  # As in `FileOptions`.

    @classmethod
    def of_start(
        cls,
        path: Path | str,
        start: bytes,
        options: FileOptions = FileOptions(),  # noqa: B008 (frozen)
        wanted: WantedColumns = WantedColumns(),  # noqa: B008 (frozen)
    ) -> CsvLayout:
        """Determine the layout from the first lines, in UTF-8.

        Whether there is a line of names is decided by `options`, else by the column names in
        `wanted`, else by the rows that follow. Blank lines and comments may precede it.
        """
        header, quotes = options.header, options.quotes
        mark = len(BOM) if start.startswith(BOM) else 0
        lines = list(io.StringIO(start[mark:].decode(errors="surrogateescape"), newline=""))
        delimiter = separator("".join(lines[: 2 * SAMPLE_ROWS]), quotes)
        n_before = n_before_table(lines, delimiter, quotes)
        place = f"{path}, line {n_before + 1}"
        table = [delimited_line(line, delimiter, quotes) for line in lines[n_before : n_before + SAMPLE_ROWS + 1]]
        if not table:
            raise DataFileError(f"{path}, line 1 is empty; expected column names or values")
        if table[0].count(delimiter) >= MAX_COLUMNS:
            raise DataFileError(
                f"{place}: {table[0].count(delimiter) + 1} columns; CSV may have at most {MAX_COLUMNS}, LIBSVM text "
                "and Parquet may have more"
            )
        table = list(takewhile(lambda line: line.count(delimiter) < MAX_COLUMNS, table))
        try:
            first, n_lines = first_row(table, delimiter, quotes)
        except csv.Error as error:
            raise DataFileError(f"{place}: {error}") from error
        below = rows_below(table[n_lines:], delimiter, quotes)
        if header is None:
            header = holds_names(place, first, below, wanted)
        n_skipped = mark + sum(len(encoded(line)) for line in lines[:n_before])
        length = len(encoded("".join(lines[n_before : n_before + n_lines]).rstrip("\r\n")))
        names, vacant = [f"column {k}" for k in range(len(first))], list[str]()
        if header:
            names, vacant = names_of(place, first, below, delimiter)
            n_skipped, n_before = n_skipped + length, n_before + n_lines
        line, header_row = encoded("".join(table[:n_lines]).rstrip("\r\n")), first if header else None
        return cls(delimiter, names, header_row, vacant, line, length, n_skipped, n_before, str(path), quotes)

    def choose(self, wanted: WantedColumns) -> TableColumns:
        """Choose the columns to take."""
        return TableColumns.choose(self.path, self.names, wanted, self.vacant)

    def chunks(
        self, stream: BinaryIO, taken: TableColumns, texts: TextLabels, as_text: bool = False, is_part: bool = False
    ) -> Iterator[Chunk]:
        """Yield the rows of a stream and codes of their labels.

        With `as_text`, the rows of a chunk are a record batch of arbitrary texts instead of
        numbers, and labels may be missing. If `is_part`, the stream contains only rows.

        Raises `pyarrow.ArrowInvalid` for invalid rows; `first_fault` finds the reason.
        """
        import pyarrow as pa

        blocks = blocks_of_lines(stream, self.path, max(CHUNK, 16 * self.length), b"\r\n")
        blocks = blocks if is_part else self.behind_names(blocks)
        blocks = (delimited(block, self.delimiter, self.quotes) for block in blocks)
        try:
            if as_text or len(self.names) < _WIDE_COLUMNS:
                yield from self._narrow(blocks, taken, texts, as_text)
            else:
                yield from self._wide(blocks, taken, texts)
        except (csv.Error, UnicodeDecodeError) as error:
            raise pa.ArrowInvalid(str(error)) from error

    def behind_names(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the text from the end of the line of names on, or all rows without such a line."""
        n_left = self.n_skipped
        for block in blocks:
            yield block[n_left:]
            n_left = max(0, n_left - len(block))

    def known(self, taken: TableColumns) -> tuple[list[str] | None, str | int | None]:
        """Return the names of features, which only a header has, and the label's name or position."""
        return (taken.wanted, taken.label) if self.header else (None, taken.index)

    def joined(
        self, collected: Chunks | None, taken: TableColumns, texts: TextLabels, place: Callable[[int], str]
    ) -> DataSet:
        """Join all chunks, or None for no rows; columns have names if the file has a header.

        `place` returns the line of a row for messages, by the row's index.
        """
        names, label = self.known(taken)
        if collected is None:
            return replace(no_rows(len(taken.wanted), names, label), remarks=taken.remarks)
        found = texts.found(collected.y, taken.label, place)
        X, remarks = collected.dense(0, len(taken.wanted)), (*taken.remarks, *found.remarks)
        return DataSet(X, found.y, names, label, remarks=remarks, fraction=found.fraction)

    def _narrow(
        self, blocks: Iterable[bytes], taken: TableColumns, texts: TextLabels, as_text: bool
    ) -> Iterator[Chunk]:
        """Yield rows from Arrow's reader, one block at a time.

        If Arrow got the stream, it would read ahead on a thread that needs the interpreter's lock.
        When an error ended the interpreter meanwhile, that thread aborted the process.
        """
        import pyarrow as pa

        kept = b""  # Lines with a quote that is still open.
        for lines in blocks:
            block, table, wrong = kept + lines, None, None
            if not block.lstrip(b"\r\n"):
                continue
            try:
                table = self._table(block, taken, as_text)
            except pa.ArrowInvalid as error:
                wrong = error
            if self._may_hold_lines(block, table) and self._is_open(block):
                if len(block) > LONGEST_LINE:
                    raise pa.ArrowInvalid(UNCLOSED)
                kept = block
                continue
            if table is None:
                assert wrong is not None
                raise wrong
            kept = b""
            if self._repeats_names(block):
                raise pa.ArrowInvalid("the column names are repeated")
            for batch in table.to_batches():
                X = batch.select(taken.wanted) if as_text else matrix(batch, taken.wanted)
                y = None if taken.label is None else texts.codes(batch.column(taken.label))
                least = -1 if as_text else 0  # Codes of labels that may be missing, or not.
                if not (as_text or np.isfinite(X).all()) or (y is not None and (y < least).any()):
                    raise pa.ArrowInvalid("a value is missing, NaN or infinite")
                yield Chunk(X, y)
        if kept:
            raise pa.ArrowInvalid(UNCLOSED)

    def _repeats_names(self, block: bytes) -> bool:
        """Return whether a row repeats the line of names, perhaps with other quotes."""
        if self.header is None or self.line.replace(b'"', b"") not in block.replace(b'"', b""):
            return False
        return self.header in CsvReader(lines_of(block), self.delimiter, self.quotes)

    def _table(self, block: bytes, taken: TableColumns, as_text: bool) -> Any:
        import pyarrow as pa
        import pyarrow.csv

        types = dict.fromkeys(taken.wanted, pa.string() if as_text else pa.float64())
        if taken.label is not None:
            types[taken.label] = pa.string()
        # Arrow's parser ends the process when it runs out of memory, so what it needs is allocated
        # and freed here first: its table took 2.4 to 6.6 bytes per byte of a block of 1 MiB, and
        # its threads more.
        pa.allocate_buffer(7 * len(block) + 16 * 2**20)
        memory = pa.allocate_buffer(len(block) + 1)  # A thread of Arrow must not release an object of Python.
        characters = memoryview(memory).cast("B")
        characters[:1] = b"\n"  # Otherwise Arrow might take the first three bytes for a byte order mark.
        characters[1:] = block
        return pyarrow.csv.read_csv(
            pa.BufferReader(memory),
            pyarrow.csv.ReadOptions(block_size=len(block) + 2, use_threads=False, column_names=self.names),
            pyarrow.csv.ParseOptions(delimiter=self.delimiter, quote_char=False if self.quotes is False else '"'),
            pyarrow.csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[""]),
        )

    def _may_hold_lines(self, block: bytes, table: Any) -> bool:
        """Return whether `_is_open` must check quotes for line breaks and C's escapes."""
        if self.quotes is False or b'"' not in block:
            return False
        return b'\\"' in block or not (table and self._is_plain(block, table.num_rows))

    def _is_plain(self, block: bytes, n_rows: int) -> bool:
        """Return whether every line is a row, which is a quick check."""
        characters = np.frombuffer(block, dtype=np.uint8)
        inside = np.concatenate([[False], (characters != ord("\n")) & (characters != ord("\r"))])
        text = block.rstrip(b"\r\n")
        last = text[1 + max(text.rfind(b"\n"), text.rfind(b"\r")) :]
        return int(np.count_nonzero(inside[1:] & ~inside[:-1])) == n_rows and not self._is_open(last)

    def _is_open(self, block: bytes) -> bool:
        """Return whether the last quote in these lines is still open."""
        text = io.StringIO(block.decode(errors="surrogateescape"), newline="")
        try:
            for _ in self._reader(text):
                pass
        except csv.Error as error:
            if str(error) != UNCLOSED:
                raise
            return True
        return False

    def _wide(self, blocks: Iterable[bytes], taken: TableColumns, texts: TextLabels) -> Iterator[Chunk]:
        import pyarrow as pa

        rows = iter(self._reader(chain.from_iterable(map(lines_of, blocks))))
        indices, step = self._indices(taken), max(1, CHUNK // self.length)
        while some := list(islice(rows, step)):
            try:
                yield self._chunk(some, taken, texts, indices)
            except DataFileError:
                raise
            except ValueError as error:
                raise pa.ArrowInvalid(str(error)) from error

    def _reader(self, lines: Iterable[str]) -> CsvReader:
        return CsvReader(lines, self.delimiter, self.quotes, len(self.names))

    def _indices(self, taken: TableColumns) -> list[int]:
        index_of = {name: k for k, name in enumerate(self.names)}
        return [index_of[name] for name in taken.wanted]

    def block(self, lines: bytes, taken: TableColumns, texts: TextLabels) -> Chunk:
        """Return rows from Python's reader; raises ValueError or csv.Error for invalid ones."""
        rows = list(self._reader(lines_of(delimited(lines, self.delimiter, self.quotes))))
        return self._chunk(rows, taken, texts, self._indices(taken))

    def _chunk(self, rows: list[list[str]], taken: TableColumns, texts: TextLabels, indices: list[int]) -> Chunk:
        if self.header in rows:
            raise ValueError("the column names are repeated")
        return chunk_of(rows, len(self.names), taken, texts, indices)

    def rows(self, stream: BinaryIO, n_before: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows after `n_before` lines, with the number of the line where each begins.

        Raises csv.Error like `CsvReader`, with the number of the line and its fields as further
        arguments.
        """
        with io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="") as text:
            lines = (delimited_line(line, self.delimiter, self.quotes) for line in islice(text, n_before, None))
            reader = self._reader(lines)
            try:
                for row in reader:
                    yield reader.line + n_before, row
            except csv.Error as error:
                raise csv.Error(str(error), reader.line + n_before, reader.fields) from error

    def first_fault(
        self, stream: BinaryIO, taken: TableColumns, texts: TextLabels, name: Callable[[int, list[str]], str],
        n_before: int = 0,
    ) -> str | None:  # fmt: skip
        """Describe the first invalid row, which the fast reader does not locate.

        `name` returns the name of a line from its number and its fields, `n_before` is the number
        of lines before the rows, and `texts` decides which labels are missing. Returns an empty
        text if there are no rows, and None if all are valid.
        """
        indices, has_rows = self._indices(taken), False
        try:
            for line, row in self.rows(stream, n_before):
                has_rows = True
                fault = self._fault(row, indices, taken.index, texts)
                if fault:
                    return f"{name(line, row)}: {fault}"
        except csv.Error as error:
            return f"{name(*error.args[1:])}: {error.args[0]}"
        return None if has_rows else ""

    def _fault(self, row: list[str], indices: list[int], label: int | None, texts: TextLabels) -> str | None:
        if row == self.header:
            return "the column names are repeated; expected values"
        if len(row) != len(self.names):
            found = f"{len(row)} field{'s' * (len(row) != 1)}, expected {len(self.names)}"
            found += f": {short(row[0])!r}" if len(row) == 1 else ""
            return found + _QUOTE_HINT * any(map(has_break, row))
        if label is not None and indices and texts.lacks(row[label]):  # Rows of texts may lack labels.
            return missing_label(self.names[label], row[label])
        if label is not None and has_break(row[label]):
            return f"the label in column {short(self.names[label])!r} has a line break{_QUOTE_HINT}"
        for index in indices:
            if not is_number(row[index]) or not np.isfinite(float(row[index])):
                what = f"is {short(row[index])!r}" if row[index] else "is missing"
                what += "; a finite number expected" + _QUOTE_HINT * has_break(row[index])
                return f"column {short(self.names[index])!r} {what}"
        read = row if label is None or not indices else [row[label]]
        odd = next((text for text in read if not is_utf8(text)), None)
        return None if odd is None else not_utf8(odd)
