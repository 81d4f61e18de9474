"""Advice on columns that cannot be used as features, with the flags that help."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dimargin.cli.column_flags import ColumnChoices
from dimargin.estimators.preprocessing import CalendarFeatures
from dimargin.io.data.chunks import short
from dimargin.io.data.labels import is_number
from dimargin.io.data.mixed import GROUPED_NUMBER, THOUSANDS, MixedData, grouped_number, odd_cells
from dimargin.io.data.named_columns import has_break

_FEW_TEXTS = 20  # A column with more texts, all different, holds names of rows.
_MAX_LISTED = 3  # A message lists at most this many columns of a kind.
_MAX_ODD_TEXTS = 3  # A column with at most this many different texts among numbers holds numbers.
_DRESSED_NUMBER = re.compile(
    r"""['"]?\(?[+\-\u2212]?
    (?:(?:R\$|[$€£¥₹])[ \u00a0\u202f]?|(?P<before>[A-Z]{3})[ \u00a0\u202f]|(?P<code>[A-Z]{3}))?
    [+\-\u2212]?\d[\d.,' \u00a0\u202f]*
    (?:[%‰$€£¥₹]|[°º](?:[ \u00a0\u202f]?[CFKNSEWO])?|(?P<mark>\*{1,3})
      |(?P<after>[A-Za-zµμΩ][A-Za-zµμΩ/]{0,5}(?:[²³]|\^?[23])?))?\)?['"]?""",
    re.VERBOSE,
)
"""Number with a sign or unit, thousands separators, quotes, or brackets for a minus."""
_COMMA_NUMBER = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}([.' \u00a0\u202f]\d{3})+),\d+([eE][+-]?\d+)?")
_PLAIN_NUMBERS = "plain numbers in the file, such as 1257.3 for 1,257.30, 12.6 for 12.6% and 5 for $5 or 5 km"


class _Problem(NamedTuple):
    """Unusable column: what helps, its kind, an example, its only row without a number, and flags that help."""

    helps: str
    kind: str
    example: str
    row: int | None = None
    flags: dict[str, Any] = {}  # noqa: RUF012 (never changed)

    @classmethod
    def of_flags(cls, flags: dict[str, Any], kind: str, example: str, row: int | None = None) -> _Problem:
        helps = "--drop COLUMN" if "drop" in flags else shlex.join(ColumnChoices(**flags).words)
        return cls(helps, kind, example, row, flags)


class Problems:
    """Columns that need other flags, grouped by what helps and the kind of column.

    `handled` has the flags that help, and `unreadable` the columns that need another file instead.
    """

    def __init__(self, rows: MixedData, choices: ColumnChoices) -> None:
        self._rows, self._choices = rows, choices
        self._found: dict[tuple[str, str], list[str]] = {}
        self._unlabelled, self.handled, self.unreadable = "", choices, list[str]()
        if rows.labelled is not None and not choices.skip_unlabelled:
            n_rows = len(rows.labelled)
            self._unlabelled = f"--skip-unlabelled for {n_rows - rows.labelled.sum()} of {n_rows} rows without a label"
            self.handled = choices.with_flags({"skip_unlabelled": True})
        found = {name: problem for name in rows.X.column_names if (problem := self._of(name)) is not None}
        text_rows = [problem.row for problem in found.values() if problem.row is not None]
        self._n_found = len(found)
        for name, problem in found.items():
            helps = problem.helps
            if self.handled.dates not in (choices.dates, problem.flags.get("dates", self.handled.dates)):
                continue  # With the dates of another column, this one needs something else.
            # A single row of texts in several columns of numbers holds repeated names, units or a
            # sum.
            if problem.row is not None and len(text_rows) > 1 == len(set(text_rows)):
                helps = f"a file without {rows.place(problem.row)}, a line of texts,"
            if helps == problem.helps and problem.flags:
                self.handled = self.handled.with_flags(problem.flags)
            else:
                self.unreadable.append(name)
            self._found.setdefault((helps, problem.kind), []).append(f"{short(name)!r} ({problem.example})")

    @property
    def summary(self) -> str:
        """Clause on the number of columns that need other flags."""
        return f"{self._n_found} of {self._rows.X.num_columns} columns cannot be used as features as they are"

    @property
    def remedies(self) -> list[str]:
        """Clauses on what helps, one per kind of column; empty without problems."""
        parts = [f"{helps} for {kind}: {listed(columns)}" for (helps, kind), columns in self._found.items()]
        return [*parts, self._unlabelled] if self._unlabelled else parts

    def _of(self, name: str) -> _Problem | None:
        column, chosen = self._rows.written.column(name), self._choices
        if column.null_count == len(column):
            return _Problem.of_flags({"drop": [name]}, "columns that hold nothing", "no value")
        if column.type != "double" and name not in (chosen.category or ()):
            problem = self._of_text(name, column)
            if problem is not None:
                return problem
        if chosen.missing is None and column.null_count:
            counted = f"{column.null_count} of {len(column)}"
            return _Problem.of_flags({"missing": "median"}, "columns with missing values", counted)
        return None

    def _of_text(self, name: str, column: pa.ChunkedArray) -> _Problem | None:
        table, chosen = self._rows.X.select([name]), self._choices
        if chosen.dates is not None and are_dates(table, chosen.dates):
            return None
        texts = column.drop_null().slice(0, 100).to_pylist()  # A sample suffices to guess the kind.
        n_texts, example = len(column.unique()), repr(short(texts[0], 30))
        with_comma = [text for text in texts if _COMMA_NUMBER.fullmatch(text)]
        n_others = len(texts) - len(with_comma) - sum(map(is_number, texts))
        if not chosen.decimal_comma and chosen.thousands != "," and len(with_comma) > n_others < len(texts) / 2:
            helps, flags = "--decimal-comma", dict[str, Any](decimal_comma=True)
            # The commas may separate thousands.
            if all(re.fullmatch(grouped_number(",", "."), text) for text in with_comma):
                meaning = with_comma[0].replace(",", ".")
                helps = f"--thousands , or --decimal-comma if {with_comma[0]} means {meaning},"
                flags = {"thousands": ","}
            return _Problem(helps, "columns with commas in numbers", example, flags=flags)
        formats = ("iso", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")
        format = next((f for f in formats if are_dates(table, f)), None)
        if format is not None:
            # There is only one --dates, which other columns may need.
            if chosen.dates is not None and self._has_dates(chosen.dates):
                return _Problem.of_flags({"drop": [name]}, f"columns of dates not written as {chosen.dates}", example)
            return _Problem.of_flags({"dates": format}, "columns of dates", example)
        if chosen.dates is not None and are_dates([[texts[0]]], chosen.dates):
            return self._of_dates(name, column, chosen.dates)
        problem = self._of_numbers(column)
        if problem is not None:
            return problem
        # Each category is a feature, so that more than 1000 are not worth encoding.
        if n_texts > 1000 or (n_texts == len(column) and n_texts > _FEW_TEXTS):
            return _Problem.of_flags({"drop": [name]}, "columns of names of rows", f"{n_texts} different, {example}")
        return None if chosen.categories else _Problem.of_flags({"categories": True}, "columns of text", example)

    def _has_dates(self, format: str) -> bool:
        """Return whether a column of text holds dates of a format."""
        names = [name for name in self._rows.X.column_names if self._rows.X.column(name).type != "double"]
        return any(are_dates(self._rows.X.select([name]), format) for name in names)

    def _of_numbers(self, column: pa.ChunkedArray) -> _Problem | None:
        """Return the problem of a column of numbers in which some cells are not numbers."""
        has_commas = bool(self._choices.decimal_comma)
        odd = odd_cells(column, has_commas)
        # An odd cell that is a number has a decimal point where commas are expected.
        fortran_number = re.compile(r"[+-]?(\d+\.\d*|\.\d+)[dD][+-]?\d{1,3}", re.ASCII)
        fortran = [text for text in odd.texts if fortran_number.fullmatch(text)]
        dressed = fortran or [text for text in odd.texts if is_number(text)] + _dressed(odd.texts)
        is_dressed = pc.is_in(column, pa.array(dressed, pa.string()))
        n_dressed = pc.sum(is_dressed).as_py()
        n_numbers, n_others = len(column) - column.null_count - odd.n_odd + n_dressed, odd.n_odd - n_dressed
        n_texts = len(odd.texts) - len(dressed)
        # Many different texts are accepted only in up to a tenth of the cells.
        if n_others >= n_numbers or (n_texts > _MAX_ODD_TEXTS and n_others > 0.1 * len(column)):
            return None
        if broken := next(filter(has_break, odd.texts), None):
            place = self._rows.place(pc.index(column, pa.scalar(broken, column.type)).as_py())
            kind = "columns of numbers with a cell of several lines"
            return _Problem("a quote that is closed, or --no-quotes,", kind, f"{place}, {short(broken, 30)!r}")
        if dressed:
            example = f"{self._rows.place(pc.index(is_dressed, True).as_py())}, {short(dressed[0], 30)!r}"
            if separator := _separator(dressed, "," if has_commas else "."):
                kind = "columns of numbers with what looks like separators of thousands"
                return _Problem.of_flags({"thousands": separator}, kind, example)
            helps = f"{_PLAIN_NUMBERS},"
            if has_commas:
                helps = (
                    "plain numbers in the file, such as 1257,3 for 1.257,30, 2414 or 2,414 for 2.414, 12,6 for 12,6% "
                    "and 5 for $5,"
                )
            if fortran:
                helps = r"E for the D of exponents, as sed -E 's/(\.[0-9]*)[Dd]([-+]?[0-9])/\1E\2/g' FILE writes it,"
            what = "exponents that begin with D" if fortran else "signs, units or separators"
            return _Problem(helps, f"columns of numbers with {what}", example)
        if len(column.unique()) <= _FEW_TEXTS and n_others > 1:  # Categories such as 0, 1, 2 and 3+ are not numbers.
            return None
        example = f"{odd.said}: {self._rows.place(odd.first)}, {short(odd.texts[0], 30)!r}"
        kind = "columns of numbers with other cells"
        flags = missing_flags(odd.texts[:_MAX_ODD_TEXTS], self._choices)
        return _Problem.of_flags(flags, kind, example, odd.first if odd.n_odd == 1 else None)

    def _of_dates(self, name: str, column: pa.ChunkedArray, format: str) -> _Problem:
        """Return the problem of a column of dates in which some cells are not dates."""
        wrong = [text for text in column.drop_null().unique().to_pylist() if not are_dates([[text]], format)]
        is_wrong = pc.is_in(column, pa.array(wrong, pa.string()))
        n_wrong, place = pc.sum(is_wrong).as_py(), self._rows.place(pc.index(is_wrong, True).as_py())
        said = f"{n_wrong} of {len(column)} cells {'is' if n_wrong == 1 else 'are'} not a date"
        flags = missing_flags(wrong, self._choices) if len(wrong) <= _MAX_ODD_TEXTS else {"drop": [name]}
        kind = f"columns that are not all dates of --dates {format}"
        return _Problem.of_flags(flags, kind, f"{said}: {place}, {short(wrong[0], 30)!r}")


def missing_flags(texts: list[str], choices: ColumnChoices) -> dict[str, Any]:
    """Return the flags with which texts mark missing values that are imputed."""
    return {"na": texts, **({} if choices.missing else {"missing": "median"})}


def _dressed(texts: Sequence[str]) -> list[str]:
    """Return the texts that are numbers with signs, thousands separators, or a common unit."""
    found = {text: match for text in texts if (match := _DRESSED_NUMBER.fullmatch(text)) and not is_number(text)}
    # Texts such as 37.5* and EUR37.5 are numbers, but 3* and ABC37 are names.
    unsure = [text for text, match in found.items() if match["mark"] or match["code"]]
    if not any(re.search(r"\d[.,]\d", text) for text in unsure):
        found = {text: match for text, match in found.items() if text not in set(unsure)}
    plain = {
        text
        for text, match in found.items()
        if not match["after"] and text[-1].isdecimal() and text.lstrip("+-")[0].isdecimal()
    }
    dressed = [text for text in found if text not in plain or GROUPED_NUMBER.fullmatch(text)]
    units = {(found[text]["before"] or found[text]["code"], found[text]["after"]) for text in dressed} - {(None, None)}
    dressed = dressed if len(units) <= 1 else [text for text in dressed if text in plain]
    return dressed or _framed(texts)


def _separator(texts: Sequence[str], mark: str) -> str | None:
    """Return the separator of thousands in numbers with this decimal mark, None if some texts are anything else."""
    numbers = {one: re.compile(grouped_number(one, mark)) for one in THOUSANDS if one != mark}
    return next((one for one, number in numbers.items() if all(map(number.fullmatch, texts))), None)


def _framed(texts: Sequence[str]) -> list[str]:
    """Return the texts that differ only in a decimal number inside, such as "about 37.5 Mio."."""
    framed_number = re.compile(r"(\D*?)[+-]?\d+[.,]\d+((?![\d.,]).*)", re.DOTALL)
    frames = {text: match.groups() for text in texts if (match := framed_number.fullmatch(text))}
    frame, n_texts = Counter(frames.values()).most_common(1)[0] if frames else (("", ""), 0)
    return [text for text in frames if frames[text] == frame] if n_texts > _FEW_TEXTS and any(frame) else []


def are_dates(column: Any, format: str) -> bool:
    """Return whether all values of a column are dates of a format."""
    try:
        CalendarFeatures(format).fit(column)
    except ValueError:
        return False
    return True


def listed(names: Sequence[str]) -> str:
    """Return some names, and how many more there are."""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more
