"""Training data with texts, dates or missing values, and the steps that turn them into scaled numbers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from dimargin.cli.column_advice import Problems, are_dates, listed, missing_flags
from dimargin.cli.column_flags import ColumnChoices, Missing
from dimargin.cli.row_columns import RowColumns, heavy
from dimargin.cli.shared import Output, Scale, dense_scaler, fitted_scalers
from dimargin.estimators.preprocessing import CalendarFeatures, CategoryEncoder
from dimargin.estimators.preprocessing.column_kinds import check_version, first_step, numbers_as_they_are
from dimargin.io.data import DataFileError, DataSet
from dimargin.io.data.chunks import check_classes, short
from dimargin.io.data.csv_rows import GUESSED_ENCODING, NOT_UTF8
from dimargin.io.data.mixed import MixedData, OddCellError, as_array, read_mixed
from dimargin.io.data.named_columns import WantedColumns
from dimargin.io.data.opening import DataFile
from dimargin.io.data.whole_file import read_file
from dimargin.io.models.text_steps import VECTORIZERS

_MAX_READINGS = 8  # Each reading for an error message finds the obstacles that those of the previous one hid.
Steps = list[tuple[str, Any]]
"""Steps of a pipeline, by their names."""


def read_training_rows(
    path: Path,
    choices: ColumnChoices,
    label: str | None,
    weight: str | None = None,
    group: str | None = None,
    has_targets: bool = False,
) -> tuple[DataSet, ColumnTransformer | None]:
    """Read training data, with the weights and groups of rows if their columns are given.

    `has_targets` says whether labels are numbers to predict, and not classes. Rows of numbers have
    no transformer. Otherwise X is a `pyarrow.Table`, and the unfitted ColumnTransformer turns it
    into numbers. If a column cannot be used, the message of the DataFileError names the flag that
    helps.
    """
    skips = bool(choices.skip_unlabelled)
    file, wanted = DataFile(path, choices.options), WantedColumns(label, drop=choices.drop or (), skip_unlabelled=skips)
    row_columns = RowColumns.find(file, wanted, weight, group, has_targets)
    try:
        row_columns = row_columns.with_targets(
            file, skips, choices.na or (), bool(choices.decimal_comma), choices.thousands
        )
    except OddCellError as error:
        raise DataFileError(f"{error}{_advice_on_targets(file, row_columns.target, choices)}") from error
    wanted = row_columns.of_features(replace(wanted, drop=[*wanted.drop, *row_columns.names]))
    reader = _Reader(file, wanted, choices, row_columns.kept)
    rows, transformer = reader.table(row_columns) if choices.are_for_tables else (reader.numbers(row_columns), None)
    if has_targets:
        rows = replace(rows, y=np.asarray(rows.y, dtype=np.float64))
    else:
        check_classes(rows.fraction)
    return replace(rows, remarks=(*rows.remarks, *_remarks_on_constants(path, rows))), transformer


def _advice_on_targets(file: DataFile, target: Any, choices: ColumnChoices) -> str:
    """Return advice on a column of targets that are not all numbers."""
    read = read_mixed(
        file, WantedColumns(columns=[target], needs_label=False), na=choices.na or (),
        decimal_comma=bool(choices.decimal_comma), thousands=choices.thousands,
    )  # fmt: skip
    own = replace(choices, missing=Missing.median, categories=None, category=None, dates=None, drop=None)
    found = Problems(read, own)
    if not found.remedies or {"--categories", "--dates", "--drop"} & {*found.handled.words}:
        return ". A regression predicts numbers; leave --task regression out to predict classes"
    return f". What helps: {'; '.join(found.remedies)}"


def _remarks_on_constants(path: Path, rows: DataSet) -> list[str]:
    """Return a remark on the named columns that have the same value in every row, if any."""
    names, X = rows.feature_names, rows.X
    if names is None or len(rows.y if rows.y is not None else ()) < 2:
        return []
    if hasattr(X, "column_names"):
        found = [name for name, column in zip(names, X.columns, strict=True) if len(column.unique()) == 1]
    else:
        found = [names[k] for k in np.flatnonzero(X.max(axis=0) == X.min(axis=0))]
    if not found:
        return []
    which, have = ("column", "has") if len(found) == 1 else ("columns", "have")
    columns = f"{which} {listed([repr(short(name)) for name in found])}"
    return [f"{path}: {columns} {have} the same value in every row, which cannot help; --drop leaves a column out"]


def fitted_steps(
    rows: DataSet,
    transformer: ColumnTransformer | None,
    scale: Scale,
    memory_limit: int | None = None,
    seed: int | None = None,
) -> Steps:
    """Fit the steps before a machine; errors are those of `fitted_scalers`.

    In a table, numbers and dates are scaled before the columns of 0 and 1 for categories are
    attached: these need no scaling, and many of them make the rows sparse, which a scaler could
    not centre.
    """
    X = heavy(rows.X, rows.weights)
    if transformer is None:
        return fitted_scalers(scale, X, memory_limit, seed)
    scaler = dense_scaler(scale, X.num_rows, seed)
    parts = []
    for kind, step, names in transformer.transformers:
        if kind == "categories":
            step.set_params(categories=[_categories(X.column(name)) for name in names])
        parts.append((kind, step if kind == "categories" else _followed(step, scaler), names))
    return [("columns", ColumnTransformer(parts).fit(X))]


def _followed(step: Any, scaler: Any) -> Any:
    """Return a transformer with a scaler behind it, None for none."""
    if scaler is None:
        return step
    return scaler if isinstance(step, FunctionTransformer) else make_pipeline(step, scaler)


def say_training_rows(path: Path, rows: DataSet, steps: Steps, out: Output) -> None:
    """Print the remarks on training data, their size, and a summary of their columns."""
    out.warn(rows.remarks)
    step = steps[0][1] if steps else None
    if not isinstance(step, ColumnTransformer):
        out.say_shape(path, rows.X.shape, sp.issparse(rows.X))
        return
    shape = rows.X.num_rows, len(step.get_feature_names_out())
    out.say_shape(path, shape, step.sparse_output_, rows.X.num_columns)
    out.say(describe(step))


@dataclass(frozen=True)
class _Reader:
    """Reader of a training file."""

    file: DataFile
    wanted: WantedColumns
    choices: ColumnChoices
    kept: NDArray[np.bool_] | None = None  # Which rows to keep, if the labels are not read.

    def numbers(self, row_columns: RowColumns) -> DataSet:
        """Read rows whose features are numbers; an error ends with advice on other columns."""
        try:
            numbers = read_file(self.file, self.wanted, weighted=row_columns.weighted)
        except DataFileError as error:
            raise DataFileError(f"{error}{self._advice(str(error))}") from error
        return row_columns.added(numbers, self.file)

    def table(self, row_columns: RowColumns) -> tuple[DataSet, ColumnTransformer | None]:
        """Read rows with other columns, too, and return the transformer that turns them into numbers."""
        path, choices = self.file.path, self.choices
        try:
            mixed = self._mixed(self.wanted)
        except DataFileError as error:
            raise DataFileError(f"{error}{self._advice(str(error))}") from error
        absent = [name for name in choices.category or () if name not in mixed.X.column_names]
        if absent:
            raise DataFileError(f"{path} has no feature {short(absent[0])!r} to encode: {listed(mixed.X.column_names)}")
        problems = Problems(mixed, choices)
        if problems.remedies:
            raise DataFileError(f"{path}: {problems.summary}{self._advice('')}")
        rows = row_columns.added(mixed, self.file, bool(choices.decimal_comma), choices.thousands)
        if all(column.type == "double" for column in rows.X.columns) and choices.missing is None:
            return as_array(rows), None
        check_version()
        transformer = self._transformer(rows.X)
        if choices.dates is not None and not any(name == "dates" for name, *_ in transformer.transformers):
            raise DataFileError(
                f"{path}: --dates {choices.dates}: no column holds such dates; a column of digits only counts as "
                "numbers"
            )
        return rows, transformer

    def _mixed(self, wanted: WantedColumns) -> MixedData:
        choices = self.choices
        return read_mixed(
            self.file, wanted, texts=choices.category or (), na=choices.na or (),
            decimal_comma=bool(choices.decimal_comma), thousands=choices.thousands, kept=self.kept,
        )  # fmt: skip

    def _kind(self, table: Any, name: str) -> str:
        """Return whether a column is one of "numbers", "dates" or "categories"."""
        dates = self.choices.dates
        if table.column(name).type == "double":
            return "numbers"
        if dates is None or name in (self.choices.category or ()):
            return "categories"
        return "dates" if are_dates(table.select([name]), dates) else "categories"

    def _transformer(self, table: Any) -> ColumnTransformer:
        missing, columns = self.choices.missing, dict[str, list[str]](numbers=[], dates=[], categories=[])
        for name in table.column_names:
            columns[self._kind(table, name)].append(name)
        steps = {
            "numbers": SimpleImputer(strategy=str(missing)) if missing else numbers_as_they_are(),
            "dates": CalendarFeatures(self.choices.dates or "iso"),
            "categories": CategoryEncoder(handle_unknown="ignore"),
        }
        return ColumnTransformer([(kind, steps[kind], names) for kind, names in columns.items() if names])

    def _advice(self, said: str) -> str:
        """Return advice on a file that could not be read for the reason that was `said`; it may be empty.

        The file is read again with the flags that help, because one obstacle hides others.
        """
        reader, remedies, changes_file, is_solved = self, list[str](), False, False
        try:
            for _ in range(_MAX_READINGS):
                found = reader._obstacles(said)
                if is_solved := not found.remedies:
                    break
                remedies += found.remedies
                changes_file = changes_file or bool(found.unreadable)
                choices, drop = found.handled, [*reader.wanted.drop, *(found.handled.drop or ()), *found.unreadable]
                file = DataFile(self.file.path, choices.options)
                reader = replace(self, file=file, wanted=replace(self.wanted, drop=drop), choices=choices)
        except OSError:
            return ""
        except DataFileError as error:
            if not remedies:
                return "" if self.file.kind == "libsvm" or str(error) in said else f". {error}"
        if not remedies:
            return ""
        advice = f". What helps: {'; '.join(remedies)}"
        if any(remedy.startswith(("--categories", "--missing median for")) for remedy in remedies):
            advice += (
                ". --drop COLUMN leaves any column out. In Python: a pipeline that begins with a ColumnTransformer of "
                "SimpleImputer and OneHotEncoder"
            )
        if is_solved and len(remedies) > 1 and (words := reader.choices.words):
            once = ", once the file is changed" if changes_file else ""
            advice += f". All flags together{once}: {shlex.join(words)}"
        return advice

    def _obstacles(self, said: str) -> Problems | _Obstacles:
        """Return what keeps the file from being read with the choices so far; raises DataFileError if no flag helps."""
        try:
            return Problems(self._mixed(replace(self.wanted, skip_unlabelled=True)), self.choices)
        except OddCellError as error:
            if error.text is None:
                raise
            reason, flags = str(error), missing_flags([error.text], self.choices)
        except DataFileError as error:
            if NOT_UTF8 not in str(error) or self.choices.options.encoding is not None:
                raise
            reason, flags = str(error), {"options": replace(self.choices.options, encoding=GUESSED_ENCODING)}
        where = "" if reason.partition(" is ")[0] in said else f" for {reason}"
        return _Obstacles([shlex.join(ColumnChoices(**flags).words) + where], self.choices.with_flags(flags))


class _Obstacles(NamedTuple):
    """Obstacles to reading a file at all, with the attributes of `Problems`."""

    remedies: list[str]
    handled: ColumnChoices
    unreadable: Sequence[str] = ()


def _categories(column: Any) -> NDArray[Any]:
    """Return the different texts of a column, in order.

    A missing text is not one of them, and has zeros in all columns, since Arrow, polars and pandas do not
    represent it by the same value. If all texts are missing, there is one category for them.
    """
    return np.array(sorted(column.unique().drop_null().to_pylist()) or [None], dtype=object)


def describe(transformer: ColumnTransformer) -> str:
    """Return a summary of the columns of a fitted step."""
    parts = []
    for _, transformation, columns in transformer.transformers_:
        names = [columns] if isinstance(columns, str) else columns
        match step := first_step(transformation):
            case SimpleImputer():
                what = f" of numbers, the {step.strategy.replace('_', ' ')} where one is missing"
            case OneHotEncoder():
                what = f" of categories, as {sum(map(len, step.categories_))} columns of 0 and 1"
            case CalendarFeatures():
                what = f" of dates ({step.format}), as {len(step.get_feature_names_out())} columns"
            case _ if isinstance(step, VECTORIZERS):
                what = f" of texts, by {type(step).__name__}"
            case "drop":
                what = " left out"
            case _:
                what = " of numbers"
        parts.append(f"{len(names)} column{'s' * (len(names) != 1)}{what}")
    return "; ".join(parts)


def scaling_of(steps: Steps) -> str:
    """Return the names of the scalers in the steps before a machine, or "none"."""
    names = (type(part).__name__ for _, step in steps for part in parts_of(step))
    return ", ".join(dict.fromkeys(filter(_is_scaler, names))) or "none"


def other_steps(steps: Steps) -> str:
    """Return the names of the steps that are neither scalers nor a ColumnTransformer."""
    names = (type(step).__name__ for _, step in steps if not isinstance(step, ColumnTransformer))
    return ", ".join(name for name in names if not _is_scaler(name))


def _is_scaler(name: str) -> bool:
    return name.endswith("Scaler") or name == "QuantileTransformer"


def parts_of(step: Any) -> Iterator[Any]:
    """Yield the transformers that a step consists of."""
    match step:
        case ColumnTransformer():
            inner = [part for _, part, _ in step.transformers_]
        case Pipeline():
            inner = [part for _, part in step.steps]
        case _:
            yield step
            return
    for part in inner:
        yield from parts_of(part)
