r"""Vectors sent repeatedly as differences from what the receiver is known to have, in at most a byte per number.

The vector of message k is sent as ``V_k = P + Q(e)``, where P is the prediction of both ends from
the last message b that the receiver has acknowledged. One number n of the vector, the weight of
Push-Sum, is sent exactly. The sums are predicted to grow in proportion to it, at the rate r_b that
they had until then:

    P = V_b + (n_k - n_b) r_b,    e = (wanted vector) - P,    r_k = r_b + Q(e) / max(n_k - n_b, s_k),

where s_k is the largest recent growth of n: a share of little weight says little about the ratio.

Once sites agree, Push-Sum's sums grow as predicted, whatever the network does to messages, and take
no bytes. The other numbers are predicted to stay as they are. Q keeps the sign and rounds the
logarithm: it is a contraction, ``|e - Q(e)| <= c |e|`` with c = 0.09 for the numbers that are sent.
Both ends compute the same V_k, bit for bit, so that the error of Q is part of the next message's
difference and does not add up (error feedback; Seide et al., Interspeech 2014; Karimireddy et al.,
ICML 2019). A message that is lost, repeated or overtaken does no harm, since each refers to one
that is known to have arrived.

Sending only the largest differences ("top k") was tried: with half of the numbers, tracked
gradients diverged on a9a.
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

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Count
from dimargin.system.arrays import Floats

_LEVELS_PER_OCTAVE = 4  # Levels of Q for every power of two.
# The constants below are exact powers of two times four literals, and so the same on every machine.
_LEVEL_SIZES = np.ldexp([1.0, 2**-0.25, 2**-0.5, 2**-0.75] * 32, -(np.arange(128) // _LEVELS_PER_OCTAVE))
_EXPONENT_RANGE = -1000, 990

Exponent = Annotated[int, Meta(ge=_EXPONENT_RANGE[0], le=_EXPONENT_RANGE[1])]


class Change(msgspec.Struct, frozen=True, array_like=True):
    """Part of a message that has a vector as a difference."""

    base: Count  # Sequence of the message to which the difference refers.
    tops: Annotated[list[Exponent], Meta(max_length=LIMITS.terms)]  # Powers of two above the numbers of each part.
    # Compressed bytes, one per number: zero if unchanged, otherwise sign and level below the top.
    levels: bytes
    check: int  # CRC-32 of the vector's bytes.


@dataclass
class _States:
    """Vectors of the last eight messages over one edge, and their growth, by sequence.

    Before the first message, which has sequence one, all numbers were zero.
    """

    size: int
    growing: int  # The first `growing` numbers are sums.
    exact: int  # Index of the number that is sent exactly.
    known: dict[int, tuple[Floats, Floats, float]] = field(default_factory=dict)  # Vector, r and s by sequence.

    def __post_init__(self) -> None:
        self.known = self.known or {0: self._zeros}

    @property
    def _zeros(self) -> tuple[Floats, Floats, float]:
        return np.zeros(self.size), np.zeros(self.size), 0.0

    def add(self, sequence: int, vector: Floats, base: int | None = None) -> None:
        """Remember the vector of a message, which was sent as a difference from message `base`, or whole."""
        rate, max_growth = np.zeros(self.size), 0.0
        if base is not None:
            before, rate, max_growth = self.known[base]
            weight = float(vector[self.exact] - before[self.exact])
            max_growth = max(weight, 0.95 * max_growth)
            if max_growth > 0:
                change = (vector - self.expected(base, float(vector[self.exact]))) / max_growth
                change[self.growing :] = 0.0
                rate = rate + change
        if sequence <= max(self.known, default=0):  # The sender has restarted.
            self.known.clear()
        self.known[sequence] = vector, rate, max_growth
        while len(self.known) > 8:
            del self.known[min(self.known)]

    def expected(self, base: int, weight: float) -> Floats:
        """Return the prediction, from message `base`, of a message with this weight."""
        vector, rate, _ = self.known[base]
        predicted: Floats = vector + (weight - vector[self.exact]) * rate
        predicted[self.exact] = weight
        return predicted

    def drop_before(self, base: int) -> None:
        """Forget the messages before `base`, to which the other end will not refer any more."""
        for sequence in [k for k in self.known if k < base]:
            del self.known[sequence]


class Outgoing(_States):
    """Sender's end of an edge."""

    def change(
        self,
        sequence: int,
        acknowledged: int,
        wanted: Floats,
        sizes: Floats,
        parts: Sequence[slice],
    ) -> tuple[Change, Floats] | None:
        """Return the difference to send and the resulting vector, or None if the vector must be sent whole.

        Parameters
        ----------
        sequence, acknowledged : int
            Number of the message, and of the last one that the receiver has acknowledged.
        wanted, sizes : ndarray of shape (k,)
            The vector, and the sizes of its numbers: differences below 2^-12 of these are not sent.
        parts : sequence of slice
            Parts of numbers of similar sizes, without the number that is sent exactly.
        """
        base = acknowledged if acknowledged in self.known else 0
        if base not in self.known:
            return None
        self.drop_before(base)
        predicted = self.expected(base, wanted[self.exact])
        error = wanted - predicted
        error[np.abs(error) <= 2.0**-12 * sizes] = 0.0
        tops, levels = _quantised(error, parts)
        vector = predicted + _dequantised(levels, tops, parts)
        self.add(sequence, vector, base)
        packer = zlib.compressobj(9, wbits=-15)
        data = packer.compress(levels.tobytes()) + packer.flush()
        return Change(base, tops, data, zlib.crc32(vector.tobytes())), vector


class Incoming(_States):
    """Receiver's end of an edge."""

    def vector(self, sequence: int, change: Change, parts: Sequence[slice], weight: float) -> Floats | None:
        """Return the vector of a message, or None if it refers to one that is not known here.

        `weight` is the number that was sent exactly.

        Raises
        ------
        ValueError
            If no correct sender can have sent the message; the text says why.
        """
        if len(change.tops) != len(parts):
            raise ValueError(f"its difference has {len(change.tops)} parts, expected {len(parts)}")
        size, unpacker = self.size, zlib.decompressobj(wbits=-15)
        try:
            data = unpacker.decompress(change.levels, size + 1)
        except zlib.error as error:
            raise ValueError(f"its difference cannot be read: {error}") from error
        if len(data) != size or not unpacker.eof:
            raise ValueError(f"its difference does not have {size} numbers")
        if change.base == 0:  # The sender has restarted, or has received no answer yet.
            self.known.setdefault(0, self._zeros)
        if change.base not in self.known or sequence <= change.base:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            difference = _dequantised(np.frombuffer(data, np.int8), change.tops, parts)
            vector = self.expected(change.base, weight) + difference
        return vector if zlib.crc32(vector.tobytes()) == change.check else None


def _quantised(error: Floats, parts: Sequence[slice]) -> tuple[list[int], NDArray[np.int8]]:
    """Return the tops and levels of a difference, as in `Change`."""
    tops, levels = [], np.zeros(len(error), dtype=np.int8)
    for part in parts:
        sizes = np.abs(error[part])
        top = int(np.clip(np.ceil(np.log2(max(float(sizes.max(initial=0.0)), 1e-300))), *_EXPONENT_RANGE))
        with np.errstate(divide="ignore"):
            level = 1 + np.rint(_LEVELS_PER_OCTAVE * (top - np.log2(sizes)))
        levels[part] = np.where(level < 128, np.sign(error[part]) * np.clip(level, 1, 127), 0)
        tops.append(top)
    return tops, levels


def _dequantised(levels: NDArray[np.int8], tops: Sequence[int], parts: Sequence[slice]) -> Floats:
    values = np.zeros(len(levels))
    for top, part in zip(tops, parts, strict=True):
        own = levels[part].astype(np.int64)
        values[part] = np.sign(own) * np.ldexp(_LEVEL_SIZES[np.maximum(np.abs(own), 1) - 1], top)
    return values
