"""LIBSVM's text models: a header of keywords, then a line for every support vector.

They are read strictly: what LIBSVM's own reader accepts, such as invalid numbers, wrong counts or a
truncated file, is an error here that names the line.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.io.data.chunks import CHUNK, Chunks, DataFileError, short
from dimargin.io.data.libsvm import LibsvmRows
from dimargin.io.data.lines import blocks_of_lines
from dimargin.io.data.opening import explained
from dimargin.io.libsvm.libsvm_model import (
    CLASSIFIERS,
    N_DENSITY_MARKS,
    NO_LABELS,
    REGRESSORS,
    SVM_TYPES,
    LibsvmModel,
    csr_rows,
)
from dimargin.io.models.model_format import ModelFileError, is_model_file
from dimargin.kernels.functions import MAX_DEGREE, Kernel
from dimargin.system.arrays import Floats
from dimargin.system.writing import write_file

_KERNEL_NAMES: dict[str, Any] = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "precomputed": None}
_SIGMOID = "the sigmoid kernel is not positive semi-definite, and not supported here"
_KEYWORDS = {
    "svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv", "rho", "label", "probA", "probB",
    "prob_density_marks", "nr_sv",
}  # fmt: skip
_MAX_HEADER_BYTES = 2**24  # The words of the header need up to fifty times as much memory.


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_libsvm_model(model: LibsvmModel, path: str | os.PathLike[str]) -> None:
    """Write a model as LIBSVM's text, with the fewest digits that preserve each number."""
    kernel, name = model.kernel, None if model.kernel is None else model.kernel.name
    kernel_name = next(text for text, known in _KERNEL_NAMES.items() if known == name)
    header = [f"svm_type {model.svm_type}", f"kernel_type {kernel_name}"]
    if kernel is not None and kernel.name == "poly":
        header += [
            f"degree {kernel.degree}",
            f"gamma {number_text(kernel.gamma)}",
            f"coef0 {number_text(kernel.coef0)}",
        ]
    if kernel is not None and kernel.name == "rbf":
        header += [f"gamma {number_text(kernel.gamma)}"]
    header += [f"nr_class {len(model.n_support)}", f"total_sv {model.support_vectors.shape[0]}"]
    numbers = {
        "rho": model.rho, "label": model.labels if model.is_classifier else None, "probA": model.probA,
        "probB": model.probB, "prob_density_marks": model.density_marks,
        "nr_sv": model.n_support if model.is_classifier else None,
    }  # fmt: skip
    for keyword, values in numbers.items():
        if values is not None:
            header.append(" ".join([keyword, *map(number_text, values.tolist())]))
    write_file(path, "".join(f"{line}\n" for line in [*header, "SV", *_vector_lines(model)]).encode(), private=True)


def number_text(number: float) -> str:
    """Return the text with the fewest digits that preserves a number."""
    return repr(float(number) + 0.0).removesuffix(".0")  # The sum turns minus zero into zero.


def _vector_lines(model: LibsvmModel) -> list[str]:
    X = model.support_vectors
    features = (X.indices + (0 if model.zero_based else 1)).tolist()
    values, coefficients = list(map(number_text, X.data.tolist())), model.coefficients.T.tolist()
    lines = []
    for k, own in enumerate(coefficients):
        part = slice(X.indptr[k], X.indptr[k + 1])
        pairs = map("{}:{}".format, features[part], values[part])
        lines.append(" ".join([*map(number_text, own), *pairs, ""]))  # LIBSVM's lines end with a space.
    return lines


# ---- reading ---------------------------------------------------------------------------------------------------------


def from_libsvm(path: str | os.PathLike[str], zero_based: bool | None = None) -> LibsvmModel:
    """Read a text model that LIBSVM, `to_libsvm` or ``dimargin svm-train`` wrote.

    Parameters
    ----------
    path : path-like
    zero_based : bool, optional
        Whether features are counted from zero, so that feature 0 is the first column of X. By
        default they are counted from zero if a feature 0 occurs; LIBSVM counts from one.

    Returns
    -------
    LibsvmModel
        The model, of any type, with the methods `predict`, `decision_values` and, where the file has their
        parameters, `predict_proba`.

    Raises
    ------
    ModelFileError
        If the file is not such a model, is damaged or truncated, or has the sigmoid kernel, which is not supported. The
        message names the line.
    OSError
        If the file cannot be opened.

    See Also
    --------
    to_libsvm : Write such a file; with an example.
    """
    path = Path(path)
    try:
        with open(path, "rb") as stream, explained(path):
            return _read(path, stream, zero_based)
    except DataFileError as error:
        raise ModelFileError(str(error)) from error


def _read(path: Path, stream: io.BufferedReader, zero_based: bool | None) -> LibsvmModel:
    header = Header(path, stream, "LIBSVM", _KEYWORDS, "SV")
    if (kind := header.word("svm_type")) not in SVM_TYPES:
        header.fail("svm_type", f"expected one of {', '.join(SVM_TYPES)}")
    kernel, labels = _kernel(header), NO_LABELS
    n_classes, n_vectors = header.integer("nr_class", 1), header.integer("total_sv", 0)
    if kind in CLASSIFIERS:
        labels = header.labels(n_classes)
        n_support = header.integers("nr_sv", n_classes)
        if min(n_support) < 0 or sum(n_support) != n_vectors:
            header.fail("nr_sv", f"expected counts of 0 or more with the sum total_sv, {n_vectors}")
    else:
        n_support = [n_vectors, 0]
        if n_classes != 2:
            header.fail("nr_class", f"expected 2, which LIBSVM writes for {kind}")
    n_pairs = n_classes * (n_classes - 1) // 2
    rho, probabilities = np.array(header.numbers("rho", n_pairs)), _probabilities(header, kind, n_pairs)
    coefficients, vectors, zero_based = _vectors(header, stream, n_classes - 1, n_vectors, zero_based)
    if kernel is None and not _are_indices(vectors, zero_based):
        header.fail("kernel_type", "every support vector must have only feature 0, its index in the kernel matrix")
    return LibsvmModel(
        kernel, labels, rho, np.array(n_support), coefficients, vectors, zero_based, kind, **probabilities
    )


def _probabilities(header: Header, kind: str, n_pairs: int) -> dict[str, Any]:
    """Return the parameters of probabilities; raises ModelFileError for lines that a type of model cannot have."""
    known = {"one_class": {"prob_density_marks"}} | {one: {"probA"} for one in REGRESSORS}
    own = known.get(kind, {"probA", "probB", "label", "nr_sv"})
    for keyword in sorted(header.entries.keys() & {"probA", "probB", "prob_density_marks", "label", "nr_sv"} - own):
        header.fail(keyword, f"a model of type {kind} does not have it")
    if "prob_density_marks" in header.entries:
        marks = np.array(header.numbers("prob_density_marks", N_DENSITY_MARKS))
        if (np.diff(marks) < 0).any():
            header.fail("prob_density_marks", "expected numbers in ascending order")
        return {"density_marks": marks}
    names = own & {"probA", "probB"}
    return {name: np.array(header.numbers(name, n_pairs)) for name in names} if names & header.entries.keys() else {}


def _are_indices(vectors: Any, zero_based: bool) -> bool:
    """Return whether the support vectors have only feature 0, which is a positive integer."""
    numbers = vectors.data
    alone = (zero_based and vectors.shape[1] == 1 and len(numbers) == vectors.shape[0]) or not vectors.shape[0]
    return bool(alone and (numbers == np.floor(numbers)).all() and ((numbers > 0) & (numbers < 2**31)).all())


def _kernel(header: Header) -> Kernel | None:
    name = header.word("kernel_type")
    if name not in _KERNEL_NAMES:
        header.fail("kernel_type", _SIGMOID if name == "sigmoid" else f"expected one of {', '.join(_KERNEL_NAMES)}")
    if name in ("linear", "precomputed"):
        return Kernel("linear") if name == "linear" else None
    gamma = header.numbers("gamma", 1)[0]
    if gamma <= 0:
        header.fail("gamma", "expected a number above 0")
    if name == "rbf":
        return Kernel("rbf", gamma)
    coef0 = header.numbers("coef0", 1)[0]
    if coef0 < 0:
        header.fail("coef0", "expected a number of 0 or more; for others the kernel is not positive semi-definite")
    return Kernel("poly", gamma, header.integer("degree", 1, MAX_DEGREE), coef0)


def _vectors(
    header: Header, stream: BinaryIO, n_own: int, expected: int, zero_based: bool | None
) -> tuple[Floats, Any, bool]:
    """Return coefficients of shape (n_own, n_vectors), support vectors, and `zero_based`."""
    lines = _VectorLines(header, n_own)
    rows = LibsvmRows(header.path, header.length + 1)
    blocks = blocks_of_lines(stream, header.path, CHUNK, first_line=header.length + 1)
    try:
        collected = Chunks.from_any(header.path, rows.chunks(map(lines.as_rows, blocks)))
        data = None if collected is None else rows.joined(collected, None, zero_based)
    except DataFileError as error:
        raise ModelFileError(f"{error}; the label is a support vector's coefficient") from error
    if lines.n_vectors != expected or lines.is_cut or (data is not None and not n_own):
        cut = "the last line is truncated, " if lines.is_cut else ""
        raise ModelFileError(f"{header.path}: {cut}{lines.n_vectors} support vectors, expected total_sv, {expected}")
    if data is None:
        return np.zeros((n_own, 0)), sp.csr_array((0, 0)), bool(zero_based)
    coefficients, at = np.empty((n_own, expected)), 0
    coefficients[-1] = data.y  # The last coefficient was read as the label.
    for part in lines.coefficients:
        coefficients[:-1, at : at + len(part)] = part.T
        at += len(part)
    return coefficients, csr_rows(data.X), bool(data.zero_based)


class _VectorLines:
    """Lines of support vectors, which are LIBSVM text after all but the last coefficient.

    `coefficients` has the removed ones, as an array of shape (n, n_own - 1) for each block of
    lines; the last one becomes the label. `is_cut` says whether the last line has no line break.
    """

    def __init__(self, header: Header, n_own: int) -> None:
        self.n_vectors, self.is_cut, self.coefficients = 0, False, list[Floats]()
        self._path, self._line, self._n_own = header.path, header.length + 1, n_own

    def as_rows(self, block: bytes) -> bytes:
        """Convert a block of lines to LIBSVM text."""
        lines, n_ahead, ahead = block.split(b"\n"), max(0, self._n_own - 1), []
        self.is_cut = bool(lines[-1])
        for k, line in enumerate(lines):
            words = line.split(None, n_ahead)
            numbers = list(map(number_of, words[:n_ahead]))
            # The accepted characters exclude nan, inf and comments.
            has_others = line.translate(None, b"0123456789+-.eE: \t\r\n")
            if words and (len(words) <= n_ahead or has_others or not all(map(math.isfinite, numbers))):
                raise ModelFileError(
                    f"{self._path}, line {self._line + k}: {short(line.decode(errors='replace').strip())!r} is not a "
                    f"support vector: expected {self._n_own} finite coefficient{'' if n_ahead == 0 else 's'}, then "
                    "'feature:value ...'"
                )
            if words:
                ahead.append(numbers)
                lines[k] = words[-1]
        self._line += len(lines) - 1
        self.n_vectors += len(ahead)
        self.coefficients.append(np.array(ahead, dtype=np.float64).reshape(len(ahead), n_ahead))
        return b"\n".join(lines)


def number_of(word: str | bytes) -> float:
    """Parse a number; return NaN for other texts, including non-ASCII digits and underscores."""
    text = word if isinstance(word, str) else word.decode(errors="replace")
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan


class _Entry(NamedTuple):
    line: int
    words: list[str]


class Header:
    """Header of a text model: the line number and the words after every keyword.

    Only the known keywords may occur, each once, and the line `end` ends the header. `length` is the
    number of its lines, including the last one, after which the stream is left. `program` names the
    format in messages.
    """

    def __init__(
        self, path: Path, stream: io.BufferedReader, program: str, keywords: Collection[str], end: str
    ) -> None:
        self.path, self.program, self.entries, self.length = path, program, dict[str, _Entry](), 0
        if is_model_file(stream.peek()):
            raise ModelFileError(
                f"{path} is not a {program} text model, but a dimargin model file, for `dimargin predict`"
            )
        room = _MAX_HEADER_BYTES
        while True:
            line = stream.readline(room + 1)
            words, is_whole = line.decode(errors="replace").split(), line.endswith(b"\n")
            self.length += 1
            room -= len(line)
            if room < 0:
                raise ModelFileError(
                    f"{path}, line {self.length}: more than {_MAX_HEADER_BYTES} bytes before a line {end!r}"
                )
            if words == [end] and is_whole:
                return
            if not words or words[0] not in keywords or words[0] in self.entries or not is_whole:
                raise ModelFileError(
                    f"{path}, line {self.length}: {short(' '.join(words))!r} does not belong to a {program} text "
                    f"model; expected each of its keywords once, then a line {end!r}"
                )
            self.entries[words[0]] = _Entry(self.length, words[1:])

    def fail(self, keyword: str, reason: str) -> NoReturn:
        """Raise ModelFileError with the line of a keyword and its words."""
        line, words = self.entries[keyword]
        raise ModelFileError(f"{self.path}, line {line}: {short(' '.join([keyword, *words]))!r}: {reason}")

    def _words(self, keyword: str, count: int) -> list[str]:
        if keyword not in self.entries:
            raise ModelFileError(
                f"{self.path} is not a {self.program} text model, or damaged: it has no line {keyword!r}"
            )
        words = self.entries[keyword].words
        if len(words) != count:
            self.fail(keyword, f"expected {count} value{'' if count == 1 else 's'}, got {len(words)}")
        return words

    def word(self, keyword: str) -> str:
        """Return the only word after a keyword."""
        return self._words(keyword, 1)[0]

    def numbers(self, keyword: str, count: int) -> list[float]:
        """Return the numbers after a keyword, which must be `count` finite ones."""
        numbers = list(map(number_of, self._words(keyword, count)))
        if not all(map(math.isfinite, numbers)):
            self.fail(keyword, "expected finite numbers")
        return numbers

    def integers(self, keyword: str, count: int) -> list[int]:
        """Return the numbers after a keyword, which must be `count` integers of 32 bits."""
        numbers = self.numbers(keyword, count)
        if not all(number.is_integer() and abs(number) < 2**31 for number in numbers):
            self.fail(keyword, "expected integers of 32 bits")
        return list(map(int, numbers))

    def integer(self, keyword: str, low: int, high: float = math.inf) -> int:
        """Return the only number after a keyword, which must be an integer from `low` to `high`."""
        number = self.integers(keyword, 1)[0]
        if number < low:
            self.fail(keyword, f"expected {low} or more")
        if number > high:
            self.fail(keyword, f"expected {high} or less")
        return number

    def labels(self, count: int) -> NDArray[np.int64]:
        """Return the labels, which must be `count` different integers of 32 bits."""
        labels = self.integers("label", count)
        if len(set(labels)) < count:
            self.fail("label", "a label occurs twice")
        return np.array(labels, dtype=np.int64)
