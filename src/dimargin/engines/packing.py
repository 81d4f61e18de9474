"""Serialisation of values without pickle, for files of which nothing may be executed."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

_PLAIN = {type(None), bool, int, float, str}
_DTYPES = {"float32": np.float32, "float64": np.float64}
_TREE = "value"


@dataclass(frozen=True)
class Packing:
    """Serialiser of numbers, text, lists, tuples, dicts, arrays, CSR arrays and objects of some classes.

    A packed value is an archive of arrays (`numpy.savez`) with the rest as JSON. An object is packed as the state that
    its class gives, and made again of it, as `pickle` does; but no class is looked up that is not among these, and
    nothing is called but their ``__setstate__``.

    Examples
    --------
    >>> import numpy as np
    >>> packing = Packing(())
    >>> packing.unpack(packing.pack({"sums": (np.array([1.5, 2.5]), 3)}))
    {'sums': (array([1.5, 2.5]), 3)}
    """

    classes: tuple[type, ...]

    def pack(self, value: Any) -> bytes:
        """Return a value as bytes; raises TypeError for one of another type."""
        arrays: list[NDArray[Any]] = []
        text = json.dumps(self._tree(value, arrays)).encode()
        archive = {str(number): array for number, array in enumerate(arrays)}
        buffer = io.BytesIO()
        np.savez(buffer, **{_TREE: np.frombuffer(text, dtype=np.uint8)}, **archive)  # type: ignore[arg-type]
        return buffer.getvalue()

    def unpack(self, data: bytes) -> Any:
        """Return the value of bytes that `pack` made; raises ValueError for an object of another class."""
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return self._value(json.loads(archive[_TREE].tobytes()), archive)

    @cached_property
    def _by_name(self) -> dict[str, type]:
        return {_name(cls): cls for cls in self.classes}

    def _tree(self, value: Any, arrays: list[NDArray[Any]]) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in (list, tuple):
            return {kind.__name__: [self._tree(item, arrays) for item in value]}
        if kind is dict:
            return {"dict": [[self._tree(part, arrays) for part in pair] for pair in value.items()]}
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufU":
            arrays.append(np.asarray(value))
            return {"array" if kind is np.ndarray else "scalar": len(arrays) - 1}
        if kind is sp.csr_array:
            return {"csr": self._tree((value.data, value.indices, value.indptr, value.shape), arrays)}
        if kind is type and value in _DTYPES.values():
            return {"dtype": value.__name__}
        if _name(kind) not in self._by_name:
            raise TypeError(f"a value of {kind.__module__}.{kind.__qualname__} cannot be packed")
        return {"object": [_name(kind), self._tree(value.__getstate__() or {}, arrays)]}

    def _value(self, tree: Any, archive: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        ((kind, given),) = tree.items()
        if kind in ("list", "tuple"):
            return {"list": list, "tuple": tuple}[kind](self._value(item, archive) for item in given)
        if kind == "dict":
            return {self._value(key, archive): self._value(value, archive) for key, value in given}
        if kind in ("array", "scalar"):
            array = archive[str(given)]
            return array if kind == "array" else array[()]
        if kind == "csr":
            *parts, shape = self._value(given, archive)
            return sp.csr_array(tuple(parts), shape=shape)
        if kind == "dtype":
            return _DTYPES[given]
        name, state = given
        if name not in self._by_name:
            raise ValueError(f"an object of {name!r} has no place here")
        made: Any = object.__new__(self._by_name[name])
        values = self._value(state, archive)
        if hasattr(made, "__setstate__"):
            made.__setstate__(values)
        else:
            made.__dict__.update(values)
        return made


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
