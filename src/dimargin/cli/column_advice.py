"""What is wrong with the columns of a table, and which flags help."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dimargin.data_files.chunks import short
from dimargin.data_files.labels import is_number
from dimargin.data_files.mixed import MixedData, odd_cells
from dimargin.preprocessing import CalendarFeatures

_MOST_CATEGORIES = 1000  # of a column: each is a feature
_FEW = 20  # rows that may have a text each
_NAMED = 3  # columns of a kind that a message names
_LOOKED_AT = 100  # texts by which a message guesses what a column holds
_FORMATS = ("iso", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")  # of dates that a message proposes, if all fit
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_FEW_ODD_TEXTS, _FEW_ODD_CELLS = 3, 0.1  # of a column of numbers: different texts, or else a share of the cells
_DIGITS = r"\d[\d.,'  \u00a0\u202f]*"
_DRESSED = re.compile(
    rf"\(?[+-]?(?:[$€£¥₹]|(?P<before>[A-Z]{{3}}) )?[+-]?{_DIGITS}"
    r"(?:[%‰°$€£¥₹]|(?P<after>[A-Za-zµ][A-Za-zµ/]{0,5}[²³]?))?\)?"
)
"""A number with a sign or a unit, with separators of thousands, or in brackets because it is below zero."""
_PLAIN = "plain numbers in the file, such as 1257.3 for 1,257.30, 12.6 for 12.6% and 5 for $5 or 5 km"
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}([,.' \u00a0\u202f]\d{3})+([.,]\d+)?")


@dataclass(frozen=True)
class Choices:
    """Choices of flags that decide what becomes of columns."""

    missing: str | None = None
    categories: bool | None = None
    category: Sequence[str] | None = None
    dates: str | None = None
    decimal_comma: bool | None = None


class _Problem(NamedTuple):
    helps: str
    kind: str  # of the column
    example: str


class Problems:
    """Columns that the chosen flags do not allow, by what helps and the kind of column."""

    def __init__(self, rows: MixedData, choices: Choices) -> None:
        self._rows, self._choices = rows, choices
        self._found: dict[tuple[str, str], list[str]] = {}
        for name in rows.X.column_names:
            problem = self._of(name)
            if problem is not None:
                self._found.setdefault(problem[:2], []).append(f"{short(name)!r} ({problem.example})")

    def __bool__(self) -> bool:
        return bool(self._found)

    def __str__(self) -> str:
        parts = [f"{helps} for {kind}: {listed(columns)}" for (helps, kind), columns in self._found.items()]
        text = f"What helps: {'; '.join(parts)}"
        if any(helps.startswith("--categories") or helps == "--missing median" for helps, _ in self._found):
            text += (
                ". --drop COLUMN leaves any column out. In Python: a pipeline that begins with a ColumnTransformer of "
                "SimpleImputer and OneHotEncoder"
            )
        return text

    def _of(self, name: str) -> _Problem | None:
        column, chosen = self._rows.X.column(name), self._choices
        if column.null_count == len(column):
            return _Problem("--drop COLUMN", "columns that hold nothing", "no value")
        if column.type != "double" and name not in (chosen.category or ()):
            problem = self._of_text(name, column)
            if problem is not None:
                return problem
        if chosen.missing is None and column.null_count:
            return _Problem("--missing median", "columns with missing values", f"{column.null_count} of {len(column)}")
        return None

    def _of_text(self, name: str, column: pa.ChunkedArray) -> _Problem | None:
        table, chosen = self._rows.X.select([name]), self._choices
        if chosen.dates is not None and are_dates(table, chosen.dates):
            return None
        texts = column.drop_null().slice(0, _LOOKED_AT).to_pylist()
        n_texts, example = len(column.unique()), repr(short(texts[0], 30))
        with_comma = [text for text in texts if _DECIMAL_COMMA.fullmatch(text)]
        n_others = len(texts) - len(with_comma) - sum(map(is_number, texts))
        if not chosen.decimal_comma and len(with_comma) > n_others < len(texts) / 2:
            helps = "--decimal-comma"
            if all(map(_GROUPED.fullmatch, with_comma)):  # of thousands, perhaps
                helps = f"{_PLAIN}, or --decimal-comma if {with_comma[0]} means {with_comma[0].replace(',', '.')},"
            return _Problem(helps, "columns with commas in numbers", example)
        format = next((f for f in _FORMATS if are_dates(table, f)), None)
        if format is not None:
            return _Problem(f"--dates {format}", "columns of dates", example)
        if chosen.dates is not None and are_dates([[texts[0]]], chosen.dates):
            kind = f"columns that are not all dates of --dates {chosen.dates}"
            return _Problem("--drop COLUMN", kind, self._no_date(column, chosen.dates))
        problem = self._of_numbers(column)
        if problem is not None:
            return problem
        if n_texts > _MOST_CATEGORIES or (n_texts == len(column) and n_texts > _FEW):
            return _Problem("--drop COLUMN", "columns of names of rows", f"{n_texts} different, {example}")
        return None if chosen.categories else _Problem("--categories", "columns of text", example)

    def _of_numbers(self, column: pa.ChunkedArray) -> _Problem | None:
        """Return the problem of a column of numbers that some cells do not show as numbers."""
        digits = pc.replace_substring(column, ",", ".") if self._choices.decimal_comma else column
        odd = odd_cells(digits)
        dressed = _dressed(odd.texts)
        n_dressed = pc.sum(pc.is_in(digits, pa.array(dressed, pa.string()))).as_py()
        n_numbers, n_others = len(digits) - digits.null_count - odd.n_odd + n_dressed, odd.n_odd - n_dressed
        n_texts = len(odd.texts) - len(dressed)
        if n_others >= n_numbers or (n_texts > _FEW_ODD_TEXTS and n_others > _FEW_ODD_CELLS * len(digits)):
            return None
        if dressed:
            kind = "columns of numbers with signs, units or separators"
            return _Problem(f"{_PLAIN},", kind, repr(short(dressed[0], 30)))
        if len(column.unique()) <= _FEW and n_others > 1:  # categories, such as 0, 1, 2 and 3+
            return None
        helps = " ".join(f"--na {shlex.quote(text)}" for text in odd.texts[:_FEW_ODD_TEXTS])
        if self._choices.missing is None:
            helps += " --missing median"
        example = f"{odd.said}: {self._rows.place(odd.first)}, {short(odd.texts[0], 30)!r}"
        return _Problem(helps, "columns of numbers with texts that stand for missing values", example)

    def _no_date(self, column: pa.ChunkedArray, format: str) -> str:
        """Return the first text of a column that is no date."""
        wrong = (text for text in column.drop_null().unique().to_pylist() if not are_dates([[text]], format))
        return repr(short(next(wrong), 30))


def _dressed(texts: Sequence[str]) -> list[str]:
    """Return the texts that are numbers with signs, separators of thousands, or a unit that is the same for all."""
    found = {text: match for text in texts if (match := _DRESSED.fullmatch(text)) and not is_number(text)}
    plain = {text for text in found if text[-1].isdigit() and text.lstrip("+-")[0].isdigit()}
    dressed = [text for text in found if text not in plain or _GROUPED.fullmatch(text)]
    units = {(found[text]["before"], found[text]["after"]) for text in dressed} - {(None, None)}
    return dressed if len(units) <= 1 else [text for text in dressed if text in plain]


def are_dates(column: Any, format: str) -> bool:
    """Return whether all values of a column are dates of a format."""
    try:
        CalendarFeatures(format).fit(column)
    except ValueError:
        return False
    return True


def listed(names: Sequence[str]) -> str:
    """Return some names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
