"""Messages between sites: typed, versioned values of bounded size, in which nothing can be executed.

A message is a subclass of `Message` with annotated fields: numbers, texts, lists and dictionaries
of them, and arrays. On the wire it is two bytes of `MAGIC`, one of `PROTOCOL_VERSION`, and
MessagePack, in which an array is its dtype, its shape and its raw little-endian values. Messages of
kinds that repeat themselves are compressed by zlib if that makes them shorter; their version is that
of `_COMPRESSED`.

The valid values of a field are declared with it, and checked once, when a message is decoded: by
`Meta` of msgspec for numbers, texts, lists and dictionaries, by `Numbers` for arrays, and by
`Message.contradiction` for fields that depend on each other.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dimargin.gossip.limits import LIMITS
from dimargin.system.printing import PrintableError

MAGIC = b"dm"
PROTOCOL_VERSION = 1
_COMPRESSED = PROTOCOL_VERSION + 128
_WIRE_DTYPES = ("<f8", "<f4", "<i8", "<i4", "|b1", "|u1")
Array = np.ndarray[Any, np.dtype[Any]]
_min, _max = np.minimum.reduce, np.maximum.reduce  # NaN if there is one, like np.min; twice as fast on short arrays.


class MessageError(PrintableError, ValueError):
    """Error for bytes that this site cannot read as a message; the text says why."""


class UnsoundError(MessageError):
    """Error for a message of a known kind with content that no correct site would send."""


@dataclass(frozen=True)
class Numbers:
    """Constraint on an array in a message, as an annotation of its field; NaN is never in the range."""

    dimensions: tuple[int, ...] = (1,)  # The allowed numbers of dimensions.
    low: float = -LIMITS.number
    high: float = LIMITS.number
    dtype: str = "<f8"

    def fault(self, array: Array) -> str | None:
        """Return why an array breaks the constraint; None if it does not."""
        if array.dtype.str != self.dtype:
            return f"is of dtype {array.dtype.str}, expected {self.dtype}"
        if array.ndim not in self.dimensions:
            return f"has shape {array.shape}, expected {' or '.join(map(str, self.dimensions))} dimensions"
        if array.size and not (_min(array, None) >= self.low and _max(array, None) <= self.high):
            return f"has NaN, infinite or other values outside {self.low:g} .. {self.high:g}"
        return None


Count = Annotated[int, Meta(ge=0, le=LIMITS.count)]
SiteName = Annotated[str, Meta(min_length=1, max_length=LIMITS.name)]
# NumPy strips trailing NUL characters from texts, so texts have none.
Text = Annotated[str, Meta(max_length=LIMITS.text, pattern="^[^\\x00]*$")]
Digest = Annotated[str, Meta(max_length=LIMITS.digest)]
Finite = Annotated[float, Meta(ge=-LIMITS.sum, le=LIMITS.sum)]


class Message(msgspec.Struct, frozen=True, tag_field="kind"):
    """Base class of all messages between sites."""

    may_be_compressed: ClassVar[bool] = False

    def contradiction(self) -> str | None:
        """Return why fields that are valid one by one contradict each other; None if they do not."""
        return None


def _encode_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        dtype = array.dtype.newbyteorder("<").str if array.dtype.itemsize > 1 else array.dtype.str
        if dtype not in _WIRE_DTYPES:
            raise TypeError(
                f"an array of dtype {array.dtype} cannot be sent; expected one of {', '.join(_WIRE_DTYPES)}"
            )
        return (dtype, value.shape, array.astype(dtype, copy=False).data.cast("B") if array.size else b"")
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def _decode_array(kind: Any, value: Any) -> NDArray[Any]:
    try:
        dtype, shape, raw = value
        if dtype not in _WIRE_DTYPES or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError(f"an array cannot have dtype {dtype!r} and shape {shape!r}")
        if math.prod(shape) * np.dtype(dtype).itemsize != len(raw):
            raise ValueError(f"{len(raw)} bytes for an array of shape {tuple(shape)}")
        if (
            max(shape, default=0) > LIMITS.message
        ):  # An array of shape (10**9, 0) has no bytes, but its row norms would take memory.
            raise ValueError(f"an array of shape {tuple(shape)} does not fit into a message of {LIMITS.message} bytes")
        return np.frombuffer(raw, dtype).reshape(shape)
    except TypeError as error:
        raise ValueError(f"expected an array, got {type(value).__name__}") from error


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_array)


def encode(message: Message) -> bytes:
    """Encode a message as bytes."""
    body = _encoder.encode(message)
    if message.may_be_compressed and len(short := zlib.compress(body)) < len(body):
        return MAGIC + bytes([_COMPRESSED]) + short
    return MAGIC + bytes([PROTOCOL_VERSION]) + body


@cache
def decoder(kinds: tuple[type[Message], ...], largest: int = LIMITS.message) -> Callable[[bytes], Message]:
    """Return a function that decodes messages of these kinds, and refuses everything else.

    It raises MessageError if there are more than `largest` bytes, or if they are damaged or of
    another protocol version or kind, and UnsoundError for a message with invalid content. The
    arrays of its messages are read-only.

    Examples
    --------
    >>> import numpy as np
    >>> class Greeting(Message, frozen=True, tag="greeting"):
    ...     text: Text
    ...     values: Annotated[Array, Numbers()]
    >>> data = encode(Greeting("good morning", np.arange(3.0)))
    >>> decoder((Greeting,))(data).values
    array([0., 1., 2.])
    >>> decoder((Greeting,))(data[:-1])
    Traceback (most recent call last):
    dimargin.gossip.messages.MessageError: invalid message: Input data was truncated
    """
    decode = msgspec.msgpack.Decoder(reduce(or_, kinds), dec_hook=_decode_array).decode
    known = {str(kind.__struct_config__.tag) for kind in kinds}
    head = len(MAGIC) + 1

    def read(data: bytes) -> Message:
        if len(data) > largest:
            raise MessageError(f"a message of {len(data)} bytes, expected at most {largest}")
        if data[: len(MAGIC)] != MAGIC or len(data) < head:
            raise MessageError("not a dimargin message")
        if data[len(MAGIC)] not in (PROTOCOL_VERSION, _COMPRESSED):
            raise MessageError(
                f"a message of protocol version {data[len(MAGIC)]}, expected version {PROTOCOL_VERSION}: "
                "all sites must use the same version"
            )
        body = memoryview(data)[head:]
        if data[len(MAGIC)] == _COMPRESSED:
            body = memoryview(_decompressed(body, largest))
        try:
            message = decode(body)
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            is_known = _claimed_kind(body) in known
            raise (UnsoundError if is_known else MessageError)(f"invalid message: {error}") from error
        fault = message_fault(message) or message.contradiction()
        if fault is not None:
            raise UnsoundError(f"invalid message: {fault}")
        return message

    return read


def _decompressed(data: memoryview, largest: int) -> bytes:
    """Return what zlib has compressed; raise MessageError if it is damaged or longer than `largest` bytes."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(data, largest)
    except zlib.error as error:
        raise MessageError(f"invalid message: {error}") from error
    if not unpacker.eof or unpacker.unused_data:
        raise MessageError(f"invalid message: its compressed content is damaged, or has more than {largest} bytes")
    return found


class _Tagged(msgspec.Struct):
    kind: str


_read_tag = msgspec.msgpack.Decoder(_Tagged).decode


def _claimed_kind(body: memoryview) -> str | None:
    """Return the kind of message that these bytes claim to be; None if they cannot be read."""
    try:
        return _read_tag(body).kind
    except (msgspec.DecodeError, ValueError, RecursionError, MemoryError):
        return None


@cache
def _checked_fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, Numbers | None], ...]:
    """Return the fields of a kind to check: arrays with their constraint, nested structs with None."""
    found: list[tuple[str, Numbers | None]] = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        options = [hint, *get_args(hint)]
        numbers = [one for option in options for one in getattr(option, "__metadata__", ()) if type(one) is Numbers]
        if numbers:
            found.append((name, numbers[0]))
        elif any(isinstance(option, type) and issubclass(option, msgspec.Struct) for option in options):
            found.append((name, None))
    return tuple(found)


def message_fault(part: msgspec.Struct) -> str | None:
    """Return why an array of a message, or of a nested struct, breaks its constraint; None if all are valid."""
    for name, numbers in _checked_fields(type(part)):
        value = getattr(part, name)
        fault = None if value is None else message_fault(value) if numbers is None else numbers.fault(value)
        if fault is not None:
            return fault if numbers is None else f"{name} {fault}"
    return None


def pack(state: Mapping[str, Any]) -> bytes:
    """Encode a dictionary as bytes; its values are those of messages, or nested dictionaries."""
    return _state_encoder.encode(state)


def digest_of(state: Mapping[str, Any]) -> str:
    """Return a digest, sixteen hexadecimal digits, of what `pack` encodes."""
    return hashlib.sha256(pack(state)).hexdigest()[:16]


def unpack(data: bytes) -> dict[str, Any]:
    """Decode the output of `pack`; raise MessageError for anything else."""
    try:
        return _decode_state_value(msgspec.msgpack.decode(data))  # type: ignore[no-any-return]
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise MessageError(f"invalid state: {error}") from error


_ARRAY_KEY = "__array__"  # A dictionary with only this key stands for an array in a state.


def _encode_state_value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {_ARRAY_KEY: _encode_array(value)}
    return dict(value) if isinstance(value, Mapping) else _encode_array(value)


_state_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_state_value)


def _decode_state_value(value: Any) -> Any:
    if isinstance(value, dict):
        if _ARRAY_KEY in value:
            return _decode_array(None, value[_ARRAY_KEY]).copy()
        return {key: _decode_state_value(item) for key, item in value.items()}
    return [_decode_state_value(item) for item in value] if isinstance(value, list) else value
