"""Labels: their conversion from texts, missing labels, and matches between files.

Sites import this module, which must not load pyarrow.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.io.data.chunks import short

# Each part begins with a character that the previous one cannot contain, so matching never
# backtracks.
_NUMBER_TEXT = re.compile(r"[ \t]*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[ \t]*", re.ASCII)
_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*([eE][+-]?\d{1,3})?)?", re.ASCII)
NOTHING = ("", "na", "n/a", "#n/a", "nan", "-nan", "+nan", "null", "none", "?", "-")
"""Lower-case texts that mark a missing value."""
_UNLABELLED = "remove rows without a label from the file, or leave them out by --skip-unlabelled"
MAX_EXACT = 2**53
"""Whole numbers up to this size are exact in float64."""


def is_number(text: str) -> bool:
    """Return whether all readers parse a text as a number, which may be infinite."""
    return _NUMBER_TEXT.fullmatch(text) is not None


def label_values(texts: Sequence[str]) -> NDArray[Any]:
    """Convert texts to labels: whole numbers, floating-point numbers or texts.

    Labels are numbers if all texts are numbers. They stay texts if numbers would lose their
    spelling, as for codes and keys: leading zeros (007), 1e3 without a point, or more digits than
    int64 holds. Whole numbers that are all written with a point (1.0) become floating-point
    numbers, as do all numbers if one is not whole.

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


def missing_label(column: str, value: Any, counted: str = "") -> str:
    """Return the message for a row whose label is missing.

    `value` is what the row has instead, and `counted` may say how many rows have no label.
    """
    text = "" if value is None else str(value).strip()
    said = f"is {short(text)!r}, which is not a label" if text else "is missing"
    return f"the label in column {short(column)!r} {said}{counted}; {_UNLABELLED}"


def doubtful_labels(column: str, texts: Sequence[str]) -> str:
    """Return a remark on labels that may mark missing ones, but are classes among other texts."""
    names, flags = ", ".join(map(repr, texts)), " ".join(f"--na {shlex.quote(text)}" for text in texts)
    one = len(texts) == 1
    return (
        f"the {'label' if one else 'labels'} {names} in column {short(column)!r} {'is' if one else 'are'} read as "
        f"{'a class' if one else 'classes'}; if {'it marks a missing label' if one else 'they mark missing labels'}, "
        f"remove such rows from the file, or leave them out by {flags} --skip-unlabelled"
    )


def fraction_said(column: str | None, value: object) -> str:
    """Return the message for a label that is a fraction; `column` is None without names."""
    where = "" if column is None else f" in column {short(column)!r}"
    text = f"the label{where} is {short(str(value))}; classes must be whole numbers or texts"
    return f"{text}; dimargin train --task regression predicts numbers"


def known_labels(labels: NDArray[Any], classes: NDArray[Any]) -> tuple[NDArray[Any], list[Any]]:
    """Match labels with classes, perhaps of another file format; also return unmatched labels.

    Equal numbers match, and so do equal texts. A text matches the number that it represents, and
    True or False in any case. A class that is a text with leading zeros matches only the same text.

    Examples
    --------
    >>> known_labels(np.array(["1.0", "0"]), np.array([0, 1]))
    (array([1, 0]), [])
    >>> known_labels(np.array([10, 7]), np.array(["007", "10"]))[1]
    [7]
    """
    index = _ClassIndex(classes.tolist())
    kinds, codes = np.unique(labels, return_inverse=True)
    found = [index.find(label) for label in kinds.tolist()]
    unknown = [label for label, place in zip(kinds.tolist(), found, strict=True) if place is None]
    return (labels if unknown else classes[np.array(found, dtype=np.int64)[codes]]), unknown


def keyed_by_class(weights: dict[Any, Any], classes: NDArray[Any]) -> dict[Any, Any]:
    """Return weights of labels with the matching classes as keys; raises ValueError unless these are different ones."""
    names, unknown = known_labels(np.array([*weights], dtype=object), classes)
    if unknown:
        raise ValueError(f"class_weight has {short(str(unknown))}, but the classes are {short(str(classes.tolist()))}")
    if len(set(names.tolist())) < len(weights):
        raise ValueError(f"class_weight has two weights for one class: {weights}")
    return dict(zip(names.tolist(), weights.values(), strict=True))


class _ClassIndex:
    """Indices of classes, by all labels that match them."""

    def __init__(self, classes: list[Any]) -> None:
        self._exact = {label: k for k, label in enumerate(classes)}
        self._by_value: dict[Any, int | None] = {}
        for label, k in self._exact.items():
            for value in _values_of(label, _PLAIN_NUMBER):
                # Two classes of the same value are ambiguous.
                self._by_value[value] = None if value in self._by_value else k

    def find(self, label: Any) -> int | None:
        """Return the index of the class that a label matches, or None."""
        for value in (label, *_values_of(label, _NUMBER_TEXT)):
            if value in self._exact:
                return self._exact[value]
        values = _values_of(label, _PLAIN_NUMBER)
        return next((self._by_value[value] for value in values if value in self._by_value), None)


def _values_of(label: Any, number: re.Pattern[str]) -> list[Any]:
    """Return the number or boolean that a label is or represents; empty for other texts."""
    if not isinstance(label, str):
        return [label]
    if label.lower() in ("true", "false"):
        return [label.lower() == "true"]
    try:
        return [Decimal(label)] if number.fullmatch(label) else []
    except ArithmeticError:  # The exponent has, for example, twenty digits.
        return []
