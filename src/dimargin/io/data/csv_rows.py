"""Rows of CSV from Python's own reader, for sites and for rows of thousands of columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dimargin.io.data.chunks import Chunk, short
from dimargin.io.data.labels import NOTHING, is_number
from dimargin.io.data.named_columns import TableColumns, TextLabels, has_break

MAX_COLUMNS = 2**20
"""Maximum number of columns of a file; readers need some hundred bytes for each."""
BLANKS = " "
"""Delimiter that means one or several blanks and tabs."""
GUESSED_ENCODING = "cp1252"
"""The most common encoding of CSV that is not UTF-8."""
NOT_UTF8 = "not UTF-8 text"
"""Words of every message on text that is not UTF-8."""
_NO_QUOTES_HINT = "--no-quotes, in Python quotes=False, reads quotes as letters"
UNCLOSED = f"a quote is not closed; {_NO_QUOTES_HINT}"
_ESCAPED_QUOTE = (
    r"""a quote within quotes is written \"; expected "", as written by sed 's/\\"/""/g' FILE """
    'or by write.table of R with qmethod = "double"'
)


def is_remark(line: str) -> bool:
    """Return whether a line before a table is a comment or Excel's declaration of the separator."""
    return re.match(r"#|sep=.\s*$", line, re.IGNORECASE) is not None


def is_missing(text: str) -> bool:
    """Return whether a text marks a missing value."""
    return text.lower() in NOTHING


def is_utf8(text: str) -> bool:
    """Return whether text that was decoded with "surrogateescape" was UTF-8."""
    return not any("\udc80" <= letter <= "\udcff" for letter in text)


def encoded(text: str) -> bytes:
    """Return the bytes of a text from a file, including those that are not UTF-8."""
    return text.encode(errors="surrogateescape")


def not_utf8(text: str) -> str:
    """Return a message on text that is not UTF-8, with its letters in `GUESSED_ENCODING`."""
    guess = f"{GUESSED_ENCODING} ({short(repr(encoded(text).decode(GUESSED_ENCODING, errors='replace')))})"
    return f"{NOT_UTF8}; name its encoding, such as {guess}, by --encoding, or encoding= in Python"


def delimited(lines: bytes, delimiter: str, quotes: bool | None = None) -> bytes:
    """Return lines with exactly one delimiter between two fields, also for `BLANKS`."""
    if delimiter != BLANKS:
        return lines
    if quotes is not False and b'"' in lines:
        lines = re.sub(rb'("[^"\r\n]*")|[ \t]+', _one_blank, lines)
    else:
        lines = re.sub(rb"[ \t]+", b" ", lines)
    return re.sub(rb"(?:(?<=[\r\n])|\A) | (?=[\r\n]|\Z)", b"", lines)  # This removes blanks at the ends of lines.


def _one_blank(found: re.Match[bytes]) -> bytes:
    return found[1] or b" "


def delimited_line(line: str, delimiter: str, quotes: bool | None = None) -> str:
    """Return a line with exactly one delimiter between two fields, like `delimited`."""
    if delimiter != BLANKS:
        return line
    return delimited(encoded(line), delimiter, quotes).decode(errors="surrogateescape")


def lines_of(block: bytes) -> Iterable[str]:
    """Return the lines of a block, including their line breaks."""
    return io.StringIO(block.decode(errors="surrogateescape"), newline="")


class CsvReader:
    """Reader that yields the rows of lines as lists of fields and skips empty lines.

    `line` and `last` are the first and the last line of the latest row, counted from one, and
    `fields` are its fields, or the part that cannot be read. Raises csv.Error for a field longer
    than Python's reader accepts, for a quote that is escaped as in C, and after a last row with an
    unclosed quote. `quotes` is as in `FileOptions`; unless it is True, a row whose quotes contain
    other rows of `width` fields is also an error.
    """

    def __init__(self, lines: Iterable[str], delimiter: str, quotes: bool | None = None, width: int = 0) -> None:
        self.line, self.last, self.fields, self.is_open = 1, 0, list[str](), False
        self._delimiter, self._quotes, self._width = delimiter, quotes, width
        self._lines = list[str]()  # The lines of the current row.
        lines = lines if quotes is False else map(self._seen, lines)
        self._reader = csv.reader(
            chain(lines, self._end()),
            delimiter=delimiter,
            quoting=csv.QUOTE_NONE if quotes is False else csv.QUOTE_MINIMAL,
        )

    def _seen(self, line: str) -> str:
        """Return a line, which is kept until its row is complete."""
        self._lines.append(line)
        if _is_escaped(line, self._delimiter):
            self.fields = [line]
            raise csv.Error(_ESCAPED_QUOTE)
        return line

    def _end(self) -> Iterator[str]:
        """Yield an empty line, which is a separate row unless a quote is still open."""
        self.is_open = True
        yield "\n"

    def __iter__(self) -> Iterator[list[str]]:
        following = 1
        try:
            for row in self._reader:
                if row and not self.is_open and (len(self._lines) > 1 or any(map(_has_escape, self._lines))):
                    self.fields = row
                    self._check(row)
                self.line, self.last, self.fields = following, self._reader.line_num, row
                following = self.last + 1
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
        """Raise csv.Error if quotes are escaped as in C or seem to contain other rows."""
        try:
            for _ in csv.reader(self._lines, delimiter=self._delimiter, strict=True):
                pass
            is_wrong = any(self._holds_rows(row, k) for k, cell in enumerate(row) if has_break(cell))
        except csv.Error:  # Text follows the closing quote of a cell.
            is_wrong = True
            if any(map(_has_escape, self._lines)):
                raise csv.Error(_ESCAPED_QUOTE) from None
        n_lines = len(self._lines) - 1
        if is_wrong and n_lines and self._quotes is None:
            raise csv.Error(
                f"a quote opens in this row and closes {n_lines} line{'s' * (n_lines != 1)} below, after what looks "
                f"like rows; is a quote not closed? {_NO_QUOTES_HINT}, and --quotes, quotes=True, reads these lines "
                "as one cell"
            )

    def _holds_rows(self, row: list[str], k: int) -> bool:
        """Return whether the lines of a cell are as wide as the table, with a column of numbers.

        With tabs, which texts hardly ever contain, rows without such a column count, too.
        """
        rows = [line.split(self._delimiter) for line in re.split("\r\n|\r|\n", row[k])]
        rows[0], rows[-1] = [*row[:k], *rows[0]], [*rows[-1], *row[k + 1 :]]
        if self._width < 2 or set(map(len, rows)) != {self._width}:
            return False
        columns = zip(*rows, strict=True)
        return self._delimiter == "\t" or any(all(is_number(c.replace(",", ".")) for c in column) for column in columns)


def _has_escape(line: str) -> bool:
    return '\\"' in line


def _is_escaped(line: str, delimiter: str) -> bool:
    r"""Return whether a line only parses with quotes that are escaped as in C, \"."""
    if not _has_escape(line) or '\\"' not in re.findall(r"\\.", line):
        return False
    field = rf"""(?:"(?:[^"\\]|\\.)*"|(?!")[^{re.escape(delimiter)}]*)"""
    return re.fullmatch(f"{field}(?:{re.escape(delimiter)}{field})*", line.rstrip("\r\n")) is not None


def chunk_of(rows: list[list[str]], width: int, taken: TableColumns, texts: TextLabels, indices: list[int]) -> Chunk:
    """Return the features with these indices, and the codes of the labels, of some rows.

    Raises ValueError for an invalid row without naming it, which keeps valid rows fast.
    """
    if set(map(len, rows)) - {width}:
        raise ValueError("rows of different widths")
    y = None if taken.index is None else _codes([row[taken.index] for row in rows], texts)
    if len(indices) == width:
        fields = list(chain.from_iterable(rows))
    elif len(indices) == width - 1 and indices == [k for k in range(width) if k != taken.index]:
        fields = list(chain.from_iterable(rows))
        del fields[taken.index :: width]
    else:
        fields = [row[index] for row in rows for index in indices]
    # Python reads more texts as numbers than the other readers, such as 1_0 and nan.
    if "".join(fields).encode().translate(None, b"0123456789+-.eE \t"):
        raise ValueError("a field is not a number")
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
