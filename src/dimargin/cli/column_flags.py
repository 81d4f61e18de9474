"""Flags for columns with texts, dates or missing values, and the reading of data with them."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Self

import typer
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from dimargin.cli.column_advice import Choices, Problems, are_dates, listed
from dimargin.cli.file_flags import file_flags, file_options, keywords
from dimargin.cli.row_columns import RowColumns, heavy
from dimargin.estimators.preprocessing import CalendarFeatures
from dimargin.estimators.preprocessing.calendar_features import check_format
from dimargin.estimators.preprocessing.column_kinds import check_version, columns_of, numbers_as_they_are
from dimargin.io.data import DataFileError, DataSet
from dimargin.io.data.chunks import check_classes, short
from dimargin.io.data.labels import is_number
from dimargin.io.data.mixed import MixedData, OddCellError, read_mixed
from dimargin.io.data.named_columns import has_break, matrix
from dimargin.io.data.opening import FileOptions
from dimargin.io.data.whole_file import check_width, column_names, data_format, read_file


class Missing(StrEnum):
    """Statistics of a column that may replace a missing number."""

    mean = "mean"
    median = "median"
    most_frequent = "most_frequent"


_option = partial(typer.Option, rich_help_panel="Columns that are not numbers")
_FLAGS: dict[str, tuple[Any, Any]] = {
    "missing": (
        Missing | None,
        _option(
            help="Replace missing numbers (empty, NA, nan, null, ?) by this statistic of the column; a missing text "
            "becomes a category, a missing date the mean.",
            show_default="missing values are refused",
        ),
    ),
    "categories": (
        bool | None,
        _option("--categories", help="One-hot encode the columns of text.", show_default=False),
    ),
    "category": (
        list[str] | None,
        _option(metavar="COLUMN", help="One-hot encode these numbers, too; may be repeated."),
    ),
    "dates": (
        str | None,
        _option(
            metavar="FORMAT",
            help="Turn columns of dates into numbers: the day, and the position in the year, week and day. FORMAT is "
            "'iso' or a format of strptime, such as '%d.%m.%Y'.",
        ),
    ),
    "decimal_comma": (
        bool | None,
        _option("--decimal-comma", help="Numbers in CSV have a decimal comma: 1,5.", show_default=False),
    ),
    "na": (
        list[str] | None,
        _option(
            metavar="TEXT",
            help="Another text or number that marks a missing value, such as '#DIV/0!' or -999; may be repeated.",
        ),
    ),
    "drop": (list[str] | None, _option(metavar="COLUMN", help="Leave this column out; may be repeated.")),
}


def column_flags() -> list[inspect.Parameter]:
    """Return one optional keyword for each flag for columns or files."""
    return [*file_flags(), *keywords(_FLAGS)]


def reading_flags() -> list[inspect.Parameter]:
    """Return one optional keyword for each flag for reading a file for an existing model."""
    return [*file_flags(), *keywords({"na": _FLAGS["na"]})]


@dataclass(frozen=True)
class Reading:
    """Values of the flags for reading a file for an existing model."""

    options: FileOptions
    na: Sequence[str] = ()

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Remove the flags from `given`; raises ValueError for an unknown encoding."""
        return cls(file_options(given), given.pop("na", None) or ())


@dataclass(frozen=True)
class ColumnChoices(Choices):
    """Values of the flags for columns and for reading a file."""

    na: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    options: FileOptions = FileOptions()  # noqa: RUF009 (frozen)

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Remove the flags from `given`; raises ValueError for an invalid value."""
        found = cls(options=file_options(given), **{name: given.pop(name, None) for name in _FLAGS})
        if found.dates is not None:
            check_format(found.dates)
        return replace(found, category=_stripped(found.category or ()))

    @property
    def first(self) -> str | None:
        """Return the first flag that was given."""
        given = (name for name in _FLAGS if getattr(self, name))
        return next((f"--{name.replace('_', '-')}" for name in given), None)

    @property
    def reading(self) -> Reading:
        """Return how further files are read for the model, whose notes have the other choices."""
        return Reading(self.options)

    @property
    def notes(self) -> dict[str, Any]:
        """Return the choices that a model file stores to read other files; empty without flags."""
        if self.first in (None, "--drop"):
            return {}
        return {
            "decimal_comma": bool(self.decimal_comma),
            "missing": None if self.missing is None else str(self.missing),
            **({"na": list(self.na)} if self.na else {}),
        }

    def read(
        self, path: Path, label: str | None, weight: str | None = None, group: str | None = None
    ) -> tuple[DataSet, list[tuple[str, Any]]]:
        """Read training data, with the weights and groups of rows if their columns are given.

        Returns
        -------
        data : DataSet
            Its X is a `pyarrow.Table` if there is a step.
        steps : list of (str, ColumnTransformer)
            The fitted pipeline step that turns X into numbers; empty if all columns are numbers.

        Raises
        ------
        DataFileError
            As `read_data`; if a column does not hold numbers, the message names the flag that
            helps.
        """
        row_columns = RowColumns.find(path, weight, group, self.options, label, self.drop or ())
        data, steps = replace(self, drop=[*(self.drop or ()), *row_columns.names])._read(path, label, row_columns)
        check_classes(data.fraction)
        return data, steps

    def _read(self, path: Path, label: str | None, row_columns: RowColumns) -> tuple[DataSet, list[tuple[str, Any]]]:
        drop = tuple(self.drop or ())
        if self.first in (None, "--drop"):
            try:
                numbers = read_file(path, label, drop=drop, options=self.options, weighted=row_columns.weighted)
            except DataFileError as error:
                raise DataFileError(f"{error}{self._advice(path, label)}") from error
            return row_columns.added(numbers, path, self.options), []
        try:
            mixed = self._mixed(path, label)
        except OddCellError as error:
            raise DataFileError(f"{error}{self._advice_on_cell(error)}") from error
        absent = [name for name in self.category or () if name not in mixed.X.column_names]
        if absent:
            raise DataFileError(f"{path} has no feature {short(absent[0])!r} to encode: {listed(mixed.X.column_names)}")
        problems = Problems(mixed, self)
        if problems:
            raise DataFileError(f"{path}: {problems}")
        rows = row_columns.added(mixed, path, self.options, bool(self.decimal_comma))
        if all(column.type == "double" for column in rows.X.columns) and self.missing is None:
            return _as_array(rows), []
        check_version()
        transformer = self._transformer(rows.X)
        if self.dates is not None and not any(name == "dates" for name, *_ in transformer.transformers):
            raise DataFileError(
                f"{path}: --dates {self.dates}: no column holds such dates; a column of digits only counts as numbers"
            )
        return rows, [("columns", transformer.fit(heavy(rows.X, rows.weights)))]

    def _mixed(self, path: Path, label: str | None) -> MixedData:
        return read_mixed(
            path, label, drop=self.drop or (), texts=self.category or (), decimal_comma=bool(self.decimal_comma),
            na=self.na or (), options=self.options,
        )  # fmt: skip

    def _kind(self, table: Any, name: str) -> str:
        """Return whether a column is one of "numbers", "dates" or "categories"."""
        if table.column(name).type == "double":
            return "numbers"
        if self.dates is None or name in (self.category or ()):
            return "categories"
        return "dates" if are_dates(table.select([name]), self.dates) else "categories"

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

    def _advice(self, path: Path, label: str | None) -> str:
        """Return advice on a file that could not be read, which may be empty."""
        try:
            problems = Problems(self._mixed(path, label), self)
        except OddCellError as error:
            return self._advice_on_cell(error)
        except (DataFileError, OSError):
            return ""
        return f". {problems}" if problems else ""

    def _advice_on_cell(self, error: OddCellError) -> str:
        """Return the flags that make a cell a missing value and impute it; empty if none would."""
        if error.text is None:
            return ""
        return f". What helps: --na {shlex.quote(error.text)}{'' if self.missing else ' --missing median'}"


def _as_array(data: DataSet) -> DataSet:
    """Return rows of numbers as an array."""
    X = matrix(data.X, data.X.column_names)
    optional = {"weights": data.weights, "weight": data.weight, "groups": data.groups}
    rows = DataSet(X, data.y, data.feature_names, data.label, **optional)  # type: ignore[arg-type]
    return replace(rows, remarks=data.remarks, fraction=data.fraction)


# ---- data for an existing model --------------------------------------------------------------------------------------


def read_like(
    path: Path,
    notes: dict[str, Any],
    names: Sequence[str] | None,
    n_features: int,
    reading: Reading,
    label: str | None = None,
    needs_label: bool = True,
    transformer: ColumnTransformer | None = None,
    weight: str | int | None = None,
) -> DataSet:
    """Read data like a model's training file, given its notes and its features' names and number.

    `transformer` is the fitted step that turns columns into numbers, if there is one; X is a table
    then. `weight` is the column of weights, which are read only together with labels.
    """
    options, columns = reading.options, None if names is None else _stripped(names)
    is_table = data_format(path, options) != "libsvm"
    if label is None and needs_label and is_table:
        label = notes.get("label")
    row_columns = RowColumns.find(path, weight, None, options, label)
    drop = row_columns.names if columns is None else []
    if columns is None and is_table:
        drop += _former_row_columns(path, notes, n_features, drop, options, label, needs_label)
    decimal_comma = bool(notes.get("decimal_comma"))
    if transformer is None and not decimal_comma:
        zero_based = notes.get("zero_based")
        rows = read_file(path, label, columns, n_features, zero_based, needs_label, drop, options, row_columns.weighted)
    else:
        rows = _table_like(path, notes, names, n_features, reading, label, needs_label, transformer, drop)
    return row_columns.added(rows, path, options, decimal_comma) if needs_label else rows


def _table_like(
    path: Path,
    notes: dict[str, Any],
    names: Sequence[str] | None,
    n_features: int,
    reading: Reading,
    label: str | int | None,
    needs_label: bool,
    transformer: ColumnTransformer | None,
    drop: Sequence[str],
) -> DataSet:
    """Read a table whose columns are not all written as numbers; parameters are as in `read_like`."""
    columns = None if names is None else _stripped(names)
    numbers, texts = (columns or [], []) if transformer is None else map(_stripped, columns_of(transformer))
    if transformer is not None:  # The transformer may drop columns.
        columns = [name for name in columns or [] if name in numbers or name in texts]
    na = [*notes.get("na", ()), *reading.na]
    try:
        rows = read_mixed(
            path, label, columns, needs_label, drop, numbers=numbers, texts=texts, na=na,
            decimal_comma=bool(notes.get("decimal_comma")), options=reading.options,
        )  # fmt: skip
    except OddCellError as error:
        if error.text is None or has_break(error.text):
            raise
        helps = f"--na {shlex.quote(error.text)} reads it as a missing value"
        if error.row is not None:
            words = read_mixed(path, label, numbers, needs_label, exact=numbers, options=reading.options)
            cells = [words.X.column(name)[error.row].as_py() for name in numbers]
            if sum(cell is not None and not is_number(cell.replace(",", ".")) for cell in cells) > 1:
                helps = f"remove {words.place(error.row)}, a line of texts, from the file"
        raise DataFileError(f"{error}; {helps}") from error
    filled = [] if transformer is None else _stripped(_imputed(transformer))
    if notes.get("missing", True) is not None:  # The model was trained with --missing, or in Python.
        filled += texts
    for name in (name for name in rows.X.column_names if name not in filled):
        missing = rows.X.column(name).is_null()
        if rows.X.column(name).null_count:
            place = rows.place(missing.index(True).as_py())
            raise DataFileError(
                f"{path}, {place}: column {short(name)!r} is missing; expected a value, because the model was "
                "trained without --missing"
            )
    if transformer is None or names is None:
        check_width(path, rows.X.num_columns, n_features)
        return _as_array(rows)
    given = {name.strip(): name for name in names if name.strip() in rows.X.column_names}
    return replace(rows, X=rows.X.rename_columns([given[name] for name in rows.X.column_names]))


def _former_row_columns(
    path: Path,
    notes: dict[str, Any],
    n_features: int,
    drop: Sequence[str],
    options: FileOptions,
    label: str | int | None,
    needs_label: bool,
) -> list[str]:
    """Return the columns at the training positions of labels and weights, if only these are surplus."""
    names = column_names(path, options, label, drop)
    noted = [] if needs_label or label is not None else [notes.get("label")]
    noted += [] if drop else [notes.get("weight")]
    places = [k for k in noted if isinstance(k, int)]
    n_known = len(drop) + (needs_label or label is not None)
    is_alike = len(names) == n_features + n_known + len(places) and all(0 <= k < len(names) for k in places)
    return [names[k] for k in places] if is_alike else []


def _stripped(names: Iterable[str]) -> list[str]:
    return [name.strip() for name in names]


def _imputed(transformer: ColumnTransformer) -> list[str]:
    return [name for _, step, names in transformer.transformers_ if isinstance(step, SimpleImputer) for name in names]


def describe(transformer: ColumnTransformer) -> str:
    """Return a summary of the columns of a fitted step."""
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
