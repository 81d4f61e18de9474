"""Flags for columns that are no numbers, or not everywhere, and data that is read with what they chose."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from dimargin.data_files import DataFileError, DataSet, read_data
from dimargin.data_files.chunks import short
from dimargin.data_files.data import data_format
from dimargin.data_files.mixed import read_mixed
from dimargin.data_files.tables import matrix
from dimargin.preprocessing import CalendarFeatures
from dimargin.preprocessing.calendar_features import check_format
from dimargin.preprocessing.tables import check_version, columns_of, numbers_as_they_are

_PANEL = "Columns that are not numbers"
_MOST_CATEGORIES = 1000  # of a column: each is a feature
_FEW = 20  # rows that may have a text each
_NAMED = 3  # columns of a kind that a message names
_LOOKED_AT = 100  # texts by which a message guesses what a column holds
_FORMATS = ("iso", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")  # of dates that a message proposes, if all fit
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


class Missing(StrEnum):
    """Statistics of a column that may stand where a number is missing."""

    mean = "mean"
    median = "median"
    most_frequent = "most_frequent"


_option = typer.Option
_FLAGS: dict[str, tuple[Any, Any]] = {
    "missing": (
        Missing | None,
        _option(
            help="Put this value of its column where a number is missing (empty, NA, nan, null, ?); a missing text "
            "becomes a category, a missing date the mean.",
            show_default="missing values are refused",
            rich_help_panel=_PANEL,
        ),
    ),
    "categories": (
        bool | None,
        _option("--categories", help="One-hot encode the columns of text.", show_default=False, rich_help_panel=_PANEL),
    ),
    "category": (
        list[str] | None,
        _option(
            metavar="COLUMN",
            help="One-hot encode this column of numbers, too; may be repeated.",
            rich_help_panel=_PANEL,
        ),
    ),
    "dates": (
        str | None,
        _option(
            metavar="FORMAT",
            help="Make numbers of the columns of dates: days, and places in year, week and day. 'iso', or as in "
            "strptime: '%d.%m.%Y'.",
            rich_help_panel=_PANEL,
        ),
    ),
    "decimal_comma": (
        bool | None,
        _option(
            "--decimal-comma",
            help="Numbers of CSV have a comma for a point: 1,5.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ),
    "drop": (
        list[str] | None,
        _option(metavar="COLUMN", help="Leave this column out; may be repeated.", rich_help_panel=_PANEL),
    ),
}


def column_flags() -> list[inspect.Parameter]:
    """Return one optional keyword for each of these flags."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option])
        for name, (kind, option) in _FLAGS.items()
    ]


@dataclass(frozen=True)
class ColumnChoices:
    """Choices of these flags."""

    missing: Missing | None = None
    categories: bool | None = None
    category: Sequence[str] | None = None
    dates: str | None = None
    decimal_comma: bool | None = None
    drop: Sequence[str] | None = None

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Take the flags out of all that were given; raises ValueError for a format of dates that is none."""
        found = cls(**{name: given.pop(name, None) for name in _FLAGS})
        if found.dates is not None:
            check_format(found.dates)
        return found

    @property
    def first(self) -> str | None:
        """Return the first flag that was given."""
        given = (name for name in _FLAGS if getattr(self, name))
        return next((f"--{name.replace('_', '-')}" for name in given), None)

    @property
    def notes(self) -> dict[str, Any]:
        """Return what a model file keeps of them, so that other files are read alike; nothing without flags."""
        if self.first in (None, "--drop"):
            return {}
        return {
            "decimal_comma": bool(self.decimal_comma),
            "missing": None if self.missing is None else str(self.missing),
        }

    def read(self, path: Path, label: str | None) -> tuple[DataSet, list[tuple[str, Any]]]:
        """Read training data.

        Returns
        -------
        data : DataSet
            Its X is a `pyarrow.Table` if there is a step.
        steps : list of (str, ColumnTransformer)
            The fitted step of a pipeline that makes numbers of X; empty where all columns are.

        Raises
        ------
        DataFileError
            As `read_data`; where a column is no numbers, the message names the flag that helps.
        """
        drop = tuple(self.drop or ())
        if self.first in (None, "--drop"):
            try:
                return read_data(path, label, drop=drop), []
            except DataFileError as error:
                raise DataFileError(f"{error}{self._advice(path, label)}") from error
        rows = self._mixed(path, label)
        absent = [name for name in self.category or () if name not in rows.X.column_names]
        if absent:
            raise DataFileError(f"{path} has no feature {short(absent[0])!r} to encode: {_list(rows.X.column_names)}")
        problems = self._problems(rows.X)
        if problems:
            raise DataFileError(f"{path}: {_sentence(problems)}")
        if all(column.type == "double" for column in rows.X.columns) and self.missing is None:
            return _as_array(rows), []
        check_version()
        transformer = self._transformer(rows.X)
        if self.dates is not None and not any(name == "dates" for name, *_ in transformer.transformers):
            raise DataFileError(
                f"{path}: --dates {self.dates}: no column holds such dates; a column of digits alone is one of numbers"
            )
        return rows, [("columns", transformer.fit(rows.X))]

    def _mixed(self, path: Path, label: str | None) -> DataSet:
        return read_mixed(
            path, label, drop=self.drop or (), texts=self.category or (), decimal_comma=bool(self.decimal_comma)
        )

    def _kind(self, table: Any, name: str) -> str:
        """Return whether a column is one of "numbers", "dates" or "categories"."""
        if table.column(name).type == "double":
            return "numbers"
        if self.dates is None or name in (self.category or ()):
            return "categories"
        return "dates" if _are_dates(table.select([name]), self.dates) else "categories"

    def _transformer(self, table: Any) -> ColumnTransformer:
        columns: dict[str, list[str]] = {"numbers": [], "dates": [], "categories": []}
        for name in table.column_names:
            columns[self._kind(table, name)].append(name)
        numbers = SimpleImputer(strategy=str(self.missing)) if self.missing else numbers_as_they_are()
        steps = {
            "numbers": numbers,
            "dates": CalendarFeatures(self.dates or "iso"),
            "categories": OneHotEncoder(handle_unknown="ignore"),
        }
        return ColumnTransformer([(kind, steps[kind], names) for kind, names in columns.items() if names])

    def _problems(self, table: Any) -> dict[tuple[str, str], list[str]]:
        """Return the columns that the flags given do not allow, by the flag that helps and the kind of column."""
        found: dict[tuple[str, str], list[str]] = {}
        for name in table.column_names:
            problem = self._problem(table, name)
            if problem is not None:
                flag, kind, example = problem
                found.setdefault((flag, kind), []).append(f"{short(name)!r} ({example})")
        return found

    def _problem(self, table: Any, name: str) -> tuple[str, str, str] | None:
        column, kind = table.column(name), self._kind(table, name)
        if column.null_count == len(column):
            return "--drop COLUMN", "columns that hold nothing", "no value"
        if kind == "categories" and name not in (self.category or ()):
            texts = column.drop_null().slice(0, _LOOKED_AT).to_pylist()
            n_texts, example = len(column.unique()), repr(short(texts[0], 30))
            if not self.decimal_comma and all(map(_DECIMAL_COMMA.fullmatch, texts)):
                return "--decimal-comma", "columns with commas in numbers", example
            format = next((f for f in _FORMATS if _are_dates(table.select([name]), f)), None)
            if format is not None:
                return f"--dates {format}", "columns of dates", example
            if self.dates is not None and _are_dates([[texts[0]]], self.dates):
                return "--drop COLUMN", f"columns that are not all dates of --dates {self.dates}", self._no_date(column)
            if n_texts > _MOST_CATEGORIES or (n_texts == len(column) and n_texts > _FEW):
                return "--drop COLUMN", "columns of names of rows", f"{n_texts} different, {example}"
            if not self.categories:
                return "--categories", "columns of text", example
        if self.missing is None and column.null_count:
            return "--missing median", "columns with missing values", f"{column.null_count} of {len(column)}"
        return None

    def _no_date(self, column: Any) -> str:
        """Return the first text of a column that is no date."""
        wrong = (text for text in column.drop_null().unique().to_pylist() if not _are_dates([[text]], str(self.dates)))
        return repr(short(next(wrong), 30))

    def _advice(self, path: Path, label: str | None) -> str:
        """Return what would help with a file that could not be read, or nothing."""
        try:
            problems = self._problems(self._mixed(path, label).X)
        except (DataFileError, OSError):
            return ""
        return f". {_sentence(problems)}" if problems else ""


def _are_dates(column: Any, format: str) -> bool:
    try:
        CalendarFeatures(format).fit(column)
    except ValueError:
        return False
    return True


def _sentence(problems: dict[tuple[str, str], list[str]]) -> str:
    parts = [f"{flag} for {kind}: {_list(columns)}" for (flag, kind), columns in problems.items()]
    return (
        f"What helps: {'; '.join(parts)}. --drop COLUMN leaves any column out. In Python: a pipeline that begins with "
        "a ColumnTransformer of SimpleImputer and OneHotEncoder"
    )


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _as_array(data: DataSet) -> DataSet:
    """Return rows of numbers as an array."""
    return DataSet(matrix(data.X, data.X.column_names), data.y, data.feature_names, data.label)


# ---- data that is read again -----------------------------------------------------------------------------------------


def read_like(
    path: Path,
    notes: dict[str, Any],
    names: Sequence[str] | None,
    n_features: int,
    label: str | None = None,
    needs_label: bool = True,
    transformer: ColumnTransformer | None = None,
) -> DataSet:
    """Read data as a file was read with these notes, names of its features and number of them.

    `transformer` is the fitted step that makes numbers of its columns, if there is one; X is a table then.
    """
    if label is None and needs_label and data_format(path) != "libsvm":
        label = notes.get("label")
    columns = None if names is None else list(names)
    if transformer is None and not notes.get("decimal_comma"):
        return read_data(path, label, columns, n_features, notes.get("zero_based"), needs_label)
    numbers, texts = (columns or [], []) if transformer is None else columns_of(transformer)
    if transformer is not None:  # which may leave some out
        columns = [name for name in columns or [] if name in numbers or name in texts]
    rows = read_mixed(
        path, label, columns, needs_label, numbers=numbers, texts=texts, decimal_comma=bool(notes.get("decimal_comma"))
    )
    filled = [] if transformer is None else _imputed(transformer)
    if notes.get("missing", True) is not None:  # the model is of --missing, or of Python
        filled += texts
    for name in (name for name in (*numbers, *texts) if name not in filled):
        missing = rows.X.column(name).is_null()
        if rows.X.column(name).null_count:
            row = missing.index(True).as_py()
            raise DataFileError(
                f"{path}, row {row}: column {short(name)!r} is missing; a value expected, because the model "
                "was trained without --missing"
            )
    return _as_array(rows) if transformer is None else rows


def _imputed(transformer: ColumnTransformer) -> list[str]:
    return [name for _, step, names in transformer.transformers_ if isinstance(step, SimpleImputer) for name in names]


def describe(transformer: ColumnTransformer) -> str:
    """Return in words what a fitted step makes of which columns."""
    said: list[tuple[type, Callable[[Any], str]]] = [
        (SimpleImputer, lambda step: f"numbers, the {step.strategy.replace('_', ' ')} where one is missing"),
        (OneHotEncoder, lambda step: f"categories, as {sum(map(len, step.categories_))} columns of 0 and 1"),
        (CalendarFeatures, lambda step: f"dates ({step.format}), as {len(step.get_feature_names_out())} columns"),
    ]
    parts = []
    for _, step, names in transformer.transformers_:
        what = next(
            (say(step) for kind, say in said if isinstance(step, kind)), "left out" if step == "drop" else "numbers"
        )
        parts.append(f"{len(names)} {what}")
    return "; ".join(parts)
