"""Declarations of the values in a step of a model file, which are checked when the file is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dimargin.io.data.chunks import short

Declared = Any
"""An `Array`, int, float, bool, str, dict (of texts to numbers), BaseEstimator, object, None, or a tuple of these."""

_DESCRIPTIONS: dict[Any, str] = {
    int: "an integer", float: "a number", bool: "True or False", str: "a text", None: "missing",
    dict: "a dictionary of texts to numbers", BaseEstimator: "a fitted estimator", object: "any value",
}  # fmt: skip


@dataclass(frozen=True)
class Array:
    """Declaration of an attribute that is an array.

    Parameters
    ----------
    shape : tuple of int or str
        A text is the name of a parameter or attribute of the step that is an integer, such as
        ``"n_features_in_"``, or any other name: sizes with the same name must be equal.
    kinds : str, default="f"
        Accepted values of ``dtype.kind``, such as ``"fi"`` for floats and integers. Objects ("O")
        are never accepted, because they may be anything.
    finite : bool, default=True
        Whether NaN and infinite numbers are refused.
    sparse : bool, default=False
        Whether rows in CSR format are accepted, too.

    Examples
    --------
    >>> import numpy as np
    >>> limits = Array(("n_features_in_", 2))
    >>> limits.fits(np.zeros((3, 2)), {"n_features_in_": 3}), limits.fits(np.zeros((3, 1)), {"n_features_in_": 3})
    (True, False)
    """

    shape: tuple[int | str, ...]
    kinds: str = "f"
    finite: bool = True
    sparse: bool = False

    def __post_init__(self) -> None:
        if set(self.kinds) - set("biufU"):
            raise ValueError(f"kinds must be letters of 'biufU', got {self.kinds!r}")

    def fits(self, value: Any, sizes: dict[str, int]) -> bool:
        """Return whether a value is such an array; adds the sizes of names that `sizes` lacks."""
        numbers = value.data if self.sparse and sp.issparse(value) else value
        if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in self.kinds:
            return False
        if len(value.shape) != len(self.shape):
            return False
        for name, size in zip(self.shape, value.shape, strict=True):
            if size != (name if isinstance(name, int) else sizes.setdefault(name, size)):
                return False
        return numbers.dtype.kind != "f" or not self.finite or bool(np.isfinite(numbers).all())

    def described(self, sizes: Mapping[str, int]) -> str:
        """Return a description for a message, with the known sizes."""
        names = {"b": "flags", "i": "integers", "u": "integers", "f": "numbers", "U": "texts"}
        kinds = " or ".join(dict.fromkeys(names[kind] for kind in self.kinds))
        shape = ", ".join(str(sizes.get(str(size), size)) for size in self.shape)
        return f"an array of {'finite ' * (self.finite and 'f' in self.kinds)}{kinds} of shape ({shape})"


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer of 64 bits, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def is_declaration(declared: Declared) -> bool:
    """Return whether a value is one of the declarations that `check_declared` understands."""
    if isinstance(declared, tuple):
        return bool(declared) and all(map(is_declaration, declared))
    return isinstance(declared, Array) or any(declared is kind for kind in _DESCRIPTIONS)


def check_declared(step: Any, declared: Mapping[str, Declared]) -> None:
    """Raise ValueError unless the values of a step are as declared; None may be missing."""
    own = vars(step)
    sizes = {name: value for name, value in own.items() if is_whole(value)}
    for name, kind in declared.items():
        value, known = own.get(name), dict(sizes)
        if not _fits(value, kind, sizes):
            is_array = isinstance(value, np.ndarray)
            text = f"{value.dtype} of shape {value.shape}" if is_array else short(" ".join(repr(value).split()))
            raise ValueError(f"{name} of the {type(step).__name__} must be {_described(kind, known)}, got {text}")


def _fits(value: Any, declared: Declared, sizes: dict[str, int]) -> bool:
    if isinstance(declared, tuple):
        return any(_fits(value, one, sizes) for one in declared)
    if isinstance(declared, Array):
        return declared.fits(value, sizes)
    if declared is BaseEstimator and isinstance(value, BaseEstimator):
        check_is_fitted(value)
        return True
    if declared is dict:
        return isinstance(value, dict) and all(isinstance(k, str) and _is_number(v) for k, v in value.items())
    if declared is None:
        return value is None
    number = {float: _is_number, int: is_whole}.get(declared)
    return number(value) if number else isinstance(value, declared)


def _is_number(value: Any) -> bool:
    return is_whole(value) or isinstance(value, float)


def _described(declared: Declared, sizes: Mapping[str, int]) -> str:
    if isinstance(declared, tuple):
        return " or ".join(_described(one, sizes) for one in declared)
    return declared.described(sizes) if isinstance(declared, Array) else _DESCRIPTIONS[declared]
