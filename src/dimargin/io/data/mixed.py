"""CSV and Parquet with numbers, texts, dates and missing values, as tables of Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimargin.io.data.chunks import LEFT_OUT, DataFileError, DataSet, short
from dimargin.io.data.csv_text import CsvRows
from dimargin.io.data.labels import NOTHING, is_number, missing_label
from dimargin.io.data.named_columns import WantedColumns, arrow_explained, matrix
from dimargin.io.data.opening import IF_CSV, DataFile, explained
from dimargin.io.data.parquet import ParquetRows, is_numeric, is_text, value_type
from dimargin.io.data.row_numbers import is_row_number, remark_on_row_number
from dimargin.system.memory import memory_of_process, out_of_memory

GROUPED_NUMBER = re.compile(r"[+-]?[1-9]\d{0,2}([,.' \u00a0\u202f]\d{3})+([.,]\d+)?")
"""Number with separators of thousands, unless they are decimal marks."""
THOUSANDS = {",": ",", ".": r"\.", "'": "'", " ": "[ \u00a0\u202f]"}
"""Regular expressions of separators of thousands."""
_MAX_MARKS = 5  # Columns with more different texts than this are not numbers with marks of missing values.
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,300}(\.0*)?", re.ASCII)
_CODE_TEXT = re.compile(r"\d+[eE]\d+", re.ASCII)  # 1e3 and 0e26 are codes; programs write numbers as 1e+03.


def grouped_number(separator: str, mark: str) -> str:
    """Return a regular expression of numbers with this separator of thousands and this decimal mark."""
    return rf"[+-]?[1-9]\d{{0,2}}({THOUSANDS[separator]}\d{{3}})+({re.escape(mark)}\d*)?"


@dataclass(frozen=True)
class MixedData(DataSet):
    """Contents of a data file as a table."""

    place: Callable[[int], str] = "row {}".format  # Place of a row, by its index, for messages: "line 11" or "row 9".
    written: pa.Table = None  # X with the texts as they are in the file, for messages: 01 where X has 1.


def read_mixed(
    file: DataFile,
    wanted: WantedColumns = WantedColumns(),  # noqa: B008 (frozen)
    *,
    numbers: Collection[str] = (),
    texts: Collection[str] = (),
    exact: Collection[str] = (),
    decimal_comma: bool = False,
    na: Collection[str] = (),
    thousands: str | None = None,
    kept: NDArray[np.bool_] | None = None,
) -> MixedData:
    r"""Read CSV or Parquet whose columns are not all numbers.

    Empty fields and NA, N/A, NaN, null, None, ?, - (in any case) are missing values, which are null
    in X, a `pyarrow.Table`. Its columns are float64 or, also for dates, text; columns without a
    name are called "column 0" and so on.

    Parameters
    ----------
    file, wanted :
        What is read.
    numbers, texts, exact : collection of str
        Names of columns that must be numbers, that are always read as text, and that are text in
        its exact spelling: 01 is not 1. Other columns are numbers if every value is a number or
        missing.
    decimal_comma : bool, default=False
        Whether numbers of CSV have a decimal comma. A cell with a point, which may separate
        thousands, is not a number then.
    na : collection of str
        Further texts (in any case) and numbers that mark missing values of features and missing
        labels.
    thousands : str, optional
        Separator of thousands in numbers, a key of `THOUSANDS`; the decimal mark separates none.
    kept : ndarray of shape (n_rows_of_the_file,), optional
        Which rows to keep, if the labels are not read.

    Raises
    ------
    DataFileError
        As in `dimargin.io.data.read_data`, except for texts and missing values of features.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "people.csv"
    >>> _ = path.write_text("age,job,class\n31,nurse,in\nNA,smith,out\n")
    >>> data = read_mixed(DataFile(path))
    >>> data.X.to_pydict(), data.y.tolist()
    ({'age': [31.0, None], 'job': ['nurse', 'smith']}, ['in', 'out'])
    """
    path = file.path
    with explained(path), arrow_explained(path):
        file.check(WantedColumns())
        if file.kind == "libsvm":
            said = "neither column names nor missing values"
            said = "no rows without a label, which --skip-unlabelled leaves out" if wanted.skip_unlabelled else said
            raise DataFileError(f"{path}: LIBSVM text has {said}{IF_CSV}")
        if file.kind == "csv":
            rows: CsvRows | ParquetRows = CsvRows(file, wanted, na)
        else:
            rows = ParquetRows(path, wanted, na)
        taken, (table, codes) = rows.taken, _joined(path, rows)
        found = rows.found(codes)
        remarks, labelled = [*taken.remarks, *found.remarks], found.labelled if kept is None else kept
        place: Callable[[int], str] = rows.place
        if labelled is not None:
            table, place = table.filter(labelled), place_among(labelled, rows.place)
            if kept is None:
                fault = partial(_unlabelled, rows)
                remarks.append(remark_on_unlabelled(path, labelled, wanted.skip_unlabelled, fault))
        reader, written = _ColumnReader(path, place, decimal_comma, na, thousands), table
        for k, name in enumerate(taken.wanted):
            kinds = {"number": numbers, "text": texts, "exact text": exact}
            kind = next((kind for kind, of_kind in kinds.items() if name in of_kind), None)
            column = reader.typed(name, table.column(k), kind)
            written = written.set_column(k, name, column)
            if pa.types.is_string(column.type) and kind != "exact text":
                column = _normalized(column)
            table = table.set_column(k, name, column)
            if wanted.columns is None and column.type == "double" and is_row_number(values := column.to_numpy()):
                remarks.append(remark_on_row_number(path, short(repr(name)), values))
        names, label = rows.names
        return MixedData(
            table, found.y, names, label, remarks=tuple(remarks), labelled=labelled, fraction=found.fraction,
            place=place, written=written,
        )  # fmt: skip


def place_among(kept: NDArray[np.bool_], place: Callable[[int], str]) -> Callable[[int], str]:
    """Return a function for the place of a row, by its index among the rows that are kept."""
    indices = np.flatnonzero(kept)
    return lambda row: place(int(indices[row]))


def _unlabelled(rows: CsvRows | ParquetRows, row: int, counted: str) -> str:
    """Return the message for a row without a label."""
    return f"{rows.place(row)}: {missing_label(rows.taken.label or '', rows.label_in(row), counted)}"


def remark_on_unlabelled(path: Path, labelled: NDArray[np.bool_], skipped: bool, fault: Callable[..., str]) -> str:
    """Return a remark on rows without a label; raises DataFileError by `fault` unless they are to be skipped."""
    n_missing = int((~labelled).sum())
    said = f"{n_missing} of {len(labelled)} rows {'has' if n_missing == 1 else 'have'} no label"
    if skipped:
        return f"{path}: {said} and {'is' if n_missing == 1 else 'are'} left out"
    raise DataFileError(f"{path}, {fault(int((~labelled).argmax()), f' ({said})')}")


def _joined(path: Path, rows: CsvRows | ParquetRows) -> tuple[pa.Table, Any]:
    """Return the features of all rows, and their labels or codes of labels."""
    wanted = rows.taken.wanted
    if not wanted:
        raise DataFileError(f"{path} has no features")
    batches, labels, held, most = list[pa.RecordBatch](), list[Any](), 0, memory_of_process()
    for X, y, _ in rows.tables():
        batches.append(X.select(wanted))
        labels.append(y)
        held += batches[-1].nbytes
        if held > most:
            raise DataFileError(f"{path}: {out_of_memory('its content')}")
    if not batches:
        raise DataFileError(f"{path} has no rows")
    return pa.Table.from_batches(batches), None if labels[0] is None else np.concatenate(labels)


def as_array(data: DataSet) -> DataSet:
    """Return a table whose columns are all numbers with an array as its X."""
    values = {field.name: getattr(data, field.name) for field in fields(DataSet)}
    return DataSet(**values | {"X": matrix(data.X, data.X.column_names)})


def remarks_on_empty_rows(path: Path, rows: DataSet) -> tuple[str, ...]:
    """Return a remark on the rows of a table in which all features are missing, if any."""
    if not (isinstance(rows, MixedData) and isinstance(rows.X, pa.Table) and rows.X.num_columns):
        return ()
    empty = reduce(pc.and_, (column.is_null() for column in rows.X.columns))
    found = pc.indices_nonzero(empty).to_pylist()
    if not found:
        return ()
    which = "1 row has" if len(found) == 1 else f"{len(found)} rows have"
    max_places = 10  # Each place in the message costs a pass over the file.
    places = ", ".join(map(rows.place, found[:max_places])) + ", ..." * (len(found) > max_places)
    return (f"{path}: {which} no value in any column of the model, which predicts their labels anyway: {places}",)


@dataclass(frozen=True)
class _ColumnReader:
    """Reader of columns as numbers or texts; its fields are as in `MixedData` and `read_mixed`."""

    path: Path
    place: Callable[[int], str]
    decimal_comma: bool
    na: Collection[str]
    thousands: str | None

    def typed(self, name: str, column: pa.ChunkedArray, wanted: str | None) -> pa.ChunkedArray:
        """Return a column as `wanted`, or else as numbers if all values are numbers, or as text."""
        kind = value_type(column.type)
        if is_numeric(kind) or pa.types.is_null(kind):
            column = column.cast(kind)
            if wanted == "text" and not (pa.types.is_floating(kind) or pa.types.is_null(kind)):
                return self._without_missing(column.cast(pa.string()))  # Large integers stay exact.
            between = pa.int8() if pa.types.is_boolean(kind) else pa.string() if pa.types.is_decimal(kind) else kind
            if wanted == "exact text":
                return column.cast(pa.string())
            numbers = column.cast(between).cast(pa.float64(), safe=False)
            numbers = self._finite(name, numbers, numbers)
            return numbers.cast(pa.string()) if wanted == "text" else numbers
        if not (is_text(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            raise DataFileError(
                f"{self.path}: column {short(name)!r} holds {kind}; numbers, text or dates expected{LEFT_OUT}"
            )
        text = self._without_missing(pc.utf8_trim_whitespace(column.cast(pa.string())))
        if wanted == "exact text":
            return text
        digits = text = self._ungrouped(text)
        if wanted == "text":
            return text
        if self.decimal_comma:
            digits = pc.replace_substring(pc.replace_substring(text, ".", "_"), ",", ".")
        if wanted == "number":
            for word, digit in (("true", "1"), ("false", "0")):
                digits = pc.if_else(pc.equal(pc.utf8_lower(digits), word), digit, digits)
        try:
            return self._finite(name, pc.cast(digits, pa.float64()), text)
        except pa.ArrowInvalid:
            if wanted is None:
                return text
            found = odd_cells(text, self.decimal_comma)
            odd, has_point = found.texts[0], is_number(found.texts[0])
            raise OddCellError(
                f"{self.path}, {self.place(found.first)}: column {short(name)!r} is {short(odd)!r}; a "
                f"{'number with a decimal comma' if has_point else 'finite number'} expected ({found.said})",
                None if has_point or len(found.texts) > _MAX_MARKS else odd,
                found.first if found.n_odd == 1 else None,
                found.have_other_mark(self.decimal_comma),
            ) from None

    def _ungrouped(self, text: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return texts without separators of thousands in numbers."""
        mark = "," if self.decimal_comma else "."
        if self.thousands is None or self.thousands == mark:
            return text
        is_grouped = pc.match_substring_regex(text, f"^{grouped_number(self.thousands, mark)}$")
        return pc.if_else(is_grouped, pc.replace_substring_regex(text, THOUSANDS[self.thousands], ""), text)

    def _without_missing(self, text: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return texts with null for those that mark a missing value."""
        marks = {*NOTHING, *(one.strip().lower() for one in self.na)}
        return pc.if_else(pc.is_in(pc.utf8_lower(text), pa.array(sorted(marks))), None, text)

    def _finite(self, name: str, numbers: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return numbers with null for missing values; raises OddCellError for infinite ones."""
        infinity = re.compile(r"[ \t]*[+-]?inf(inity)?[ \t]*", re.IGNORECASE)
        marks = [float(one) for one in self.na if is_number(one) or infinity.fullmatch(one)]
        is_missing = pc.or_(pc.is_nan(numbers), pc.is_in(numbers, pa.array(marks, pa.float64())))
        numbers = pc.if_else(is_missing, None, numbers)
        infinite = pc.is_inf(numbers)
        if pc.any(infinite).as_py():
            row = pc.index(infinite, True).as_py()
            value = values[row].as_py()
            raise OddCellError(
                f"{self.path}, {self.place(row)}: column {short(name)!r} is {short(repr(value))}; a finite number "
                "expected",
                str(value),
            )
        return numbers


@dataclass(frozen=True)
class OddCells:
    """Cells that are not numbers: their count among all cells, their texts, and the first row."""

    n_odd: int
    n_cells: int
    texts: list[str]
    first: int

    @property
    def said(self) -> str:
        """Count of the cells, for messages."""
        return f"{self.n_odd} of {self.n_cells} cells {'is' if self.n_odd == 1 else 'are'} not a number"

    def have_other_mark(self, decimal_comma: bool) -> bool:
        """Return whether most of the texts are numbers with a point where a comma is expected, or the other way round.

        They are not if the marks of all texts may separate thousands.
        """
        numbers = [text for text in self.texts if is_number(text if decimal_comma else _with_point(text))]
        return 2 * len(numbers) > len(self.texts) and not all(map(GROUPED_NUMBER.fullmatch, numbers))


class OddCellError(DataFileError):
    """Error for a cell that is not a number.

    `text` is the cell if it may mark a missing value, `row` is its row if it is the only such
    cell, and `has_other_mark` is that of `OddCells.have_other_mark`.
    """

    def __init__(self, message: str, text: str | None, row: int | None = None, has_other_mark: bool = False) -> None:
        super().__init__(message)
        self.text, self.row, self.has_other_mark = text, row, has_other_mark


def odd_cells(column: pa.ChunkedArray, decimal_comma: bool) -> OddCells:
    """Return the cells of a column of text that are not numbers; there must be at least one."""
    kinds = column.drop_null().unique().to_pylist()
    texts = [text for text in kinds if not is_number(_with_point(text) if decimal_comma else text)]
    odd = pc.is_in(column, pa.array(texts, pa.string()))
    n_odd = pc.sum(odd).as_py()
    return OddCells(n_odd, len(column), texts, pc.index(odd, True).as_py())


def _with_point(text: str) -> str:
    """Replace a decimal comma by a point; a text that has a point is not a number afterwards."""
    return text.replace(".", "_").replace(",", ".")


def _normalized(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts with one spelling of numbers and booleans for all formats: 1 for 01 and 1.0."""
    kinds = column.unique()
    spelt = pa.array([_normal_spelling(text) for text in kinds.to_pylist()], pa.string())
    return column if spelt.equals(kinds) else spelt.take(pc.index_in(column, kinds))


def _normal_spelling(text: str | None) -> str | None:
    if text is None or not is_number(text) or _CODE_TEXT.fullmatch(text):
        return text.lower() if text is not None and text.lower() in ("true", "false") else text
    if _WHOLE_NUMBER.fullmatch(text):  # Keys may have more digits than float64.
        return str(int(text.partition(".")[0]))
    number = float(text)
    return str(int(number)) if number.is_integer() and abs(number) < 1e300 else repr(number)
