"""State files of sites, the checksum made valid again; what a program makes of a sound one is not looked at."""

import msgspec
import numpy as np

from dimargin.gossip.messages import pack
from dimargin.gossip.state_file import _DIGEST_BYTES, _FILE_MAGIC, _STATE_VERSION, StateError, _digest, read_state

from .inputs import check_refusal, file, mutated

_STATES = [
    {"site": "a", "incarnation": 3, "program": {"weights": np.arange(4.0), "round": 2, "known": {"b": [1, 2]}}},
    {"site": "b", "incarnation": 0, "program": {"rows": np.zeros((3, 2)), "labels": ["x", "y"], "nothing": None}},
]
_ODD = [
    {"__array__": ["<f8", [2**62, 4], b""]},
    {"__array__": ["<f8", [-1], b""]},
    {"__array__": 3},
    {"__array__": ["|O", [1], b"x"]},
    {"__array__": ["<f8", [0, 2**62], b""]},
    {"__array__": ["<f8", [2], "text"]},
    {"__array__": ["<f8", 1, b"12345678"]},
    {"__array__": ["<f8", [True], b"12345678"]},
    {"__array__": ["<f8", [1] * 70, b"12345678"]},
    [[[[[[]]]]]],
    {},
    3,
    "x",
]


def generate(rng):
    body = pack(rng.choice(_STATES))
    if rng.random() < 0.3:
        body = msgspec.msgpack.encode({"site": "a", "incarnation": 1, "program": rng.choice(_ODD)})
    elif rng.random() < 0.05:
        body = rng.choice([b"\x91", b"\x81\xa1a"]) * 3000 + b"\x01"  # deep
    body = mutated(rng, body)
    data = _FILE_MAGIC + bytes([_STATE_VERSION]) + _digest(body) + body
    assert len(_digest(body)) == _DIGEST_BYTES
    return mutated(rng, data) if rng.random() < 0.1 else data


def check(data):
    path = file("state", data)
    try:
        state = read_state(path)
    except StateError as error:
        return check_refusal(error, path)
    assert isinstance(state["site"], str) and isinstance(state["incarnation"], int)
    assert isinstance(state["program"], dict)
