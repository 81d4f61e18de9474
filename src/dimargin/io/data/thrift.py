"""Thrift's compact protocol, in which Parquet writes its footer and the headers of its pages."""

from __future__ import annotations

from typing import Any

# The types of fields. A boolean field has its value as its type.
TRUE, _FALSE, BYTE, INT16, INT32, INT64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
Struct = dict[tuple[int, int], Any]
"""Integers, booleans (as type TRUE), lists and structs by field number and type."""


class Parser:
    """Parser of bytes, with its position `at`.

    Raises IndexError if the bytes end too early, and ValueError or RecursionError for invalid
    bytes.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self) -> Struct:
        """Return the fields of a struct; the last value of a repeated field counts."""
        fields, number, data = Struct(), 0, self._data
        while True:
            head = data[self.at]
            self.at += 1
            if not head:
                return fields
            number = number + (head >> 4) if head >> 4 else self.whole()
            kind = head & 15
            if kind <= _FALSE:
                fields[number, TRUE] = kind == TRUE
            else:
                value = self._value(kind)
                if value is not None:
                    fields[number, kind] = value

    def _value(self, kind: int) -> Any:
        if kind in (INT16, INT32, INT64):
            return self.whole()
        if kind == STRUCT:
            return self.struct()
        if kind == LIST:
            return self._list()
        if kind == BINARY:
            length = self.varint()
            self.at += length
        elif kind in (BYTE, DOUBLE):
            self.at += 1 if kind == BYTE else 8
        else:
            raise ValueError(f"a field of unknown type {kind}")
        return None

    def _list(self) -> list[Any]:
        head = self._data[self.at]
        self.at += 1
        size, kind = head >> 4, head & 15
        size = self.varint() if size == 15 else size
        if size > len(self._data) - self.at:
            raise IndexError(f"a list of {size} values")
        return [self._value(kind if kind > _FALSE else BYTE) for _ in range(size)]

    def varint(self) -> int:
        """Return an unsigned integer."""
        data = self._data
        byte = data[self.at]
        self.at += 1
        if byte < 128:
            return byte
        value, shift = byte & 127, 7
        while byte > 127:
            byte = data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if shift > 70:
                raise ValueError("a number of more than 64 bits")
        return value

    def whole(self) -> int:
        """Return a signed integer."""
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def skip(self, length: int) -> bytes:
        """Return the next bytes, which may be fewer at the end."""
        self.at += length
        return self._data[self.at - length : self.at]
