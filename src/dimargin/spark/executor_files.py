"""Data files that Spark reads on the executors, with the rows and labels of `dimargin.io.data.read_data`.

    1  open       the names of the columns, from a first line or a schema
    2  summary    a pass over the rows: labels, sizes, errors, and sums for the scaler
    3  rows       a data frame of scaled features, and of indices of the labels among the classes

The driver receives only the labels of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.errors import AnalysisException
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from sklearn.base import clone

from dimargin.estimators.margin_classifier import MarginClassifier
from dimargin.estimators.training_data import class_factors
from dimargin.io.data import DataFileError
from dimargin.io.data.chunks import check_classes
from dimargin.io.data.csv_text import CsvLayout
from dimargin.io.data.labels import fraction_said, keyed_by_class
from dimargin.io.data.libsvm import DENSE, check_weight
from dimargin.io.data.named_columns import (
    PANDAS_INDEX,
    FoundLabels,
    TableColumns,
    TextLabels,
    WantedColumns,
    column_index,
)
from dimargin.io.data.opening import DataFile, FileOptions, refuse_others
from dimargin.io.data.sniffing import SAMPLE_BYTES, SAMPLE_ROWS, name_format
from dimargin.spark.columns import FEATURES, LABEL, WEIGHT, Columns, quoted
from dimargin.spark.engine.jobs import Jobs
from dimargin.spark.engine.spark import SparkEngine
from dimargin.spark.formats import LINE, CsvText, Format, LibsvmText, TableRows
from dimargin.spark.passes import BatchParser, FileSummary, prepared, summarise
from dimargin.spark.scaling import SUMS
from dimargin.spark.training import train
from dimargin.strategies import Progress


@dataclass(frozen=True)
class FileRows:
    """Rows of a data file, ready for training.

    The frame has scaled ``features``, as vectors for sparse rows and else as arrays; ``label``,
    indices among the classes; and ``weight`` if the file has weights. `feature_names`, `label`,
    `zero_based` and `weight` are as in `dimargin.io.data.DataSet`.
    """

    frame: DataFrame
    n_rows: int
    n_features: int
    sparse: bool
    classes: NDArray[Any]  # Labels as in `read_data`, ascending.
    scaler: Any  # Scaler of scikit-learn, fitted on these rows, or None.
    feature_names: list[str] | None
    label: str | int | None
    zero_based: bool | None
    remarks: tuple[str, ...] = ()
    weight: str | int | None = None

    def train(
        self, prototype: MarginClassifier, report: Progress, checkpoint_dir: str | None = None
    ) -> MarginClassifier:
        """Train a machine on the rows by `dimargin.spark.training.train`, and set its labels."""
        weights = self._weights_of_indices(prototype.class_weight)
        machine: Any = train(
            clone(prototype).set_params(class_weight=weights),
            self.frame,
            Columns(FEATURES, LABEL, None if self.weight is None else WEIGHT, n_features=self.n_features),
            report,
            checkpoint_dir,
        )
        machine.set_params(class_weight=prototype.class_weight).classes_ = self.classes
        return machine  # type: ignore[no-any-return]

    def _weights_of_indices(self, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        given = keyed_by_class(given, self.classes)
        return dict(enumerate(class_factors(given, self.classes, None, "class_weight").tolist()))


def read_rows(
    spark: SparkSession,
    path: str,
    label: str | int | None = None,
    scale: str = "minmax",
    options: FileOptions | None = None,
    weight: str | None = None,
) -> FileRows:
    """Read a data file on the executors, in one pass that also fits the scaler `scale`, a key of `SUMS`.

    The path is that of a file, a folder of files, or a pattern that Spark reads, local or behind a
    URL. Parquet is recognised by its name or those of the files in the folder, text formats by
    their first lines. Text may be compressed (gzip, bzip2), as its name tells. The label is as in
    `dimargin.io.data.read_data`, and `options` override what is otherwise derived from the content.
    `weight` is the name or position of the column of weights, or "label" for LIBSVM text of
    label:weight.

    Raises
    ------
    DataFileError
        As in `dimargin.io.data.read_data`, but with lines quoted instead of numbered; if Spark does
        not find the file; for one class only, or more than 10,000.
    """
    try:
        action = partial(_open_file, spark, path, label, weight, options or FileOptions())
        opened = Jobs(spark).act(action, f"open {path}")
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        what = str(error).splitlines()[0]  # The first line has the URL, with the scheme that Spark has chosen.
        raise DataFileError(f"{path}: Spark finds no such file or folder: {what}") from error
    with SparkEngine(spark) as engine, engine.describe(f"look at {path}"):
        parts = engine.summarise(opened.frame, summarise, (opened.format, SUMS[scale]))
    present = [part for part in parts if part is not None]
    if not present:
        raise DataFileError(f"{path} has no rows{'' if weight is None else ' of positive weight'}")
    return opened.rows(reduce(partial(FileSummary.joined, path), present))


# ---- open files ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Opened:
    frame: DataFrame  # Lines of text, or the columns of a table.
    format: Format
    names: list[str] | None = None
    label: str | int | None = None
    remarks: tuple[str, ...] = ()
    weight: str | int | None = None
    column: str | None = None  # Name of the column of labels; None for LIBSVM text.

    def rows(self, found: FileSummary) -> FileRows:
        """Return the rows, with the width and the classes of the summary."""
        path, text = self.format.path, isinstance(self.format, LibsvmText)
        base = int(text and found.first > 0)
        width = found.last + 1 - base
        if width <= 0:
            raise DataFileError(f"{path} has no features")
        sparse = text and found.n_stored < DENSE * found.n_rows * width
        labels = self._labels(found.labels)
        # For text labels, the summary has them in an array of fixed width, which np.unique sorts.
        values = found.labels if labels.y is None or labels.y.dtype.kind in "OU" else labels.y
        classes, indices = np.unique(values, return_inverse=True)
        check_classes(labels.fraction)
        if len(classes) < 2:
            raise DataFileError(f"{path}: at least two classes are needed, and every label is {classes.tolist()[0]!r}")
        scaler = None if found.sums is None else found.sums.between(base, width).scaler(sparse)
        parser = BatchParser(self.format, found.labels, indices, base, width, sparse, scaler)
        kind = VectorUDT() if sparse else T.ArrayType(T.DoubleType())
        schema = T.StructType().add(FEATURES, kind).add(LABEL, T.DoubleType())
        schema = schema if self.weight is None else schema.add(WEIGHT, T.DoubleType())
        return FileRows(
            frame=self.frame.mapInArrow(partial(prepared, parser), schema), n_rows=found.n_rows, n_features=width,
            sparse=sparse, classes=classes, scaler=scaler, feature_names=self.names, label=self.label,
            zero_based=base == 0 if text else None, remarks=(*self.remarks, *labels.remarks), weight=self.weight,
        )  # fmt: skip

    def _labels(self, labels: NDArray[Any]) -> FoundLabels:
        """Return the labels with remarks on them; raises DataFileError if one is missing."""
        if labels.dtype.kind != "U":
            odd = labels[labels != np.floor(labels)] if labels.dtype.kind == "f" else labels[:0]
            fault = None if not len(odd) else f"{self.format.path}, in a row: {fraction_said(self.column, odd[0])}"
            return FoundLabels(labels, fraction=fault)
        texts = TextLabels(self.format.path)
        codes = np.array([texts.code(text) for text in labels.tolist()], dtype=np.int32)
        return texts.found(codes, self.column, lambda _: "in a row")


def _open_file(
    spark: SparkSession, path: str, label: str | int | None, weight: str | None, options: FileOptions
) -> _Opened:
    if _is_parquet(spark, path, options):
        return _open_table(spark.read.parquet(path), path, label, weight)
    lines = spark.read.text(path).select(F.col(LINE).cast("binary").alias(LINE))
    first = _first_lines(lines)
    options.check_lines(path, b"".join(first[:1]))
    start = options.utf8(b"".join(line + b"\n" for line in first))
    if not first:
        raise DataFileError(f"{path} is empty")
    refuse_others(path, start, options)
    file = DataFile(Path(path), options, start)
    file.check(WantedColumns(label))
    if file.kind == "libsvm":
        check_weight(path, weight)
        return _Opened(lines, LibsvmText(path, options, weight is not None), weight=weight)
    return _open_csv(lines, file, path, label, weight, first)


def _first_lines(lines: DataFrame) -> list[bytes]:
    """Return the first lines, fewer if they are long."""
    length = sum(len(row[0]) for row in lines.head(1))
    n_rows = max(2, min(SAMPLE_ROWS, SAMPLE_BYTES // max(1, length)))
    return [bytes(row[0]) for row in lines.head(1 + n_rows)]


def _is_parquet(spark: SparkSession, path: str, options: FileOptions) -> bool:
    """Return whether a file is Parquet, by the name of the path or, if that does not tell, of its files."""
    if options.format is not None:
        return options.format == "parquet"
    names = [path]
    if name_format(Path(path)) is None:
        names = spark.read.text(path).inputFiles() or names
    if names[0].lower().endswith(".xz"):
        raise DataFileError(f"{path}: Spark does not read .xz; compress it as .bz2, which is read in parallel")
    return name_format(Path(names[0])) == "parquet"


def _open_csv(
    lines: DataFrame, file: DataFile, path: str, label: str | int | None, weight: str | None, first: list[bytes]
) -> _Opened:
    known = WantedColumns(label, drop=[] if weight is None else [weight])
    layout = CsvLayout.of_start(path, file.start, file.options, known)
    index = None if weight is None else column_index(path, layout.names, weight, "weight")
    drop = [] if index is None else [layout.names[index]]
    taken = layout.choose(WantedColumns(label, drop=drop))
    form = CsvText(path, layout, first[: layout.n_skipped_lines], taken, file.options, *drop)
    if layout.header:
        return _Opened(lines, form, taken.wanted, taken.label, taken.remarks, form.weight, taken.label)
    return _Opened(lines, form, None, taken.index, taken.remarks, index, taken.label)


def _open_table(table: DataFrame, path: str, label: str | int | None, weight: str | None) -> _Opened:
    names = [name for name in table.columns if not PANDAS_INDEX.fullmatch(name)]
    given = {name.strip(): name for name in reversed(names)}
    names = [name.strip() for name in names]
    drop = [] if weight is None else [names[column_index(path, names, weight, "weight")]]
    taken = TableColumns.choose(path, names, WantedColumns(label, drop=drop))
    assert taken.label is not None
    numbers = (T.IntegralType, T.FloatType, T.DoubleType, T.BooleanType, T.DecimalType)
    for name in (*taken.wanted, *drop):
        _check_kind(path, name, table.schema[given[name]].dataType, numbers, "numbers expected")
    kind = table.schema[given[taken.label]].dataType
    labels = (*numbers, T.StringType, T.DateType)
    _check_kind(path, taken.label, kind, labels, "numbers or text expected as labels")
    features = F.array(*(quoted(given[name]).cast("double") for name in taken.wanted))
    weights = [quoted(given[name]).cast("double").alias(WEIGHT) for name in drop]
    frame = table.select(features.alias(FEATURES), quoted(given[taken.label]).alias(LABEL), *weights)
    form = TableRows(path, taken, *drop)
    return _Opened(frame, form, taken.wanted, taken.label, taken.remarks, form.weight, taken.label)


def _check_kind(path: str, name: str, kind: T.DataType, expected: tuple[type[T.DataType], ...], what: str) -> None:
    if not isinstance(kind, expected):
        raise DataFileError(f"{path}: column {name!r} holds {kind.simpleString()}; {what}")
