"""LIBSVM's text models: a header of keywords, then a line for every support vector.

They are read strictly. What LIBSVM's own reader lets pass (numbers that are none, counts that do not match, a file cut
short) is an error here that names the line.
"""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp

from dimargin.data_files.chunks import DataFileError, short
from dimargin.data_files.libsvm import read_libsvm
from dimargin.kernels.functions import MOST_DEGREE, Kernel
from dimargin.libsvm.model import LibsvmModel, csr_rows
from dimargin.model_files.model_format import ModelFileError, is_model_file
from dimargin.system.arrays import Floats
from dimargin.system.writing import write_file

_KERNELS: dict[str, Any] = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "precomputed": None}
_REFUSED = {
    "sigmoid": "the sigmoid kernel is not positive semi-definite, and not supported here",
    "one_class": "it is no classifier",
    "epsilon_svr": "it is a regression",
    "nu_svr": "it is a regression",
}
_KEYWORDS = {
    "svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv", "rho", "label", "probA", "probB",
    "prob_density_marks", "nr_sv",
}  # fmt: skip
_OF_NUMBERS = b"0123456789+-.eE: \t\r\n"  # neither nan and inf nor comments


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_libsvm_model(model: LibsvmModel, path: str | os.PathLike[str]) -> None:
    """Write a model as LIBSVM's text, with the fewest digits of a number that read back as the same number."""
    kernel, name = model.kernel, None if model.kernel is None else model.kernel.name
    header = ["svm_type c_svc", f"kernel_type {next(text for text, known in _KERNELS.items() if known == name)}"]
    if kernel is not None and kernel.name == "poly":
        header += [f"degree {kernel.degree}", f"gamma {_text(kernel.gamma)}", f"coef0 {_text(kernel.coef0)}"]
    if kernel is not None and kernel.name == "rbf":
        header += [f"gamma {_text(kernel.gamma)}"]
    header += [
        f"nr_class {len(model.labels)}",
        f"total_sv {model.support_vectors.shape[0]}",
        " ".join(["rho", *map(_text, model.rho.tolist())]),
        " ".join(["label", *map(str, model.labels)]),
        " ".join(["nr_sv", *map(str, model.n_support)]),
        "SV",
    ]
    write_file(path, "".join(f"{line}\n" for line in [*header, *_vector_lines(model)]).encode())


def _text(number: float) -> str:
    return repr(float(number) + 0.0).removesuffix(".0")  # minus zero, which would be read as zero, is zero


def _vector_lines(model: LibsvmModel) -> list[str]:
    X = model.support_vectors
    features = (X.indices + (0 if model.zero_based else 1)).tolist()
    values, coefficients = list(map(_text, X.data.tolist())), model.coefficients.T.tolist()
    lines = []
    for k, own in enumerate(coefficients):
        part = slice(X.indptr[k], X.indptr[k + 1])
        pairs = map("{}:{}".format, features[part], values[part])
        lines.append(" ".join([*map(_text, own), *pairs, ""]))  # LIBSVM's lines end with a space
    return lines


# ---- reading ---------------------------------------------------------------------------------------------------------


def from_libsvm(path: str | os.PathLike[str], zero_based: bool | None = None) -> LibsvmModel:
    """Read a text model that LIBSVM, `to_libsvm` or ``dimargin svm-train`` wrote.

    Parameters
    ----------
    path : path-like
    zero_based : bool, optional
        Whether features are counted from zero, so that feature 0 is the first column of X. By default they are if a
        feature 0 occurs; LIBSVM counts from one.

    Returns
    -------
    LibsvmModel
        The model, with `predict` and `decision_values`.

    Raises
    ------
    ModelFileError
        If the file is no such model, is damaged or cut short, or holds what is not supported here: regression,
        one-class, the sigmoid kernel. The message names the line.
    OSError
        If it cannot be opened.

    See Also
    --------
    to_libsvm : Write such a file; has an example.
    """
    path = Path(path)
    content = path.read_bytes()
    if is_model_file(content):
        raise ModelFileError(f"{path} is no LIBSVM text model, but a model file of dimargin's, for `dimargin predict`")
    header = _Header(path, content)
    if (kind := header.word("svm_type")) not in ("c_svc", "nu_svc"):
        header.fail("svm_type", _REFUSED.get(kind, "c_svc or nu_svc expected"))
    kernel = _kernel(header)
    n_classes, n_vectors = header.whole("nr_class", 1), header.whole("total_sv", 0)
    labels = np.array(header.integers("label", n_classes), dtype=np.int64)
    if len(set(labels.tolist())) < n_classes:
        header.fail("label", "a label occurs twice")
    n_support = header.integers("nr_sv", n_classes)
    if min(n_support) < 0 or sum(n_support) != n_vectors:
        header.fail("nr_sv", f"counts of 0 or more expected whose sum is total_sv, {n_vectors}")
    rho = np.array(header.numbers("rho", n_classes * (n_classes - 1) // 2))
    coefficients, vectors, zero_based = _vectors(header, n_classes - 1, n_vectors, zero_based)
    if kernel is None and not _are_indices(vectors, zero_based):
        header.fail("kernel_type", "every support vector's only feature has to be 0, its place in the kernel matrix")
    return LibsvmModel(
        kernel, labels, rho, np.array(n_support), coefficients, vectors, zero_based, "probA" in header.entries
    )


def _are_indices(vectors: Any, zero_based: bool) -> bool:
    """Return whether the support vectors hold feature 0 alone, a whole number above zero."""
    numbers = vectors.data
    alone = (zero_based and vectors.shape[1] == 1 and len(numbers) == vectors.shape[0]) or not vectors.shape[0]
    return bool(alone and (numbers == np.floor(numbers)).all() and ((numbers > 0) & (numbers < 2**31)).all())


def _kernel(header: _Header) -> Kernel | None:
    name = header.word("kernel_type")
    if name not in _KERNELS:
        header.fail("kernel_type", _REFUSED.get(name, f"{', '.join(_KERNELS)} expected"))
    if name in ("linear", "precomputed"):
        return Kernel("linear") if name == "linear" else None
    gamma = header.numbers("gamma", 1)[0]
    if gamma <= 0:
        header.fail("gamma", "a number above 0 expected")
    if name == "rbf":
        return Kernel("rbf", gamma)
    coef0 = header.numbers("coef0", 1)[0]
    if coef0 < 0:
        header.fail("coef0", "a number of at least 0 expected, below which the kernel is not positive semi-definite")
    return Kernel("poly", gamma, header.whole("degree", 1, MOST_DEGREE), coef0)


def _vectors(header: _Header, n_own: int, expected: int, zero_based: bool | None) -> tuple[Floats, Any, bool]:
    """Return coefficients of shape (n_own, n_vectors), support vectors, and whether features count from zero."""
    first, lines = header.length + 1, header.rest.split(b"\n")
    rows = sum(1 for line in lines if line.strip())
    if rows != expected or (lines[-1] if rows else b"") or (rows and not n_own):
        cut = "the last line is cut short, " if lines[-1] else ""
        raise ModelFileError(f"{header.path}: {cut}{rows} support vectors, expected total_sv, {expected}")
    if not rows:
        return np.zeros((n_own, 0)), sp.csr_array((0, 0)), bool(zero_based)
    ahead = []  # coefficients but the last, which stands where LIBSVM's data has the label
    for k, line in enumerate(lines):
        words = line.split(None, n_own - 1)
        numbers = list(map(_number, words[: n_own - 1]))
        if words and (len(words) < n_own or line.translate(None, _OF_NUMBERS) or not all(map(math.isfinite, numbers))):
            raise ModelFileError(
                f"{header.path}, line {first + k}: {short(line.decode(errors='replace').strip())!r} is no support "
                f"vector: {n_own} finite coefficient{'' if n_own == 1 else 's'} expected, then 'feature:value ...'"
            )
        if words:
            ahead.append(numbers)
            lines[k] = words[-1]
    try:
        text = io.BytesIO(b"\n" * header.length + b"\n".join(lines))  # so that errors name the line
        data = read_libsvm(header.path, text, None, zero_based)
    except DataFileError as error:
        raise ModelFileError(f"{error}; the label is a support vector's coefficient") from error
    coefficients = np.column_stack([np.array(ahead).reshape(rows, n_own - 1), np.asarray(data.y, dtype=np.float64)])
    return np.ascontiguousarray(coefficients.T), csr_rows(data.X), bool(data.zero_based)


def _number(word: str | bytes) -> float:
    """Return the number that is written, and NaN for any other text, even one that Python reads as a number."""
    text = word if isinstance(word, str) else word.decode(errors="replace")
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan


class _Entry(NamedTuple):
    line: int
    words: list[str]


class _Header:
    """Header of a text model: line number and words behind every keyword of the lines before the support vectors.

    `length` is the number of its lines, the one that says SV included; `rest` are the lines of the support vectors.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.entries = path, dict[str, _Entry]()
        end = self.length = 0
        while True:
            begin, end = end, content.find(b"\n", end) + 1
            words = content[begin : end or None].decode(errors="replace").split()
            self.length += 1
            if words == ["SV"] and end:
                self.rest = content[end:]
                return
            if not words or words[0] not in _KEYWORDS or words[0] in self.entries or not end:
                raise ModelFileError(
                    f"{path}, line {self.length}: {short(' '.join(words))!r} is not what a LIBSVM text model holds: "
                    "each of its keywords once, then a line 'SV'"
                )
            self.entries[words[0]] = _Entry(self.length, words[1:])

    def fail(self, keyword: str, reason: str) -> NoReturn:
        """Raise ModelFileError, naming line and words."""
        line, words = self.entries[keyword]
        raise ModelFileError(f"{self.path}, line {line}: {short(' '.join([keyword, *words]))!r}: {reason}")

    def _words(self, keyword: str, count: int) -> list[str]:
        if keyword not in self.entries:
            raise ModelFileError(f"{self.path} is no LIBSVM text model, or damaged: it has no line {keyword!r}")
        words = self.entries[keyword].words
        if len(words) != count:
            self.fail(keyword, f"{count} value{'' if count == 1 else 's'} expected, got {len(words)}")
        return words

    def word(self, keyword: str) -> str:
        """Return the only word of a line."""
        return self._words(keyword, 1)[0]

    def numbers(self, keyword: str, count: int) -> list[float]:
        """Return the numbers of a line, which must be `count` finite ones."""
        numbers = list(map(_number, self._words(keyword, count)))
        if not all(map(math.isfinite, numbers)):
            self.fail(keyword, "finite numbers expected")
        return numbers

    def integers(self, keyword: str, count: int) -> list[int]:
        """Return the numbers of a line, which must be `count` whole ones of 32 bits."""
        numbers = self.numbers(keyword, count)
        if not all(number.is_integer() and abs(number) < 2**31 for number in numbers):
            self.fail(keyword, "whole numbers of 32 bits expected")
        return list(map(int, numbers))

    def whole(self, keyword: str, least: int, most: float = math.inf) -> int:
        """Return the only whole number of a line, which must be within bounds."""
        number = self.integers(keyword, 1)[0]
        if number < least:
            self.fail(keyword, f"{least} or more expected")
        if number > most:
            self.fail(keyword, f"{most} or less expected")
        return number
