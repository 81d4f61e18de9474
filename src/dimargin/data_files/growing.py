"""Data files that grow while they are read: LIBSVM text and CSV.

Sites import this module: neither scikit-learn nor pyarrow is loaded.
"""

from __future__ import annotations

import csv
import io
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from dimargin.data_files.chunks import CHUNK, Chunk, Chunks, DataFileError, DataSet, is_compressed, no_rows, open_data
from dimargin.data_files.csv_rows import BOM
from dimargin.data_files.csv_text import CsvLayout
from dimargin.data_files.data import check_width, explained, format_taking
from dimargin.data_files.libsvm import LibsvmRows, parse_light
from dimargin.data_files.lines import blocks_of_lines
from dimargin.data_files.tables import TableColumns, TextLabels
from dimargin.system.descriptors import open_reserved

_PAUSE = 0.1  # seconds between two checks of a file that may be being written
_KEPT = 4096  # bytes before the place where reading goes on, by which the file is known again


class GrowingFile:
    r"""Data file of which each `read` gives the rows appended since the last one.

    The format follows from the name as in `read_data`: ``.csv``, else LIBSVM text. Rows and labels are those that
    `read_data` gives, too. The rows of one `read` are understood by themselves: X is dense or sparse, and labels are
    integers, floating-point numbers or text, by what these rows are. A label of CSV has no line break, quoted or not.

    Lines end with ``\n`` or ``\r\n``, and only whole ones are read; one that is still being written is left for the
    next time. But at the first read a last line without an end counts, too, if the file stays as it is for a tenth of a
    second: then nobody is writing, and the line is taken for whole. An error is raised should it go on later.

    A compressed file (gzip, bzip2, xz) can be read, but not grow: the first read gives all rows, later ones give none,
    or raise an error if the file is another one by then.

    Parameters
    ----------
    path : path-like
        The file need not exist before the first read; nothing is kept open in between.
    label : str or int, optional
        Name or position of the label column of CSV, counted from 0, or from the end if negative. By default the column
        named "label", "target", "class" or "y". LIBSVM text has its labels first.
    n_features : int, optional
        Width that X must have. LIBSVM text, which omits zeros, is widened to it. By default LIBSVM text has the largest
        feature number of all rows read so far, so that later rows may be wider than earlier ones.
    zero_based : bool, optional
        Whether LIBSVM text counts features from zero. By default it does if a feature 0 occurs in the first rows read.
    needs_label : bool, default=True
        Whether CSV without a label column is refused; else its rows have no labels.

    Attributes
    ----------
    path : Path

    Raises
    ------
    DataFileError
        For Parquet, which cannot grow, and for a label column of LIBSVM text, which has none.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "spam.csv"
    >>> _ = path.write_text("length,links,class\n120,0,ham\n80,7,spam\n")
    >>> growing = GrowingFile(path)
    >>> growing.read().y.tolist()
    ['ham', 'spam']
    >>> with open(path, "a") as file:
    ...     _ = file.write("95,6,spam\n10,")
    >>> growing.read().X.tolist()
    [[95.0, 6.0]]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        label: str | int | None = None,
        n_features: int | None = None,
        zero_based: bool | None = None,
        needs_label: bool = True,
    ) -> None:
        self.path = Path(path)
        kind = format_taking(self.path, label)
        if kind == "parquet":
            raise DataFileError(
                f"{path} is Parquet, whose end is written last, so that it cannot grow; CSV or LIBSVM text expected: "
                "append the rows to such a file, or read this one once with read_data"
            )
        rows = _LibsvmText(self.path, n_features, zero_based) if kind == "libsvm" else None
        self._rows: _Rows = rows or _CsvText(self.path, n_features, label, needs_label)
        self._position = _Position()
        self._is_first = True

    def read(self) -> DataSet:
        """Read the rows appended since the last call, none where there are no new ones.

        Returns
        -------
        DataSet
            X has shape (0, n_features) and y shape (0,) if there are no rows, whatever the labels are.

        Raises
        ------
        DataFileError
            For rows that `read_data` refuses, too, and for a file that shrank, was replaced or rewritten. What was
            appended then counts as not read, and the next call raises the error again.
        OSError
            If the file cannot be opened.
        """
        with open(self.path, "rb", opener=open_reserved) as file, explained(self.path):
            self._position.check(self.path, file)
            about, done = os.fstat(file.fileno()), self._position.offset
            size = about.st_size
            if not is_compressed(file):
                self._check_last_line(file)
                lines = self._lines(file, most=size - done, whole=self._is_first and _is_quiet(file, about))
                file.seek(done)
                data = self._rows.read(lines)
                size = done + lines.taken
            elif not done:
                with open_data(self.path) as stream:
                    data = self._rows.read(self._lines(stream))
            elif size > done:
                raise DataFileError(f"{self.path} is compressed, and so cannot grow, but did; plain text expected")
            else:
                data = self._rows.read([])
            self._position = _Position.until(file, size)
        self._is_first = False
        return data

    def _lines(self, stream: BinaryIO, **limits: Any) -> _Lines:
        return _Lines(blocks_of_lines(stream, self.path, CHUNK, first_line=self._rows.next_line, **limits))

    def _check_last_line(self, file: BinaryIO) -> None:
        """Raise DataFileError if a line that had been taken for whole went on."""
        file.seek(self._position.offset)
        if self._position.line_is_open and file.read(1) not in (b"", b"\r", b"\n"):
            raise DataFileError(
                f"{self.path}, line {self._rows.next_line}: it had no end when it was read, and went on later; "
                "expected an end of line before the next row"
            )


def _is_quiet(file: BinaryIO, before: os.stat_result) -> bool:
    """Return whether a file ends within a line although nobody is writing it."""
    file.seek(max(0, before.st_size - 1))
    if file.read(1) in (b"", b"\n"):
        return False
    time.sleep(_PAUSE)
    after = os.fstat(file.fileno())
    return (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@dataclass(frozen=True)
class _Position:
    """Position up to which a file has been read, and the marks by which the file is known again."""

    offset: int = 0
    identity: tuple[int, int] | None = None
    before: bytes = b""

    @property
    def line_is_open(self) -> bool:
        return self.offset > 0 and not self.before.endswith(b"\n")

    @classmethod
    def until(cls, file: BinaryIO, offset: int) -> _Position:
        if not offset:
            return cls()  # nothing is known of a file of which nothing was read
        about = os.fstat(file.fileno())
        file.seek(max(0, offset - _KEPT))
        return cls(offset, (about.st_dev, about.st_ino), file.read(min(offset, _KEPT)))

    def check(self, path: Path, file: BinaryIO) -> None:
        """Raise DataFileError unless the file only grew."""
        if not self.offset:
            return
        about = os.fstat(file.fileno())
        if about.st_size < self.offset:
            raise DataFileError(
                f"{path} shrank to {about.st_size} bytes after {self.offset} had been read; it may only grow"
            )
        file.seek(self.offset - len(self.before))
        same = (about.st_dev, about.st_ino) == self.identity and file.read(len(self.before)) == self.before
        if not same:
            raise DataFileError(f"{path} was replaced or rewritten after it had been read; it may only grow")


class _Lines:
    """Blocks of whole lines, of about a megabyte each; `taken` counts the bytes in those so far."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.taken = 0
        self._blocks = blocks

    def __iter__(self) -> Iterator[bytes]:
        for block in self._blocks:
            self.taken += len(block)
            yield block


# ---- formats ---------------------------------------------------------------------------------------------------------


class _Rows(ABC):
    """Base class of parsers that make rows of lines, from one call to the next.

    A call that raises an error changes nothing.
    """

    def __init__(self, path: Path, n_features: int | None) -> None:
        self.next_line = 1
        self._path, self._n_features = path, n_features

    @abstractmethod
    def read(self, lines: Iterable[bytes]) -> DataSet:
        """Return the rows of blocks of lines."""

    def _collected(self, chunks: Iterator[Chunk]) -> Chunks | None:
        first = next((chunk for chunk in chunks if chunk.X.shape[0]), None)
        return None if first is None else Chunks(self._path, chain([first], chunks))


class _LibsvmText(_Rows):
    def __init__(self, path: Path, n_features: int | None, zero_based: bool | None) -> None:
        super().__init__(path, n_features)
        self._zero_based, self._width = zero_based, 0

    def read(self, lines: Iterable[bytes]) -> DataSet:
        rows = LibsvmRows(self._path, self.next_line, parse_light)
        collected = self._collected(rows.chunks(lines))
        if collected is None:
            data = no_rows(self._n_features or self._width, zero_based=self._zero_based)
        else:
            data = rows.joined(collected, self._n_features, self._zero_based, self._width)
            check_width(self._path, data.X.shape[1], self._n_features)
            self._width = data.X.shape[1]
            if rows.least <= rows.largest:
                self._zero_based = data.zero_based
        self.next_line = rows.next_line
        return data


class _CsvText(_Rows):
    def __init__(self, path: Path, n_features: int | None, label: str | int | None, needs_label: bool) -> None:
        super().__init__(path, n_features)
        self._label, self._needs_label = label, needs_label
        self._table: tuple[CsvLayout, TableColumns] | None = None  # known from the first line on

    def read(self, lines: Iterable[bytes]) -> DataSet:
        blocks, table = iter(lines), self._table
        if table is None:
            start = next(blocks, b"").removeprefix(BOM)
            if not start:
                return no_rows(self._n_features or 0)
            table = self._begun(start)
            head = table[0].length if table[0].header else 0
            blocks = chain([start[head:]], blocks)  # without the names, but with the end of their line
        layout, columns = table
        rows = _CsvRows(self._path, layout, columns, self.next_line)
        collected = self._collected(rows.chunks(blocks))
        self._table, self.next_line = table, rows.next_line
        return layout.joined(collected, columns, rows.texts)

    def _begun(self, start: bytes) -> tuple[CsvLayout, TableColumns]:
        layout = CsvLayout.of_line(self._path, start)
        columns = TableColumns.choose(self._path, layout.names, self._label, needed=self._needs_label)
        check_width(self._path, len(columns.wanted), self._n_features)
        return layout, columns


class _CsvRows:
    """Rows of CSV, chunk by chunk, and the labels that occurred in them; the counterpart of `LibsvmRows`."""

    def __init__(self, path: Path, layout: CsvLayout, columns: TableColumns, next_line: int) -> None:
        self.next_line, self.texts = next_line, TextLabels(path)
        self._path, self._layout, self._columns = path, layout, columns

    def chunks(self, blocks: Iterable[bytes]) -> Iterator[Chunk]:
        """Yield the rows of blocks of whole lines, and codes of their labels."""
        for block in blocks:
            try:
                chunk = self._layout.block(block, self._columns, self.texts)
            except DataFileError:
                raise
            except (ValueError, csv.Error) as error:
                fault = self._layout.first_fault(io.BytesIO(block), self._columns, False, self._name)
                raise DataFileError(fault or f"{self._name(1, [])} or later: {error}") from error
            yield chunk
            self.next_line += block.count(b"\n")

    def _name(self, line: int, row: list[str]) -> str:
        return f"{self._path}, line {self.next_line + line - 1}"
