"""Messages: whole and typed at the other end, or refused."""

import importlib
import pkgutil
import tracemalloc
import types
import typing
import zlib

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

import dimargin.gossip
from dimargin.gossip import messages
from dimargin.gossip.differences import Change
from dimargin.gossip.messages import PROTOCOL_VERSION, Array, Message, MessageError, decoder, encode, pack, unpack


class Numbers(Message, frozen=True, tag="numbers"):
    count: int
    values: Array


class Text(Message, frozen=True, tag="text"):
    text: str


class Foreign(Message, frozen=True, tag="foreign"):
    text: str


read = decoder((Numbers, Text))
dtypes = st.sampled_from(["f8", "f4", "i8", "i4", "?", "u1"])


@given(
    st.integers(-(2**60), 2**60), dtypes.flatmap(lambda d: arrays(d, st.sampled_from([(), (0,), (3,), (2, 5), (1, 0)])))
)
def test_messages_travel_bit_by_bit(count, values):
    found = read(encode(Numbers(count, values)))
    assert type(found) is Numbers and found.count == count
    assert found.values.dtype == values.dtype and found.values.shape == values.shape
    assert found.values.tobytes() == values.tobytes()


def test_arrays_in_any_memory_order():
    values = np.arange(12.0).reshape(3, 4)[::2, ::-1]
    assert_array_equal(read(encode(Numbers(1, values))).values, values)
    assert_array_equal(read(encode(Numbers(1, values.astype(">f8")))).values, values)


def test_a_message_brings_no_writable_memory():
    assert not read(encode(Numbers(1, np.ones(2)))).values.flags.writeable


@given(st.binary(max_size=60))
def test_noise_is_refused(data):
    with pytest.raises(MessageError):
        read(data)


@given(st.integers(0, 200), st.integers(0, 255))
def test_damaged_messages_are_refused_or_read_and_nothing_else(index, value):
    data = bytearray(encode(Numbers(7, np.arange(10.0))))
    data[index % len(data)] = value
    try:
        found = read(bytes(data))
    except MessageError:
        return
    assert type(found) in (Numbers, Text)


@pytest.mark.parametrize(
    "data, text",
    [
        (b"dm", "not a dimargin message"),
        (b"xx\x01abc", "not a dimargin message"),
        (encode(Text("a"))[:-1], "truncated"),
        (encode(Text("a")) + b"\x00", "trailing characters"),
        (b"dm" + bytes([PROTOCOL_VERSION + 1]) + encode(Text("a"))[3:], "protocol version 2, expected version 1"),
        (encode(Foreign("a")), "Invalid value 'foreign'"),
    ],
)
def test_refusals_say_why(data, text):
    with pytest.raises(MessageError, match=text):
        read(data)


def test_arrays_that_lie_about_their_shape_are_refused():
    import msgspec

    for fields in (
        ["<f8", [2], b"1234567"],
        ["<f8", [-1], b""],
        ["object", [1], b"12345678"],
        ["<f8", 3, b""],
        5,
        ["<f8", [2**27, 0], b""],
    ):
        data = (
            b"dm"
            + bytes([PROTOCOL_VERSION])
            + msgspec.msgpack.encode({"kind": "numbers", "count": 1, "values": fields})
        )
        with pytest.raises(MessageError):
            read(data)


def test_messages_above_the_cap_are_refused():
    small = decoder((Numbers,), largest=100)
    with pytest.raises(MessageError, match="expected at most 100"):
        small(encode(Numbers(1, np.ones(50))))


def test_only_numbers_are_sent():
    with pytest.raises(TypeError, match="dtype object"):
        encode(Numbers(1, np.array([object()])))
    with pytest.raises(TypeError, match="a complex cannot be sent"):
        encode(Text(1j))


def test_states_are_packed_and_unpacked():
    state = {"a": np.arange(6).reshape(2, 3), "b": {"c": [1, 2.5, "x", None, True], "d": np.float64(2.5)}, "e": (1, 2)}
    found = unpack(pack(state))
    assert_array_equal(found["a"], state["a"])
    assert found["a"].flags.writeable
    assert found["b"] == {"c": [1, 2.5, "x", None, True], "d": 2.5} and found["e"] == [1, 2]
    with pytest.raises(MessageError, match="invalid state"):
        unpack(b"\xc1")


# ---- kinds of messages -----------------------------------------------------------------------------------------------


def is_declared(hint):
    """Whether an annotation limits the values of a field."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(map(is_declared, typing.get_args(hint)))
    if hint in (bool, types.NoneType) or typing.get_origin(hint) is typing.Literal:
        return True
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return not undeclared(hint)
    return any(isinstance(limit, msgspec.Meta | messages.Numbers) for limit in getattr(hint, "__metadata__", ()))


def undeclared(kind):
    """Fields that may have any value of their type."""
    hints = typing.get_type_hints(kind, include_extras=True)
    # A difference is checked when it is added to the vector that it refers to, whose size nobody
    # else knows.
    hints = {name: hint for name, hint in hints.items() if typing.get_origin(hint) is not typing.ClassVar}
    return [name for name, hint in hints.items() if hint is not Change and not is_declared(hint)]


def test_every_field_of_every_message_declares_its_valid_values():
    for module in pkgutil.walk_packages(dimargin.gossip.__path__, "dimargin.gossip."):
        if module.name != "dimargin.gossip.flower":  # It has no messages, and needs Flower.
            importlib.import_module(module.name)
    kinds = [kind for kind in descendants(Message) if kind.__module__.startswith("dimargin.")]
    assert len(kinds) > 8
    assert not {kind.__name__: undeclared(kind) for kind in kinds if undeclared(kind)}
    assert undeclared(Foreign) == ["text"] and undeclared(Numbers) == ["count", "values"]


def descendants(kind):
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


# ---- compressed messages ---------------------------------------------------------------------------------------------


class Repetitive(Message, frozen=True, tag="repetitive"):
    may_be_compressed = True

    values: typing.Annotated[Array, messages.Numbers()]


def test_messages_that_repeat_themselves_are_compressed():
    data = encode(Repetitive(np.zeros(1000)))
    assert len(data) < 100 < len(encode(Repetitive(np.random.default_rng(0).normal(size=100))))
    assert_array_equal(decoder((Repetitive,))(data).values, np.zeros(1000))
    short = encode(Repetitive(np.array([1.5])))
    assert decoder((Repetitive,))(short).values.tolist() == [1.5]


def test_what_is_compressed_may_not_be_longer_than_a_message():
    data = encode(Repetitive(np.zeros(1000)))
    assert decoder((Repetitive,), 9000)(data).values.shape == (1000,)
    with pytest.raises(MessageError, match="its compressed content is damaged, or has more than 2000 bytes"):
        decoder((Repetitive,), 2000)(data)
    bomb = data[:3] + zlib.compress(b"\0" * 10**8)
    tracemalloc.start()
    with pytest.raises(MessageError, match="has more than 1000000 bytes"):
        decoder((Repetitive,), 10**6)(bomb)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


@pytest.mark.parametrize("damage", [lambda data: data[:-3], lambda data: data + b"x", lambda data: data[:3] + b"noise"])
def test_damaged_compressed_messages_are_refused(damage):
    with pytest.raises(MessageError, match="invalid message"):
        decoder((Repetitive,))(damage(encode(Repetitive(np.zeros(1000)))))
