"""Serialisation of values without pickle, for files whose content must not be executed."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.system.moved import moved_to
from dimargin.system.value_tree import Arrays, decode, encode


@dataclass(frozen=True)
class Packing:
    """Serialiser of numbers, text, lists, tuples, dicts, arrays, CSR arrays and objects of given classes.

    A packed value is an archive of arrays (`numpy.savez`) with the rest as JSON. An object is
    packed as its state, and restored from it, as by `pickle`; but only the given classes can be
    restored, and only their ``__setstate__`` is called.

    Examples
    --------
    >>> import numpy as np
    >>> packing = Packing(())
    >>> packing.unpack(packing.pack({"sums": (np.array([1.5, 2.5]), 3)}))
    {'sums': (array([1.5, 2.5]), 3)}
    """

    classes: tuple[type, ...]

    def pack(self, value: Any) -> bytes:
        """Return a value as bytes; raises TypeError for a value of another type."""
        arrays: Arrays = {}
        text = json.dumps(encode(value, "array", arrays, self._encode_other, exact=True)).encode()
        buffer = io.BytesIO()
        np.savez(buffer, value=np.frombuffer(text, dtype=np.uint8), **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    def unpack(self, data: bytes) -> Any:
        """Return the value that `pack` packed; raises ValueError for an object of another class."""
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return decode(json.loads(archive["value"].tobytes()), archive, self._decode_other)

    @cached_property
    def _by_name(self) -> dict[str, type]:
        return {_name(cls): cls for cls in self.classes}

    def _encode_other(self, value: Any, where: str, arrays: Arrays) -> Any:
        kind = type(value)
        if kind is type and value in (np.float32, np.float64):
            return {"dtype": value.__name__}
        if _name(kind) not in self._by_name:
            raise TypeError(f"a value of {kind.__module__}.{kind.__qualname__} cannot be packed")
        state = encode(value.__getstate__() or {}, where, arrays, self._encode_other, exact=True)
        return {"object": [_name(kind), state]}

    def _decode_other(self, value: Mapping[str, Any], archive: Mapping[str, NDArray[Any]]) -> Any:
        if "dtype" in value:
            return {"float32": np.float32, "float64": np.float64}[value["dtype"]]
        name, state = value["object"]
        module, _, kind = name.rpartition(".")
        name = f"{moved_to(module) or module}.{kind}"
        if name not in self._by_name:
            raise ValueError(f"an object of {name!r} cannot be unpacked")
        made: Any = object.__new__(self._by_name[name])
        values = decode(state, archive, self._decode_other)
        if hasattr(made, "__setstate__"):
            made.__setstate__(values)
        else:
            made.__dict__.update(values)
        return made


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
