"""Tables of named columns, one of which is the label.

Sites import this module, whose functions import pyarrow only where they need it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimargin.io.data.chunks import DataFileError, short
from dimargin.io.data.labels import NOTHING, doubtful_labels, fraction_said, is_number, label_values, missing_label
from dimargin.system.arrays import Floats

_MAX_LABELS = 2**20  # Each different label takes some hundred bytes, and is a class.

PANDAS_INDEX = re.compile(r"__index_level_\d+__")
"""Name that pandas gives to the row index, which is not a feature."""


@dataclass(frozen=True)
class WantedColumns:
    """Columns that a caller wants of a data file; the first fields are parameters of `dimargin.io.data.read_data`.

    `skip_unlabelled`, for tables, says whether rows without a label are left out or refused.
    """

    label: str | int | None = None
    columns: Sequence[str] | None = None
    needs_label: bool = True
    drop: Sequence[str] = ()
    skip_unlabelled: bool = False


@dataclass(frozen=True)
class TableColumns:
    """Columns of the label and the features, and remarks on columns that are left out by default.

    `index` and `label` are None if labels are not read; `wanted` has the names of the features.
    """

    index: int | None
    label: str | None
    wanted: list[str]
    remarks: tuple[str, ...] = ()

    @classmethod
    def choose(
        cls, path: Path | str, names: list[str], given: WantedColumns, vacant: Collection[str] = ()
    ) -> TableColumns:
        """Choose among the names of all columns, which have no leading or trailing blanks.

        If `given` has no columns, the index of the rows and the columns in `vacant` are left out.
        """
        label, columns, needed, drop = given.label, given.columns, given.needs_label, given.drop
        known = set(names)
        columns = None if columns is None else [name if name in known else name.strip() for name in columns]
        drop = [name if name in known else name.strip() for name in drop]
        if len(known) < len(names):
            raise DataFileError(f"{path}: {said_of_doubles(names)}")
        missing = [name for name in (*(columns or []), *drop) if name not in known]
        if missing:
            s = "s" * (len(missing) > 1)
            # A whole column is not imputed silently: its name may be misspelt.
            remedy = "; a model that imputes missing values takes a column without values" if columns else ""
            raise DataFileError(
                f"{path} lacks the column{s} {_listed(missing)}{_guess(missing[0], names)}; it has {_listed(names)}"
                f"{remedy}"
            )
        index = label_index(path, names, label, columns or drop, needed) if needed or columns is None else None
        if index is not None and names[index] in drop:
            raise DataFileError(f"{path}: column {short(names[index])!r} is the label and cannot be left out")
        remarks: tuple[str, ...] = ()
        if columns is None:
            columns = [name for k, name in enumerate(names) if k != index and name not in drop]
            # An index without a name is called Unnamed: 0 once pandas has read and written it
            # again.
            written = re.compile(r"Unnamed: 0(\.\d+)*")
            indices = [name for name in columns if written.fullmatch(name) or name == names[0] == ""]
            left_out = dict.fromkeys(indices, "it has the names or numbers of the rows, as pandas and R write them")
            left_out |= {name: "it has no name and no values" for name in columns if name in vacant}
            columns = [name for name in columns if name not in left_out]
            remarks = tuple(f"{path}: {_called(name)} is left out: {why}" for name, why in left_out.items())
        elif index is not None and names[index] in columns:
            raise DataFileError(f"{path}: column {short(names[index])!r} is the label and cannot be a feature")
        index = index if needed else None
        return cls(index, None if index is None else names[index], list(columns), remarks)

    @classmethod
    def of(cls, name: str) -> TableColumns:
        """Choose a single column as a feature."""
        return cls(None, None, [name])

    @property
    def all(self) -> list[str]:
        """Names of the features, followed by that of the label."""
        return self.wanted if self.label is None else [*self.wanted, self.label]


def said_of_doubles(names: Sequence[str]) -> str:
    """Return the message for columns with the same name, of which there must be some."""
    double = Counter(names).most_common(1)[0][0]
    places = [str(k) for k, name in enumerate(names) if name == double]
    more = f" and {len(places) - 10} more" if len(places) > 10 else ""
    said = f"{', '.join(places[:10])}{more}" if more else " and ".join([", ".join(places[:-1]), places[-1]])
    return (
        f"the columns {said}, counted from 0, are all called {short(double)!r}; give them different names in the file, "
        "even if one is left out"
    )


def _called(name: str) -> str:
    return f"column {short(name)!r}" if name else "the first column, which has no name,"


def label_index(
    path: Path | str, names: list[str], label: str | int | None, features: Sequence[str] = (), needed: bool = True
) -> int | None:
    """Return the index of the column of labels, by default that of a usual name that is not one of `features`.

    Raises DataFileError if there is no such column, unless it is not `needed`.
    """
    if label is None:
        usual = ("label", "target", "class", "y")
        known = [k for k, name in enumerate(names) if name.strip().lower() in usual and name not in features]
        if len(known) == 1 or not needed:
            return known[0] if len(known) == 1 else None
        found = f"{len(known)} columns have such a name" if known else "no column has such a name"
        raise DataFileError(
            f"{path}: which column holds the labels? The default is the one named {' or '.join(usual)}, but "
            f"{found}. Give its name or position; the columns are {_listed(names)}"
        )
    return column_index(path, names, label, "label")


def column_index(path: Path | str, names: list[str], given: str | int, what: str) -> int:
    """Return the index of a column given by name or position; raises DataFileError if unknown."""
    if isinstance(given, str) and (given in names or given.strip() in names):
        return names.index(given if given in names else given.strip())
    try:
        index = int(given)
    except ValueError:
        index = len(names)
    if not -len(names) <= index < len(names):
        guess = _guess(str(given), names)
        raise DataFileError(f"{path} has no {what} column {given!r}{guess}; the columns are {_listed(names)}")
    return index % len(names)


def _guess(given: str, names: Sequence[str]) -> str:
    """Return the end of a sentence on an unknown name: the name that may be meant, or nothing."""
    parts = [part.strip() for part in given.split(",")]
    if len(parts) > 1 and set(parts) <= set(names):
        return ", which are several; name each by itself, as in --drop A --drop B"
    by_lower = {name.lower(): name for name in names}
    close = get_close_matches(given.strip().lower(), by_lower, 1)
    return f" (did you mean {short(by_lower[close[0]])!r}?)" if close else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(short(name)) for name in names[:10]) + (
        f" and {len(names) - 10} more" if len(names) > 10 else ""
    )


class FoundLabels(NamedTuple):
    """Labels of rows, with the remarks and the message on a fraction of `DataSet`.

    `labelled` says which rows have a label, and thereby one in `y`; None means all rows.
    """

    y: NDArray[Any] | None
    remarks: tuple[str, ...] = ()
    fraction: str | None = None
    labelled: NDArray[np.bool_] | None = None


class TextLabels:
    """Codes of text labels, so that each text is stored once; messages name the path.

    With `as_text`, labels are texts even if all of them are numbers. `na` are texts and numbers
    that mark missing labels. `are_numbers` says whether all labels of earlier rows were numbers,
    None without earlier rows; `found` updates it.

    `doubtful` is the code of the first label that is missing if all others are numbers, but may be
    a class among texts; `fraction` is the code of the first fraction. Each is None if there is no
    such label.
    """

    def __init__(
        self, path: Path | str, as_text: bool = False, na: Collection[str] = (), are_numbers: bool | None = None
    ) -> None:
        self._path, self._codes, self._as_text, self.are_numbers = path, dict[str, int](), as_text, are_numbers
        self.doubtful: int | None = None
        self.fraction: int | None = None
        # The empty text and NaN are missing labels, whatever the other labels are.
        self._missing = {"", "nan", *(one.strip().lower() for one in na)}
        self._missing_numbers = [float(one) for one in na if is_number(one)]

    def lacks(self, text: str) -> bool:
        """Return whether a text marks a missing label, whatever the other labels are."""
        text = text.strip().lower()
        return text in self._missing or (
            bool(self._missing_numbers) and is_number(text) and float(text) in self._missing_numbers
        )

    def lack(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of the labels, all numbers, are missing."""
        return np.isin(numbers, self._missing_numbers)

    def codes(self, column: Any) -> NDArray[np.int32]:
        """Return the codes of a column's labels, -1 for one that is missing, -2 for one with a line break.

        A label with a line break comes from an unclosed quote, so that it contains the following
        lines.
        """
        encoded = column.dictionary_encode()
        codes = [self.code(text) for text in encoded.dictionary.to_pylist()]
        indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        coded: NDArray[np.int32] = np.array([*codes, -1], dtype=np.int32)[indices]
        return coded

    def code(self, text: str) -> int:
        """Return the code of one label, -1 for one that is missing, -2 for one with a line break."""
        if has_break(text):
            return -2
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

    def found(
        self, codes: NDArray[np.int32] | None, column: str | None, place: Callable[[int], str], lenient: bool = False
    ) -> FoundLabels:
        """Return the labels of codes; raises DataFileError if one is missing among numbers.

        `column` is the name of the labels' column, and `place` returns the place of a row, by its
        index. If `lenient`, labels may be missing.
        """
        if codes is None or column is None:
            return FoundLabels(None)

        def where(code: int) -> str:
            return f"{self._path}, {place(int((codes == code).argmax()))}"

        texts, remarks, fault = self.texts, tuple[str, ...](), None
        others = [is_number(text) for text in texts if text.lower() not in NOTHING]
        if others:
            self.are_numbers = self.are_numbers is not False and all(others)
        is_label = np.array([*(True for _ in texts), False])  # The last is for the code -1.
        if self.doubtful is not None:
            text, row = texts[self.doubtful], where(self.doubtful)
            if self.are_numbers and not lenient:
                raise DataFileError(f"{row}: {missing_label(column, text)}")
            if self.are_numbers:
                is_label[:-1] = [text.lower() not in NOTHING for text in texts]
            else:
                marks = [text for text in texts if text.lower() in NOTHING]
                remarks = (f"{row}: {doubtful_labels(column, marks)}",)
        labelled = is_label[codes]
        if not labelled.any():
            raise DataFileError(f"{self._path}: no row has a label in column {short(column)!r}")
        y = self._values((np.cumsum(is_label) - 1)[codes[labelled]], [texts[k] for k in np.flatnonzero(is_label)])
        if y.dtype.kind == "f" and self.fraction is not None:
            fault = f"{where(self.fraction)}: {fraction_said(column, texts[self.fraction])}"
        return FoundLabels(y, remarks, fault, None if labelled.all() else labelled)

    def _values(self, codes: NDArray[Any], texts: list[str]) -> NDArray[Any]:
        """Return the texts of codes as labels, with fixed width unless a long label would waste memory."""
        values = np.array(texts, dtype=object) if self._as_text else label_values(texts)
        if values.dtype == object:
            longest = max(map(len, texts))
            if longest <= 8 or 4 * longest * len(codes) <= 2**26:
                values = values.astype(str)
        labels: NDArray[Any] = values[codes]
        return labels


def has_break(text: str) -> bool:
    """Return whether a text contains a line break."""
    return "\n" in text or "\r" in text


def matrix(batch: Any, names: list[str]) -> Floats:
    """Return columns as numbers, with NaN for missing values."""
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
