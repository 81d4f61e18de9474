"""Labels: which texts are numbers, which are no labels, and which labels of two files are the same.

Sites import this module: pyarrow is imported nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.io.data.chunks import short

# each part begins with a letter that the one before cannot have, so that no text is read twice
_NUMBER_TEXT = re.compile(r"[ \t]*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[ \t]*", re.ASCII)
_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*([eE][+-]?\d{1,3})?)?", re.ASCII)
NOTHING = ("", "na", "n/a", "#n/a", "nan", "-nan", "+nan", "null", "none", "?", "-")
"""Texts that say that a value is missing, in small letters."""
MAX_EXACT = 2**53
"""Whole numbers up to this size are exact in float64."""


def is_number(text: str) -> bool:
    """Return whether all readers take a text for a number, which may be infinite."""
    return _NUMBER_TEXT.fullmatch(text) is not None


def label_values(texts: Sequence[str]) -> NDArray[Any]:
    """Convert texts to labels, one for each text: whole numbers, floating-point numbers or texts.

    Labels are numbers if all texts are numbers. They stay texts where a number would lose how they are written: with
    zeros in front (007), as 1e3 without a point, or with more digits than int64 holds, as codes and keys may be. Whole
    numbers that all have a point (1.0) become floating-point numbers, and so do all numbers where one is not whole.

    Examples
    --------
    >>> label_values(["2", "+1", "1.0"]).tolist(), label_values(["0.0", "1.0"]).tolist()
    ([2, 1, 1], [0.0, 1.0])
    >>> label_values(["007", "7"]).tolist()
    ['007', '7']
    """
    as_they_are: NDArray[Any] = np.array(texts, dtype=object)
    if not (len(texts) and all(map(is_number, texts))):
        return as_they_are
    numbers = np.array(list(map(float, texts)))
    if not np.isfinite(numbers).all():
        return as_they_are
    if (numbers != np.floor(numbers)).any():
        return numbers
    if not all(map(_PLAIN_NUMBER.fullmatch, texts)):
        return as_they_are
    whole = [int(Decimal(text)) for text in texts]
    if not (min(whole) >= -(2**63) and max(whole) < 2**63):
        return as_they_are
    if all("." in text for text in texts) and max(map(abs, whole)) <= MAX_EXACT:
        return numbers
    return np.array(whole, dtype=np.int64)


def missing_label(column: str, value: Any) -> str:
    """Return the fault of a row whose label is missing, and what helps; `value` is what stands there instead."""
    text = "" if value is None else str(value).strip()
    said = f"is {short(text)!r}, which is no label" if text else "is missing"
    return f"the label in column {short(column)!r} {said}; leave rows without a label out of the file"


def doubtful_label(column: str, text: str) -> str:
    """Return a remark on a label that may say that it is missing, though other labels are texts, too."""
    return (
        f"the label {text!r} in column {short(column)!r} is a class like all other texts; if it says that the label is "
        "missing, leave such rows out of the file"
    )


def fraction_said(column: str | None, value: object) -> str:
    """Return the fault of a label that is a number but not whole, of a column of this name if columns have names."""
    where = "" if column is None else f" in column {short(column)!r}"
    return f"the label{where} is {short(str(value))}; classes are whole numbers or texts, and regression is not offered"


def known_labels(labels: NDArray[Any], classes: NDArray[Any]) -> tuple[NDArray[Any], list[Any]]:
    """Match labels with classes, which may come from another kind of file; also return the labels without a class.

    Equal numbers match, and so do equal texts. A text matches the number that it writes, and True or False in any
    case. A class that is a text with zeros in front matches the same text only.

    Examples
    --------
    >>> known_labels(np.array(["1.0", "0"]), np.array([0, 1]))
    (array([1, 0]), [])
    >>> known_labels(np.array([10, 7]), np.array(["007", "10"]))[1]
    [7]
    """
    places = _Places(classes.tolist())
    kinds, codes = np.unique(labels, return_inverse=True)
    found = [places.of(label) for label in kinds.tolist()]
    unknown = [label for label, place in zip(kinds.tolist(), found, strict=True) if place is None]
    return (labels if unknown else classes[np.array(found, dtype=np.int64)[codes]]), unknown


class _Places:
    """Indices of classes, by all labels that match them."""

    def __init__(self, classes: list[Any]) -> None:
        self._exact = {label: k for k, label in enumerate(classes)}
        self._meant: dict[Any, int | None] = {}
        for label, k in self._exact.items():
            for value in _meant(label, _PLAIN_NUMBER):
                self._meant[value] = None if value in self._meant else k  # None where two classes mean the same

    def of(self, label: Any) -> int | None:
        """Return the index of the class that a label matches, or None."""
        for value in (label, *_meant(label, _NUMBER_TEXT)):
            if value in self._exact:
                return self._exact[value]
        return next((self._meant[value] for value in _meant(label, _PLAIN_NUMBER) if value in self._meant), None)


def _meant(label: Any, number: re.Pattern[str]) -> list[Any]:
    """Return the number or the truth value that a label is or, if it is text of such a form, writes."""
    if not isinstance(label, str):
        return [label]
    if label.lower() in ("true", "false"):
        return [label.lower() == "true"]
    try:
        return [Decimal(label)] if number.fullmatch(label) else []
    except ArithmeticError:  # an exponent of twenty digits
        return []
