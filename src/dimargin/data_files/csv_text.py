"""CSV files: their layout, their rows chunk by chunk, and the faults of rows that cannot be read.

Sites import this module: pyarrow is imported where it is needed.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dimargin.data_files.chunks import CHUNK, Chunk, Chunks, DataFileError, DataSet, no_rows, open_data, short
from dimargin.data_files.csv_rows import BOM, UNCLOSED, CsvReader, chunk_of, lines_of
from dimargin.data_files.labels import is_number
from dimargin.data_files.lines import LONGEST_LINE, blocks_of_lines, too_long
from dimargin.data_files.tables import MISSING, TableColumns, TextLabels, has_break, matrix

_MOST_COLUMNS = 2**20
"""Columns that a file may have: a reader takes some hundred bytes for each, whatever is in it."""
_WIDE = 1000  # columns from which on Python's reader is faster than Arrow's, which takes 50 us and 4 KB for each
# Bytes that Arrow takes for the table of a block by byte of it, which were 2.4 to 6.6 for blocks of 1 MiB, and more for
# its threads
_ROOM, _LEAST_ROOM = 7, 16 * 2**20


def read_csv(
    path: Path,
    stream: BinaryIO,
    label: str | int | None,
    columns: Sequence[str] | None,
    needs_label: bool,
    drop: Sequence[str],
) -> DataSet:
    """Read a stream of CSV; parameters as in `read_data`."""
    layout = CsvLayout.of(path)
    taken = TableColumns.choose(path, layout.names, label, columns, needs_label, drop)
    texts = TextLabels(path)
    with faults_named(path, layout, taken):
        collected = Chunks(path, layout.chunks(stream, taken, texts, header=layout.header))
    return layout.joined(collected, taken, texts)


@contextmanager
def faults_named(path: Path, layout: CsvLayout, taken: TableColumns) -> Iterator[None]:
    """Turn an error of Arrow's reader into one that names the line; features that are `taken` have to be numbers."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowInvalid as error:
        with open_data(path) as stream:
            fault = layout.first_fault(stream, taken, layout.header, lambda line, _: f"{path}, line {line}")
        fault = f"{path} has no rows" if fault == "" else fault
        raise DataFileError(fault or f"{path}: {error}") from error


@dataclass(frozen=True)
class CsvLayout:
    """Layout of a CSV file."""

    delimiter: str
    header: bool  # whether the first line has the names
    names: list[str]  # of all columns
    length: int  # of the first line, in bytes
    path: str  # for messages

    @classmethod
    def of(cls, path: Path) -> CsvLayout:
        """Determine the layout of a file."""
        with open_data(path) as stream:
            return cls.of_line(path, stream.readline(LONGEST_LINE + 1))

    @classmethod
    def of_line(cls, path: Path | str, start: bytes) -> CsvLayout:
        """Determine the layout by the first line, which is a header unless one of its fields is a number."""
        start = re.split(rb"[\r\n]", start, maxsplit=1)[0]
        if len(start) > LONGEST_LINE:
            raise DataFileError(f"{path}, line 1: {too_long()}")
        line = start.decode("utf-8-sig", errors="replace")
        bare = re.sub('"[^"]*"', "", line)
        delimiter = max(",;\t", key=bare.count)
        if bare.count(delimiter) >= _MOST_COLUMNS:
            raise DataFileError(
                f"{path}, line 1: {bare.count(delimiter) + 1} columns, of which CSV may have {_MOST_COLUMNS}; LIBSVM "
                "text and Parquet hold more"
            )
        try:
            fields = next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error as error:
            raise DataFileError(f"{path}, line 1: {error}") from error
        if not fields:
            raise DataFileError(f"{path}, line 1 is empty; expected column names or values")
        header = not any(map(is_number, fields))
        names = fields if header else [f"column {k}" for k in range(len(fields))]
        return cls(delimiter, header, names, len(start), str(path))

    def chunks(
        self, stream: BinaryIO, taken: TableColumns, texts: TextLabels, header: bool, as_text: bool = False
    ) -> Iterator[Chunk]:
        """Yield the rows of a stream and codes of their labels; `header` says whether it begins with the names.

        With `as_text`, the rows of a chunk are a record batch of text, whatever it is, and not numbers.

        Raises `pyarrow.ArrowInvalid` for what cannot be read; `first_fault` says what it is.
        """
        import pyarrow as pa

        blocks = blocks_of_lines(stream, self.path, max(CHUNK, 16 * self.length), b"\r\n")
        start = next(blocks, b"")
        start = start[self.length :] if header else start.removeprefix(BOM)
        blocks = chain([start], blocks)
        try:
            if as_text or len(self.names) < _WIDE:
                yield from self._narrow(blocks, taken, texts, as_text)
            else:
                yield from self._wide(blocks, taken, texts)
        except (csv.Error, UnicodeDecodeError) as error:
            raise pa.ArrowInvalid(str(error)) from error

    def joined(self, collected: Chunks | None, taken: TableColumns, texts: TextLabels) -> DataSet:
        """Join all chunks; None stands for no rows. Columns have names where the file has a header."""
        names, label = (taken.wanted, taken.label) if self.header else (None, taken.index)
        if collected is None:
            return no_rows(len(taken.wanted), names, label)
        y = None if collected.y is None else texts.values(collected.y)
        return DataSet(collected.dense(0, len(taken.wanted)), y, names, label)

    def _narrow(
        self, blocks: Iterable[bytes], taken: TableColumns, texts: TextLabels, as_text: bool
    ) -> Iterator[Chunk]:
        """Yield rows by Arrow's reader, a block at a time.

        Given the stream, Arrow would read ahead on a thread of its own, which asks for the interpreter's lock. Where an
        error ended the interpreter meanwhile, that thread, and by it the process, was aborted.
        """
        import pyarrow as pa

        kept = b""  # lines that end within quotes
        for lines in blocks:
            block, table, wrong = kept + lines, None, None
            if not block.lstrip(b"\r\n"):
                continue
            try:
                table = self._table(block, taken, as_text)
            except pa.ArrowInvalid as error:
                wrong = error
            if b'"' in block and not (table and self._is_plain(block, table.num_rows)) and self._is_open(block):
                if len(block) > LONGEST_LINE:
                    raise pa.ArrowInvalid(UNCLOSED)
                kept = block
                continue
            if table is None:
                assert wrong is not None
                raise wrong
            kept = b""
            for batch in table.to_batches():
                X = batch.select(taken.wanted) if as_text else matrix(batch, taken.wanted)
                y = None if taken.label is None else texts.codes(batch.column(taken.label))
                if not (as_text or np.isfinite(X).all()) or (y is not None and (y < 0).any()):
                    raise pa.ArrowInvalid("a value is missing, NaN or infinite")
                yield Chunk(X, y)
        if kept:
            raise pa.ArrowInvalid(UNCLOSED)

    def _table(self, block: bytes, taken: TableColumns, as_text: bool) -> Any:
        import pyarrow as pa
        import pyarrow.csv

        types = dict.fromkeys(taken.wanted, pa.string() if as_text else pa.float64())
        if taken.label is not None:
            types[taken.label] = pa.string()
        # Arrow's parser ends the process where memory ends: what it takes is taken once before, and freed
        pa.allocate_buffer(_ROOM * len(block) + _LEAST_ROOM)
        memory = pa.allocate_buffer(len(block) + 1)  # Arrow's, so that no thread of Arrow's lets go one of Python's
        characters = memoryview(memory).cast("B")
        characters[:1] = b"\n"  # else Arrow takes three bytes for a mark of the byte order, where they are none
        characters[1:] = block
        return pyarrow.csv.read_csv(
            pa.BufferReader(memory),
            pyarrow.csv.ReadOptions(block_size=len(block) + 2, use_threads=False, column_names=self.names),
            pyarrow.csv.ParseOptions(delimiter=self.delimiter),
            pyarrow.csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[""]),
        )

    def _is_plain(self, block: bytes, n_rows: int) -> bool:
        """Return whether every line is a row; this is quick where it is so."""
        characters = np.frombuffer(block, dtype=np.uint8)
        inside = np.concatenate([[False], (characters != ord("\n")) & (characters != ord("\r"))])
        text = block.rstrip(b"\r\n")
        last = text[1 + max(text.rfind(b"\n"), text.rfind(b"\r")) :]
        return int(np.count_nonzero(inside[1:] & ~inside[:-1])) == n_rows and not self._is_open(last)

    def _is_open(self, block: bytes) -> bool:
        """Return whether a quote is not closed in these lines."""
        text = io.StringIO(block.decode(errors="surrogateescape"), newline="")
        reader = CsvReader(text, self.delimiter)
        try:
            for _ in reader:
                pass
        except csv.Error as error:
            if str(error) != UNCLOSED:
                raise
            return True
        return False

    def _wide(self, blocks: Iterable[bytes], taken: TableColumns, texts: TextLabels) -> Iterator[Chunk]:
        """Yield rows by Python's reader."""
        import pyarrow as pa

        rows = iter(CsvReader(chain.from_iterable(map(lines_of, blocks)), self.delimiter))
        indices, step = self._indices(taken), max(1, CHUNK // self.length)
        while some := list(islice(rows, step)):
            try:
                yield chunk_of(some, len(self.names), taken, texts, indices)
            except DataFileError:
                raise
            except ValueError as error:
                raise pa.ArrowInvalid(str(error)) from error

    def _indices(self, taken: TableColumns) -> list[int]:
        index_of = {name: k for k, name in enumerate(self.names)}
        return [index_of[name] for name in taken.wanted]

    def block(self, lines: bytes, taken: TableColumns, texts: TextLabels) -> Chunk:
        """Return the rows of lines by Python's reader; raises ValueError or csv.Error for what cannot be read."""
        rows = list(CsvReader(lines_of(lines), self.delimiter))
        return chunk_of(rows, len(self.names), taken, texts, self._indices(taken))

    def first_fault(
        self, stream: BinaryIO, taken: TableColumns, header: bool, name: Callable[[int, list[str]], str]
    ) -> str | None:
        """Describe the fault in the first line that cannot be read; the fast reader does not say where it is.

        `name` gives the name of a line from its number and its fields; the others are as in `chunks`. What is returned
        is empty where there are no rows, and None where nothing is wrong.
        """
        indices, has_rows, row = self._indices(taken), False, list[str]()
        with io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="") as text:
            if header:
                text.readline()
            reader = CsvReader(text, self.delimiter)
            try:
                for row in reader:
                    has_rows = True
                    fault = self._fault(row, indices, taken.index)
                    if fault:
                        return f"{name(reader.line + header, row)}: {fault}"
            except csv.Error as error:
                return f"{name(reader.line + header, row)}: {error}"
        return None if has_rows else ""

    def _fault(self, row: list[str], indices: list[int], label: int | None) -> str | None:
        if len(row) != len(self.names):
            return f"{len(row)} fields, expected {len(self.names)}"
        if label is not None and row[label].strip().lower() in MISSING:
            return f"the label in column {short(self.names[label])!r} is missing"
        if label is not None and has_break(row[label]):
            return f"the label in column {short(self.names[label])!r} has a line break; is a quote not closed?"
        for index in indices:
            if not is_number(row[index]) or not np.isfinite(float(row[index])):
                what = f"is {short(row[index])!r}" if row[index] else "is missing"
                return f"column {short(self.names[index])!r} {what}; a finite number expected"
        if any("\udc80" <= letter <= "\udcff" for field in row for letter in field):
            return "not UTF-8 text"
        return None
