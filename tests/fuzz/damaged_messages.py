"""Messages as plain values, and damage that can be done to a message of any kind.

Every function of the table `ANY` is given the fields of a genuine message, and returns those of a
damaged one, or bytes.
"""

import math
import struct
import zlib

import msgspec
import numpy as np

HEAD = b"dm\x01"

# ---- genuine messages as plain values, and back ----------------------------------------------------------------------


def plain(data):
    """Fields of a message, in which an array is [dtype, shape, bytes]."""
    return msgspec.msgpack.decode(zlib.decompress(data[3:]) if data[2] > 128 else data[3:])


def packed(fields):
    """The message of these fields."""
    return HEAD + msgspec.msgpack.encode(fields)


def array(values, dtype="<f8"):
    """An array as it is in the fields of a message."""
    values = np.asarray(values, dtype)
    return [dtype, list(values.shape), values.tobytes()]


def values_of(field):
    """The values of an array in the fields of a message."""
    return np.frombuffer(field[2], field[0]).reshape(field[1]).copy()


def spoilt(field, value, rng):
    """An array with this value at a place."""
    values = values_of(field).astype("<f8")
    if values.size:
        values.flat[rng.randrange(values.size)] = value
    else:
        values = np.full((1,) * max(values.ndim, 1), value)
    return array(values)


NUMBERS = (math.nan, math.inf, -math.inf, 1e300, -1e300, 1.7e308)
INTEGERS = (-1, 2**31, 2**32, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**63))


# ---- damage ----------------------------------------------------------------------------------------------------------


def arrays_of(fields):
    """Paths of the arrays in a message."""
    found = [(fields, name) for name, value in fields.items() if is_array(value)]
    if "mass" in fields:
        found += [(fields["mass"], "sent")]
    return found


def is_array(value):
    return isinstance(value, list) and len(value) == 3 and isinstance(value[0], str) and isinstance(value[2], bytes)


def _at_an_array(change):
    def of(fields, rng):
        part, name = rng.choice(arrays_of(fields))
        part[name] = change(part[name], rng)
        return fields

    return of


def _integers_of(fields):
    """Places of the integers in a message: those of the message itself, and of its dictionaries."""
    dictionaries = [fields, *(value for value in fields.values() if isinstance(value, dict))]
    return [(part, name) for part in dictionaries for name, value in part.items() if type(value) is int]


def _at_an_integer(fields, rng):
    if indices := _integers_of(fields):
        part, name = rng.choice(indices)
        part[name] = rng.choice(INTEGERS)
    elif "rows" in fields:
        name = rng.choice(list(fields["rows"]))
        fields["rows"][name] = [rng.choice(INTEGERS), rng.choice(INTEGERS)]
    return fields


def _other_type(fields, rng):
    name = rng.choice([name for name in fields if name != "kind"])
    fields[name] = rng.choice([None, True, 7, -1.5, "x", b"\x00", [], {}, [[[]]], {"a": {"b": 1}}, math.nan])
    return fields


def without_field(fields, rng):
    del fields[rng.choice(list(fields))]
    return fields


def _flipped(fields, rng):
    data = bytearray(packed(fields))
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _cut(fields, rng):
    data = packed(fields)
    return data[: rng.randrange(len(data))]


def _noise(fields, rng):
    return HEAD + rng.randbytes(rng.randrange(60))


def _stranger(fields, rng):
    return rng.choice([b"", b"dm", b"GET / HTTP/1.1\r\n\r\n", b"dm\x02" + packed(fields)[3:], b"\x80\x04pickle"])


def _unknown(fields, rng):
    return {**fields, "kind": rng.choice(["", "card\x00", "Card", "evil", "share"])}


def _deep(fields, rng):
    name = rng.choice([name for name in fields if name != "kind"]).encode()
    return HEAD + b"\x81" + bytes([0xA0 + len(name)]) + name + b"\x91" * rng.choice([100, 10_000]) + b"\x00"


def _bomb(fields, rng):
    """Says that it is very long."""
    head = rng.choice([b"\xdd", b"\xdf", b"\xdb", b"\xc6"]) + struct.pack(">I", rng.choice([2**32 - 1, 2**31, 2**20]))
    return HEAD + rng.choice([b"", b"\x82\xa4kind\xa4card\xa4rows", b"\x82\xa4kind\xa4card\xa6labels"]) + head


def _twice(fields, rng):
    """The same field two times, of which the second is another."""
    one, two = (msgspec.msgpack.encode(part) for part in (fields, _other_type(dict(fields), rng)))
    return HEAD + bytes([0x80 + 2 * len(fields)]) + one[1:] + two[1:] if len(fields) < 8 else HEAD + one + two


def _text(fields, rng):
    bad = rng.choice(["a\x00", "x" * 2000, "", "\u202e", "y" * 256])
    if "sites" in fields:
        fields["sites"] = [bad] * max(1, len(fields["sites"]))
    elif "rows" in fields and isinstance(fields["rows"], dict):
        fields["rows"][bad] = [1, 1]
        fields["labels"] = [*fields["labels"], bad] if rng.random() < 0.5 else fields["labels"]
    elif texts := [name for name, value in fields.items() if isinstance(value, str) and name != "kind"]:
        fields[rng.choice(texts)] = bad * 40
    return fields


ANY = {
    "no-dimensions": _at_an_array(lambda field, rng: array(rng.choice([0.0, 1.0, math.nan]))),
    "three-dimensions": _at_an_array(lambda field, rng: array(np.zeros((1, 2, 3)))),
    "no-rows": _at_an_array(lambda field, rng: array(np.zeros(rng.choice([(0,), (0, 3), (3, 0), (0, 0)])))),
    "other-length": _at_an_array(lambda field, rng: array(np.ones(rng.choice([1, 2, 5, 1000])))),
    "negative-shape": _at_an_array(lambda field, rng: [field[0], [-1], field[2]]),
    "huge-shape": _at_an_array(lambda field, rng: ["<f8", [2**62, 4], b""]),
    "many-dimensions": _at_an_array(lambda field, rng: ["<f8", [1] * rng.choice([33, 65, 5000]), b"\0" * 8]),
    "lying-shape": _at_an_array(lambda field, rng: [field[0], [rng.randrange(99)], field[2]]),
    "other-dtype": _at_an_array(lambda field, rng: array(values_of(field) * 0 + 1, rng.choice(["|b1", "<f4", "|u1"]))),
    "object-dtype": _at_an_array(lambda field, rng: [rng.choice(["|O", "object", "<U9", "", ">f8"]), *field[1:]]),
    "nan-or-infinite": _at_an_array(lambda field, rng: spoilt(field, rng.choice(NUMBERS), rng)),
    "denormal": _at_an_array(lambda field, rng: spoilt(field, rng.choice([1e-320, -1e-320, 5e-324]), rng)),
    "huge-integers": _at_an_integer,
    "other-type": _other_type,
    "field-missing": without_field,
    "bits-flipped": _flipped,
    "cut": _cut,
    "noise": _noise,
    "stranger": _stranger,
    "unknown-kind": _unknown,
    "deep": _deep,
    "bomb": _bomb,
    "field-twice": _twice,
    "bad-text": _text,
}
FLAT = ("other-type", "field-missing", "bits-flipped", "cut", "noise", "stranger", "unknown-kind", "deep", "bomb",
        "field-twice")  # fmt: skip
