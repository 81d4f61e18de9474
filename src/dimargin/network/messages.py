"""What travels between sites: typed, versioned values of a bounded size, in which nothing can be executed.

A message is a subclass of `Message` with annotated fields: numbers, texts, lists and dictionaries of them, and arrays.
On the wire it is two bytes of `MAGIC`, one of `PROTOCOL_VERSION`, and MessagePack, in which an array is its dtype, its
shape and its raw little-endian values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

MAGIC = b"dm"
PROTOCOL_VERSION = 1
LARGEST = 64 * 2**20  # bytes of a message unless told otherwise
_DTYPES = ("<f8", "<f4", "<i8", "<i4", "|b1", "|u1")
Array = np.ndarray[Any, np.dtype[Any]]


class MessageError(ValueError):
    """Bytes are no message that this site understands; the text says why."""


class Message(msgspec.Struct, frozen=True, tag_field="kind"):
    """Base of everything that sites send to one another."""


def _array_out(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        dtype = array.dtype.newbyteorder("<").str if array.dtype.itemsize > 1 else array.dtype.str
        if dtype not in _DTYPES:
            raise TypeError(f"an array of dtype {array.dtype} cannot be sent; expected one of {', '.join(_DTYPES)}")
        return (dtype, value.shape, array.astype(dtype, copy=False).data.cast("B") if array.size else b"")
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def _array_in(kind: Any, value: Any) -> NDArray[Any]:
    try:
        dtype, shape, raw = value
        if dtype not in _DTYPES or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError(f"dtype {dtype!r} and shape {shape!r} are no array's")
        if math.prod(shape) * np.dtype(dtype).itemsize != len(raw):
            raise ValueError(f"{len(raw)} bytes for an array of shape {tuple(shape)}")
        return np.frombuffer(raw, dtype).reshape(shape)
    except TypeError as error:
        raise ValueError(f"expected an array, got {type(value).__name__}") from error


_encoder = msgspec.msgpack.Encoder(enc_hook=_array_out)


def encode(message: Message) -> bytes:
    """The message as bytes."""
    return MAGIC + bytes([PROTOCOL_VERSION]) + _encoder.encode(message)


def decoder(kinds: tuple[type[Message], ...], largest: int = LARGEST) -> Callable[[bytes], Message]:
    """What turns bytes into messages of these kinds.

    Parameters
    ----------
    kinds : tuple of subclasses of Message
    largest : int
        Bytes that a message may have.

    Returns
    -------
    callable
        Raises MessageError for bytes that are too many, of another protocol version, damaged or of another kind. The
        arrays of its messages are read-only.

    Examples
    --------
    >>> import numpy as np
    >>> class Greeting(Message, frozen=True, tag="greeting"):
    ...     text: str
    ...     values: Array
    >>> data = encode(Greeting("good morning", np.arange(3.0)))
    >>> decoder((Greeting,))(data).values
    array([0., 1., 2.])
    >>> decoder((Greeting,))(data[:-1])
    Traceback (most recent call last):
    dimargin.network.messages.MessageError: no sound message: Input data was truncated
    """
    decode = msgspec.msgpack.Decoder(reduce(or_, kinds), dec_hook=_array_in).decode
    head = len(MAGIC) + 1

    def read(data: bytes) -> Message:
        if len(data) > largest:
            raise MessageError(f"a message of {len(data)} bytes, expected at most {largest}")
        if data[: len(MAGIC)] != MAGIC or len(data) < head:
            raise MessageError("these bytes are no message of dimargin")
        if data[len(MAGIC)] != PROTOCOL_VERSION:
            raise MessageError(
                f"a message of protocol version {data[len(MAGIC)]}, expected version {PROTOCOL_VERSION}: "
                "all sites need the same"
            )
        try:
            return decode(memoryview(data)[head:])
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
            raise MessageError(f"no sound message: {error}") from error

    return read


def pack(state: Mapping[str, Any]) -> bytes:
    """A dictionary of what messages may hold, and of dictionaries of it, as bytes."""
    return _encoder.encode(_marked(state))


def unpack(data: bytes) -> dict[str, Any]:
    """What `pack` packed; raises MessageError for anything else."""
    try:
        return _unmarked(msgspec.msgpack.decode(data))  # type: ignore[no-any-return]
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise MessageError(f"no sound state: {error}") from error


_ARRAY = "__array__"


def _marked(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {_ARRAY: _array_out(value)}
    if isinstance(value, Mapping):
        return {key: _marked(item) for key, item in value.items()}
    return [_marked(item) for item in value] if isinstance(value, (list, tuple)) else value


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return _array_in(None, value[_ARRAY]).copy() if _ARRAY in value else {k: _unmarked(v) for k, v in value.items()}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value
