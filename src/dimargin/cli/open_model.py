"""Models that commands open, and the reading of data as their training files were read."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import Pipeline

from dimargin.cli.column_flags import Reading
from dimargin.cli.row_columns import RowColumns, present
from dimargin.cli.text_rows import read_texts
from dimargin.display.class_scores import class_scores
from dimargin.display.probability_scores import probability_scores
from dimargin.display.regression_scores import regression_scores
from dimargin.display.unwrap import innermost, members
from dimargin.estimators import CoreSetDetector, MarginRegressor
from dimargin.estimators.facts import facts_of, problem_names
from dimargin.estimators.nested_steps import flat_steps
from dimargin.estimators.preprocessing.category_encoder import unseen_categories
from dimargin.estimators.preprocessing.column_kinds import columns_of, first_step
from dimargin.io.data import DataFileError, DataSet
from dimargin.io.data.chunks import short
from dimargin.io.data.labels import is_number, known_labels
from dimargin.io.data.mixed import MixedData, OddCellError, as_array, read_mixed
from dimargin.io.data.named_columns import WantedColumns, has_break
from dimargin.io.data.opening import DataFile
from dimargin.io.data.whole_file import check_width, column_names, read_file
from dimargin.io.models import ModelFileError, load_with_header, save
from dimargin.io.models.model_format import is_model_file
from dimargin.io.models.text_steps import VECTORIZERS


@dataclass(frozen=True)
class OpenModel:
    """Model of a file."""

    path: Path
    estimator: Any  # A machine, a CalibratedClassifierCV or a detector, in any nesting of pipelines and searches.
    notes: dict[str, Any]  # What `train` stored about the training file, from `how_read`.
    written_by: str = ""  # Version of the library that wrote the file.

    @classmethod
    def load(cls, path: Path, data: Path | None = None) -> OpenModel:
        """Open a model file; raises ModelFileError, also for one that was given as `data`, or OSError."""
        if data is not None and is_model_file(_start_of(data)) and not is_model_file(_start_of(path)):
            raise ModelFileError(
                f"{path} is not a model, but {data} is; the model comes first: {shlex.join([str(data), str(path)])}"
            )
        estimator, header = load_with_header(path)
        version = f"dimargin {header['dimargin_version']}, format {header['format_version']}"
        return cls(path, estimator, header["notes"], version)

    def save(self) -> None:
        """Write the model to its file."""
        save(self.estimator, self.path, self.notes)

    @cached_property
    def members(self) -> list[Any]:
        """Return the model without its calibration; a `CalibratedClassifierCV` may have one for each fold."""
        return members(self.estimator)

    @property
    def machine(self) -> Any:
        """Return the machine, or that of the first fold."""
        return innermost(self.members[0])

    @property
    def scalers(self) -> list[tuple[str, Any]]:
        """Return the steps before the machine."""
        return flat_steps(self.members[0])[:-1]

    @property
    def calibration(self) -> str | None:
        """Return the method by which the probabilities were calibrated, or None without probabilities."""
        return getattr(innermost(self.estimator), "method", None) if self.has_probabilities else None

    @property
    def has_probabilities(self) -> bool:
        """Return whether the model predicts probabilities."""
        return hasattr(self.estimator, "predict_proba")

    def single(self, what: str) -> Any:
        """Return the model without its calibration.

        Raises ValueError if it has machines of several folds; `what` ends the message.
        """
        if len(self.members) > 1:
            raise ValueError(
                f"{self.path} holds {len(self.members)} machines, of the folds of a CalibratedClassifierCV with "
                f"ensemble=True; {what} needs ensemble=False"
            )
        return self.members[0]

    @property
    def transformer(self) -> ColumnTransformer | None:
        """Return the step that turns a table's columns into numbers, if there is one."""
        first = self.scalers[0][1] if self.scalers else None
        return first if isinstance(first, ColumnTransformer) else None

    @property
    def takes_texts(self) -> bool:
        """Return whether rows are texts."""
        steps = (step for _, step in self.scalers)
        return not hasattr(self.estimator, "n_features_in_") and any(isinstance(step, VECTORIZERS) for step in steps)

    @property
    def is_detector(self) -> bool:
        """Return whether the machine is an outlier detector."""
        return isinstance(self.machine, CoreSetDetector)

    @property
    def is_regressor(self) -> bool:
        """Return whether the model predicts numbers."""
        return isinstance(self.machine, MarginRegressor)

    def refuse_detector(self, what: str) -> None:
        """Raise ValueError for an outlier detector; `what` ends the message."""
        if self.is_detector:
            raise ValueError(f"{self.path} holds a {type(self.machine).__name__}, an outlier detector, which {what}")

    def refuse_nested(self) -> None:
        """Raise ValueError for a model that is more than a machine, its calibration, and the steps before it."""
        model = self.members[0]
        own = model.steps if isinstance(model, Pipeline) else [("", model)]
        if any(isinstance(step, Pipeline) or hasattr(step, "best_estimator_") for _, step in own):
            raise ValueError(
                f"{self.path} holds a search or a pipeline in a pipeline, which --resume would not keep: save its best "
                "estimator, or its steps in one pipeline, by dimargin.save, and resume that"
            )

    def read(
        self,
        path: Path,
        label: str | None,
        reading: Reading,
        needs_label: bool = True,
        weight: str | int | None = None,
    ) -> DataSet:
        """Read data as the training file was read."""
        if self.takes_texts:
            skips = bool(reading.skip_unlabelled)
            return read_texts(DataFile(path, reading.options), self.notes, label, needs_label, weight, skips)
        if not hasattr(self.estimator, "n_features_in_"):
            kinds = ", ".join(type(step).__name__ for _, step in self.scalers)
            raise ValueError(
                f"{self.path} does not say what rows it takes (its steps are {kinds}): predict in Python, by "
                "dimargin.load"
            )
        names = getattr(self.estimator, "feature_names_in_", None)  # A pipeline returns those of its first step.
        columns = ModelColumns(
            self.notes, names, self.estimator.n_features_in_, self.transformer, has_targets=self.is_regressor
        )
        return columns.read(path, reading, label, needs_label, weight)

    def read_labelled(
        self, path: Path, label: str | None, reading: Reading, weight: str | int | None = None
    ) -> DataSet:
        """Read data whose labels are classes of the model; raises DataFileError for unknown labels.

        Labels of a regressor are numbers.
        """
        data = self.read(path, label, reading, weight=weight)
        if self.is_regressor:
            try:
                return replace(data, y=np.asarray(data.y, dtype=np.float64))
            except ValueError as error:
                raise DataFileError(f"{path}: the labels of a regression must be numbers: {error}") from error
        classes = self.machine.classes_
        labels, unknown = known_labels(np.asarray(data.y), classes)
        if unknown:
            raise DataFileError(f"{path}: the model knows the classes {classes.tolist()}, not {unknown}")
        return replace(data, y=labels)

    def check_all_rows(self, path: Path, data: DataSet) -> None:
        """Raise DataFileError unless a file has as many rows as the model was trained on, if that is known."""
        schema, n_rows = self.notes.get("schema"), data.X.shape[0]
        sites = schema.get("sites") if isinstance(schema, dict) else None  # The number of rows of each site.
        counts: list[Any] = list(sites.values()) if isinstance(sites, dict) else [self.notes.get("rows")]
        if all(isinstance(count, int) for count in counts) and sum(counts) != n_rows:
            where = f" of {len(counts)} sites together" if sites else ""
            raise DataFileError(
                f"{path} has {n_rows} rows, which are not the rows that the model was trained on; a certificate needs "
                f"all {sum(counts)} rows{where}"
            )

    def scores(self, data: DataSet) -> dict[str, Any]:
        """Return the accuracies and the confusion matrix, or the errors of a regressor, on data of `read_labelled`."""
        began = time.perf_counter()
        if self.is_regressor:
            numbers = self.estimator.predict(data.X)
            speed = {"rows_per_second": round(len(numbers) / max(time.perf_counter() - began, 1e-9))}
            return {"rows": len(numbers), **regression_scores(data.y, numbers, data.weights), **speed}
        classes = self.machine.classes_
        probabilities = self.estimator.predict_proba(data.X) if self.has_probabilities else None
        predicted = self.estimator.predict(data.X) if probabilities is None else classes[probabilities.argmax(axis=1)]
        seconds = time.perf_counter() - began
        confusion = confusion_matrix(data.y, predicted, labels=classes, sample_weight=data.weights)
        present = confusion.sum(axis=1) > 0
        return {
            "rows": len(predicted),
            "accuracy": float(np.average(predicted == data.y, weights=data.weights)),
            "balanced_accuracy": float((np.diag(confusion)[present] / confusion.sum(axis=1)[present]).mean()),
            **({} if probabilities is None else probability_scores(data.y, probabilities, classes, data.weights)),
            "rows_per_second": round(len(predicted) / max(seconds, 1e-9)),
            "classes": classes.tolist(),
            "confusion": confusion.tolist(),
        }

    def scores_by_class(self, data: DataSet, confusion: Any) -> dict[str, list[float | None]]:
        """Return the scores of every class, in the order of the classes, with the confusion matrix of `scores`."""
        decide = getattr(self.estimator, "decision_function", None) or self.estimator.predict_proba
        return class_scores(np.asarray(data.y), decide(data.X), self.machine.classes_, confusion, data.weights)

    def remarks(self, path: Path, data: DataSet) -> list[str]:
        """Return remarks on data that was read: those of the reader, and on categories that training has not seen."""
        unseen = unseen_categories(self.transformer, data.X) if hasattr(data.X, "columns") else []
        return [*data.remarks, *(f"{path}: {remark}" for remark in unseen)]

    def validation(
        self, path: Path | None, label: str | None, reading: Reading, warn: Callable[[list[str]], None]
    ) -> dict[str, dict[str, Any]]:
        """Return the scores on validation data as facts; empty without such data. `warn` receives remarks on it."""
        if path is None:
            return {}
        rows = self.read_labelled(path, label, reading)
        warn(self.remarks(path, rows))
        found = self.scores(rows)
        return {"validation": {name: value for name, value in found.items() if name not in ("classes", "confusion")}}

    def certificate(self) -> dict[str, Any]:
        """Return the stored parts of the machine's certificate, and the facts about its size.

        The machines of several folds have lists of them.
        """
        found = [self._certificate_of(innermost(model)) for model in self.members]
        return found[0] if len(found) == 1 else {name: [facts.get(name) for facts in found] for name in found[0]}

    @staticmethod
    def _certificate_of(machine: Any) -> dict[str, Any]:
        attributes = {
            "status": "status_",
            "relative_duality_gap": "duality_gap_",
            "certificate": "certificate_",
            "objective": "objective_",
            "epsilon": "epsilon_",
            "delta": "delta_",
        }
        found = {
            name: np.asarray(value).tolist()
            for name, attribute in attributes.items()
            if (value := getattr(machine, attribute, None)) is not None
        }
        if isinstance(found.get("objective"), list):
            found["objective"] = dict(zip(problem_names(machine), found["objective"], strict=True))
        return {
            **found,
            **{name: value for name, value in facts_of(machine).items() if name != "privacy"},
        }


def _start_of(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(64)


def how_read(rows: Any, columns: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the notes of a model file on how its rows were read; `columns` are notes of flags."""
    weights = {} if rows.weight is None else {"weight": rows.weight}
    return {"label": rows.label, "zero_based": rows.zero_based, **weights, **(columns or {})}


@dataclass(frozen=True)
class ModelColumns:
    """Columns of a model's training file, as which other files are read."""

    notes: dict[str, Any]  # Those of the model file, from `how_read`.
    names: Sequence[str] | None  # Names of the features, if they have names.
    n_features: int
    transformer: ColumnTransformer | None = None  # Fitted step that turns columns into numbers; rows are a table then.
    has_targets: bool = False  # Whether labels are numbers to predict.

    def read(
        self,
        path: Path,
        reading: Reading,
        label: str | int | None = None,
        needs_label: bool = True,
        weight: str | int | None = None,
    ) -> DataSet:
        """Read data; `weight` is the column of weights, which are read only together with labels."""
        file, notes = DataFile(path, reading.options), self.notes
        is_table = file.kind != "libsvm"
        if label is None and needs_label and is_table:
            label = notes.get("label")
        columns = None if self.names is None else _stripped(self.names)
        wanted = WantedColumns(label, columns, needs_label, skip_unlabelled=bool(reading.skip_unlabelled))
        row_columns = RowColumns.find(file, wanted, weight, has_targets=self.has_targets and needs_label)
        if columns is None:
            drop = row_columns.names
            wanted = replace(wanted, drop=[*drop, *(self._former_row_columns(file, wanted, drop) if is_table else [])])
        noted = bool(notes.get("decimal_comma"))
        decimal_comma = noted if reading.decimal_comma is None else reading.decimal_comma
        thousands: Any = reading.thousands or notes.get("thousands")
        na = [*notes.get("na", ()), *(reading.na or ())]
        reading = replace(reading, decimal_comma=decimal_comma, thousands=thousands, na=na)
        row_columns = row_columns.with_targets(file, wanted.skip_unlabelled, na, decimal_comma, thousands)
        wanted = row_columns.of_features(wanted)
        if self.transformer is not None or decimal_comma or thousands or wanted.skip_unlabelled:
            rows = self._table(file, wanted, reading, row_columns.kept)
        else:
            try:
                rows = read_file(file, wanted, self.n_features, notes.get("zero_based"), row_columns.weighted)
            except DataFileError:
                if is_table and columns is not None:
                    self._table(file, wanted, reading)  # Its messages say more.
                raise
        return row_columns.added(rows, file, decimal_comma, thousands) if needs_label else rows

    def _former_row_columns(self, file: DataFile, wanted: WantedColumns, drop: list[str]) -> list[str]:
        """Return the columns at the training positions of labels and weights, if only these are surplus."""
        names = column_names(file, replace(wanted, drop=drop))
        has_label = wanted.needs_label or wanted.label is not None
        noted = [] if has_label else [self.notes.get("label")]
        noted += [] if drop else [self.notes.get("weight")]
        places = [k for k in noted if isinstance(k, int)]
        n_columns = self.n_features + len(drop) + has_label + len(places)
        is_alike = len(names) == n_columns and all(0 <= k < len(names) for k in places)
        return [names[k] for k in places] if is_alike else []

    def _table(
        self, file: DataFile, wanted: WantedColumns, reading: Reading, labelled: NDArray[np.bool_] | None = None
    ) -> DataSet:
        """Read a table whose columns are not all written as numbers."""
        path, notes, names, transformer = file.path, self.notes, self.names, self.transformer
        if transformer is None:
            numbers, texts = wanted.columns or column_names(file, wanted), list[str]()
        else:
            numbers, texts = map(_stripped, columns_of(transformer))
        if transformer is not None:  # The transformer may drop columns.
            kept = [name for name in wanted.columns or [] if name in numbers or name in texts]
            wanted = replace(wanted, columns=kept)
        try:
            rows = read_mixed(
                file, wanted, numbers=numbers, texts=texts, na=reading.na or (),
                decimal_comma=bool(reading.decimal_comma), thousands=reading.thousands, kept=labelled,
            )  # fmt: skip
        except OddCellError as error:
            if error.has_other_mark:
                mark = "point" if reading.decimal_comma else "comma"
                is_new = bool(notes.get("decimal_comma")) == reading.decimal_comma
                raise DataFileError(
                    f"{error}; this file has decimal {mark}s{', unlike the training file' if is_new else ''}; "
                    f"--decimal-{mark} reads them"
                ) from error
            if error.text is None or has_break(error.text) or transformer is None:
                raise
            helps = f"--na {shlex.quote(error.text)} reads it as a missing value"
            if error.row is not None:
                words = read_mixed(file, replace(wanted, columns=numbers, drop=()), exact=numbers)
                cells = [words.X.column(name)[error.row].as_py() for name in numbers]
                if sum(cell is not None and not is_number(cell.replace(",", ".")) for cell in cells) > 1:
                    helps = f"remove {words.place(error.row)}, a line of texts, from the file"
            raise DataFileError(f"{error}; {helps}") from error
        self._check_missing(path, rows, texts)
        if transformer is None or names is None:
            check_width(path, rows.X.num_columns, self.n_features)
            return as_array(rows)
        given = {name.strip(): name for name in names if name.strip() in rows.X.column_names}
        documents = _stripped(columns for *_, columns in transformer.transformers_ if isinstance(columns, str))
        X = rows.X
        for name in documents:
            present(path, rows, name, "text")
            X = X.set_column(X.column_names.index(name), name, rows.written.column(name))
        X = X.rename_columns([given[name] for name in X.column_names])
        return replace(rows, X=_data_frame(X) if documents else X)

    def _check_missing(self, path: Path, rows: MixedData, texts: Sequence[str]) -> None:
        """Raise DataFileError for a missing value in a column that the model does not impute."""
        steps = [] if self.transformer is None else self.transformer.transformers_
        imputed = [names for _, step, names in steps if isinstance(first_step(step), SimpleImputer)]
        filled = [name for names in imputed for name in _stripped(names)]
        if self.notes.get("missing", True) is not None:  # The model was trained with --missing, or in Python.
            filled += texts
        for name in (name for name in rows.X.column_names if name not in filled):
            column = rows.X.column(name)
            if column.null_count:
                place = rows.place(column.is_null().index(True).as_py())
                raise DataFileError(
                    f"{path}, {place}: column {short(name)!r} is missing; expected a value, because the model was "
                    "trained without --missing"
                )


def _data_frame(table: pa.Table) -> Any:
    """Return a table as a data frame of pandas, since vectorizers do not take texts of Arrow."""
    if find_spec("pandas") is None:
        raise ImportError("a model with a vectorizer for a column of a table needs pandas: pip install pandas")
    return table.to_pandas()


def _stripped(names: Iterable[str]) -> list[str]:
    return [name.strip() for name in names]
