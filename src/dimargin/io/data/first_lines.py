"""The first lines of CSV: remarks before the table, and the names of its columns."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

from dimargin.io.data.chunks import DataFileError, short
from dimargin.io.data.csv_rows import (
    BLANKS,
    UNCLOSED,
    CsvReader,
    delimited_line,
    encoded,
    is_missing,
    is_remark,
    is_utf8,
    not_utf8,
)
from dimargin.io.data.labels import is_number
from dimargin.io.data.named_columns import WantedColumns, said_of_doubles
from dimargin.io.data.sniffing import has_names


def first_row(lines: Iterable[str], delimiter: str, quotes: bool | None) -> tuple[list[str], int]:
    """Return the fields of the first row, and the number of its lines; raises csv.Error if it cannot be read."""
    reader = CsvReader(lines, delimiter, quotes)
    fields = next(iter(reader), [""])
    if reader.is_open:
        raise csv.Error(UNCLOSED)
    return fields, max(1, reader.last)


def n_before_table(lines: list[str], delimiter: str, quotes: bool | None) -> int:
    """Return the number of blank lines, and remarks narrower than the table, before it."""
    filled = [k for k, line in enumerate(lines) if line.strip()]
    first = next((at for at, k in enumerate(filled) if not is_remark(lines[k])), 0)
    counts = [delimited_line(lines[k], delimiter, quotes).count(delimiter) for k in filled[: first + 1]]
    while first > 0 and counts[first - 1] == counts[-1] > 0:
        first -= 1
    return filled[first] if filled else len(lines)


def rows_below(lines: Iterable[str], delimiter: str, quotes: bool | None) -> list[list[str]]:
    """Return the rows before the first one that cannot be read."""
    rows = list[list[str]]()
    with suppress(csv.Error):
        for row in CsvReader(lines, delimiter, quotes):
            rows.append(row)
        return rows
    return rows[:-1]


def holds_names(place: str, first: list[str], below: list[list[str]], wanted: WantedColumns) -> bool:
    """Return whether the first row holds names; raises DataFileError if that is ambiguous."""
    fields = {field.strip() for field in first}
    has_all = bool(wanted.columns) and all(name.strip() in fields for name in wanted.columns or ())
    named = [*wanted.drop, *([wanted.label] if isinstance(wanted.label, str) else [])]
    if has_all or any(name.strip() in fields and not is_number(name) for name in named):
        return True
    first = _trimmed(first)
    decided = has_names(first, [row for row in map(_trimmed, below) if len(row) == len(first)])
    if decided is None:
        raise DataFileError(
            f"{place}: {short(', '.join(first))!r} may be column names or values; choose --header or --no-header, in "
            "Python header=True or header=False"
        )
    return decided


def _trimmed(row: list[str]) -> list[str]:
    """Return a row without the empty field that a trailing separator makes."""
    return row[:-1] if len(row) > 1 and not row[-1].strip() else row


def names_of(place: str, first: list[str], below: list[list[str]], delimiter: str) -> tuple[list[str], list[str]]:
    """Return the names of all columns, and of those without a name and values in the file.

    A column without a name gets the name that pandas would give it, except for the first column,
    which may be the index of the rows.
    """
    names = [field.strip() for field in first]
    if any("\0" in name for name in names):
        order = "be" if names[0].startswith("\0") else "le"  # The first byte of a Latin letter in UTF-16-BE is 0.
        raise DataFileError(f"{place}: a NUL byte; expected text. For UTF-16, use --encoding utf-16-{order}")
    if odd := next((name for name in names if not is_utf8(name)), None):
        raise DataFileError(f"{place}: the name of a column, {_shown(odd)}, is {not_utf8(odd)}")
    width = Counter(map(len, below)).most_common(1)[0][0] if below else len(names)
    rows = [row for row in below if len(row) == width]
    if width == len(names) - 1 and not names[-1]:
        names.pop()
    elif width == len(names) + 1 and not any(row[-1].strip() for row in rows):
        names.append("")
    elif width == len(names) + 1 and delimiter in (BLANKS, "\t") and len({row[0] for row in rows}) == len(rows):
        names.insert(0, "")  # R writes the names of rows in a column without a name.
    nameless = [k for k, name in enumerate(names) if k and not name]
    is_vacant = {k: width == len(names) and all(is_missing(row[k].strip()) for row in rows) for k in nameless}
    # Fewer than three rows may be malformed themselves; the error then names the row.
    if list(is_vacant.values()).count(False) > 1 or (len(rows) >= 3 and width != len(names)):
        n_names = len(names) - len(nameless)
        raise DataFileError(
            f"{place}: {n_names} column name{'s' * (n_names != 1)}, but the lines below have {width} fields; lines "
            "before the table must begin with #"
        )
    for k in nameless:
        names[k] = f"Unnamed: {k}"
    _check_differ(place, names, below)
    return names, [names[k] for k in nameless if rows and is_vacant[k]]


def _check_differ(place: str, names: Sequence[str], below: Sequence[Sequence[str]]) -> None:
    if len(set(names)) == len(names):
        return
    hint = ""
    columns = [column for column in zip(*(row for row in below if len(row) == len(names)), strict=True)]
    texts = [column for column in columns if column[0].strip() and not is_number(column[0])]
    numbers = [column for column in texts if len(column) > 1 and all(map(is_number, filter(str.strip, column[1:])))]
    if numbers and not any(is_number(column[0]) for column in columns):
        hint = (
            "; the line below holds texts above numbers, like the second line of names that pandas writes for columns "
            "of two levels: merge both lines"
        )
    raise DataFileError(f"{place}: {said_of_doubles(names)}{hint}")


def _shown(text: str) -> str:
    return repr(short(encoded(text).decode(errors="replace")))
