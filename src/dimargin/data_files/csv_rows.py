"""Rows of CSV by Python's own reader, for sites and for rows of thousands of columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dimargin.data_files.chunks import Chunk
from dimargin.data_files.labels import NOTHING
from dimargin.data_files.tables import TableColumns, TextLabels, has_break

MAX_COLUMNS = 2**20
"""Columns that a file may have: a reader takes some hundred bytes for each, whatever is in it."""
BLANKS = " "
_SOME_BLANKS, _BLANKS_AT_ENDS = re.compile(rb"[ \t]+"), re.compile(rb"(?:(?<=[\r\n])|\A) | (?=[\r\n]|\Z)")
_REMARK_LINE = re.compile(r"#|sep=.\s*$", re.IGNORECASE)
_BLANKS_OR_QUOTED = re.compile(rb'("[^"\r\n]*")|[ \t]+')
UNCLOSED = "a quote is not closed"
NOT_UTF8 = "not UTF-8 text; name its encoding, such as cp1252, by --encoding, or encoding= in Python"
_IN_NUMBERS = b"0123456789+-.eE \t"  # else Python reads more as a number than the other readers: 1_0, nan


def is_remark(line: str) -> bool:
    """Return whether a line before a table is a comment, or tells Excel the separator."""
    return _REMARK_LINE.match(line) is not None


def is_missing(text: str) -> bool:
    """Return whether a text says that a value is missing."""
    return text.lower() in NOTHING


def delimited(lines: bytes, delimiter: str) -> bytes:
    """Return lines with one delimiter between two fields; `BLANKS` stands for one or several blanks and tabs."""
    if delimiter != BLANKS:
        return lines
    lines = _BLANKS_OR_QUOTED.sub(_one_blank, lines) if b'"' in lines else _SOME_BLANKS.sub(b" ", lines)
    return _BLANKS_AT_ENDS.sub(b"", lines)


def _one_blank(found: re.Match[bytes]) -> bytes:
    return found[1] or b" "


def delimited_line(line: str, delimiter: str) -> str:
    """Return a line as `delimited` does."""
    if delimiter != BLANKS:
        return line
    return delimited(line.encode(errors="surrogateescape"), delimiter).decode(errors="surrogateescape")


def lines_of(block: bytes) -> Iterable[str]:
    """Return the lines of a block with their ends."""
    return io.StringIO(block.decode(), newline="")


class CsvReader:
    """Reader that yields the rows of lines as lists of fields; empty lines are left out.

    `line` is the line where the row given last begins, counted from one, or the one that cannot be read. Raises
    csv.Error for a field of more letters than Python's reader takes, and behind a last row whose quote is not closed.
    """

    def __init__(self, lines: Iterable[str], delimiter: str) -> None:
        self.line, self._ended = 1, False
        self._reader = csv.reader(chain(lines, self._end()), delimiter=delimiter)

    def _end(self) -> Iterator[str]:
        """Yield an empty line, which is a row by itself unless a quote was open before it."""
        self._ended = True
        yield "\n"

    def __iter__(self) -> Iterator[list[str]]:
        following = 1
        try:
            for row in self._reader:
                self.line, following = following, self._reader.line_num + 1
                if row:
                    yield row
                    if self._ended:
                        following = self.line
                        raise csv.Error(UNCLOSED)
        except csv.Error:
            self.line = following
            raise


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
    code_of = {text: -1 if has_break(text) else texts.code(text) for text in dict.fromkeys(labels)}
    codes = np.array([code_of[text] for text in labels], dtype=np.int32)
    if (codes < 0).any():
        raise ValueError("a label is missing")
    return codes
