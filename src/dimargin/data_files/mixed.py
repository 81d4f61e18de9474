"""Tables whose columns hold numbers, texts and dates, and nothing in some rows: CSV and Parquet as columns of Arrow."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dimargin.data_files.chunks import DataFileError, DataSet, open_data, short
from dimargin.data_files.csv_text import CsvLayout, faults_named
from dimargin.data_files.data import data_format, explained
from dimargin.data_files.labels import is_number
from dimargin.data_files.parquet import ParquetRows, is_numeric, is_text, value_type
from dimargin.data_files.tables import TableColumns, TextLabels, arrow_explained
from dimargin.system.memory import memory_of_process, out_of_memory

NOTHING = ("", "na", "n/a", "#n/a", "nan", "-nan", "+nan", "null", "none", "?", "-")
"""Texts that say that a value is missing, in small letters."""


_WHOLE = re.compile(r"[+-]?\d{1,300}(\.0*)?", re.ASCII)


def read_mixed(
    path: str | os.PathLike[str],
    label: str | int | None = None,
    columns: Sequence[str] | None = None,
    needs_label: bool = True,
    drop: Sequence[str] = (),
    *,
    numbers: Collection[str] = (),
    texts: Collection[str] = (),
    decimal_comma: bool = False,
) -> DataSet:
    r"""Read CSV or Parquet whose columns are not all numbers.

    Empty fields and NA, N/A, NaN, null, None, ?, - (of any case) are missing values.

    Parameters
    ----------
    path, label, columns, needs_label, drop :
        As in `dimargin.data_files.read_data`. The columns need names.
    numbers : collection of str
        Names of columns that must be numbers.
    texts : collection of str
        Names of columns that are read as text whatever they hold. Of other columns, those are numbers of which every
        value is one or missing.
    decimal_comma : bool, default=False
        Whether a comma in a number of CSV is its decimal point.

    Returns
    -------
    DataSet
        Its X is a `pyarrow.Table`, in which missing values are null. Columns are float64, or text, as dates are.

    Raises
    ------
    DataFileError
        As `dimargin.data_files.read_data`, but for texts and missing values of features.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "people.csv"
    >>> _ = path.write_text("age,job,class\n31,nurse,in\nNA,smith,out\n")
    >>> data = read_mixed(path)
    >>> data.X.to_pydict(), data.y.tolist()
    ({'age': [31.0, None], 'job': ['nurse', 'smith']}, ['in', 'out'])
    """
    path = Path(path)
    kind = data_format(path)
    if kind == "libsvm":
        raise DataFileError(f"{path}: LIBSVM text has neither names of columns nor missing values; CSV or Parquet")
    with open_data(path) as stream, explained(path), arrow_explained(path):
        if kind == "csv":
            layout = CsvLayout.of(path)
            if not layout.header:
                raise DataFileError(f"{path}: names of columns expected in line 1, by which to tell them apart")
            taken = TableColumns.choose(path, layout.names, label, columns, needs_label, drop)
            labels = TextLabels(path)
            with faults_named(path, layout, TableColumns(taken.index, taken.label, [])):
                chunks = layout.chunks(stream, taken, labels, header=True, as_text=True)
                table, codes = _joined(path, taken, ((chunk.X, chunk.y) for chunk in chunks))
            y = None if codes is None else labels.values(codes)
        else:
            rows = ParquetRows(path, label, columns, needs_label, drop)
            taken = rows.taken
            table, codes = _joined(path, taken, ((batch.rows, batch.y) for batch in rows.batches()))
            y = rows.values(codes)
        for k, name in enumerate(taken.wanted):
            wanted = "number" if name in numbers else "text" if name in texts else None
            column = _typed(path, name, table.column(k), wanted, decimal_comma)
            table = table.set_column(k, name, column)
    return DataSet(table, y, taken.wanted, taken.label)


def _joined(path: Path, taken: TableColumns, chunks: Iterator[tuple[pa.RecordBatch, Any]]) -> tuple[pa.Table, Any]:
    """Return the features of all rows, and their labels or codes of labels."""
    if not taken.wanted:
        raise DataFileError(f"{path} has no features")
    batches, labels, held, most = list[pa.RecordBatch](), list[Any](), 0, memory_of_process()
    for rows, y in chunks:
        batches.append(rows.select(taken.wanted))
        labels.append(y)
        held += batches[-1].nbytes
        if held > most:
            raise DataFileError(f"{path}: {out_of_memory('what is in it')}")
    if not batches:
        raise DataFileError(f"{path} has no rows")
    return pa.Table.from_batches(batches), None if labels[0] is None else np.concatenate(labels)


def _typed(path: Path, name: str, column: pa.ChunkedArray, wanted: str | None, decimal_comma: bool) -> pa.ChunkedArray:
    """Return a column as numbers where all its values are, and as text else, or as it is wanted."""
    kind = value_type(column.type)
    if is_numeric(kind) or pa.types.is_null(kind):
        column = column.cast(kind)
        if wanted == "text" and not (pa.types.is_floating(kind) or pa.types.is_null(kind)):  # exactly, of any size
            return _spelt_alike(column.cast(pa.string()))
        between = pa.int8() if pa.types.is_boolean(kind) else pa.string() if pa.types.is_decimal(kind) else kind
        numbers = column.cast(between).cast(pa.float64(), safe=False)
        numbers = _finite(path, name, pc.if_else(pc.is_nan(numbers), None, numbers))
        return _spelt_alike(numbers.cast(pa.string())) if wanted == "text" else numbers
    if not (is_text(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        raise DataFileError(f"{path}: column {short(name)!r} holds {kind}; numbers, text or dates expected")
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    text = pc.if_else(pc.is_in(pc.utf8_lower(text), pa.array(NOTHING)), None, text)
    if wanted == "text":
        return _spelt_alike(text)
    digits = pc.replace_substring(text, ",", ".") if decimal_comma else text
    if wanted == "number":
        for word, digit in (("true", "1"), ("false", "0")):
            digits = pc.if_else(pc.equal(pc.utf8_lower(digits), word), digit, digits)
    try:
        numbers = pc.cast(digits, pa.float64())
        return _finite(path, name, pc.if_else(pc.is_nan(numbers), None, numbers))
    except pa.ArrowInvalid:
        if wanted is None:
            return _spelt_alike(text)
        row, value = next((k, v) for k, v in enumerate(digits.to_pylist()) if v is not None and not is_number(v))
        raise DataFileError(
            f"{path}, row {row}: column {short(name)!r} is {short(value)!r}; a finite number expected"
        ) from None


def _spelt_alike(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts, those that are numbers or truth values as all files and formats spell them: 1 for 01 and 1.0."""
    kinds = column.unique()
    spelt = pa.array([_spelt(text) for text in kinds.to_pylist()], pa.string())
    return spelt.take(pc.index_in(column, kinds)) if len(kinds) else column


def _spelt(text: str | None) -> str | None:
    if text is None or not is_number(text):
        return text.lower() if text is not None and text.lower() in ("true", "false") else text
    if _WHOLE.fullmatch(text):  # of more digits than float64 tells apart, as keys are
        return str(int(text.partition(".")[0]))
    number = float(text)
    return str(int(number)) if number.is_integer() and abs(number) < 1e300 else repr(number)


def _finite(path: Path, name: str, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    infinite = pc.is_inf(numbers)
    if pc.any(infinite).as_py():
        row = pc.index(infinite, True).as_py()
        raise DataFileError(f"{path}, row {row}: column {short(name)!r} is infinite; a finite number expected")
    return numbers
