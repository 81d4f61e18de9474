"""Rows of CSV by Python's own reader, for sites and for rows of thousands of columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dimargin.io.data.chunks import Chunk
from dimargin.io.data.labels import NOTHING, is_number
from dimargin.io.data.named_columns import TableColumns, TextLabels, has_break

MAX_COLUMNS = 2**20
"""Columns that a file may have: a reader takes some hundred bytes for each, whatever is in it."""
BLANKS = " "
_SOME_BLANKS, _BLANKS_AT_ENDS = re.compile(rb"[ \t]+"), re.compile(rb"(?:(?<=[\r\n])|\A) | (?=[\r\n]|\Z)")
_REMARK_LINE = re.compile(r"#|sep=.\s*$", re.IGNORECASE)
_BLANKS_OR_QUOTED = re.compile(rb'("[^"\r\n]*")|[ \t]+')
_AS_LETTERS = "--no-quotes, in Python quotes=False, takes quotes for letters"
UNCLOSED = f"a quote is not closed; {_AS_LETTERS}"
_HOLDS_ROWS = (
    "a quote opens in this row and closes {} below, behind what looks like rows; is a quote not closed? "
    f"{_AS_LETTERS}, and --quotes, quotes=True, takes these lines for one cell"
)
_ESCAPED = (
    r"""a quote within quotes is written \", where "" is expected, as sed 's/\\"/""/g' FILE writes it, """
    'and write.table of R with qmethod = "double"'
)
_ESCAPES, _ENDS = re.compile(r"\\."), re.compile("\r\n|\r|\n")
NOT_UTF8 = "not UTF-8 text; name its encoding, such as cp1252, by --encoding, or encoding= in Python"
_IN_NUMBERS = b"0123456789+-.eE \t"  # else Python reads more as a number than the other readers: 1_0, nan


def is_remark(line: str) -> bool:
    """Return whether a line before a table is a comment, or tells Excel the separator."""
    return _REMARK_LINE.match(line) is not None


def is_missing(text: str) -> bool:
    """Return whether a text says that a value is missing."""
    return text.lower() in NOTHING


def is_utf8(text: str) -> bool:
    """Return whether text that was decoded with "surrogateescape" was UTF-8."""
    return not any("\udc80" <= letter <= "\udcff" for letter in text)


def delimited(lines: bytes, delimiter: str, quotes: bool | None = None) -> bytes:
    """Return lines with one delimiter between two fields; `BLANKS` stands for one or several blanks and tabs."""
    if delimiter != BLANKS:
        return lines
    has_quotes = quotes is not False and b'"' in lines
    lines = _BLANKS_OR_QUOTED.sub(_one_blank, lines) if has_quotes else _SOME_BLANKS.sub(b" ", lines)
    return _BLANKS_AT_ENDS.sub(b"", lines)


def _one_blank(found: re.Match[bytes]) -> bytes:
    return found[1] or b" "


def delimited_line(line: str, delimiter: str, quotes: bool | None = None) -> str:
    """Return a line as `delimited` does."""
    if delimiter != BLANKS:
        return line
    return delimited(line.encode(errors="surrogateescape"), delimiter, quotes).decode(errors="surrogateescape")


def lines_of(block: bytes) -> Iterable[str]:
    """Return the lines of a block with their ends."""
    return io.StringIO(block.decode(errors="surrogateescape"), newline="")


class CsvReader:
    """Reader that yields the rows of lines as lists of fields; empty lines are left out.

    `line` is the line where the row given last begins, counted from one, `last` the one where it ends, and `fields` are
    its fields, or all of that which cannot be read. Raises csv.Error for a field of more letters than Python's reader
    takes, for a quote that is written as in C, and behind a last row whose quote is not closed. `quotes` are as in
    `FileOptions`; unless they are True, a row whose quotes hold other rows of `width` fields is an error, too.
    """

    def __init__(self, lines: Iterable[str], delimiter: str, quotes: bool | None = None, width: int = 0) -> None:
        self.line, self.last, self.fields, self.is_open = 1, 0, list[str](), False
        self._delimiter, self._quotes, self._width = delimiter, quotes, width
        self._lines = list[str]()  # of the row
        lines = lines if quotes is False else map(self._seen, lines)
        self._reader = csv.reader(
            chain(lines, self._end()),
            delimiter=delimiter,
            quoting=csv.QUOTE_NONE if quotes is False else csv.QUOTE_MINIMAL,
        )

    def _seen(self, line: str) -> str:
        """Return a line, which is kept until its row is whole."""
        self._lines.append(line)
        if _is_escaped(line, self._delimiter):
            self.fields = [line]
            raise csv.Error(_ESCAPED)
        return line

    def _end(self) -> Iterator[str]:
        """Yield an empty line, which is a row by itself unless a quote was open before it."""
        self.is_open = True
        yield "\n"

    def __iter__(self) -> Iterator[list[str]]:
        following = 1
        try:
            for row in self._reader:
                if row and not self.is_open and (len(self._lines) > 1 or any(map(_has_escape, self._lines))):
                    self.fields = row
                    self._check(row)
                self.line, self.last, self.fields, following = (
                    following,
                    self._reader.line_num,
                    row,
                    self._reader.line_num + 1,
                )
                self._lines.clear()
                if row:
                    yield row
                    if self.is_open:
                        following = self.line
                        raise csv.Error(UNCLOSED)
        except csv.Error:
            self.line = following
            raise

    def _check(self, row: list[str]) -> None:
        """Raise csv.Error if quotes are written as in C or hold other rows, as far as quotes and lines tell."""
        try:
            for _ in csv.reader(self._lines, delimiter=self._delimiter, strict=True):
                pass
            is_wrong = any(self._holds_rows(row, k) for k, cell in enumerate(row) if has_break(cell))
        except csv.Error:  # there is text behind a quote that closes a cell
            is_wrong = True
            if any(map(_has_escape, self._lines)):
                raise csv.Error(_ESCAPED) from None
        n_lines = len(self._lines) - 1
        if is_wrong and n_lines and self._quotes is None:
            raise csv.Error(_HOLDS_ROWS.format(f"{n_lines} line{'s' * (n_lines != 1)}"))

    def _holds_rows(self, row: list[str], k: int) -> bool:
        """Return whether the lines of a cell are rows of as many fields as the table has, and one of them numbers.

        Tabs are hardly ever in texts: between them, other rows count, too.
        """
        rows = [line.split(self._delimiter) for line in _ENDS.split(row[k])]
        rows[0], rows[-1] = [*row[:k], *rows[0]], [*rows[-1], *row[k + 1 :]]
        if self._width < 2 or set(map(len, rows)) != {self._width}:
            return False
        columns = zip(*rows, strict=True)
        return self._delimiter == "\t" or any(all(is_number(c.replace(",", ".")) for c in column) for column in columns)


def _has_escape(line: str) -> bool:
    return '\\"' in line


def _is_escaped(line: str, delimiter: str) -> bool:
    r"""Return whether quotes within the quotes of a line are written \", as in C, and nothing speaks against it."""
    if not _has_escape(line) or '\\"' not in _ESCAPES.findall(line):
        return False
    field = rf"""(?:"(?:[^"\\]|\\.)*"|(?!")[^{re.escape(delimiter)}]*)"""
    return re.fullmatch(f"{field}(?:{re.escape(delimiter)}{field})*", line.rstrip("\r\n")) is not None


def chunk_of(rows: list[list[str]], width: int, taken: TableColumns, texts: TextLabels, indices: list[int]) -> Chunk:
    """Return the numbers of rows of `width` fields, in the features of these indices, and the codes of their labels.

    Raises ValueError if a row is wrong, without saying which: this is fast where all is well.
    """
    if set(map(len, rows)) - {width}:
        raise ValueError("rows of different width")
    y = None if taken.index is None else _codes([row[taken.index] for row in rows], texts)
    if len(indices) == width:
        fields = list(chain.from_iterable(rows))
    elif len(indices) == width - 1 and indices == [k for k in range(width) if k != taken.index]:
        fields = list(chain.from_iterable(rows))
        del fields[taken.index :: width]
    else:
        fields = [row[index] for row in rows for index in indices]
    if "".join(fields).encode().translate(None, _IN_NUMBERS):
        raise ValueError("a field is no number")
    X = np.fromiter(map(float, fields), np.float64, len(fields)).reshape(len(rows), len(indices))
    if not np.isfinite(X).all():
        raise ValueError("a value is missing, NaN or infinite")
    return Chunk(X, y)


def _codes(labels: list[str], texts: TextLabels) -> NDArray[np.int32]:
    code_of = {text: texts.code(text) if is_utf8(text) else -1 for text in dict.fromkeys(labels)}
    codes = np.array([code_of[text] for text in labels], dtype=np.int32)
    if (codes < 0).any():
        raise ValueError("a label is missing")
    return codes
