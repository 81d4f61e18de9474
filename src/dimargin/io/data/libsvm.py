"""LIBSVM text, whose lines are ``label feature:value feature:value ...`` with zeros omitted.

Sites import this module, whose functions import scikit-learn's parser only where they need it.
"""

from __future__ import annotations

import io
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.io.data.chunks import CHUNK, WEIGHT_EXPECTED, Chunk, Chunks, DataFileError, DataSet, short
from dimargin.io.data.labels import MAX_EXACT, fraction_said, is_number
from dimargin.io.data.lines import blocks_of_lines
from dimargin.io.data.opening import BOM, DataFile, explained, open_data
from dimargin.system.arrays import Floats

_MAX_LIGHT_FEATURE = np.iinfo(np.int32).max - 1  # The width of rows from `parse_light` is an int32, too.
Parsed = tuple[Any, NDArray[Any]]
"""Rows, with features counted from zero, and labels."""
Parser = Callable[[bytes], Parsed]

_NO_LABEL = re.compile(rb"^[^\S\n]*(?!qid:)[^\s#:]+:", re.MULTILINE)

DENSE = 0.5
"""Share of nonzeros from which rows are stored dense, which needs less memory and is faster."""


def read_libsvm(
    file: DataFile, needs_label: bool, n_features: int | None, zero_based: bool | None, weighted: bool
) -> DataSet:
    """Read a file of LIBSVM text; parameters as in `read_data`."""
    rows = LibsvmRows(file.path, needs_label=needs_label, weighted=weighted)
    with file.opened() as stream:
        collected = Chunks(file.path, rows.chunks(blocks_of_lines(stream, file.path, CHUNK)), file.options.on_disk)
    return rows.joined(collected, n_features, zero_based)


def parse_fast(block: bytes) -> Parsed:
    """Parse rows and labels by scikit-learn, with substitutes for features beyond 32 bits."""
    from sklearn.datasets import load_svmlight_file

    try:
        parsed: Parsed = load_svmlight_file(io.BytesIO(block), zero_based=True)
    except OverflowError:
        number, block = rb"(?<![^\s])\d+(?=:)", re.sub(rb"#[^\n]*", b"", block)
        features = sorted({0, *map(int, re.findall(number, block))})
        limit = 2**62  # No hash in use is larger.
        if features[-1] > limit:
            raise ValueError(f"feature {features[-1]} is above {limit}") from None
        places = {feature: place for place, feature in enumerate(features)}
        numbered = re.sub(number, lambda found: b"%d" % places[int(found[0])], block)
        X, y = load_svmlight_file(io.BytesIO(numbered), zero_based=True)
        indices = np.array(features, dtype=np.int64)[X.indices]
        shape = X.shape[0], int(indices.max(initial=0)) + 1
        return sp.csr_array((X.data, indices, X.indptr.astype(np.int64)), shape=shape), y
    return parsed


def parse_light(block: bytes) -> Parsed:
    """Parse rows and labels without scikit-learn, for sites; this is slower than `parse_fast`."""
    labels, features, values, ends = array("d"), array("i"), array("d"), array("q", [0])
    for line in block.split(b"\n"):
        fields = line.partition(b"#")[0].split()
        if not fields:
            continue
        labels.append(float(fields[0]))
        queries = len(fields) > 1 and fields[1].startswith(b"qid") and b":" in fields[1]
        for field in fields[1 + queries :]:
            feature, value = field.split(b":", 1)
            features.append(int(feature))
            values.append(float(value))
        ends.append(len(values))
    columns, offsets = np.array(features, dtype=np.int32), np.array(ends, dtype=np.int32)
    in_same_row = np.ones(len(columns) + 1, dtype=bool)  # Whether a value and the previous one are in the same row.
    in_same_row[offsets[:-1]] = False
    if (columns < 0).any():
        raise ValueError(f"Invalid index {columns.min()} in SVMlight/LibSVM data file.")
    if (in_same_row[1:-1] & (columns[1:] <= columns[:-1])).any():
        raise ValueError("Feature indices in SVMlight/LibSVM data file should be sorted and unique.")
    shape = (len(labels), int(columns.max(initial=0)) + 1)
    return sp.csr_array((np.array(values), columns, offsets), shape=shape), np.array(labels)


class LibsvmRows:
    """Rows of LIBSVM text, chunk by chunk, and the range of the feature numbers in them.

    `next_line` is the number of the next line, and `fraction` is as in `DataSet`. The feature
    numbers so far are between `least` and `largest`; there were none if `least` is above `largest`.
    """

    def __init__(
        self,
        path: Path,
        first_line: int = 1,
        parse: Parser = parse_fast,
        needs_label: bool = True,
        weighted: bool = False,
    ) -> None:
        self.next_line = first_line
        self.least, self.largest = int(np.iinfo(np.int64).max), 0
        self.fraction: str | None = None
        self._path, self._parse, self._needs_label, self._weighted = path, parse, needs_label, weighted

    def chunks(self, blocks: Iterable[bytes]) -> Iterator[Chunk]:
        """Yield the rows of blocks of whole lines."""
        for block in blocks:
            block = block.removeprefix(BOM) if self.next_line == 1 else block
            text, weights = without_weights(block, self._name) if self._weighted else (block, None)
            X, y = parse_lines(text, self._name, self._parse, self._needs_label)
            if X.nnz:
                self.least = min(self.least, int(X.indices.min()))
                self.largest = max(self.largest, int(X.indices.max()))
            X = X.toarray() if X.nnz >= DENSE * X.shape[0] * X.shape[1] else X
            if self.fraction is None and y.dtype.kind == "f" and (odd := y != np.floor(y)).any():
                row = int(odd.argmax())
                self.fraction = f"{self._name(_line(text, row))}: {fraction_said(None, y[row])}"
            yield Chunk(X, y if self._needs_label else None, weights)
            self.next_line += block.count(b"\n")

    def _name(self, line: int) -> str:
        return f"{self._path}, line {self.next_line + line}"

    def joined(self, collected: Chunks, n_features: int | None, zero_based: bool | None, min_width: int = 0) -> DataSet:
        """Join all chunks to at least `min_width` columns; other parameters as in `read_data`."""
        if zero_based is False and self.least == 0:
            raise DataFileError(f"{self._path} has a feature 0; expected features counted from 1")
        from_zero = self.least == 0 if zero_based is None else zero_based
        base = 0 if from_zero else 1
        width = max(self.largest + 1 - base, min_width)
        if n_features is not None:
            if width > n_features:
                raise DataFileError(
                    f"{self._path} has a feature {self.largest}, expected {n_features} features counted from {base}"
                )
            width = n_features
        make = collected.dense if collected.density(width) >= DENSE else collected.sparse
        X, y, weights = make(base, width), collected.y, collected.weights
        return DataSet(X, y, zero_based=from_zero, weights=weights, fraction=self.fraction)


def check_weight(path: Path | str, weight: str | int | None) -> None:
    """Raise DataFileError for a column of weights other than "label" (weights after labels)."""
    if weight not in (None, "label"):
        raise DataFileError(
            f"{path}: --weight {weight}: columns of LIBSVM text have no names; --weight label reads weights after "
            "labels, such as 1:0.5"
        )


def without_weights(block: bytes, name: Callable[[int], str]) -> tuple[bytes, Floats]:
    """Split the weights from lines with ``label:weight``; `name` is as in `parse_lines`."""
    lines, weights = block.split(b"\n"), array("d")
    for k, line in enumerate(lines):
        head = line.partition(b"#")[0].split(None, 1)[:1]
        if head:
            label, _, text = head[0].partition(b":")
            weights.append(float(text) if is_number(text.decode(errors="replace")) else np.nan)
            if not 0 <= weights[-1] < np.inf:
                raise DataFileError(
                    f"{name(k)}: {short(head[0].decode(errors='replace'))!r} is not a label with its weight, such as "
                    f"1:0.5; {WEIGHT_EXPECTED}"
                )
            lines[k] = line.replace(head[0], label, 1)
    return b"\n".join(lines), np.array(weights)


def read_weights(path: Path, n_rows: int) -> Floats:
    """Read weights from a separate file, as LIBSVM's extension for weights does; there is one per line.

    Empty lines are skipped. Raises DataFileError unless there are `n_rows`.
    """
    weights, n_lines = list[float](), 0
    with open_data(path) as stream, explained(path):
        for block in blocks_of_lines(stream, path, CHUNK):
            texts = block.decode(errors="replace").split("\n")
            for line, text in enumerate(map(str.strip, texts), n_lines + 1):
                weight = float(text) if is_number(text) else np.nan
                if text and not 0 <= weight < np.inf:
                    raise DataFileError(f"{path}, line {line}: {short(text)!r} is not a weight; {WEIGHT_EXPECTED}")
                weights += [weight] if text else []
            n_lines += len(texts) - 1
    if len(weights) != n_rows:
        raise DataFileError(f"{path} has {len(weights)} weights, one per line; expected {n_rows}, one per row")
    return np.array(weights)


def parse_lines(
    block: bytes, name: Callable[[int], str], parse: Parser = parse_fast, needs_label: bool = True
) -> Parsed:
    """Parse lines into a CSR matrix of shape (n, largest feature + 1) and labels of shape (n,).

    Features are counted from zero. `name` returns the name of a line for error messages, from its
    index in the block, and `parse` is `parse_fast` or `parse_light`. Labels are integers if all of
    the block are; without `needs_label` they are optional and ignored, and all returned labels are
    equal.
    """
    index = block.find(b"\0")
    if index >= 0:  # One parser ends a line at a NUL byte, and the other does not.
        line = block.count(b"\n", 0, index)
        raise DataFileError(f"{name(line)}: a NUL byte; expected text")
    if b"_" in block:  # Python accepts underscores within numbers, as in 1_000, and scikit-learn anywhere.
        for k, one in enumerate(block.split(b"\n")):
            if b"_" in one.partition(b"#")[0]:
                raise DataFileError(f"{name(k)}: an underscore; expected numbers without underscores")
    text = block if needs_label else _with_labels(block, name)
    try:
        X, y = parse(text)
    except (ValueError, OverflowError) as error:
        bad = _first_bad_line(text.split(b"\n"), parse)
        given = block.split(b"\n")[bad]
        what = "has no label" if needs_label and _NO_LABEL.match(given) else "is not LIBSVM text"
        if _NO_LABEL.match(given):
            what += ", unless a weight follows its label (--weight label, in Python weighted=True)"
        raise DataFileError(
            f"{name(bad)}: {short(given.decode(errors='replace').strip())!r} {what}; LIBSVM text reads "
            f"'label feature:value feature:value ...' with features in order ({short(str(error), 200)})"
        ) from error
    finite = np.isfinite(X.data)
    if not (np.isfinite(y).all() and finite.all()):
        row = min([*np.flatnonzero(~np.isfinite(y))[:1], *_rows(X, ~finite)[:1]])
        raise DataFileError(f"{name(_line(block, row))}: a value is NaN or infinite; a finite number expected")
    if parse is parse_light and X.shape[1] > _MAX_LIGHT_FEATURE + 1:
        line = _line(block, _rows(X, X.indices > _MAX_LIGHT_FEATURE)[0])
        raise DataFileError(f"{name(line)}: feature {X.shape[1] - 1} is above {_MAX_LIGHT_FEATURE}")
    return X, _whole(block, y, name) if needs_label else y


def _with_labels(block: bytes, name: Callable[[int], str]) -> bytes:
    """Return lines with a label each, which replaces their own if they have one."""
    gap = re.search(rb"(?:\A|\n)[^\S\n]*(?=\n)", block.rstrip()) if _NO_LABEL.search(block) else None
    if gap:
        line = name(block.count(b"\n", 0, gap.end()))
        raise DataFileError(f"{line}: an empty line among rows without labels; write '0' for a row of zeros")
    # A line begins with a label that is a number, a text for a missing label, or nothing.
    number, missing = rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", rb"\?|-|n/?a|[+-]?nan|null|none"
    label = rb"^[^\S\n]*(?:(?:" + number + rb"|" + missing + rb")(?=[\s#]|\Z)|(?=[^\s#:]+:))"
    return re.sub(label, b"0 ", block, flags=re.MULTILINE | re.IGNORECASE)


def _whole(block: bytes, y: Floats, name: Callable[[int], str]) -> NDArray[Any]:
    """Return labels as exact int64, or unchanged if one is not whole."""
    if (y != np.floor(y)).any():
        return y
    if np.abs(y).max(initial=0) < MAX_EXACT:
        return y.astype(np.int64)
    fields = [line.partition(b"#")[0].split(None, 1) for line in block.split(b"\n")]
    labels = [(k, words[0]) for k, words in enumerate(fields) if words]
    whole = [int(word) if word.lstrip(b"+-").isdigit() else int(float(word)) for _, word in labels]
    beyond = [word for word, number in zip(labels, whole, strict=True) if not -(2**63) <= number < 2**63]
    for k, word in beyond:
        if word.lstrip(b"+-").isdigit():
            raise DataFileError(
                f"{name(k)}: the label {short(word.decode())} has more digits than an integer of 64 bits; CSV and "
                "Parquet keep such labels as texts"
            )
    return y if beyond else np.array(whole, dtype=np.int64)


def _rows(X: Any, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
    return np.searchsorted(X.indptr, np.flatnonzero(chosen), side="right") - 1


def _line(block: bytes, row: int) -> int:
    """Return the index of the line that holds a row."""
    rows = (k for k, line in enumerate(block.split(b"\n")) if line.partition(b"#")[0].strip())
    return next(islice(rows, int(row), None))


def _first_bad_line(lines: list[bytes], parse: Parser) -> int:
    """Return the index of the first line that does not parse, by bisection."""
    low, high = 0, len(lines)  # The lines before `low` parse, and those before `high` do not.
    while high - low > 1:
        middle = (low + high) // 2
        try:
            parse(b"\n".join(lines[low:middle]) + b"\n")
            low = middle
        except (ValueError, OverflowError):
            high = middle
    return low
