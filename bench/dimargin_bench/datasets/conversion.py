"""Conversion of public raw files to LIBSVM text, for data sets that nobody offers in this format.

A converter reads the files that its data set's entry in the catalogue names, and writes the files
of the entry, with the labels +1 and -1. Numbers are written as the raw file has them. The papers
hardly say how they encoded the raw tables; the columns here are as many as the papers print.
"""

from __future__ import annotations

import csv
import os
import statistics
import tarfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from dimargin.io.data import DataFileError
from dimargin.io.data.opening import open_data
from dimargin_bench.datasets.catalogue import Entry

Line = tuple[bool, list[str]]
"""Whether a row is positive, and its values as texts; a value that is zero may be an empty text."""


def convert(entry: Entry, paths: Sequence[Path], folder: Path) -> list[tuple[Path, int]]:
    """Write the files of a data set from its public raw files.

    Parameters
    ----------
    entry : Entry
    paths : sequence of Path
        The raw files in the order of ``entry.raw``, compressed or not.
    folder : Path
        Made if it is missing.

    Returns
    -------
    list of (Path, int)
        The files, and how many rows each has.

    Raises
    ------
    ValueError
        If the data set has no converter, or needs another number of files.
    DataFileError
        If a raw file is not of the documented form.
    """
    if not entry.raw:
        offered = f"`dimargin datasets fetch {entry.name}` gets it" if entry.train.address else entry.note
        raise ValueError(f"{entry.name} has no raw files to convert: {offered}")
    if len(paths) != len(entry.raw):
        raise ValueError(f"{entry.name} is made of {' and '.join(entry.raw)}, in this order; got {len(paths)} files")
    folder.mkdir(parents=True, exist_ok=True)
    parts = CONVERTERS[entry.name](*paths)
    return [
        (folder / file.name, _write(lines, folder / file.name, entry.features))
        for file, lines in zip(entry.files, parts, strict=True)
    ]


def _write(lines: Iterable[Line], path: Path, n_features: int) -> int:
    """Write LIBSVM text, and give the file its name when it is complete; return the number of rows."""
    n_rows, marks, part = 0, [f" {k}:" for k in range(1, n_features + 1)], path.with_name(f"{path.name}.part")
    try:
        with open(part, "w", encoding="ascii") as file:
            for is_positive, values in lines:
                if len(values) > n_features:
                    raise DataFileError(f"{path.name} would have {len(values)} features, expected {n_features}")
                pairs = (mark + text for mark, text in zip(marks, values, strict=False) if text)
                file.write(f"{'+1' if is_positive else '-1'}{''.join(pairs)}\n")
                n_rows += 1
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return n_rows


# ---- tables of numbers and texts -------------------------------------------------------------------------------------


@contextmanager
def _table(path: Path, n_columns: int, separator: str | None = ",") -> Iterator[Iterator[list[str]]]:
    """Open a table; by default of comma-separated cells, else of cells between blanks."""

    def rows() -> Iterator[list[str]]:
        texts = (raw.decode(errors="replace") for raw in file)
        lines = csv.reader(texts) if separator else (text.split() for text in texts)
        for number, cells in enumerate(lines, 1):
            if cells and len(cells) != n_columns:
                raise DataFileError(f"{path}, line {number}: expected {n_columns} cells, got {len(cells)}")
            if cells:
                yield [cell.strip() for cell in cells]

    with open_data(path) as file:
        yield rows()


def _number(text: str, path: Path) -> str:
    """Return a number as it is written, or an empty text for zero."""
    try:
        return text if float(text) else ""
    except ValueError:
        raise DataFileError(f"{path}: expected a number, got {text!r}") from None


Indicators = Mapping[str, list[str]]
"""The columns of zeros and ones that stand for a text, one of them one."""


def _indicators(texts: Iterable[str]) -> Indicators:
    ordered = sorted(texts)
    return {text: ["1" if text == other else "" for other in ordered] for text in ordered}


def _indicators_of(path: Path, n_columns: int, columns: Iterable[int]) -> dict[int, Indicators]:
    """Return those for all texts of columns of a table."""
    found: dict[int, set[str]] = {column: set() for column in columns}
    with _table(path, n_columns) as rows:
        for cells in rows:
            for column, texts in found.items():
                texts.add(cells[column])
    return {column: _indicators(texts) for column, texts in found.items()}


def _encoded(
    path: Path,
    n_columns: int,
    texts: Mapping[int, Indicators],
    positive: Callable[[str], bool],
    left_out: Collection[int] = (),
) -> Iterator[Line]:
    """Encode a table whose last cell is the class; a text that is not known becomes zeros."""
    nothing = {column: [""] * len(known) for column, known in texts.items()}
    with _table(path, n_columns) as rows:
        for cells in rows:
            values: list[str] = []
            for column, cell in enumerate(cells[:-1]):
                if column in texts:
                    values += texts[column].get(cell, nothing[column])
                elif column not in left_out:
                    values.append(_number(cell, path))
            yield positive(cells[-1]), values


def _kddcup99(train: Path, test: Path) -> list[Iterator[Line]]:
    """Encode the connections, whose attacks are positive.

    The columns that kddcup.names calls symbolic become columns of zeros and ones: texts those that
    the training rows have, flags two. The number of outbound commands, zero in all rows, is left
    out: 33 numbers, 3 + 70 + 11 texts and 2 * 4 flags are the paper's 125 features.
    """
    flags = {column: _indicators(("0", "1")) for column in (6, 11, 20, 21)}
    texts = _indicators_of(train, 42, (1, 2, 3)) | flags
    return [_encoded(path, 42, texts, lambda label: label.rstrip(".") != "normal", (19,)) for path in (train, test)]


_CENSUS_NUMBERS = frozenset((0, 2, 3, 5, 16, 17, 18, 24, 30, 36, 38, 39, 40))


def _census(path: Path) -> list[Iterator[Line]]:
    """Encode the persons, of whom those of 50,000 dollars and more are positive.

    Columns that look like numbers are numbers, codes and the instance weight included: these 13 and
    the 396 texts of the others are the paper's 409 features.
    """
    texts = _indicators_of(path, 42, set(range(41)) - _CENSUS_NUMBERS)
    return [_encoded(path, 42, texts, lambda label: not label.startswith("-"))]


def _bosch(path: Path) -> list[Iterator[Line]]:
    """Read the numeric measurements between the columns Id and Response; one that is missing is zero."""

    def lines() -> Iterator[Line]:
        with _table(path, 970) as rows:
            next(rows, None)  # the names of the columns
            for cells in rows:
                yield cells[-1] == "1", [text and _number(text, path) for text in cells[1:-1]]

    return [lines()]


# ---- numbers between blanks ------------------------------------------------------------------------------------------

_ABSENT = {column: "999" for column in (21, 22, 23, 45, 46, 47)} | {column: "9999" for column in (30, 56)}
"""What columns of phy_train.dat have in the place of a missing value, as the page of the KDD Cup says."""


def _quantum(path: Path) -> list[Iterator[Line]]:
    """Read the particles: an identifier, the class and 78 numbers; missing ones become the median of their column."""
    known: dict[int, list[float]] = defaultdict(list)
    with _table(path, 80, None) as rows:
        for cells in rows:
            for column, absent in _ABSENT.items():
                value = float(_number(cells[column], path) or 0)
                if value != float(absent):
                    known[column].append(value)
    medians = {column: repr(statistics.median(known[column])) if known[column] else "0" for column in _ABSENT}

    def lines() -> Iterator[Line]:
        with _table(path, 80, None) as rows:
            for cells in rows:
                for column, absent in _ABSENT.items():
                    if float(cells[column]) == float(absent):
                        cells[column] = medians[column]
                yield cells[1] == "1", [_number(text, path) for text in cells[2:]]

    return [lines()]


def _protein(path: Path) -> list[Iterator[Line]]:
    """Read the proteins: identifiers of block and example, the class and 74 numbers."""

    def lines() -> Iterator[Line]:
        with _table(path, 77, None) as rows:
            for cells in rows:
                yield cells[2] == "1", [_number(text, path) for text in cells[3:]]

    return [lines()]


def _sido(data: Path, targets: Path) -> list[Iterator[Line]]:
    """Read the molecules: 4,932 descriptors of zero or one, and the classes in another file."""

    def lines() -> Iterator[Line]:
        with _table(data, 4932, None) as rows, _table(targets, 1, None) as labels:
            for cells in rows:
                (label,) = next(labels, [""])
                yield not _number(label, targets).startswith("-"), [_number(text, data) for text in cells]
            if next(labels, None) is not None:
                raise DataFileError(f"{targets} has more rows than {data}")

    return [lines()]


# ---- pictures --------------------------------------------------------------------------------------------------------

_ANIMALS = frozenset((2, 3, 4, 5, 6, 7))  # bird, cat, deer, dog, frog, horse; the others are vehicles
_PICTURE = 3073  # bytes: the class, and 32 * 32 pixels in three colors


def _cifar(path: Path) -> list[Iterator[Line]]:
    """Read the binary version of CIFAR-10, of which animals are positive; pixels are those of the file, 0 to 255."""
    names = [[f"data_batch_{k}.bin" for k in range(1, 6)], ["test_batch.bin"]]
    return [_pictures(path, some) for some in names]


def _pictures(path: Path, names: Sequence[str]) -> Iterator[Line]:
    texts = ["", *map(str, range(1, 256))]
    try:
        with tarfile.open(path) as archive:
            members = {Path(member.name).name: member for member in archive if member.isfile()}
            for name in names:
                file = archive.extractfile(members[name]) if name in members else None
                if file is None:
                    raise DataFileError(f"{path}: {name} is missing; expected the binary version of CIFAR-10")
                content = np.frombuffer(file.read(), dtype=np.uint8)
                if len(content) % _PICTURE:
                    raise DataFileError(f"{path}: {name} is not of pictures of {_PICTURE} bytes each")
                for picture in content.reshape(-1, _PICTURE):
                    yield int(picture[0]) in _ANIMALS, [texts[value] for value in picture[1:].tolist()]
    except (tarfile.TarError, EOFError) as error:
        raise DataFileError(f"{path} is not a tar archive: {error}") from error


CONVERTERS: dict[str, Callable[..., list[Iterator[Line]]]] = {
    "kddcup99": _kddcup99, "census": _census, "cifar": _cifar, "sido": _sido, "quantum": _quantum,
    "protein": _protein, "bosch": _bosch,
}  # fmt: skip
"""Functions of the raw files of a data set, in the order of its entry, that return the rows of its files."""
