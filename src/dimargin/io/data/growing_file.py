"""Data files that grow while they are read: LIBSVM text and CSV.

Sites import this module, which must load neither scikit-learn nor pyarrow.
"""

from __future__ import annotations

import csv
import io
import os
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

from numpy.typing import NDArray

from dimargin.io.data.chunks import CHUNK, Chunk, Chunks, DataFileError, DataSet, check_classes, no_rows
from dimargin.io.data.csv_rows import UNCLOSED
from dimargin.io.data.csv_text import CsvLayout
from dimargin.io.data.libsvm import LibsvmRows, parse_light
from dimargin.io.data.lines import LONGEST_LINE, blocks_of_lines
from dimargin.io.data.named_columns import TableColumns, TextLabels, WantedColumns
from dimargin.io.data.opening import BOM, PARQUET, DataFile, FileOptions, explained, open_data, opener_of
from dimargin.io.data.row_numbers import remarks_on_row_numbers
from dimargin.io.data.sniffing import beginning, name_format
from dimargin.io.data.whole_file import check_width
from dimargin.system.descriptors import open_reserved

_QUIET_SECONDS = 0.1  # A file that does not change for this long is not being written.


class GrowingFile:
    r"""Data file of which each `read` returns the rows appended since the last one.

    The format, the rows and the labels are determined as in `read_data`, by the rows of one `read`
    only: X is dense or sparse, and labels are integers, floating-point numbers or texts; once
    labels of CSV were texts, they stay texts. A label of CSV must not contain a line break, even in
    quotes, and a label that is a fraction is refused.

    Lines end with ``\n`` or ``\r\n``, and only complete lines are read. At the first read, a last
    line without a line break counts as complete if the file does not change for a tenth of a
    second; an error is raised if it is continued later.

    A compressed file (gzip, bzip2, xz) can be read, but must not grow: the first read returns all
    rows, and later ones return none or raise an error if the file was replaced.

    Parameters
    ----------
    path : path-like
        The file need not exist before the first read, and is not kept open between reads.
    n_features : int, optional
        Width of X, to which LIBSVM text is widened. By default the largest feature number in all
        rows of LIBSVM text read so far, so that later rows may be wider than earlier ones.
    encoding : str, optional
        Encoding of text, such as "cp1252", by default UTF-8. UTF-16 cannot be read as it grows.
    label, zero_based, needs_label, format, header, quotes :
        As in `dimargin.read_data`; the rows of the first read determine `zero_based` and `header`.

    Attributes
    ----------
    path : Path

    Raises
    ------
    DataFileError
        For Parquet, which cannot grow.
    ValueError
        For an unknown format or encoding.

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
        format: Literal["csv", "libsvm", "parquet"] | None = None,
        header: bool | None = None,
        encoding: str | None = None,
        quotes: bool | None = None,
    ) -> None:
        self.path, self._options = Path(path), FileOptions(format, header, encoding, quotes)
        self._options.check_lines(self.path)
        self._wanted = WantedColumns(label, needs_label=needs_label)
        self._n_features, self._zero_based = n_features, zero_based
        self._rows: _Rows | None = None  # The parser is chosen by the first lines.
        self._position = _Position()
        self._is_first, self._has_rows = True, False
        if self._options.format == "parquet" or name_format(self.path) == "parquet":
            raise _cannot_grow(self.path)

    def read(self) -> DataSet:
        """Read the rows appended since the last call.

        Returns
        -------
        DataSet
            X has shape (0, n_features) and y shape (0,) if there are no new rows, whatever the
            labels are.

        Raises
        ------
        DataFileError
            For rows that `read_data` also refuses, and for a file that shrank, was replaced or
            rewritten. The appended rows then remain unread, and the next call raises the error
            again.
        OSError
            If the file cannot be opened.
        """
        if not stat.S_ISREG(self.path.stat().st_mode):
            raise DataFileError(f"{self.path} is a pipe or a device, not a file that can grow; expected a file of rows")
        with open(self.path, "rb", opener=open_reserved) as file, explained(self.path):
            self._position.check(self.path, file)
            about, done = os.fstat(file.fileno()), self._position.offset
            size = about.st_size
            if opener_of(self.path, file, self._options) is None:
                _check_text(self.path, file, self._options)
                self._check_last_line(file)
                lines = self._lines(file, most=size - done, whole=self._is_first and _is_quiet(file, about))
                file.seek(done)
                data = self._read_rows(map(self._options.utf8, lines))
                size = done + lines.taken if self._rows else done
            elif not done:
                with open_data(self.path, self._options) as stream:
                    data = self._read_rows(iter(self._lines(stream)))
            elif size > done:
                raise DataFileError(f"{self.path} grew although it is compressed; expected plain text")
            else:
                data = self._read_rows(iter([]))
            self._position = _Position.until(file, size)
        self._is_first = False
        remarks = () if self._has_rows else (*data.remarks, *remarks_on_row_numbers(self.path, data))
        self._has_rows = self._has_rows or data.X.shape[0] > 0
        return replace(data, remarks=remarks)

    def _read_rows(self, blocks: Iterator[bytes]) -> DataSet:
        """Return the rows of blocks of lines; an empty file, whose format is unknown, has none."""
        rows = self._rows
        if rows is None:
            start, blocks = beginning(blocks)
            if not start.removeprefix(BOM).strip():
                return no_rows(self._n_features or 0)
            rows = self._rows_of(start)
        data = rows.read(blocks)
        self._rows = rows  # This is not reached if the lines were refused.
        return data

    def _rows_of(self, start: bytes) -> _Rows:
        """Return the parser of a file that begins with the lines `start`."""
        file = DataFile(self.path, self._options, start)
        file.check(self._wanted)
        if file.kind == "libsvm":
            return _LibsvmText(self.path, self._n_features, self._zero_based, self._wanted.needs_label)
        return _CsvText(file, self._n_features, self._wanted)

    @property
    def _next_line(self) -> int:
        return 1 if self._rows is None else self._rows.next_line

    def _lines(self, stream: BinaryIO, **limits: Any) -> _Lines:
        return _Lines(blocks_of_lines(stream, self.path, CHUNK, first_line=self._next_line, **limits))

    def _check_last_line(self, file: BinaryIO) -> None:
        """Raise DataFileError if a line that was read as complete was continued."""
        file.seek(self._position.offset)
        if self._position.line_is_open and file.read(1) not in (b"", b"\r", b"\n"):
            raise DataFileError(
                f"{self.path}, line {self._next_line}: it was continued after it had been read without a line break; "
                "expected a line break before the next row"
            )


def _cannot_grow(path: Path) -> DataFileError:
    return DataFileError(
        f"{path} is Parquet, whose footer is written last, so that it cannot grow; expected CSV or LIBSVM text: append "
        "the rows to such a file, or read this one once with read_data"
    )


def _check_text(path: Path, file: BinaryIO, options: FileOptions) -> None:
    """Raise DataFileError for a kind of file that cannot grow line by line, by its first bytes."""
    file.seek(0)
    start = file.read(len(PARQUET))
    if start == PARQUET:
        raise _cannot_grow(path)
    options.check_lines(path, start)


def _is_quiet(file: BinaryIO, before: os.stat_result) -> bool:
    """Return whether a file ends within a line although no process is writing it."""
    file.seek(max(0, before.st_size - 1))
    if file.read(1) in (b"", b"\n"):
        return False
    time.sleep(_QUIET_SECONDS)
    after = os.fstat(file.fileno())
    return (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@dataclass(frozen=True)
class _Position:
    """Position up to which a file has been read, with marks that identify the file."""

    offset: int = 0
    identity: tuple[int, int] | None = None
    before: bytes = b""

    @property
    def line_is_open(self) -> bool:
        return self.offset > 0 and not self.before.endswith(b"\n")

    @classmethod
    def until(cls, file: BinaryIO, offset: int) -> _Position:
        if not offset:
            return cls()  # A file of which nothing was read has no marks.
        about, n_marks = os.fstat(file.fileno()), min(offset, 4096)  # These bytes identify the file at the next read.
        file.seek(offset - n_marks)
        return cls(offset, (about.st_dev, about.st_ino), file.read(n_marks))

    def check(self, path: Path, file: BinaryIO) -> None:
        """Raise DataFileError unless the file only grew."""
        if not self.offset:
            return
        about = os.fstat(file.fileno())
        if about.st_size < self.offset:
            raise DataFileError(
                f"{path} shrank to {about.st_size} bytes after {self.offset} had been read; it must only grow"
            )
        file.seek(self.offset - len(self.before))
        same = (about.st_dev, about.st_ino) == self.identity and file.read(len(self.before)) == self.before
        if not same:
            raise DataFileError(f"{path} was replaced or rewritten after it had been read; it must only grow")


class _Lines:
    """Blocks of whole lines, of about a megabyte each; `taken` counts the bytes so far."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.taken = 0
        self._blocks = blocks

    def __iter__(self) -> Iterator[bytes]:
        for block in self._blocks:
            self.taken += len(block)
            yield block


# ---- formats ---------------------------------------------------------------------------------------------------------


class _Rows(ABC):
    """Base class of parsers of growing text; a call that fails does not change their state."""

    def __init__(self, path: Path, n_features: int | None) -> None:
        self.next_line = 1
        self._path, self._n_features = path, n_features

    @abstractmethod
    def read(self, lines: Iterable[bytes]) -> DataSet:
        """Return the rows of blocks of lines."""


class _LibsvmText(_Rows):
    def __init__(self, path: Path, n_features: int | None, zero_based: bool | None, needs_label: bool) -> None:
        super().__init__(path, n_features)
        self._zero_based, self._width, self._needs_label = zero_based, 0, needs_label

    def read(self, lines: Iterable[bytes]) -> DataSet:
        rows = LibsvmRows(self._path, self.next_line, parse_light, self._needs_label)
        collected = Chunks.from_any(self._path, rows.chunks(lines))
        if collected is None:
            data = no_rows(self._n_features or self._width, zero_based=self._zero_based)
        else:
            data = rows.joined(collected, self._n_features, self._zero_based, self._width)
            check_classes(data.fraction)
            check_width(self._path, data.X.shape[1], self._n_features)
            self._width = data.X.shape[1]
            if rows.least <= rows.largest:
                self._zero_based = data.zero_based
        self.next_line = rows.next_line
        return data


class _CsvText(_Rows):
    def __init__(self, file: DataFile, n_features: int | None, wanted: WantedColumns) -> None:
        super().__init__(file.path, n_features)
        self._layout = CsvLayout.of_start(file.path, file.start, file.options, wanted)
        self._columns = self._layout.choose(wanted)
        check_width(file.path, len(self._columns.wanted), n_features)
        self._n_lines_of_names = file.start[: self._layout.n_skipped].count(b"\n")
        self._is_first, self._as_text = True, False
        self._are_numbers: bool | None = None  # Whether all labels so far are numbers.

    def read(self, lines: Iterable[bytes]) -> DataSet:
        next_line = self.next_line
        if self._is_first:
            lines, next_line = self._layout.behind_names(lines), next_line + self._n_lines_of_names
        texts = TextLabels(self._path, self._as_text, are_numbers=self._are_numbers)
        rows = _NewRows(self._path, self._layout, self._columns, next_line, texts)
        collected = Chunks.from_any(self._path, rows.chunks(lines))
        data = self._layout.joined(collected, self._columns, texts, rows.places.__getitem__)
        check_classes(data.fraction)
        self._is_first, self.next_line, self._are_numbers = False, rows.next_line, texts.are_numbers
        self._as_text = self._as_text or (data.y is not None and data.y.dtype.kind in "UO")
        return data


class _NewRows:
    """Appended rows of CSV, chunk by chunk, and the labels in them; the counterpart of `LibsvmRows`.

    `places` maps the index of a row that messages may name to its line.
    """

    def __init__(self, path: Path, layout: CsvLayout, columns: TableColumns, next_line: int, texts: TextLabels) -> None:
        self.next_line, self.texts = next_line, texts
        self._path, self._layout, self._columns = path, layout, columns
        self.places = dict[int, str]()
        self._noted: set[int | None] = {None}
        self._n_rows = 0

    def chunks(self, blocks: Iterable[bytes]) -> Iterator[Chunk]:
        """Yield the rows of blocks of whole lines, and codes of their labels."""
        blocks = iter(blocks)
        block = next(blocks, None)
        while block is not None:
            following = next(blocks, None)
            try:
                chunk = self._layout.block(block, self._columns, self.texts)
            except DataFileError:
                raise
            except (ValueError, csv.Error) as error:
                if str(error) == UNCLOSED and following is not None and len(block) <= LONGEST_LINE:
                    block += following  # The block ends within quotes.
                    continue
                fault = self._layout.first_fault(io.BytesIO(block), self._columns, self.texts, self._name)
                raise DataFileError(fault or f"{self._name(1, [])} or later: {error}") from error
            if chunk.y is not None:
                self._note_places(block, chunk.y)
            yield chunk
            self.next_line += block.count(b"\n")
            block = following

    def _note_places(self, block: bytes, codes: NDArray[Any]) -> None:
        """Note the lines of labels that are doubtful or fractions, before the block is dropped."""
        for code in {self.texts.doubtful, self.texts.fraction} - self._noted:
            row = int((codes == code).argmax())
            line, _ = next(islice(self._layout.rows(io.BytesIO(block), 0), row, None))
            self.places[self._n_rows + row] = f"line {self.next_line + line - 1}"
            self._noted.add(code)
        self._n_rows += len(codes)

    def _name(self, line: int, row: list[str]) -> str:
        return f"{self._path}, line {self.next_line + line - 1}"
