"""Tables of named columns, one of which is the label.

Sites import this module: pyarrow is imported where it is needed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimargin.io.data.chunks import DataFileError, short
from dimargin.io.data.labels import NOTHING, doubtful_label, fraction_said, is_number, label_values, missing_label
from dimargin.system.arrays import Floats

_LABEL_NAMES = ("label", "target", "class", "y")
_MAX_LABELS = 2**20  # of text: each takes some hundred bytes, and is a class
_SHORT, _FIXED_WIDTH = 8, 2**26  # letters of the longest, or bytes of all at its length, for labels of fixed width
_NO_LABELS = ("", "nan")  # texts that are missing labels, whatever the others are

PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # how pandas names the row index, which is no feature
# An index without a name is called so once pandas has read and written it.
_WRITTEN_INDEX = re.compile(r"Unnamed: 0(\.\d+)*")
_INDEX_REMARK = "it has the names or numbers of the rows, as pandas and R write them"
_VACANT_REMARK = "it has no name, and nothing is in it"


@dataclass(frozen=True)
class TableColumns:
    """Indices and names of the columns to take."""

    index: int | None  # of the label; None where labels are not read
    label: str | None
    wanted: list[str]  # the features
    remarks: tuple[str, ...] = ()  # on columns that are left out although nobody said so

    @classmethod
    def choose(
        cls,
        path: Path | str,
        names: list[str],
        label: str | int | None,
        columns: Sequence[str] | None = None,
        needed: bool = True,
        drop: Sequence[str] = (),
        vacant: Collection[str] = (),
    ) -> TableColumns:
        """Choose among the names of all columns, which blanks neither begin nor end.

        Parameters are as in `read_data`, where `needed` is `needs_label`. Where no columns are named, the index of the
        rows is left out, and so are columns that are `vacant`.
        """
        known = set(names)
        columns = None if columns is None else [name if name in known else name.strip() for name in columns]
        drop = [name if name in known else name.strip() for name in drop]
        if len(known) < len(names):
            raise DataFileError(f"{path}: {said_of_doubles(names)}")
        missing = [name for name in (*(columns or []), *drop) if name not in known]
        if missing:
            raise DataFileError(f"{path} lacks the columns {_listed(missing)}; it has {_listed(names)}")
        index = _label_index(path, names, label, columns or drop, needed) if needed or columns is None else None
        if index is not None and names[index] in drop:
            raise DataFileError(f"{path}: column {short(names[index])!r} is the label, but also named to be left out")
        remarks: tuple[str, ...] = ()
        if columns is None:
            columns = [name for k, name in enumerate(names) if k != index and name not in drop]
            indices = [name for name in columns if _WRITTEN_INDEX.fullmatch(name) or name == names[0] == ""]
            left_out = {name: _INDEX_REMARK for name in indices} | {
                name: _VACANT_REMARK for name in columns if name in vacant
            }
            columns = [name for name in columns if name not in left_out]
            remarks = tuple(f"{path}: {_called(name)} is left out: {why}" for name, why in left_out.items())
        elif index is not None and names[index] in columns:
            raise DataFileError(
                f"{path}: column {short(names[index])!r} is the label, but also named among the features"
            )
        index = index if needed else None
        return cls(index, None if index is None else names[index], list(columns), remarks)

    @classmethod
    def of(cls, name: str) -> TableColumns:
        """Take a single column, as a feature."""
        return cls(None, None, [name])

    @property
    def all(self) -> list[str]:
        """Names of the features, and behind them that of the label."""
        return self.wanted if self.label is None else [*self.wanted, self.label]


def said_of_doubles(names: Sequence[str]) -> str:
    """Return where columns have the same name, and what helps; there must be such."""
    double = Counter(names).most_common(1)[0][0]
    places = [str(k) for k, name in enumerate(names) if name == double]
    more = f" and {len(places) - 10} more" if len(places) > 10 else ""
    said = f"{', '.join(places[:10])}{more}" if more else " and ".join([", ".join(places[:-1]), places[-1]])
    return (
        f"the columns {said}, counted from 0, are all called {short(double)!r}; give them different names in the file, "
        "also where one is to be left out"
    )


def _called(name: str) -> str:
    return f"column {short(name)!r}" if name else "the first column, which has no name,"


def _label_index(
    path: Path | str, names: list[str], label: str | int | None, features: Sequence[str], needed: bool
) -> int | None:
    if label is None:
        known = [k for k, name in enumerate(names) if name.strip().lower() in _LABEL_NAMES and name not in features]
        if len(known) == 1 or not needed:
            return known[0] if len(known) == 1 else None
        found = f"{len(known)} columns are called so" if known else "no column is called so"
        raise DataFileError(
            f"{path}: which column holds the labels? By default the one named {', '.join(_LABEL_NAMES)}, but {found}. "
            f"Give its name or position; the columns are {_listed(names)}"
        )
    return column_index(path, names, label, "label")


def column_index(path: Path | str, names: list[str], given: str | int, what: str) -> int:
    """Return the place of a column that was given by its name or position; raises DataFileError if there is none."""
    if isinstance(given, str) and (given in names or given.strip() in names):
        return names.index(given if given in names else given.strip())
    try:
        index = int(given)
    except ValueError:
        index = len(names)
    if not -len(names) <= index < len(names):
        raise DataFileError(f"{path} has no {what} column {given!r}; the columns are {_listed(names)}")
    return index % len(names)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(short(name)) for name in names[:10]) + (
        f" and {len(names) - 10} more" if len(names) > 10 else ""
    )


class FoundLabels(NamedTuple):
    """Labels of all rows, remarks on them, and what is said of the first that is no class; as in `DataSet`."""

    y: NDArray[Any] | None
    remarks: tuple[str, ...] = ()
    fraction: str | None = None


class TextLabels:
    """Codes of text labels, by which each text is kept once; messages name the path.

    With `as_text`, labels are texts even where all of them are numbers. `na` are texts and numbers that are missing
    labels. `are_numbers` says whether all labels of earlier rows were numbers, and is None where there were none;
    `found` takes account of its own.

    `doubtful` is the code of the first label that is missing where all others are numbers, and may be a class among
    texts; `fraction` is that of the first number that is not whole. They are None where there is none.
    """

    def __init__(
        self, path: Path | str, as_text: bool = False, na: Collection[str] = (), are_numbers: bool | None = None
    ) -> None:
        self._path, self._codes, self._as_text, self.are_numbers = path, dict[str, int](), as_text, are_numbers
        self.doubtful: int | None = None
        self.fraction: int | None = None
        self._missing = {*_NO_LABELS, *(one.strip().lower() for one in na)}
        self._missing_numbers = [float(one) for one in na if is_number(one)]

    def lacks(self, text: str) -> bool:
        """Return whether a text says that a label is missing, whatever the other labels are."""
        text = text.strip().lower()
        return text in self._missing or (
            bool(self._missing_numbers) and is_number(text) and float(text) in self._missing_numbers
        )

    def lack(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which labels of numbers are missing, as `lacks` does."""
        return np.isin(numbers, self._missing_numbers)

    def codes(self, column: Any) -> NDArray[np.int32]:
        """Return the codes of a column's labels, -1 for one that is missing or has a line break.

        A label has a line break where a quote is not closed, so that it holds the lines that follow.
        """
        encoded = column.dictionary_encode()
        codes = [self.code(text) for text in encoded.dictionary.to_pylist()]
        indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        coded: NDArray[np.int32] = np.array([*codes, -1], dtype=np.int32)[indices]
        return coded

    def code(self, text: str) -> int:
        """Return the code of one label, as `codes` does."""
        if has_break(text):
            return -1
        text = text.strip()
        if self.lacks(text):
            return -1
        code = self._codes.get(text)
        if code is not None:
            return code
        code = self._codes[text] = len(self._codes)
        if code >= _MAX_LABELS:
            raise DataFileError(f"{self._path} has more than {_MAX_LABELS} different labels; which column holds them?")
        if self.doubtful is None and text.lower() in NOTHING:
            self.doubtful = code
        if self.fraction is None and is_number(text) and not float(text).is_integer():
            self.fraction = code
        return code

    @property
    def texts(self) -> list[str]:
        """Texts of the labels, in the order of their codes."""
        return list(self._codes)

    def found(self, codes: NDArray[np.int32] | None, column: str | None, place: Callable[[int], str]) -> FoundLabels:
        """Return the labels behind codes; raises DataFileError if one is missing, since all others are numbers.

        `column` is that of the labels, and `place` names the place of a row in the file, by its index.
        """
        if codes is None or column is None:
            return FoundLabels(None)

        def where(code: int) -> str:
            return f"{self._path}, {place(int((codes == code).argmax()))}"

        texts, remarks, fault = self.texts, tuple[str, ...](), None
        others = [is_number(text) for text in texts if text.lower() not in NOTHING]
        if others:
            self.are_numbers = self.are_numbers is not False and all(others)
        if self.doubtful is not None:
            text, row = texts[self.doubtful], where(self.doubtful)
            if self.are_numbers:
                raise DataFileError(f"{row}: {missing_label(column, text)}")
            remarks = (f"{row}: {doubtful_label(column, text)}",)
        y = self._values(codes)
        if y.dtype.kind == "f" and self.fraction is not None:
            fault = f"{where(self.fraction)}: {fraction_said(column, texts[self.fraction])}"
        return FoundLabels(y, remarks, fault)

    def _values(self, codes: NDArray[np.int32]) -> NDArray[Any]:
        """Return the labels behind codes, as strings of fixed width unless a long one would make all others long."""
        values = np.array(self.texts, dtype=object) if self._as_text else label_values(self.texts)
        if values.dtype == object:
            longest = max(map(len, self._codes))
            if longest <= _SHORT or 4 * longest * len(codes) <= _FIXED_WIDTH:
                values = values.astype(str)
        return values[codes]


def has_break(text: str) -> bool:
    """Return whether a text goes over several lines."""
    return "\n" in text or "\r" in text


def matrix(batch: Any, names: list[str]) -> Floats:
    """Return columns as numbers, NaN for what is missing."""
    X = np.empty((batch.num_rows, len(names)))
    for k, name in enumerate(names):
        X[:, k] = batch.column(name).cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return X


@contextmanager
def arrow_explained(path: Path) -> Iterator[None]:
    """Turn errors of pyarrow, except those of memory, into DataFileError."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as error:
        raise DataFileError(f"{path}: {error}") from error
