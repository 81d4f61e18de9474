"""Flags for columns that are no numbers, or not everywhere, and data that is read with what they chose."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
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

_PANEL = "Columns that are not numbers"


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
    "na": (
        list[str] | None,
        _option(
            metavar="TEXT",
            help="A further text, or number, that says that a value is missing, such as '#DIV/0!' or -999; may be "
            "repeated.",
            rich_help_panel=_PANEL,
        ),
    ),
    "drop": (
        list[str] | None,
        _option(metavar="COLUMN", help="Leave this column out; may be repeated.", rich_help_panel=_PANEL),
    ),
}


def column_flags() -> list[inspect.Parameter]:
    """Return one optional keyword for each of these flags, and for those that say how a file is read."""
    return [*file_flags(), *keywords(_FLAGS)]


def reading_flags() -> list[inspect.Parameter]:
    """Return one optional keyword for each flag that says how a file is read for a model that is there."""
    return [*file_flags(), *keywords({"na": _FLAGS["na"]})]


@dataclass(frozen=True)
class Reading:
    """Choices of flags that say how a file is read for a model that is there."""

    options: FileOptions
    na: Sequence[str] = ()

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Take the flags out of all that were given; raises ValueError for an encoding that is not known."""
        return cls(file_options(given), given.pop("na", None) or ())


@dataclass(frozen=True)
class ColumnChoices(Choices):
    """Choices of these flags, and of how the file is read."""

    na: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    options: FileOptions = FileOptions()  # noqa: RUF009 (frozen)

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Take the flags out of all that were given; raises ValueError for a value that cannot be."""
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
        """Return how further files are read for the model of these choices, whose notes have the rest."""
        return Reading(self.options)

    @property
    def notes(self) -> dict[str, Any]:
        """Return what a model file keeps of them, so that other files are read alike; nothing without flags."""
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
        """Read training data, with weights and groups of rows where their columns are given.

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
        beside = RowColumns.find(path, weight, group, self.options, label, self.drop or ())
        data, steps = replace(self, drop=[*(self.drop or ()), *beside.names])._read(path, label, beside)
        check_classes(data.fraction)
        return data, steps

    def _read(self, path: Path, label: str | None, beside: RowColumns) -> tuple[DataSet, list[tuple[str, Any]]]:
        drop = tuple(self.drop or ())
        if self.first in (None, "--drop"):
            try:
                numbers = read_file(path, label, drop=drop, options=self.options, weighted=beside.weighted)
            except DataFileError as error:
                raise DataFileError(f"{error}{self._advice(path, label)}") from error
            return beside.added(numbers, path, self.options), []
        try:
            mixed = self._mixed(path, label)
        except OddCellError as error:
            raise DataFileError(f"{error}{self._as_missing(error)}") from error
        absent = [name for name in self.category or () if name not in mixed.X.column_names]
        if absent:
            raise DataFileError(f"{path} has no feature {short(absent[0])!r} to encode: {listed(mixed.X.column_names)}")
        problems = Problems(mixed, self)
        if problems:
            raise DataFileError(f"{path}: {problems}")
        rows = beside.added(mixed, path, self.options, bool(self.decimal_comma))
        if all(column.type == "double" for column in rows.X.columns) and self.missing is None:
            return _as_array(rows), []
        check_version()
        transformer = self._transformer(rows.X)
        if self.dates is not None and not any(name == "dates" for name, *_ in transformer.transformers):
            raise DataFileError(
                f"{path}: --dates {self.dates}: no column holds such dates; a column of digits alone is one of numbers"
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
        """Return what would help with a file that could not be read, or nothing."""
        try:
            problems = Problems(self._mixed(path, label), self)
        except OddCellError as error:
            return self._as_missing(error)
        except (DataFileError, OSError):
            return ""
        return f". {problems}" if problems else ""

    def _as_missing(self, error: OddCellError) -> str:
        """Return the flags that make a missing value of a cell, and put another in its place, or nothing."""
        if error.text is None:
            return ""
        return f". What helps: --na {shlex.quote(error.text)}{'' if self.missing else ' --missing median'}"


def _as_array(data: DataSet) -> DataSet:
    """Return rows of numbers as an array."""
    X = matrix(data.X, data.X.column_names)
    beside = {"weights": data.weights, "weight": data.weight, "groups": data.groups}
    rows = DataSet(X, data.y, data.feature_names, data.label, **beside)  # type: ignore[arg-type]
    return replace(rows, remarks=data.remarks, fraction=data.fraction)


# ---- data that is read again -----------------------------------------------------------------------------------------


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
    """Read data as a file was read with these notes, names of its features and number of them.

    `transformer` is the fitted step that makes numbers of its columns, if there is one; X is a table then. `weight` is
    the column of weights, which are read with the labels only.
    """
    options, columns = reading.options, None if names is None else _stripped(names)
    is_table = data_format(path, options) != "libsvm"
    if label is None and needs_label and is_table:
        label = notes.get("label")
    beside = RowColumns.find(path, weight, None, options, label)
    drop = beside.names if columns is None else []
    if columns is None and is_table:
        drop += _left_over(path, notes, n_features, drop, options, label, needs_label)
    decimal_comma = bool(notes.get("decimal_comma"))
    if transformer is None and not decimal_comma:
        zero_based = notes.get("zero_based")
        rows = read_file(path, label, columns, n_features, zero_based, needs_label, drop, options, beside.weighted)
    else:
        rows = _table_like(path, notes, names, n_features, reading, label, needs_label, transformer, drop)
    return beside.added(rows, path, options, decimal_comma) if needs_label else rows


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
    if transformer is not None:  # which may leave some out
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
        helps = f"--na {shlex.quote(error.text)} makes it a missing value"
        if error.row is not None:
            words = read_mixed(path, label, numbers, needs_label, exact=numbers, options=reading.options)
            cells = [words.X.column(name)[error.row].as_py() for name in numbers]
            if sum(cell is not None and not is_number(cell.replace(",", ".")) for cell in cells) > 1:
                helps = f"a file without {words.place(error.row)}, a line of texts, helps"
        raise DataFileError(f"{error}; {helps}") from error
    filled = [] if transformer is None else _stripped(_imputed(transformer))
    if notes.get("missing", True) is not None:  # the model is of --missing, or of Python
        filled += texts
    for name in (name for name in rows.X.column_names if name not in filled):
        missing = rows.X.column(name).is_null()
        if rows.X.column(name).null_count:
            place = rows.place(missing.index(True).as_py())
            raise DataFileError(
                f"{path}, {place}: column {short(name)!r} is missing; a value expected, because the model was trained "
                "without --missing"
            )
    if transformer is None or names is None:
        check_width(path, rows.X.num_columns, n_features)
        return _as_array(rows)
    given = {name.strip(): name for name in names if name.strip() in rows.X.column_names}
    return replace(rows, X=rows.X.rename_columns([given[name] for name in rows.X.column_names]))


def _left_over(
    path: Path,
    notes: dict[str, Any],
    n_features: int,
    drop: Sequence[str],
    options: FileOptions,
    label: str | int | None,
    needs_label: bool,
) -> list[str]:
    """Return the names of the columns where labels and weights were in training, if just these are too many here."""
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
