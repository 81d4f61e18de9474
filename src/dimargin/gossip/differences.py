r"""Vectors sent again and again as differences from what the receiver is known to have, in a byte a number or less.

The vector of message k is sent as ``V_k = P + Q(e)``, where P is what both ends expect of it, from the last message b
that the receiver has acknowledged. One number n of the vector, the weight of Push-Sum, is sent as it is, and the sums
are expected to grow with it as they did until then:

    P = V_b + (n_k - n_b) r_b,    e = (wanted vector) - P,    r_k = r_b + Q(e) / max(n_k - n_b, s_k),

where s_k is the largest growth of n of late: what little weight brings says little about the ratio.

Once sites agree, Push-Sum's sums do, whatever the network does to messages, and nothing is sent of them. The other
numbers are expected to stay as they are. Q keeps the sign and rounds the logarithm: it is a contraction, ``|e - Q(e)|
<= c |e|`` with c = 0.09 for what is sent. Both ends compute the same V_k, bit for bit, so that what Q has left out
stays in the difference of the next message: no error adds up (error feedback; Seide et al., Interspeech 2014;
Karimireddy et al., ICML 2019). A message that is lost, repeated or overtaken does no harm, as each refers to one that
is known to have arrived.

Differences of the largest numbers only ("top k") were tried: with half of the numbers, gradients that are tracked by
them diverged on a9a.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dimargin.gossip import limits
from dimargin.gossip.messages import Count
from dimargin.system.arrays import Floats

_KEPT = 8  # messages that either end remembers of an edge, of which the other may speak
_FORGETTING = 0.95
_STEPS = 4  # levels of Q for every power of two
_LEVELS = np.ldexp([1.0, 2**-0.25, 2**-0.5, 2**-0.75] * 32, -(np.arange(128) // _STEPS))  # the same on every machine
_UNCHANGED = 2.0**-12  # of the size of a number: a smaller difference is not sent
_EXPONENTS = -1000, 990

Exponent = Annotated[int, Meta(ge=_EXPONENTS[0], le=_EXPONENTS[1])]


class Change(msgspec.Struct, frozen=True, array_like=True):
    """Part of a message that has a vector as a difference."""

    base: Count  # sequence of the message that it refers to
    tops: Annotated[list[Exponent], Meta(max_length=limits.TERMS)]  # powers of two above the numbers of each part
    # a byte for every number, compressed: zero for none, else its sign and its level below the top, counted from one
    levels: bytes
    check: int  # CRC-32 of the vector's bytes


@dataclass
class _States:
    """Vectors of the last messages over one edge, and how they grow, by sequence.

    Before the first message, which has sequence one, all numbers were zero.
    """

    size: int
    growing: int  # so many numbers, the first, are sums
    exact: int  # index of the one that is sent as it is
    known: dict[int, tuple[Floats, Floats, float]] = field(default_factory=dict)  # vector, r and s

    def __post_init__(self) -> None:
        self.known = self.known or {0: self._nothing}

    @property
    def _nothing(self) -> tuple[Floats, Floats, float]:
        return np.zeros(self.size), np.zeros(self.size), 0.0

    def add(self, sequence: int, vector: Floats, base: int | None = None) -> None:
        """Remember the vector of a message, which was sent as a difference from that of another, or whole."""
        rate, most = np.zeros(self.size), 0.0
        if base is not None:
            before, rate, most = self.known[base]
            weight = float(vector[self.exact] - before[self.exact])
            most = max(weight, _FORGETTING * most)
            if most > 0:
                change = (vector - self.expected(base, float(vector[self.exact]))) / most
                change[self.growing :] = 0.0
                rate = rate + change
        if sequence <= max(self.known, default=0):  # the sender has begun anew
            self.known.clear()
        self.known[sequence] = vector, rate, most
        while len(self.known) > _KEPT:
            del self.known[min(self.known)]

    def expected(self, base: int, weight: float) -> Floats:
        """Return what is expected of a message with this weight."""
        vector, rate, _ = self.known[base]
        expected: Floats = vector + (weight - vector[self.exact]) * rate
        expected[self.exact] = weight
        return expected

    def drop_before(self, base: int) -> None:
        """Forget the messages before one, of which the other end will not speak any more."""
        for sequence in [k for k in self.known if k < base]:
            del self.known[sequence]


class Outgoing(_States):
    """Sender's end."""

    def change(
        self,
        sequence: int,
        acknowledged: int,
        wanted: Floats,
        sizes: Floats,
        parts: Sequence[slice],
    ) -> tuple[Change, Floats] | None:
        """Return the difference to send, and the vector that it makes; None if it must be whole.

        Parameters
        ----------
        sequence, acknowledged : int
            Number of the message, and of the last one that the receiver has got.
        wanted, sizes : ndarray of shape (k,)
            The vector, and the size of its numbers, to which a difference is compared.
        parts : sequence of slice
            Parts of numbers of similar sizes, without the one that is sent as it is.
        """
        base = acknowledged if acknowledged in self.known else 0
        if base not in self.known:
            return None
        self.drop_before(base)
        expected = self.expected(base, wanted[self.exact])
        error = wanted - expected
        error[np.abs(error) <= _UNCHANGED * sizes] = 0.0
        tops, levels = _rounded(error, parts)
        vector = expected + _values(levels, tops, parts)
        self.add(sequence, vector, base)
        packer = zlib.compressobj(9, wbits=-15)
        data = packer.compress(levels.tobytes()) + packer.flush()
        return Change(base, tops, data, zlib.crc32(vector.tobytes())), vector


class Incoming(_States):
    """Receiver's end."""

    def vector(self, sequence: int, change: Change, parts: Sequence[slice], weight: float) -> Floats | None:
        """Return the vector of a message; None if it refers to one that is not known here.

        `weight` is the number that was sent as it is.

        Raises
        ------
        ValueError
            No correct sender can have sent it; the text says why.
        """
        if len(change.tops) != len(parts):
            raise ValueError(f"its difference has {len(change.tops)} parts, expected {len(parts)}")
        size, unpacker = self.size, zlib.decompressobj(wbits=-15)
        try:
            data = unpacker.decompress(change.levels, size + 1)
        except zlib.error as error:
            raise ValueError(f"its difference cannot be read: {error}") from error
        if len(data) != size or not unpacker.eof:
            raise ValueError(f"its difference is not one of {size} numbers")
        if change.base == 0:  # the sender has begun anew, or has had no answer yet
            self.known.setdefault(0, self._nothing)
        if change.base not in self.known or sequence <= change.base:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            vector = self.expected(change.base, weight) + _values(np.frombuffer(data, np.int8), change.tops, parts)
        return vector if zlib.crc32(vector.tobytes()) == change.check else None


def _rounded(error: Floats, parts: Sequence[slice]) -> tuple[list[int], NDArray[np.int8]]:
    """Return the tops and the levels of a difference."""
    tops, levels = [], np.zeros(len(error), dtype=np.int8)
    for part in parts:
        sizes = np.abs(error[part])
        top = int(np.clip(np.ceil(np.log2(max(float(sizes.max(initial=0.0)), 1e-300))), *_EXPONENTS))
        with np.errstate(divide="ignore"):
            level = 1 + np.rint(_STEPS * (top - np.log2(sizes)))
        levels[part] = np.where(level < 128, np.sign(error[part]) * np.clip(level, 1, 127), 0)
        tops.append(top)
    return tops, levels


def _values(levels: NDArray[np.int8], tops: Sequence[int], parts: Sequence[slice]) -> Floats:
    """Return the numbers that levels stand for."""
    values = np.zeros(len(levels))
    for top, part in zip(tops, parts, strict=True):
        own = levels[part].astype(np.int64)
        values[part] = np.sign(own) * np.ldexp(_LEVELS[np.maximum(np.abs(own), 1) - 1], top)
    return values
