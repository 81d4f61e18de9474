"""Guesses from the first lines of a text: its format, separator and line of names.

Sites import this module, which must load neither scikit-learn nor pyarrow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from dimargin.io.data.csv_rows import BLANKS, MAX_COLUMNS, is_missing, is_remark
from dimargin.io.data.labels import is_number

SAMPLE_ROWS = 100
SAMPLE_BYTES = 2**18
"""Maximum numbers of lines and bytes that guesses use; they use at least two lines."""

_MIN_AGREEMENT = 0.9  # At most a tenth of the lines may have another number of separators.
_LINE_ENDS = re.compile("[\r\n]+")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)


def beginning(blocks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first lines of a text, which guesses use, and all of its blocks."""
    taken, end = list[bytes](), None
    for block in blocks:
        taken.append(block)
        if sum(map(len, taken)) >= SAMPLE_BYTES:
            end = _end_of_sample(b"".join(taken))
        if end is not None:
            break
    return b"".join(taken)[:end], chain(taken, blocks)


def _end_of_sample(start: bytes) -> int | None:
    """Return the end of the sample, at least two lines, independently of the text's blocks."""
    first = re.search(rb"[^\r\n]+[\r\n]*", start)
    found = first and re.compile(rb"[^\r\n][\r\n]+").search(start, max(first.end(), SAMPLE_BYTES - 2))
    return found.end() if found else None


def name_format(path: Path) -> str | None:
    """Return the format that the suffix of a file indicates, or None."""
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".bz2", ".xz"):
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    return "csv" if last in (".csv", ".tsv", ".tab") else "parquet" if last in (".parquet", ".pq", ".parq") else None


def text_format(path: Path, start: bytes, has_columns: bool = False) -> str:
    """Guess from its beginning whether a text is "libsvm" or "csv".

    If the text is ambiguous, it is CSV if the suffix of the file says so or the caller knows that
    it `has_columns`. Times of day contain a colon but are not features.
    """
    text = start.decode("utf-8-sig", errors="replace")
    zone = r"([+-]\d\d(:?\d\d)?|Z)?"
    clock_time, exact_time = rf"\d{{1,2}}:[0-5]\d{zone}", rf"\d{{1,2}}:[0-5]\d:[0-5]\d([.,]\d+)?{zone}"
    for line in _LINE_ENDS.split(text, SAMPLE_ROWS)[:SAMPLE_ROWS]:
        first, *others = line.partition("#")[0].split() or [""]
        if any(letter in word for word in others or [first] for letter in ",;|"):
            return "csv"
        pairs = [":" in word and not re.fullmatch(exact_time, word, re.ASCII) for word in others]
        if pairs and len(set(pairs)) == 1:
            return "libsvm" if pairs[0] else "csv"
        if pairs:
            words = (word for word, is_pair in zip(others, pairs, strict=True) if is_pair)
            if all(re.fullmatch(clock_time, word, re.ASCII) for word in words):
                return "csv"
            break
    return "csv" if has_columns or name_format(path) == "csv" else "libsvm"


# ---- separators ------------------------------------------------------------------------------------------------------


class _Counts(NamedTuple):
    """Counts of a separator in lines: whether nearly all agree, the usual and the first count."""

    agree: bool
    usual: int
    first: int

    @classmethod
    def of(cls, counts: list[int]) -> _Counts:
        usual, n_lines = Counter(counts[1:] or counts).most_common(1)[0]
        return cls(0 < usual == counts[0] and n_lines >= _MIN_AGREEMENT * (len(counts) - 1), usual, counts[0])


def separator(text: str, quotes: bool | None = None) -> str:
    """Guess the separator of columns in a text.

    Separators within quotes are ignored unless `quotes` is False, and so are remarks if there are
    other lines.
    """
    separators = "\t;|,"  # The first of equally good ones is used: 1,5;2,5 has decimal commas.
    text = text if quotes is False else re.sub('"[^"]*"', '""', text)
    lines = [line for line in _LINE_ENDS.split(text) if line.strip()][: SAMPLE_ROWS + 1]
    lines = [line for line in lines if not is_remark(line)] or lines or [""]
    found = {one: _Counts.of([line.count(one) for line in lines]) for one in separators}
    blanks = _Counts.of([max(0, len(line.split(None, MAX_COLUMNS)) - 1) for line in lines])
    best = max(separators, key=found.__getitem__)
    if not found[best].usual:
        return BLANKS if blanks.agree or 1 < blanks.first + 1 == blanks.usual else ","
    is_aligned = best == "\t" and blanks.usual > found[best].usual
    is_aligned = is_aligned and sum("  " in line.strip() for line in lines) > len(lines) / 2
    words = (word for line in lines for word in line.split(None, MAX_COLUMNS) if "," in word)
    has_decimal_commas = best == "," and found[best].usual > 1 and all(map(_DECIMAL_COMMA.fullmatch, words))
    is_text = not found[best].agree and not any(f"{best} " in line for line in lines)
    return BLANKS if blanks.agree and (is_aligned or has_decimal_commas or is_text) else best


# ---- names -----------------------------------------------------------------------------------------------------------

_SURE_EVIDENCE = 3  # With this much evidence, the first line holds names.


def has_names(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool | None:
    """Return whether the first row of a table holds the names of columns, None if ambiguous.

    A row without numbers does, unless its texts are values of most columns below. A row with
    numbers is compared with the rows below, which have as many fields: names are distinct, do not
    occur among the values of their column, and are texts above numbers or whole numbers above
    decimals; several names are often consecutive numbers.
    """
    # A few rows equal to the first one repeat its names; many of them are data.
    rows = [row for row in below if list(row) != list(first)]
    rows = rows if len(rows) >= _MIN_AGREEMENT * len(below) else list(below)
    fields = [_with_point(field) for field in first]
    columns = [[cell for row in rows if not is_missing(cell := _with_point(row[k]))] for k in range(len(fields))]
    pairs = [(f, column) for f, column in zip(fields, columns, strict=True) if column and not is_missing(f)]
    if not any(map(is_number, fields)):
        n_values = sum(_evidence(f, column) < 0 for f, column in pairs)
        return 2 * n_values <= len(fields) or any(_evidence(f, column) > 0 for f, column in pairs)
    if max(Counter(filter(None, fields)).values()) > 1:
        return False
    score = sum(_evidence(f, column) for f, column in pairs) + _order(fields, rows)
    return True if score >= _SURE_EVIDENCE else None if score > 0 else False


def _with_point(cell: str) -> str:
    """Return a cell, with a point in a number that has a decimal comma."""
    cell = cell.strip()
    return cell.replace(",", ".") if cell.count(",") == 1 and _DECIMAL_COMMA.fullmatch(cell) else cell


def _form(text: str) -> str | None:
    """Return the form of a text with digits, such as "0-0-0" for 2019-05-01 or "A0" for A11."""
    form = re.sub(r"\d+", "0", text, flags=re.ASCII)
    return form if "0" in form else None


def _evidence(field: str, column: list[str]) -> int:
    """Return the evidence that a field is the name of a column, negative for a value."""
    numbers = [cell for cell in column if is_number(cell)]
    if not is_number(field):
        form = _form(field)
        if field in column or (form is not None and form in set(map(_form, column))):
            return -_SURE_EVIDENCE
        if 2 * len(numbers) > len(column) or field.lower() in ("label", "target", "class"):
            return min(len(column), _SURE_EVIDENCE)
        # If some text occurs only once, other new texts may be values, too.
        return min(len(column), _SURE_EVIDENCE) if min(Counter(column).values()) > 1 else 0
    if 2 * len(numbers) > len(column):
        return _evidence_of_number(field, numbers)
    return -_SURE_EVIDENCE if field in column else 0 if numbers else min(len(column), _SURE_EVIDENCE)


def _evidence_of_number(field: str, column: list[str]) -> int:
    """Return the evidence that a number is the name of a column of numbers."""
    whole_number = re.compile(r"[+-]?\d{1,18}", re.ASCII)
    is_whole = whole_number.fullmatch(field) is not None
    if field in column:
        return -1 if is_whole else -_SURE_EVIDENCE
    values, value = [float(cell) for cell in column], float(field)
    low, high = min(values), max(values)
    if is_whole and not any(map(whole_number.fullmatch, column)):
        return min(len(column), 1 if low <= value <= high else 2)
    if low <= value <= high:
        return 0 if is_whole else -1
    # A number far outside the range of fewer than ten values is not evidence.
    return int(len(column) >= 10 and not 2 * low - high <= value <= 2 * high - low)


def _order(fields: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return the evidence from ordered numbers in the first row, such as 0, 1, 2 or 2019, 2020."""
    places = [k for k, field in enumerate(fields) if is_number(field)]
    weight = _steadiness([fields[k] for k in places])
    if weight and sum(_steadiness([row[k] for k in places]) > 0 for row in rows) > len(rows) / 10:
        return 0  # The rows below are in order, too.
    return min(weight, len(rows)) if rows else weight // 4


def _steadiness(fields: Sequence[str]) -> int:
    """Return a score for numbers in equal steps, higher for steps of one; zero for others."""
    if len(fields) < 2 or not all(map(is_number, fields)):
        return 0
    numbers = [float(field) for field in fields]
    step, size = numbers[1] - numbers[0], max(map(abs, numbers))
    if step == 0 or not all(abs(b - a - step) <= 1e-9 * size for a, b in pairwise(numbers)):
        return 0
    return 2 * (len(fields) - 1 if step == 1 else len(fields) - 2)
