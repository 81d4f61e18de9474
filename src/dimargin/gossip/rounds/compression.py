r"""Operators that compress a vector before it is sent.

Each satisfies ``E |Q(x) - x|^2 <= (1 - delta) |x|^2`` (Koloskova, Stich, Jaggi, "Decentralized
stochastic optimization and gossip algorithms with compressed communication", ICML 2019, assumption
1), which CHOCO-SGD needs:

==================  ====================  ==================================================================
`Identity`          delta = 1             8 bytes per number
`TopK`              delta = k/d           4 bytes for each of the k largest numbers, and their places
`RandomK`           delta = k/d           4 bytes for each of k random numbers, and their places
`Quantised`         delta = 1/tau         ``ceil(log2(2 s + 1))`` bits per number, and the norm
`Logarithmic`       delta >= 1/d          ``ceil(log2(2 s + 1))`` bits per number, and the largest size
==================  ====================  ==================================================================

QSGD (Alistarh, Grubic, Li, Tomioka, Vojnovic, NeurIPS 2017) rounds ``s |x_j| / |x|`` at random to
one of the two nearest whole numbers, so that its mean is x. CHOCO-SGD divides that by
``tau = 1 + min(d / s^2, sqrt(d) / s)``. In its authors' program the letters n and d mean d and s;
"b = 3" of the GADGET paper may mean bits or levels. Here s is the number of levels without zero.

`Logarithmic` rounds to the nearest level, each of which is half of the next one, as in quantised
consensus (Carli, Bullo, Zampieri, Int. J. Robust and Nonlinear Control 2010). "Natural compression"
(Horvath et al., MSML 2022) rounds to powers of two at random, so that its mean is x.

The places of k numbers take one bit for every number of the vector or four bytes for each of the k,
whichever is less. The k numbers are sent in single precision, since their rounding errors are part
of later messages, like all that was left out.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Array, Numbers
from dimargin.gossip.rounds.parameter_checks import check_between, check_whole
from dimargin.system.arrays import Floats

_MAX_FLOAT32 = 1e38  # About the largest number in single precision.


class Code(msgspec.Struct, frozen=True, array_like=True):
    """Compressed vector; the operators use one or two of the parts."""

    dense: Annotated[Array, Numbers()] | None = None
    values: Annotated[Array, Numbers(low=-2 * _MAX_FLOAT32, high=2 * _MAX_FLOAT32, dtype="<f4")] | None = None
    places: Annotated[Array, Numbers(low=0, high=2**31, dtype="<i4")] | None = None  # Indices of the values, ascending.
    bits: Annotated[Array, Numbers(low=0, high=255, dtype="|u1")] | None = None  # Packed mask of places, or levels.
    scale: Annotated[float, Meta(ge=0, le=LIMITS.number)] = 0.0


class Compression(ABC):
    """Abstract base class of the operators, each a frozen dataclass of its parameters."""

    @abstractmethod
    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""

    @abstractmethod
    def delta(self, d: int) -> float:
        """Return the constant of the operator for vectors of length d, in (0, 1]."""

    @abstractmethod
    def compress(self, vector: Floats, rng: np.random.Generator) -> Code:
        """Return the code of a vector of shape (d,), from which `restore` computes Q(x)."""

    @abstractmethod
    def fault(self, code: Code, d: int) -> str | None:
        """Return why a code is not one of this operator for a vector of length d, or None."""

    @abstractmethod
    def restore(self, code: Code, d: int) -> Floats:
        """Return the vector of a valid code, of shape (d,)."""


@dataclass(frozen=True)
class Identity(Compression):
    """No compression.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.gossip.rounds import Identity
    >>> rng = np.random.default_rng(0)
    >>> Identity().restore(Identity().compress(np.array([1.0, 2.0]), rng), 2)
    array([1., 2.])
    """

    def validate(self) -> None:
        """Accept anything; the operator has no parameters."""

    def delta(self, d: int) -> float:
        """Return one."""
        return 1.0

    def compress(self, vector: Floats, rng: np.random.Generator) -> Code:
        """Return the vector itself."""
        return Code(dense=vector)

    def fault(self, code: Code, d: int) -> str | None:
        """Return why the length is wrong, or None."""
        return None if code.dense is not None and len(code.dense) == d else f"its code is not that of {d} numbers"

    def restore(self, code: Code, d: int) -> Floats:
        """Return the vector."""
        assert code.dense is not None
        return code.dense


@dataclass(frozen=True)
class _Chosen(Compression):
    """Operator that keeps a share of the numbers, with their places."""

    share: float = 0.1

    def validate(self) -> None:
        """Raise ValueError unless the share is in (0, 1]."""
        check_between("share", self.share, 0, 1, high_included=True)

    def count(self, d: int) -> int:
        """Return k for vectors of length d."""
        return max(1, math.ceil(self.share * d))

    def delta(self, d: int) -> float:
        """Return k/d."""
        return self.count(d) / d

    def _code(self, vector: Floats, chosen: NDArray[np.intp]) -> Code:
        places = np.sort(chosen)
        values = np.clip(vector[places], -_MAX_FLOAT32, _MAX_FLOAT32).astype("<f4")
        if 4 * len(places) < len(vector) / 8:
            return Code(values=values, places=places.astype("<i4"))
        marks = np.zeros(len(vector), dtype=bool)
        marks[places] = True
        return Code(values=values, bits=np.packbits(marks))

    def fault(self, code: Code, d: int) -> str | None:
        """Return why places and values contradict each other or the length, or None."""
        places = self._places(code, d)
        if code.values is None or places is None or len(places) != len(code.values) or len(places) > self.count(d):
            return f"its code is not that of {self.count(d)} of {d} numbers"
        return None

    def restore(self, code: Code, d: int) -> Floats:
        """Return a vector that is zero except at the places of the code."""
        vector = np.zeros(d)
        vector[self._places(code, d)] = code.values
        return vector

    @staticmethod
    def _places(code: Code, d: int) -> NDArray[np.intp] | None:
        """Return the places of the values, or None if they are invalid for length d."""
        if code.places is not None:
            places = code.places.astype(np.intp)
            return places if (np.diff(places) > 0).all() and (not len(places) or places[-1] < d) else None
        if code.bits is None or len(code.bits) != -(-d // 8):
            return None
        marks = np.unpackbits(code.bits)
        return np.flatnonzero(marks) if not marks[d:].any() else None


@dataclass(frozen=True)
class TopK(_Chosen):
    """Operator that keeps a share of the numbers, those of largest size.

    Attributes
    ----------
    share : float in (0, 1], default=0.1
        Fraction of the numbers that is sent, rounded up: at least one number.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.gossip.rounds import TopK
    >>> rng, top = np.random.default_rng(0), TopK(0.5)
    >>> top.restore(top.compress(np.array([1.0, -3.0, 2.0, 0.0]), rng), 4)
    array([ 0., -3.,  2.,  0.])
    """

    def compress(self, vector: Floats, rng: np.random.Generator) -> Code:
        """Return the largest numbers; ties are broken arbitrarily."""
        k = self.count(len(vector))
        return self._code(vector, np.argpartition(-np.abs(vector), k - 1)[:k])


@dataclass(frozen=True)
class RandomK(_Chosen):
    """Operator that keeps a random share of the numbers.

    Attributes
    ----------
    share : float in (0, 1], default=0.1
        Fraction of the numbers that is sent, rounded up: at least one number.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.gossip.rounds import RandomK
    >>> rng, some = np.random.default_rng(0), RandomK(0.5)
    >>> int(np.count_nonzero(some.restore(some.compress(np.ones(8), rng), 8)))
    4
    """

    def compress(self, vector: Floats, rng: np.random.Generator) -> Code:
        """Return numbers at random places."""
        return self._code(vector, rng.choice(len(vector), self.count(len(vector)), replace=False))


@dataclass(frozen=True)
class _Levels(Compression):
    """Operator whose code is a scale and whole numbers from -levels to levels, of the bits that they need."""

    levels: int = 7

    def validate(self) -> None:
        """Raise ValueError unless there are 1 to 2^15 levels."""
        check_whole("levels", self.levels, 1, 2**15)

    @property
    def _n_bits(self) -> int:
        return (2 * self.levels).bit_length()

    def _code(self, signed: NDArray[np.int64], scale: float) -> Code:
        planes = ((signed + self.levels)[:, None] >> np.arange(self._n_bits)) & 1
        single = float(np.float32(min(scale, _MAX_FLOAT32)))  # The short form of a message has four bytes for it.
        return Code(bits=np.packbits(planes.astype(bool).ravel()), scale=single)

    def fault(self, code: Code, d: int) -> str | None:
        """Return why the length is wrong or a level too high, or None."""
        if (
            code.bits is None
            or len(code.bits) != -(-d * self._n_bits // 8)
            or self._signed(code, d).max() > self.levels
        ):
            return f"its code is not that of {d} numbers of {self.levels} levels"
        return None

    def _signed(self, code: Code, d: int) -> NDArray[np.int64]:
        assert code.bits is not None
        planes = np.unpackbits(code.bits)[: d * self._n_bits].reshape(d, self._n_bits)
        return planes.astype(np.int64) @ (1 << np.arange(self._n_bits)) - self.levels


@dataclass(frozen=True)
class Quantised(_Levels):
    """QSGD with `levels` levels in addition to zero, divided by tau.

    Attributes
    ----------
    levels : int in [1, 32768], default=7
        Number s of positive levels; with signs and zero there are 2s + 1 values (4 bits for 7).

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.gossip.rounds import Quantised
    >>> rng, coarse = np.random.default_rng(0), Quantised(levels=3)
    >>> x = np.array([3.0, -4.0, 0.0, 0.0])
    >>> (coarse.restore(coarse.compress(x, rng), 4) * coarse.tau(4)).round(3)
    array([ 3.333, -3.333,  0.   ,  0.   ])
    """

    def tau(self, d: int) -> float:
        """Return the factor by which the variance grows, ``1 + min(d/s^2, sqrt(d)/s)``."""
        return 1 + min(d / self.levels**2, math.sqrt(d) / self.levels)

    def delta(self, d: int) -> float:
        """Return 1/tau."""
        return 1 / self.tau(d)

    def compress(self, vector: Floats, rng: np.random.Generator) -> Code:
        """Round to levels at random; a zero vector has norm and levels of zero."""
        norm = float(np.linalg.norm(vector))
        sizes = np.abs(vector) * (self.levels / norm) if norm > 0 else np.zeros(len(vector))
        rounded = np.minimum(np.floor(sizes + rng.random(len(vector))), self.levels)
        return self._code((np.sign(vector) * rounded).astype(np.int64), norm)

    def restore(self, code: Code, d: int) -> Floats:
        """Return ``|x| / (s tau)`` times the signed levels."""
        return np.asarray(self._signed(code, d) * (code.scale / (self.levels * self.tau(d))))


@dataclass(frozen=True)
class Logarithmic(_Levels):
    """Operator that rounds every number to the largest size, half of it, a quarter of it and so on, or to zero.

    A number that is much smaller than the largest keeps its order of magnitude, while `Quantised`
    sends zero or a whole level: changes of a nearly converged model differ by orders of magnitude.

    Attributes
    ----------
    levels : int in [1, 32768], default=7
        Number s of positive levels, each half of the one above. With signs and zero there are 2s +
        1 values, by default of 4 bits each.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.gossip.rounds import Logarithmic
    >>> rng, halves = np.random.default_rng(0), Logarithmic(levels=3)
    >>> halves.restore(halves.compress(np.array([8.0, -5.0, 3.0, 0.5]), rng), 4)
    array([ 8., -4.,  4.,  0.])
    """

    def delta(self, d: int) -> float:
        """Return ``max(1/d, 8/9 - (d - 1)/4^s)``.

        Rounding changes each number by at most a third of it, or a small one by at most
        ``|x|_max / 2^s``; the largest is exact in single precision.
        """
        return max(1 / d, 8 / 9 - (d - 1) * 0.25**self.levels)

    def compress(self, vector: Floats, rng: np.random.Generator) -> Code:
        """Round to the nearest level, deterministically."""
        top = float(np.abs(vector).max(initial=0.0))
        if top == 0.0:
            return self._code(np.zeros(len(vector), dtype=np.int64), 0.0)
        shares = np.abs(vector) / top
        _, halvings = np.frexp(shares / 0.75)  # A level is the nearest from 3/4 to 3/2 of it.
        level = np.maximum(self.levels - 1 + halvings.astype(np.int64), 1)
        level[shares < math.ldexp(1.0, -self.levels)] = 0  # Zero is nearer.
        return self._code(np.sign(vector).astype(np.int64) * level, top)

    def restore(self, code: Code, d: int) -> Floats:
        """Return the scale halved once per level below the highest, with signs."""
        signed = self._signed(code, d)
        return np.asarray(np.sign(signed) * np.ldexp(code.scale, np.abs(signed) - self.levels))


def check_compression(value: object, optional: bool = False) -> None:
    """Raise ValueError unless a parameter is an operator with valid parameters, or None if optional."""
    if value is None and optional:
        return
    if not isinstance(value, Compression):
        operators = "Identity(), TopK(), RandomK(), Quantised() or Logarithmic()"
        raise ValueError(f"compression must be {'None or ' * optional}an operator such as {operators}, got {value!r}")
    value.validate()
